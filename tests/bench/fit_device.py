#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits a device model (rlxc --device-model) to runs on a device, and says how far its estimates are from them. Needs Python alone.

    fit_device.py make FOLDER --bin BIN --target cuda [--arch sm_90a] [--start h200]     # graphs and plans, on any machine
    fit_device.py run  FOLDER --bin BIN [--device cuda]                                  # times them, where the device is
    fit_device.py fit  FOLDER --bin BIN --name h100 --output h100.json [--multiprocessors 132]

`make` writes chains of equal steps (device_samples.py) and compiles each in two lengths; what a step takes is the difference of their
times over the steps between. `fit` asks `rlxc estimate` what it expects of the same steps and moves the numbers of the model, a group
of them at a time, until the relative errors are small: Huber's loss of the logarithms, by coordinate descent, each number held near
where the whole group's scale put it. An existing output file keeps its models for other targets.
"""
import argparse
import copy
import datetime
import json
import math
import pathlib
import subprocess
import sys

from device_samples import VARIANTS, samples

HELD = 0.01  # weight of a number's distance from the scaled start, against an error's
FAR = 0.1  # error beyond which the loss grows linearly
TILE_GROUPS = {  # kernel -> the groups that its estimate reads
    "matmul": ["thread_tiles"],
    "matmul_lanes": ["lane_tiles"],
    "attention_lanes": ["lane_tiles"],
    "matmul_coop": ["coop"],
    "matmul_mma": ["mma", "mma_warps", "mma_warpgroups"],
    "matmul_wgmma": ["wgmma"],
    "attention_mma": ["attention"],
    "conv_mma": ["conv"],
    "library": ["library"],
}


def call(command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"fit_device.py: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}exit code {done.returncode}")
    return done.stdout


# ---- numbers of a model: {"mma.start": 1.17} ----


def numbers_of(column):
    numbers = {}
    for key, value in column.items():
        if isinstance(value, dict) and key != "fits":
            numbers |= {f"{key}.{name}": number for name, number in value.items()}
        elif isinstance(value, (int, float)):
            numbers[key] = value
    return numbers


def with_numbers(column, numbers):
    column = copy.deepcopy(column)
    for path, value in numbers.items():
        group, _, name = path.rpartition(".")
        place = column[group] if group else column
        if name in place:
            place[name] = value
    return column


def profile_of(name, target, column):
    return {"rlx_device_model": 1, "name": name, "targets": {target: column}}


# ---- make and run ----


def make(arguments):
    folder, rlxc = arguments.folder, arguments.bin / "rlxc"
    folder.mkdir(parents=True, exist_ok=True)
    profile = json.loads(call([rlxc, "device-models", arguments.start]))
    if arguments.target not in profile["targets"]:
        sys.exit(f"fit_device.py: device model {arguments.start} says nothing of target {arguments.target}; name another by --start")
    column = profile["targets"][arguments.target]
    for variant, numbers in VARIANTS.items():
        known = {path: value for path, value in numbers.items() if path in numbers_of(column)}
        text = json.dumps(profile_of(f"fit-{variant}", arguments.target, with_numbers(column, known)), indent=2)
        (folder / f"{variant}.json").write_text(text)
    manifest = {"target": arguments.target, "start": profile_of(profile["name"], arguments.target, column), "samples": []}
    for sample in samples(arguments.target, arguments.small):
        if arguments.only and sample.family not in arguments.only:
            continue
        manifest["samples"].append({key: getattr(sample, key) for key in ("name", "family", "variant", "level", "tf32")})
        for length, graph in (("short", sample.short), ("long", sample.long)):
            file = folder / f"{sample.name}.{length}.graph.json"
            file.write_text(json.dumps(graph))
            if not arguments.graphs_only:
                call([rlxc, file, "-o", folder / f"{sample.name}.{length}.plan", *compile_options(arguments, sample)])
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))
    print(f"{len(manifest['samples'])} samples in {folder}")


def compile_options(arguments, sample):
    options = ["--target", arguments.target, "-O", sample.level, "-q", "--device-model", arguments.folder / f"{sample.variant}.json"]
    options += ["--precision", "tf32"] if sample.tf32 else []
    return options + (["--arch", arguments.arch] if arguments.arch else [])


def run(arguments):
    manifest = json.loads((arguments.folder / "manifest.json").read_text())
    device = arguments.device or manifest["target"].split("-")[0]
    times, facts = {}, None
    for sample in manifest["samples"]:
        lengths = {}
        for length in ("short", "long"):
            plan = arguments.folder / f"{sample['name']}.{length}.plan"
            command = [arguments.bin / "rlxrun", plan, "--seeded", "--json", "--device", device, "--warmup", arguments.warmup, "--repeat",
                       arguments.repeat]
            done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
            if done.returncode != 0:
                print(f"left out: {sample['name']}: {done.stderr.strip()}", flush=True)
                break
            report = json.loads(done.stdout)
            timing = report["timing"]
            lengths[length] = timing.get("device_us", timing["wall_us"])[arguments.statistic]
            facts = report["device"]
        if len(lengths) < 2:
            continue
        times[sample["name"]] = lengths
        print(f"{sample['name']:44} {lengths['short']:12.1f} {lengths['long']:12.1f} us", flush=True)
    if not times:
        sys.exit("fit_device.py: no sample ran")
    result = {"device": facts, "date": datetime.date.today().isoformat(), "times": times}
    (arguments.folder / "times.json").write_text(json.dumps(result, indent=1))


# ---- estimates ----


def answer_of(process):
    line = process.stdout.readline()
    if not line:
        sys.exit("fit_device.py: rlxc estimate ended early")
    return line


def asked(process, target, column):
    """A list of its steps' times for each model that the process knows."""
    process.stdin.write(json.dumps(profile_of("trial", target, column)) + "\n")
    process.stdin.flush()
    return json.loads(answer_of(process))


