#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans of every released minor of the format are verified and replayed for ever: each carries a self-test. A new minor adds its own plan,
written by the rlxc of its day; none is ever written anew.

    python3 tests/everyday/old_plans_test.py BUILD_BIN
"""
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "plans"


def main():
    build_bin = pathlib.Path(sys.argv[1]).resolve()
    plans = sorted(FOLDER.glob("format-*.plan"))
    if len(plans) < 2:
        sys.exit(f"{FOLDER} lacks plans")
    devices = subprocess.run([build_bin / "rlxrun", "--list-devices"], capture_output=True, text=True, check=True).stdout
    has_device = "vulkan:" in devices
    for plan in plans:
        major, minor = plan.stem.removeprefix("format-").split(".")
        head = int.from_bytes(plan.read_bytes()[8:10], "little"), int.from_bytes(plan.read_bytes()[10:12], "little")
        if head != (int(major), int(minor)):
            sys.exit(f"{plan.name} is of format {head}")
        for command in (["rlxc", "verify", plan], ["rlxrun", plan, "--self-test", "--device", "vulkan"])[: 2 if has_device else 1]:
            result = subprocess.run([build_bin / command[0], *command[1:]], capture_output=True, text=True)
            if result.returncode != 0:
                sys.exit(f"{plan.name}: {command[0]} ends with {result.returncode}\n{result.stdout}{result.stderr}")
    print(f"{len(plans)} old plans verified" + (" and replayed" if has_device else "; SKIPPED: mesa-vulkan-drivers has a device to replay them on"))


if __name__ == "__main__":
    main()
