# SPDX-License-Identifier: Apache-2.0
"""More networks for the arena suite, in the shapes of the published models and written as an importer writes a PyTorch model.
Only shapes and the order of layers matter here: weights are seeded records, as in models.py."""
import dataclasses
import math

import numpy as np

from generator import Uniform
from models import SEED, Graph, Llama, ResNet50, BERT_B32, MINILM


class Images:
    """Layers over [batch, channels, height, width]."""

    def __init__(self, name, dtype, batch, channels, size):
        self.g = Graph(name, dtype)
        self.batch = batch
        image = Uniform("image", dtype, (batch, channels, size, size), -1.7, 1.7, SEED)
        self.x = self.g.input("image", image, dtype)

    def conv(self, x, name, wide_in, wide_out, kernel, stride=1, groups=1, bias=False):
        fan_in = wide_in // groups * kernel * kernel
        inputs = [x, self.g.scaled(f"{name}.weight", [wide_out, wide_in // groups, kernel, kernel], math.sqrt(2 / fan_in))]
        if bias:
            inputs.append(self.g.scaled(f"{name}.bias", [wide_out], 0.1))
        return self.g.node("conv", inputs, name, stride=[stride] * 2, pads=[kernel // 2] * 4, groups=groups)

    def batch_norm(self, x, name, wide):
        g = self.g
        parts = [g.weight(f"{name}.weight", [wide], 0.8, 1.2), g.scaled(f"{name}.bias", [wide], 0.1),
                 g.scaled(f"{name}.running_mean", [wide], 0.1), g.weight(f"{name}.running_var", [wide], 0.8, 1.2)]
        return g.node("batch_norm", [x, *parts], name, eps=1e-5)

    def conv_norm_relu(self, x, name, wide_in, wide_out, kernel, stride=1):
        x = self.batch_norm(self.conv(x, f"{name}.conv", wide_in, wide_out, kernel, stride), f"{name}.norm", wide_out)
        return self.g.node("relu", [x], f"{name}.relu")

    def pool(self, x, name, kind, kernel, stride, pad=0, ceil_mode=False):
        return self.g.node("pool", [x], name, kind=kind, kernel=[kernel] * 2, stride=[stride] * 2, pads=[pad] * 4,
                           ceil_mode=ceil_mode)

    def classify(self, x, wide, classes=1000):
        pooled = self.g.node("reduce_mean", [x], "pooled", axes=[2, 3])
        logits = self.g.linear(pooled, "classifier", self.batch, wide, classes)
        self.g.output(logits, "logits", self.batch * classes)
        return self.g


@dataclasses.dataclass(frozen=True)
class MobileNetV2:
    batch: int = 1
    size: int = 224

    def graph(self, name, dtype):
        net = Images(name, dtype, self.batch, 3, self.size)
        x, wide = self.unit(net, net.x, "stem", 3, 32, 3, 2), 32
        stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
        for stage, (expand, out, count, stride) in enumerate(stages):
            for block in range(count):
                x = self.block(net, x, f"blocks.{stage}.{block}", wide, out, expand, stride if block == 0 else 1)
                wide = out
        return net.classify(self.unit(net, x, "last", wide, 1280, 1), 1280)

    @staticmethod
    def unit(net, x, name, wide_in, wide_out, kernel, stride=1, groups=1):
        x = net.batch_norm(net.conv(x, f"{name}.conv", wide_in, wide_out, kernel, stride, groups), f"{name}.norm", wide_out)
        return net.g.node("clamp", [x], f"{name}.relu6", min=0.0, max=6.0)

    def block(self, net, x, name, wide_in, wide_out, expand, stride):
        y, hidden = x, wide_in * expand
        if expand > 1:
            y = self.unit(net, y, f"{name}.expand", wide_in, hidden, 1)
        y = self.unit(net, y, f"{name}.depthwise", hidden, hidden, 3, stride, hidden)
        y = net.batch_norm(net.conv(y, f"{name}.project", hidden, wide_out, 1), f"{name}.project.norm", wide_out)
        return net.g.node("add", [x, y], f"{name}.sum") if stride == 1 and wide_in == wide_out else y


@dataclasses.dataclass(frozen=True)
class DenseNet121:
    """Each layer reads a concat of all features of its block."""

    batch: int = 1
    size: int = 224
    blocks: tuple = (6, 12, 24, 16)
    growth: int = 32

    def graph(self, name, dtype):
        net = Images(name, dtype, self.batch, 3, self.size)
        wide = 2 * self.growth
        x = net.pool(net.conv_norm_relu(net.x, "stem", 3, wide, 7, 2), "stem.pool", "max", 3, 2, 1)
        for number, layers in enumerate(self.blocks):
            x, wide = self.block(net, x, f"blocks.{number}", wide, layers)
            x = self.norm_relu(net, x, f"blocks.{number}.out", wide)
            if number + 1 < len(self.blocks):
                x = net.conv(x, f"transitions.{number}", wide, wide // 2, 1)
                x, wide = net.pool(x, f"transitions.{number}.pool", "mean", 2, 2), wide // 2
        return net.classify(x, wide)

    @staticmethod
    def norm_relu(net, x, name, wide):
        return net.g.node("relu", [net.batch_norm(x, f"{name}.norm", wide)], f"{name}.relu")

    def block(self, net, x, name, wide, layers):
        features = [x]
        for i in range(layers):
            layer, narrow = f"{name}.{i}", 4 * self.growth
            y = net.g.node("concat", features, f"{layer}.features", axis=1) if i > 0 else x
            y = net.conv(self.norm_relu(net, y, f"{layer}.1", wide), f"{layer}.conv1", wide, narrow, 1)
            features.append(net.conv(self.norm_relu(net, y, f"{layer}.2", narrow), f"{layer}.conv2", narrow, self.growth, 3))
            wide += self.growth
        return net.g.node("concat", features, f"{name}.features", axis=1), wide


@dataclasses.dataclass(frozen=True)
class GoogLeNet:
    """Inception v1 with batch norm, 3 x 3 in place of 5 x 5, as torchvision has it."""

    batch: int = 1
    size: int = 224

    def graph(self, name, dtype):
        net = Images(name, dtype, self.batch, 3, self.size)
        x = net.conv_norm_relu(net.x, "conv1", 3, 64, 7, 2)
        x = net.pool(x, "pool1", "max", 3, 2, ceil_mode=True)
        x = net.conv_norm_relu(net.conv_norm_relu(x, "conv2", 64, 64, 1), "conv3", 64, 192, 3)
        x, wide = net.pool(x, "pool2", "max", 3, 2, ceil_mode=True), 192
        stages = [[(64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)],
                  [(192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
                   (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128)],
                  [(256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)]]
        for stage, blocks in enumerate(stages):
            for block, widths in enumerate(blocks):
                x, wide = self.inception(net, x, f"inception.{stage}.{block}", wide, *widths)
            if stage + 1 < len(stages):
                kernel = 3 if stage == 0 else 2
                x = net.pool(x, f"pool{stage + 3}", "max", kernel, 2, ceil_mode=True)
        return net.classify(x, wide)

    @staticmethod
    def inception(net, x, name, wide, one, three_in, three, five_in, five, pooled):
        first = net.conv_norm_relu(x, f"{name}.1", wide, one, 1)
        second = net.conv_norm_relu(net.conv_norm_relu(x, f"{name}.2a", wide, three_in, 1), f"{name}.2b", three_in, three, 3)
        third = net.conv_norm_relu(net.conv_norm_relu(x, f"{name}.3a", wide, five_in, 1), f"{name}.3b", five_in, five, 3)
        fourth = net.conv_norm_relu(net.pool(x, f"{name}.4a", "max", 3, 1, 1, True), f"{name}.4b", wide, pooled, 1)
        joined = net.g.node("concat", [first, second, third, fourth], f"{name}.out", axis=1)
        return joined, one + three + five + pooled


@dataclasses.dataclass(frozen=True)
class UNet:
    """The denoiser of Stable Diffusion 1: residual blocks and transformers with cross attention, 64 x 64 latents."""

    batch: int = 2  # with and without the prompt
    size: int = 64
    wide: int = 320
    levels: tuple = (1, 2, 4, 4)
    context: int = 768
    tokens: int = 77
    heads: int = 8

    def graph(self, name, dtype):
        net = Images(name, dtype, self.batch, 4, self.size)
        g, wide = net.g, self.wide
        prompt = Uniform("prompt", dtype, (self.batch, self.tokens, self.context), -1.7, 1.7, SEED)
        g.input("prompt", prompt, dtype)
        g.input("steps", Uniform("steps", dtype, (self.batch, wide), -1.0, 1.0, SEED), dtype)
        time = g.linear("steps", "time.1", self.batch, wide, 4 * wide)
        time = g.linear(g.node("silu", [time], "time.silu"), "time.2", self.batch, 4 * wide, 4 * wide)
        self_time = g.node("silu", [time], "time.out")
        x, size = net.conv(net.x, "in", 4, wide, 3, bias=True), self.size
        skips = [(x, wide)]
        for level, factor in enumerate(self.levels):
            for i in range(2):
                x = self.residual(net, x, self_time, f"down.{level}.{i}", wide, self.wide * factor)
                wide = self.wide * factor
                if level < 3:
                    x = self.transformer(net, x, f"down.{level}.{i}.attn", wide, size)
                skips.append((x, wide))
            if level < 3:
                x, size = net.conv(x, f"down.{level}.out", wide, wide, 3, 2, bias=True), size // 2
                skips.append((x, wide))
        x = self.residual(net, x, self_time, "mid.0", wide, wide)
        x = self.residual(net, self.transformer(net, x, "mid.attn", wide, size), self_time, "mid.1", wide, wide)
        for level in reversed(range(4)):
            out = self.wide * self.levels[level]
            for i in range(3):
                skip, extra = skips.pop()
                x = g.node("concat", [x, skip], f"up.{level}.{i}.joined", axis=1)
                x = self.residual(net, x, self_time, f"up.{level}.{i}", wide + extra, out)
                wide = out
                if level < 3:
                    x = self.transformer(net, x, f"up.{level}.{i}.attn", wide, size)
            if level > 0:
                x, size = g.node("resize_nearest_2x", [x], f"up.{level}.wider"), size * 2
                x = net.conv(x, f"up.{level}.out", wide, wide, 3, bias=True)
        x = net.conv(self.norm_silu(net, x, "out", wide), "out.conv", wide, 4, 3, bias=True)
        g.output(x, "noise", self.batch * 4 * self.size**2)
        return g

    @staticmethod
    def group_norm(net, x, name, wide):
        g = net.g
        parts = [g.weight(f"{name}.weight", [wide], 0.8, 1.2), g.scaled(f"{name}.bias", [wide], 0.1)]
        return g.node("group_norm", [x, *parts], name, num_groups=32)

    def norm_silu(self, net, x, name, wide):
        return net.g.node("silu", [self.group_norm(net, x, f"{name}.norm", wide)], f"{name}.silu")

    def residual(self, net, x, time, name, wide_in, wide_out):
        g = net.g
        y = net.conv(self.norm_silu(net, x, f"{name}.1", wide_in), f"{name}.conv1", wide_in, wide_out, 3, bias=True)
        shift = g.linear(time, f"{name}.time", self.batch, 4 * self.wide, wide_out)
        shift = g.node("reshape", [shift], f"{name}.shift", shape=[self.batch, wide_out, 1, 1])
        y = self.norm_silu(net, g.node("add", [y, shift], f"{name}.shifted"), f"{name}.2", wide_out)
        y = net.conv(y, f"{name}.conv2", wide_out, wide_out, 3, bias=True)
        if wide_in != wide_out:
            x = net.conv(x, f"{name}.shortcut", wide_in, wide_out, 1, bias=True)
        return g.node("add", [x, y], f"{name}.sum")

    def transformer(self, net, image, name, wide, size):
        g, rows = net.g, self.batch * size * size
        x = net.conv(self.group_norm(net, image, f"{name}.norm", wide), f"{name}.in", wide, wide, 1, bias=True)
        x = g.node("transpose", [x], f"{name}.last", perm=[0, 2, 3, 1])
        x = g.node("reshape", [x], f"{name}.rows", shape=[self.batch, size * size, wide])
        normed = g.layer_norm(x, f"{name}.norm1", wide, 1e-5)
        x = g.node("add", [self.attend(g, normed, normed, f"{name}.self", wide, wide, rows, rows), x], f"{name}.sum1")
        normed = g.layer_norm(x, f"{name}.norm2", wide, 1e-5)
        read = self.attend(g, normed, "prompt", f"{name}.cross", wide, self.context, rows, self.batch * self.tokens)
        x = g.node("add", [read, x], f"{name}.sum2")
        wider = g.linear(g.layer_norm(x, f"{name}.norm3", wide, 1e-5), f"{name}.up", rows, wide, 8 * wide)
        value, gate = (g.node("narrow", [wider], f"{name}.{part}", axis=2, start=start, len=4 * wide)
                       for part, start in (("value", 0), ("gate", 4 * wide)))
        gated = g.node("mul", [value, g.node("gelu", [gate], f"{name}.gelu")], f"{name}.gated")
        x = g.node("add", [g.linear(gated, f"{name}.down", rows, 4 * wide, wide), x], f"{name}.sum3")
        x = g.node("reshape", [x], f"{name}.image", shape=[self.batch, size, size, wide])
        x = g.node("transpose", [x], f"{name}.first", perm=[0, 3, 1, 2])
        return g.node("add", [net.conv(x, f"{name}.out", wide, wide, 1, bias=True), image], f"{name}.sum4")

    def attend(self, g, x, keys, name, wide, wide_keys, rows, key_rows):
        q = g.linear(x, f"{name}.q", rows, wide, wide, bias=False)
        k, v = (g.linear(keys, f"{name}.{part}", key_rows, wide_keys, wide, bias=False) for part in "kv")
        attended = g.node("attention", [q, k, v], f"{name}.attention", num_heads=self.heads, head_dim=wide // self.heads,
                          q_layout="bsd", kv_layout="bsd")
        return g.linear(attended, f"{name}.o", rows, wide, wide)


@dataclasses.dataclass(frozen=True)
class WhisperEncoder:
    """Two convolutions over 30 s of log-mel frames, then pre-norm layers. The defaults are Whisper small's."""

    wide: int = 768
    layers: int = 12
    heads: int = 12
    batch: int = 1
    mels: int = 80
    frames: int = 3000

    def graph(self, name, dtype):
        g, wide = Graph(name, dtype), self.wide
        x = g.input("mel", Uniform("mel", dtype, (self.batch, self.mels, self.frames), -1.0, 1.0, SEED), dtype)
        for i, (wide_in, stride) in enumerate(((self.mels, 1), (wide, 2))):
            filters = g.scaled(f"conv{i}.weight", [wide, wide_in, 3], math.sqrt(2 / (3 * wide_in)))
            x = g.node("conv", [x, filters, g.scaled(f"conv{i}.bias", [wide], 0.1)], f"conv{i}", stride=[stride], pads=[1, 1])
            x = g.node("gelu", [x], f"conv{i}.gelu")
        frames = self.frames // 2
        x = g.node("transpose", [x], "rows", perm=[0, 2, 1])
        x = g.node("add", [x, g.scaled("positions", [frames, wide], 0.1)], "embedded")
        for i in range(self.layers):
            x = self.layer(g, x, f"layers.{i}", self.batch * frames)
        g.output(g.layer_norm(x, "norm", wide, 1e-5), "hidden", self.batch * frames * wide)
        return g

    def layer(self, g, x, layer, rows):
        wide = self.wide
        normed = g.layer_norm(x, f"{layer}.attention_norm", wide, 1e-5)
        q, k, v = (g.linear(normed, f"{layer}.{part}", rows, wide, wide, bias=part != "k") for part in "qkv")
        attended = g.node("attention", [q, k, v], f"{layer}.attention", num_heads=self.heads, head_dim=wide // self.heads,
                          q_layout="bsd", kv_layout="bsd")
        x = g.node("add", [g.linear(attended, f"{layer}.o", rows, wide, wide), x], f"{layer}.attention.sum")
        up = g.linear(g.layer_norm(x, f"{layer}.ffn_norm", wide, 1e-5), f"{layer}.up", rows, wide, 4 * wide)
        down = g.linear(g.node("gelu", [up], f"{layer}.gelu"), f"{layer}.down", rows, 4 * wide, wide)
        return g.node("add", [down, x], f"{layer}.ffn.sum")


@dataclasses.dataclass(frozen=True)
class Rwkv:
    """RWKV-4 with its recurrence over time written out token by token, as an exporter of Hugging Face's model writes it: for each
    token a chain of small steps, and what all tokens gave alive until it is joined. The defaults are those of the 169M model."""

    tokens: int = 8
    wide: int = 768
    layers: int = 12
    batch: int = 1

    def graph(self, name, dtype):
        g = Graph(name, dtype)
        shape = (self.batch, self.tokens, self.wide)
        x = g.layer_norm(g.input("rows", Uniform("rows", dtype, shape, -1.7, 1.7, SEED), dtype), "embedding_norm", self.wide, 1e-5)
        g.table("zeros", np.zeros((self.batch, 1, self.wide), np.float32))
        g.table("lowest", np.full((self.batch, 1, self.wide), -1e38, np.float32))
        for i in range(self.layers):
            x = self.mix_tokens(g, x, f"layers.{i}.attention")
            x = self.mix_channels(g, x, f"layers.{i}.feed_forward")
        g.output(g.layer_norm(x, "norm", self.wide, 1e-5), "hidden", self.batch * self.tokens * self.wide)
        return g

    def before(self, g, x, name):
        """Each token's predecessor."""
        parts = ["zeros", g.node("narrow", [x], f"{name}.all_but_last", axis=1, start=0, len=self.tokens - 1)]
        return g.node("concat", parts, f"{name}.before", axis=1)

    def mixed(self, g, x, before, name):
        share, rest = (g.weight(f"{name}.{part}", [self.wide], 0.1, 0.9) for part in ("share", "rest"))
        own, other = g.node("mul", [x, share], f"{name}.own"), g.node("mul", [before, rest], f"{name}.other")
        return g.node("add", [own, other], f"{name}.mixed")

    def product(self, g, x, before, name, wide_out):
        return g.linear(self.mixed(g, x, before, name), name, self.batch * self.tokens, self.wide, wide_out, bias=False)

    def mix_tokens(self, g, x, name):
        normed = g.layer_norm(x, f"{name}.norm", self.wide, 1e-5)
        before = self.before(g, normed, name)
        key, value, gate = (self.product(g, normed, before, f"{name}.{part}", self.wide) for part in ("key", "value", "gate"))
        gate = g.node("sigmoid", [gate], f"{name}.open")
        read = g.node("mul", [gate, self.over_time(g, key, value, name)], f"{name}.gated")
        return g.node("add", [x, g.linear(read, f"{name}.out", self.batch * self.tokens, self.wide, self.wide, bias=False)], f"{name}.sum")

    def over_time(self, g, key, value, name):
        first, decay = (g.weight(f"{name}.{part}", [self.wide], -1.0, 1.0) for part in ("first", "decay"))
        state, read = ("zeros", "zeros", "lowest"), []
        for token in range(self.tokens):
            now = f"{name}.{token}"
            k, v = (g.node("narrow", [x], f"{now}.{part}", axis=1, start=token, len=1) for part, x in (("k", key), ("v", value)))
            above, below, _ = self.weighed(g, state, g.node("add", [k, first], f"{now}.k_first"), state[2], v, f"{now}.read")
            read.append(g.node("div", [above, below], f"{now}.out"))
            state = self.weighed(g, state, k, g.node("add", [state[2], decay], f"{now}.decayed"), v, f"{now}.state")
        return g.node("concat", read, f"{name}.read", axis=1)

    @staticmethod
    def weighed(g, state, key, old, value, name):
        """Numerator, denominator and largest exponent with one token more."""
        largest = g.node("max", [old, key], f"{name}.largest")
        keep, take = (g.node("exp", [g.node("sub", [x, largest], f"{name}.{part}.less")], f"{name}.{part}")
                      for part, x in (("keep", old), ("take", key)))
        kept = g.node("mul", [keep, state[0]], f"{name}.kept")
        above = g.node("add", [kept, g.node("mul", [take, value], f"{name}.taken")], f"{name}.above")
        below = g.node("add", [g.node("mul", [keep, state[1]], f"{name}.kept_below"), take], f"{name}.below")
        return above, below, largest

    def mix_channels(self, g, x, name):
        normed = g.layer_norm(x, f"{name}.norm", self.wide, 1e-5)
        before = self.before(g, normed, name)
        key = g.node("relu", [self.product(g, normed, before, f"{name}.key", 4 * self.wide)], f"{name}.relu")
        squared = g.node("mul", [key, key], f"{name}.squared")
        value = g.linear(squared, f"{name}.value", self.batch * self.tokens, 4 * self.wide, self.wide, bias=False)
        gate = g.node("sigmoid", [self.product(g, normed, before, f"{name}.gate", self.wide)], f"{name}.open")
        return g.node("add", [x, g.node("mul", [gate, value], f"{name}.gated")], f"{name}.sum")


LLAMA_8B = Llama(tokens=1, past=1024, wide=4096, layers=32, heads=32, kv_heads=8, head=128, ffn=14336)

# Name, title, dtype, network.
SUITE = [
    ("minilm", "MiniLM-L6 b1 s128", "f32", MINILM),
    ("bert-b32", "BERT-base b32 s128", "f16", BERT_B32),
    ("llama8b-prefill", "Llama-8B prefill s1024", "bf16", dataclasses.replace(LLAMA_8B, tokens=1024, past=0)),
    ("llama8b-decode", "Llama-8B decode step, ctx 1024", "bf16", LLAMA_8B),
    ("resnet50", "ResNet-50 b1", "f16", ResNet50()),
    ("resnet50-b32", "ResNet-50 b32", "f16", ResNet50(batch=32)),
    ("mobilenet", "MobileNetV2 b1", "f32", MobileNetV2()),
    ("mobilenet-b32", "MobileNetV2 b32", "f32", MobileNetV2(batch=32)),
    ("densenet", "DenseNet-121 b1", "f32", DenseNet121()),
    ("densenet-b8", "DenseNet-121 b8", "f32", DenseNet121(batch=8)),
    ("googlenet", "GoogLeNet b1", "f32", GoogLeNet()),
    ("googlenet-b8", "GoogLeNet b8", "f32", GoogLeNet(batch=8)),
    ("unet", "Diffusion U-Net b1 64x64", "f16", UNet(batch=1)),
    ("unet-b2", "Diffusion U-Net b2 64x64", "f16", UNet()),
    ("whisper", "Whisper small encoder b1", "f16", WhisperEncoder()),
    ("rwkv", "RWKV-4 169M b1 s8", "f32", Rwkv()),
    ("rwkv-s24", "RWKV-4, 6 layers of 160, b1 s24", "f32", Rwkv(tokens=24, wide=160, layers=6)),
]
