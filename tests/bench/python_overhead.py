#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the Python package costs: importing it, and a call on the null device, which computes nothing.

    PYTHONPATH=build/python python3 tests/bench/python_overhead.py

Prints the best of many rounds, since other work on the machine only adds.
"""
import json
import subprocess
import sys
import time

IMPORT = """
import time
wall, cpu = time.perf_counter(), time.process_time()
import rlx
print((time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3)
"""
ROUNDS, CALLS = 100, 1000


def import_times():
    runs = [subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout.split() for _ in range(10)]
    return min(float(wall) for wall, _ in runs), min(float(cpu) for _, cpu in runs)


def call_time():
    import numpy as np
    import rlx
    graph = {"rlx_graph": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": [16]}], "outputs": ["y"],
             "nodes": [{"name": "y", "op": "relu", "inputs": ["x"], "outputs": ["y"]}]}
    x = np.ones(16, np.float32)
    with rlx.Session(rlx.compile(json.dumps(graph).encode(), cache=False), "null") as session:
        best = float("inf")
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for _ in range(CALLS):
                session(x=x)
            best = min(best, (time.perf_counter() - start) / CALLS)
    return best * 1e6


if __name__ == "__main__":
    wall, cpu = import_times()
    print(f"import: {wall:.1f} ms, {cpu:.1f} ms of them computing; a call: {call_time():.2f} us")
