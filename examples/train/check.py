#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows the first steps of a training run with NumPy in f32 and compares the losses, step by step.

    python3 check.py INITIAL.safetensors DATA LOSSES [BATCH]

INITIAL: states before the run (rlxrun --save-states); DATA: as prepare.py wrote it; LOSSES: as `train --losses` wrote it.
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "mnist"), str(HERE.parents[1] / "tools")]
import packages  # noqa: E402

packages.need("numpy")
import numpy as np  # noqa: E402
import train as reference  # noqa: E402  (forward and backward of the same network)

RATE = np.float32(1.5e-3)
DECAY = np.float32(0.01)
TOLERANCE = 1e-4


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    length = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if entry["dtype"] != "F32":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], np.float32).reshape(entry["shape"])
    return tensors


def main():
    states = read_safetensors(sys.argv[1])
    folder = pathlib.Path(sys.argv[2])
    wanted = np.loadtxt(sys.argv[3], ndmin=1)
    batch = int(sys.argv[4]) if len(sys.argv) > 4 else 64
    images = np.fromfile(folder / "images.u8", np.uint8).reshape(-1, 1, 28, 28)
    labels = np.fromfile(folder / "labels.u8", np.uint8)
    p = {name: value.copy() for name, value in states.items() if name.split(".")[-1] in ("weight", "bias")}
    first = {name: np.zeros_like(value) for name, value in p.items()}
    second = {name: np.zeros_like(value) for name, value in p.items()}
    worst = 0
    for step, loss in enumerate(wanted, 1):
        at = (step - 1) * batch
        x, y = images[at : at + batch], labels[at : at + batch]
        logits, saved = reference.forward(p, x)
        shifted = logits - logits.max(axis=1, keepdims=True)
        log_prob = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        error = abs(float(-log_prob[np.arange(batch), y].mean()) - loss)
        worst = max(worst, error)
        if not error <= TOLERANCE:
            sys.exit(f"step {step}: the loss is {loss}, NumPy's differs by {error:.2e}, wanted at most {TOLERANCE}")
        for name, grad in reference.backward(p, y, logits, saved).items():
            first[name] = np.float32(0.9) * first[name] + np.float32(0.1) * grad
            second[name] = np.float32(0.999) * second[name] + np.float32(0.001) * grad * grad
            m = first[name] / np.float32(1 - 0.9**step)
            v = second[name] / np.float32(1 - 0.999**step)
            p[name] = p[name] - RATE * DECAY * p[name] - RATE * m / (np.sqrt(v) + np.float32(1e-8))
    print(f"{len(wanted)} losses as NumPy's, largest difference {worst:.1e}")


if __name__ == "__main__":
    main()
