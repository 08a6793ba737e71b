#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sizes that a run gives cost: plans of free sizes at a few of them, over the plan of exactly that size.

    python3 tests/bench/free_ratio.py --build build --arch sm_90a                        # all networks, both targets
    python3 tests/bench/free_ratio.py --build build --arch sm_90a bert --targets cuda --forms free,/2,/4
    python3 tests/bench/free_ratio.py --build build --prepare DIR                        # compiles alone, without a device
    python3 tests/bench/free_ratio.py --build build --plans DIR                          # measures what was compiled there

A form is how --dim gives the range of a network's symbol: "free" as one (seq=16:512), "/2" cut at each half (seq=16:512/2).
Weights are seeded-random, inputs too. Each number is the median GPU time of a run; static and free plans of a size take turns, and
the smaller of two rounds counts. --steps prints the steps of the free plan that take longer, by kernel.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import packages  # noqa: E402

packages.need("numpy")

import models  # noqa: E402


class Detector(models.ResNet50):
    """ResNet-50 with a feature pyramid and RetinaNet's heads: three levels, nearest upsampling, shared heads of four convolutions."""

    def graph(self, name, dtype):
        g = models.Graph(name, dtype)
        g.input("image", models.Uniform("image", dtype, (1, 3, self.size, self.size), -1.7, 1.7, models.SEED), dtype)
        x = self.conv_norm(g, "image", "stem", 3, 64, kernel=7, stride=2, size=self.size)
        x = g.node("relu", [x], "stem.relu")
        x = g.node("pool", [x], "stem.pool", kind="max", kernel=[3, 3], stride=[2, 2], pads=[1, 1, 1, 1])
        channels, levels = 64, []
        for stage, count in enumerate(self.blocks):
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                x = self.block(g, x, f"stages.{stage}.{block}", channels, 64 << stage, stride, self.size)
                channels = self.expansion * 64 << stage
            levels.append((x, channels))
        merged, pyramid = None, []
        for level, (x, channels) in reversed(list(enumerate(levels[1:]))):
            lateral = self.biased(g, x, f"lateral.{level}", channels, 256, 1)
            if merged is not None:
                up = g.node("resize_nearest_2x", [merged], f"up.{level}")
                lateral = g.node("add", [lateral, up], f"merged.{level}")
            merged = lateral
            pyramid.append(self.biased(g, merged, f"level.{level}", 256, 256, 3))
        for head, wide in (("classes", 9 * 80), ("boxes", 9 * 4)):
            for level, x in enumerate(pyramid):
                for i in range(4):
                    x = g.node("relu", [self.biased(g, x, f"{head}.{level}.{i}", 256, 256, 3, f"{head}.{i}")], f"{head}.{level}.{i}.relu")
                g.output(self.biased(g, x, f"{head}.{level}.last", 256, wide, 3, f"{head}.last"), f"{head}{level}", 0)
        return g

    @staticmethod
    def biased(g, x, name, channels_in, channels_out, kernel, weights=None):
        weights = weights or name
        shape = [channels_out, channels_in, kernel, kernel]
        weight = g.scaled(f"{weights}.weight", shape, (2 / (channels_in * kernel * kernel)) ** 0.5)
        bias = g.scaled(f"{weights}.bias", [channels_out], 0.1)
        return g.node("conv", [x, weight, bias], name, pads=[kernel // 2] * 4)


def free_encoder(document):
    document["inputs"][0]["shape"] = ["batch", "seq"]
    for node in document["nodes"]:
        if node["op"] == "narrow":
            node["attributes"]["len"] = "seq"


def free_llama(document):
    document["inputs"][0]["shape"] = [1, "seq"]
    for node in document["nodes"]:
        if node["op"] == "reshape":
            node["attributes"]["shape"][1] = "seq"
        if node["op"] == "narrow":
            node["attributes"]["start"] = "seq - 1"


def free_batch(document):
    document["inputs"][0]["shape"][0] = "batch"


def free_pixels(document):
    document["inputs"][0]["shape"][2:] = ["height", "width"]


@dataclasses.dataclass(frozen=True)
class Case:
    """A network, its symbols' ranges (name -> (least, most, step)), and the sizes that are measured."""

    name: str
    dtype: str
    network: object
    loosen: object
    ranges: dict
    sizes: list

    def document(self):
        graph = self.network.graph(self.name, self.dtype)
        document = graph.document()
        document["symbols"] = [{"name": name, "min": least, "max": most, "multiple_of": step}
                               for name, (least, most, step) in self.ranges.items()]
        self.loosen(document)
        return graph, document

    def dims(self, form):
        words = []
        for name, (least, most, step) in self.ranges.items():
            if least == most:
                words += ["--dim", f"{name}={least}"]
                continue
            text = f"{name}={least}:{most}" + (f":{step}" if step != 1 else "")
            words += ["--dim", text + ("" if form == "free" else form)]
        return words


SEQUENCES, SEQUENCES_B8 = ({"batch": (b, b, 1), "seq": (16, 512, 1)} for b in (1, 8))
CASES = [
    Case("bert", "f16", models.BERT, free_encoder, SEQUENCES, [{"seq": n} for n in (16, 77, 128, 384, 512)]),
    Case("bert-b8", "f16", models.BERT, free_encoder, SEQUENCES_B8, [{"seq": n} for n in (16, 128, 384)]),
    Case("bert-f32", "f32", models.BERT, free_encoder, SEQUENCES, [{"seq": n} for n in (16, 77, 128, 512)]),
    Case("resnet50", "f16", models.ResNet50(), free_batch, {"batch": (1, 32, 1)}, [{"batch": n} for n in (1, 3, 8, 32)]),
    Case("llama1b-prefill", "bf16", models.Llama(tokens=1024, past=0), free_llama, {"seq": (1, 1024, 1)},
         [{"seq": n} for n in (1, 77, 256, 1024)]),
    Case("detector", "f16", Detector(size=640), free_pixels, {"height": (320, 1280, 32), "width": (320, 1280, 32)},
         [{"height": h, "width": w} for h, w in ((320, 320), (480, 640), (800, 800), (1280, 1280))]),
]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="of: " + " ".join(case.name for case in CASES))
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder whose bin/ holds rlxc and rlxrun")
    parser.add_argument("--targets", default="cuda,vulkan-nvidia", help="of cuda and the profiles of vulkan")
    parser.add_argument("--forms", default="free,/2", help="how --dim gives ranges")
    parser.add_argument("--at", help="these of the sizes, as 77,128 or 480x640")
    parser.add_argument("--arch", help="rlxc --arch: CUDA architectures to compile for, instead of all")
    parser.add_argument("--repeat", type=int, default=50, help="timed runs")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("-j", "--jobs", type=int, default=2, help="plans compiled at once")
    parser.add_argument("--steps", action="store_true", help="by kernel, where the time of the first form goes beside the static plan's")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--prepare", type=pathlib.Path, metavar="DIR", help="write plans there and end")
    group.add_argument("--plans", type=pathlib.Path, metavar="DIR", help="measure the plans there")
    args = parser.parse_args()
    unknown = set(args.networks) - {case.name for case in CASES}
    if unknown:
        parser.error(f"unknown network {min(unknown)}")
    args.cases = [case for case in CASES if case.name in args.networks or not args.networks]
    args.forms = args.forms.split(",")
    args.at = args.at.split(",") if args.at else None
    args.targets = args.targets.split(",")
    return args


def label(size):
    return "x".join(str(n) for n in size.values())


def sizes_of(args, case):
    return [size for size in case.sizes if args.at is None or label(size) in args.at]


def plan_path(folder, case, target, form):
    return folder / f"{case.name}.{target}.{form.replace('/', 'cut')}.plan"


def compile_plan(args, folder, case, target, form, dims):
    command = [args.build / "bin/rlxc", folder / f"{case.name}.json", "-o", plan_path(folder, case, target, form), "--target", target,
               "-q", "--no-debug", *dims]
    if args.arch and target == "cuda":
        command += ["--arch", args.arch]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    return f"{case.name} {target} {form}: {done.stderr.strip()[-800:]}" if done.returncode else ""


def prepare(args, folder):
    """Every plan of the cases, in `folder`. One that rlxc refuses is told, and is missing in the table."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = []
    for case in args.cases:
        graph, document = case.document()
        graph.write(folder)
        (folder / f"{case.name}.json").write_text(json.dumps(document) + "\n")
        for array in folder.glob(f"{case.name}.*.npy"):
            if array.name.split(".")[-2] in graph.inputs:
                array.unlink()  # inputs are seeded
        for target in args.targets:
            jobs += [(case, target, form, case.dims(form)) for form in args.forms]
            for size in sizes_of(args, case):
                fixed = [word for name, (least, _, _) in case.ranges.items() for word in ("--dim", f"{name}={size.get(name, least)}")]
                jobs.append((case, target, label(size), fixed))
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for told in pool.map(lambda job: compile_plan(args, folder, *job), jobs):
            if told:
                print(told, file=sys.stderr)


def run(args, plan, target, size, profile=False):
    """rlxrun's report, or None where there is no plan or it does not run."""
    if not plan.exists():
        return None
    command = [args.build / "bin/rlxrun", plan, "--device", target.split("-")[0], "--seeded", "--json", "--warmup", 10,
               "--repeat", args.repeat]
    for name, value in size.items():
        command += ["--dim", f"{name}={value}"]
    if profile:
        command.append("--profile")
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{plan.name}: {done.stderr.strip()[-400:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def microseconds(args, plan, target, size):
    report = run(args, plan, target, size)
    return report["timing"]["device_us"]["median"] if report else None


def by_kernel(report):
    kernels = {}
    for step in report["profile"] if report else []:
        kernels[step["kernel"]] = kernels.get(step["kernel"], 0) + step["us"]
    return kernels


def print_steps(args, folder, case, target, size):
    fixed = by_kernel(run(args, plan_path(folder, case, target, label(size)), target, {}, profile=True))
    free = by_kernel(run(args, plan_path(folder, case, target, args.forms[0]), target, size, profile=True))
    for kernel in sorted(fixed | free, key=lambda name: -free.get(name, 0)):
        print(f"    {kernel:<24} {fixed.get(kernel, 0):9.1f} {free.get(kernel, 0):9.1f}")


def measure(args, folder):
    print(f"{'':<28} {'static us':>10}" + "".join(f"{form:>16}" for form in args.forms))
    for case in args.cases:
        for target in args.targets:
            for size in sizes_of(args, case):
                measure_size(args, folder, case, target, size)


def measure_size(args, folder, case, target, size):
    plans = {"": (plan_path(folder, case, target, label(size)), {})}
    plans |= {form: (plan_path(folder, case, target, form), size) for form in args.forms}
    best = {}
    for _ in range(args.rounds):
        for form, (plan, dims) in plans.items():
            taken = microseconds(args, plan, target, dims)
            if taken is not None:
                best[form] = min(taken, best.get(form, taken))
    cells = []
    for form in args.forms:
        ratio = f"{best[form] / best['']:5.2f}" if form in best and "" in best else f"{'-':>5}"
        cells.append(f"{best[form]:9.1f} {ratio} " if form in best else f"{'-':>9} {ratio} ")
    print(f"{case.name:<15} {target[:6]:<6} {label(size):<9}" + (f"{best['']:9.1f} " if "" in best else f"{'-':>9} ") +
          "".join(cells), flush=True)
    if args.steps:
        print_steps(args, folder, case, target, size)


def main():
    args = parse_arguments()
    if args.prepare:
        prepare(args, args.prepare)
    elif args.plans:
        measure(args, args.plans)
    else:
        with tempfile.TemporaryDirectory() as folder:
            prepare(args, pathlib.Path(folder))
            measure(args, pathlib.Path(folder))


if __name__ == "__main__":
    main()
