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
import random
import re
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).resolve().parent
PAGES = sorted(HERE.parent.parent.glob("**/README.md"))
TRAINING = "\n".join(re.findall(r"[A-Za-z][^\n|`]{40,}", "\n".join(page.read_text() for page in PAGES)))[:40000] + """
Füße und Größe, naïve café, señor mañana; l'été, où, ça. Привет, мир: как дела? Γειά σου κόσμε. 東京の天気は晴れです。
日本語の文章を書きます。 你好，世界。 今天天气很好。 안녕하세요 세계. مرحبا بالعالم. नमस्ते दुनिया. I'm, you're, they've, he'll, she'd, it's, don't.
"""
MERGES = 300

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LINES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
ANY_CASE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = ANY_CASE + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + LINES
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def cased(behind):
    before = r"[^\r\n\p{L}\p{N}]?"
    return f"{before}{UPPER}*{LOWER}+{behind}|{before}{UPPER}+{LOWER}*{behind}"


# Families of schema/text.fbs -> patterns, one after the other.
FAMILIES = {
    "Gpt2": [GPT2],
    "DigitsGpt2": [r"\p{N}", GPT2],
    "Llama3": [LLAMA3],
    "Qwen2": [LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")],
    "Gpt4o": [cased(ANY_CASE + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + LINES],
    "Tekken": [cased("") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + LINES],
    "DeepSeek3": [
        r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*""" + LINES,
    ],
    "Default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
}
SPECIALS = {"Control": ["<|begin|>", "<|end|>", "<|end|>x"], "UserDefined": ["<tool>", "<|end", "  \n"]}

WRITTEN = [
    "", "a", " ", "  ", "   x", "Hello, world!", "I'M you're they'LL he'd DON'T 'S", "'s 't 're 've 'm 'll 'd 'x '", "it's 1234567 and 3.14159",
    "'\u017f '\u017fx \u212a's", "tab\tand\n\nnewlines\r\nCRLF", "trailing   ", "\n\n\n", " \n \n x", "\r\r\n\n \t\n", "\u00a0nbsp\u3000ideographic\u2028line",
    "café cafe\u0301 naïve Å \u212b \u1e9b\u0323", "\U0001F468\u200d\U0001F469\u200d\U0001F467 family \U0001F1E9\U0001F1EA",
    "你好，世界。", "こんにちは世界 カタカナー", "안녕하세요 \u1112\u1161\u11ab", "مرحبا ١٢٣", "नमस्ते १२ क्षि", "สวัสดี", "x² + y³ = ½ Ⅳ ①",
    "\x00nul\x01\x7f\x1f\x85\x1cx", "def f(x):\n    return x**2  # comment\n", "https://example.com/a?b=c&d=%20", "!!!???...---___", "“quotes” ‘x’ — dash",
    "A" * 70, "ab" * 40, "CamelCaseHTTPServer iPhone USAToday ÉCOLEécole", "ǅungla ʰa Aʰ aʰB ªº", "日本Tokyo東京abcDEF", "\u0301a \u0301\u0301 a\u0301B B\u0301a",
    "//path/to\n/x \\\\host", "a/\n/b ?/\r\n!", "$5 €3 +1 <=> a|b ~x ^y `code`", "12 345 6789 0123456 ٣٤٥٦ 1½2", "one  two   three    four", "x \u200b y\ufeffz",
    "<|begin|>user\nhi<|end|>", "<|begin|", "<|end|>x<|end|><|end", "<tool>a<tool ><tool><tool>", "a  \nb  \n\nc", "<|begin|><|begin|>", "\U0010FFFF\uE000\uFFFD",
    "#define MAX(a,b)\t((a)>(b)?(a):(b))", '{"key": [1, 2.5, null], "é": "\\u00e9"}', "...a !b ?C (d) [E] {f} \"g\" 'h'", "100%sure 3rd 2x4 v1.2.3-rc4",
    "\u0e01\u0e33\u0e37 \u0b95\u0bcd\u0bb7", "A\u030a\u0327 A\u0327\u030a \u1100\u1161\u11a8 \u0958", "\u2460\u2461 \u2167 \u0be7\u0bf0 \U0001D7D8",
]
# Categories that random strings are made of; all assigned in Unicode 14.
CATEGORIES = {}
for code in range(0x20, 0x20000):
    category = unicodedata.category(chr(code))
    if category not in ("Cn", "Co", "Cs") and unicodedata.ucd_3_2_0.category(chr(code)) == category:
        CATEGORIES.setdefault(category, []).append(code)


def random_text(source):
    parts = []
    for _ in range(source.randint(1, 9)):
        kind = source.random()
        if kind < 0.2:
            parts.append(source.choice(["the", "Graph", "kernel's", "I'LL", "KV", "tokens", "'Re", "мир", "été", "世界", "42", "2026"]))
        elif kind < 0.45:
            parts.append(source.choice([" ", " ", "  ", "\n", "\r\n", "\t", " \n", "\u00a0", "\u3000", "/", "'", "’", "-", ".", "!?"]))
        elif kind < 0.65:
            parts.append(chr(source.randint(33, 126)) * source.choice([1, 1, 2]))
        else:
            parts.append(chr(source.choice(CATEGORIES[source.choice(sorted(CATEGORIES))])) * source.choice([1, 1, 1, 2, 3]))
    return "".join(parts)


def texts():
    source = random.Random(2026)
    return WRITTEN + [random_text(source) for _ in range(200 - len(WRITTEN))]


def byte_alphabet():
    """Of each byte the character that byte-level BPE writes for it."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {**{byte: chr(byte) for byte in shown}, **{byte: chr(256 + i) for i, byte in enumerate(hidden)}}


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
