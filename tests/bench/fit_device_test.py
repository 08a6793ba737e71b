#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fit_device.py against a device that is made up: its rlxrun answers what a known model expects, with noise, a constant share of every
run, one run that was disturbed and one that failed. The fit must find the model's numbers again. Needs no device and no NVRTC.

    python3 tests/bench/fit_device_test.py BUILD_BIN
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import fit_device

# What the made-up device differs in from the H200, whose numbers the fit begins with.
TRUE = {"memory_gigabytes_per_second": 2900, "step_microseconds": 1.3, "library.f32": 22, "library.tf32": 160,
        "library.begin": 7, "library.short_float": 520, "wgmma.begin": 6, "wgmma.step": 0.004, "wgmma.both": 0.005,
        "mma.start": 1.8, "mma.warpgroup_products": 1.6e6, "mma.split_f32_products": 0.13e6, "mma_warps.port_rate": 0.05e6,
        "mma_warpgroups.port_rate": 0.045e6, "mma_warpgroups.block": 0.08, "attention.staged_tile": 0.6, "attention.step": 0.4,
        "conv.tiles": 1.6}
OVERHEAD = 35.0  # us of every run

FAKE = """#!{python}
import json, pathlib, sys
times = json.loads((pathlib.Path(__file__).parent / "times.json").read_text())
us = times.get(pathlib.Path(sys.argv[1]).name) or sys.exit("no such plan")
print(json.dumps({{"device": {{"name": "Made up", "driver": "1.0"}},
                  "timing": {{"wall_us": {{"median": 9 * us}}, "device_us": {{"median": us}}}}}}))
"""


def expect(condition, what):
    if not condition:
        sys.exit(what)


def call(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    expect(done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}")
    return done.stdout


def noise(i):
    """-1 % to 1 %, the same each time."""
    return 1 + 0.01 * ((i * 2654435761 % 2001) / 1000 - 1)


def make_up_device(folder, fake, rlxc):
    """The folder of programs: rlxc, and an rlxrun that answers by the true model."""
    fake.mkdir()
    (fake / "rlxc").symlink_to(rlxc)
    program = fake / "rlxrun"
    program.write_text(FAKE.format(python=sys.executable))
    program.chmod(0o755)
    manifest = json.loads((folder / "manifest.json").read_text())
    true = fit_device.with_numbers(manifest["start"]["targets"]["cuda"], TRUE)
    times, i = {}, 0
    for sample in manifest["samples"]:
        key = (sample["variant"], sample["level"], sample["tf32"])
        arguments = type("Arguments", (), {"folder": folder, "bin": fake})
        estimator = fit_device.Estimator(arguments, "cuda", key, [sample["name"]])
        for length, steps in zip(("short", "long"), fit_device.asked(estimator.process, "cuda", true)):
            times[f"{sample['name']}.{length}.plan"] = (OVERHEAD + sum(steps)) * noise(i)
            i += 1
        estimator.close()
    times["128x768x768-nk-f16-own.long.plan"] *= 3
    del times["conv1-b32-c256-56-f16.long.plan"]
    (fake / "times.json").write_text(json.dumps(times))


def tune_network(folder, bin_folder):
    """A graph, and a file as rlxc --tune writes it, of one problem: all its steps, which take twice what the H200's model expects."""
    graph = sorted(folder.glob("conv3-*.long.graph.json"))[0]
    steps = json.loads(call(bin_folder / "rlxc", "estimate", graph, "--target", "cuda"))["models"][0]["steps"]
    problem = {"problem": "all", "nodes": [{"entry": step["entry"], "node": step["node"]} for step in steps],
               "us": 2 * sum(step["us"] for step in steps), "forms": []}
    tuned = folder / "network.tuned.json"
    tuned.write_text(json.dumps({"rlx_tuned_forms": 1, "target": "cuda", "device": "Made up", "driver": "1.0", "forms": {},
                                 "problems": [problem]}))
    return f"{graph}={tuned}"


def near(numbers, path, tolerance):
    error = abs(numbers[path] / TRUE[path] - 1)
    expect(error <= tolerance, f"{path}: fitted {numbers[path]:.5g}, true {TRUE[path]:.5g}: {error:.0%} apart")


def main():
    build_bin = pathlib.Path(sys.argv[1]).resolve()
    tool = pathlib.Path(__file__).with_name("fit_device.py")
    with tempfile.TemporaryDirectory() as place:
        folder, fake, output = pathlib.Path(place) / "fit", pathlib.Path(place) / "bin", pathlib.Path(place) / "made-up.json"
        call(sys.executable, tool, "make", folder, "--bin", build_bin, "--target", "cuda", "--graphs-only")
        make_up_device(folder, fake, build_bin / "rlxc")
        said = call(sys.executable, tool, "run", folder, "--bin", fake)
        expect("left out: conv1-b32-c256-56-f16: no such plan" in said, said)
        vulkan = json.loads(call(fake / "rlxc", "device-models", "generic-vulkan"))
        output.write_text(json.dumps(vulkan))
        said = call(sys.executable, tool, "fit", folder, "--bin", fake, "--name", "made up", "--output", output)
        profile = json.loads(output.read_text())
        network = tune_network(folder, fake)
        with_network = call(sys.executable, tool, "fit", folder, "--bin", fake, "--name", "made up", "--output", output, "--tuned", network)
    print(said)
    row = next(line for line in with_network.splitlines() if line.startswith("conv3-") and ": all" in line)
    expect("-50%" in row, f"half of what a network's nodes take was expected: {row}")
    expect(set(profile["targets"]) == {"vulkan", "vulkan-khr-coop", "vulkan-nvidia", "cuda"}, "models of other targets are gone")
    column = profile["targets"]["cuda"]
    numbers, fits = fit_device.numbers_of(column), column["fits"]
    for path in ("memory_gigabytes_per_second", "step_microseconds", "library.f32", "library.tf32", "library.short_float"):
        near(numbers, path, 0.05)
    near(numbers, "wgmma.step", 0.1)
    near(numbers, "conv.tiles", 0.15)
    for path in ("wgmma.begin", "mma.start", "attention.start", "conv.tiles", "library.begin"):
        fit = fits[path]
        expect(fit["median_after"] < 0.05 < fit["median_before"], f"{path}: median error {fit['median_after']:.1%} after the fit")
    # The disturbed run is one sample's worst error, not everybody's.
    expect(fits["mma.start"]["worst_after"] > 0.5, "the disturbed run was fitted")
    expect("Made up, driver 1.0" in column["fitted_from"], column["fitted_from"])
    for path in ("conv.burst", "wgmma.both_residual", "full.matvec_groups"):
        expect(path not in fits, f"{path}: has a fit, and no run tells of it")


if __name__ == "__main__":
    main()
