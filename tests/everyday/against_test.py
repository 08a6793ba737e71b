#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rlxrun --against`: a kernel that is wrong in one element of one step is named by step, node, value and index, whatever the plan is held
to: a good plan, the reference evaluator, or a folder of its values; and good plans differ from nothing. On the first Vulkan device.

    python3 tests/everyday/against_test.py BUILD_BIN
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The element [3,5] of the softmax over 32 columns, which the second step computes.
WRONG_FLAT, COLUMNS = 3 * 32 + 5, 32
MODEL = {
    "rlx_graph": 1,
    "name": "small",
    "params": [{"name": "w", "dtype": "f32", "shape": [64, 32], "data": {"random": {"distribution": "normal", "seed": 3}}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [8, 64]}],
    "nodes": [
        {"name": "product", "op": "matmul", "inputs": ["x", "w"], "outputs": ["h"]},
        {"name": "probs", "op": "softmax", "inputs": ["h"], "outputs": ["p"]},
        {"name": "turn", "op": "transpose", "inputs": ["p"], "outputs": ["t"], "attributes": {"perm": [1, 0]}},
        {"name": "top", "op": "softmax", "inputs": ["t"], "outputs": ["y"]},
    ],
    "outputs": ["y"],
}


# Between the convolutions a CPU's kernels store images channels last.
IMAGES = {
    "rlx_graph": 1,
    "params": [{"name": name, "dtype": "f32", "shape": shape, "data": {"random": {"distribution": "normal", "seed": 3}}}
               for name, shape in (("v", [24, 16, 1, 1]), ("w", [8, 24, 1, 1]))],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [2, 16, 13, 11]}],
    "nodes": [{"op": "conv", "inputs": ["x", "v"], "outputs": ["a"]}, {"op": "conv", "inputs": ["a", "w"], "outputs": ["y"]}],
    "outputs": ["y"],
}


def spoil(text):
    """The kernel's text with 0.5 added to one element of softmax over COLUMNS columns, however wide its stores are."""
    at = "y_row + RLX_Y_REDUCED(i)"
    wide = "RLX_CAT(rlx_store%d_, RLX_Y)(p.y, " + at
    eight = f"if (RLX_COLS == {COLUMNS} && {at} == {WRONG_FLAT // 8 * 8}) piece[{WRONG_FLAT % 8}] += 0.5; "
    four = f"if (RLX_COLS == {COLUMNS} && {at} == {WRONG_FLAT // 4 * 4}) piece.{'xyzw'[WRONG_FLAT % 4]} += 0.5; "
    spoiled = text.replace(wide % 8, eight + wide % 8).replace(wide % 4, four + wide % 4)
    one = f"RLX_CAT(rlx_store_, RLX_Y)(p.y, {at}, values[(at)]"
    spoiled = spoiled.replace(one, f"{one} + (RLX_COLS == {COLUMNS} && {at} == {WRONG_FLAT} ? 0.5 : 0.0)")
    if spoiled.count(str(COLUMNS)) < text.count(str(COLUMNS)) + 3:
        sys.exit("shaders/softmax.kernel stores in another way than this test knows")
    return spoiled


def main():
    build_bin = pathlib.Path(sys.argv[1]).resolve()

    def run(code, *arguments, cwd):
        result = subprocess.run([build_bin / arguments[0], *arguments[1:]], cwd=cwd, capture_output=True, text=True)
        if result.returncode != code:
            sys.exit(f"{' '.join(map(str, arguments))}: exit code {result.returncode}, wanted {code}\n{result.stdout}{result.stderr}")
        return result

    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        devices = json.loads(run(0, "rlxrun", "--list-devices", "--json", cwd=folder).stdout)
        if not any(device["id"].startswith("vulkan") for device in devices["devices"]):
            print("SKIPPED: no Vulkan device; mesa-vulkan-drivers has one")
            return
        (folder / "m.json").write_text(json.dumps(MODEL))
        (folder / "k/shaders").mkdir(parents=True)
        (folder / "k/shaders/softmax.kernel").write_text(spoil((ROOT / "shaders/softmax.kernel").read_text()))
        run(0, "rlxc", "m.json", "-o", "good.plan", "--target", "vulkan", cwd=folder)
        run(0, "rlxc", "m.json", "-o", "bad.plan", "--target", "vulkan", "--kernels", "k", cwd=folder)
        run(0, "rlxrun", "good.plan", "--seeded", "--against", "vulkan:0", cwd=folder)
        run(0, "rlxrun", "good.plan", "--seeded", "--against", "cpu-reference", "--model", "m.json", cwd=folder)
        (folder / "images.json").write_text(json.dumps(IMAGES))
        run(0, "rlxc", "images.json", "-o", "images.plan", "--target", "vulkan-cpu", cwd=folder)
        values = run(0, "rlxc", "inspect", "images.plan", "--memory", cwd=folder).stdout
        if 'f32[2,13,11,24]  "a.channels_last"' not in values:
            sys.exit(f"no image lies channels last in the plan:\n{values}")
        run(0, "rlxrun", "images.plan", "--seeded", "--against", "cpu-reference", "--model", "images.json", cwd=folder)
        # The values of a good run, by name.
        run(0, "rlxc", "m.json", "-o", "kept.plan", "--target", "vulkan", "--keep-all", cwd=folder)
        run(0, "rlxrun", "kept.plan", "--seeded", "--outputs", "values", cwd=folder)
        for against in (["good.plan"], ["cpu-reference", "--model", "m.json"], ["values"]):
            told = json.loads(run(4, "rlxrun", "bad.plan", "--seeded", "--json", "--against", *against, cwd=folder).stdout)["divergence"]
            seen = {key: told[key] for key in ("step", "node", "value", "index", "wrong", "elements")}
            wanted = {"step": 1, "node": "probs", "value": "p", "index": [3, 5], "wrong": 1, "elements": 256}
            if seen != wanted or abs(told["got"] - told["expected"] - 0.5) > 1e-3:
                sys.exit(f"--against {against[0]}: told {told}, wanted {wanted}")
            for key in ("got_file", "expected_file"):
                if not (folder / told[key]).read_bytes().startswith(b"\x93NUMPY"):
                    sys.exit(f"{told[key]} is no .npy file")
        told = run(4, "rlxrun", "bad.plan", "--seeded", "--against", "good.plan", cwd=folder).stdout
        if 'node "probs" (softmax)' not in told or "worst at [3,5]" not in told:
            sys.exit(told)
        run(1, "rlxrun", "good.plan", "--seeded", "--against", "cpu-reference", cwd=folder)
        run(1, "rlxrun", "good.plan", "--seeded", "--against", "good.plan", "--repeat", "2", cwd=folder)
        run(2, "rlxrun", "good.plan", "--seeded", "--against", "none.plan", cwd=folder)
        run(2, "rlxrun", "good.plan", "--seeded", "--against", "k", cwd=folder)
        print("against: one wrong element was named beside a plan, the evaluator and a folder")


if __name__ == "__main__":
    main()
