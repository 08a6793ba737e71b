#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the encoder example (MiniLM shape, f32) beside PyTorch on one machine and prints a table.

    python3 tests/bench/encoder.py --rlxrun build/bin/rlxrun --plan encoder.plan [--device vulkan:0] [--repeat 200] [--no-torch]

rlx: GPU time from timestamps around the run, wall time of `run`. PyTorch (where it is installed with CUDA): the same graph with
the same seeded weights and ids, eager, CUDA graph, and torch.compile max-autotune in a CUDA graph; GPU time from CUDA events.
The outputs of both are compared.
"""
import argparse
import importlib.util
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load_example():
    spec = importlib.util.spec_from_file_location("make_encoder", ROOT / "examples/encoder/make_encoder.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_rlx(args, ids, folder):
    np.save(folder / "ids.npy", ids)
    command = [args.rlxrun, args.plan, "--inputs", f"ids={folder / 'ids.npy'}", "--outputs", str(folder), "--device", args.device,
               "--warmup", "20", "--repeat", str(args.repeat), "--profile", "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report, np.load(folder / "hidden.npy")


def torch_model(example, layers):
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            w = example.WIDTH
            self.q, self.k, self.v, self.o = (nn.Linear(w, w) for _ in range(4))
            self.up, self.down = nn.Linear(w, example.FFN), nn.Linear(example.FFN, w)
            self.attention_norm, self.ffn_norm = nn.LayerNorm(w, eps=1e-12), nn.LayerNorm(w, eps=1e-12)

        def forward(self, x):
            b, s, _ = x.shape
            heads = [part(x).view(b, s, example.HEADS, -1).transpose(1, 2) for part in (self.q, self.k, self.v)]
            attended = nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).reshape(b, s, -1)
            x = self.attention_norm(self.o(attended) + x)
            return self.ffn_norm(self.down(nn.functional.gelu(self.up(x))) + x)

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(example.VOCABULARY, example.WIDTH)
            self.positions = nn.Embedding(example.POSITIONS, example.WIDTH)
            self.norm = nn.LayerNorm(example.WIDTH, eps=1e-12)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))

        def forward(self, ids):
            x = self.norm(self.words(ids) + self.positions.weight[: ids.shape[1]])
            for layer in self.layers:
                x = layer(x)
            return x

    specs = example.parameters(layers)

    def values(name):
        return torch.from_numpy(example.normal(name, *specs[name]))

    model = Encoder()
    with torch.no_grad():
        model.words.weight.copy_(values("words"))
        model.positions.weight.copy_(values("positions"))
        norms = [("embedding.norm", model.norm)]
        for i, layer in enumerate(model.layers):
            for part in ("q", "k", "v", "o", "up", "down"):
                linear = getattr(layer, part)
                linear.weight.copy_(values(f"layer{i}.{part}.weight").T)
                linear.bias.copy_(values(f"layer{i}.{part}.bias"))
            norms += [(f"layer{i}.attention.norm", layer.attention_norm), (f"layer{i}.ffn.norm", layer.ffn_norm)]
        for name, norm in norms:
            norm.weight.copy_(values(f"{name}.gamma"))
            norm.bias.copy_(values(f"{name}.beta"))
    return model.eval().cuda()


def time_cuda(function, repeat):
    """Median GPU milliseconds and wall milliseconds of one call."""
    import torch

    gpu, wall = [], []
    for _ in range(20):
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
    return statistics.median(gpu), statistics.median(wall)


def captured(function):
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def torch_rows(args, example, ids):
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    model = torch_model(example, args.layers)
    device_ids = torch.from_numpy(ids).cuda()
    rows = []
    with torch.no_grad():
        output = model(device_ids).cpu().numpy()
        rows.append(("PyTorch eager", *time_cuda(lambda: model(device_ids), args.repeat)))
        rows.append(("PyTorch CUDA graph", *time_cuda(captured(lambda: model(device_ids)), args.repeat)))
        begin = time.perf_counter()
        compiled = torch.compile(model, mode="max-autotune-no-cudagraphs")
        compiled(device_ids)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        rows.append((f"torch.compile + CUDA graph ({seconds:.0f} s to compile)",
                     *time_cuda(captured(lambda: compiled(device_ids)), args.repeat)))
    return rows, output


def print_profile(report):
    by_kernel = {}
    for step in report["profile"]:
        kernel = by_kernel.setdefault(step["kernel"], [0, 0.0])
        kernel[0] += 1
        kernel[1] += step["us"]
    print("\nsteps run one after another, by kernel:")
    for name, (count, us) in sorted(by_kernel.items(), key=lambda item: -item[1][1]):
        print(f"  {name:<12} {count:>3} steps {us:9.1f} us")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rlxrun", required=True)
    parser.add_argument("--plan", required=True)
    parser.add_argument("--device", default="vulkan:0")
    parser.add_argument("--repeat", type=int, default=200)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--no-torch", action="store_true")
    args = parser.parse_args()
    example = load_example()
    ids = np.random.default_rng(example.SEED).integers(0, example.VOCABULARY, (1, 128), dtype=np.int64)
    with tempfile.TemporaryDirectory() as folder:
        report, hidden = run_rlx(args, ids, pathlib.Path(folder))
    timing = report["timing"]
    rows = [(f"rlx on {report['device']['name']}", timing["device_us"]["median"] / 1e3, timing["wall_us"]["median"] / 1e3)]
    if not args.no_torch:
        peers, output = torch_rows(args, example, ids)
        rows += peers
        print(f"largest difference to PyTorch: {np.abs(hidden - output).max():.3g}")
    print(f"{'encoder f32 b1 s128':<52} {'GPU ms':>9} {'wall ms':>9}")
    for name, gpu, wall in rows:
        print(f"{name:<52} {gpu:>9.4f} {wall:>9.4f}")
    print(f"open {timing['open_ms']:.2f} ms, load {timing['load_ms']:.1f} ms, first run {timing['first_run_ms']:.2f} ms")
    print_profile(report)


if __name__ == "__main__":
    main()
