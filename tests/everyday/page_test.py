#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page that `rlxc inspect --html` writes, in a browser: its script ends, few of the 300 steps of a plan have their box at first, and every
one has its row and its box once it is scrolled to. Exits 77, which counts as skipped, where no Chromium is.

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
# At the end of the page: what is drawn by itself goes into the title; then the whole graph, and the table to its end.
LOOK = """<script>
addEventListener("load", () => {
  const count = what => document.querySelectorAll(what).length, table = by("table");
  const scroll = () => { table.scrollTop = table.scrollHeight; if (count("#rows tr") < STEPS) setTimeout(scroll, 10); };
  const look = () => {
    if (!count("rect.node") || !count("#rows tr") || !count("#file div")) return setTimeout(look, 50);
    document.title = `drawn ${count("rect.node")} ${count("#graph text")} ${count("#rows tr")} ${count("#file div")}`;
    by("whole").click();
    scroll();
  };
  look();
});
</script>"""


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
        page.write_text(page.read_text() + LOOK.replace("STEPS", str(STEPS)))
        shown = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/browser",
                                "--virtual-time-budget=60000", "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=240)
        if shown.returncode != 0:
            sys.exit(f"{browser} ended with {shown.returncode}: {shown.stderr[-500:]}")
        table = shown.stdout.partition('<tbody id="rows">')[2].partition("</tbody>")[0]
        rows, boxes = re.findall(r'title="(step\d+)"', table), shown.stdout.count('<rect class="node" data-i')
        drawn = re.search(r"<title>drawn (\d+) (\d+) (\d+) (\d+)</title>", shown.stdout)
        if not drawn:
            sys.exit("the page's script did not end")
        first = [int(number) for number in drawn.groups()]
        if not all(0 < number < STEPS for number in first) or first[1] != 2 * first[0]:
            sys.exit(f"at first there are {first} boxes, labels, rows and parts of the file")
        if rows != [f"step{i}" for i in range(STEPS)] or boxes != STEPS:
            sys.exit(f"{len(rows)} rows and {boxes} boxes of {STEPS} steps")
        if f"{STEPS} steps in {STEPS} waves" not in shown.stdout:
            sys.exit("the page does not tell its entry")
    print(f"page: {first[0]} of {STEPS} steps are drawn at first, and all once they are looked at")


if __name__ == "__main__":
    main()
