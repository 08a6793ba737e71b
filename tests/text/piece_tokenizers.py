# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of checkpoints, made of this folder's vocabularies by Hugging Face's package: how Mistral, Gemma, Phi and others are set up."""
import base64
import json
import pathlib
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

DATA = pathlib.Path(__file__).resolve().parent / "data"
MARK = "\u2581"
# Added tokens: name, whether it is a control token, and what it strips.
ADDED = [("<|user|>", True, "rstrip"), ("<|end|>", True, ""), ("<|mid|>", True, "lstrip"), ("<tool>", False, "")]


def vocabulary(name):
    return json.loads((DATA / f"{name}.json").read_text())


def merges_of(cases):
    """Pairs as Hugging Face's converter makes them of SentencePiece's scores: every way to make each piece."""
    ids = {piece: i for i, piece in enumerate(cases["pieces"])}
    pairs = []
    for piece, score, kind in zip(cases["pieces"], cases["scores"], cases["types"]):
        ways = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in ids and piece[i:] in ids]
        pairs += [(*way, score) for way in sorted(ways, key=lambda way: (ids[way[0]], ids[way[1]])) if kind == 1]
    pairs.sort(key=lambda pair: (pair[2], len(pair[0]), len(pair[1])), reverse=True)
    return [(left, right) for left, right, _ in pairs]


def with_added(tokenizer):
    for name, is_special, strip in ADDED:
        token = AddedToken(name, normalized=False, special=is_special, lstrip=strip == "lstrip", rstrip=strip == "rstrip")
        (tokenizer.add_special_tokens if is_special else tokenizer.add_tokens)([token])
    return tokenizer


def merged_pieces(normalizer, pre_tokenizer):
    cases = vocabulary("scores")
    ids = {piece: i for i, piece in enumerate(cases["pieces"])}
    tokenizer = Tokenizer(models.BPE(ids, merges_of(cases), unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    return with_added(tokenizer)


def unigram():
    """White space is dropped and marked before each word, as of T5 and XLM-RoBERTa."""
    cases = vocabulary("unigram")
    tokenizer = Tokenizer(models.Unigram(list(zip(cases["pieces"], cases["scores"])), unk_id=cases["types"].index(2)))
    tokenizer.normalizer = normalizers.Precompiled(base64.b64decode(cases["charsmap"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(MARK, "always")])
    return with_added(tokenizer)


def piece_tokenizers():
    marked = lambda: normalizers.Replace(" ", MARK)
    return {
        "prefix": merged_pieces(normalizers.Sequence([normalizers.Prepend(MARK), marked()]), None),           # Llama 2, Mistral, Phi 3
        "prefix_at_start": merged_pieces(None, pre_tokenizers.Metaspace(MARK, "first", split=False)),          # Mistral 0.3
        "prefix_once": merged_pieces(None, pre_tokenizers.Metaspace(MARK, "always", split=False)),
        "no_prefix": merged_pieces(marked(), pre_tokenizers.Split(" ", "merged_with_previous")),               # Gemma
        "unigram": unigram(),
    }


# Of BERT: uncased as MiniLM, cased, lower case alone.
WORD_RULES = {
    "words": {"lowercase": True},
    "words_cased": {"lowercase": False},
    "words_lowered": {"lowercase": True, "strip_accents": False, "handle_chinese_chars": False, "clean_text": False},
}


def word_tokenizers(characters):
    return {name: words(characters, **rules) for name, rules in WORD_RULES.items()}


def byte_tokenizer(patterns, ignore_merges, merges, alphabet):
    """`merges` are pairs of ids: b < 256 is byte b, 256 + i what merge i makes."""
    names = [alphabet[byte] for byte in range(256)]
    for left, right in merges:
        names.append(names[left] + names[right])
    ids = {name: i for i, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(ids, [(names[left], names[right]) for left, right in merges], ignore_merges=ignore_merges))
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return with_added(tokenizer)


def words(characters, **rules):
    """BERT's: characters, at the front of a word and in it, and some longer parts."""
    parts = ["the", "ker", "##nel", "gra", "##ph", "to", "##ken", "##ens", "caf", "cafe", "##é", "HTTP", "##Server", "##server", "世", "界", "'s", "##'s", "!?"]
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *characters, *("##" + character for character in characters), *parts]
    tokenizer = Tokenizer(models.WordPiece({name: i for i, name in enumerate(dict.fromkeys(names))}, unk_token="[UNK]", max_input_chars_per_word=50))
    tokenizer.normalizer = normalizers.BertNormalizer(**rules)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=rules["lowercase"])
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in names[:4]])
    frame = [("[CLS]", names.index("[CLS]")), ("[SEP]", names.index("[SEP]"))]
    is_older = not rules["lowercase"]
    tokenizer.post_processor = (processors.BertProcessing(frame[1], frame[0]) if is_older else
                                processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=frame))
    return with_added(tokenizer)


def is_plain(text):
    """No space mark of its own, and no marks behind characters, which Precompiled swallows with what it replaces."""
    marks = lambda c: unicodedata.category(c) in ("Mn", "Mc", "Me", "Cf") or c in "\uff9e\uff9f"
    return MARK not in text and not any(marks(c) for c in text)


def ids_of(tokenizer, texts, is_trusted, adds_frame=False):
    """Control tokens are found in trusted text alone."""
    tokenizer.encode_special_tokens = not is_trusted
    return [tokenizer.encode(text, add_special_tokens=adds_frame).ids for text in texts]
