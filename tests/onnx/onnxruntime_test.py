#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares rlx with onnxruntime by tools/compare_onnxruntime.py: small models that have to agree, planted differences that have
to be found, and, with --suite, every test of ONNX's backend suite.

    python3 tests/onnx/onnxruntime_test.py BUILD_BIN
    python3 tests/onnx/onnxruntime_test.py BUILD_BIN --suite /usr/share/libonnx-testdata/data/node [--filter 'test_conv*']

In the suite, inputs of floats are seeded and others are the data set's, which may be indices and shapes. Exits 77, which counts
as skipped, where the packages onnx and onnxruntime or a device are missing.
"""
import argparse
import collections
import concurrent.futures
import fnmatch
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SKIPPED = 77
sys.path.insert(0, str(ROOT / "tools"))
try:
    import numpy as np
    import onnx
    import onnx.numpy_helper
    import onnxruntime  # noqa: F401
except ImportError as missing:
    print(f"SKIPPED: {missing}; 0 failed")
    sys.exit(SKIPPED)

import compare_onnxruntime as tool  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402


def model_of(folder, name, nodes, inputs, outputs, weights=(), opset=17):
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info(*row) for row in inputs],
                              [helper.make_tensor_value_info(*row) for row in outputs],
                              [onnx.numpy_helper.from_array(array, key) for key, array in weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)],
                              ir_version=8)
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return path


def network(folder, name, alpha=0.1, axis=-1, addend=1.0):
    """Convolution, activation, a folded constant, a reshape through shape arithmetic, a product and a softmax."""
    random = np.random.default_rng(5)
    weights = [("w", random.standard_normal((6, 3, 3, 3)).astype(np.float32) * 0.3),
               ("v", random.standard_normal((6, 4)).astype(np.float32) * 0.1),
               ("one", np.array(addend, np.float32)), ("two", np.array([2.0], np.float32)), ("axes", np.array([2, 3])),
               ("first", np.array([0])), ("rest", np.array([-1]))]
    node = helper.make_node
    nodes = [node("Conv", ["x", "w"], ["conv"], pads=[1, 1, 1, 1]), node("LeakyRelu", ["conv"], ["leaky"], alpha=alpha),
             node("Mul", ["one", "two"], ["folded"]), node("Add", ["leaky", "folded"], ["moved"]),
             node("ReduceMean", ["moved"], ["pooled"], axes=[2, 3]), node("Shape", ["x"], ["shape"]),
             node("Gather", ["shape", "first"], ["batch"]), node("Concat", ["batch", "rest"], ["target"], axis=0),
             node("Reshape", ["pooled", "target"], ["flat"]), node("MatMul", ["flat", "v"], ["logits"]),
             node("Softmax", ["logits"], ["y"], axis=axis), node("ArgMax", ["logits"], ["label"], axis=1, keepdims=0)]
    return model_of(folder, name, nodes, [("x", TensorProto.FLOAT, ["N", 3, 8, 9])],
                    [("y", TensorProto.FLOAT, ["N", 4]), ("label", TensorProto.INT64, ["N"])], weights)


def types(folder, name):
    """Halves, integers, bits of them, bools, NaNs and infinities, and an empty tensor."""
    node = helper.make_node
    nodes = [node("Cast", ["x"], ["half"], to=TensorProto.FLOAT16), node("Exp", ["half"], ["grown"]), node("Log", ["x"], ["logs"]),
             node("IsNaN", ["logs"], ["nans"]), node("Div", ["x", "zero"], ["n/b"]), node("Mod", ["i", "three"], ["rest"]),
             node("Not", ["b"], ["n_b"]), node("Where", ["b", "i", "rest"], ["picked"]), node("Cast", ["n/b"], ["double"],
                                                                                              to=TensorProto.DOUBLE),
             node("Slice", ["x", "first", "first"], ["none"]), node("Sub", ["i", "three"], ["less"]),
             node("Cast", ["less"], ["bits"], to=TensorProto.UINT64), node("Cast", ["rest"], ["places"], to=TensorProto.UINT64),
             node("BitShift", ["bits", "places"], ["moved"], direction="RIGHT"), node("Cast", ["moved"], ["shifted"],
                                                                                       to=TensorProto.INT64)]
    outputs = [("grown", TensorProto.FLOAT16, [4, 5]), ("logs", TensorProto.FLOAT, [4, 5]), ("nans", TensorProto.BOOL, [4, 5]),
               ("n/b", TensorProto.FLOAT, [4, 5]), ("picked", TensorProto.INT64, [7]), ("n_b", TensorProto.BOOL, [7]),
               ("double", TensorProto.DOUBLE, [4, 5]), ("none", TensorProto.FLOAT, [0, 5]),
               ("shifted", TensorProto.INT64, [7])]
    return model_of(folder, name, nodes, [("x", TensorProto.FLOAT, [4, 5]), ("i", TensorProto.INT64, [7]),
                                          ("b", TensorProto.BOOL, [7])],
                    outputs, [("zero", np.array(0.0, np.float32)), ("three", np.array(3)), ("first", np.array([0]))])


def check_equal(folder, options):
    path = network(folder, "same")
    for batch in (1, 5):
        result = tool.compare(path, tool.complete(options, dims={"N": batch}))
        assert not result.outputs and not result.inside, f"batch {batch}: {result}"
        # The shape arithmetic and the product of constants are folded away.
        assert {"folded", "shape", "target"} & set(result.absent), f"nothing was folded: {result}"
        assert result.compared >= 6, f"too little was compared: {result}"
    result = tool.compare(types(folder, "types"), tool.complete(options))
    assert not result.outputs and not result.inside, str(result)


def fused(folder, op, inputs, outputs, **attributes):
    """One node of com.microsoft: inputs are shapes of floats, None, or arrays that the model knows."""
    names = ["" if given is None else f"i{i}" for i, given in enumerate(inputs)]
    rows = [(name, TensorProto.FLOAT, given) for name, given in zip(names, inputs) if isinstance(given, list)]
    weights = [(name, given) for name, given in zip(names, inputs) if isinstance(given, np.ndarray)]
    node = helper.make_node(op, names, [name for name, _ in outputs], domain="com.microsoft", **attributes)
    return model_of(folder, op, [node], rows, [(name, TensorProto.FLOAT, shape) for name, shape in outputs], weights)


def check_microsoft(folder, options):
    """What onnxruntime's optimizer writes; of cached keys only those that count are compared."""
    y, table, counts = [("y", [2, 3, 64])], [9, 8], np.array([2, 1], np.int32)
    heads = {"num_heads": 4}
    grouped = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}
    keys, cache = [2, 3, 32], [2, 2, 4, 16]
    mask = np.array([[1, 1, 0], [1, 0, 1]], np.int32)
    cases = [("FastGelu", [[2, 3, 64], [64]], y, {}), ("BiasGelu", [[2, 3, 64], [64]], y, {}), ("QuickGelu", [[2, 3, 64]], y, {}),
             ("SkipLayerNormalization", [[2, 3, 64], [3, 64], [64], [64], [64]], y, {"epsilon": 1e-5}),
             ("SkipSimplifiedLayerNormalization", [[2, 3, 64], [2, 3, 64], [64]], y, {"epsilon": 1e-5}),
             ("FusedConv", [[1, 3, 6, 6], [4, 3, 3, 3], [4], [1, 4, 6, 6]], [("y", [1, 4, 6, 6])],
              {"activation": "Relu", "pads": [1, 1, 1, 1]}),
             ("FusedGemm", [[3, 8], [5, 8], [5]], [("y", [3, 5])], {"activation": "LeakyRelu", "activation_alpha": 0.3, "transB": 1}),
             ("RotaryEmbedding", [[2, 3, 64], np.array([[0, 1, 2], [1, 3, 4]]), table, table], y, {}),
             ("MultiHeadAttention", [[2, 3, 64], [2, 5, 64], [2, 5, 64], [192], np.array([5, 2], np.int32)], y, heads),
             ("MultiHeadAttention", [[2, 3, 64], [2, 3, 64], [2, 3, 64], None, mask, [1, 4, 3, 3]], y, heads | {"scale": 0.3}),
             ("Attention", [[2, 3, 8], [8, 192], [192], mask], y, heads | {"unidirectional": 1}),
             ("Attention", [[2, 3, 8], [8, 192], [192], np.array([3, 2, 0, 1], np.int32)], y, heads),
             ("Attention", [[2, 3, 8], [8, 192], [192], np.array([8, 7, 6, 0], np.int32), [2, 2, 4, 5, 16]],
              [*y, ("present", [2, 2, 4, 8, 16])], heads),
             ("Attention", [[2, 3, 8], [8, 192], [192], None, [2, 2, 4, 5, 16]], [*y, ("present", [2, 2, 4, 8, 16])], heads),
             ("GroupQueryAttention", [[2, 3, 64], keys, keys, None, None, counts, np.array(3, np.int32), table, table], y, grouped),
             ("GroupQueryAttention", [[1, 1, 128], None, None, [1, *cache[1:]], [1, *cache[1:]], np.array([4], np.int32),
                                      np.array(5, np.int32), table, table],
              [("y", [1, 1, 64]), ("k", [1, 2, 5, 16]), ("v", [1, 2, 5, 16])], grouped | {"rotary_interleaved": 1}),
             ("Trilu", [[2, 3, 4], np.array(-1)], [("y", [2, 3, 4])], {"upper": 0}),
             ("Pad", [[2, 3], np.array([0, 2, 1, 2]), np.array([0.5], np.float32)], [("y", [3, 7])], {}),
             ("Pad", [[2, 3], np.array([0, 2, 0, -1])], [("y", [2, 4])], {"mode": "edge"}),
             ("Range", [np.array(1, np.float32), np.array(3, np.float32)], [("y", [2])], {}),
             *[("GridSample", [[1, 2, 4, 5], [1, 3, 2, 2]], [("y", [1, 2, 3, 2])], {"mode": mode, "padding_mode": padding})
               for mode, padding in (("bilinear", "zeros"), ("bicubic", "reflection"), ("nearest", "border"))],
             ("Inverse", [[2, 5, 5]], [("y", [2, 5, 5])], {}),
             ("GroupQueryAttention", [[2, 3, 64], keys, keys, None, None, np.array([2, 2], np.int32), np.array(3, np.int32)], y,
              {"num_heads": 4, "kv_num_heads": 2, "local_window_size": 2, "softcap": 2.0})]
    for op, inputs, outputs, attributes in cases:
        result = tool.compare(fused(folder, op, inputs, outputs, **attributes), tool.complete(options, dims={}))
        assert not result.outputs and not result.inside, f"{op} {attributes}: {result}"


