#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data/*.json: small vocabularies trained on this project's own pages, and the ids that other tokenizers give
for hard strings. Wants the packages tokenizers and sentencepiece; tests read only what is committed.

  tests/text/make_cases.py            writes the files
"""
import base64
import io
import json
import pathlib
import re

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from hard_texts import FAMILIES, byte_alphabet, texts

HERE = pathlib.Path(__file__).resolve().parent
PAGES = sorted(HERE.parent.parent.glob("**/README.md"))
TRAINING = "\n".join(re.findall(r"[A-Za-z][^\n|`]{40,}", "\n".join(page.read_text() for page in PAGES)))[:40000] + """
Füße und Größe, naïve café, señor mañana; l'été, où, ça. Привет, мир: как дела? Γειά σου κόσμε. 東京の天気は晴れです。
日本語の文章を書きます。 你好，世界。 今天天气很好。 안녕하세요 세계. مرحبا بالعالم. नमस्ते दुनिया. I'm, you're, they've, he'll, she'd, it's, don't.
"""
MERGES = 300

SPECIALS = {"Control": ["<|begin|>", "<|end|>", "<|end|>x"], "UserDefined": ["<tool>", "<|end", "  \n"]}

def train_merges():
    """Pairs of ids: token b < 256 is byte b, token 256 + i what merge i makes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=256 + MERGES, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([TRAINING], trainer)
    ids = {character: byte for byte, character in byte_alphabet().items()}
    pairs = []
    for left, right in json.loads(tokenizer.to_str())["model"]["merges"]:
        pairs.append([ids[left], ids[right]])
        ids[left + right] = 255 + len(pairs)
    return pairs, ids


def bpe(ids, pairs, patterns, added, ignore_merges=False, nfc=False):
    names = {number: name for name, number in ids.items()}
    tokenizer = Tokenizer(models.BPE(ids, [(names[left], names[right]) for left, right in pairs], ignore_merges=ignore_merges))
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    # Ids of added tokens follow in this order, whichever are added.
    tokenizer.add_tokens([AddedToken(name, normalized=False) for name in added])
    return tokenizer


def byte_pairs_cases():
    pairs, ids = train_merges()
    specials = SPECIALS["Control"] + SPECIALS["UserDefined"]
    all_texts = texts()
    number = {name: 256 + MERGES + i for i, name in enumerate(specials)}

    def encode(tokenizer, text):
        found = tokenizer.encode(text, add_special_tokens=False)
        return [number.get(tokenizer.id_to_token(id), id) for id in found.ids]

    def all_ids(patterns, added=(), **options):
        tokenizer = bpe(ids, pairs, patterns, added, **options)
        return [encode(tokenizer, text) for text in all_texts]

    return {
        "merges": pairs,
        "control": SPECIALS["Control"],
        "user_defined": SPECIALS["UserDefined"],
        "texts": all_texts,
        # Without special tokens.
        "families": {name: all_ids(patterns) for name, patterns in FAMILIES.items()},
        "nfc": all_ids(FAMILIES["Qwen2"], nfc=True),
        "ignore_merges": all_ids(FAMILIES["Llama3"], ignore_merges=True),
        "trusted": all_ids(FAMILIES["Llama3"], specials),
        "typed": all_ids(FAMILIES["Llama3"], SPECIALS["UserDefined"]),
    }


def pieces_of(model):
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    return {
        "pieces": [piece.piece for piece in proto.pieces],
        "scores": [piece.score for piece in proto.pieces],
        "types": [piece.type for piece in proto.pieces],  # 1 normal, 2 unknown, 3 control, 6 byte
        "charsmap": base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode(),
        "add_space_prefix": proto.normalizer_spec.add_dummy_prefix,
        "remove_extra_spaces": proto.normalizer_spec.remove_extra_whitespaces,
    }


def train_pieces(**options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TRAINING.split("\n")), model_writer=model, minloglevel=2, num_threads=1,
                                             **options)
    return model.getvalue()


def sentencepiece_cases(model, shown):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    # sentencepiece ends texts at a zero.
    return {**pieces_of(model), "texts": shown, "ids": [processor.encode(text) for text in shown]}


def main():
    (HERE / "data").mkdir(exist_ok=True)
    shown = [text for text in texts() if "\0" not in text]
    # What the unigram model replaces: a full charsmap would be larger than all else here.
    rules = {"\u00a0": " ", "\u3000": " ", "\n": " ", "\r": " ", "\t": " ", "\ufb01": "fi", "½": "1/2", "e\u0301": "é", "①": "1", "\u200b": "",
             "A\u030a": "Å", "！": "!"}
    rule_file = HERE / "data" / "rules.tsv"
    rule_file.write_text("".join(f"{' '.join(f'{ord(c):X}' for c in key)}\t{' '.join(f'{ord(c):X}' for c in value)}\n" for key, value in rules.items()))
    files = {
        "byte_pairs": byte_pairs_cases(),
        "scores": sentencepiece_cases(train_pieces(model_type="bpe", vocab_size=700, byte_fallback=True, normalization_rule_name="identity",
                                                   remove_extra_whitespaces=False, character_coverage=0.98), shown),
        "unigram": sentencepiece_cases(train_pieces(model_type="unigram", vocab_size=400, normalization_rule_tsv=str(rule_file),
                                                    character_coverage=0.98), shown),
    }
    rule_file.unlink()
    for name, content in files.items():
        lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=True, separators=(',', ':'))}" for key, value in content.items())
        (HERE / "data" / f"{name}.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
