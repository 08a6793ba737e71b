#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who may include whom: schema <- compiler, runtime <- tools <- tests, and the floors inside compiler and runtime."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#include\s+"([^"]+)"', re.MULTILINE)

# Folder -> folders whose headers it may include, besides its own.
COMPILER = {
    "support": [],
    "ir": ["support"],
    "dispatch": ["support", "ir"],
    "ops": ["support", "ir", "dispatch"],  # its own folders: FAMILIES
    "import": ["support", "ir", "dispatch", "ops"],
    "reference": ["support", "ir", "dispatch", "ops"],
    "extension": ["support", "ir", "dispatch", "ops", "import", "reference"],
    "passes": ["support", "ir", "dispatch", "ops", "reference"],
    "lower": ["support", "ir", "dispatch", "ops"],
    "emit": ["support", "ir", "dispatch", "ops", "lower"],
}

# Folder of compiler/ops -> folders of it whose headers it may include, besides its own and those of compiler/ops itself.
FAMILIES = {
    "lowering": [],
    "elementwise": ["lowering"],
    "movement": ["lowering"],
    "generation": ["lowering", "rows"],
    "signal": ["lowering"],
    "rows": ["lowering"],
    "sequences": ["lowering"],
    "indexing": ["lowering"],
    "product": ["lowering", "rows"],
    "attention": ["lowering", "indexing"],
    "weighted": ["lowering", "product"],
    "vision": ["lowering", "product"],
    "control": ["lowering"],
    "training": ["lowering", "attention", "vision"],
    "extension": ["lowering"],
}

# Folder of runtime -> folders of it whose headers it may include, besides its own and the public headers.
RUNTIME = {
    "base": [],
    "trust": ["base"],
    "plan": ["base", "trust"],
    "verify": ["base", "trust", "plan"],
    "device": ["base", "plan"],
    "null": ["base", "plan", "device"],
    "vulkan": ["base", "plan", "device"],
    "cuda": ["base", "plan", "device"],
    "api": ["base", "trust", "plan", "verify", "device", "null", "vulkan", "cuda"],
    "text": ["base"],  # rlx_text, above the C interface
}


def allowed(path, target):
    """None if `path` (from the root) may include `target`, else why not."""
    floor, header = path.parts[0], pathlib.PurePath(target).parts
    if header[0] not in ("schema", "compiler", "runtime", "tools", "tests"):
        return None
    if floor == "schema":
        return None if header[0] == "schema" else "schema includes nothing of ours"
    if floor == "runtime":
        return allowed_in_runtime(path, header)
    if floor == "compiler":
        return allowed_in_compiler(path, header)
    if floor == "tools":
        return None if header[0] != "tests" else "tools do not include tests"
    return None


def allowed_in_compiler(path, header):
    own = path.parts[1]
    if header[0] == "schema":
        return None
    if header[0] == "runtime":
        return None if own == "emit" else "only emit may use the runtime (its verifier, its files)"
    if header[0] != "compiler":
        return "the compiler does not include tools or tests"
    if own == "ops" and header[1] == "ops":
        return allowed_in_ops(path.parts[2:-1], header[2:-1])
    if len(path.parts) == 2 or len(header) == 2 or header[1] == own:  # compile.cpp, version.h
        return None
    if header[1] in COMPILER.get(own, []):
        return None
    return f"compiler/{own} stands below compiler/{header[1]}"


def allowed_in_runtime(path, header):
    if header[0] not in ("schema", "runtime"):
        return "the runtime includes schema and runtime only"
    own = path.parts[1]
    if header[0] == "schema" or header[1] in (own, "include") or header[1] in RUNTIME.get(own, []):
        return None
    return f"runtime/{own} may not include runtime/{header[1]}"


def allowed_in_ops(own, included):
    """The folders of two files below compiler/ops."""
    if not included or own == included:
        return None
    if not own:
        return f"compiler/ops stands below compiler/ops/{included[0]}"
    if included[0] in FAMILIES.get(own[0], []):
        return None
    return f"compiler/ops/{own[0]} may not include compiler/ops/{included[0]}"


def main():
    faults = []
    for folder in ("schema", "compiler", "runtime", "tools", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".c", ".def"):
                continue
            relative = path.relative_to(ROOT)
            for target in INCLUDE.findall(path.read_text()):
                why = allowed(relative, target)
                if why:
                    faults.append(f"{relative}: includes {target}: {why}")
    print("\n".join(faults) or "floors: every include points down")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
