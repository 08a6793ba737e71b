#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that counts and sizes are rounded up by ceil_div and round_up of schema/rounding.h: (a + b - 1) / b and its likes overflow near the
end of a type, and say less. Found are a divisor that is added and one taken off again, a constant one below its divisor of 4 or more
(half of a sum and one is no rounding), and (a - 1) / b + 1, in C++ outside literals and comments. Kernels have their own.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("compiler", "runtime", "schema", "tests", "tools", "examples")
TERM = r"(?:[\w.:>\[\]-]|\(\))+"
ADDED = re.compile(rf"\+ (?P<divisor>{TERM}(?: \* {TERM})*) - 1\)+ / \(?(?P=divisor)(?!\w)")
CONSTANT = re.compile(r"\+ (?P<below>\d+)[uUlL]*\)+ / (?P<divisor>\d+)")
LOWERED = re.compile(rf"- 1\) / {TERM} \+ 1\b")
ASIDE = re.compile(r'''R"\(.*?\)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+'|//[^\n]*''', re.DOTALL)


def is_rounding(code):
    constant = CONSTANT.search(code)
    if constant and int(constant["below"]) + 1 == int(constant["divisor"]) >= 4:
        return True
    return bool(ADDED.search(code) or LOWERED.search(code))


def faults_of(name, text):
    code = ASIDE.sub(lambda aside: '""' + "\n" * aside[0].count("\n"), text)
    # clang-format breaks a line before the divisor: a fault is told at the line where it ends.
    lines = code.splitlines()
    for number, line in enumerate(lines, 1):
        before = lines[number - 2].rstrip() + " " if number > 1 else ""
        if is_rounding(before + line.strip()) and not (before and is_rounding(before)):
            yield f"{name}:{number}: rounds up by hand: use ceil_div or round_up of schema/rounding.h: {line.strip()}"


# What the check must find, and what it must leave.
FOUND = ["n = (a + b - 1) / b;", "(p.k + p.block - 1) / p.block * 2", "(x + q * y - 1) / (q * y)", "(n + 63) / 64", "((n + 7u) / 8 * 8)", "(s - 1) / t + 1",
         "(a +\n  b - 1) / b", "((end + size + kWord - 1) /\n kWord)"]
LEFT = ["(a + b - 1) / c", "(n + 62) / 64", "(n + 1) / 2 * 3", 'text("(a + b - 1) / b")', "// (a + b - 1) / b", "(size - 1) / 2", 'R"(x\n(a + b - 1) / b)"']


def main():
    faults = [f"the check does not find: {code}" for code in FOUND if not list(faults_of("", code))]
    faults += [f"the check wrongly finds: {code}" for code in LEFT if list(faults_of("", code))]
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                faults += faults_of(path.relative_to(ROOT), path.read_text())
    print("\n".join(faults) or "rounding: every count is rounded up by schema/rounding.h")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
