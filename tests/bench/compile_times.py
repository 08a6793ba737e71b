#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long rlxc takes for sources that are long or hard: chains, fans and ladders of 200,000 nodes, 50,000 nodes of layers, and
100 expensive functions in one chain. Nothing is run, so it needs no device; no cache of kernels is used.

    python3 tests/bench/compile_times.py --build build [--target vulkan] [--arch sm_90a] [--check] [NAME ...]

--check: exit code 1 where a source takes longer than its bound, which holds for two cores with nothing beside it.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

LONG = 200_000


def node(op, inputs, output, **attributes):
    result = {"op": op, "inputs": inputs, "outputs": [output]}
    if attributes:
        result["attributes"] = attributes
    return result


def graph(inputs, nodes, outputs, **fields):
    """inputs: name -> shape, or (dtype, shape)."""
    tensors = []
    for name, what in inputs.items():
        dtype, shape = what if isinstance(what, tuple) else ("f32", what)
        tensors.append({"name": name, "dtype": dtype, "shape": shape})
    return {"rlx_graph": 1, "inputs": tensors, "nodes": nodes, "outputs": outputs, **fields}


def chain(count, make):
    """make(i, value): a node of op and inputs behind `value`."""
    nodes = []
    for i in range(count):
        op, inputs, attributes = make(i, f"v{i}")
        nodes.append(node(op, inputs, f"v{i + 1}", **attributes))
    return nodes


def adds(count):
    return graph({"v0": [4], "c": [4]}, chain(count, lambda i, v: ("add", [v, "c"], {})), [f"v{count}"])


def ladder(count):
    return graph({"v0": [4]}, chain(count, lambda i, v: ("add", [v, v], {})), [f"v{count}"])


def products(count):
    def make(i, value):
        return ("matmul", [value, "w"], {}) if i % 2 else ("relu", [value], {})
    return graph({"v0": [4, 4], "w": [4, 4]}, chain(count, make), [f"v{count}"])


def fan(count):
    """One value with half as many readers, whose results are added up."""
    half = count // 2
    nodes = [node("neg", ["x"], "v")]
    nodes += [node("affine", ["v"], f"y{i}", mul=1.0, add=float(i % 16)) for i in range(half)]
    nodes += [node("abs", ["y0"], "s0")]
    nodes += [node("add", [f"s{i - 1}", f"y{i}"], f"s{i}") for i in range(1, half)]
    return graph({"x": [4]}, nodes, [f"s{half - 1}"])


def live_fan(count):
    """The same with products, each a step of its own: half of them live at once."""
    half = count // 2
    nodes = [node("neg", ["x"], "v")]
    nodes += [node("matmul", ["v", f"w{i % 7}"], f"y{i}") for i in range(half)]
    nodes += [node("softmax", ["y0"], "s0")]
    nodes += [node("matmul", [f"s{i - 1}", f"y{i}"], f"s{i}") for i in range(1, half)]
    return graph({"x": [4, 4], **{f"w{i}": [4, 4] for i in range(7)}}, nodes, [f"s{half - 1}"])


def outputs(count):
    nodes = [node("affine", ["x"], f"y{i}", mul=1.0, add=float(i % 10)) for i in range(count)]
    return graph({"x": [4]}, nodes, [f"y{i}" for i in range(count)])


def constants(count):
    tensors = [{"name": name, "dtype": "f32", "shape": [4], "data": {"values": [1, 2, 3, 4]}} for name in ("v0", "c")]
    nodes = chain(count, lambda i, v: ("add", [v, "c"], {})) + [node("add", [f"v{count}", "x"], "y")]
    return graph({"x": [4]}, nodes, ["y"], constants=tensors)


def reshapes(count):
    nodes = chain(count, lambda i, v: ("reshape", [v], {"shape": [4] if i % 2 else [2, 2]}))
    return graph({"v0": [4]}, nodes + [node("neg", [f"v{count}"], "y")], ["y"])


def states(count):
    half = count // 2
    tensors = [{"name": f"s{i}", "dtype": "f32", "shape": [4]} for i in range(half)]
    nodes = []
    for i in range(half):
        nodes += [node("add", [f"s{i}", "x"], f"t{i}"), node("state_write", [f"s{i}", f"t{i}"], f"u{i}")]
    return graph({"x": [4]}, nodes, [], states=tensors)


def layers(count):
    """Attention, feed-forward and some elementwise code, over and over."""
    nodes = []

    def add(op, inputs, **attributes):
        nodes.append(node(op, inputs, f"t{len(nodes)}", **attributes))
        return nodes[-1]["outputs"][0]

    value = "x"
    while len(nodes) < count:
        normal = add("layer_norm", [value, "gamma", "beta"])
        heads = [add("reshape", [add("matmul", [normal, w])], shape=[2, 4, 8]) for w in ("wq", "wk", "wv")]
        scores = add("affine", [add("matmul", heads[:2], trans_b=True)], mul=0.35)
        mixed = add("matmul", [add("softmax", [scores], axis=-1), heads[2]])
        value = add("add", [value, add("matmul", [add("reshape", [mixed], shape=[8, 8]), "wo"])])
        hidden = add("matmul", [add("layer_norm", [value, "gamma", "beta"]), "up"])
        hidden = add("gelu", [add("add", [hidden, "up_bias"])])
        value = add("add", [value, add("matmul", [hidden, "down"])])
        turned = add("transpose", [value], perm=[1, 0])
        centred = add("sub", [value, add("reduce_mean", [value], axes=[-1], keep_dims=True)])
        size = add("tanh", [add("sqrt", [add("mul", [centred, centred])])])
        joined = add("concat", [size, value], axis=-1)
        value = add("add", [add("narrow", [joined], axis=1, start=4, len=8), turned])
    square = {name: [8, 8] for name in ("x", "wq", "wk", "wv", "wo")}
    return graph({**square, "gamma": [8], "beta": [8], "up": [8, 32], "up_bias": [32], "down": [32, 8]}, nodes, [value])


