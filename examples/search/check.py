#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the search program to onnxruntime and to Hugging Face's tokenizers, and times it beside onnxruntime on the CPU.

    check.py SEARCH RLXC [--precision f16] [--device vulkan] [--target vulkan] [--lines 240] [--time RUNS]

SEARCH is the built program, RLXC the compiler. The text is lines.txt and lines that are hard to tokenise, among them some that
are longer than the plan takes. Every embedding is compared with the one that onnxruntime computes for that sentence alone, without
padding. Bounds: a difference of 1e-5 in f32; a cosine of 0.9999 in f16 and bf16. Needs onnxruntime and, for the token ids,
tokenizers; without onnxruntime it says so and ends with code 3.
"""
import argparse
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

HERE = pathlib.Path(__file__).resolve().parent
WIDTH = 384
MAX_TOKENS = 256
MAX_DIFFERENCE = 1e-5
MIN_COSINE = 0.9999
HARD_LINES = [
    "",
    "   \t ",
    "Ünïcödé ÀÉÎÕŪ naïve café, e\u0301a\u0302 İstanbul ŒUVRE straße ΣΊΣΥΦΟΣ",
    "漢字とかな カタカナ 한국어 中文字符",
    "control\x01cha\x7frs\u200band\u00adsoft\ufeff hyphens \ufffd \u2028 here\u00a0too",
    "don't stop-me: (now) [CLS] [SEP] [MASK] [UNK] ##ing a##b {x} $5 50% #tag a_b ~ ^ ` | <b>",
    "emoji 👍🏽 👩‍👩‍👧 ☕ and ½ ² ™ ﬁ ligatures",
    "supercalifragilisticexpialidocious " + "a" * 100 + " " + "b" * 101 + " " + "é" * 100,
    "العربية עברית हिन्दी ไทย русский язык",
    "the quick brown fox jumps over the lazy dog " * 5,
    "a sentence of some length that fills more than one hundred and twenty eight tokens, " * 7,
    "an endless line that nobody wants to read to its end because it repeats itself " * 40,
]


def tokenizer():
    try:
        from tokenizers import BertWordPieceTokenizer
    except ImportError:
        print("tokens: not compared, Python has no tokenizers")
        return None
    made = BertWordPieceTokenizer(str(HERE / "model/vocab.txt"), lowercase=True)
    made._tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
    return made


def search(arguments, plan, lines, folder, *options):
    """Ids and embeddings of the lines, and what the program printed."""
    (folder / "text").write_bytes("".join(line + "\n" for line in lines).encode())
    output = subprocess.run([arguments.search, plan, folder / "text", "--device", arguments.device,
                             "--tokens", folder / "ids", "--embeddings", folder / "embeddings", *options, "--query", lines[0]],
                            check=True, capture_output=True, text=True).stdout
    ids = [[int(id) for id in line.split()] for line in (folder / "ids").read_text().splitlines()]
    return ids, np.fromfile(folder / "embeddings", np.float32).reshape(len(lines), WIDTH), output


def check_tokens(trusted, lines, ids):
    trusted.enable_truncation(MAX_TOKENS)
    wrong = [line for line, encoded, got in zip(lines, trusted.encode_batch(lines), ids) if encoded.ids != got]
    print(f"tokens: {len(lines)} lines, {len(wrong)} unlike those of tokenizers")
    for line in wrong[:5]:
        print(f"  {line!r}")
    return not wrong


def check_embeddings(session, ids, got, precision):
    wanted = np.concatenate([session.run(None, feeds([sentence]))[0] for sentence in ids])
    difference = np.abs(wanted - got).max()
    norms = np.linalg.norm(wanted, axis=1) * np.linalg.norm(got, axis=1)
    cosine = ((wanted * got).sum(axis=1) / norms).min()
    print(f"embeddings: {len(ids)} lines in {precision}, worst difference {difference:.2e}, least cosine {cosine:.8f}")
    return difference <= MAX_DIFFERENCE if precision == "f32" else cosine > MIN_COSINE


def feeds(sentences):
    shape = (len(sentences), max(map(len, sentences)))
    tokens, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for row, sentence in enumerate(sentences):
        tokens[row, : len(sentence)], mask[row, : len(sentence)] = sentence, 1
    return {"input_ids": tokens, "attention_mask": mask}


def median_seconds(runs, work):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def time_peer(session, ids, runs):
    """Batches of 8 of about one length, each padded to its longest sentence; then one sentence."""
    ordered = sorted(ids, key=len)
    batches = [feeds(ordered[i : i + 8]) for i in range(0, len(ordered), 8)]
    everything = median_seconds(runs, lambda: [session.run(None, batch) for batch in batches])
    single = median_seconds(runs, lambda: session.run(None, feeds(ids[:1])))
    print(f"onnxruntime, CPU: {len(ids) / everything:.1f} lines per second, {single * 1e3:.3f} ms per query (without tokenising)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("search", type=pathlib.Path)
    parser.add_argument("rlxc", type=pathlib.Path)
    parser.add_argument("--precision", default="f32", choices=["f32", "f16", "bf16"])
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--target", default="vulkan")
    parser.add_argument("--lines", type=int, default=240, help="of lines.txt")
    parser.add_argument("--time", type=int, metavar="RUNS")
    arguments = parser.parse_args()
    try:
        import onnxruntime
    except ImportError:
        print("SKIPPED: Python has no onnxruntime")
        sys.exit(3)

    session = onnxruntime.InferenceSession(HERE / "model/model.onnx", providers=["CPUExecutionProvider"])
    plain = (HERE / "lines.txt").read_text().splitlines()[: arguments.lines]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        subprocess.run([arguments.rlxc, HERE / "model/model.onnx", "-o", folder / "plan", "--target", arguments.target,
                        "--precision", arguments.precision, "--dim", "batch=1:32", "--dim", f"seq=1:{MAX_TOKENS}",
                        "--tokenizer", HERE / "model/tokenizer.json"], check=True)
        lines = plain + HARD_LINES
        ids, got, _ = search(arguments, folder / "plan", lines, folder)
        good = check_embeddings(session, ids, got, arguments.precision)
        trusted = tokenizer()
        if trusted:
            good = check_tokens(trusted, lines, ids) and good
        if arguments.time:
            _, _, output = search(arguments, folder / "plan", plain, folder, "--time", str(arguments.time))
            print(*(line for line in output.splitlines() if "lines" in line), sep="\n")
            time_peer(session, ids[: len(plain)], arguments.time)
    sys.exit(0 if good else 4)


if __name__ == "__main__":
    main()