def check_planted(folder, options):
    """One node is another on rlx's side: the first value that differs has to be its, whatever differs behind it."""
    wanted = network(folder, "wanted")
    tool.complete(options, dims={"N": 2})
    for name, changed, first, outputs in (("alpha", {"alpha": 0.2}, "leaky", ["y"]), ("axis", {"axis": 0}, "y", ["y"]),
                                          ("addend", {"addend": 1.001}, "moved", ["y"])):
        result = tool.compare(network(folder, name, **changed), options, wanted)
        assert result.inside and result.inside[0].name == first, f"{name}: {result}"
        assert [found.name for found in result.outputs] == outputs, f"{name}: {result}"
    # Values that are only NaN on one side, and one integer.
    got, nan = np.array([1.0, 2.0], np.float32), np.array([1.0, np.nan], np.float32)
    assert tool.difference("v", got, nan, options) and tool.difference("v", nan, got, options)
    assert tool.difference("v", nan, nan.copy(), options) is None
    assert tool.difference("v", np.array([1, 2]), np.array([1, 3]), options)
    assert tool.difference("v", got, got.astype(np.float64), options)


def check_command(folder, options):
    command = [sys.executable, ROOT / "tools/compare_onnxruntime.py", "--bin", options.bin, "--target", options.target]
    path, other = network(folder, "one"), network(folder, "other", alpha=0.2)
    for words, code, text in (([path, "--dim", "N=2"], 0, "equal: every output"),
                              ([path, "--input-shape", "x=3x3x8x9", "--peer-model", other], 4, "node 1 (LeakyRelu of conv)"),
                              ([path], 2, "--dim N=N")):
        done = subprocess.run([str(word) for word in [*command, *words]], capture_output=True, text=True)
        assert done.returncode == code, f"{words}: exit {done.returncode}, wanted {code}: {done.stdout}{done.stderr}"
        assert text in done.stdout + done.stderr, f"{text} is not in {done.stdout}{done.stderr}"


