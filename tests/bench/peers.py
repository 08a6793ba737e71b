#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The networks of models.py in PyTorch as a good user writes them for inference, with the same weights: products of one input
joined (q, k, v; gate, up), scaled_dot_product_attention, batch norm folded into the convolutions, channels_last for images,
static caches. Each is timed eager, as a CUDA graph, and as torch.compile max-autotune in a CUDA graph.
"""
import gc
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

import models
from generator import Uniform

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}
MODES = ("eager", "graph", "compile")


class EncoderLayer(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.heads = n.heads
        self.qkv, self.o = nn.Linear(n.wide, 3 * n.wide), nn.Linear(n.wide, n.wide)
        self.up, self.down = nn.Linear(n.wide, n.ffn), nn.Linear(n.ffn, n.wide)
        self.attention_norm, self.ffn_norm = nn.LayerNorm(n.wide, n.eps), nn.LayerNorm(n.wide, n.eps)

    def forward(self, x):
        batch, sequence, wide = x.shape
        q, k, v = self.qkv(x).view(batch, sequence, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, sequence, wide)
        x = self.attention_norm(self.o(attended) + x)
        return self.ffn_norm(self.down(F.gelu(self.up(x))) + x)


class Encoder(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.words, self.positions = nn.Embedding(n.vocabulary, n.wide), nn.Embedding(n.positions, n.wide)
        self.norm = nn.LayerNorm(n.wide, n.eps)
        self.layers = nn.ModuleList(EncoderLayer(n) for _ in range(n.layers))

    def forward(self, ids):
        x = self.norm(self.words(ids) + self.positions.weight[: ids.shape[1]])
        for layer in self.layers:
            x = layer(x)
        return x


class ConvNorm(nn.Module):
    def __init__(self, channels_in, channels_out, kernel, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(channels_out)

    def forward(self, x):
        return self.norm(self.conv(x))


class Bottleneck(nn.Module):
    def __init__(self, channels_in, wide, stride):
        super().__init__()
        self.reduce, self.spatial = ConvNorm(channels_in, wide, 1), ConvNorm(wide, wide, 3, stride)
        self.expand = ConvNorm(wide, 4 * wide, 1)
        self.shortcut = ConvNorm(channels_in, 4 * wide, 1, stride) if channels_in != 4 * wide else nn.Identity()

    def forward(self, x):
        return F.relu(self.expand(F.relu(self.spatial(F.relu(self.reduce(x))))) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.stem = ConvNorm(3, 64, 7, 2)
        self.stages, channels = nn.ModuleList(), 64
        for stage, count in enumerate(n.blocks):
            blocks = [Bottleneck(channels if i == 0 else 256 << stage, 64 << stage, 2 if stage > 0 and i == 0 else 1)
                      for i in range(count)]
            self.stages.append(nn.Sequential(*blocks))
            channels = 256 << stage
        self.fc = nn.Linear(channels, n.classes)

    def forward(self, image):
        x = F.max_pool2d(F.relu(self.stem(image)), 3, 2, 1)
        for stage in self.stages:
            x = stage(x)
        return self.fc(x.mean((2, 3)))


class LlamaLayer(nn.Module):
    def __init__(self, n, i):
        super().__init__()
        self.n, self.name = n, f"layers.{i}"
        self.attention_norm, self.ffn_norm = nn.RMSNorm(n.wide, n.eps), nn.RMSNorm(n.wide, n.eps)
        self.qkv = nn.Linear(n.wide, (n.heads + 2 * n.kv_heads) * n.head, bias=False)
        self.o = nn.Linear(n.heads * n.head, n.wide, bias=False)
        self.gate_up, self.down = nn.Linear(n.wide, 2 * n.ffn, bias=False), nn.Linear(n.ffn, n.wide, bias=False)

    def forward(self, x, cos, sin, position):
        x = x + self.o(self.attend(self.attention_norm(x), cos, sin, position))
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)

    def attend(self, x, cos, sin, position):
        n, tokens = self.n, x.shape[1]
        heads = self.qkv(x).view(1, tokens, n.heads + 2 * n.kv_heads, n.head).transpose(1, 2)
        q, k, v = heads.split((n.heads, n.kv_heads, n.kv_heads), 1)
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        if n.past > 0:
            self.k_cache.index_copy_(2, position, k)
            self.v_cache.index_copy_(2, position, v)
            # Only the rows that hold tokens are read.
            k, v = (cache[:, :, : n.past + tokens] for cache in (self.k_cache, self.v_cache))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=tokens > 1, enable_gqa=True)
        return attended.transpose(1, 2).reshape(1, tokens, n.heads * n.head)


def turned(x, cos, sin):
    """NeoX rope in at least f32."""
    wide = x.to(cos.dtype)
    a, b = wide.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


class Llama(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n
        self.words = nn.Embedding(n.vocabulary, n.wide)
        self.layers = nn.ModuleList(LlamaLayer(n, i) for i in range(n.layers))
        self.norm, self.head = nn.RMSNorm(n.wide, n.eps), nn.Linear(n.wide, n.vocabulary, bias=False)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin, self.position)
        return self.head(self.norm(x[:, -1:]))

    def add_state(self, graph, dtype, device):
        """Tables for the tokens' positions, and the graph's caches."""
        n = self.n
        wide = dtype if dtype == torch.float64 else torch.float32
        for name in ("cos", "sin"):
            rows = torch.from_numpy(graph.tables[name][n.past : n.past + n.tokens])
            setattr(self, name, rows.to(device=device, dtype=wide))
        self.position = torch.arange(n.past, n.past + n.tokens, device=device)
        for layer in self.layers if n.past > 0 else ():
            for part in ("k_cache", "v_cache"):
                setattr(layer, part, graph.states[f"{layer.name}.{part}"].torch(device).to(dtype))


NETWORKS = {models.Encoder: Encoder, models.ResNet50: ResNet, models.Llama: Llama}
JOINED = {"qkv": ("q", "k", "v"), "gate_up": ("gate", "up")}


def weight_for(graph, name, device):
    """The tensor of a state-dict name: the graph's weight of that name, or several of them joined."""
    owner, _, kind = name.rpartition(".")
    stem, _, part = owner.rpartition(".")
    if part in JOINED:
        return torch.cat([graph.weights[f"{stem}.{each}.{kind}"].torch(device) for each in JOINED[part]])
    return graph.weights[name].torch(device)


