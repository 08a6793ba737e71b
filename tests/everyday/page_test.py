#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page that `rlxc inspect --html` writes, in a browser: its script ends, and every step of a plan of 300 has its row and its box.
Exits 77, which counts as skipped, where no Chromium is.

    python3 tests/everyday/page_test.py BUILD_BIN
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

STEPS = 300


def main():
    rlxc = str(pathlib.Path(sys.argv[1], "rlxc").resolve())
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        print("SKIPPED: no chromium")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        graph, plan, page = (pathlib.Path(folder, name) for name in ("chain.json", "chain.plan", "page.html"))
        nodes = [{"name": f"step{i}", "op": "softmax", "inputs": [f"v{i}"], "outputs": [f"v{i + 1}"], "attributes": {"axis": 1}}
                 for i in range(STEPS)]
        graph.write_text(json.dumps({"rlx_graph": 1, "name": "chain", "inputs": [{"name": "v0", "dtype": "f32", "shape": [4, 32]}],
                                     "nodes": nodes, "outputs": [f"v{STEPS}"]}))
        for command in ([graph, "-o", plan, "--target", "vulkan"], ["inspect", plan, "--html", page]):
            subprocess.run([rlxc, *command], check=True, stdout=subprocess.DEVNULL)
        shown = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/browser",
                                "--virtual-time-budget=3000", "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=240)
        if shown.returncode != 0:
            sys.exit(f"{browser} ended with {shown.returncode}: {shown.stderr[-500:]}")
        table = shown.stdout.partition('<tbody id="rows">')[2].partition("</tbody>")[0]
        rows = re.findall(r'title="(step\d+)"', table)
        boxes, labels = shown.stdout.count('<rect class="node'), len(re.findall(r"<text [^>]*>\d+  step\d+<", shown.stdout))
        if rows != [f"step{i}" for i in range(STEPS)] or boxes != STEPS or not 0 < labels < STEPS:
            sys.exit(f"{len(rows)} rows and {boxes} boxes of {STEPS} steps, {labels} labels in view")
        if f"{STEPS} steps in {STEPS} waves" not in shown.stdout:
            sys.exit("the page does not tell its entry")
    print(f"page: {STEPS} steps have rows and boxes, {labels} of them labels in view")


if __name__ == "__main__":
    main()
