#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sentences of any length through an encoder whose batch and length are free, beside buckets: entries of fixed lengths into which
shorter sentences are filled up. Lines per second, by the C library; the model is that of examples/search.

    python3 tests/bench/search_lines.py --build build --model examples/search/model/model.onnx --target cuda --arch sm_90a --prepare DIR
    python3 tests/bench/search_lines.py --build build --plans DIR --device cuda --tokens TOKENS       # measures what was compiled there

TOKENS is what examples/search's program writes with --tokens: the ids of a sentence in each line. Every plan embeds all sentences, in
batches of at most --rows: "free" puts those of one length together and fills none up; "neighbours", the same plan, takes them in the
order of their length as long as no more than an eighth is filled up, to the next of eight lengths up to each power of two, as
examples/search does; "cut" is "free" with ranges cut at each half. --sessions of a plan take turns, so that one is made ready while another runs. The forms take turns too; per round one
untimed pass comes first, the best of the rounds' medians counts. Embeddings are compared with those of the buckets.
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
FILLED = 1 / 8  # of a batch of neighbours at most
KEPT = 64  # bindings that a session keeps
FOREVER = 2**64 - 1
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
    parser.add_argument("--sessions", type=int, default=2)
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


class Lane(bindings.Session):
    """A session that embeds a batch at a time."""

    batch = None  # under way

    def start(self, batch):
        entry, ids, mask, _ = batch
        self.set_input(entry, b"input_ids", ids)
        self.set_input(entry, b"attention_mask", mask)
        self.check(self.library.rlx_session_submit(self.session, entry))
        self.batch = batch

    def set_input(self, entry, name, values):
        dims = (ctypes.c_uint64 * 8)(*values.shape)
        tensor = bindings.Tensor(ctypes.sizeof(bindings.Tensor), values.ctypes.data, values.nbytes, bindings.I64, values.ndim, dims)
        self.check(self.library.rlx_session_set_input(self.session, entry, name, ctypes.byref(tensor)))

    def finish(self, embeddings):
        if self.batch is None:
            return
        entry, ids, _, numbers = self.batch
        self.check(self.library.rlx_session_wait(self.session, ctypes.c_uint64(FOREVER)))
        result = np.empty((len(ids), WIDTH), np.float32)
        self.check(self.library.rlx_session_read_output(self.session, entry, b"sentence_embedding", result.ctypes.data_as(ctypes.c_void_p),
                                                        ctypes.c_size_t(result.nbytes)))
        embeddings[numbers] = result[:len(numbers)]
        self.batch = None


class Encoder:
    """Embeds sentences by a plan of one form: sessions take turns, so that one is made ready while another runs."""

    def __init__(self, library, form, sentences, args):
        self.form, self.rows = form, args.rows
        plan = args.plans / f"{PLANS[form]}.plan"
        self.lanes = [Lane(library, plan, args.device, KEPT)]
        self.lanes += [Lane(library, plan, args.device, KEPT, self.lanes[0]) for _ in range(args.sessions - 1)]
        self.batches = [self.filled(sentences, *batch) for batch in self.grouped([len(sentence) for sentence in sentences])]
        self.embeddings = np.empty((len(sentences), WIDTH), np.float32)

    def grouped(self, sizes):
        """Numbers of the sentences of each batch, with the tokens of a row; the shortest first."""
        batches = []
        for number in np.argsort(sizes, kind="stable"):
            length = sizes[number]
            if self.form == "buckets":
                length = next(bucket for bucket in BUCKETS if length <= bucket)
            if batches and len(batches[-1][0]) < self.rows and self.may_grow(*batches[-1], sizes, length):
                batches[-1] = batches[-1][0] + [number], length
            else:
                batches.append(([number], length))
        return [(numbers, self.length_for(length)) for numbers, length in batches]

    def length_for(self, tokens):
        if self.form != "neighbours":
            return tokens
        step = max(1, 2 ** (int(tokens).bit_length() - 1) // 8)
        return min(-(-tokens // step) * step, LIMIT)

    def may_grow(self, numbers, tokens, sizes, length):
        """Whether a sentence joins a batch whose rows all have that length then."""
        if self.form != "neighbours":
            return length == tokens
        whole = length * (len(numbers) + 1)
        return whole - sum(sizes[number] for number in numbers) - length <= whole * FILLED

    def filled(self, sentences, numbers, tokens):
        """Entry, inputs and numbers of a batch; a fixed entry runs all of its rows."""
        is_bucket = self.form == "buckets"
        rows = self.rows if is_bucket else len(numbers)
        ids, mask = np.zeros((rows, tokens), np.int64), np.zeros((rows, tokens), np.int64)
        mask[:, 0] = 1  # a row that stands for no sentence has a token too
        for row, number in enumerate(numbers):
            ids[row, :len(sentences[number])] = sentences[number]
            mask[row, :len(sentences[number])] = 1
        return BUCKETS.index(tokens) if is_bucket else 0, ids, mask, numbers

    def embed(self):
        for turn, batch in enumerate(self.batches):
            lane = self.lanes[turn % len(self.lanes)]
            lane.finish(self.embeddings)
            lane.start(batch)
        for lane in self.lanes:
            lane.finish(self.embeddings)
        return self.embeddings


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measure(args):
    sentences = [np.array(line.split(), np.int64) for line in args.tokens.read_text().splitlines()]
    library = ctypes.CDLL(str(args.build / "lib/librlx.so"))
    encoders = [Encoder(library, form, sentences, args) for form in PLANS]
    wanted = encoders[-1].embed()
    best = {}
    for encoder in encoders * args.rounds:
        farthest = float(np.abs(encoder.embed() - wanted).max())
        if farthest > 1e-3:
            sys.exit(f"error: embeddings of {encoder.form} are {farthest} off those of buckets")
        taken = statistics.median(seconds(encoder.embed) for _ in range(args.passes))
        best[encoder.form] = min(taken, best.get(encoder.form, taken))
    tokens = sum(map(len, sentences))
    for encoder in encoders:
        filled = sum(ids.size for _, ids, _, _ in encoder.batches)
        print(f"{encoder.form:10} {args.device}: {len(sentences) / best[encoder.form]:8.1f} lines/s, {len(encoder.batches)} runs of {filled} tokens, "
              f"{tokens} of them sentences'")


def main():
    args = parse_arguments()
    if args.prepare:
        prepare(args)
    if args.plans:
        measure(args)


if __name__ == "__main__":
    main()
