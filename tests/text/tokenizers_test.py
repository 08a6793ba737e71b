#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints whose tokenizer.json Hugging Face's package wrote: `rlxc` must give its ids for random Unicode strings, from trusted text and
from typed, of BERT's also with what stands around a text, and the text that the package makes of ids.

    python3 tests/text/tokenizers_test.py BUILD_BIN [--count 10000] [NAME ...]

Exits 77, which counts as skipped, where the package tokenizers is missing.
"""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unicodedata

try:
    import tokenizers  # noqa: F401
except ImportError:
    print("SKIPPED: no package tokenizers")
    sys.exit(77)
import hard_texts
import piece_tokenizers

WIDTH = 8
IGNORING = {"Llama3": True, "Tekken": True}  # families that ignore merges
BYTE_FAMILIES = ("Llama3", "Gpt4o", "Tekken", "DeepSeek3")


def all_tokenizers():
    merges = piece_tokenizers.vocabulary("byte_pairs")["merges"]
    made = piece_tokenizers.piece_tokenizers()
    # Characters of the first blocks; of others, words are unknown.
    made.update(piece_tokenizers.word_tokenizers([chr(code) for code in range(33, 0x3100) if unicodedata.category(chr(code))[0] not in "CZ"]))
    for name in BYTE_FAMILIES:
        patterns = hard_texts.FAMILIES[name]
        made[name] = piece_tokenizers.byte_tokenizer(patterns, IGNORING.get(name, False), merges, hard_texts.byte_alphabet())
    return made


def write_checkpoint(folder, tokenizer):
    """A model of zeros around the tokenizer."""
    rows = tokenizer.get_vocab_size()
    layer, square = "model.layers.0.", [WIDTH, WIDTH]
    shapes = {"model.embed_tokens.weight": [rows, WIDTH], "lm_head.weight": [rows, WIDTH], "model.norm.weight": [WIDTH]}
    shapes.update({f"{layer}{norm}.weight": [WIDTH] for norm in ("input_layernorm", "post_attention_layernorm")})
    shapes.update({f"{layer}self_attn.{part}_proj.weight": square for part in "qkvo"})
    shapes.update({f"{layer}mlp.{part}_proj.weight": square for part in ("gate", "up", "down")})
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 4 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))
    config = {"model_type": "llama", "hidden_size": WIDTH, "num_attention_heads": 1, "num_hidden_layers": 1, "max_position_embeddings": 16,
              "rms_norm_eps": 1e-5}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(tokenizer.to_str())


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0 or "is not read" in done.stderr:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def check_shown(name, tokenizer, rlxc, ids_of_texts, shows_control, folder):
    """Texts of some hundred ids each, which streams show token by token."""
    wrong = 0
    for begin in range(0, len(ids_of_texts), 200):
        ids = sum(ids_of_texts[begin:begin + 200], [])
        want = tokenizer.decode(ids, skip_special_tokens=not shows_control)
        flags = ["--special"] if shows_control else []
        got = json.loads(run([rlxc, "tokenize", folder / "text.plan", "--ids", ",".join(map(str, ids)), "--json", *flags]))["text"]
        if got != want:
            wrong += 1
            place = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
            near = slice(max(place - 30, 0), place + 30)
            print(f"{name}: shown {got[near]!r}, wanted {want[near]!r}")
    return wrong


def check(name, tokenizer, rlxc, texts, folder):
    write_checkpoint(folder, tokenizer)
    if name == "unigram":
        texts = [text for text in texts if piece_tokenizers.is_plain(text)]
    run([rlxc, folder, "-o", folder / "text.plan", "--target", "vulkan", "--ctx", 16, "--chunks", 1, "-q"])
    (folder / "texts.json").write_text(json.dumps(texts))
    has_words = name in piece_tokenizers.WORD_RULES
    wrong = 0
    for is_trusted in (True, False):
        wanted = piece_tokenizers.ids_of(tokenizer, texts, is_trusted, adds_frame=has_words)
        if has_words:
            wrong += check_shown(name, tokenizer, rlxc, wanted, is_trusted, folder)
        flags = (["--special"] if is_trusted else []) + (["--add-special"] if has_words else [])
        lines = run([rlxc, "tokenize", folder / "text.plan", "--texts", folder / "texts.json", *flags])
        for text, want, line in zip(texts, wanted, lines.splitlines(), strict=True):
            if json.loads(line) == want:
                continue
            wrong += 1
            if wrong <= 3:
                print(f"{name}: {text!r}: got {line}, wanted {want}")
    print(f"{name}: {len(texts)} texts, trusted and typed: {wrong} differ")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build_bin", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--count", type=int, default=1000)
    arguments = parser.parse_intermixed_args()
    texts = hard_texts.texts(arguments.count)
    # Some with added tokens among them.
    for i, (name, _, _) in zip(range(0, len(texts), 7), piece_tokenizers.ADDED * len(texts)):
        half = len(texts[i]) // 2
        texts[i] = texts[i][:half] + name + texts[i][half:]
    rlxc = arguments.build_bin.resolve() / "rlxc"
    wrong = 0
    for name, tokenizer in all_tokenizers().items():
        if arguments.names and name not in arguments.names:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            wrong += check(name, tokenizer, rlxc, texts, pathlib.Path(scratch))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
