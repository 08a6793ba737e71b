#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs an ONNX model through onnxruntime's CPU provider and through rlxc and rlxrun with the same inputs, and prints the first
output and the first value inside the model, in the order of its nodes, that differ beyond tolerance.

    python3 tools/compare_onnxruntime.py model.onnx
    python3 tools/compare_onnxruntime.py model.onnx --dim N=4 --input-shape x=1x3x224x224 --inputs ids=ids.npy --seed 3
    python3 tools/compare_onnxruntime.py changed.onnx --peer-model model.onnx     # rlx runs the one, onnxruntime the other

It needs the Python packages onnx, onnxruntime and numpy. Outputs are compared of the plan as it would be shipped; values inside
the model of a second plan, compiled with --keep-all, and of a model for onnxruntime with every value an output and its
optimisations off. Values that rlx folds away, or computes under no name of the model, are counted and not compared. Inputs that
no file gives are seeded: normal floats, integers from 0 below --integers-below, random bools.

Exit codes: 0 equal, 1 wrong use, 2 one of the two refuses the model, 4 a difference.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zlib

TOOLS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))
import packages  # noqa: E402

packages.need("numpy", "onnx", "onnxruntime")
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnx.numpy_helper  # noqa: E402
import onnxruntime  # noqa: E402

# By which results of one element type may differ, relative to the value, and a tenth of it relative to the tensor's largest.
RTOL = {"float64": 1e-7, "float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}


class Refusal(Exception):
    """That one of the two cannot run the model."""


@dataclasses.dataclass
class Difference:
    name: str
    what: str  # the worst place, in words


@dataclasses.dataclass
class Comparison:
    outputs: list  # Differences of the model's outputs
    inside: list  # Differences of values inside, in order of nodes
    compared: int  # values inside that both have
    absent: list  # names of values that rlx does not have
    only_fused: bool = False  # the plan as shipped differs, the one that keeps every value does not


# ---- inputs

def element_type(value):
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


def graph_inputs(model):
    """Inputs that the model does not initialize itself."""
    given = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in given]


def shape_of(value, options):
    """The input's shape with symbols bound, and the options that bind it for rlxc."""
    if value.name in options.input_shapes:
        return options.input_shapes[value.name]
    if not value.type.tensor_type.HasField("shape"):
        raise Refusal(f"input {value.name} has no shape: give it as --input-shape {value.name}=1x3x224x224")
    shape = []
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        label = dim.dim_param or f"{value.name}.{axis}"
        if dim.HasField("dim_value"):
            shape.append(dim.dim_value)
        elif label in options.dims:
            shape.append(options.dims[label])
        else:
            raise Refusal(f"input {value.name}, axis {axis}: give its size as --dim {label}=N")
    return shape


def seeded(name, dtype, shape, options):
    random = np.random.default_rng([options.seed, zlib.crc32(name.encode())])
    if dtype == np.bool_:
        return random.random(shape) < 0.5
    if np.issubdtype(dtype, np.integer):
        return random.integers(0, options.integers_below, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def make_inputs(model, options):
    inputs = {}
    for value in graph_inputs(model):
        if not value.type.HasField("tensor_type"):
            raise Refusal(f"input {value.name} is no tensor")
        array = options.inputs.get(value.name)
        if array is None:
            array = seeded(value.name, element_type(value), shape_of(value, options), options)
        inputs[value.name] = np.ascontiguousarray(array).reshape(np.shape(array))
    return inputs


def freeze(model, name, array):
    """The model with an input as a constant, for shapes, axes and counts that rlxc has to know."""
    frozen = onnx.ModelProto()
    frozen.CopyFrom(model)
    kept = [value for value in frozen.graph.input if value.name != name]
    del frozen.graph.input[:]
    frozen.graph.input.extend(kept)
    frozen.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return frozen


def seed_weights(model, options):
    """Weights that the model makes of one value each, by ConstantOfShape, as seeded tensors: scaled by the root of what one
    result sums up; vectors, which may be variances, are positive."""
    shapes = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    kept = []
    for node in model.graph.node:
        shape = shapes.get(node.input[0]) if node.op_type == "ConstantOfShape" else None
        if shape is None or node.attribute and node.attribute[0].t.data_type != onnx.TensorProto.FLOAT:
            kept.append(node)
            continue
        array = seeded(node.output[0], np.dtype(np.float32), tuple(shape), options)
        array = array / np.sqrt(max(np.prod(shape[1:]), 1)) if len(shape) > 1 else 0.5 + 0.25 * np.abs(array)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.float32), node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept)