class Estimator:
    """`rlxc estimate` over samples that are compiled alike: the steps between the lengths of each."""

    def __init__(self, arguments, target, key, names):
        (variant, level, tf32), self.names, self.target = key, names, target
        files = [arguments.folder / f"{name}.{length}.graph.json" for name in names for length in ("short", "long")]
        command = [arguments.bin / "rlxc", "estimate", *files, "--target", target, "-O", level, "--follow",
                   "--device-model", arguments.folder / f"{variant}.json"] + (["--tf32"] if tf32 else [])
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        lists = [model["steps"] for model in json.loads(answer_of(self.process))["models"]]
        self.steps = {name: {"short": lists[2 * i], "long": lists[2 * i + 1]} for i, name in enumerate(names)}

    def times(self, column):
        """Name of a sample -> what is expected of the steps between its lengths."""
        sums = [sum(times) for times in asked(self.process, self.target, column)]
        return {name: sums[2 * i + 1] - sums[2 * i] for i, name in enumerate(self.names)}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Network:
    """`rlxc estimate` over a network whose forms `rlxc --tune` measured on the device: a sample for each of its problems."""

    def __init__(self, arguments, target, model, tuned):
        self.target = target
        known = json.loads(pathlib.Path(tuned).read_text())
        if known["target"] != target:
            sys.exit(f"fit_device.py: {tuned} is of target {known['target']}, the samples are of {target}")
        command = [arguments.bin / "rlxc", "estimate", model, "--target", target, "--tuned", tuned, "--follow"]
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        steps = json.loads(answer_of(self.process))["models"][0]["steps"]
        self.measured, self.places = [], {}
        for problem in known["problems"]:
            nodes = {(node["entry"], node["node"]) for node in problem["nodes"]}
            places = [i for i, step in enumerate(steps) if (step["entry"], step["node"]) in nodes]
            name = f"{pathlib.Path(model).stem}: {problem['problem']}"
            if places and problem["us"] > 0:
                self.places[name] = places
                self.measured.append(OfNetwork(name, problem["us"], [steps[i] for i in places]))
        self.names = list(self.places)

    def times(self, column):
        times = asked(self.process, self.target, column)[0]
        return {name: sum(times[i] for i in places) for name, places in self.places.items()}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class OfNetwork:
    """One problem of a network: what all its nodes took, and what their steps are."""

    def __init__(self, name, us, steps):
        kernels = [step["kernel"] for step in steps]
        self.name, self.us, self.count = name, us, len(steps)
        self.family, self.tf32 = "network", False
        self.flops, self.bytes = sum(step["flops"] for step in steps), sum(step["bytes"] for step in steps)
        self.kernel = max(sorted(set(kernels)), key=kernels.count)


class Measured:
    """One sample: its time between the lengths, and what the steps between are."""

    def __init__(self, sample, times, steps):
        self.name, self.family, self.tf32 = sample["name"], sample["family"], sample["tf32"]
        self.us = times["long"] - times["short"]
        self.count = len(steps["long"]) - len(steps["short"])

        def between(what):
            return sum(step[what] for step in steps["long"]) - sum(step[what] for step in steps["short"])

        self.flops, self.bytes = between("flops"), between("bytes")
        kernels = [step["kernel"] for step in steps["long"][len(steps["short"]) - 1:-1]]
        self.kernel = max(sorted(set(kernels)), key=kernels.count) if kernels else ""

    def usable(self):
        return self.us > 0 and self.count > 0


# ---- the fit ----


def huber(error):
    return error * error / 2 if abs(error) <= FAR else FAR * (abs(error) - FAR / 2)


