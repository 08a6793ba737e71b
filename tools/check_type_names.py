#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no two files define a type of one full name: linked into one program they would be one type to the linker and two to the
compiler (one definition rule), and nothing but a sanitizer tells. A type in an unnamed namespace is its file's own.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("compiler", "runtime", "tools", "tests")
OPENS = re.compile(r"^namespace ?([\w:]*) ?\{")
CLOSES = re.compile(r"^\}  // namespace")
TYPE = re.compile(r"^(?:template <[^{}]*> )?(?:struct|class|union|enum class) (?:\[\[\w+\]\] )?(\w+)(?: final)?(?: : [^;]*)? \{")


def types_of(text):
    """Full names of the types that a file defines at namespace scope, and what an unnamed namespace holds left out."""
    inside = []
    for line in text.splitlines():
        if opened := OPENS.match(line):
            inside.append(opened[1])
        elif CLOSES.match(line):
            inside.pop()
        elif (defined := TYPE.match(line)) and "" not in inside:
            yield "::".join([*inside, defined[1]])


def main():
    homes = collections.defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                for name in types_of(path.read_text()):
                    homes[name].append(str(path.relative_to(ROOT)))
    faults = [f"{name} is defined by {' and by '.join(files)}" for name, files in sorted(homes.items()) if len(files) > 1]
    print("\n".join(faults) or f"type names: {len(homes)} types, each defined once")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