# ---- onnxruntime

def run_peer(model, inputs, folder, options, inside):
    """{name: array} of the model's outputs, and of every value inside it if asked for."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    if inside:
        present = {value.name for value in model.graph.output}
        for node in model.graph.node:
            model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name and name not in present)
            present.update(node.output)
    session_options = onnxruntime.SessionOptions()
    session_options.log_severity_level = 4
    if inside or not options.optimized:
        session_options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    path = folder / "peer.onnx"
    try:
        onnx.save(model, path)
        session = onnxruntime.InferenceSession(str(path), session_options, providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_outputs()]
        wanted = {value.name for value in session.get_inputs()}
        results = session.run(names, {name: array for name, array in inputs.items() if name in wanted})
    except Exception as error:  # noqa: BLE001  onnxruntime's errors have no common type
        raise Refusal(f"onnxruntime: {str(error).strip().splitlines()[0]}") from error
    return {name: result for name, result in zip(names, results) if isinstance(result, np.ndarray)}


# ---- rlx

def call(command, what):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        error = Refusal(f"{what}: exit {done.returncode}: {done.stderr.strip()}")
        error.text = done.stderr
        raise error
    return done.stdout


def run_rlx(model_path, inputs, folder, options, keep_all):
    """{name: array} of the plan's outputs."""
    words = [word for name, array in inputs.items()
             for word in ("--input-shape", f"{name}={'x'.join(map(str, array.shape))}") if array.ndim]
    plan = folder / "model.plan"
    call([options.bin / "rlxc", model_path, "-o", plan, "--target", options.target, "-q", f"-O{options.optimisation}", *words,
          *(["--keep-all"] if keep_all else []), *options.rlxc], "rlxc")
    np.savez(folder / "inputs.npz", **{name: carrier(array) for name, array in inputs.items()})
    given = ["--inputs", folder / "inputs.npz"] if inputs else []
    text = call([options.bin / "rlxrun", plan, "--device", options.target.split("-")[0], *given, "--outputs", folder / "out",
                 "--poison", 165, "--json"], "rlxrun")
    results = {}
    for output in json.loads(text)["outputs"]:
        array = np.load(output["file"])
        results[output["name"]] = array.view(onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16)) \
            if output["dtype"] == "bf16" else array
    return results


