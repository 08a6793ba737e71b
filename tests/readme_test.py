#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what the pages say to what is there: every command in the ```sh blocks of the two pages of commands is run in a scratch folder
that looks like the tree (tools/demo and tools/test are left to CI), every link of every page leads to a file and a heading, the first page
stays short, and its picture is what `rlxc inspect --svg` draws.

    python3 tests/readme_test.py BUILD_BIN
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUN = ["README.md", "tools/README.md"]
FIRST_PAGE_LINES = 150


def pages():
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in listed]


def commands(page):
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    for line in "".join(blocks).splitlines():
        if not line.startswith(("tools/demo", "tools/test")):
            yield line


def anchor(heading):
    """As the pages' readers on the web make it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def broken_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http:", "https:")):
            continue
        name, _, place = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists():
            yield f"{page.relative_to(ROOT)}: no file {target}"
        elif place and place not in {anchor(line.lstrip("#")) for line in file.read_text().splitlines() if line.startswith("#")}:
            yield f"{page.relative_to(ROOT)}: no heading {target}"


def run_commands(page, folder):
    count = 0
    for command in commands(page):
        result = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"{page.relative_to(ROOT)}: {command}\n{result.stdout}{result.stderr}exit code {result.returncode}")
        count += 1
    return count


def check_picture(folder):
    plan = folder / "encoder.plan"
    subprocess.run([folder / "build/bin/rlxc", "examples/encoder/encoder.json", "-o", plan, "--target", "vulkan"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([folder / "build/bin/rlxc", "inspect", plan, "--memory", "--svg", folder / "arena.svg"], check=True,
                   stdout=subprocess.DEVNULL)
    if (folder / "arena.svg").read_text() != (ROOT / "examples/encoder/arena.svg").read_text():
        sys.exit("examples/encoder/arena.svg is not what `rlxc inspect --svg` draws of the encoder's plan for vulkan")


def main():
    build_bin = pathlib.Path(sys.argv[1]).resolve()
    faults = [fault for page in pages() for fault in broken_links(page)]
    lines = len((ROOT / "README.md").read_text().splitlines())
    if lines > FIRST_PAGE_LINES:
        faults.append(f"README.md: {lines} lines, at most {FIRST_PAGE_LINES} are wanted")
    if faults:
        sys.exit("\n".join(faults))
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "build").mkdir()
        (folder / "build/bin").symlink_to(build_bin)
        subprocess.run(["cp", "-r", ROOT / "examples", folder], check=True)
        (folder / "tour").mkdir()
        count = sum(run_commands(ROOT / page, folder) for page in RUN)
        if count < 10:
            sys.exit(f"only {count} commands found")
        check_picture(folder)
        print(f"{count} commands work, and the links of {len(pages())} pages")


if __name__ == "__main__":
    main()
