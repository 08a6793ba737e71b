#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One AdamW step (forward, backward, update) beside PyTorch (torch.compile, captured in a CUDA graph with a fused AdamW) on the same
GPU: times, and the memory of the whole step beside PyTorch's peak. Weights are f32; each step casts them to the network's dtype, so
the f32 ones are the masters of both systems. Dropout is off, batch norms keep their statistics.

    python3 tests/bench/training.py --build build --arch sm_90a bert-base-bf16 resnet50-f16
    python3 tests/bench/training.py --build build --arch sm_90a bert-base-bf16 --layers 4      # a shorter BERT
    python3 tests/bench/training.py --build build --target vulkan --peer none bert-base-bf16 --layers 1 --batch 1 --repeat 1
"""
import argparse
import concurrent.futures
import gc
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import packages  # noqa: E402

packages.need("numpy", "torch")
import numpy as np  # noqa: E402
import torch  # noqa: E402

import networks  # noqa: E402
import peers  # noqa: E402
import rlx_export  # noqa: E402

NETWORKS = ("bert-base-bf16", "resnet50-f16")
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}


class Classifier(torch.nn.Module):
    """The loss of a classifier whose f32 weights are cast to `dtype` before they are used."""

    def __init__(self, inner, dtype, pick):
        super().__init__()
        self.inner, self.dtype, self.pick = inner, dtype, pick

    def forward(self, x, target):
        weights = {name: weight.to(self.dtype) for name, weight in self.inner.named_parameters()}
        buffers = {name: b.to(self.dtype) if b.is_floating_point() else b for name, b in self.inner.named_buffers()}
        logits = self.pick(torch.func.functional_call(self.inner, {**weights, **buffers}, (x,)))
        return torch.nn.functional.cross_entropy(logits.float(), target)


def bert(options, dtype):
    import transformers
    config = transformers.BertConfig(num_hidden_layers=options.layers, num_labels=16, hidden_dropout_prob=0.0,
                                     attention_probs_dropout_prob=0.0)
    module = transformers.BertForSequenceClassification(config)
    ids = torch.randint(0, config.vocab_size, (options.batch, 128))
    return Classifier(module, dtype, lambda result: result.logits), (ids, torch.randint(0, 16, (options.batch,)))


def resnet(options, dtype):
    import torchvision
    module = torchvision.models.resnet50(weights=None)
    image = torch.randn(options.batch, 3, 224, 224).to(dtype)
    return Classifier(module, dtype, lambda result: result), (image, torch.randint(0, 1000, (options.batch,)))


def build(name, options):
    torch.manual_seed(20261126)
    kind, _, dtype = name.rpartition("-")
    module, inputs = (bert if kind.startswith("bert") else resnet)(options, DTYPES[dtype])
    return module.eval(), inputs


def said(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{pathlib.Path(str(command[0])).name} ended with {done.returncode}: {(done.stderr or done.stdout)[-600:].strip()}")
    return json.loads(done.stdout)


def export(name, options, folder):
    """The words that name the step's inputs, and the command that compiles it."""
    module, inputs = build(name, options)
    rlx_export.export(module, inputs, str(folder / "model.json"))
    graph = json.loads((folder / "model.json").read_text())
    words = []
    for entry, value in zip(graph["inputs"], inputs):
        array = value.view(torch.uint16).numpy() if value.dtype == torch.bfloat16 else value.numpy()
        np.save(folder / f"{entry['name']}.npy", array)
        words.append(f"{entry['name']}={folder / (entry['name'] + '.npy')}")
    arch = ["--arch", options.arch] if options.arch and options.target == "cuda" else []
    return words, [options.build / "bin/rlxc", folder / "model.json", "-o", folder / "step.plan", "--target", options.target, *arch,
                   "--grad", graph["outputs"][0], "--optimizer", "adamw", "--lr", "1e-4", "--weight-decay", "0.01", "--no-cache", "--json",
                   *(["--recompute"] if options.recompute else [])]


