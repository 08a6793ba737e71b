#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmark networks as rlx graph files, written as an importer writes a PyTorch model: one node per layer, weights as
checkpoints hold and name them ([out, in], separate q, k, v), nothing fused by hand. Weights are seeded-random records, so that
gigabytes are a few kilobytes on disk and every program makes the same values (generator.py).

    python3 tests/bench/models.py FOLDER [WORKLOAD ...]    # writes FOLDER/WORKLOAD.json and FOLDER/WORKLOAD.INPUT.npy
"""
import argparse
import dataclasses
import json
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import packages  # noqa: E402

packages.need("numpy")
import numpy as np  # noqa: E402

from generator import Uniform, bf16_bits  # noqa: E402

SEED = 2026
BYTES = {"f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4}


class Graph:
    """A graph under construction, and what it must at least do: floating-point operations, and bytes of weights, caches,
    inputs and outputs that one run has to touch."""

    def __init__(self, name, dtype):
        self.name, self.dtype = name, dtype
        self.weights, self.tables, self.states, self.inputs, self.nodes, self.outputs = {}, {}, {}, {}, [], []
        self.flops, self.bytes = 0, 0

    def weight(self, name, shape, low, high, touched=1.0):
        """A seeded-random weight of which one run reads the fraction `touched`."""
        self.weights[name] = Uniform(name, self.dtype, tuple(shape), low, high, SEED)
        self.bytes += self.weights[name].count() * BYTES[self.dtype] * touched
        return name

    def scaled(self, name, shape, std, touched=1.0):
        """A weight of mean 0: uniform over sqrt(3) standard deviations to either side."""
        return self.weight(name, shape, -math.sqrt(3) * std, math.sqrt(3) * std, touched)

    def table(self, name, values):
        """An f32 or i32 constant; its values travel in a file beside the graph."""
        self.tables[name] = values
        return name

    def input(self, name, values, dtype):
        """values: integers, or a Uniform of the graph's dtype."""
        self.inputs[name] = (dtype, values)
        self.bytes += (values.count() if isinstance(values, Uniform) else values.size) * BYTES[dtype]
        return name

    def node(self, op, inputs, output, **attributes):
        node = {"name": output, "op": op, "inputs": list(inputs), "outputs": [output]}
        if attributes:
            node["attributes"] = attributes
        self.nodes.append(node)
        return output

    def output(self, value, name, count):
        self.outputs.append(self.node("identity", [value], name))
        self.bytes += count * BYTES[self.dtype]

    def linear(self, x, name, rows, wide_in, wide_out, bias=True):
        weight = self.scaled(f"{name}.weight", [wide_out, wide_in], 1 / math.sqrt(wide_in))
        self.flops += 2 * rows * wide_in * wide_out
        if not bias:
            return self.node("matmul", [x, weight], name, trans_b=True)
        product = self.node("matmul", [x, weight], f"{name}.product", trans_b=True)
        return self.node("add", [product, self.scaled(f"{name}.bias", [wide_out], 0.1)], name)

    def layer_norm(self, x, name, wide, eps):
        gamma = self.weight(f"{name}.weight", [wide], 0.8, 1.2)
        return self.node("layer_norm", [x, gamma, self.scaled(f"{name}.bias", [wide], 0.1)], name, eps=eps)

    def rms_norm(self, x, name, wide, eps):
        return self.node("rms_norm", [x, self.weight(f"{name}.weight", [wide], 0.8, 1.2)], name, eps=eps)

    def write(self, folder):
        """FOLDER/name.json, its tables, and an .npy per input (bf16 as u16 bits, as rlxrun reads them)."""
        for name, values in self.tables.items():
            np.save(folder / f"{self.name}.{name}.npy", values)
        for name, (dtype, values) in self.inputs.items():
            np.save(folder / f"{self.name}.{name}.npy", storage(dtype, values))
        text = json.dumps(self.document(), indent=1)
        (folder / f"{self.name}.json").write_text(text + "\n")

    def document(self):
        def shape_of(values):
            return list(values.shape)

        params = [{"name": w.name, "dtype": w.dtype, "shape": list(w.shape), "data": w.record()} for w in self.weights.values()]
        constants = [{"name": n, "dtype": {"f": "f32", "i": "i32"}[v.dtype.kind], "shape": shape_of(v),
                      "data": {"npy": f"{self.name}.{n}.npy"}} for n, v in self.tables.items()]
        states = [{"name": s.name, "dtype": s.dtype, "shape": list(s.shape), "init": s.record()} for s in self.states.values()]
        inputs = [{"name": n, "dtype": d, "shape": shape_of(v)} for n, (d, v) in self.inputs.items()]
        return {"rlx_graph": 1, "name": self.name, "producer": "tests/bench/models.py", "params": params,
                "constants": constants, "states": states, "inputs": inputs, "nodes": self.nodes, "outputs": self.outputs}


