#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What binding a symbol's value costs: the time of rlx_session_set_symbol and rlx_session_prepare, by the C library.

    python3 tests/bench/bindings.py PLAN SYMBOL --build build --device cuda      # new values, and values that the session keeps

Prints one line: steps, microseconds of a new value (median and largest of those tried) and of a kept one, and of the runs behind
them, submit to the end of wait: where a session makes ready for later values while the device runs, that is where it shows. Asked
are 1 ms for 300 steps and 5 us. Inputs are zeros.
"""
import argparse
import ctypes
import pathlib
import statistics
import sys
import time

KEPT = 8  # bindings that a session keeps unless told otherwise
I64 = 9  # RLX_I64


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=pathlib.Path)
    parser.add_argument("symbol")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder with lib/librlx.so")
    parser.add_argument("--device", default="null")
    parser.add_argument("--values", type=int, nargs="+", required=True, help="values of the symbol, at least two")
    parser.add_argument("--entry", type=int, default=0)
    return parser.parse_args()


class ProgramInfo(ctypes.Structure):
    """rlx_program_info."""

    _fields_ = [("struct_size", ctypes.c_size_t), *((name, ctypes.c_uint32) for name in ("target", "values", "steps", "waves")),
                ("arena_bytes", ctypes.c_uint64), ("arena_lower_bound", ctypes.c_uint64), ("name", ctypes.c_char_p)]


class EntryInfo(ctypes.Structure):
    """rlx_entry_info."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("inputs", ctypes.c_uint32), ("outputs", ctypes.c_uint32)]


class TensorInfo(ctypes.Structure):
    """rlx_tensor_info."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dtype", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("dims", ctypes.c_uint64 * 8), ("size_bytes", ctypes.c_uint64), ("segment", ctypes.c_uint32),
                ("first_step", ctypes.c_uint32), ("last_step", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


class Tensor(ctypes.Structure):
    """rlx_tensor."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("data", ctypes.c_void_p), ("size_bytes", ctypes.c_uint64), ("dtype", ctypes.c_uint32),
                ("rank", ctypes.c_uint32), ("dims", ctypes.c_uint64 * 8)]


class SessionOptions(ctypes.Structure):
    """rlx_session_options, up to what is used here."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("jobs", ctypes.c_uint32), ("profile", ctypes.c_uint32),
                ("pipeline_cache_path", ctypes.c_char_p), ("memory_budget_bytes", ctypes.c_uint64), ("cuda_stream", ctypes.c_void_p),
                ("require_tuned", ctypes.c_uint32), ("check_indices", ctypes.c_uint32), ("max_bindings", ctypes.c_uint32)]


class Session:
    """A session of a plan on a device; of the plan and the device of the one that it is `beside`."""

    def __init__(self, library, plan, device, kept=KEPT, beside=None):
        self.library, self.session = library, ctypes.c_void_p()
        library.rlx_last_error.restype = ctypes.c_char_p
        if beside:
            self.plan, self.device = beside.plan, beside.device
        else:
            self.plan, self.device = ctypes.c_void_p(), ctypes.c_void_p()
            self.check(library.rlx_plan_open_file(str(plan).encode(), None, ctypes.byref(self.plan)))
            self.check(library.rlx_device_open(device.encode(), ctypes.byref(self.device)))
        options = SessionOptions(struct_size=ctypes.sizeof(SessionOptions), max_bindings=kept)
        self.check(library.rlx_session_create(self.plan, self.device, ctypes.byref(options), ctypes.byref(self.session)))

    def check(self, status):
        if status != 0:
            sys.exit(f"error: {self.library.rlx_last_error().decode()}")

    def bind(self, entry, symbol, value):
        """Microseconds of it, without those of setting inputs of that size."""
        begin = time.perf_counter()
        status = self.library.rlx_session_set_symbol(self.session, entry, symbol, ctypes.c_uint64(value))
        taken = time.perf_counter() - begin
        self.check(status)
        self.set_inputs(entry)
        begin = time.perf_counter()
        status = self.library.rlx_session_prepare(self.session, entry)
        taken += time.perf_counter() - begin
        self.check(status)
        return taken * 1e6

    def set_inputs(self, entry):
        """To zeros of the present sizes."""
        entry_info = EntryInfo(struct_size=ctypes.sizeof(EntryInfo))
        self.check(self.library.rlx_plan_get_entry(self.plan, entry, ctypes.byref(entry_info)))
        for number in range(entry_info.inputs):
            info = TensorInfo(struct_size=ctypes.sizeof(TensorInfo))
            self.check(self.library.rlx_session_get_input(self.session, entry, number, ctypes.byref(info)))
            zeros = ctypes.create_string_buffer(max(info.size_bytes, 1))
            tensor = Tensor(ctypes.sizeof(Tensor), ctypes.cast(zeros, ctypes.c_void_p), info.size_bytes, info.dtype, info.rank, info.dims)
            self.check(self.library.rlx_session_set_input(self.session, entry, info.name, ctypes.byref(tensor)))

    def run(self, entry):
        """Microseconds from submit to the end of wait."""
        begin = time.perf_counter()
        status = self.library.rlx_session_run(self.session, entry)
        taken = time.perf_counter() - begin
        self.check(status)
        return taken * 1e6

    def steps(self, entry):
        """At the values that are bound."""
        info = ProgramInfo(struct_size=ctypes.sizeof(ProgramInfo))
        self.check(self.library.rlx_session_get_program(self.session, entry, ctypes.byref(info)))
        return info.steps


def main():
    args = parse_arguments()
    session = Session(ctypes.CDLL(str(args.build / "lib/librlx.so")), args.plan, args.device)
    symbol = args.symbol.encode()
    fresh, first_runs, later_runs = [], [], []
    for value in args.values:
        fresh.append(session.bind(args.entry, symbol, value))
        first_runs.append(session.run(args.entry))
        later_runs.append(statistics.median(session.run(args.entry) for _ in range(5)))
    kept_values = args.values[-min(KEPT, len(args.values)):]
    kept = [session.bind(args.entry, symbol, value) for _ in range(50) for value in kept_values]
    print(f"{args.plan.name} {args.device}: {session.steps(args.entry)} steps; a new value {statistics.median(fresh):.0f} us, at most "
          f"{max(fresh):.0f}; a kept one {statistics.median(kept):.2f} us; first run {statistics.median(first_runs):.0f}, later ones "
          f"{statistics.median(later_runs):.0f}")


if __name__ == "__main__":
    main()
