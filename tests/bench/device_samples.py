# SPDX-License-Identifier: Apache-2.0
"""Small graphs that cover what the estimates of a target depend on, for fit_device.py: chains of equal steps, each in two lengths,
so that the difference of two runs is the steps between and nothing of what a run begins and ends with."""
import dataclasses
import math


@dataclasses.dataclass
class Sample:
    name: str
    family: str  # "step", "memory", "matvec", "product", "attention", "conv"
    short: dict
    long: dict
    variant: str = "own"  # of VARIANTS: which kernels the compiler is made to choose
    level: int = 2  # rlxc -O
    tf32: bool = False


# Numbers of the profile with which the sample is compiled: what is made slow is not chosen.
SLOW_LIBRARY = {"library.short_float": 1e-3, "library.f32": 1e-3, "library.tf32": 1e-3}
MMA_SPLITS = ("mma_warps", "mma_warpgroups")
VARIANTS = {
    "own": SLOW_LIBRARY,
    # One product by few and by many workgroups that share its depth: what tells the costs of sharing from those of the products.
    "whole": SLOW_LIBRARY | {"wgmma.begin": 9999} | {f"{group}.exchange": 9999 for group in MMA_SPLITS},
    "split": SLOW_LIBRARY | {"wgmma.begin": 9999} | {f"{group}.{number}": value for group in MMA_SPLITS
                                                      for number, value in (("exchange", 0), ("join", 0), ("exchange_rate", 1e9))},
    "mma": SLOW_LIBRARY | {"wgmma.begin": 9999},
    "library": {"library.short_float": 1e6, "library.f32": 1e6, "library.tf32": 1e6, "library.begin": 0, "library.float_begin": 0,
                "library.depth_rate": 1e9},
}


class Chain:
    """A graph whose value x passes through one node after another."""

    def __init__(self, name, dtype, shape):
        self.dtype, self.params, self.nodes, self.x = dtype, [], [], "x"
        self.document = {"rlx_graph": 1, "name": name, "params": self.params, "nodes": self.nodes,
                         "inputs": [{"name": "x", "dtype": dtype, "shape": list(shape)}]}

    def weight(self, shape, deviation):
        name, limit = f"w{len(self.params)}", math.sqrt(3) * deviation
        self.params.append({"name": name, "dtype": self.dtype, "shape": list(shape), "data": {
            "random": {"distribution": "uniform", "low": -limit, "high": limit, "seed": len(self.params) + 1}}})
        return name

    def node(self, op, inputs=(), **attributes):
        name = f"y{len(self.nodes)}"
        node = {"name": name, "op": op, "inputs": [self.x, *inputs], "outputs": [name]}
        self.nodes.append(node | ({"attributes": attributes} if attributes else {}))
        self.x = name

    def done(self):
        return self.document | {"outputs": [self.x]}


def chains(name, family, lengths, build, **more):
    return Sample(name, family, build(lengths[0]), build(lengths[1]), **more)


def elementwise(name, family, elements, lengths):
    def build(length):
        chain = Chain(name, "f32", [elements])
        for _ in range(length):
            chain.node("neg")
        return chain.done()

    return chains(name, family, lengths, build, level=0)


def products(m, n, k, dtype, pairs, family="product", transposed=False, **more):
    """[m, k] by [k, n], then by [n, k], and so on."""
    layout = "nk" if transposed else "kn"
    name = f"{m}x{n}x{k}-{layout}-{dtype}" + ("-tf32" if more.get("tf32") else "") + f"-{more.get('variant', 'own')}"

    def build(length):
        chain = Chain(name, dtype, [m, k])
        for wide, deep in [(n, k), (k, n)] * length:
            shape = [wide, deep] if transposed else [deep, wide]
            chain.node("matmul", [chain.weight(shape, 1 / math.sqrt(deep))], **({"trans_b": True} if transposed else {}))
        return chain.done()

    return chains(name, family, (1, 1 + pairs), build, **more)


def attention(batch, tokens, heads, head, dtype, pairs, causal=False):
    name = f"attention-b{batch}-s{tokens}-h{heads}x{head}-{dtype}"

    def build(length):
        chain = Chain(name, dtype, [batch, tokens, heads, head])
        for _ in range(2 * length):
            keys = [chain.weight([batch, tokens, heads, head], 1) for _ in "kv"]
            chain.node("attention", keys, num_heads=heads, head_dim=head, causal=causal)
        return chain.done()

    return chains(name, "attention", (1, 1 + pairs), build)


