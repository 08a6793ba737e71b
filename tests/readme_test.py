#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every command of README.md's ```sh blocks in a scratch folder that looks like the tree. tools/demo and tools/test are left to CI.

    python3 tests/readme_test.py BUILD_BIN
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def commands():
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    for line in "".join(blocks).splitlines():
        if not line.startswith(("tools/demo", "tools/test")):
            yield line


def main():
    build_bin = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "build").mkdir()
        (folder / "build/bin").symlink_to(build_bin)
        subprocess.run(["cp", "-r", ROOT / "examples", folder], check=True)
        (folder / "tour").mkdir()
        count = 0
        for command in commands():
            result = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
            if result.returncode != 0:
                sys.exit(f"README.md: {command}\n{result.stdout}{result.stderr}exit code {result.returncode}")
            count += 1
        if count < 10:
            sys.exit(f"README.md: only {count} commands found")
        print(f"{count} commands of README.md work")


if __name__ == "__main__":
    main()
