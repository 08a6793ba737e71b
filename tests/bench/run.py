#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmark workloads (models.py) with rlx and with PyTorch on one GPU machine, checks the outputs of both against the
same network in f64, and writes the table.

    python3 tests/bench/run.py --build build                                # everything, all workloads
    python3 tests/bench/run.py --build build minilm-f16 --peers eager,graph --targets vulkan
    python3 tests/bench/run.py --records records --report                    # the table of what was recorded before

Every measurement becomes a file RECORDS/WORKLOAD.SYSTEM.json; the table is made of all that are there, so that a long run can
be done in parts (torch.compile takes up to minutes for a workload). The file's `when` and `commands` tell the parts apart.
"""
import argparse
import datetime
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import packages  # noqa: E402

packages.need("numpy")
import numpy as np  # noqa: E402

import models  # noqa: E402
import report  # noqa: E402
from generator import from_bf16_bits  # noqa: E402

TARGETS = ("cuda", "vulkan")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="of: " + " ".join(w.name for w in models.WORKLOADS))
    parser.add_argument("--build", type=pathlib.Path, help="build folder whose bin/ holds rlxc and rlxrun")
    parser.add_argument("--plans", type=pathlib.Path, help="folder of ready-made WORKLOAD.plan files, instead of compiling")
    parser.add_argument("--targets", default=",".join(TARGETS),
                        help="of cuda and vulkan (or a profile of it: vulkan-nvidia); none: PyTorch alone")
    parser.add_argument("--arch", help="rlxc --arch: CUDA architectures to compile for, instead of all")
    parser.add_argument("--precision", action="store_true",
                        help="rlxc --precision on the f32 graph, instead of a graph in the workload's dtype")
    parser.add_argument("--tune", action="store_true", help="rlxrun --tune before the CUDA runs")
    parser.add_argument("--peers", default="eager,graph,compile", help="of eager,graph,compile; none: rlx alone, outputs unchecked")
    parser.add_argument("--repeat", type=int, help="timed runs of rlx; 200 for short workloads, 50 for long ones unless given")
    parser.add_argument("--records", type=pathlib.Path, default=pathlib.Path("bench-records"))
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--output", type=pathlib.Path, help="file for the table; results/DATE-DEVICE.md beside this script: --save")
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()
    args.targets = [name for name in args.targets.split(",") if name != "none"]
    args.peers = [name for name in args.peers.split(",") if name != "none"]
    if args.targets and not args.report and args.build is None:
        parser.error("--build is needed to run rlx; --targets none leaves it out")
    if args.peers and not args.report:
        packages.need("numpy", "torch")  # --peers none needs no torch
    return args


def repeats(args, graph):
    return args.repeat or (200 if graph.flops < 50e9 else 50)


def warmups(args, graph):
    return min(20, repeats(args, graph) // 4)


class Recorder:
    """Writes what was measured; a measurement that fails is told and recorded as such, and the others go on."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, workload, system, content):
        command = " ".join(["python3 tests/bench/run.py", *sys.argv[1:]])
        content = {"when": datetime.datetime.now().isoformat(timespec="seconds"), "command": command, **content}
        (self.folder / f"{workload}.{system}.json").write_text(json.dumps(content, indent=1) + "\n")

    def attempt(self, workload, system, function):
        begin = time.perf_counter()
        try:
            content = function()
        except Exception as error:  # a peer or target that cannot do this workload is a row of the table
            content = {"failed": f"{type(error).__name__}: {str(error).strip()[-600:]}"}
        self.write(workload, system, content)
        told = content.get("failed") or f"{content.get('gpu_ms', float('nan')):.4f} ms"
        print(f"{workload:<22} {system:<8} {told}  ({time.perf_counter() - begin:.1f} s)", flush=True)