def build(workload, graph, dtype=None, device="cuda"):
    """The network with the graph's weights and caches, in the workload's dtype or in `dtype` (values as the graph's hold them)."""
    dtype = DTYPES[dtype or workload.dtype]
    with torch.device("meta"):
        network = NETWORKS[type(workload.network)](workload.network)
    state = {name: torch.zeros((), dtype=torch.int64, device=device) if name.endswith("num_batches_tracked")
             else weight_for(graph, name, device).to(dtype) for name in network.state_dict()}
    network.load_state_dict(state, assign=True)
    network.eval().requires_grad_(False)
    if isinstance(network, Llama):
        network.add_state(graph, dtype, device)
    return network


def for_speed(network):
    """What a good user does before serving: convolutions with their batch norm folded in, channels last."""
    if isinstance(network, ResNet):
        for module in network.modules():
            if isinstance(module, ConvNorm):
                module.conv = nn.utils.fusion.fuse_conv_bn_eval(module.conv, module.norm)
                module.norm = nn.Identity()
        network.to(memory_format=torch.channels_last)
    return network


def inputs_of(workload, graph, dtype=None, device="cuda"):
    """What forward takes; caches are state of the network."""
    dtype = DTYPES[dtype or workload.dtype]
    (_, values), *_ = graph.inputs.values()
    if isinstance(values, Uniform):
        return values.torch(device).to(dtype=dtype, memory_format=torch.channels_last)
    return torch.from_numpy(values).to(device)


def reference(workload, graph, device="cuda"):
    """The network in f64 over the same rounded weights and inputs."""
    with torch.inference_mode():
        return build(workload, graph, "f64", device)(inputs_of(workload, graph, "f64", device))


def error(got, wanted):
    """Relative error in the Euclidean norm, and the largest absolute one."""
    difference = got.double() - wanted.double()
    return {"relative": float(difference.norm() / wanted.double().norm()), "absolute": float(difference.abs().max())}


def captured(function):
    """A CUDA graph of one call: its replay and the tensor that the replay writes."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = function()
    return graph.replay, output


def timed(function, repeat):
    """Median GPU and wall milliseconds of one call on an idle device: events before and after it, as rlxrun does it too."""
    gpu, wall = [], []
    for _ in range(10):
        function()
    for _ in range(repeat):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        start.record()
        function()
        end.record()
        torch.cuda.synchronize()
        wall.append((time.perf_counter() - begin) * 1e3)
        gpu.append(start.elapsed_time(end))
    return {"gpu_ms": statistics.median(gpu), "gpu_p10_ms": sorted(gpu)[len(gpu) // 10], "wall_ms": statistics.median(wall)}


def measure(workload, graph, mode, wanted, repeat=100):
    """One mode of one workload: times, seconds from the first call to the first output, error against `wanted`."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    network = for_speed(build(workload, graph))
    x = inputs_of(workload, graph)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    with torch.no_grad():
        if mode == "compile":
            torch._dynamo.reset()
            network = torch.compile(network, mode="max-autotune-no-cudagraphs", dynamic=False)
        output = network(x)
        call = lambda: network(x)
        if mode != "eager":
            call, output = captured(call)
            call()
        torch.cuda.synchronize()
        prepare = time.perf_counter() - begin
        result = timed(call, repeat)
        return {**result, "prepare_s": prepare, "error": error(output, wanted)}


def release():
    """Gives back what the last network held."""
    torch._dynamo.reset()
    gc.collect()
    torch.cuda.empty_cache()


def ceilings():
    """What the device does at best (of the fastest tenth) through PyTorch: copy bandwidth (bytes read and written), products of
    8192^3."""
    def seconds(function):
        return timed(function, 20)["gpu_p10_ms"] * 1e-3

    rates = {}
    source = torch.empty(1 << 30, dtype=torch.int32, device="cuda").random_()
    target = torch.empty_like(source)
    rates["bytes_per_s"] = 2 * source.nbytes / seconds(lambda: target.copy_(source))
    del source, target
    torch.backends.cuda.matmul.allow_tf32 = False
    for name in ("f32", "f16", "bf16"):
        a, b = (torch.randn(8192, 8192, device="cuda").to(DTYPES[name]) for _ in range(2))
        rates[f"{name}_flops_per_s"] = 2 * 8192**3 / seconds(lambda: torch.mm(a, b))
    return rates