# ---- the backend suite

# Where onnxruntime is not what the suite's own data says, and rlx is.
FRACTIONS = "onnxruntime finds no place for a fractional index; ONNX says that it is cast to an integer first"
DISAGREEMENTS = {"test_maxunpool_export_with_output_shape": "onnxruntime takes the indices in the larger shape",
                 "test_onehot_with_axis": FRACTIONS, "test_onehot_with_negative_axis": FRACTIONS}


def data_set(folder, model):
    """The data set's inputs that are no floats, their shapes, and all of them: other floats are left to the seed."""
    inputs, shapes, everything = {}, {}, {}
    for i, value in enumerate(tool.graph_inputs(model)):
        path = folder / "test_data_set_0" / f"input_{i}.pb"
        if not path.exists():
            continue
        if not value.type.HasField("tensor_type"):
            raise tool.Refusal(f"input {value.name} is no tensor")
        array = onnx.numpy_helper.to_array(onnx.load_tensor(str(path)))
        shapes[value.name], everything[value.name] = list(array.shape), array
        if array.dtype.name not in tool.RTOL:
            inputs[value.name] = array
    return inputs, shapes, everything


def run_case(folder, options):
    """(what became of it, why)."""
    try:
        inputs, shapes, everything = data_set(folder, onnx.load(folder / "model.onnx"))
        case = tool.complete(argparse.Namespace(**vars(options)), input_shapes=shapes, inputs=inputs, fixed=everything)
        result = tool.compare(folder / "model.onnx", case)
    except tool.Refusal as error:
        text = str(error)
        is_refused = "exit 2:" in text or "is no tensor" in text
        return "onnxruntime cannot" if text.startswith("onnxruntime") else "refused" if is_refused else "FAILED", text
    except Exception as error:  # noqa: BLE001  strings and sequences, which are none of rlx
        return "not comparable", f"{type(error).__name__}: {error}"
    found = result.outputs + result.inside
    return ("differs", f"{found[0].name}: {found[0].what}") if found else ("equal", "")


