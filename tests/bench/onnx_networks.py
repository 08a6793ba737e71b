#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles, checks and times ONNX's nine light networks (backend/test/data/light of the package onnx; their weights are
ConstantOfShape, so the files are small), with onnxruntime's CPU provider beside them where it is installed, and prints a table.

    python3 tests/bench/onnx_networks.py --build build --models LIGHT
    python3 tests/bench/onnx_networks.py --build build --models LIGHT --targets vulkan,cuda --arch sm_90a --output table.md

The input is a ramp from 0 to 1, which is what the expected outputs were computed from: STEM_output_0.npy beside the model, or
STEM_output_0.pb where the package onnx is there to read it. An output that is wrong fails the run. Rounds of rlxrun and of
onnxruntime alternate, and the fastest round's median counts, so that a machine's other load falls on both alike.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import packages  # noqa: E402

packages.need("numpy")
import numpy as np  # noqa: E402

MIB = 1 << 20
RTOL, ATOL = 1e-3, 1e-7  # those of ONNX's own tests, but for
RTOL_OF = {"light_densenet121": 2e-3}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="stems of files, as light_resnet50 (default: all)")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder whose bin/ holds rlxc and rlxrun")
    parser.add_argument("--models", type=pathlib.Path, required=True, help="folder of the .onnx files and their outputs")
    parser.add_argument("--targets", default="vulkan", help="of vulkan, vulkan-nvidia and cuda, as vulkan,cuda")
    parser.add_argument("--arch", help="rlxc --arch: CUDA architectures to compile for, instead of all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=5, help="timed runs of a round")
    parser.add_argument("--no-peer", action="store_true", help="leave onnxruntime out")
    parser.add_argument("--output", type=pathlib.Path, help="file for the table, which is printed in any case")
    return parser.parse_args()


def expected_output(stem):
    """The network's output for the ramp, as an array."""
    ready = stem.with_name(stem.name + "_output_0.npy")
    if ready.exists():
        return np.load(ready)
    import onnx
    import onnx.numpy_helper
    return onnx.numpy_helper.to_array(onnx.load_tensor(str(stem.with_name(stem.name + "_output_0.pb"))))


def run_json(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(str(word) for word in command)}: exit {done.returncode}\n{done.stderr}{done.stdout[-500:]}")
    return json.loads(done.stdout)


class Peer:
    """onnxruntime's CPU provider with all of its optimisations and as many threads as there are cores."""

    def __init__(self, model, ramp_of):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # these files list their weights as inputs too, which it warns of
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.feeds = {value.name: ramp_of(value.shape) for value in self.session.get_inputs()}
        self.session.run(None, self.feeds)

    def median_ms(self, repeat):
        times = []
        for _ in range(repeat):
            start = time.perf_counter()
            self.session.run(None, self.feeds)
            times.append(1e3 * (time.perf_counter() - start))
        return statistics.median(times)


def ramp(shape):
    count = int(np.prod(shape))
    return (np.arange(count, dtype=np.float64) / count).astype(np.float32).reshape(shape)


def measure(args, model, target, peer, folder):
    """One row of the table: the network compiled for one target and run there, and the peer in the same rounds."""
    stem = model.with_suffix("")
    plan = folder / f"{stem.name}.{target}.plan"
    architecture = ["--arch", args.arch] if args.arch and target == "cuda" else []
    built = run_json([args.build / "bin/rlxc", model, "-o", plan, "--target", target, "--no-cache", "--json", *architecture])
    memory = run_json([args.build / "bin/rlxc", "inspect", plan, "--memory", "--json"])
    values = {value["name"]: value["type"] for value in memory["entries"][0]["values"] if value["segment"] == "io"}
    inputs = []
    for name, kind in values.items():
        if kind == "f32[1,3,224,224]":
            np.save(folder / "input.npy", ramp((1, 3, 224, 224)))
            inputs.append(f"{name}={folder / 'input.npy'}")
    if len(inputs) != 1:
        sys.exit(f"error: {model}: wanted one input f32[1,3,224,224], got {values}")
    np.save(folder / "expected.npy", expected_output(stem))
    device = target.split("-")[0]
    command = [args.build / "bin/rlxrun", plan, "--device", device, "--inputs", *inputs, "--json", "--warmup", 1,
               "--repeat", args.repeat]
    check = ["--expected", folder / "expected.npy", "--rtol", RTOL_OF.get(stem.name, RTOL), "--atol", ATOL]
    run_json(command + check)
    device_ms, wall_ms, peer_ms = [], [], []
    for _ in range(args.rounds):
        ran = run_json(command)
        device_ms.append(ran["timing"]["device_us"]["median"] / 1e3)
        wall_ms.append(ran["timing"]["wall_us"]["median"] / 1e3)
        if peer:
            peer_ms.append(peer.median_ms(args.repeat))
    return {"network": stem.name.removeprefix("light_"), "target": target, "compile_s": built["seconds"],
            "plan": built["plan_bytes"] / MIB, "arena": built["arena_bytes"] / MIB,
            "ratio": built["arena_bytes"] / max(built["arena_lower_bound_bytes"], 1), "steps": built["steps"],
            "first_ms": ran["timing"]["load_ms"] + ran["timing"]["first_run_ms"], "device_ms": min(device_ms),
            "wall_ms": min(wall_ms), "peer_ms": min(peer_ms) if peer_ms else None, "device": ran["device"]}


def table(rows):
    has_peer = any(row["peer_ms"] is not None for row in rows)
    lines = ["| network | target | compile, s | plan, MiB | arena, MiB | / lower bound | steps | load and first run, ms | "
             "device, ms | wall, ms |" + (" onnxruntime CPU, ms |" if has_peer else ""),
             "|" + "---|" * (10 + has_peer)]
    for row in rows:
        peer = "" if not has_peer else f" {row['peer_ms']:.1f} |" if row["peer_ms"] is not None else " - |"
        lines.append(f"| {row['network']} | {row['target']} | {row['compile_s']:.2f} | {row['plan']:.2f} | {row['arena']:.2f} | "
                     f"{row['ratio']:.3f} | {row['steps']} | {row['first_ms']:.0f} | {row['device_ms']:.3f} | "
                     f"{row['wall_ms']:.3f} |{peer}")
    return lines


def main():
    args = parse_arguments()
    models = sorted(path for path in args.models.glob("*.onnx") if not args.networks or path.stem in args.networks)
    if not models:
        sys.exit(f"error: no networks {' '.join(args.networks)} under {args.models}")
    if not all(model.with_name(model.stem + "_output_0.npy").exists() for model in models):
        packages.need("numpy", "onnx")
    has_peer = not args.no_peer
    if has_peer:
        try:
            import onnxruntime  # noqa: F401
        except ImportError:
            has_peer = False
            print("onnxruntime is not installed: its column is left out", file=sys.stderr)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            peer = Peer(model, ramp) if has_peer else None
            for target in args.targets.split(","):
                rows.append(measure(args, model, target, peer, pathlib.Path(folder)))
                print(f"{rows[-1]['network']} {target}: right, {rows[-1]['device_ms']:.3f} ms", file=sys.stderr)
    devices = dict.fromkeys(f"{row['target']}: {row['device']['name']}, {row['device']['driver']}" for row in rows)
    lines = [*devices, "", *table(rows)]
    print("\n".join(lines))
    if args.output:
        args.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
