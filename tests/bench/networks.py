#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks as their libraries write them (network_zoo.py), through tools/rlx_export.py and rlxc, beside PyTorch on the same GPU:
times of both, the error of each against the same network in f64, the share of the device's limit, and the kernels that take longest.

    python3 tests/bench/networks.py --build build --arch sm_90a -j 12 --save     # everything, prepared by 12 processes at once
    python3 tests/bench/networks.py --build build resnet18-f16-b1 --targets cuda --peers graph
    python3 tests/bench/networks.py --build build --targets vulkan --peers none   # without a GPU of NVIDIA: on the processor
    python3 tests/bench/networks.py --records records --report

A network is exported, compiled and warmed up beside others; what is timed has the GPU to itself (locks in RECORDS). Each becomes a
file RECORDS/NETWORK.json; the table is made of all that are there. PyTorch's modes: graph (a CUDA graph of the module as it
stands), compile (torch.compile in a CUDA graph), autotune (torch.compile's max-autotune in a CUDA graph: minutes a network, so it is
measured only where --peers names it).
"""
import argparse
import concurrent.futures
import contextlib
import copy
import datetime
import fcntl
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import packages  # noqa: E402

# How torch.compile is asked in each of PyTorch's modes; graph leaves it out.
MODES = {"graph": None, "compile": {}, "autotune": {"mode": "max-autotune-no-cudagraphs"}}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="names, or beginnings of names (default: all; --list)")
    parser.add_argument("--list", action="store_true", help="the networks' names")
    parser.add_argument("--build", type=pathlib.Path, help="build folder whose bin/ holds rlxc and rlxrun")
    parser.add_argument("--targets", default="cuda,vulkan-nvidia", help="of cuda and the profiles of vulkan")
    parser.add_argument("--arch", help="rlxc --arch: CUDA architectures to compile for, instead of all")
    parser.add_argument("--peers", default="graph,compile", help="of graph,compile,autotune; none: rlx alone")
    parser.add_argument("--repeat", type=int, default=50, help="timed runs of each")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="networks prepared at once")
    parser.add_argument("--seconds", type=float, default=900, help="a network that takes longer is told as such")
    parser.add_argument("--records", type=pathlib.Path, default=pathlib.Path("network-records"))
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--save", action="store_true", help="the table as results/DATE-DEVICE-networks.md beside this script")
    parser.add_argument("--output", type=pathlib.Path, help="file for the table")
    parser.add_argument("--alone", help=argparse.SUPPRESS)  # the one network of a process that this script starts
    args = parser.parse_args()
    args.targets = [name for name in args.targets.split(",") if name != "none"]
    args.peers = [name for name in args.peers.split(",") if name != "none"]
    for name in args.peers:
        if name not in MODES:
            parser.error(f"--peers names {name!r}; there are {', '.join(MODES)} and none")
    if not (args.report or args.list) and args.build is None:
        parser.error("--build is needed")
    return args


# ---- who has the GPU

class Gpu:
    """Readers and a writer over two lock files: `shared` for what may run beside others, `alone` for what is timed. Whoever waits
    for `alone` keeps new readers out."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.gate, self.lock = folder / "gate.lock", folder / "gpu.lock"

    @contextlib.contextmanager
    def hold(self, mode):
        with open(self.gate, "w") as gate, open(self.lock, "w") as lock:
            fcntl.flock(gate, fcntl.LOCK_EX)
            fcntl.flock(lock, mode)
            fcntl.flock(gate, fcntl.LOCK_UN)
            yield

    def shared(self):
        return self.hold(fcntl.LOCK_SH)

    def alone(self):
        return self.hold(fcntl.LOCK_EX)


# ---- one network

def first_tensor(result):
    import torch
    if isinstance(result, torch.Tensor):
        return result
    return first_tensor(next(iter(result.values())) if isinstance(result, dict) else result[0])


