#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans with several programs for Vulkan, what drivers compile kept in the user's cache folder, and `rlxc check`.

    python3 tests/everyday/programs_test.py BUILD_BIN
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MODEL = {
    "rlx_graph": 1,
    "params": [{"name": "w", "dtype": "f16", "shape": [64, 64], "data": {"random": {"distribution": "uniform", "low": -0.1, "high": 0.1}}},
               {"name": "b", "dtype": "f16", "shape": [64], "data": {"values": [i / 64 for i in range(64)]}}],
    "inputs": [{"name": "x", "dtype": "f16", "shape": [64, 64]}],
    "nodes": [{"op": "matmul", "inputs": ["x", "w"], "outputs": ["h"]}, {"op": "add", "inputs": ["h", "b"], "outputs": ["z"]},
              {"op": "relu", "inputs": ["z"], "outputs": ["y"]}],
    "outputs": ["y"],
}
TARGETS = ["vulkan", "vulkan-khr-coop", "vulkan-nvidia", "vulkan-cpu"]


class Place:
    def __init__(self, folder, build_bin):
        self.folder, self.bin = folder, build_bin
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(folder / "cache"))

    def run(self, program, *arguments, code=0):
        done = subprocess.run([self.bin / program, *map(str, arguments)], capture_output=True, text=True, env=self.environment)
        if done.returncode != code:
            sys.exit(f"{program} {' '.join(map(str, arguments))}: exit code {done.returncode}, wanted {code}\n{done.stdout}{done.stderr}")
        return done.stdout if code == 0 else done.stderr

    def compiled(self, name, *options):
        plan = self.folder / f"{name}.plan"
        self.run("rlxc", self.folder / "model.json", "-o", plan, "-q", *options)
        return plan


def want(condition, what):
    if not condition:
        sys.exit(f"{what}: not so")


def check_plans(place):
    plan = place.compiled("programs", "--target", ",".join(TARGETS))
    place.run("rlxc", "verify", plan)
    told = json.loads(place.run("rlxc", "inspect", plan, "--json"))
    programs = told["targets"]["vulkan"]["programs"]
    want(list(programs) == TARGETS, "the plan's programs are those asked for")
    for target in ("vulkan-khr-coop", "vulkan-nvidia"):
        want("CooperativeMatrix" in programs[target]["features"], f"{target} needs matrices")
        want(("NativeHalves" in programs[target]["features"]) == (target == "vulkan-nvidia"), "one program needs native halves")
    sizes = {variant["subgroup_size"] for kernel in json.loads(place.run("rlxc", "inspect", plan, "--kernels", "--json"))["kernels"]
             if kernel["name"].endswith("_coop") for variant in kernel["variants"]}
    want(sizes == {32}, f"code with matrices is for subgroups of 32: {sizes}")
    want("CooperativeMatrix" not in programs["vulkan"]["features"] + programs["vulkan-cpu"]["features"], "the others do not")
    want(programs["vulkan-cpu"]["made_for"] == "processors", "vulkan-cpu is made for processors")
    for target in TARGETS:
        single = place.compiled(target, "--target", target)
        want(single.read_bytes()[10] < 4, f"a plan of {target} alone is of an older minor")
        want("programs" not in json.loads(place.run("rlxc", "inspect", single, "--json"))["targets"]["vulkan"], f"{target} alone has no programs")
    whole = place.compiled("twice", "--target", "vulkan-cpu,vulkan,vulkan-nvidia,vulkan-khr-coop,vulkan")
    want(whole.read_bytes() == plan.read_bytes(), "the order of the targets changes no byte")
    return plan


def check_runs(place, plan):
    outputs = place.folder / "outputs"
    seeded = ["--device", "vulkan", "--seeded", "--no-pipeline-cache"]
    best = json.loads(place.run("rlxrun", plan, *seeded, "--outputs", outputs, "--json"))
    want(best["program"] == "vulkan-cpu", "lavapipe runs the program for processors")
    same = ["--expected", outputs / "y.npy", "--rtol", "2e-3", "--atol", "2e-3"]
    named = json.loads(place.run("rlxrun", plan, *seeded, "--target", "vulkan", *same, "--json"))
    want(named["program"] == "vulkan", "the named program runs")
    for target in ("vulkan-khr-coop", "vulkan-nvidia"):
        refused = place.run("rlxrun", plan, *seeded, "--target", target, code=3)
        for text in ("VK_KHR_cooperative_matrix, and VK_EXT_subgroup_size_control", "it runs the plan's program vulkan-cpu, vulkan"):
            want(text in refused, f"the refusal names {text}: {refused}")
    want("no program \"metal\"" in place.run("rlxrun", plan, *seeded, "--target", "metal", code=2), "an unknown program is told")


def check_pipeline_cache(place, plan):
    folder = place.folder / "cache" / "rlx" / "pipelines"
    run = lambda *options: place.run("rlxrun", plan, "--device", "vulkan", "--seeded", *options)
    kept = lambda: sorted(folder.glob("*")) if folder.is_dir() else []
    run("--no-pipeline-cache")
    want(not kept(), "nothing is kept where that was asked for")
    run()
    run("--target", "vulkan")
    want(len(kept()) == 2, "a file for each program")
    first = kept()[0]
    good = first.read_bytes()
    for damaged in (good[: len(good) // 2], b"", bytes([good[0] ^ 1]) + good[1:], good[:-1] + bytes([good[-1] ^ 1])):
        first.write_bytes(damaged)
        run()
        run("--target", "vulkan")
        want(first.read_bytes() == good, "a damaged file is written anew")
    for file in kept():
        file.unlink()
    folder.chmod(0o777)
    run()
    want(not kept(), "a folder that others may write to is not used")
    folder.rmdir()
    folder.write_text("no folder")
    run()
    want(folder.read_text() == "no folder", "what is no folder costs only speed")
    folder.unlink()


def check_pipelines(place, plan):
    table = place.run("rlxc", "check", plan)
    for text in ("program vulkan-cpu: ", "program vulkan: ", "0 refused", "program vulkan-khr-coop: not checked", "program vulkan-nvidia: not checked", "| matmul"):
        want(text in table, f"the table has {text}: {table}")
    told = json.loads(place.run("rlxc", "check", plan, "--json"))
    want([program["program"] for program in told["programs"]] == TARGETS, "each program is told")
    want("there is no file" in place.run("rlxc", "check", plan, "--driver", "/nowhere.json", code=1), "a driver that is not there is told")
    alone = place.folder / "vulkan-nvidia.plan"
    place.run("rlxc", "check", alone, code=3)


def main():
    build_bin = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        place = Place(pathlib.Path(name), build_bin)
        (place.folder / "model.json").write_text(json.dumps(MODEL))
        plan = check_plans(place)
        devices = place.run("rlxrun", "--list-devices")
        if "llvmpipe" not in devices.partition("\n")[0]:
            print("programs are right; SKIPPED: mesa-vulkan-drivers has the device to run them on, and it is not the first")
            return
        check_runs(place, plan)
        check_pipeline_cache(place, plan)
        check_pipelines(place, plan)
    print("programs, pipeline cache and rlxc check are right")


if __name__ == "__main__":
    main()
