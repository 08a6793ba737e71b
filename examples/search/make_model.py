#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a sentence encoder as ONNX, beside the weights of a BERT model in the Hugging Face form.

    make_model.py FOLDER                       writes FOLDER/model.onnx
    make_model.py FOLDER --only-for TEXT OUT   writes OUT/model.onnx, OUT/vocab.txt

FOLDER holds config.json, model.safetensors and vocab.txt. The model takes input_ids and attention_mask, i64[batch, seq], and
gives sentence_embedding, f32[batch, hidden]: the mean of the last layer over the tokens that the mask counts, scaled to length 1.
The weights stay in model.safetensors, to which model.onnx refers as external data.

With --only-for the word pieces that no line of TEXT uses are left out and the weights are stored as f16, so that the model is
small enough to be sent somewhere; on TEXT the tokenizer finds the same pieces as before. Needs Python's onnx, numpy and, for
--only-for, tokenizers.
"""
import argparse
import json
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import packages  # noqa: E402

packages.need("numpy", "onnx")
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

OPSET = 20  # Gelu
# Added to the scores of tokens that are padding: exp of it is 0 in every precision, and f16 holds it.
MASKED_SCORE = -10000.0


class Weights:
    """Tensors of a safetensors file, by name without the model's prefix."""

    def __init__(self, path):
        with open(path, "rb") as file:
            header_bytes = struct.unpack("<Q", file.read(8))[0]
            self.header = json.loads(file.read(header_bytes))
        self.header.pop("__metadata__", None)
        self.path = path
        self.data_start = 8 + header_bytes
        self.prefix = "" if "embeddings.word_embeddings.weight" in self.header else "bert."

    def record(self, name):
        record = self.header[self.prefix + name]
        if record["dtype"] != "F32":
            raise SystemExit(f"{self.path}: {name} is {record['dtype']}, wanted F32")
        begin, end = record["data_offsets"]
        return record["shape"], self.data_start + begin, end - begin

    def read(self, name):
        shape, offset, size = self.record(name)
        return np.fromfile(self.path, np.float32, size // 4, offset=offset).reshape(shape)


class Model:
    """An ONNX graph under construction."""

    def __init__(self, weights, inline):
        self.weights, self.inline = weights, inline
        self.nodes, self.initializers, self.known = [], [], {}

    def node(self, op, inputs, name, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, name):
        """The tensor of that name: of the weights' file, or from `inline`, stored as f16."""
        if name in self.known:
            return self.known[name]
        if self.inline is not None:
            stored = self.constant(name + ".half", self.inline.get(name, self.weights.read(name)).astype(np.float16))
            self.known[name] = self.node("Cast", [stored], name, to=TensorProto.FLOAT)
            return name
        shape, offset, size = self.weights.record(name)
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", self.weights.path.name), ("offset", offset), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        self.initializers.append(tensor)
        self.known[name] = name
        return name

    def linear(self, x, module, name):
        """x @ weight^T + bias, as torch stores the weight."""
        transposed = self.node("Transpose", [self.weight(module + ".weight")], name + ".weight_t", perm=[1, 0])
        return self.node("Add", [self.node("MatMul", [x, transposed], name + ".product"), self.weight(module + ".bias")], name)

    def layer_norm(self, x, module, name, epsilon):
        return self.node("LayerNormalization", [x, self.weight(module + ".weight"), self.weight(module + ".bias")], name, axis=-1,
                         epsilon=epsilon)


def embeddings(model, config):
    length = model.node("Gather", [model.node("Shape", ["input_ids"], "ids.shape"), model.constant("ids.axis", np.int64(1))], "length")
    ends = model.node("Unsqueeze", [length, model.constant("front", np.array([0]))], "positions.end")
    begin, axis = model.constant("positions.begin", np.array([0])), model.constant("positions.axis", np.array([0]))
    positions = model.node("Slice", [model.weight("embeddings.position_embeddings.weight"), begin, ends, axis], "positions")
    words = model.node("Gather", [model.weight("embeddings.word_embeddings.weight"), "input_ids"], "words", axis=0)
    first = model.constant("segment", np.int64(0))
    segment = model.node("Gather", [model.weight("embeddings.token_type_embeddings.weight"), first], "segments", axis=0)
    typed = model.node("Add", [words, segment], "words.typed")
    placed = model.node("Add", [typed, positions], "words.placed")
    return model.layer_norm(placed, "embeddings.LayerNorm", "embeddings", config["layer_norm_eps"])


def attention(model, x, mask, layer, config):
    heads = config["num_attention_heads"]
    head_dim = config["hidden_size"] // heads
    by_head = model.constant(f"{layer}.by_head", np.array([0, 0, heads, head_dim]))
    module = f"encoder.layer.{layer}.attention"

    def heads_of(part, perm):
        split = model.node("Reshape", [model.linear(x, f"{module}.self.{part}", f"{layer}.{part}"), by_head], f"{layer}.{part}.split")
        return model.node("Transpose", [split], f"{layer}.{part}.heads", perm=perm)

    query, key, value = heads_of("query", [0, 2, 1, 3]), heads_of("key", [0, 2, 3, 1]), heads_of("value", [0, 2, 1, 3])
    scale = model.constant(f"{layer}.scale", np.float32(head_dim**0.5))
    scores = model.node("Div", [model.node("MatMul", [query, key], f"{layer}.products"), scale], f"{layer}.scores")
    shares = model.node("Softmax", [model.node("Add", [scores, mask], f"{layer}.scores.masked")], f"{layer}.shares", axis=-1)
    context = model.node("Transpose", [model.node("MatMul", [shares, value], f"{layer}.context")], f"{layer}.context.rows",
                         perm=[0, 2, 1, 3])
    joined = model.node("Reshape", [context, model.constant(f"{layer}.joined", np.array([0, 0, heads * head_dim]))],
                        f"{layer}.context.joined")
    output = model.linear(joined, f"{module}.output.dense", f"{layer}.attended")
    return model.layer_norm(model.node("Add", [output, x], f"{layer}.attended.sum"), f"{module}.output.LayerNorm",
                            f"{layer}.attention", config["layer_norm_eps"])


def feed_forward(model, x, layer, config):
    module = f"encoder.layer.{layer}"
    wide = model.node("Gelu", [model.linear(x, f"{module}.intermediate.dense", f"{layer}.wide")], f"{layer}.gelu")
    output = model.linear(wide, f"{module}.output.dense", f"{layer}.narrow")
    return model.layer_norm(model.node("Add", [output, x], f"{layer}.narrow.sum"), f"{module}.output.LayerNorm", f"{layer}.output",
                            config["layer_norm_eps"])


def pooled(model, x):
    """Mean over the tokens of the mask, then length 1 (1_Pooling and 2_Normalize of the package)."""
    counted = model.node("Cast", ["attention_mask"], "mask.real", to=TensorProto.FLOAT)
    column = model.node("Unsqueeze", [counted, model.constant("last", np.array([2]))], "mask.column")
    tokens = model.constant("token_axis", np.array([1]))
    total = model.node("ReduceSum", [model.node("Mul", [x, column], "tokens"), tokens], "total", keepdims=0)
    count = model.node("ReduceSum", [column, tokens], "count", keepdims=0)
    mean = model.node("Div", [total, model.node("Max", [count, model.constant("least", np.float32(1e-9))], "count.positive")], "mean")
    length = model.node("ReduceL2", [mean, model.constant("hidden_axis", np.array([1]))], "norm", keepdims=1)
    model.node("Div", [mean, model.node("Max", [length, model.constant("tiny", np.float32(1e-12))], "norm.positive")],
               "sentence_embedding")


def build(config, weights, inline=None):
    if config["hidden_act"] != "gelu" or config.get("position_embedding_type", "absolute") != "absolute":
        raise SystemExit("config.json: wanted hidden_act gelu and absolute positions")
    model = Model(weights, inline)
    is_padding = model.node("Equal", ["attention_mask", model.constant("zero", np.int64(0))], "mask.padding")
    row = model.node("Unsqueeze", [is_padding, model.constant("heads_and_rows", np.array([1, 2]))], "mask.row")
    mask = model.node("Where", [row, model.constant("masked", np.float32(MASKED_SCORE)), model.constant("kept", np.float32(0))], "mask")
    x = embeddings(model, config)
    for layer in range(config["num_hidden_layers"]):
        x = feed_forward(model, attention(model, x, mask, layer, config), layer, config)
    pooled(model, x)
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "seq"]) for name in ("input_ids", "attention_mask")]
    outputs = [helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", config["hidden_size"]])]
    graph = helper.make_graph(model.nodes, "sentence_encoder", inputs, outputs, model.initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def pieces_of(folder, text):
    """The rows of the vocabulary that the lines of a text use, ascending, and those without which no tokenizer works."""
    packages.need("numpy", "onnx", "tokenizers")
    from tokenizers import BertWordPieceTokenizer

    vocabulary = (folder / "vocab.txt").read_text().split("\n")
    tokenizer = BertWordPieceTokenizer(str(folder / "vocab.txt"), lowercase=True)
    used = {vocabulary.index(piece) for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")}
    for line in text.read_text().splitlines():
        used.update(tokenizer.encode(line).ids)
    return sorted(used), vocabulary


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only-for", nargs=2, type=pathlib.Path, metavar=("TEXT", "OUT"))
    arguments = parser.parse_args()
    config = json.loads((arguments.folder / "config.json").read_text())
    weights = Weights(arguments.folder / "model.safetensors")
    if not arguments.only_for:
        onnx.save(build(config, weights), arguments.folder / "model.onnx")
        return
    text, out = arguments.only_for
    rows, vocabulary = pieces_of(arguments.folder, text)
    words = "embeddings.word_embeddings.weight"
    out.mkdir(parents=True, exist_ok=True)
    onnx.save(build(config, weights, {words: weights.read(words)[rows]}), out / "model.onnx")
    (out / "vocab.txt").write_text("".join(vocabulary[row] + "\n" for row in rows))


if __name__ == "__main__":
    main()
