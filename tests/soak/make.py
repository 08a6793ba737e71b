#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes and compiles the networks and kernels of the soak, by nothing but Python's own library and rlxc.

    python3 tests/soak/make.py FOLDER --rlxc build/bin/rlxc --target cuda --arch sm_90a
    python3 tests/soak/make.py FOLDER --rlxc build/bin/rlxc --target vulkan --only small

For CUDA it fails where the compiler chose another kernel than the case is for, or no clusters where it is for them.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

import kernels
import networks


def compile_graph(args, graph, precision="f32"):
    """The plan's path; throws RuntimeError with rlxc's words where it refuses the graph."""
    source = args.folder / "graphs" / f"{graph.name}.json"
    source.write_text(graph.text())
    plan = args.folder / f"{graph.name}.plan"
    command = [args.rlxc, source, "-o", plan, "-q", "--target", args.target, "--precision", precision]
    command += ["--control", "regions"]
    command += ["--arch", args.arch] if args.arch else []
    command += ["--cache", args.cache] if args.cache else []
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{graph.name}: {done.stdout}{done.stderr}")
    return plan


def inspected(args, plan, what):
    return json.loads(subprocess.run([str(args.rlxc), "inspect", str(plan), what, "--json"], capture_output=True, text=True,
                                     check=True).stdout)


def chosen(args, plan):
    """(kernel, workgroups of a cluster, specialization) of each step of the plan's entry for CUDA; the library's have no kernel."""
    clusters = {}
    for kernel in inspected(args, plan, "--kernels")["kernels"]:
        clusters[kernel["name"], kernel["specialization"]] = max(v.get("cluster_x", 1) for v in kernel["variants"])
    entry = next(e for e in inspected(args, plan, "--steps")["entries"] if not e["init"] and e["targets"] == "cuda")
    return [(s["kernel"], clusters.get((s["kernel"], s["specialization"]), 1), s["specialization"]) for s in entry["steps"]
            if "kernel" in s]


def check_choice(args, case, plan):
    """Throws RuntimeError where no step is what the case is for."""
    steps = chosen(args, plan)
    clusters = [cluster for kernel, cluster, _ in steps if kernel == case.kernel]
    if not clusters:
        raise RuntimeError(f"{case.name}: no step runs {case.kernel}; its steps run {', '.join(kernel for kernel, _, _ in steps)}")
    if case.clusters and max(clusters) == 1:
        raise RuntimeError(f"{case.name}: no step of {case.kernel} has clusters")
    if case.define and not any(case.define in specialization for kernel, _, specialization in steps if kernel == case.kernel):
        raise RuntimeError(f"{case.name}: no step of {case.kernel} has {case.define}")


def compile_case(args, case):
    plan = compile_graph(args, case.graph(), case.precision)
    if args.target == "cuda":
        check_choice(args, case, plan)


def compile_all(args, graphs, cases):
    """What went wrong, a line each."""
    faults = []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        work = [pool.submit(compile_graph, args, graph) for graph in graphs]
        work += [pool.submit(compile_case, args, case) for case in cases]
        for done in work:
            try:
                done.result()
            except RuntimeError as fault:
                faults.append(str(fault))
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rlxc", type=pathlib.Path, required=True)
    parser.add_argument("--target", default="vulkan", choices=["vulkan", "vulkan-khr-coop", "vulkan-nvidia", "cuda"])
    parser.add_argument("--arch", help="CUDA architectures")
    parser.add_argument("--cache", help="kernel code cache")
    parser.add_argument("--only", choices=["networks", "kernels", "small"], help="small: networks that a CPU replays in little time")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count(), help="compilers at a time")
    args = parser.parse_args()
    (args.folder / "graphs").mkdir(parents=True, exist_ok=True)
    graphs = networks.all_networks() if args.only in (None, "networks") else networks.small_networks() if args.only == "small" else []
    cases = kernels.all_cases() if args.only in (None, "kernels") else []
    faults = compile_all(args, graphs, cases)
    print(f"{len(graphs) + len(cases) - len(faults)} plans in {args.folder}")
    if any("[missing-library]" in fault for fault in faults):
        sys.exit(f"SKIPPED: CUDA kernels are not compiled: {faults[0]}")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
