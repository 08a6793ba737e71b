# SPDX-License-Identifier: Apache-2.0
"""Texts that tokenizers find hard, the same each time; patterns of words; the alphabet of byte-level BPE."""
import random
import unicodedata

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


def texts(count=200):
    source = random.Random(2026)
    return WRITTEN + [random_text(source) for _ in range(count - len(WRITTEN))]


def byte_alphabet():
    """Of each byte the character that byte-level BPE writes for it."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {**{byte: chr(byte) for byte in shown}, **{byte: chr(256 + i) for i, byte in enumerate(hidden)}}
