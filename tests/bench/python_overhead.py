#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the Python package costs: importing it, and what a call takes beyond the C API, which runs the same plan in the same process.

    PYTHONPATH=build/python python3 tests/bench/python_overhead.py [--device null,vulkan,cuda] [--plan small.plan]

The plan is y = relu(x) of 16 numbers, by default compiled here. For each way of giving arrays the C API does the same: sets or binds
what changed, runs, reads what lies on the host. It is called by ctypes, whose own time (of a call that does nothing) is taken off.
Medians of single calls.
"""
import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

IMPORT = """
import time
wall, cpu = time.perf_counter(), time.process_time()
import rlx
print((time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3)
"""
GRAPH = {"rlx_graph": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": [16]}], "outputs": ["y"],
         "nodes": [{"name": "y", "op": "relu", "inputs": ["x"], "outputs": ["y"]}]}
BYTES = 64


class RlxTensor(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("data", ctypes.c_void_p), ("size_bytes", ctypes.c_uint64), ("dtype", ctypes.c_uint32),
                ("rank", ctypes.c_uint32), ("dims", ctypes.c_uint64 * 8)]


class RlxSessionOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("jobs", ctypes.c_uint32), ("profile", ctypes.c_uint32), ("cache", ctypes.c_char_p),
                ("budget", ctypes.c_uint64), ("cuda_stream", ctypes.c_void_p), ("tuned", ctypes.c_uint32), ("check_indices", ctypes.c_uint32)]


class Library:
    """The package's own librlx: a session with the options of rlx.Session, and calls of it."""

    def __init__(self, plan, device):
        import rlx
        folder = pathlib.Path(rlx.__file__).parent
        self.lib = ctypes.CDLL(str(next(folder.glob("librlx.so*"))))
        self.lib.rlx_last_error.restype = ctypes.c_char_p
        self.session, opened, at = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        options = RlxSessionOptions(ctypes.sizeof(RlxSessionOptions), check_indices=1, cuda_stream=1 if device == "cuda" else None)
        self.check(self.lib.rlx_plan_open_file(plan.encode(), None, ctypes.byref(opened)))
        self.check(self.lib.rlx_device_open(device.encode(), ctypes.byref(at)))
        self.check(self.lib.rlx_session_create(opened, at, ctypes.byref(options), ctypes.byref(self.session)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.rlx_last_error().decode())

    def calls(self, *wanted):
        """A function that makes these calls, (name, arguments...), and nothing else."""
        made = [(getattr(self.lib, name), (self.session, ctypes.c_uint32(0), *arguments)) for name, *arguments in wanted]
        for function, arguments in made:
            self.check(function(*arguments))
        return lambda: [function(*arguments) for function, arguments in made]

    def idle(self, count):
        """So many calls by ctypes of a function that looks at one number."""
        made = [(self.lib.rlx_dtype_name, (ctypes.c_uint32(0), self.session))] * count
        return lambda: [function(*arguments) for function, arguments in made]


def median(call, count):
    for _ in range(50):
        call()
    times = []
    for _ in range(count):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1e3


def import_times():
    runs = [subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout.split() for _ in range(10)]
    return min(float(wall) for wall, _ in runs), min(float(cpu) for _, cpu in runs)


def tensor(array):
    return RlxTensor(ctypes.sizeof(RlxTensor), array.ctypes.data, array.nbytes, 0, 1, (16,))


def host_ways(library, session, np):
    """(what, Python's call, the C API's call of one run, calls of ctypes in it): with NumPy's arrays."""
    x, y = np.ones(16, np.float32), np.zeros(16, np.float32)
    native = library.calls(("rlx_session_set_input", b"x", ctypes.byref(tensor(x))), ("rlx_session_run",),
                           ("rlx_session_read_output", b"y", ctypes.c_void_p(y.ctypes.data), ctypes.c_uint64(BYTES)))
    inputs, out = {"x": x}, {"y": y}
    yield "NumPy in and out", lambda: session(x=x), native, 3
    yield "NumPy in, into a given array", lambda: session.run(inputs, out=out), native, 3


def gpu_ways(library, session, torch):
    """The same with PyTorch's tensors on the GPU. An address that changes is bound anew, which the C API's user does too."""
    x, y, *others = (torch.ones(16, device="cuda") for _ in range(4))

    def bound(kind, name, array):
        return f"rlx_session_bind_{kind}", name, ctypes.c_uint64(array.data_ptr()), ctypes.c_uint64(BYTES)

    library.calls(bound("input", b"x", x), bound("output", b"y", y))
    run = library.calls(("rlx_session_run",))
    inputs, out, last = {"x": x}, {"y": y}, []
    yield "PyTorch's tensors in and out, both given", lambda: session.run(inputs, out=out), run, 1
    yield "the output given, the input kept", lambda: session.run({}, out=out), run, 1
    ends = [library.calls(bound("output", b"y", each), ("rlx_session_run",)) for each in others]

    def next_bound():
        ends.reverse()
        ends[0]()

    def new_output():  # the last one lives while the next is made
        last[:] = [session(x=x)]

    yield "a new tensor for each output", new_output, next_bound, 2


def rows(device, plan, count):
    import numpy as np
    import rlx
    with rlx.Session(plan, device) as session:
        ways = list(host_ways(Library(plan, device), session, np))
        try:
            import torch
            if device == "cuda" and torch.cuda.is_available():
                ways += gpu_ways(Library(plan, device), session, torch)
        except ImportError:
            pass
        library = Library(plan, "null")
        for what, call, native, calls in ways:
            in_c = max(0.0, median(native, count) - median(library.idle(calls), count))
            yield what, in_c, median(call, count) - median(lambda: None, count)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="null", help="some of null,vulkan,cuda (default: null, which computes nothing)")
    parser.add_argument("--plan", help="a plan of that graph, for machines without the compiler")
    parser.add_argument("--count", type=int, default=5000, help="calls of each kind (default: 5000)")
    arguments = parser.parse_args()
    wall, cpu = import_times()
    print(f"import: {wall:.1f} ms, {cpu:.1f} ms of them computing\n")
    with tempfile.TemporaryDirectory() as folder:
        plan = arguments.plan or os.path.join(folder, "small.plan")
        if not arguments.plan:
            import rlx
            rlx.compile(json.dumps(GRAPH).encode(), target=["vulkan", "cuda"] if "cuda" in arguments.device else "vulkan", cache=False,
                        output=plan)
        print("| device | arrays | C API, us | Python, us | beyond, us |\n|---|---|---|---|---|")
        for device in arguments.device.split(","):
            for what, native, python in rows(device, plan, arguments.count):
                print(f"| {device} | {what} | {native:.2f} | {python:.2f} | {python - native:.2f} |")


if __name__ == "__main__":
    main()
