#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Language models of GGUF files and checkpoints: for each architecture a small seeded one, whose logits NumPy computes in f64, on the
reference evaluator: a prompt as one chunk with padding. Those of ON_DEVICE, or those named, are compiled too and run on the Vulkan device
that is there, with a token by decode over the caches that the prompt left.

    python3 tests/gguf/gguf_test.py BUILD_BIN [MODEL ... | all]

Exits 77, which counts as skipped, where NumPy or a device is missing.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/gguf")]
import packages  # noqa: E402

packages.need("numpy")
import checkpoint  # noqa: E402
import decoders  # noqa: E402
import gguf_file  # noqa: E402
import numpy as np  # noqa: E402

SKIPPED = 77
ON_DEVICE = ("gemma3", "gpt-oss", "checkpoint qwen2")
CHECKPOINTS = tuple(f"checkpoint {name}" for name in checkpoint.MODELS)
TOKENS = 13  # of the prompt: the rest of the chunk is padding


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if "mesa-vulkan-drivers" in done.stderr:
        print("SKIPPED: no Vulkan device")
        sys.exit(SKIPPED)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr


def within(got, want):
    """The largest share of the bound of norms (ops.md 0.5) that an error takes."""
    bound = 1e-5 * np.abs(want).max() + 1e-6 + 2e-5 * np.abs(want)
    return (np.abs(got - want) / bound).max()


class Plan:
    def __init__(self, rlxrun, path, folder):
        self.rlxrun, self.path, self.folder = rlxrun, path, folder

    def run(self, entry, ids, position, count, states, kept=()):
        """Logits and the best token of the last of `count` ids. States are read from `states` and left in `kept`, names to files."""
        np.savez(self.folder / "in.npz", **inputs_of(ids, position, count))
        command = [self.rlxrun, self.path, "--entry", entry, "--device", "vulkan", "--inputs", self.folder / "in.npz", "-o", self.folder]
        command += [part for name, file in states.items() for part in ("--state", f"{name}={file}")]
        command += [part for name, file in dict(kept).items() for part in ("--dump-state", f"{name}={file}")]
        run(command)
        return np.load(self.folder / "logits.npy")[0].astype(np.float64), int(np.load(self.folder / "next.npy")[0])


def inputs_of(ids, position, count):
    return {"ids": np.array([ids], np.int32), "position": np.int32(position), "count": np.int32(count),
            "last": np.array([count - 1], np.int32)}


def write_gguf(name, folder):
    model = decoders.model_of(name)
    tensors, values = decoders.seeded_tensors(model, seed=len(name))
    gguf_file.write(folder / "model.gguf", decoders.keys_of(model), tensors, version=3 if len(name) % 2 else 2)
    return model, values, folder / "model.gguf"


def write_checkpoint(name, folder):
    """Of one or two shards, the types of all tensors in turn."""
    source = folder / name
    source.mkdir()
    arch = name.split()[1]
    values = checkpoint.write(source, arch, len(name), ["F32", "BF16", "F16"], shards=2 if arch == "qwen3" else 1)
    return checkpoint.model_of(arch), values, source


def check(name, build_bin, folder, on_device):
    model, values, source = (write_checkpoint if name in CHECKPOINTS else write_gguf)(name, folder)
    ids = np.random.default_rng(5).integers(0, decoders.VOCABULARY, TOKENS + 1)
    want = decoders.logits_of(model, values, ids)
    prompt = np.append(ids[:TOKENS], np.zeros(decoders.CHUNK - TOKENS, np.int64))
    sizes = ["--ctx", decoders.CONTEXT, "--chunks", f"1,{decoders.CHUNK}"]
    np.savez(folder / "in.npz", **inputs_of(prompt, 0, TOKENS))
    run([build_bin / "rlxc", "reference", source, *sizes, "--entry", f"prefill_{decoders.CHUNK}", "--inputs", folder / "in.npz",
         "--outputs", folder, "--float64"])
    shares = [within(np.load(folder / "logits.npy")[0], want[TOKENS - 1])]
    if on_device:
        shares += device_shares(build_bin, folder, model, ids, prompt, want, [source, *sizes])
        check_steps(build_bin, folder / "model.plan", ids)
        if name not in CHECKPOINTS:
            check_default(build_bin, folder, prompt, want, [source, *sizes])
    good = max(shares) <= 1
    print(f"{name}: {', '.join(f'{share:.3f}' for share in shares)} of the bound{'' if good else '   WRONG'}")
    return good


def device_shares(build_bin, folder, model, ids, prompt, want, compiled):
    """Of the prompt and of the token behind it."""
    plan = Plan(build_bin / "rlxrun", folder / "model.plan", folder)
    run([build_bin / "rlxc", *compiled, "-o", plan.path, "--target", "vulkan", "--precision", "f32", "-q"])
    states = {f"blk.{i}.{part}_cache": folder / f"{i}{part}.npy" for i in range(model["layers"]) for part in "kv"}
    first, best = plan.run(f"prefill_{decoders.CHUNK}", prompt, 0, TOKENS, {}, states)
    second, _ = plan.run("decode", ids[TOKENS:], TOKENS, 1, states)
    if best != int(first.argmax()):
        sys.exit(f"next is {best}, the largest logit that of {first.argmax()}")
    return [within(first, want[TOKENS - 1]), within(second, want[TOKENS])]


def check_steps(build_bin, plan, ids):
    """Tokens that the device takes from the run before are those that the host hands from run to run."""
    command = [build_bin / "rlxrun", plan, "--device", "vulkan", "--prompt-ids", ",".join(map(str, ids)), "-n", "11", "--temperature", "0",
               "--json"]
    replies = []
    for way in ("--no-check-indices", "--check-indices"):
        done = subprocess.run([str(part) for part in [*command, way]], capture_output=True, text=True, check=True)
        replies.append(json.loads(done.stdout)["turns"][0]["ids"])
    if replies[0] != replies[1] or len(replies[0]) != 11:
        sys.exit(f"steps on the device chose {replies[0]}, the host {replies[1]}")


def check_default(build_bin, folder, prompt, want, compiled):
    """Without --precision a GGUF file is mixed: f16 caches move its logits a little."""
    plan = Plan(build_bin / "rlxrun", folder / "mixed.plan", folder)
    run([build_bin / "rlxc", *compiled, "-o", plan.path, "--target", "vulkan", "-q"])
    logits, _ = plan.run(f"prefill_{decoders.CHUNK}", prompt, 0, TOKENS, {})
    error = np.abs(logits - want[TOKENS - 1]).max() / np.abs(want[TOKENS - 1]).max()
    if not 1e-6 < error < 5e-3:
        sys.exit(f"mixed: logits are off by {error:.1e} of the largest, wanted some, and at most 5e-3")


def main():
    build_bin = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        names = (*decoders.MODELS, *CHECKPOINTS)
        chosen = names if sys.argv[2:] == ["all"] else sys.argv[2:] or ON_DEVICE
        failed = [name for name in names if not check(name, build_bin, pathlib.Path(scratch), name in chosen)]
    print(f"{len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