def convolutions(batch, channels, size, kernel, dtype, pairs):
    name = f"conv{kernel}-b{batch}-c{channels}-{size}-{dtype}"

    def build(length):
        chain = Chain(name, dtype, [batch, channels, size, size])
        for _ in range(2 * length):
            weight = chain.weight([channels, channels, kernel, kernel], 1 / math.sqrt(channels * kernel * kernel))
            chain.node("conv", [weight], kernel=[kernel, kernel], stride=[1, 1], pads=[kernel // 2] * 4)
        return chain.done()

    return chains(name, "conv", (1, 1 + pairs), build)


def steps_and_memory(small):
    sizes = [2**18, 2**20, 2**22] if small else [2**24, 2**25, 2**26]
    return [elementwise("tiny", "step", 1024, (8, 136)),
            *(elementwise(f"elements-{n}", "memory", n, (2, 10)) for n in sizes)]


def matvecs(small, dtype):
    sizes = [(512, 512), (1024, 512)] if small else [(4096, 4096), (14336, 4096), (8192, 2048)]
    return [products(1, n, k, dtype, 4, family="matvec", transposed=True) for n, k in sizes]


SMALL_PRODUCTS = [(16, 64, 64), (32, 96, 128), (64, 128, 128), (128, 128, 64), (64, 256, 128), (128, 256, 256), (96, 384, 128)]
ENCODER_PRODUCTS = [(128, 1536, 384), (128, 768, 768), (128, 3072, 768), (128, 4096, 1024), (32, 1024, 2048), (512, 1024, 1024),
                    (512, 4096, 1024)]
LARGE_PRODUCTS = [(1024, 8192, 2048), (2048, 2048, 2048), (4096, 3072, 768), (4096, 4096, 4096)]


def cuda_samples():
    halves = [products(*size, "f16", 8, transposed=True) for size in ENCODER_PRODUCTS]
    halves += [products(*size, "f16", 8) for size in ENCODER_PRODUCTS[1:4]]
    halves += [products(*size, "f16", 8, transposed=True, variant=variant) for size in ENCODER_PRODUCTS for variant in ("whole", "split")]
    halves += [products(*size, "bf16", 4, transposed=True, variant=variant)
               for size in LARGE_PRODUCTS for variant in ("own", "mma", "library")]
    floats = [products(*size, "f32", 4, transposed=True, tf32=tf32) for size in ENCODER_PRODUCTS[:5] for tf32 in (False, True)]
    floats += [products(*size, "f32", 4, transposed=True, tf32=tf32, variant=variant)
               for size in ENCODER_PRODUCTS[:3] for tf32 in (False, True) for variant in ("whole", "split")]
    floats += [products(2048, 2048, 2048, "f32", 2, transposed=True, tf32=tf32, variant=variant)
               for tf32 in (False, True) for variant in ("own", "library")]
    heads = [attention(1, 128, 12, 64, "f16", 8), attention(32, 128, 12, 64, "f16", 4), attention(1, 1024, 32, 64, "f16", 4, True),
             attention(1, 2048, 32, 128, "f16", 2, True), attention(1, 128, 12, 32, "f32", 8)]
    convs = [convolutions(32, 64, 56, 3, "f16", 2), convolutions(32, 128, 28, 3, "f16", 2), convolutions(32, 256, 14, 3, "f16", 4),
             convolutions(1, 256, 14, 3, "f16", 8), convolutions(1, 512, 7, 3, "f16", 8), convolutions(32, 256, 56, 1, "f16", 2)]
    return halves + floats + heads + convs


def samples(target, small):
    """For a target by its name; small: for devices as slow as a CPU."""
    result = steps_and_memory(small) + matvecs(small, "f32" if small else "f16")
    if target == "cuda":
        return result + cuda_samples()
    sizes = SMALL_PRODUCTS if small else ENCODER_PRODUCTS
    result += [products(*size, "f32", 4, transposed=i % 2 == 0) for i, size in enumerate(sizes)]
    if target in ("vulkan-khr-coop", "vulkan-nvidia"):
        result += [products(*size, "f16", 4, transposed=i % 2 == 0) for i, size in enumerate(sizes + LARGE_PRODUCTS * (not small))]
    return result
