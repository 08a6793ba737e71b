#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One operator at a time: rlx on each device beside PyTorch on one GPU machine, and the rate of each against the device's limits.

    python3 tests/bench/operators.py --build build                            # every row, rlx and PyTorch
    python3 tests/bench/operators.py --build build softmax cumsum --peer none   # rows whose names hold one of these words

A row is a graph of one operator (or a short chain), the same function in PyTorch, and the work that any implementation must do:
bytes read and written, floating-point operations. Inputs are random. Times are medians: of rlx the sum of the steps' own times
(rlxrun --profile; a Vulkan run counts the copy of its small outputs to the host too), of PyTorch a CUDA graph of one call. Rates of
memory-bound rows stand beside the copy bandwidth measured in the same run.
"""
import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import packages  # noqa: E402

packages.need("numpy")
import numpy as np  # noqa: E402

# Elements and bytes of a block, and where in it halves stand that scale it.
BLOCKS = {"q4_k": (256, 144, (0, 2)), "q6_k": (256, 210, (208,)), "q8_0": (32, 34, (0,)), "q4_0": (32, 18, (0,))}
BYTES = {"f32": 4, "f16": 2, "bf16": 2, "i32": 4, "i64": 8, **{t: b / e for t, (e, b, _) in BLOCKS.items()}}


@dataclasses.dataclass
class Row:
    name: str
    inputs: dict  # name -> (dtype, shape)
    nodes: list
    outputs: list
    peer: Callable  # (torch, tensors by name) -> what the last node gives
    bytes: float
    flops: float = 0  # 0: memory bound
    params: dict = dataclasses.field(default_factory=dict)

    def document(self, folder):
        def data(name, dtype, shape):
            if dtype not in BLOCKS:
                return {"random": {"distribution": "uniform", "low": -1, "high": 1, "seed": 1}}
            block_bytes(dtype, shape).tofile(folder / f"{name}.raw")
            return {"raw": f"{name}.raw"}

        return {"rlx_graph": 1, "name": "operator", "nodes": self.nodes, "outputs": self.outputs,
                "inputs": [{"name": n, "dtype": d, "shape": list(s)} for n, (d, s) in self.inputs.items()],
                "params": [{"name": n, "dtype": d, "shape": list(s), "data": data(n, d, s)} for n, (d, s) in self.params.items()]}


def block_bytes(dtype, shape):
    """Random codes with small scales (ops.md 0.10)."""
    elements, size_bytes, halves = BLOCKS[dtype]
    blocks = np.random.default_rng(1).integers(0, 256, (int(np.prod(shape)) // elements, size_bytes), dtype=np.uint8)
    for place in halves:
        blocks[:, place:place + 2] = np.frombuffer(np.float16(0.005).tobytes(), np.uint8)
    return blocks


def node(op, inputs, output, **attributes):
    outputs = output if isinstance(output, list) else [output]
    return {"name": outputs[0], "op": op, "inputs": inputs, "outputs": outputs, "attributes": attributes}


def size(dtype, shape):
    return BYTES[dtype] * float(np.prod(shape))


def memory_row(name, dtype, shape, nodes, peer, tensors=2, inputs=("x",), outputs=("y",)):
    """A row that reads and writes `tensors` tensors of this type and shape in all."""
    return Row(name, {n: (dtype, shape) for n in inputs}, nodes, list(outputs), peer, tensors * size(dtype, shape))


def row_operators(dtype, mib):
    """Operators over rows of 4096 elements, `mib` MiB in each operand."""
    shape = (mib * 2**20 // BYTES[dtype] // 4096, 4096)
    tag = f"{dtype} {mib} MiB"
    layer_norm = memory_row(f"layer_norm {tag}", dtype, shape, [node("layer_norm", ["x", "gamma", "beta"], "y")],
                            lambda torch, t: torch.nn.functional.layer_norm(t["x"], (4096,), t["gamma"], t["beta"]))
    layer_norm.params = {"gamma": (dtype, (4096,)), "beta": (dtype, (4096,))}
    chain = [node("add", ["a", "b"], "t"), node("mul", ["t", "b"], "u"), node("add", ["u", "a"], "v"), node("relu", ["v"], "y")]
    return [
        memory_row(f"softmax {tag}", dtype, shape, [node("softmax", ["x"], "y")], lambda torch, t: torch.softmax(t["x"], -1)),
        layer_norm,
        memory_row(f"add {tag}", dtype, shape, [node("add", ["a", "b"], "y")], lambda torch, t: t["a"] + t["b"], 3, ("a", "b")),
        memory_row(f"add chain {tag}", dtype, shape, chain, lambda torch, t: torch.relu((t["a"] + t["b"]) * t["b"] + t["a"]), 3,
                   ("a", "b")),
        memory_row(f"reduce_sum {tag}", dtype, shape, [node("reduce_sum", ["x"], "y", axes=[1])],
                   lambda torch, t: t["x"].sum(1), 1),
        memory_row(f"mul, reduce_sum {tag}", dtype, shape, [node("mul", ["a", "b"], "t"), node("reduce_sum", ["t"], "y", axes=[1])],
                   lambda torch, t: (t["a"] * t["b"]).sum(1), 2, ("a", "b")),
        memory_row(f"cumsum {tag}", dtype, shape, [node("cumsum", ["x"], "y", axis=1)], lambda torch, t: t["x"].cumsum(1)),
    ]


def ordering_rows():
    million = (1, 1 << 20)
    return [
        memory_row("softmax axis 0 f32", "f32", (4096, 4096), [node("softmax", ["x"], "y", axis=0)],
                   lambda torch, t: torch.softmax(t["x"], 0)),
        memory_row("softmax one row f32 2^22", "f32", (1, 1 << 22), [node("softmax", ["x"], "y")],
                   lambda torch, t: torch.softmax(t["x"], -1)),
        memory_row("reduce_max all f32 256 MiB", "f32", (1 << 26,), [node("reduce_max", ["x"], "y")], lambda torch, t: t["x"].max(), 1),
        memory_row("argmax one row f32 2^24", "f32", (1, 1 << 24), [node("argmax", ["x"], "y", axis=1)],
                   lambda torch, t: t["x"].argmax(1), 1),
        memory_row("argmax f16 4 x 128256", "f16", (4, 128256), [node("argmax", ["x"], "y", axis=1)],
                   lambda torch, t: t["x"].argmax(1), 1),
        memory_row("cumsum axis 0 f32", "f32", (4096, 4096), [node("cumsum", ["x"], "y", axis=0)], lambda torch, t: t["x"].cumsum(0)),
        memory_row("cumsum one row f32 2^24", "f32", (1 << 24,), [node("cumsum", ["x"], "y", axis=0)], lambda torch, t: t["x"].cumsum(0)),
        memory_row("cumsum one row i32 2^24", "i32", (1 << 24,), [node("cumsum", ["x"], "y", axis=0)],
                   lambda torch, t: t["x"].cumsum(0, dtype=torch.int32)),
        memory_row("cummax f32 4096 x 4096", "f32", (4096, 4096), [node("cummax", ["x"], ["y", "i"], axis=1)],
                   lambda torch, t: t["x"].cummax(1), 3, outputs=("y", "i")),
        memory_row("topk 50 of 2^20 f32", "f32", million, [node("topk", ["x"], ["y", "i"], k=50)],
                   lambda torch, t: t["x"].topk(50), 1, outputs=("y", "i")),
        memory_row("topk 50 of 4096 x 4096 f32", "f32", (4096, 4096), [node("topk", ["x"], ["y", "i"], k=50)],
                   lambda torch, t: t["x"].topk(50), 1, outputs=("y", "i")),
        memory_row("sort 2^20 f32", "f32", million, [node("sort", ["x"], ["y", "i"])],
                   lambda torch, t: t["x"].sort(stable=True), 3, outputs=("y", "i")),
        memory_row("sort 16384 x 1024 f32", "f32", (16384, 1024), [node("sort", ["x"], ["y", "i"])],
                   lambda torch, t: t["x"].sort(stable=True), 3, outputs=("y", "i")),
        memory_row("nonzero f32 2^24", "f32", (1 << 24,), [node("nonzero", ["x"], ["y", "n"], max_count=1 << 24)],
                   lambda torch, t: torch.nonzero_static(t["x"], size=1 << 24), 2, outputs=("y", "n")),
    ]


def product_rows():
    rows = []
    for n in (4096, 8192):
        for dtype in ("f16", "f32"):
            shape = (n, n)
            rows.append(Row(f"matmul {n}^3 {dtype}", {"a": (dtype, shape)}, [node("matmul", ["a", "b"], "y")], ["y"],
                            lambda torch, t: t["a"] @ t["b"], 3 * size(dtype, shape), 2.0 * n**3, {"b": (dtype, shape)}))
    wide, deep = 14336, 4096
    for dtype in ("f32", "f16"):
        rows.append(Row(f"matvec {deep} x {wide} {dtype}", {"x": (dtype, (1, deep))},
                        [node("matmul", ["x", "w"], "y", trans_b=True)], ["y"], lambda torch, t: t["x"] @ t["w"].T,
                        size(dtype, (wide, deep)), params={"w": (dtype, (wide, deep))}))
    for dtype in BLOCKS:
        for k, n in ((deep, wide), (wide, deep), (deep, deep)):
            for m in (1, 2, 4, 8):
                rows.append(Row(f"blocks {m} x {k} x {n} {dtype}", {"x": ("f16", (m, k))},
                                [node("dequant_matmul", ["x", "w"], "y", scheme=dtype)], ["y"], None, size(dtype, (n, k)),
                                params={"w": (dtype, (n, k))}))
    return rows


def attention_row():
    heads, head, length = 32, 128, 2048
    shape = (1, heads, length, head)
    layout = {f"{name}_layout": "bhsd" for name in ("q", "kv", "out")}
    return Row(f"attention b1 h{heads} d{head} s{length} causal f16", {n: ("f16", shape) for n in "qkv"},
               [node("attention", ["q", "k", "v"], "y", num_heads=heads, head_dim=head, causal=True, **layout)], ["y"],
               lambda torch, t: torch.nn.functional.scaled_dot_product_attention(t["q"], t["k"], t["v"], is_causal=True),
               4 * size("f16", shape), 2.0 * heads * head * length * length)


def conv_row():
    channels, image, batch = 256, 56, 32
    shape = (batch, channels, image, image)
    weight = (channels, channels, 3, 3)
    return Row("conv 3x3 256->256 56x56 b32 f16", {"x": ("f16", shape)},
               [node("conv", ["x", "w"], "y", kernel=[3, 3], stride=[1, 1], pads=[1, 1, 1, 1])], ["y"],
               lambda torch, t: torch.nn.functional.conv2d(t["x"], t["w"], padding=1), 2 * size("f16", shape),
               2.0 * batch * image * image * channels * channels * 9, {"w": ("f16", weight)})


def all_rows():
    rows = [row for mib in (64, 256) for dtype in ("f32", "f16") for row in row_operators(dtype, mib)]
    return rows + ordering_rows() + product_rows() + [attention_row(), conv_row()]


def output_of(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[0])
    return done.stdout


def measure_rlx(args, row, target, folder):
    """Microseconds of the steps of one run, and how they divide among the kernels."""
    plan = folder / "operator.plan"
    (folder / "operator.json").write_text(json.dumps(row.document(folder)))
    command = [args.build / "bin/rlxc", folder / "operator.json", "-o", plan, "--target", target, "-q", "--no-cache"]
    if target == "cuda" and args.arch:
        command += ["--arch", args.arch]
    if args.without:
        command += ["--without", args.without]
    output_of(command)
    run = [args.build / "bin/rlxrun", plan, "--device", target.partition("-")[0], "--seeded", "--seeded-max", 1000]
    if args.tune and target == "cuda":
        output_of(run + ["--tune"])
    report = json.loads(output_of(run + ["--warmup", 5, "--repeat", args.repeat, "--profile", "--json"]))
    kernels = ", ".join(f"{step['kernel']} {step['us']:.1f}" for step in report["profile"])
    return sum(step["us"] for step in report["profile"]), kernels


def measure_peer(row, repeat):
    """Microseconds of one replay of a CUDA graph of the call."""
    import torch

    import peers
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    types = {**peers.DTYPES, "i32": torch.int32}
    tensors = {}
    for name, (dtype, shape) in {**row.inputs, **row.params}.items():
        values = torch.rand(shape, device="cuda") * 2 - 1
        tensors[name] = (values * 500 + 500).to(types[dtype]) if dtype == "i32" else values.to(types[dtype])
    with torch.inference_mode():
        replay, _ = peers.captured(lambda: row.peer(torch, tensors))
        return peers.timed(replay, repeat)["gpu_ms"] * 1e3


def copy_rate(repeat):
    """Bytes read and written per second by PyTorch's copy of 1 GiB, at the median as the rows are."""
    import torch

    import peers
    source = torch.empty(1 << 28, dtype=torch.float32, device="cuda").normal_()
    target = torch.empty_like(source)
    return 2 * source.nbytes / (peers.timed(lambda: target.copy_(source), repeat)["gpu_ms"] * 1e-3)