def carrier(array):
    """bfloat16, which NumPy lacks, as rlxrun takes it: its bits."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


# ---- comparison

def coarsest(model, values):
    """{value: the largest RTOL of the types that it was computed through}: a half that is cast to f32 is no better for it."""
    rtol = {}
    for node in model.graph.node:
        before = max((rtol.get(name, 0.0) for name in node.input), default=0.0)
        for name in node.output:
            own = RTOL.get(values[name].dtype.name, 0.0) if name in values else 0.0
            rtol[name] = max(own, before)
    return rtol


def difference(name, got, wanted, options, rtol_of=None):
    """None where they agree; types, shapes, integers, bools and places of NaN and infinity have to be equal."""
    if (got.dtype, wanted.dtype) == (np.int64, np.uint64):  # of which rlx has the bits
        got = got.view(np.uint64)
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return Difference(name, f"rlx has {got.dtype}{list(got.shape)}, onnxruntime {wanted.dtype}{list(wanted.shape)}")
    if got.size == 0:
        return None
    if got.dtype.name not in RTOL:
        wrong = got != wanted
        error = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
    else:
        rtol = options.rtol or max(RTOL[got.dtype.name], (rtol_of or {}).get(name, 0.0))
        a, b = got.astype(np.float64), wanted.astype(np.float64)
        is_special = ~np.isfinite(a) | ~np.isfinite(b)
        same_special = (a == b) | (np.isnan(a) & np.isnan(b))
        scale = np.max(np.abs(b[~is_special]), initial=0.0)
        with np.errstate(invalid="ignore"):
            error = np.where(is_special, np.where(same_special, 0.0, math.inf), np.abs(a - b))
        atol = 0.1 * rtol * scale + np.finfo(np.float32).tiny if options.atol is None else options.atol
        wrong = error > atol + np.where(is_special, 0.0, rtol * np.abs(np.where(is_special, 0.0, b)))
    if not wrong.any():
        return None
    worst = np.unravel_index(np.argmax(np.where(wrong, error, -1.0)), got.shape)
    place = f"[{', '.join(map(str, map(int, worst)))}]"
    return Difference(name, f"{int(wrong.sum())} of {got.size} elements differ, most at {place}: rlx {got[worst]}, "
                            f"onnxruntime {wanted[worst]}")


def compare(model_path, options, peer_path=None):
    """The comparison of one model. Raises Refusal where one of the two cannot run it."""
    model = onnx.load(model_path)
    peer = onnx.load(peer_path) if peer_path else model
    inputs = make_inputs(model, options)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        frozen_path = model_path
        if options.seed_weights:
            seed_weights(model, options)
            if peer is not model:
                seed_weights(peer, options)
            frozen_path = folder / "seeded.onnx"
            onnx.save(model, frozen_path)
        while True:
            try:
                shipped = run_rlx(frozen_path, inputs, folder, options, keep_all=False)
                break
            except Refusal as error:
                wanted = re.search(r'depends on the model\'s input "([^"]+)"', getattr(error, "text", ""))
                if not wanted or wanted[1] not in inputs:
                    raise
            # rlxc has to know this input: it becomes a constant of both models.
            array = options.fixed.get(wanted[1], inputs[wanted[1]])
            del inputs[wanted[1]]
            model, peer = freeze(model, wanted[1], array), freeze(peer, wanted[1], array)
            frozen_path = pathlib.Path(model_path).parent / f".{pathlib.Path(model_path).stem}.frozen.onnx" \
                if has_external_data(model) else folder / "frozen.onnx"
            onnx.save(model, frozen_path)
        expected = run_peer(peer, inputs, folder, options, inside=False)
        outputs = [found for name, wanted in expected.items() if name in shipped
                   if (found := difference(name, shipped[name], wanted, options))]
        missing = [name for name in expected if name not in shipped]
        if missing:
            raise Refusal(f"rlx gives no output {', '.join(missing)}")
        if options.outputs_only:
            return Comparison(outputs, [], 0, [])
        kept = run_rlx(frozen_path, inputs, folder, options, keep_all=True)
        try:
            expected = run_peer(peer, inputs, folder, options, inside=True)
        except Refusal:
            return Comparison(outputs, [], 0, [])  # values inside that onnxruntime cannot hand out
    order = [name for node in model.graph.node for name in node.output if name in expected]
    known = [name for name in order if name in kept]
    rtol_of = coarsest(model, expected)
    inside = [found for name in known if (found := difference(name, kept[name], expected[name], options, rtol_of))]
    return Comparison(outputs, inside, len(known), [name for name in order if name not in kept],
                      only_fused=bool(outputs) and not inside)


def has_external_data(model):
    return any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer)


# ---- the command line

def node_of(model, name):
    for i, node in enumerate(model.graph.node):
        if name in node.output:
            return f"node {node.name or i} ({node.op_type} of {', '.join(node.input)})"
    return "an input"


def report(result, model):
    """Lines for a person."""
    if result.outputs:
        yield f"first output that differs: {result.outputs[0].name}: {result.outputs[0].what}"
        yield f"outputs that differ: {len(result.outputs)}"
    if result.inside:
        first = result.inside[0]
        yield f"first value inside that differs: {first.name}, of {node_of(model, first.name)}: {first.what}"
        yield f"values inside that differ: {len(result.inside)} of {result.compared}"
    if result.only_fused:
        yield "no value inside differs where every one is kept: it is their fusion; look with rlxrun --dump-after, or rlxc -O0"
    if not result.outputs and not result.inside:
        yield f"equal: every output, and {result.compared} values inside"
    if result.absent:
        yield (f"{len(result.absent)} values of the model are not compared, since rlx folds them away or computes them under no "
               f"name: {', '.join(result.absent[:8])}" + (", ..." if len(result.absent) > 8 else ""))


def pairs(words, read):
    found = {}
    for word in words:
        name, mark, value = word.rpartition("=")
        if not mark:
            sys.exit(f"compare_onnxruntime: error: {word}: wanted NAME=VALUE")
        found[name] = read(value)
    return found


def find_bin(given):
    for folder in [given] if given else [TOOLS.parent / "build/bin", pathlib.Path(shutil.which("rlxc") or "/").parent]:
        if (folder / "rlxc").exists() and (folder / "rlxrun").exists():
            return folder.resolve()
    sys.exit("compare_onnxruntime: error: rlxc and rlxrun were not found: give their folder as --bin")


def add_options(parser):
    """The options that a comparison needs, for this command and for tests/onnx/onnxruntime_test.py."""
    parser.add_argument("--bin", type=pathlib.Path, help="folder of rlxc and rlxrun (default: build/bin of this tree, then PATH)")
    parser.add_argument("--target", default="vulkan", help="vulkan, vulkan-nvidia or cuda")
    parser.add_argument("--optimisation", type=int, default=2, choices=(0, 1, 2), help="rlxc -O")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--integers-below", type=int, default=8, help="bound of seeded integers")
    parser.add_argument("--rtol", type=float, help="relative tolerance of floats (default: 1e-4 for f32, by type)")
    parser.add_argument("--atol", type=float, help="absolute tolerance of floats (default: a tenth of rtol of a tensor's largest)")
    parser.add_argument("--seed-weights", action="store_true",
                        help="seeded values for weights that the model makes by ConstantOfShape, as ONNX's light networks do")
    parser.add_argument("--outputs-only", action="store_true", help="compare no values inside the model")
    parser.add_argument("--optimized", action="store_true", help="onnxruntime's optimisations on, for the outputs")
    parser.add_argument("--rlxc", nargs="+", default=[], metavar="OPTION", help="more options of rlxc, as --rlxc=--precision=tf32")


def complete(args, dims=None, input_shapes=None, inputs=None, fixed=None):
    """Options as compare() wants them. fixed: values of inputs in case that they have to become constants."""
    args.bin = find_bin(args.bin)
    args.dims, args.input_shapes, args.inputs, args.fixed = dims or {}, input_shapes or {}, inputs or {}, fixed or {}
    return args


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--peer-model", type=pathlib.Path, help="the model that onnxruntime runs instead")
    parser.add_argument("--dim", nargs="+", default=[], metavar="NAME=N", action="extend")
    parser.add_argument("--input-shape", nargs="+", default=[], metavar="NAME=1x3x224x224", action="extend")
    parser.add_argument("--inputs", nargs="+", default=[], metavar="NAME=FILE.npy", action="extend")
    add_options(parser)
    args = parser.parse_args()
    complete(args, dims=pairs(args.dim, int), inputs=pairs(args.inputs, np.load),
             input_shapes=pairs(args.input_shape, lambda text: [int(dim) for dim in text.split("x")]))
    try:
        result = compare(args.model, args, args.peer_model)
    except Refusal as error:
        print(f"compare_onnxruntime: {error}", file=sys.stderr)
        sys.exit(2)
    print("\n".join(report(result, onnx.load(args.model, load_external_data=False))))
    sys.exit(4 if result.outputs or result.inside else 0)


if __name__ == "__main__":
    main()
