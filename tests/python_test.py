#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scripts where the first python3 on PATH is a bare one: what setup gave packages for still works, and nothing ends in a traceback.

    python3 tests/python_test.py BUILD_BIN
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Scripts that need PyTorch or onnxruntime, which setup does not install: one line, if they are missing.
PEERS = {"tools/rlx_export.py", "tools/compare_onnxruntime.py", "tests/onnx/onnxruntime_test.py", "tests/export/export_test.py",
         "tests/text/tokenizers_test.py", "examples/search/make_model.py", "examples/serve/app.py", "examples/serve/embed_lines.py",
         "examples/serve/load_test.py", "tests/bench/training.py"}
PAGES = ["README.md", "tools/python/README.md", "tools/README.md", "compiler/import/README.md", "tests/bench/results/README.md"]
SKIPPED = 77


def scripts():
    """What the pages and the examples run by python3, and every other script of the tree that has a --help."""
    texts = [*(ROOT / name for name in PAGES), *ROOT.glob("examples/*/README.md"), *ROOT.glob("examples/*/run")]
    named = {name for path in texts for name in re.findall(r"python3 ((?:tools|tests|examples)/\S+\.py)", path.read_text())}
    listed = subprocess.run(["git", "ls-files", "tools/*.py", "tests/*.py", "examples/*.py"], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.split()  # not the packages that an example installs beside its own
    helpful = {name for name in listed
               if "argparse.ArgumentParser(" in (ROOT / name).read_text() and ROOT / name != pathlib.Path(__file__).resolve()}
    return sorted(named | helpful)


def run(python, command, **options):
    """Exit code and what was said, with that folder of interpreters first on PATH."""
    environment = {**os.environ, "PATH": f"{python}{os.pathsep}{os.environ['PATH']}"}
    for name in ("RLX_PYTHON", "RLX_PYTHON_CHOSEN", "PYTHONPATH", "VIRTUAL_ENV"):
        environment.pop(name, None)
    done = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    return done.returncode, done.stdout + done.stderr


def check_help(bare):
    """Faults of `python3 SCRIPT --help` for every script."""
    faults = []
    for script in scripts():
        code, said = run(bare, ["python3", script, "--help"])
        lines = len(said.splitlines())
        if "Traceback" in said:
            faults.append(f"{script}: a traceback\n{said}")
        elif code != 0 and script not in PEERS and "show.py" not in script:
            faults.append(f"{script}: exit code {code}\n{said}")
        elif code != 0 and script in PEERS and lines != 1:
            faults.append(f"{script}: {lines} lines to say what is missing\n{said}")
    return faults


def check_nothing_there(bare, folder):
    """With no other interpreter in reach the one line says what is missing, and how to get it."""
    (folder / "lonely.py").write_text(f"import sys\nsys.path.insert(0, {str(ROOT / 'tools')!r})\nimport packages\n"
                                      "packages.need('numpy', 'no_such_package')\n")
    code, said = run(bare, ["python3", str(folder / "lonely.py")])
    wanted = ("lonely.py: error: no python3 here has the packages numpy, no_such_package", "pip install no_such_package", "RLX_PYTHON")
    if code != 1 or len(said.splitlines()) != 1 or not all(words in said for words in wanted):
        return [f"missing packages: exit code {code}\n{said}"]
    return []


def check_example(bare, build_bin):
    """The demo's second half: what a newcomer meets first."""
    code, said = run(bare, ["env", f"RLX_BIN={build_bin}", "examples/mnist/run"])
    if "mesa-vulkan-drivers" in said:
        print("SKIPPED: examples/mnist/run: no Vulkan device")
        return []
    return [] if code == 0 and "accuracy" in said else [f"examples/mnist/run: exit code {code}\n{said}"]


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        made = subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], capture_output=True, text=True)
        if made.returncode != 0:
            print(f"SKIPPED: no venv can be made: {made.stderr.strip()}")
            sys.exit(SKIPPED)
        bare = folder / "venv/bin"
        if run(bare, ["python3", "-c", "import numpy"])[0] == 0:
            sys.exit("the venv that was to be bare has NumPy")
        faults = check_help(bare) + check_nothing_there(bare, folder)
        if len(sys.argv) > 1:
            faults += check_example(bare, pathlib.Path(sys.argv[1]).resolve())
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(scripts())} scripts run under a bare python3, or say in one line what they need")


if __name__ == "__main__":
    main()