def logarithms(estimates, measured):
    return [math.log(max(estimates[m.name], 1e-9) / m.us) for m in measured]


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def relative(estimates, measured):
    return [abs(estimates[m.name] / m.us - 1) for m in measured]


class Fit:
    def __init__(self, column, estimators, limits):
        self.column, self.estimators, self.limits, self.fits = column, estimators, limits, {}

    def estimates(self, column, measured):
        names = {m.name for m in measured}
        result = {}
        for estimator in self.estimators:
            if names & set(estimator.names):
                result |= estimator.times(column)
        return result

    def bounded(self, path, value):
        facts = self.limits[path]
        value = min(max(value, facts["least"]), facts["most"])
        return round(value) if facts["whole"] else value

    def scaled(self, numbers, scale):
        """Times by `scale`, rates by its inverse."""
        return {path: self.bounded(path, value / scale if self.is_rate(path) else value * scale) for path, value in numbers.items()}

    def is_rate(self, path):
        return self.limits[path]["unit"].endswith(("/us", "/s"))

    def record(self, paths, before, after):
        for path in paths:
            first = self.fits.get(path, {"median_before": median(before), "worst_before": max(before)})
            self.fits[path] = {"samples": len(before), "median_before": first["median_before"], "worst_before": first["worst_before"],
                               "median_after": median(after), "worst_after": max(after)}

    def descend(self, paths, measured):
        """Moves the numbers of these paths until the samples' estimates are as near as they come."""
        if not measured:
            return
        numbers = {path: numbers_of(self.column)[path] for path in paths}
        before = relative(self.estimates(self.column, measured), measured)
        for _ in range(4):
            shift = median(logarithms(self.estimates(with_numbers(self.column, numbers), measured), measured))
            numbers = self.scaled(numbers, math.exp(-shift))
        self.column = with_numbers(self.column, numbers)
        held = {path: value for path, value in numbers.items() if self.matters(path, value, measured)}

        def loss(trial):
            errors = logarithms(self.estimates(with_numbers(self.column, trial), measured), measured)
            moved = [math.log(trial[path] / held[path]) for path in trial]
            return sum(map(huber, errors)) / len(errors) + HELD * sum(x * x for x in moved) / max(len(moved), 1)

        self.column = with_numbers(self.column, search(held, loss, self.bounded))
        self.record(held, before, relative(self.estimates(self.column, measured), measured))

    def matters(self, path, value, measured):
        """Whether some sample's estimate depends on the number."""
        now = self.estimates(self.column, measured)
        return any(self.estimates(with_numbers(self.column, {path: self.bounded(path, value * factor)}), measured) != now
                   for factor in (2, 0.5))


def search(numbers, loss, bounded):
    """Coordinate descent over factors that shrink where none of them helps."""
    best, factor = loss(numbers), 1.5
    while factor > 1.01:
        improved = False
        for path in numbers:
            for trial in (numbers[path] * factor, numbers[path] / factor):
                candidate = numbers | {path: bounded(path, trial)}
                value = loss(candidate)
                if value < best * (1 - 1e-4):
                    numbers, best, improved = candidate, value, True
                    break
        if not improved:
            factor = math.sqrt(factor)
    return numbers


def scale_device(fit, multiprocessors):
    """What fills the device goes by its multiprocessors."""
    numbers = numbers_of(fit.column)
    share = multiprocessors / numbers["multiprocessors"]
    full = {path: fit.bounded(path, value * share) for path, value in numbers.items() if path.startswith("full.")}
    fit.column = with_numbers(fit.column, full | {"multiprocessors": multiprocessors})


def fit_all(fit, measured):
    by_family = {family: [m for m in measured if m.family == family] for family in ("step", "memory", "product", "attention", "conv")}
    fit.descend(["step_microseconds"], by_family["step"])
    fit.descend(["memory_gigabytes_per_second"], by_family["memory"])
    fit.descend(["step_microseconds"], by_family["step"])  # less the bytes of these
    others = by_family["product"] + by_family["attention"] + by_family["conv"] + [m for m in measured if m.family == "network"]
    present = numbers_of(fit.column)
    for kernel, groups in TILE_GROUPS.items():
        paths = [path for path, value in present.items() if path.split(".")[0] in groups and value > 0 and has_unit(fit, path)]
        fit.descend(paths, [m for m in others if m.kernel == kernel])


def has_unit(fit, path):
    return fit.limits[path]["unit"] == "us" or fit.is_rate(path) or path == "conv.tiles"


def measured_samples(manifest, times, estimators):
    steps = {}
    for estimator in estimators:
        steps |= estimator.steps
    every = [Measured(sample, times[sample["name"]], steps[sample["name"]]) for sample in manifest["samples"] if sample["name"] in times]
    for m in every:
        if not m.usable():
            print(f"left out: {m.name}: {m.us:.1f} us between its lengths, of {m.count} steps")
    return [m for m in every if m.usable()]


