#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that what is true of an operator stands in its OpDef: outside compiler/ops and compiler/import no code asks for an operator by
its name, but for the rewrites that look for a pattern of operators, counted below.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPARISON = re.compile(r'\bop(?:\.name)? (?:==|!=) "\w+"')

# File -> how many comparisons the patterns that it rewrites need, at most.
PATTERNS = {
    "compiler/lower/concat_places.cpp": 2,  # the parts of a concat are written where they end
    "compiler/lower/layouts.cpp": 1,  # regions
    "compiler/passes/canonicalise.cpp": 9,  # identities, transposes, clamps
    "compiler/passes/fold_batch_norm.cpp": 2,
    "compiler/passes/fold_constants.cpp": 1,  # casts of weights
    "compiler/passes/fuse_conv.cpp": 2,
    "compiler/passes/fuse_elementwise.cpp": 1,  # regions
    "compiler/passes/fuse_epilogues.cpp": 4,
    "compiler/passes/fuse_gated.cpp": 1,
    "compiler/passes/fuse_norm.cpp": 2,
    "compiler/passes/fuse_rope.cpp": 5,
    "compiler/passes/lower_precision.cpp": 2,  # bitcast: the size of its elements is its meaning
    "compiler/passes/products.cpp": 2,
    "compiler/reference/evaluate.cpp": 1,  # state_write
}


def main():
    faults, total = [], 0
    for path in sorted((ROOT / "compiler").rglob("*")):
        name = str(path.relative_to(ROOT))
        if path.suffix not in (".h", ".cpp") or name.startswith(("compiler/ops/", "compiler/import/")):
            continue
        found = len(COMPARISON.findall(path.read_text()))
        total += found
        if found != PATTERNS.get(name, 0):
            faults.append(f"{name}: {found} comparisons with names of operators, {PATTERNS.get(name, 0)} in the table of tools/check_op_names.py")
    print("\n".join(faults) or f"op names: {total} comparisons, all of patterns")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