def rate_text(row, microseconds, bandwidth):
    if microseconds is None:
        return "-"
    if row.flops:
        return f"{microseconds:.1f} us, {row.flops / microseconds * 1e-6:.1f} TFLOP/s"
    rate = row.bytes / microseconds * 1e6
    share = f" ({100 * rate / bandwidth:.0f} %)" if bandwidth else ""
    return f"{microseconds:.1f} us, {rate * 1e-9:.0f} GB/s{share}"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD", help="rows whose names hold one of these; all rows unless given")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder whose bin/ holds rlxc and rlxrun")
    parser.add_argument("--targets", default="cuda,vulkan", help="of cuda, vulkan and its profile vulkan-nvidia; none: PyTorch alone")
    parser.add_argument("--peer", default="torch", help="torch or none")
    parser.add_argument("--arch", default="sm_90a", help="CUDA architecture to compile for")
    parser.add_argument("--without", help="rlxc --without: kernels that are not to be taken, as \"dequant_mma streamed\"")
    parser.add_argument("--tune", action="store_true", help="rlxrun --tune before the CUDA runs")
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument("--kernels", action="store_true", help="print the time of each kernel too")
    args = parser.parse_args()
    args.targets = [name for name in args.targets.split(",") if name != "none"]
    if args.peer == "torch":
        packages.need("numpy", "torch")
    return args