def fit(arguments):
    manifest = json.loads((arguments.folder / "manifest.json").read_text())
    result = json.loads((arguments.folder / "times.json").read_text())
    target = manifest["target"]
    groups = {}
    for sample in manifest["samples"]:
        groups.setdefault((sample["variant"], sample["level"], sample["tf32"]), []).append(sample["name"])
    estimators = [Estimator(arguments, target, key, names) for key, names in groups.items()]
    limits = {number["number"]: number for number in json.loads(call([arguments.bin / "rlxc", "device-models", "--numbers", "--json"]))["numbers"]}
    model = Fit(manifest["start"]["targets"][target], estimators, limits)
    measured = measured_samples(manifest, result["times"], estimators)
    networks = [Network(arguments, target, *network.split("=", 1)) for network in arguments.tuned]
    model.estimators = estimators + networks
    measured += [m for network in networks for m in network.measured]
    start = model.estimates(model.column, measured)
    if arguments.multiprocessors:
        scale_device(model, arguments.multiprocessors)
    fit_all(model, measured)
    end = model.estimates(model.column, measured)
    for estimator in model.estimators:
        estimator.close()
    print_samples(measured, start, end)
    print_fits(model, numbers_of(manifest["start"]["targets"][target]))
    write(arguments, target, model, result)


def print_samples(measured, start, end):
    print(f"\n{'sample':44} {'kernel':16} {'us a step':>10} {'before':>8} {'after':>8}")
    for m in measured:
        print(f"{m.name:44} {m.kernel:16} {m.us / m.count:10.2f} {start[m.name] / m.us - 1:+8.0%} {end[m.name] / m.us - 1:+8.0%}")


def print_fits(model, start):
    print(f"\n{'number':34} {'start':>12} {'fitted':>12} {'samples':>8}   relative error of estimates, median / worst")
    numbers = numbers_of(model.column)
    for path, f in model.fits.items():
        print(f"{path:34} {start[path]:12.5g} {numbers[path]:12.5g} {f['samples']:8}   {f['median_before']:.0%} / {f['worst_before']:.0%}"
              f" before, {f['median_after']:.0%} / {f['worst_after']:.0%} after")


def rounded(value):
    """Numbers of a profile to six digits."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def write(arguments, target, model, result):
    device = result["device"]
    others = json.loads(arguments.output.read_text())["targets"] if arguments.output.exists() else {}
    start = json.loads((arguments.folder / "manifest.json").read_text())["start"]["name"]
    origin = f"{device['name']}, driver {device['driver']}, {result['date']}, by fit_device.py; numbers without a fit are those of {start}, to the scale of their group"
    column = rounded(model.column | {"fitted_from": origin, "fits": model.fits})
    profile = {"rlx_device_model": 1, "name": arguments.name, "targets": others | {target: column}}
    arguments.output.write_text(json.dumps(profile, indent=2) + "\n")
    call([arguments.bin / "rlxc", "device-models", arguments.output])  # refuses what is no device model
    print(f"\n{arguments.output}: rlxc --device-model {arguments.output}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function in (("make", make), ("run", run), ("fit", fit)):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("folder", type=pathlib.Path)
        command.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"), help="folder of rlxc and rlxrun")
        if name == "make":
            command.add_argument("--target", default="vulkan")
            command.add_argument("--arch", help="of CUDA code, as for rlxc")
            command.add_argument("--start", default="h200", help="device model to begin with: a name or a file")
            command.add_argument("--small", action="store_true", help="sizes for devices as slow as a CPU")
            command.add_argument("--only", nargs="*", help="families: step, memory, matvec, product, attention, conv")
            command.add_argument("--graphs-only", action="store_true", help="compile no plans")
        elif name == "run":
            command.add_argument("--device", help="as for rlxrun; default: the target's first")
            command.add_argument("--warmup", type=int, default=3)
            command.add_argument("--repeat", type=int, default=20)
            command.add_argument("--statistic", choices=("median", "min"), default="median", help="min: where other programs run too")
        else:
            command.add_argument("--name", required=True, help="of the device model")
            command.add_argument("--output", type=pathlib.Path, required=True)
            command.add_argument("--multiprocessors", type=int, help="of the device, where the start has another count")
            command.add_argument("--tuned", nargs="*", default=[], metavar="MODEL=FILE",
                                 help="networks and what `rlxc MODEL -o PLAN --tune` measured of them on this device (PLAN.tuned.json)")
    arguments = parser.parse_args()
    arguments.function(arguments)


if __name__ == "__main__":
    main()
