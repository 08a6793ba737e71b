#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes encoder.json, a 6-layer BERT-style encoder (MiniLM shape) with seeded weights, its inputs, and checks results.

    python3 make_encoder.py [--layers 6] write [--batch 1] [--sequence 128]   # encoder.json, ids.npy
    python3 make_encoder.py check outputs/hidden.npy                          # against NumPy float64

Weights are seeded-random records: the device fills them by Philox4x32-10, and this script reproduces the generator, so that
nothing large travels. ids [B, S] -> word + position embedding -> layer_norm -> layers of {q, k, v, o with bias, 12 heads,
residual + layer_norm, FFN 1536 with erf GELU, residual + layer_norm} -> hidden [B, S, 384].
"""
import argparse
import json
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import packages  # noqa: E402

packages.need("numpy")
import numpy as np  # noqa: E402

HERE = pathlib.Path(__file__).parent
WIDTH, HEADS, FFN, VOCABULARY, POSITIONS = 384, 12, 1536, 30522, 512
SEED = 2026


def fnv1a(text):
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def philox(blocks, stream, seed):
    """Words w0..w3 of each block number, [n, 4] u32 (Salmon et al. 2011, 10 rounds)."""
    block = np.arange(blocks, dtype=np.uint64)
    c = [block & 0xFFFFFFFF, block >> np.uint64(32), np.zeros_like(block), np.full_like(block, stream)]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for i in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
        key0, key1 = np.uint64((k0 + i * 0x9E3779B9) & 0xFFFFFFFF), np.uint64((k1 + i * 0xBB67AE85) & 0xFFFFFFFF)
        c = [(p1 >> shift) ^ c[1] ^ key0, p1 & mask, (p0 >> shift) ^ c[3] ^ key1, p0 & mask]
    return np.stack(c, axis=1)


def normal(name, shape, mean, std):
    """The values of a {"distribution": "normal"} record, f64 arithmetic, rounded once to f32."""
    count = int(np.prod(shape))
    words = philox((count + 3) // 4, fnv1a(name), SEED)
    half = (words >> np.uint64(9)).astype(np.float64)
    opened = (2 * half + 1) * 2.0**-24
    unit = (words >> np.uint64(8)).astype(np.float64) * 2.0**-24
    result = np.empty((len(words), 4))
    for pair in (0, 2):
        radius = np.sqrt(-2 * np.log(opened[:, pair]))
        angle = 2 * np.pi * unit[:, pair + 1]
        result[:, pair], result[:, pair + 1] = radius * np.cos(angle), radius * np.sin(angle)
    return (mean + std * result.reshape(-1)[:count]).astype(np.float32).reshape(shape)


def parameters(layers):
    """name -> (shape, mean, std)"""
    p = {"words": ([VOCABULARY, WIDTH], 0, 0.5), "positions": ([POSITIONS, WIDTH], 0, 0.1)}
    norms = ["embedding.norm"]
    for i in range(layers):
        for name, rows, columns in (("q", WIDTH, WIDTH), ("k", WIDTH, WIDTH), ("v", WIDTH, WIDTH), ("o", WIDTH, WIDTH),
                                    ("up", WIDTH, FFN), ("down", FFN, WIDTH)):
            p[f"layer{i}.{name}.weight"] = ([rows, columns], 0, 1 / math.sqrt(rows))
            p[f"layer{i}.{name}.bias"] = ([columns], 0, 0.1)
        norms += [f"layer{i}.attention.norm", f"layer{i}.ffn.norm"]
    for name in norms:
        p[f"{name}.gamma"] = ([WIDTH], 1, 0.1)
        p[f"{name}.beta"] = ([WIDTH], 0, 0.1)
    return p


class Writer:
    def __init__(self):
        self.nodes = []

    def add(self, op, inputs, output, **attributes):
        node = {"name": output, "op": op, "inputs": inputs, "outputs": [output]}
        if attributes:
            node["attributes"] = attributes
        self.nodes.append(node)
        return output

    def linear(self, x, name, output):
        product = self.add("matmul", [x, f"{name}.weight"], f"{name}.product")
        return self.add("add", [product, f"{name}.bias"], output)

    def norm(self, x, name):
        return self.add("layer_norm", [x, f"{name}.gamma", f"{name}.beta"], name, eps=1e-12)


def write(args):
    w = Writer()
    w.add("embedding", ["words", "ids"], "word_rows")
    w.add("narrow", ["positions"], "position_rows", axis=0, start=0, len=args.sequence)
    w.add("add", ["word_rows", "position_rows"], "embedded")
    x = w.norm("embedded", "embedding.norm")
    for i in range(args.layers):
        layer = f"layer{i}"
        q, k, v = (w.linear(x, f"{layer}.{part}", f"{layer}.{part}") for part in "qkv")
        attended = w.add("attention", [q, k, v], f"{layer}.attention", num_heads=HEADS, head_dim=WIDTH // HEADS,
                         q_layout="bsd", kv_layout="bsd")
        projected = w.linear(attended, f"{layer}.o", f"{layer}.o")
        x = w.norm(w.add("add", [projected, x], f"{layer}.attention.sum"), f"{layer}.attention.norm")
        up = w.add("gelu", [w.linear(x, f"{layer}.up", f"{layer}.up")], f"{layer}.gelu")
        down = w.linear(up, f"{layer}.down", f"{layer}.down")
        x = w.norm(w.add("add", [down, x], f"{layer}.ffn.sum"), f"{layer}.ffn.norm")
    w.add("identity", [x], "hidden")
    graph = {
        "rlx_graph": 1,
        "name": "encoder",
        "producer": "examples/encoder/make_encoder.py",
        "params": [
            {"name": name, "dtype": "f32", "shape": shape,
             "data": {"random": {"distribution": "normal", "mean": mean, "std": std, "seed": SEED}}}
            for name, (shape, mean, std) in parameters(args.layers).items()
        ],
        "inputs": [{"name": "ids", "dtype": "i64", "shape": [args.batch, args.sequence]}],
        "nodes": w.nodes,
        "outputs": ["hidden"],
    }
    (HERE / "encoder.json").write_text(json.dumps(graph, indent=1) + "\n")
    ids = np.random.default_rng(SEED).integers(0, VOCABULARY, (args.batch, args.sequence), dtype=np.int64)
    np.save(HERE / "ids.npy", ids)


def layer_norm(x, p, name):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12) * p(f"{name}.gamma") + p(f"{name}.beta")


def reference(ids, layers):
    """The encoder in NumPy float64."""
    specs = parameters(layers)

    def p(name):
        return normal(name, *specs[name]).astype(np.float64)

    erf = np.vectorize(math.erf)
    batch, sequence = ids.shape
    x = layer_norm(p("words")[ids] + p("positions")[:sequence], p, "embedding.norm")
    for i in range(layers):
        layer = f"layer{i}"

        def linear(value, part):
            return value @ p(f"{layer}.{part}.weight") + p(f"{layer}.{part}.bias")

        heads = [linear(x, part).reshape(batch, sequence, HEADS, -1).transpose(0, 2, 1, 3) for part in "qkv"]
        scores = heads[0] @ heads[1].transpose(0, 1, 3, 2) / math.sqrt(WIDTH // HEADS)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        attended = (weights @ heads[2]).transpose(0, 2, 1, 3).reshape(batch, sequence, WIDTH)
        x = layer_norm(linear(attended, "o") + x, p, f"{layer}.attention.norm")
        up = linear(x, "up")
        x = layer_norm(linear(up * 0.5 * (1 + erf(up / math.sqrt(2))), "down") + x, p, f"{layer}.ffn.norm")
    return x


def check(args):
    ids = np.load(HERE / "ids.npy")
    got = np.load(args.hidden).astype(np.float64)
    wanted = reference(ids, args.layers)
    error = np.abs(got - wanted)
    # Class norm of the operator catalogue for the last layer_norm, with headroom for the layers before it.
    bound = args.factor * (1e-5 * np.abs(wanted).max(-1, keepdims=True) + 1e-6 + 2e-5 * np.abs(wanted))
    print(f"hidden {got.shape}: largest error {error.max():.3g}, largest ratio to the bound {(error / bound).max():.3f}")
    if not (error <= bound).all():
        raise SystemExit("encoder differs from NumPy float64")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=6)
    commands = parser.add_subparsers(required=True)
    writer = commands.add_parser("write")
    writer.add_argument("--batch", type=int, default=1)
    writer.add_argument("--sequence", type=int, default=128)
    writer.set_defaults(run=write)
    checker = commands.add_parser("check")
    checker.add_argument("hidden")
    checker.add_argument("--factor", type=float, default=1.0)
    checker.set_defaults(run=check)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