def main():
    args = parse_arguments()
    known = {op["name"] for op in json.loads(output_of([args.build / "bin/rlxc", "ops", "--json"]))["operators"]}
    bandwidth = copy_rate(args.repeat) if args.peer == "torch" else None
    if bandwidth:
        print(f"copy bandwidth {bandwidth * 1e-9:.0f} GB/s")
    systems = args.targets + (["torch"] if args.peer == "torch" else [])
    print("| row | " + " | ".join(systems) + " |\n|" + "---|" * (len(systems) + 1))
    for row in all_rows():
        if args.words and not any(word in row.name for word in args.words):
            continue
        unknown = sorted({step["op"] for step in row.nodes} - known)
        if unknown:
            print(f"| {row.name} | skipped: this rlxc has no {', '.join(unknown)} |", flush=True)
            continue
        cells, notes = [], []
        for system in systems:
            try:
                if system == "torch":
                    cells.append(rate_text(row, measure_peer(row, args.repeat) if row.peer else None, bandwidth))
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    microseconds, kernels = measure_rlx(args, row, system, pathlib.Path(folder))
                cells.append(rate_text(row, microseconds, bandwidth))
                notes.append(f"    {system}: {kernels}")
            except Exception as error:  # a system that cannot do this row is a cell of the table
                cells.append(f"failed: {error}")
        print("| " + " | ".join([row.name, *cells]) + " |", flush=True)
        if args.kernels:
            print("\n".join(notes), flush=True)


if __name__ == "__main__":
    main()