def storage(dtype, values):
    """The array that stands in an .npy file for these values."""
    if not isinstance(values, Uniform):
        return values
    array = values.numpy()
    return bf16_bits(array) if dtype == "bf16" else array.astype({"f32": np.float32, "f16": np.float16}[dtype])


def token_ids(vocabulary, shape):
    return np.random.default_rng(SEED).integers(0, vocabulary, shape, dtype=np.int64)


@dataclasses.dataclass(frozen=True)
class Encoder:
    """BERT's encoder: word and position embedding, post-norm layers, erf GELU, no mask, no pooler."""

    wide: int
    layers: int
    heads: int
    ffn: int
    batch: int = 1
    sequence: int = 128
    vocabulary: int = 30522
    positions: int = 512
    eps: float = 1e-12

    def graph(self, name, dtype):
        g = Graph(name, dtype)
        rows = self.batch * self.sequence
        g.input("ids", token_ids(self.vocabulary, (self.batch, self.sequence)), "i64")
        words = g.scaled("words.weight", [self.vocabulary, self.wide], 0.5, touched=rows / self.vocabulary)
        positions = g.scaled("positions.weight", [self.positions, self.wide], 0.1, touched=self.sequence / self.positions)
        g.node("embedding", [words, "ids"], "word_rows")
        g.node("narrow", [positions], "position_rows", axis=0, start=0, len=self.sequence)
        g.node("add", ["word_rows", "position_rows"], "embedded")
        x = g.layer_norm("embedded", "norm", self.wide, self.eps)
        for i in range(self.layers):
            x = self.layer(g, x, f"layers.{i}", rows)
        g.output(x, "hidden", rows * self.wide)
        return g

    def layer(self, g, x, layer, rows):
        q, k, v = (g.linear(x, f"{layer}.{part}", rows, self.wide, self.wide) for part in "qkv")
        attended = g.node("attention", [q, k, v], f"{layer}.attention", num_heads=self.heads,
                          head_dim=self.wide // self.heads, q_layout="bsd", kv_layout="bsd")
        g.flops += 4 * rows * self.sequence * self.wide
        projected = g.linear(attended, f"{layer}.o", rows, self.wide, self.wide)
        x = g.layer_norm(g.node("add", [projected, x], f"{layer}.attention.sum"), f"{layer}.attention_norm", self.wide, self.eps)
        up = g.node("gelu", [g.linear(x, f"{layer}.up", rows, self.wide, self.ffn)], f"{layer}.gelu")
        down = g.linear(up, f"{layer}.down", rows, self.ffn, self.wide)
        return g.layer_norm(g.node("add", [down, x], f"{layer}.ffn.sum"), f"{layer}.ffn_norm", self.wide, self.eps)


@dataclasses.dataclass(frozen=True)
class ResNet50:
    """v1.5: the stride of a block stands in its 3 x 3 convolution."""

    batch: int = 1
    size: int = 224
    blocks: tuple = (3, 4, 6, 3)
    classes: int = 1000
    expansion: int = 4  # channels of a block's result, by those of its 3 x 3 convolution

    def graph(self, name, dtype):
        g = Graph(name, dtype)
        shape = (self.batch, 3, self.size, self.size)
        g.input("image", Uniform("image", dtype, shape, -1.7, 1.7, SEED), dtype)
        x = self.conv_norm(g, "image", "stem", 3, 64, kernel=7, stride=2, size=self.size)
        x = g.node("relu", [x], "stem.relu")
        x = g.node("pool", [x], "stem.pool", kind="max", kernel=[3, 3], stride=[2, 2], pads=[1, 1, 1, 1])
        channels, size = 64, self.size // 4
        for stage, count in enumerate(self.blocks):
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                x = self.block(g, x, f"stages.{stage}.{block}", channels, 64 << stage, stride, size)
                channels, size = self.expansion * 64 << stage, size // stride
        pooled = g.node("reduce_mean", [x], "pooled", axes=[2, 3])
        logits = g.linear(pooled, "fc", self.batch, channels, self.classes)
        g.output(logits, "logits", self.batch * self.classes)
        return g

    def conv_norm(self, g, x, name, channels_in, channels_out, kernel, stride, size, gamma=(0.8, 1.2)):
        """size: height and width of x. Statistics near (0, 1); weights keep the variance behind a relu."""
        fan_in = channels_in * kernel * kernel
        weight = g.scaled(f"{name}.conv.weight", [channels_out, channels_in, kernel, kernel], math.sqrt(2 / fan_in))
        convolved = g.node("conv", [x, weight], f"{name}.conv", stride=[stride] * 2, pads=[kernel // 2] * 4)
        g.flops += 2 * self.batch * (size // stride) ** 2 * fan_in * channels_out
        channel = [channels_out]
        statistics = [g.weight(f"{name}.norm.weight", channel, *gamma), g.scaled(f"{name}.norm.bias", channel, 0.1),
                      g.scaled(f"{name}.norm.running_mean", channel, 0.1), g.weight(f"{name}.norm.running_var", channel, 0.8, 1.2)]
        return g.node("batch_norm", [convolved, *statistics], f"{name}.norm", eps=1e-5)

    def block(self, g, x, name, channels_in, wide, stride, size):
        y = g.node("relu", [self.conv_norm(g, x, f"{name}.reduce", channels_in, wide, 1, 1, size)], f"{name}.reduce.relu")
        y = g.node("relu", [self.conv_norm(g, y, f"{name}.spatial", wide, wide, 3, stride, size)], f"{name}.spatial.relu")
        # Branches of a fraction of the residual's scale keep the sum of a stage's blocks near 1.
        y = self.conv_norm(g, y, f"{name}.expand", wide, 4 * wide, 1, 1, size // stride, gamma=(0.15, 0.25))
        if channels_in != 4 * wide:
            x = self.conv_norm(g, x, f"{name}.shortcut", channels_in, 4 * wide, 1, stride, size, gamma=(0.5, 0.7))
        return g.node("relu", [g.node("add", [y, x], f"{name}.sum")], f"{name}.relu")


@dataclasses.dataclass(frozen=True)
class ResNet18(ResNet50):
    """Blocks of two 3 x 3 convolutions; the first bears the stride."""

    blocks: tuple = (2, 2, 2, 2)
    expansion: int = 1

    def block(self, g, x, name, channels_in, wide, stride, size):
        y = g.node("relu", [self.conv_norm(g, x, f"{name}.first", channels_in, wide, 3, stride, size)], f"{name}.first.relu")
        y = self.conv_norm(g, y, f"{name}.second", wide, wide, 3, 1, size // stride, gamma=(0.15, 0.25))
        if channels_in != wide or stride != 1:
            x = self.conv_norm(g, x, f"{name}.shortcut", channels_in, wide, 1, stride, size, gamma=(0.5, 0.7))
        return g.node("relu", [g.node("add", [y, x], f"{name}.sum")], f"{name}.relu")


@dataclasses.dataclass(frozen=True)
class MobileNetV3Small(ResNet50):
    """Inverted bottlenecks: 1 x 1, depthwise, squeeze-and-excitation, 1 x 1."""

    # kernel, expanded, out, squeeze-and-excitation, hard_swish (or else relu), stride
    rows: tuple = ((3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1),
                   (5, 96, 40, True, True, 2), (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1),
                   (5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1), (5, 288, 96, True, True, 2),
                   (5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1))

    def graph(self, name, dtype):
        g = Graph(name, dtype)
        g.input("image", Uniform("image", dtype, (self.batch, 3, self.size, self.size), -1.7, 1.7, SEED), dtype)
        x = g.node("hard_swish", [self.conv_norm(g, "image", "stem", 3, 16, 3, 2, self.size)], "stem.swish")
        channels, size = 16, self.size // 2
        for i, row in enumerate(self.rows):
            x = self.bottleneck(g, x, f"rows.{i}", channels, row, size)
            channels, size = row[2], size // row[5]
        x = g.node("hard_swish", [self.conv_norm(g, x, "last", channels, 576, 1, 1, size)], "last.swish")
        pooled = g.node("reduce_mean", [x], "pooled", axes=[2, 3])
        wide = g.node("hard_swish", [g.linear(pooled, "wide", self.batch, 576, 1024)], "wide.swish")
        g.output(g.linear(wide, "fc", self.batch, 1024, self.classes), "logits", self.batch * self.classes)
        return g

    def bottleneck(self, g, x, name, channels_in, row, size):
        kernel, wide, channels_out, squeezed, swish, stride = row
        activation, y = "hard_swish" if swish else "relu", x
        if wide != channels_in:
            y = g.node(activation, [self.conv_norm(g, y, f"{name}.expand", channels_in, wide, 1, 1, size)], f"{name}.expand.act")
        y = self.depthwise_norm(g, y, f"{name}.spatial", wide, kernel, stride, size)
        y = g.node(activation, [y], f"{name}.spatial.act")
        if squeezed:
            y = self.squeeze(g, y, f"{name}.se", wide)
        y = self.conv_norm(g, y, f"{name}.project", wide, channels_out, 1, 1, size // stride, gamma=(0.4, 0.6))
        return g.node("add", [y, x], f"{name}.sum") if stride == 1 and channels_in == channels_out else y

    def depthwise_norm(self, g, x, name, channels, kernel, stride, size):
        weight = g.scaled(f"{name}.conv.weight", [channels, 1, kernel, kernel], math.sqrt(2) / kernel)
        convolved = g.node("conv", [x, weight], f"{name}.conv", stride=[stride] * 2, pads=[kernel // 2] * 4, groups=channels)
        g.flops += 2 * self.batch * (size // stride) ** 2 * kernel**2 * channels
        statistics = [g.weight(f"{name}.norm.weight", [channels], 0.8, 1.2), g.scaled(f"{name}.norm.bias", [channels], 0.1),
                      g.scaled(f"{name}.norm.running_mean", [channels], 0.1), g.weight(f"{name}.norm.running_var", [channels], 0.8, 1.2)]
        return g.node("batch_norm", [convolved, *statistics], f"{name}.norm", eps=1e-3)

    def squeeze(self, g, x, name, channels):
        few = max(8, (channels // 4 + 4) // 8 * 8)
        pooled = g.node("reduce_mean", [x], f"{name}.pooled", axes=[2, 3], keep_dims=True)
        down = g.node("relu", [self.pointwise(g, pooled, f"{name}.down", channels, few)], f"{name}.relu")
        gate = g.node("hard_sigmoid", [self.pointwise(g, down, f"{name}.up", few, channels)], f"{name}.gate")
        return g.node("mul", [x, gate], f"{name}.scaled")

    def pointwise(self, g, x, name, channels_in, channels_out):
        weight = g.scaled(f"{name}.weight", [channels_out, channels_in, 1, 1], math.sqrt(1 / channels_in))
        g.flops += 2 * self.batch * channels_in * channels_out
        return g.node("conv", [x, weight, g.scaled(f"{name}.bias", [channels_out], 0.1)], name)


@dataclasses.dataclass(frozen=True)
class Llama:
    """Llama-shaped decoder: rms_norm, rope (NeoX), grouped-query attention, SwiGLU, head of its own weights.

    past = 1024: a decode step. Caches of cache_rows rows are states whose rows before `position` (an input, on the device) hold
    earlier tokens; the step appends its own, and reads those that hold tokens. past = 0: prefill, logits of the last token.
    """

    tokens: int
    past: int
    wide: int = 2048
    layers: int = 16
    heads: int = 32
    kv_heads: int = 8
    head: int = 64
    ffn: int = 8192
    vocabulary: int = 128256
    cache_rows: int = 2048
    eps: float = 1e-5
    theta: float = 5e5

    def angles(self):
        """cos and sin of position * theta^(-2i/head), [cache_rows, head / 2]."""
        frequencies = self.theta ** (-np.arange(0, self.head, 2, dtype=np.float64) / self.head)
        angle = np.arange(self.cache_rows, dtype=np.float64)[:, None] * frequencies
        return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)

    def graph(self, name, dtype):
        g = Graph(name, dtype)
        g.input("ids", token_ids(self.vocabulary, (1, self.tokens)), "i64")
        words = g.scaled("words.weight", [self.vocabulary, self.wide], 1.0, touched=self.tokens / self.vocabulary)
        for table, values in zip(("cos", "sin"), self.angles()):
            g.table(table, values)
        if self.past > 0:
            g.input("position", np.array(self.past, np.int32), "i32")
            g.node("add", ["position", g.table("new_rows", np.array(self.tokens, np.int32))], "rows_held")
        x = g.node("embedding", [words, "ids"], "embedded")
        for i in range(self.layers):
            x = self.layer(g, x, f"layers.{i}")
        if self.tokens > 1:
            x = g.node("narrow", [x], "last", axis=1, start=self.tokens - 1, len=1)
        x = g.rms_norm(x, "norm", self.wide, self.eps)
        logits = g.linear(x, "head", 1, self.wide, self.vocabulary, bias=False)
        g.output(logits, "logits", self.vocabulary)
        return g

    def layer(self, g, x, layer):
        normed = g.rms_norm(x, f"{layer}.attention_norm", self.wide, self.eps)
        attended = self.attention(g, normed, layer)
        projected = g.linear(attended, f"{layer}.o", self.tokens, self.heads * self.head, self.wide, bias=False)
        x = g.node("add", [projected, x], f"{layer}.attention.sum")
        normed = g.rms_norm(x, f"{layer}.ffn_norm", self.wide, self.eps)
        gate, up = (g.linear(normed, f"{layer}.{part}", self.tokens, self.wide, self.ffn, bias=False) for part in ("gate", "up"))
        gated = g.node("mul", [g.node("silu", [gate], f"{layer}.silu"), up], f"{layer}.gated")
        down = g.linear(gated, f"{layer}.down", self.tokens, self.ffn, self.wide, bias=False)
        return g.node("add", [down, x], f"{layer}.ffn.sum")

    def attention(self, g, x, layer):
        def heads_of(part, count):
            flat = g.linear(x, f"{layer}.{part}", self.tokens, self.wide, count * self.head, bias=False)
            return g.node("reshape", [flat], f"{layer}.{part}.heads", shape=[1, self.tokens, count, self.head])

        def turned(value):
            position = ["position"] if self.past > 0 else []
            return g.node("rope", [value, "cos", "sin", *position], f"{value}.turned", head_dim=self.head)

        q, k, v = turned(heads_of("q", self.heads)), turned(heads_of("k", self.kv_heads)), heads_of("v", self.kv_heads)
        operands, layout = [q, k, v], "bshd"
        if self.past > 0:
            caches = (self.appended(g, value, f"{layer}.{part}_cache") for value, part in ((k, "k"), (v, "v")))
            operands, layout = [q, *caches, None, None, "rows_held"], "bhsd"
        # Causal pairs: token i sees past + i + 1 keys.
        pairs = self.tokens * self.past + self.tokens * (self.tokens + 1) // 2
        g.flops += 4 * pairs * self.heads * self.head
        attended = g.node("attention", operands, f"{layer}.attention", num_heads=self.heads, num_kv_heads=self.kv_heads,
                          head_dim=self.head, q_layout="bshd", kv_layout=layout, causal=self.tokens > 1)
        return g.node("reshape", [attended], f"{layer}.attended", shape=[1, self.tokens, self.heads * self.head])

    def appended(self, g, value, cache):
        """The state `cache` [1, kv_heads, cache_rows, head] with the rows of `value` at `position`."""
        shape = (1, self.kv_heads, self.cache_rows, self.head)
        g.states[cache] = Uniform(cache, g.dtype, shape, -1.7, 1.7, SEED)
        g.bytes += self.kv_heads * (self.past + self.tokens) * self.head * BYTES[g.dtype]
        rows = g.node("transpose", [value], f"{value}.rows", perm=[0, 2, 1, 3])
        grown = g.node("kv_append", [cache, rows, "position"], f"{cache}.grown", axis=2)
        return g.node("state_write", [cache, grown], f"{cache}.new")


@dataclasses.dataclass(frozen=True)
class Workload:
    """One row of the table. bar and seen: milliseconds of GPU time, the bar and the best peer seen before it was set."""

    name: str
    title: str
    dtype: str
    network: object
    bar: float
    seen: float

    def graph(self):
        return self.network.graph(self.name, self.dtype)


MINILM = Encoder(wide=384, layers=6, heads=12, ffn=1536)
BERT = Encoder(wide=768, layers=12, heads=12, ffn=3072)
BERT_B32 = dataclasses.replace(BERT, batch=32)

WORKLOADS = [
    Workload("minilm-f32", "MiniLM-L6 b1 s128", "f32", MINILM, 0.25, 0.502),
    Workload("minilm-f16", "MiniLM-L6 b1 s128", "f16", MINILM, 0.13, 0.195),
    Workload("bert-f16", "BERT-base b1 s128", "f16", BERT, 0.32, 0.464),
    Workload("bert-f32", "BERT-base b1 s128", "f32", BERT, 0.90, 1.557),
    Workload("bert-b32-f16", "BERT-base b32 s128", "f16", BERT_B32, 1.60, 1.743),
    Workload("resnet50-f16", "ResNet-50 b1", "f16", ResNet50(), 0.30, 0.348),
    Workload("resnet50-b32-f16", "ResNet-50 b32", "f16", ResNet50(batch=32), 1.20, 2.216),
    Workload("resnet50-b8-f32", "ResNet-50 b8", "f32", ResNet50(batch=8), 3.85, 4.00),
    Workload("llama1b-decode-bf16", "Llama-1B decode step, ctx 1024", "bf16", Llama(tokens=1, past=1024), 0.85, 0.963),
    Workload("llama1b-prefill-bf16", "Llama-1B prefill s1024", "bf16", Llama(tokens=1024, past=0), 3.6, 3.79),
]

# For machines without a GPU; bar and seen are milliseconds of wall time on two cores by Mesa's lavapipe.
CPU_WORKLOADS = [
    Workload("resnet18-f32", "ResNet-18 b1", "f32", ResNet18(), 300, 1310),
    Workload("mobilenet-v3-small-f32", "MobileNetV3-Small b1", "f32", MobileNetV3Small(), 40, 146),
]


def find(names):
    """The workloads of these names, those for GPUs for an empty list."""
    known = {workload.name: workload for workload in WORKLOADS + CPU_WORKLOADS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"unknown workload {unknown[0]}; known: {' '.join(known)}")
    return [known[name] for name in names] or WORKLOADS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for workload in find(args.workloads):
        graph = workload.graph()
        graph.write(args.folder)
        print(f"{workload.name:<22} {len(graph.nodes):>4} nodes, {graph.flops / 1e9:8.2f} GFLOP, {graph.bytes / 1e6:8.1f} MB")


if __name__ == "__main__":
    main()
