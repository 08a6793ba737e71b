#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The self-test that travels in a plan: written by `rlxc self-test`, judged by `rlxrun --self-test`; a plan whose kernels are not those of
the model fails by it, and what is no self-test is refused. On the first Vulkan device; on the null device, which computes nothing, all fail.

    python3 tests/everyday/self_test_test.py BUILD_BIN
"""
import json
import pathlib
import subprocess
import sys
import tempfile


def model(op):
    return {
        "rlx_graph": 1,
        "name": "small",
        "symbols": [{"name": "batch", "min": 1, "max": 8}],
        "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", 16]}],
        "nodes": [
            {"name": "first", "op": "exp", "inputs": ["x"], "outputs": ["h"]},
            {"name": "second", "op": op, "inputs": ["h"], "outputs": ["y"]},
        ],
        "outputs": ["y"],
    }


def main():
    build_bin = pathlib.Path(sys.argv[1]).resolve()

    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)

        def run(code, *arguments):
            result = subprocess.run([build_bin / arguments[0], *arguments[1:]], cwd=folder, capture_output=True, text=True)
            if result.returncode != code:
                sys.exit(f"{' '.join(map(str, arguments))}: exit code {result.returncode}, wanted {code}\n{result.stdout}{result.stderr}")
            return result.stdout + result.stderr

        def expect(part, text):
            if part not in text:
                sys.exit(f"wanted {part!r} in {text}")

        for op in ("relu", "neg"):
            (folder / f"{op}.json").write_text(json.dumps(model(op)))
            run(0, "rlxc", f"{op}.json", "-o", f"{op}.plan", "--target", "vulkan", "--dim", "batch=1:8")
        expect("has no self-test", run(2, "rlxrun", "relu.plan", "--self-test", "--device", "null"))
        expect("--dim batch=N", run(1, "rlxc", "self-test", "relu.plan", "--model", "relu.json", "--seeded"))
        write = ("rlxc", "self-test", "relu.plan", "--model", "relu.json", "--seeded", "--dim")
        expect("self-test of 1 case", run(0, *write, "batch=3"))
        expect("self-test of 2 cases", run(0, *write, "batch=8"))
        once = (folder / "relu.plan").read_bytes()
        expect("self-test of 2 cases", run(0, *write, "batch=8"))
        if (folder / "relu.plan").read_bytes() != once:
            sys.exit("the same self-test, written again, is not the same bytes")
        run(0, "rlxc", "verify", "relu.plan")
        expect("self-test", run(0, "rlxc", "inspect", "relu.plan", "--sizes"))
        expect("batch = 3, output y: WRONG", run(4, "rlxrun", "relu.plan", "--self-test", "--device", "null"))
        run(1, "rlxrun", "relu.plan", "--self-test", "--seeded")
        # The model of another plan: what it expects is not what this one computes.
        run(0, "rlxc", "self-test", "neg.plan", "--model", "relu.json", "--seeded", "--dim", "batch=2")
        spoiled = bytearray(once)
        spoiled[-5] ^= 1
        (folder / "spoiled.plan").write_bytes(spoiled)
        run(2, "rlxrun", "spoiled.plan", "--self-test", "--device", "null")
        devices = json.loads(run(0, "rlxrun", "--list-devices", "--json"))
        if not any(device["id"].startswith("vulkan") for device in devices["devices"]):
            print("SKIPPED: no Vulkan device; mesa-vulkan-drivers has one")
            return
        told = json.loads(run(0, "rlxrun", "relu.plan", "--self-test", "--json"))
        if not told["passes"] or [case["symbols"]["batch"] for case in told["cases"]] != [3, 8]:
            sys.exit(f"told {told}")
        expect("FAILED", run(4, "rlxrun", "neg.plan", "--self-test"))
        print("self-test: right plans pass, wrong ones fail, and what is altered is refused")


if __name__ == "__main__":
    main()
