#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the kernels of the conformance cases for AMD's GPUs, on a machine that has none.

    radv_test.py BIN [--families NAVI21,VEGA10] [--operators conv softmax ...] [--plans FOLDER] [--table]

Mesa's radv makes pipelines without a GPU where RADV_FORCE_FAMILY names one. Every kernel must compile, and none may spill registers to
memory. BIN holds rlx_soak_plans and rlx_check_pipelines; --operators takes families of operators instead of all; --plans takes a folder of
plans that is there; --table prints for each kernel and family of GPUs the pipelines, the most registers and shared memory, and the fewest
subgroups per SIMD.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

STATISTIC = re.compile(r"^(VGPRs|Spilled VGPRs|Spilled SGPRs|Scratch size|LDS size|Subgroups per SIMD): (\d+)$")
DRIVERS = pathlib.Path("/usr/share/vulkan/icd.d")


class Refused(Exception):
    pass


def statistics(text):
    """(kernel, {name: number}) for every pipeline, from what rlx_check_pipelines and the driver printed."""
    waiting, found = collections.deque(), []
    for line in text.splitlines():
        if line.startswith("kernel "):
            waiting.append(line.removeprefix("kernel "))
        elif line == "*** SHADER STATS ***":
            if not waiting:
                raise Refused("the driver told of more pipelines than were made")
            found.append((waiting.popleft(), {}))
        elif (number := STATISTIC.match(line)) and found:
            found[-1][1][number[1]] = int(number[2])
    if waiting:
        raise Refused(f"the driver told nothing of {len(waiting)} pipelines, the first: {waiting[0]}")
    return found


def compiled(program, plans, family, driver):
    environment = dict(os.environ, VK_DRIVER_FILES=str(driver), VK_ICD_FILENAMES=str(driver), RADV_FORCE_FAMILY=family,
                       RADV_DEBUG="shaderstats,nocache")
    done = subprocess.run([program, *plans], env=environment, stderr=subprocess.PIPE, text=True, errors="replace")
    if f"RADV {family}" not in done.stderr:
        raise Refused(f"no device of family {family}: {done.stderr[:300]}")
    told = [line for line in done.stderr.splitlines() if line.startswith(("FAILED ", "skipped "))]
    if done.returncode != 0:
        raise Refused(f"{family}: exit code {done.returncode}: " + "; ".join(told[:3]))
    return statistics(done.stderr), [line for line in told if line.startswith("skipped ")]


def name_of(kernel):
    found = re.search(r'"([a-z0-9_]+)"', kernel)
    return found[1] if found else kernel


def print_table(family, pipelines):
    rows = collections.defaultdict(list)
    for kernel, numbers in pipelines:
        rows[name_of(kernel)].append(numbers)
    print(f"| {family} | pipelines | VGPRs | spilled | LDS | fewest subgroups per SIMD |\n|---|---|---|---|---|---|")
    for name, all_numbers in sorted(rows.items()):
        most = lambda key: max(numbers.get(key, 0) for numbers in all_numbers)
        fewest = min(numbers.get("Subgroups per SIMD", 0) for numbers in all_numbers)
        print(f"| {name} | {len(all_numbers)} | {most('VGPRs')} | {most('Spilled VGPRs')} | {most('LDS size')} | {fewest} |")


def check(arguments, folder, driver):
    plans = sorted(map(str, folder.glob("*.plan")))
    good = True
    for family in arguments.families.split(","):
        pipelines, skipped = compiled(arguments.bin / "rlx_check_pipelines", plans, family, driver)
        spilling = [kernel for kernel, numbers in pipelines if numbers.get("Spilled VGPRs", 0) > 0]
        print(f"{family}: {len(pipelines)} pipelines of {len(plans)} plans, {len(spilling)} spill registers, {len(skipped)} plans skipped")
        for line in (spilling + skipped)[:5]:
            print("  " + line)
        if arguments.table:
            print_table(family, pipelines)
        good = good and pipelines and not spilling
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--families", default="NAVI21,VEGA10")
    parser.add_argument("--operators", nargs="*", default=[])
    parser.add_argument("--plans", type=pathlib.Path)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    drivers = sorted(DRIVERS.glob("radeon_icd*.json"))
    if not drivers:
        print("SKIPPED: no radv; it is in the package mesa-vulkan-drivers")
        return 0
    try:
        if arguments.plans:
            return 0 if check(arguments, arguments.plans, drivers[0]) else 1
        with tempfile.TemporaryDirectory() as folder:
            operators = [word for name in arguments.operators for word in ("--family", name)]
            subprocess.run([arguments.bin / "rlx_soak_plans", folder, "--target", "vulkan", "--cache", arguments.bin.parent / "kernel-cache",
                            *operators], check=True, stdout=subprocess.DEVNULL)
            return 0 if check(arguments, pathlib.Path(folder), drivers[0]) else 1
    except (Refused, subprocess.CalledProcessError) as fault:
        print(fault)
        return 1


if __name__ == "__main__":
    sys.exit(main())