def checked_output(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout


def compile_plan(args, workload, graph, folder):
    """The plan's path, and how long rlxc took without and with the kernels in its cache."""
    plan = folder / f"{workload.name}.plan"
    if args.plans:
        shutil.copyfile(args.plans / plan.name, plan)  # tuning writes into it
        return plan, {"plan_bytes": plan.stat().st_size}
    command = [args.build / "bin/rlxc", folder / f"{graph.name}.json", "-o", plan, "--target", ",".join(args.targets), "--json",
               "--cache", folder / f"cache-{workload.name}"]
    if args.arch:
        command += ["--arch", args.arch]
    if args.precision and workload.dtype != "f32":
        command += ["--precision", workload.dtype]
    record = {}
    for kind in ("cold", "warm"):
        record[f"{kind}_s"], summary = process(command)
    return plan, {**summary, **record}


def read_output(path, dtype):
    values = np.load(path)
    return from_bf16_bits(values) if dtype == "bf16" else values.astype(np.float32)


def run_rlx(args, graph, plan, target, folder, wanted):
    """Times of one target, and its output's error against `wanted`."""
    outputs = folder / f"outputs-{target}"
    inputs = [f"{name}={folder}/{graph.name}.{name}.npy" for name in graph.inputs]
    command = [args.build / "bin/rlxrun", plan, "--device", f"{target}:0", "--inputs", *inputs, "--json"]
    record = {}
    if args.tune and target == "cuda":
        record["tune_s"], _ = process(command + ["--tune"])
    record["first_output_s"], _ = process(command)
    _, full = process(command + ["--outputs", outputs, "--warmup", warmups(args, graph), "--repeat", repeats(args, graph), "--profile"])
    timing = full["timing"]
    record |= {"gpu_ms": timing["device_us"]["median"] / 1e3, "wall_ms": timing["wall_us"]["median"] / 1e3,
               "load_ms": sum(timing[part] for part in ("open_ms", "load_ms", "prepare_ms", "first_run_ms")),
               "kernels": by_kernel(full["profile"]), "report": full}
    if wanted is not None:
        import torch

        import peers
        (name,) = graph.outputs
        got = torch.from_numpy(read_output(outputs / f"{name}.npy", full["outputs"][0]["dtype"])).cuda()
        record["error"] = peers.error(got.reshape(wanted.shape), wanted)
    return record


def process(command):
    """Seconds from start to end of a process, and the JSON that it printed."""
    begin = time.perf_counter()
    text = checked_output(command)
    return time.perf_counter() - begin, json.loads(text)


def by_kernel(profile):
    """kernel -> steps and microseconds, run one after another, largest first."""
    kernels = {}
    for step in profile:
        kernel = kernels.setdefault(step["kernel"], {"steps": 0, "us": 0.0})
        kernel["steps"] += 1
        kernel["us"] += step["us"]
    return dict(sorted(kernels.items(), key=lambda item: -item[1]["us"]))


def measure_workload(args, workload, recorder, folder):
    graph = workload.graph()
    told = {"flops": graph.flops, "bytes": graph.bytes}
    recorder.write(workload.name, "work", told)
    wanted = None
    if args.peers:
        import peers

        wanted = peers.reference(workload, graph)
        for mode in args.peers:
            recorder.attempt(workload.name, mode, lambda: peers.measure(workload, graph, mode, wanted))
            peers.release()
    if not args.targets:
        return
    rlx_graph = workload.network.graph(workload.name, "f32") if args.precision else graph
    rlx_graph.write(folder)
    try:
        plan, record = compile_plan(args, workload, rlx_graph, folder)
    except (RuntimeError, OSError) as error:
        record = {"failed": str(error)[-600:]}
    recorder.write(workload.name, "plan", record)
    if "failed" in record:
        print(f"{workload.name:<22} plan     {record['failed']}", flush=True)
        return
    for target in (name.split("-")[0] for name in args.targets):
        recorder.attempt(workload.name, target, lambda: run_rlx(args, rlx_graph, plan, target, folder, wanted))


def machine():
    """What the figures depend on besides the code."""
    facts = {}
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        facts["device"], facts["driver"] = checked_output(query).splitlines()[0].split(", ")
    except (RuntimeError, OSError, ValueError):
        facts["device"] = "unknown device"
    try:
        import torch

        facts["torch"] = torch.__version__
        facts["cudnn"] = torch.backends.cudnn.version()
    except ImportError:
        pass
    return facts


def measure_all(args, recorder):
    if args.peers:
        import peers

        recorder.attempt("machine", "ceilings", peers.ceilings)
    recorder.write("machine", "facts", machine())
    for workload in models.find(args.workloads):
        with tempfile.TemporaryDirectory() as folder:
            measure_workload(args, workload, recorder, pathlib.Path(folder))


def main():
    args = parse_arguments()
    if not args.report:
        measure_all(args, Recorder(args.records))
    records = report.load(args.records)
    text = report.table(records)
    print(text)
    output = args.output
    if args.save:
        facts = records[("machine", "facts")]
        device = facts["device"].lower().replace("nvidia ", "").replace(" ", "-")
        output = pathlib.Path(__file__).parent / "results" / f"{facts['when'][:10]}-{device}.md"
    if output:
        output.write_text(text)


if __name__ == "__main__":
    main()