UNARY = ("sin tan log1p erf gelu asinh acosh softplus exp tanh sinh cosh atanh log_sigmoid silu mish sigmoid elu "
         "expm1 log").split()


def functions(ops, dtype="f32", count=100):
    def make(i, value):
        op = ops[(i * i + 3 * i) % len(ops)]
        return (op, [value, "c"], {}) if op in ("pow", "mod", "fmod", "floor_div", "div", "atan2", "max") else (op, [value], {})
    return graph({"v0": (dtype, [1024]), "c": (dtype, [1024])}, chain(count, make), [f"v{count}"])


def casts(count=100):
    kinds = ["f8e4m3", "bf16", "f8e5m2", "f16", "i64", "f32"]
    nodes = chain(count, lambda i, v: ("cast", [v], {"to": kinds[i % len(kinds)]}))
    return graph({"v0": [1024]}, nodes, [f"v{count}"])


def selects(count=100):
    nodes = []
    for i in range(count):
        nodes += [node("gt", [f"v{i}", "c"], f"b{i}"), node("where", [f"b{i}", f"v{i}", "c" if i % 2 else "d"], f"v{i + 1}")]
    return graph({"v0": [1024], "c": [1024], "d": [1024]}, nodes, [f"v{count}"])


def one_region(count=100):
    steps = [f"{UNARY[i % len(UNARY)]}({i})" for i in range(count)]
    return graph({"x": [1024]}, [node("ew_region", ["x"], "y", chain=steps)], ["y"])


# Name, source, bound in seconds.
SOURCES = [
    ("adds", lambda: adds(LONG), 10),
    ("ladder", lambda: ladder(LONG), 10),
    ("products", lambda: products(LONG), 10),
    ("fan", lambda: fan(LONG), 10),
    ("live_fan", lambda: live_fan(LONG), 10),
    ("outputs", lambda: outputs(LONG), 10),
    ("constants", lambda: constants(LONG), 10),
    ("reshapes", lambda: reshapes(LONG), 10),
    ("states", lambda: states(LONG), 10),
    ("layers", lambda: layers(50_000), 20),
    ("sines", lambda: functions(["sin"]), 1),
    ("functions", lambda: functions(UNARY), 1),
    ("powers", lambda: functions(["pow", "mod", "fmod", "floor_div", "div", "atan2", "tan"]), 1),
    ("doubles", lambda: functions(UNARY + ["pow", "mod"], "f64"), 1),
    ("integers", lambda: functions(["div", "mod", "pow", "floor_div", "max"], "i64"), 1),
    ("casts", casts, 1),
    ("selects", selects, 1),
    ("one_region", one_region, 1),
]


def measure(args, name, source, folder):
    path = folder / f"{name}.json"
    path.write_text(json.dumps(source))
    command = [args.build / "bin/rlxc", path, "-o", folder / f"{name}.plan", "--no-cache", "--target", args.target, "--json"]
    if args.arch:
        command += ["--arch", args.arch]
    start = time.monotonic()
    process = subprocess.run(command, capture_output=True, text=True)
    seconds = time.monotonic() - start
    if process.returncode != 0:
        sys.exit(f"{name}: {process.stderr.strip()}")
    return seconds, json.loads(process.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of: " + " ".join(name for name, _, _ in SOURCES))
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder whose bin/ holds rlxc")
    parser.add_argument("--target", default="vulkan", help="as rlxc takes it")
    parser.add_argument("--arch", help="rlxc --arch: CUDA architectures")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    unknown = set(args.names) - {name for name, _, _ in SOURCES}
    if unknown:
        parser.error("no source is called " + ", ".join(sorted(unknown)))
    late = []
    print(f"{'source':12} {'nodes':>8} {'steps':>8} {'kernels':>8} {'seconds':>8} {'bound':>6}")
    with tempfile.TemporaryDirectory() as name:
        for source, make, bound in SOURCES:
            if args.names and source not in args.names:
                continue
            made = make()
            seconds, summary = measure(args, source, made, pathlib.Path(name))
            print(f"{source:12} {len(made['nodes']):8} {summary['steps']:8} {summary['kernels']:8} {seconds:8.2f} {bound:6}", flush=True)
            if seconds > bound:
                late.append(source)
    if args.check and late:
        sys.exit("later than their bounds: " + ", ".join(late))


if __name__ == "__main__":
    main()