def run_plan(options, folder, words):
    device = options.target.split("-")[0]
    result = said([options.build / "bin/rlxrun", folder / "step.plan", "--device", device, "--entry", "train", "--inputs", *words,
                   "--warmup", 3, "--repeat", options.repeat, "--profile", "--json"])
    kernels = {}
    for step in result["profile"]:
        kernels[step["kernel"]] = kernels.get(step["kernel"], 0) + step["us"]
    slowest = sorted(((step["us"], step["kernel"], step["node"]) for step in result["profile"]), reverse=True)[:12]
    return result, dict(sorted(kernels.items(), key=lambda item: -item[1])[:8]), slowest


class Peer:
    """PyTorch's step: its replay, or why there is none."""

    def __init__(self, name, options):
        self.failure, self.replay, self.peak = None, None, None
        try:
            self.prepare(name, options)
        except Exception as error:  # a row of the table
            self.failure = f"{type(error).__name__}: {str(error).strip()[-300:]}"

    def prepare(self, name, options):
        torch.backends.cudnn.benchmark = True
        module, inputs = build(name, options)
        module, inputs = module.cuda(), [x.cuda() for x in inputs]
        if inputs[0].dim() == 4:
            module, inputs[0] = module.to(memory_format=torch.channels_last), inputs[0].to(memory_format=torch.channels_last)
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, weight_decay=0.01, fused=True, capturable=True)
        compiled = torch.compile(module, dynamic=False)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = compiled(*inputs)
            loss.backward()
            optimizer.step()
            return loss

        step()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
        self.peak = torch.cuda.max_memory_allocated()
        self.replay, _ = peers.captured(step)


def measure(name, options):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        gpu = networks.Gpu(options.locks or folder)
        words, command = export(name, options, folder)
        peer = None
        with gpu.shared(), concurrent.futures.ThreadPoolExecutor(1) as beside:
            compiling = beside.submit(said, command)  # a process of its own
            if options.peer != "none":
                peer = Peer(name, options)
            made = compiling.result()
        with gpu.alone():
            result, kernels, slowest = run_plan(options, folder, words)
            timing = peers.timed(peer.replay, options.repeat) if peer and peer.replay else None
        plan = result["plan"]
        row = {"network": name, "rlx_ms": result["timing"]["device_us"]["median"] / 1e3,
               "rlx_bytes": plan["arena_bytes"] + plan["state_bytes"] + plan["io_bytes"], "arena_bytes": made["arena_bytes"],
               "lower_bound_bytes": made["arena_lower_bound_bytes"], "steps": len(result["profile"]), "kernels_us": kernels,
               "slowest": slowest, "rlxc": made}
        if timing:
            row |= {"peer_ms": timing["gpu_ms"], "peer_bytes": peer.peak}
        if peer and peer.failure:
            row["peer_failed"] = peer.failure
    del peer
    gc.collect()
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", choices=[*NETWORKS, []], default=[])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder whose bin/ holds rlxc and rlxrun")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--arch", help="rlxc --arch")
    parser.add_argument("--peer", choices=("compile", "none"), default="compile")
    parser.add_argument("--layers", type=int, default=12, help="of BERT")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument("--recompute", action="store_true", help="rlxc --recompute: less memory for more time")
    parser.add_argument("--locks", type=pathlib.Path, help="folder that several such processes share, which then time one at a time")
    parser.add_argument("--json", type=pathlib.Path, help="write all that was measured there")
    options = parser.parse_args()
    rows = []
    for name in options.networks or NETWORKS:
        row = measure(name, options)
        rows.append(row)
        peer = f"PyTorch {row['peer_ms']:.3f} ms ({row['peer_ms'] / row['rlx_ms']:.2f}), {row['peer_bytes'] / 2**20:.0f} MiB " \
               f"({row['rlx_bytes'] / row['peer_bytes']:.2f})" if "peer_ms" in row else row.get("peer_failed", "")
        print(f"{name}: rlx {row['rlx_ms']:.3f} ms, {row['rlx_bytes'] / 2**20:.0f} MiB (arena {row['arena_bytes'] / 2**20:.0f}, "
              f"{row['arena_bytes'] / row['lower_bound_bytes']:.3f} of its lower bound), {row['steps']} steps; {peer}", flush=True)
        print("  " + ", ".join(f"{kernel} {us:.0f} us" for kernel, us in row["kernels_us"].items()), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