def converted(module, inputs, dtype, device):
    import torch
    kind = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}[dtype]
    move = lambda x: x.to(device, kind) if x.is_floating_point() else x.to(device)
    module = module.to(device, kind)
    for part in module.modules():
        if isinstance(part, torch.nn.RNNBase):
            part.flatten_parameters()
    return module, tuple(move(x) for x in inputs)


def process(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{pathlib.Path(command[0]).name} ended with {done.returncode}: {(done.stderr or done.stdout)[-500:].strip()}")
    return json.loads(done.stdout)


def export_and_compile(args, network, folder):
    """The plan, its inputs' words for rlxrun, and what rlxc said. The module that is exported has the network's dtype."""
    import numpy as np
    import torch

    import rlx_export
    module, inputs = converted(*network.built(), network.dtype, "cpu")
    begin = time.perf_counter()
    rlx_export.export(module, inputs, str(folder / "model.json"))
    exported = time.perf_counter() - begin
    command = [args.build / "bin/rlxc", folder / "model.json", "-o", folder / "model.plan", "--target", ",".join(args.targets),
               "--no-cache", "--json"]
    said = process(command + (["--arch", args.arch] if args.arch and "cuda" in args.targets else []))
    names = [entry["name"] for entry in json.loads((folder / "model.json").read_text())["inputs"]]
    words = []
    for name, value in zip(names, inputs):
        array = value.view(torch.uint16).numpy() if value.dtype == torch.bfloat16 else value.numpy()
        np.save(folder / f"{name}.npy", array)
        words.append(f"{name}={folder / (name + '.npy')}")
    work = {"weights_bytes": sum(t.numel() * t.element_size() for t in module.state_dict().values()),
            "io_bytes": sum(t.numel() * t.element_size() for t in inputs)}
    with torch.utils.flop_counter.FlopCounterMode(display=False) as counter, torch.no_grad():
        meta = copy.deepcopy(module).to("meta")
        with contextlib.suppress(Exception):  # a module that makes tensors of its own on the processor
            meta(*(x.to("meta") for x in inputs))
    return words, {"export_s": exported, "rlxc": said, "flops": counter.get_total_flops(), **work}


def error_of(got, wanted):
    difference = got.double().flatten() - wanted.flatten()
    return float(difference.norm() / wanted.norm().clamp_min(1e-300))


def read_output(folder):
    import numpy as np
    import torch
    path = sorted(folder.glob("*.npy"), key=lambda p: (len(p.stem), p.stem))[0]
    values = np.load(path)
    if values.dtype == np.uint16:
        return torch.from_numpy(values.astype(np.int32) << 16).view(torch.float32)
    return torch.from_numpy(values)


def run_target(args, target, plan, words, folder, wanted):
    """Times of one target and the error of its first output."""
    outputs = folder / f"outputs-{target}"
    said = process([args.build / "bin/rlxrun", plan, "--device", f"{target.split('-')[0]}:0", "--inputs", *words, "--outputs", outputs,
                    "--json", "--warmup", 10, "--repeat", args.repeat, "--profile"])
    kernels = {}
    for step in said["profile"]:
        kernels[step["kernel"]] = kernels.get(step["kernel"], 0) + step["us"]
    top = sorted(kernels.items(), key=lambda item: -item[1])[:4]
    return {"gpu_ms": said["timing"]["device_us"]["median"] / 1e3, "wall_ms": said["timing"]["wall_us"]["median"] / 1e3,
            "steps": len(said["profile"]), "top_kernels_us": dict(top), "device": said["device"],
            "error": None if wanted is None else error_of(read_output(outputs), wanted)}


def reference(network, device):
    """The first output in f64 of the network with its weights and inputs rounded to its dtype."""
    import torch
    module, inputs = converted(*network.built(), network.dtype, device)
    module, inputs = converted(module, inputs, "f64", device)
    with torch.no_grad():
        return first_tensor(module(*inputs)).cpu()


def prepared_peer(network, mode, gpu):
    """The call of one mode, captured in a CUDA graph, and the tensor that it writes."""
    import torch

    import peers
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    module, inputs = converted(*network.built(), network.dtype, "cuda")
    if any(isinstance(m, torch.nn.Conv2d) for m in module.modules()):
        module = module.to(memory_format=torch.channels_last)
    call = module
    if MODES[mode] is not None:
        call = torch.compile(module, dynamic=False, **MODES[mode])
    with torch.no_grad():
        call(*inputs)  # compiles: mostly work of the processor
        torch.cuda.synchronize()
        with gpu.shared():
            replay, output = peers.captured(lambda: first_tensor(call(*inputs)))
            replay()
            torch.cuda.synchronize()
    return replay, output


def measure(args, network):
    """The record of one network."""
    import torch

    import peers
    gpu = Gpu(args.records)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    record = {"domain": network.domain, "dtype": network.dtype}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        words, made = export_and_compile(args, network, folder)
        record |= made
        ready = {}
        with gpu.shared():
            wanted = reference(network, "cpu" if network.domain == "sequence" else device)  # cuDNN's recurrent layers fault in f64
        for mode in args.peers:
            try:
                ready[mode] = prepared_peer(network, mode, gpu)
            except Exception as error:  # a mode that cannot do this network is a cell of the table
                record[mode] = {"failed": f"{type(error).__name__}: {str(error).strip()[-300:]}"}
        with gpu.alone():
            for target in args.targets:
                try:
                    record[target] = run_target(args, target, folder / "model.plan", words, folder, wanted)
                except RuntimeError as error:
                    record[target] = {"failed": str(error)}
            if "failed" in str(record.get("graph")):
                return record  # a peer that faulted leaves no device behind
            if device == "cuda":
                record["copy_bytes_per_s"] = copy_rate()
            for mode, (replay, output) in ready.items():
                record[mode] = {**peers.timed(replay, args.repeat), "error": error_of(output.cpu(), wanted)}
    return record


def copy_rate():
    import torch

    import peers
    source = torch.empty(1 << 28, dtype=torch.int32, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / (peers.timed(lambda: target.copy_(source), 10)["gpu_p10_ms"] * 1e-3)


# ---- all of them

def run_alone(args, network):
    """One network in a process of its own, so that one that fails or hangs costs only itself."""
    command = [sys.executable, __file__, *sys.argv[1:], "--alone", network.name]
    begin = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=args.seconds)
        said = done.stderr.strip()[-800:]
    except subprocess.TimeoutExpired:
        said = f"longer than {args.seconds:.0f} s"
    path = args.records / f"{network.name}.json"
    if not path.exists():
        path.write_text(json.dumps({"domain": network.domain, "dtype": network.dtype, "failed": said}) + "\n")
    record = json.loads(path.read_text())
    times = "  ".join(f"{system} {record[system]['gpu_ms']:.3f}" for system in (*args.targets, *args.peers)
                      if "gpu_ms" in record.get(system, {}))
    print(f"{network.name:<36} {times or record.get('failed', 'failed')[-200:]}  ({time.perf_counter() - begin:.0f} s)", flush=True)


def write_record(args, network):
    command = " ".join(["python3 tests/bench/networks.py", *sys.argv[1 : sys.argv.index("--alone")]])
    when = datetime.datetime.now().isoformat(timespec="seconds")
    try:
        record = measure(args, network)
    except Exception as error:
        record = {"domain": network.domain, "dtype": network.dtype, "failed": f"{type(error).__name__}: {str(error).strip()[-600:]}"}
        traceback.print_exc()
    (args.records / f"{network.name}.json").write_text(json.dumps({"when": when, "command": command, **record}, indent=1) + "\n")


# ---- the table

def best_peer(record):
    times = {mode: record[mode]["gpu_ms"] for mode in MODES if "gpu_ms" in record.get(mode, {})}
    return min(times.items(), key=lambda item: item[1]) if times else (None, None)


def limit_ms(record, rates):
    """The larger of the bytes that must be read and the arithmetic, at the rates of a large copy and of a large product."""
    if "copy_bytes_per_s" not in record:
        return None
    moved = (record["weights_bytes"] + record["io_bytes"]) / record["copy_bytes_per_s"]
    return 1e3 * max(moved, record["flops"] / rates[record["dtype"]])


RATES = {"f16": 750e12, "bf16": 780e12, "f32": 52e12}  # flops per second of large products, H200, PyTorch without tf32


def table(records):
    lines = ["| network | CUDA | Vulkan | PyTorch, best | peer / CUDA | Vulkan / CUDA | limit / CUDA | error: CUDA, Vulkan, peer | steps | CUDA's time, us |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    number = lambda value, form="{:.3f}": "-" if value is None else form.format(value)
    for name, record in records.items():
        if "failed" in record:
            lines.append(f"| {name} | failed: {' '.join(record['failed'].split())[-160:]} |" + " |" * 8)
            continue
        cuda = record.get("cuda", {})
        vulkan = next((record[key] for key in record if key.startswith("vulkan")), {})
        mode, peer = best_peer(record)
        a, b = cuda.get("gpu_ms"), vulkan.get("gpu_ms")
        limit = limit_ms(record, RATES)
        errors = ", ".join(number(part.get("error"), "{:.1e}") for part in (cuda, vulkan, record.get(mode, {})))
        top = ", ".join(f"{kernel} {us:.0f}" for kernel, us in (cuda or vulkan).get("top_kernels_us", {}).items())
        lines.append(f"| {name} | {number(a)} | {number(b)} | {number(peer)} ({mode or '-'}) | {number(peer / a if peer and a else None, '{:.2f}')} | "
                     f"{number(b / a if a and b else None, '{:.2f}')} | {number(limit / a if limit and a else None, '{:.2f}')} | {errors} | "
                     f"{(cuda or vulkan).get('steps', '-')} | {top or cuda.get('failed', '')[-120:]} |")
    leads = [best_peer(r)[1] / r["cuda"]["gpu_ms"] for r in records.values()
             if best_peer(r)[1] and "gpu_ms" in r.get("cuda", {})]
    if leads:
        lines += ["", f"peer / CUDA over {len(leads)} networks: geometric mean {statistics.geometric_mean(leads):.2f}, "
                  f"least {min(leads):.2f}, below 1.0: {sum(lead < 1 for lead in leads)}"]
    return lines


def report(args):
    records = {path.stem: json.loads(path.read_text()) for path in sorted(args.records.glob("*.json"))}
    lines = table(records)
    print("\n".join(lines))
    paths = [args.output] if args.output else []
    if args.save:
        device = next((r["cuda"]["device"] for r in records.values() if "device" in r.get("cuda", {})), "device")
        short = next((word for word in ("H200", "H100") if word in str(device)), "device").lower()
        paths.append(pathlib.Path(__file__).parent / "results" / f"{datetime.date.today()}-{short}-networks.md")
    for path in paths:
        path.write_text("\n".join(lines) + "\n")


def main():
    args = parse_arguments()
    if args.report:
        report(args)
        return
    packages.need("numpy", "torch")
    import network_zoo
    chosen = [n for n in network_zoo.NETWORKS if not args.networks or any(n.name.startswith(word) for word in args.networks)]
    if args.list:
        print("\n".join(f"{n.name:<36} {n.domain}" for n in chosen))
        return
    if not chosen:
        sys.exit(f"error: no networks {' '.join(args.networks)}; --list names them")
    args.records.mkdir(parents=True, exist_ok=True)
    if args.alone:
        write_record(args, next(n for n in chosen if n.name == args.alone))
        return
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda network: run_alone(args, network), chosen))
    report(args)


if __name__ == "__main__":
    main()
