#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What binding a symbol's value costs: the time of rlx_session_set_symbol and rlx_session_prepare, by the C library.

    python3 tests/bench/bindings.py PLAN SYMBOL --build build --device cuda      # new values, and values that the session keeps

Prints one line: steps, microseconds of a new value (median and largest of those tried) and of a kept one. Asked are 1 ms for 300
steps and 5 us.
"""
import argparse
import ctypes
import pathlib
import statistics
import sys
import time

KEPT = 8  # bindings that a session keeps unless told otherwise


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


class Session:
    """A session of a plan on a device."""

    def __init__(self, library, plan, device):
        self.library, self.session = library, ctypes.c_void_p()
        library.rlx_last_error.restype = ctypes.c_char_p
        opened, found = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(library.rlx_plan_open_file(str(plan).encode(), None, ctypes.byref(opened)))
        self.check(library.rlx_device_open(device.encode(), ctypes.byref(found)))
        self.check(library.rlx_session_create(opened, found, None, ctypes.byref(self.session)))

    def check(self, status):
        if status != 0:
            sys.exit(f"error: {self.library.rlx_last_error().decode()}")

    def bind(self, entry, symbol, value):
        """Microseconds of it."""
        begin = time.perf_counter()
        status = self.library.rlx_session_set_symbol(self.session, entry, symbol, ctypes.c_uint64(value))
        status = status or self.library.rlx_session_prepare(self.session, entry)
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
    fresh = [session.bind(args.entry, symbol, value) for value in args.values]
    kept_values = args.values[-min(KEPT, len(args.values)):]
    kept = [session.bind(args.entry, symbol, value) for _ in range(500) for value in kept_values]
    print(f"{args.plan.name} {args.device}: {session.steps(args.entry)} steps; a new value {statistics.median(fresh):.0f} us, at most "
          f"{max(fresh):.0f}; a kept one {statistics.median(kept):.2f} us")


if __name__ == "__main__":
    main()
