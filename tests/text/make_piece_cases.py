#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data/pieces.json: ids that Hugging Face's tokenizers of pieces give hard strings. Wants the package tokenizers; tests read only
what is committed. Vocabularies are those of data/scores.json and data/unigram.json.

  tests/text/make_piece_cases.py      writes the file
"""
import json

from hard_texts import texts
from piece_tokenizers import ADDED, DATA, ids_of, is_plain, merges_of, piece_tokenizers, vocabulary

TEXTS = 110
MIXED = ["<|user|>  \n hi<|end|>", "a  <|mid|> b", " <|user|>", "<|mid|><|user|> \t<|mid|>", "x <tool>  y", "<|end|> <|end|>  z", "  lead"]


def main():
    cases = vocabulary("scores")
    ids = {piece: i for i, piece in enumerate(cases["pieces"])}
    shown = MIXED + [text for text in texts() if is_plain(text)][:TEXTS]
    tokenizers = piece_tokenizers()
    files = {
        "merges": [[ids[left], ids[right], ids[left + right]] for left, right in merges_of(cases)],
        "added": [[name, is_control, strip] for name, is_control, strip in ADDED],
        "texts": shown,
        "trusted": {name: ids_of(tokenizer, shown, True) for name, tokenizer in tokenizers.items()},
        "typed": {name: ids_of(tokenizer, shown, False) for name, tokenizer in tokenizers.items()},
    }
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in files.items())
    (DATA / "pieces.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
