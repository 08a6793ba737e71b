#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data/pieces.json and data/words.json: ids that Hugging Face's tokenizers of pieces, and of BERT's words, give hard strings. Wants
the package tokenizers; tests read only what is committed. Vocabularies of pieces are those of data/scores.json and data/unigram.json.

  tests/text/make_piece_cases.py      writes the files
"""
import json
import unicodedata

from hard_texts import texts
from piece_tokenizers import ADDED, DATA, ids_of, is_plain, merges_of, piece_tokenizers, vocabulary, word_tokenizers

TEXTS = 110
MIXED = ["<|user|>  \n hi<|end|>", "a  <|mid|> b", " <|user|>", "<|mid|><|user|> \t<|mid|>", "x <tool>  y", "<|end|> <|end|>  z", "  lead"]


def word_cases(shown):
    """Half of the characters that stand in the texts are tokens."""
    found = set("".join(shown + [unicodedata.normalize("NFD", text).lower() for text in shown]))
    characters = [c for c in sorted(found) if unicodedata.category(c)[0] not in "CZ"]
    tokenizers = word_tokenizers([c for c in characters if c.isascii() or ord(c) % 2])
    names = next(iter(tokenizers.values())).get_vocab()
    typed = {name: ids_of(tokenizer, shown, False) for name, tokenizer in tokenizers.items()}
    return {
        "tokens": sorted(names, key=names.get),
        "added": [[name, is_control, strip] for name, is_control, strip in ADDED],
        "texts": shown,
        "trusted": {name: ids_of(tokenizer, shown, True) for name, tokenizer in tokenizers.items()},
        "typed": typed,
        "shown": {name: [tokenizer.decode(ids, skip_special_tokens=False) for ids in typed[name]] for name, tokenizer in tokenizers.items()},
    }


def write(name, cases):
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in cases.items())
    (DATA / f"{name}.json").write_text("{\n" + lines + "\n}\n")


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
    write("pieces", files)
    write("words", word_cases(MIXED + texts()[:TEXTS]))


if __name__ == "__main__":
    main()
