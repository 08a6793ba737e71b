#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Arenas of graphs shaped like well-known networks: bytes, lower bound, ratio, time to order and pack, and what in-place results
and fusion do to the bound. Nothing is run and no kernel is compiled, so it needs no device.

    python3 tests/bench/arena.py --build build [--target vulkan,cuda] [--check] [NAME ...]

--check: exit code 1 where an arena is larger than its lower bound.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import packages  # noqa: E402

packages.need("numpy")
import numpy as np  # noqa: E402

import arena_models  # noqa: E402

AS_COMPILED = "as compiled"
OTHERS = ["not in place", "no fusion (-O1)", "no fusion, not in place"]


def arenas(rlxc, folder, name, dtype, network, targets):
    """The rows of `rlxc bench-arena`. Values of inputs are left out: only shapes count."""
    graph = network.graph(name, dtype)
    for table, values in graph.tables.items():
        np.save(folder / f"{name}.{table}.npy", values)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(graph.document()))
    done = subprocess.run([rlxc, "bench-arena", path, "--target", targets, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{name}: rlxc bench-arena ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)["arenas"]


def mib(count):
    return f"{count / 2**20:.2f}" if count >= 2**17 else f"{count / 2**20:.4f}"


def print_rows(title, rows, targets):
    """A line per target; the largest arena where a model has several entries. Returns whether each lies at its bound."""
    good = True
    for target in targets.split(","):
        found = {}
        for row in rows:
            known = found.get(row["variant"])
            if row["target"] == target and (known is None or row["arena_bytes"] > known["arena_bytes"]):
                found[row["variant"]] = row
        plan = found[AS_COMPILED]
        good = good and all(row["arena_bytes"] == row["lower_bound_bytes"] for row in found.values())
        worst = max(row["ratio"] for row in found.values())
        slowest = max(row["seconds"] for row in found.values()) * 1e3
        bounds = " | ".join(mib(found[variant]["lower_bound_bytes"]) for variant in OTHERS)
        print(f"| {title} | {target} | {plan['steps']} / {plan['waves']} | {mib(plan['unplanned_bytes'])} | "
              f"{mib(plan['arena_bytes'])} | {mib(plan['lower_bound_bytes'])} | {bounds} | {worst:.3f} | {slowest:.1f} |", flush=True)
    return good


def main():
    known = [entry[0] for entry in arena_models.SUITE]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder")
    parser.add_argument("--target", default="vulkan,cuda")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(known))
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in known]
    if unknown:
        sys.exit(f"unknown graph {unknown[0]}; known: {' '.join(known)}")
    rlxc = args.build.resolve() / "bin" / "rlxc"
    print("| MiB | target | steps / waves | without reuse | arena | bound | bound, not in place | bound, no fusion | bound, neither "
          "| worst ratio of the four | slowest, ms |\n|---|---|---|---|---|---|---|---|---|---|---|")
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for name, title, dtype, network in arena_models.SUITE:
            if not args.names or name in args.names:
                rows = arenas(rlxc, pathlib.Path(folder), name, dtype, network, args.target)
                good = print_rows(title, rows, args.target) and good
    if args.check and not good:
        sys.exit("an arena is larger than its lower bound")


if __name__ == "__main__":
    main()
