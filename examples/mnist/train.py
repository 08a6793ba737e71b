#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the small convolutional network of this example with NumPy and writes mnist.safetensors and the test images.

    python3 train.py DIR    # DIR holds t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz

The first 8,000 images train, the last 2,000 are held out. Seeded: the same NumPy gives the same weights.
conv 5x5 (1 -> 16), relu, max pool 2, conv 3x3 (16 -> 32), relu, max pool 2, linear 1568 -> 64, relu, linear 64 -> 10.
"""
import gzip
import json
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import packages  # noqa: E402

packages.need("numpy")
import numpy as np  # noqa: E402

HERE = pathlib.Path(__file__).parent
TRAIN = 8000
EPOCHS = 14
BATCH = 64


def read_idx(path, header):
    data = gzip.open(path).read()
    return np.frombuffer(data, np.uint8, offset=header)


def patches(x, k, pad):
    """[N, C, H, W] -> [N * H * W, C * k * k] with zero padding that keeps the size."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (k, k), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * w, c * k * k)


def unpatch(columns, shape, k, pad):
    """Adjoint of patches()."""
    n, c, h, w = shape
    grad = np.zeros((n, c, h + 2 * pad, w + 2 * pad), np.float32)
    columns = columns.reshape(n, h, w, c, k, k)
    for i in range(k):
        for j in range(k):
            grad[:, :, i : i + h, j : j + w] += columns[:, :, :, :, i, j].transpose(0, 3, 1, 2)
    return grad[:, :, pad : pad + h, pad : pad + w]


def conv(x, weight, bias, pad):
    n, _, h, w = x.shape
    columns = patches(x, weight.shape[2], pad)
    y = columns @ weight.reshape(len(weight), -1).T + bias
    return y.reshape(n, h, w, -1).transpose(0, 3, 1, 2), columns


def pool(x):
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
    y = blocks.max(axis=(3, 5))
    mask = blocks == y[:, :, :, None, :, None]
    return y, mask / mask.sum(axis=(3, 5), keepdims=True)


def unpool(grad, mask):
    n, c, h, _, w, _ = mask.shape
    return (mask * grad[:, :, :, None, :, None]).reshape(n, c, h * 2, w * 2)


def forward(p, images):
    x = images.astype(np.float32) / np.float32(255)
    a1, columns1 = conv(x, p["conv1.weight"], p["conv1.bias"], 2)
    h1, mask1 = pool(np.maximum(a1, 0))
    a2, columns2 = conv(h1, p["conv2.weight"], p["conv2.bias"], 1)
    h2, mask2 = pool(np.maximum(a2, 0))
    flat = h2.reshape(len(h2), -1)
    a3 = flat @ p["fc1.weight"].T + p["fc1.bias"]
    h3 = np.maximum(a3, 0)
    logits = h3 @ p["fc2.weight"].T + p["fc2.bias"]
    return logits, (a1, columns1, mask1, h1, a2, columns2, mask2, h2, flat, a3, h3)


def backward(p, labels, logits, saved):
    a1, columns1, mask1, h1, a2, columns2, mask2, h2, flat, a3, h3 = saved
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    d = probabilities
    d[np.arange(len(labels)), labels] -= 1
    d /= len(labels)
    grads = {"fc2.weight": d.T @ h3, "fc2.bias": d.sum(0)}
    d = (d @ p["fc2.weight"]) * (a3 > 0)
    grads["fc1.weight"], grads["fc1.bias"] = d.T @ flat, d.sum(0)
    d = unpool((d @ p["fc1.weight"]).reshape(h2.shape), mask2) * (a2 > 0)
    d = d.transpose(0, 2, 3, 1).reshape(-1, 32)
    grads["conv2.weight"] = (d.T @ columns2).reshape(p["conv2.weight"].shape)
    grads["conv2.bias"] = d.sum(0)
    d = unpatch(d @ p["conv2.weight"].reshape(32, -1), h1.shape, 3, 1)
    d = (unpool(d, mask1) * (a1 > 0)).transpose(0, 2, 3, 1).reshape(-1, 16)
    grads["conv1.weight"] = (d.T @ columns1).reshape(p["conv1.weight"].shape)
    grads["conv1.bias"] = d.sum(0)
    return grads


def shifted(images, rng):
    """Random shifts by up to two pixels, so that 8,000 images go further."""
    padded = np.pad(images, ((0, 0), (0, 0), (2, 2), (2, 2)))
    moved = np.empty_like(images)
    for i, (dy, dx) in enumerate(rng.integers(0, 5, (len(images), 2))):
        moved[i] = padded[i, :, dy : dy + 28, dx : dx + 28]
    return moved


def accuracy(p, images, labels):
    hits = 0
    for first in range(0, len(images), 500):
        logits, _ = forward(p, images[first : first + 500])
        hits += int((logits.argmax(1) == labels[first : first + 500]).sum())
    return hits / len(images)


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, value in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [offset, offset + value.nbytes]}
        offset += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in tensors.values():
            file.write(np.ascontiguousarray(value, np.float32).tobytes())


def main():
    folder = pathlib.Path(sys.argv[1])
    images = read_idx(folder / "t10k-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
    labels = read_idx(folder / "t10k-labels-idx1-ubyte.gz", 8)
    rng = np.random.default_rng(7)

    def weights(*shape):
        fan_in = int(np.prod(shape[1:]))
        return (rng.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32)

    p = {
        "conv1.weight": weights(16, 1, 5, 5), "conv1.bias": np.zeros(16, np.float32),
        "conv2.weight": weights(32, 16, 3, 3), "conv2.bias": np.zeros(32, np.float32),
        "fc1.weight": weights(64, 1568), "fc1.bias": np.zeros(64, np.float32),
        "fc2.weight": weights(10, 64), "fc2.bias": np.zeros(10, np.float32),
    }
    first = {k: np.zeros_like(v) for k, v in p.items()}
    second = {k: np.zeros_like(v) for k, v in p.items()}
    step = 0
    for epoch in range(EPOCHS):
        rate = 1.5e-3 * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        order = rng.permutation(TRAIN)
        for start in range(0, TRAIN, BATCH):
            chosen = order[start : start + BATCH]
            logits, saved = forward(p, shifted(images[chosen], rng))
            step += 1
            for name, grad in backward(p, labels[chosen], logits, saved).items():
                first[name] = 0.9 * first[name] + 0.1 * grad
                second[name] = 0.999 * second[name] + 0.001 * grad * grad
                update = (first[name] / (1 - 0.9**step)) / (np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8)
                p[name] = (p[name] - rate * update).astype(np.float32)
        print(f"epoch {epoch + 1}: held-out accuracy {accuracy(p, images[TRAIN:], labels[TRAIN:]):.4f}", flush=True)
    write_safetensors(HERE / "mnist.safetensors", p)
    np.save(HERE / "images.npy", images[TRAIN : TRAIN + 100])
    np.save(HERE / "labels.npy", labels[TRAIN : TRAIN + 100])


if __name__ == "__main__":
    main()
