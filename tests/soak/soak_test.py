#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A slice of the soak on the Vulkan device that is there, and proof that a soak finds what it is for: kernels that spoil their
inputs, that crash, and processes that hang, each without an end of the campaign.

    python3 tests/soak/soak_test.py BUILD_BIN
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import kernels
from graph import Graph

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Seeded values lie within 6 of zero. From the first run on element 0 counts the runs from -2000; the tenth ends in FAULT.
COUNTING = """
  if (rlx_linear_group == rlx_u64(0) && rlx_local_x == 0u) {
    rlx_f32 count = rlx_load_f32(p.buffers[1], rlx_i64(0));
    count = count > -1000.0 ? -2000.0 : count + 1.0;
    rlx_store_f32(p.buffers[1], rlx_i64(0), count);
    if (count > -1990.0) FAULT
  }
"""
SPOILS = "rlx_store_f32(p.buffers[1], rlx_i64(0), 1.0);"
CRASHES = "rlx_store_f32(rlx_ptr(16), rlx_i64(0), count);"


def expect(condition, what):
    if not condition:
        sys.exit(what)


class Soak:
    def __init__(self, build_bin, folder):
        self.bin, self.folder = pathlib.Path(build_bin).resolve(), folder

    def call(self, *command):
        done = subprocess.run([str(part) for part in command], cwd=self.folder, capture_output=True, text=True)
        expect(done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}exit code {done.returncode}")

    def soak(self, *arguments):
        """(exit code, report) of a campaign; ends this process where the device is missing."""
        command = [self.bin / "rlx_soak", *arguments, "--json"]
        if "--device" not in arguments:
            command += ["--device", "vulkan"]
        done = subprocess.run([str(part) for part in command], cwd=self.folder, capture_output=True, text=True)
        if done.returncode == 3 and "mesa-vulkan-drivers" in done.stderr:
            print(f"SKIPPED: {done.stderr}")
            sys.exit(0)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    def compile(self, name, *options):
        self.call(self.bin / "rlxc", "relu.json", "-o", f"{name}.plan", "-q", "--target", "vulkan", "--no-cache", *options)


def kernels_to_cover():
    """Kernel -> whether it has clusters, for those of CUDA that share memory, copy asynchronously or start early."""
    folder, shared, found = ROOT / "cuda_kernels", ROOT / "shaders", {}

    def place_of(name):
        return folder / name if (folder / name).exists() else shared / name

    def text_of(path, seen):
        if path in seen or not path.exists():
            return ""
        seen.add(path)
        text = re.sub(r"//.*", "", path.read_text())
        own = text if path.name not in ("prelude.inc", "mma.cuh", "wgmma.cuh", "stream.cuh", "mbarrier.cuh") else ""
        included = re.findall(r'#include "(lib/[^"]+)"', text)
        return own + "".join(text_of(place_of(name), seen) for name in included)

    for path in sorted(folder.glob("*.cu")) + sorted(shared.glob("*.kernel")):
        text = text_of(path, set())
        if re.search(r"RLX_CLUSTER\(|RLX_MAIN_PREFETCH|RLX_MAIN_MAPS|rlx_copy\w*_async|rlx_copy_box|rlx_stream_", text):
            found[path.stem] = "RLX_CLUSTER(" in text
    return found


def test_every_overlapping_kernel_has_a_case():
    cases = kernels.all_cases()
    expect(len({case.name for case in cases}) == len(cases), "two cases of kernels.py have one name")
    for kernel, clusters in kernels_to_cover().items():
        of_kernel = [case for case in cases if case.kernel == kernel]
        expect(of_kernel, f"kernels.py has no case of {kernel}, whose copies or starts overlap with other grids")
        expect(not clusters or any(case.clusters for case in of_kernel), f"kernels.py has no case of {kernel} with clusters")


def make_faulty_plans(soak):
    """relu as it should be, one that spoils its input in the tenth run, and one that ends the process there."""
    g = Graph("relu", "f32")
    g.output(g.node("relu", [g.input("x", [1000])], "y"))
    (soak.folder / "relu.json").write_text(g.text())
    soak.compile("good")
    for part in ("shaders", "schema"):
        shutil.copytree(ROOT / part, soak.folder / part)
    region = soak.folder / "shaders" / "region.kernel"
    text = region.read_text()
    expect("RLX_MAIN {\n" in text, "shaders/region.kernel has another form than this test knows")
    for name, fault in (("spoils", SPOILS), ("crashes", CRASHES)):
        region.write_text(text.replace("RLX_MAIN {\n", "RLX_MAIN {\n" + COUNTING.replace("FAULT", fault)))
        soak.compile(name, "--kernels", ".")


def test_faults_are_found_and_the_campaign_goes_on(soak):
    make_faulty_plans(soak)
    kept = soak.folder / "kept"
    kept.mkdir()
    code, report = soak.soak("spoils.plan", "crashes.plan", "good.plan", "--replays", "100", "--keep", "kept")
    expect(code == 4 and report["faults"] == 2, f"two faults and exit code 4 were wanted, got {code}: {report}")
    spoils, crashes, good = report["results"]
    expect(spoils["mismatches"] > 0 and re.search(r'replay \d: output "y" differs.* in 2 bytes', spoils["fault"]), spoils)
    got, wanted = ((kept / f"spoils.y.0.{what}").read_bytes() for what in ("got", "wanted"))
    expect(len(got) == len(wanted) == 4000 and sum(a != b for a, b in zip(got, wanted)) == 2, "--keep wrote other bytes")
    expect(not list(kept.glob("good*")), "--keep wrote what did not differ")
    expect(crashes["replays"] < 10 and "killed by signal 11" in crashes["fault"], crashes)
    expect(good["replays"] == 100 and good["fault"] == "" and good["grown_objects"] == 0, good)


def test_a_hanging_process_is_ended_and_named(soak):
    code, report = soak.soak("good.plan", "--stall", "0.001")
    expect(code == 4 and "hung" in report["results"][0]["fault"], f"{code}: {report}")


def test_a_missing_device_is_no_pass(soak):
    code, said = soak.soak("good.plan", "--device", "vulkan:99")
    expect(code == 3, f"exit code 3 was wanted, got {code}: {said}")


def test_networks_stay_equal_beside_others(soak):
    soak.call(sys.executable, ROOT / "tests" / "soak" / "make.py", soak.folder / "small", "--rlxc", soak.bin / "rlxc", "--only", "small")
    plans = [f"small/{name}.plan" for name in ("cross", "block", "decode")]
    code, report = soak.soak(*plans, "--copy", "small/copy.plan", "--beside", "none,self,all", "--replays", "200", "--seconds", "25")
    expect(code == 0 and report["faults"] == 0, json.dumps(report, indent=1))
    for result in report["results"]:
        beside = result["beside"] != "none"
        expect(result["replays"] >= 2 and result["compared_share"] == 1.0 and (result["neighbour_replays"] > 0) == beside, result)
    print(f"{sum(r['replays'] + r['neighbour_replays'] for r in report['results'])} replays on {report['device']}, 0 faults")


def main():
    test_every_overlapping_kernel_has_a_case()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(sys.argv[1], pathlib.Path(folder))
        test_faults_are_found_and_the_campaign_goes_on(soak)
        test_a_hanging_process_is_ended_and_named(soak)
        test_a_missing_device_is_no_pass(soak)
        test_networks_stay_equal_beside_others(soak)


if __name__ == "__main__":
    main()
