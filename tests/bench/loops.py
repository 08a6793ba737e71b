#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loops of many small trips as graph files: what a trip and step cost.

    python3 tests/bench/loops.py FOLDER [TRIPS]     # scan.json: so many trips; loop.json: as many as the run asks for
    build/bin/rlxc FOLDER/scan.json -o FOLDER/scan.plan --target cuda --arch sm_90a
    build/bin/rlxrun FOLDER/scan.plan --seeded --repeat 200      # over TRIPS * 3: microseconds of a trip and step
    build/bin/rlxrun FOLDER/loop.plan --seeded --seeded-max 1001 --repeat 200
"""
import json
import pathlib
import sys

WIDE = 64


def body_nodes():
    """Three steps that no fusion joins."""
    return [{"op": "matmul", "inputs": ["carry", "w"], "outputs": ["product"]},
            {"op": "cumsum", "inputs": ["product"], "outputs": ["sums"], "attributes": {"axis": 1}},
            {"op": "softmax", "inputs": ["sums"], "outputs": ["next"], "attributes": {"axis": 1}}]


def graph(node, inputs=()):
    weight = {"random": {"distribution": "normal", "std": 0.1, "seed": 1}}
    return {"rlx_graph": 1, "params": [{"name": "w", "dtype": "f32", "shape": [WIDE, WIDE], "data": weight}],
            "inputs": [{"name": "x", "dtype": "f32", "shape": [1, WIDE]}, *inputs], "nodes": [node], "outputs": ["y"]}


def main():
    folder = pathlib.Path(sys.argv[1])
    trips = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    folder.mkdir(parents=True, exist_ok=True)
    scan = {"op": "scan", "inputs": ["x"], "outputs": ["y"], "attributes": {"length": trips},
            "bodies": {"body": {"inputs": ["carry"], "nodes": body_nodes(), "outputs": ["next"]}}}
    loop = {"op": "loop", "inputs": ["n", None, "x"], "outputs": ["y"], "attributes": {"max_iterations": trips},
            "bodies": {"body": {"inputs": ["trip", "on", "carry"], "nodes": body_nodes(), "outputs": ["on", "next"]}}}
    (folder / "scan.json").write_text(json.dumps(graph(scan), indent=1))
    (folder / "loop.json").write_text(json.dumps(graph(loop, [{"name": "n", "dtype": "i64", "shape": []}]), indent=1))


if __name__ == "__main__":
    main()
