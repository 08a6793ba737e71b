#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that what is true of an operator stands in its OpDef: outside compiler/ops and compiler/import no code asks for an operator by a
string. Rewrites that look for a pattern of operators compare with OpId, which ops.def generates, so that a misspelt name does not compile.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPARISON = re.compile(r'\bop(?:\.name)?(?:\(\))? (?:==|!=) "\w*"|"\w*" (?:==|!=) [\w.>-]*\bop\b|find_op\("')


def main():
    faults = []
    for path in sorted((ROOT / "compiler").rglob("*")):
        name = str(path.relative_to(ROOT))
        if path.suffix not in (".h", ".cpp") or name.startswith(("compiler/ops/", "compiler/import/")):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if COMPARISON.search(line):
                faults.append(f"{name}:{number}: an operator by a string: compare with OpId, or ask a fact of its OpDef: {line.strip()}")
    print("\n".join(faults) or "op names: none is compared as a string outside compiler/ops and compiler/import")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
