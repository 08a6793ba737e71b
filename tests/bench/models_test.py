#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmark's graphs without PyTorch: the generator against the catalogue's known answers and against what a device fills,
small forms of the networks on the device against rlxc's f64 evaluator.

    python3 tests/bench/models_test.py BUILD_BIN
"""
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import packages  # noqa: E402

packages.need("numpy")
import numpy as np  # noqa: E402

import arena_models  # noqa: E402
import models  # noqa: E402
import report  # noqa: E402
from generator import Uniform, fnv1a, from_bf16_bits, philox_words  # noqa: E402

SMALL_LLAMA = models.Llama(tokens=24, past=0, layers=2, vocabulary=1000, ffn=512, wide=256, heads=8, kv_heads=2, head=32, cache_rows=64)
SMALL = [
    ("encoder", "f32", models.Encoder(wide=96, layers=2, heads=3, ffn=192, batch=2, sequence=24, vocabulary=500, positions=32), 2e-6),
    ("resnet", "f16", models.ResNet50(blocks=(2, 1), size=64), 2e-3),
    ("prefill", "bf16", SMALL_LLAMA, 2e-2),
    ("decode", "f32", dataclasses.replace(SMALL_LLAMA, tokens=1, past=40), 2e-6),
    ("mobilenet", "f32", arena_models.MobileNetV2(batch=2, size=32), 2e-5),
    ("densenet", "f32", arena_models.DenseNet121(size=64, blocks=(3, 2), growth=8), 2e-6),
    ("densenets", "f32", arena_models.DenseNet121(batch=2, size=64, blocks=(3, 2), growth=8), 2e-6),
    ("whisper", "f32", arena_models.WhisperEncoder(wide=64, layers=2, heads=4, batch=2, mels=8, frames=20), 2e-6),
]


class Tools:
    def __init__(self, build_bin, folder):
        self.bin, self.folder = pathlib.Path(build_bin).resolve(), folder

    def call(self, tool, *arguments):
        command = [str(part) for part in (self.bin / tool, *arguments)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}exit code {done.returncode}")

    def run(self, name, inputs):
        """Compiles name.json and runs it: output name -> f32 array."""
        self.call("rlxc", f"{name}.json", "-o", f"{name}.plan", "-q")
        self.call("rlxrun", f"{name}.plan", "--outputs", f"{name}.device", *inputs)
        return self.outputs(f"{name}.device")

    def outputs(self, folder):
        arrays = {path.stem: np.load(path) for path in (self.folder / folder).glob("*.npy")}
        return {name: from_bf16_bits(a) if a.dtype == np.uint16 else a.astype(np.float32) for name, a in arrays.items()}


def expect(condition, what):
    if not condition:
        sys.exit(what)


def known_answers_of_philox():
    words = philox_words(np, 0, 1, 0, 42)[0]
    expect([f"{w:08x}" for w in words] == ["9ceaf053", "77f5493b", "12bf50ad", "5742b3d7"], f"Philox of seed 42 gave {words}")
    expect(fnv1a("a") == 0xE40C292C, f'FNV-1a of "a" gave {fnv1a("a"):08x}')


def device_fills_the_same_values(tools):
    """Ranges whose end some dtype rounds to, seeds of more than 32 bits, counts that end inside a block."""
    tensors = [Uniform("a.weight", "f32", (13, 7), -1.5, 0.7, 2026), Uniform("b", "f16", (1001,), -1.0, 1.0, 7),
               Uniform("c", "bf16", (333,), 0.8, 1.2, 2**40 + 5), Uniform("d", "bf16", (5000,), 0.0, 1e-3, 0)]
    graph = {"rlx_graph": 1, "inputs": [], "outputs": [f"{t.name}.copy" for t in tensors],
             "params": [{"name": t.name, "dtype": t.dtype, "shape": list(t.shape), "data": t.record()} for t in tensors],
             "nodes": [{"op": "identity", "inputs": [t.name], "outputs": [f"{t.name}.copy"]} for t in tensors]}
    (tools.folder / "fills.json").write_text(json.dumps(graph))
    outputs = tools.run("fills", [])
    for tensor in tensors:
        expect(np.array_equal(outputs[f"{tensor.name}.copy"], tensor.numpy()), f"{tensor} differs on the device")


def network_computes_its_reference(tools, name, dtype, network, bound):
    graph = network.graph(name, dtype)
    graph.write(tools.folder)
    inputs = ["--inputs", *(f"{each}={name}.{each}.npy" for each in graph.inputs)]
    got = tools.run(name, inputs)
    tools.call("rlxc", "reference", f"{name}.json", "--outputs", f"{name}.reference", *inputs)
    wanted = tools.outputs(f"{name}.reference")
    for output in graph.outputs:
        error = np.linalg.norm(got[output] - wanted[output]) / np.linalg.norm(wanted[output])
        print(f"{name} {dtype}: relative error {error:.2e}, values of scale {wanted[output].std():.2f}")
        expect(error <= bound, f"{name}: error above {bound}")
        expect(0.1 < wanted[output].std() < 10, f"{name}: values of an odd scale")


def table_tells_what_is_missing():
    """One workload measured on one target, one failed, nothing else: every cell is there."""
    name = models.WORKLOADS[0].name
    told = {"when": "2026-01-02T03:04:05", "command": "run"}
    records = {(name, "cuda"): {**told, "gpu_ms": 0.1, "wall_ms": 0.2}, (name, "vulkan"): {**told, "failed": "no device"},
               ("machine", "facts"): {**told, "device": "d"}, ("machine", "ceilings"): {**told, "failed": "no PyTorch"}}
    text = report.table(records)
    expect("| 0.100 / 0.200 | failed |" in text and "yes, output unchecked" in text, f"odd table:\n{text}")
    expect(f"- {name}, vulkan: no device" in text, f"the failure is not told:\n{text}")


def main():
    table_tells_what_is_missing()
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(sys.argv[1], pathlib.Path(folder))
        known_answers_of_philox()
        device_fills_the_same_values(tools)
        for name, dtype, network, bound in SMALL:
            network_computes_its_reference(tools, name, dtype, network, bound)
    for workload in models.WORKLOADS:
        workload.graph().document()


if __name__ == "__main__":
    main()
