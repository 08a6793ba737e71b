#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A PyTorch module and an ONNX model that name an op of examples/extension, compiled with it, against NumPy.

    python3 tests/export/extension_test.py BUILD_BIN

Exits 77, which counts as skipped, where PyTorch is missing; the ONNX model is left out where the package onnx is.
"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools")]
try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"SKIPPED: {missing}; 0 failed")
    sys.exit(77)

import rlx_export  # noqa: E402
import rlx_export_extensions  # noqa: E402

BIN = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/bin"
EXTENSION = ROOT / "examples/extension"
RADIUS = 2


@torch.library.custom_op("blur::box", mutates_args=())
def box(x: torch.Tensor, radius: int = 1) -> torch.Tensor:
    return torch.from_numpy(blurred(x.numpy(), radius))


@box.register_fake
def _(x, radius=1):
    return torch.empty_like(x)


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(torch.ops.blur.box(x, RADIUS))


def blurred(x, radius):
    """The mean of the window around each element, as far as it lies in the image."""
    rows, columns = x.shape
    means = [x[max(0, r - radius):r + radius + 1, max(0, c - radius):c + radius + 1].mean() for r in range(rows) for c in range(columns)]
    return np.array(means, dtype=x.dtype).reshape(x.shape)


def run(folder, model, image):
    """The only output of a model with the input x."""
    np.save(folder / "x.npy", image)
    plan = str(folder / "model.plan")
    for command in ([BIN / "rlxc", model, "-o", plan, "--target", "vulkan", "--extension", EXTENSION],
                    [BIN / "rlxrun", plan, "--device", "vulkan", "--inputs", f"x={folder / 'x.npy'}", "--outputs", folder / "out"]):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"FAILED: {' '.join(map(str, command))}: {done.stderr}")
    return np.load(next((folder / "out").glob("*.npy")))


def check(name, got, wanted):
    worst = float(np.abs(got - wanted).max())
    if got.shape != wanted.shape or not worst < 1e-6:
        sys.exit(f"FAILED: {name}: {got.shape}, worst error {worst}")
    print(f"{name}: worst error {worst:.1e}")


def main():
    image = np.random.default_rng(1).normal(size=(9, 7)).astype(np.float32)
    wanted = np.maximum(blurred(image, RADIUS), 0)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rlx_export_extensions.add_extension(EXTENSION)
        rlx_export.export(Net(), (torch.from_numpy(image),), str(folder / "net.json"))
        check("PyTorch", run(folder, folder / "net.json", image), wanted)
    try:
        from onnx import TensorProto, helper
    except ImportError as missing:
        print(f"ONNX left out: {missing}")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        info = [helper.make_tensor_value_info(x, TensorProto.FLOAT, image.shape) for x in ("x", "y")]
        nodes = [helper.make_node("box", ["x"], ["b"], domain="blur", radius=RADIUS), helper.make_node("Relu", ["b"], ["y"])]
        graph = helper.make_graph(nodes, "net", info[:1], info[1:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("blur", 1)], ir_version=8)
        (folder / "net.onnx").write_bytes(model.SerializeToString())
        check("ONNX", run(folder, folder / "net.onnx", image), wanted)


if __name__ == "__main__":
    main()
