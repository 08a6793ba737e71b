#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sentences of any length through an encoder whose batch and length are free, beside buckets: entries of fixed lengths into which
shorter sentences are filled up. Lines per second, by the C library; the model is that of examples/search.

    python3 tests/bench/search_lines.py --build build --model examples/search/model/model.onnx --target cuda --arch sm_90a --prepare DIR
    python3 tests/bench/search_lines.py --build build --plans DIR --device cuda --tokens TOKENS       # measures what was compiled there

TOKENS is what examples/search's program writes with --tokens: the ids of a sentence in each line. Every plan embeds all sentences, in
batches of at most --rows: "free" puts those of one length together and fills none up; "neighbours", the same plan, takes them in the
order of their length and fills them up to the batch's longest; "cut" is "free" with ranges cut at each half. They take turns; per
round one untimed pass comes first, the best of the rounds' medians counts. Embeddings are compared with those of the buckets.
"""
import argparse
import ctypes
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import packages  # noqa: E402

packages.need("numpy")

import numpy as np  # noqa: E402

import bindings  # noqa: E402

WIDTH = 384  # of an embedding
LIMIT = 256  # tokens of a sentence
BUCKETS = (16, 32, 64, 128, LIMIT)
KEPT = 64  # bindings that a session keeps
PLANS = {"free": "free", "neighbours": "free", "cut": "cut", "buckets": "buckets"}  # of each form


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder with bin/rlxc or lib/librlx.so")
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--target", default="vulkan")
    parser.add_argument("--arch")
    parser.add_argument("--prepare", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--plans", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--tokens", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if args.prepare and not args.model or not args.prepare and not (args.plans and args.tokens):
        parser.error("--prepare wants --model, --plans wants --tokens")
    return args


def dims_of(plan, rows):
    """Options of rlxc for it."""
    if plan == "buckets":
        return [word for length in BUCKETS for word in ("--entry", f"of{length}=main:batch={rows},seq={length}")]
    cut = "/2" if plan == "cut" else ""
    return ["--dim", f"batch=1:{rows}{cut}", "--dim", f"seq=1:{LIMIT}{cut}"]


def prepare(args):
    args.prepare.mkdir(parents=True, exist_ok=True)
    for plan in sorted(set(PLANS.values())):
        command = [args.build / "bin/rlxc", args.model, "-o", args.prepare / f"{plan}.plan", "--target", args.target, *dims_of(plan, args.rows)]
        if args.arch:
            command += ["--arch", args.arch]
        subprocess.run(command, check=True)


class Encoder(bindings.Session):
    """Embeds batches by a plan of one form."""

    def __init__(self, library, folder, form, args):
        super().__init__(library, folder / f"{PLANS[form]}.plan", args.device, KEPT)
        self.form, self.rows = form, args.rows

    def batches(self, sentences):
        """(entry, tokens of a row, rows of a run, numbers of sentences), shortest first."""
        sizes = [len(sentence) for sentence in sentences]
        by_length = sorted(range(len(sentences)), key=sizes.__getitem__)
        groups = {}
        for place, number in enumerate(by_length):
            if self.form == "buckets":
                length = next(bucket for bucket in BUCKETS if sizes[number] <= bucket)
            elif self.form == "neighbours":
                length = sizes[by_length[min(place // self.rows * self.rows + self.rows, len(sentences)) - 1]]
            else:
                length = sizes[number]
            groups.setdefault(length, []).append(number)
        for length, numbers in groups.items():
            entry = BUCKETS.index(length) if self.form == "buckets" else 0
            for first in range(0, len(numbers), self.rows):
                part = numbers[first:first + self.rows]
                yield entry, length, self.rows if self.form == "buckets" else len(part), part

    def embed(self, sentences):
        embeddings = np.empty((len(sentences), WIDTH), np.float32)
        for entry, length, rows, numbers in self.batches(sentences):
            ids, mask = np.zeros((rows, length), np.int64), np.zeros((rows, length), np.int64)
            mask[:, 0] = 1  # a row that stands for no sentence has a token too
            for row, number in enumerate(numbers):
                ids[row, :len(sentences[number])] = sentences[number]
                mask[row, :len(sentences[number])] = 1
            self.set_input(entry, b"input_ids", ids)
            self.set_input(entry, b"attention_mask", mask)
            self.check(self.library.rlx_session_run(self.session, entry))
            result = np.empty((rows, WIDTH), np.float32)
            self.check(self.library.rlx_session_read_output(self.session, entry, b"sentence_embedding", result.ctypes.data_as(ctypes.c_void_p),
                                                            ctypes.c_size_t(result.nbytes)))
            embeddings[numbers] = result[:len(numbers)]
        return embeddings

    def set_input(self, entry, name, values):
        dims = (ctypes.c_uint64 * 8)(*values.shape)
        tensor = bindings.Tensor(ctypes.sizeof(bindings.Tensor), values.ctypes.data, values.nbytes, bindings.I64, values.ndim, dims)
        self.check(self.library.rlx_session_set_input(self.session, entry, name, ctypes.byref(tensor)))


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measure(args):
    sentences = [np.array(line.split(), np.int64) for line in args.tokens.read_text().splitlines()]
    library = ctypes.CDLL(str(args.build / "lib/librlx.so"))
    encoders = [Encoder(library, args.plans, form, args) for form in PLANS]
    wanted = encoders[-1].embed(sentences)
    best = {}
    for encoder in encoders * args.rounds:
        farthest = float(np.abs(encoder.embed(sentences) - wanted).max())
        if farthest > 1e-3:
            sys.exit(f"error: embeddings of {encoder.form} are {farthest} off those of buckets")
        taken = statistics.median(seconds(lambda used=encoder: used.embed(sentences)) for _ in range(args.passes))
        best[encoder.form] = min(taken, best.get(encoder.form, taken))
    tokens = sum(map(len, sentences))
    for encoder in encoders:
        runs = list(encoder.batches(sentences))
        filled = sum(length * rows for _, length, rows, _ in runs)
        print(f"{encoder.form:10} {args.device}: {len(sentences) / best[encoder.form]:8.1f} lines/s, {len(runs)} runs of {filled} tokens, "
              f"{tokens} of them sentences'")


def main():
    args = parse_arguments()
    if args.prepare:
        prepare(args)
    if args.plans:
        measure(args)


if __name__ == "__main__":
    main()
