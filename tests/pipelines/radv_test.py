#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the kernels of the conformance cases for AMD's GPUs, on a machine that has none.

    radv_test.py BIN [--families NAVI21,VEGA10] [--target vulkan] [--operators conv softmax ...] [--without-types bf16] [--plans FOLDER] [--table]

Mesa's radv makes pipelines without a GPU where RADV_FORCE_FAMILY names one. Every kernel must compile, and none may spill registers to
memory. BIN holds rlx_soak_plans and rlxc; --target takes another profile of Vulkan than the portable one; --operators takes families of operators instead of all, --without-types
leaves out cases of types that Mesa lacks; --plans takes a folder of
plans that is there; --table prints for each kernel and family of GPUs the pipelines, the most registers and shared memory, and the fewest
subgroups per SIMD.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

DRIVERS = pathlib.Path("/usr/share/vulkan/icd.d")


class Refused(Exception):
    pass


def compiled(program, plans, family, driver):
    """(kernel, {name: number}) for every pipeline, and what was not checked, as `rlxc check` tells it."""
    environment = dict(os.environ, RADV_DEBUG="nocache")
    done = subprocess.run([program, "check", *plans, "--driver", str(driver), "--gpu", family, "--json"], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    if not done.stdout.startswith("{"):
        raise Refused(f"{family}: exit code {done.returncode}: {done.stderr[:300]}")
    found, skipped = [], []
    for checked in json.loads(done.stdout)["programs"]:
        if "not_checked" in checked:
            skipped.append(f"{checked['plan']}: {checked['not_checked']}")
        for pipeline in checked["pipelines"]:
            if "refused" in pipeline:
                raise Refused(f"{family}: {pipeline['kernel']} ({pipeline['specialization']}): {pipeline['refused']}")
            if not pipeline.get("statistics"):
                raise Refused(f"{family}: the driver told nothing of {pipeline['kernel']} ({pipeline['specialization']})")
            found.append((f"{pipeline['kernel']} ({pipeline['specialization']})", pipeline["statistics"]))
    return found, skipped


def print_table(family, pipelines):
    rows = collections.defaultdict(list)
    for kernel, numbers in pipelines:
        rows[kernel.split(" ")[0]].append(numbers)
    print(f"| {family} | pipelines | VGPRs | spilled | LDS | fewest subgroups per SIMD |\n|---|---|---|---|---|---|")
    for name, all_numbers in sorted(rows.items()):
        most = lambda key: int(max(numbers.get(key, 0) for numbers in all_numbers))
        fewest = int(min(numbers.get("Subgroups per SIMD", 0) for numbers in all_numbers))
        print(f"| {name} | {len(all_numbers)} | {most('VGPRs')} | {most('Spilled VGPRs')} | {most('LDS size')} | {fewest} |")


def check(arguments, folder, driver):
    plans = sorted(map(str, folder.glob("*.plan")))
    good = True
    for family in arguments.families.split(","):
        pipelines, skipped = compiled(arguments.bin / "rlxc", plans, family, driver)
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
    parser.add_argument("--target", default="vulkan")
    parser.add_argument("--operators", nargs="*", default=[])
    parser.add_argument("--without-types", nargs="*", default=[])
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
            operators += [word for name in arguments.without_types for word in ("--without-types", name)]
            subprocess.run([arguments.bin / "rlx_soak_plans", folder, "--target", arguments.target, "--cache", arguments.bin.parent / "kernel-cache",
                            *operators], check=True, stdout=subprocess.DEVNULL)
            return 0 if check(arguments, pathlib.Path(folder), drivers[0]) else 1
    except (Refused, subprocess.CalledProcessError) as fault:
        print(fault)
        return 1


if __name__ == "__main__":
    sys.exit(main())