def run_suite(args, options):
    folders = sorted(path.parent for path in args.suite.glob("**/model.onnx") if fnmatch.fnmatch(path.parent.name, args.filter))
    counts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for folder, (kind, why) in zip(folders, pool.map(lambda folder: run_case(folder, options), folders)):
            if kind == "differs" and folder.name in DISAGREEMENTS:
                kind, why = "expected to differ", DISAGREEMENTS[folder.name]
            counts[kind] += 1
            if kind in ("differs", "FAILED") or args.verbose:
                print(f"{folder.name:50} {kind}  {re.sub(chr(10), ' ', why)[:300]}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
    return 1 if counts["differs"] or counts["FAILED"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build_bin", type=pathlib.Path)
    parser.add_argument("--suite", type=pathlib.Path)
    parser.add_argument("--filter", default="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-v", "--verbose", action="store_true")
    tool.add_options(parser)
    args = parser.parse_args()
    args.bin = args.build_bin.resolve()
    devices = subprocess.run([args.bin / "rlxrun", "--list-devices"], capture_output=True, text=True).stdout
    if args.target.split("-")[0] not in devices:
        print(f"SKIPPED: no {args.target} device (package mesa-vulkan-drivers); 0 failed")
        return SKIPPED
    if args.suite:
        return run_suite(args, args)
    failed = 0
    for check in (check_equal, check_microsoft, check_planted, check_command):
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(pathlib.Path(folder), args)
                print(f"{check.__name__}: right")
            except (AssertionError, tool.Refusal) as error:
                failed += 1
                print(f"{check.__name__}: FAILED: {error}")
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
