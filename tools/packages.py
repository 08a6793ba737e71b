# SPDX-License-Identifier: Apache-2.0
"""Python packages that a script needs: another interpreter of this machine runs it where that one has them, and else one line
says what is missing. tools/setup gives NumPy to Debian's /usr/bin/python3, which need not be the first python3 on PATH.

    sys.path.insert(0, str(ROOT / "tools"))
    import packages
    packages.need("numpy")
    import numpy as np

As a program: packages.py NAME...; exit code 1 where one is missing.
"""
import importlib
import os
import pathlib
import subprocess
import sys

CHOSEN = "RLX_PYTHON_CHOSEN"  # the packages for which this interpreter was chosen: it chooses no other for them
FROM_SETUP = {"numpy"}


def missing(names):
    """Those that this interpreter cannot import. A folder of that name without code in it is no package."""
    absent = []
    for name in names:
        try:
            if getattr(importlib.import_module(name), "__file__", None) is None:
                absent.append(name)
        except ImportError:
            absent.append(name)
    return absent


def interpreters():
    """Every python3 there is: of RLX_PYTHON, of PATH, of the system."""
    folders = os.environ.get("PATH", "").split(os.pathsep) + ["/usr/local/bin", "/usr/bin"]
    candidates = [os.environ.get("RLX_PYTHON", "")] + [os.path.join(folder, "python3") for folder in folders if folder]
    return [path for path in dict.fromkeys(candidates) if path and os.access(path, os.X_OK)]


def has(python, names):
    command = [python, str(pathlib.Path(__file__).resolve()), *names]
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def need(*names):
    """Returns where all of them can be imported, goes on in an interpreter that has them, or ends with code 1 and one line."""
    absent = missing(names)
    if not absent:
        return
    script = pathlib.Path(sys.argv[0])
    if os.environ.get(CHOSEN) != " ".join(names) and script.is_file():
        for python in interpreters():
            if has(python, names):
                sys.stdout.flush()
                os.execve(python, [python, *sys.argv], {**os.environ, CHOSEN: " ".join(names)})
    by_pip = [name for name in absent if name not in FROM_SETUP]
    way = f"python3 -m pip install {' '.join(by_pip)}" if by_pip else "tools/setup installs what it needs"
    sys.exit(f"{script.name}: error: no python3 here has the packages {', '.join(names)} (this one lacks {', '.join(absent)}); "
             f"{way}, or name an interpreter that has them in RLX_PYTHON")


if __name__ == "__main__":
    sys.exit(1 if missing(sys.argv[1:]) else 0)
