#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports a PyTorch model as a graph file of rlx, with its weights in a safetensors file beside it.

    python3 tools/rlx_export.py mymodule:make_model --input x=1x3x224x224:f32 -o model.rlxg
    python3 tools/rlx_export.py model.py:Net --input ids=2x16:i64 --dynamic ids.0=batch ids.1=seq:1:512 -o model.json
    python3 tools/rlx_export.py saved.pt2 -o model.rlxg
    build/bin/rlxc model.rlxg -o model.plan --target vulkan,cuda --dim batch=8 --dim seq=128

    python3 tools/rlx_export.py model.py:Net --input x=8x784:f32 target=8:i64 --train torch.nn.functional:cross_entropy -o model.json
    build/bin/rlxc model.json -o train.plan --grad LOSS --optimizer adamw    # LOSS: as this program says

MODEL is MODULE:NAME or FILE.py:NAME, where NAME is a module or a callable that makes one, or a program saved by
torch.export.save. Inputs are named as the parameters of its forward. As a library:

    import rlx_export  # with tools/ on sys.path
    rlx_export.export(module, (x,), "model.rlxg", dynamic={"x": {0: "batch"}})

The program comes from torch.export, so it needs a PyTorch that has torch.export.default_decompositions (run with 2.11) and nothing
else; the package safetensors is used where it is installed. --train LOSS takes a loss behind the model, called with its result and with
inputs of its own, those of its parameters without a default; dropout is active then, norms over batches keep their statistics. Buffers that forward assigns to become states. What has no
counterpart is refused, all of it at once.
"""
import argparse
import contextlib
import importlib
import importlib.util
import inspect
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings

TOOLS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))
try:
    import sympy  # comes with PyTorch
    import torch
    from torch.export.graph_signature import InputKind, OutputKind
except ImportError as error:
    sys.exit(f"rlx_export: error: PyTorch is needed, with torch.export, in the python3 that has the model (pip install torch): {error}")
if not hasattr(torch.export, "default_decompositions"):
    sys.exit(f"rlx_export: error: PyTorch {torch.__version__} has no torch.export.default_decompositions; a newer one is needed")

import rlx_export_asked  # noqa: E402
import rlx_export_complex  # noqa: E402, F401  handlers register themselves
import rlx_export_counts  # noqa: E402
import rlx_export_detection  # noqa: E402
import rlx_export_extensions  # noqa: E402
import rlx_export_flex  # noqa: E402
import rlx_export_indexing  # noqa: E402, F401
import rlx_export_linalg  # noqa: E402
import rlx_export_nn  # noqa: E402, F401
import rlx_export_sampling  # noqa: E402, F401
import rlx_export_sizes  # noqa: E402
import rlx_export_special  # noqa: E402, F401
from rlx_export_aten import HANDLERS  # noqa: E402
from rlx_export_graph import DTYPES, Graph, Scope, Tensor, Unsupported, dtype_name, expression, known  # noqa: E402

FLOATS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}
NAMED_DTYPES = {name: dtype for dtype, name in DTYPES.items()}
MOST_DIM = (1 << 40) - 1  # of a graph file
LARGEST_DIM = 1 << 31  # of a dynamic dimension for which no maximum is given
# Nodes that compute nothing: checks of what torch.export assumed.
IGNORED = ("_assert_async", "_assert_tensor_metadata", "sym_constrain_range", "_check")
CONTROL_FLOW = ("cond", "while_loop", "scan")  # of torch.ops.higher_order
MOST_WORDS = 600  # characters of another program's error
SAMPLES = 65  # values of each dynamic dim for which an assertion on shapes is tried


class ExportError(Exception):
    """What cannot be exported, in words for the user."""


# ---- from a module to a program

def capture(module, args=(), kwargs=None, dynamic=None, assume_values=False):
    """The module in evaluation mode, exported and decomposed into the operators that there are handlers for."""
    kwargs = dict(kwargs or {})
    if not hasattr(module, "rlx_trains"):
        module.eval()
    names = list(inspect.signature(module.forward).parameters)
    given = dict(zip(names, args)) | kwargs
    shapes, ranges = dynamic_shapes(given, dynamic or {})
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # one operator for a whole layer, which nothing decomposes
    told = set()
    try:
        answers = rlx_export_asked.answers_of(module, args, kwargs) if assume_values else {}
        with (rlx_export_asked.rows_are_there(told), rlx_export_asked.Answered(answers) as answered,
              rlx_export_asked.Known(module, told) as known_values):
            try:
                program = trace(module, args, kwargs, shapes)
            except Exception as error:  # noqa: BLE001  torch.export raises errors of many types
                # What it cannot prove of dynamic dims may hold all the same: assertions in the program, which Converter checks.
                # An AssertionError is its own, where it tells which ranges of dynamic dims would do.
                if "Constraints violated" not in str(error) and not (dynamic and isinstance(error, AssertionError)):
                    raise
                program = trace(module, args, kwargs, shapes, prefer_deferred_runtime_asserts_over_guards=True)
    except Exception as error:  # noqa: BLE001
        text = str(error).strip().split("\n\nThe error above occurred")[0]
        said = ": ".join(word for word in ("torch.export", type(error).__name__, text, place_of(error)) if word)
        raise ExportError(said + rlx_export_asked.advice(error)) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
    changed = known_values.asked & {spec.target for spec in program.graph_signature.output_specs
                                    if spec.kind == OutputKind.BUFFER_MUTATION}
    if changed:
        raise ExportError(f"the model goes on by the value of {', '.join(sorted(changed))}, which it assigns to: a program has one way; "
                          "write it with torch.where or torch.cond")
    return program, ranges, [*answered.told(), *sorted(told)]


@contextlib.contextmanager
def unasked_values():
    """Without what PyTorch's own modules ask tensors' values for, and compute the same without: checks of a distribution's arguments,
    and whether a transformer's mask, which is given anyway, is causal."""
    distribution, transformer = torch.distributions.Distribution, torch.nn.modules.transformer
    validates, detect = distribution._validate_args, transformer._detect_is_causal_mask
    distribution._validate_args = False
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True
    try:
        yield
    finally:
        distribution._validate_args, transformer._detect_is_causal_mask = validates, detect


@contextlib.contextmanager
def shared_sizes(module, shapes):
    """Axes of one dynamic dimension are told to be equal before the module runs: torch.export has a symbol for each input, and takes it to
    be another until it meets a reason."""
    def tell(module, args, kwargs):
        given = dict(zip(names, args)) | kwargs
        first = {}
        for name, axes in (shapes or {}).items():
            for axis, dim in (axes or {}).items():
                size = given[name].shape[axis]
                if size != first.setdefault(dim.__name__, size):
                    raise ExportError(f"--dynamic {dim.__name__}: {name}.{axis} has {size}, another axis {first[dim.__name__]}")

    names = list(inspect.signature(module.forward).parameters)
    hook = module.register_forward_pre_hook(tell, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


def place_of(error):
    """The model's own line that an error of the trace comes from; empty where all is PyTorch's and ours."""
    others = (str(pathlib.Path(torch.__file__).parent), str(TOOLS))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith((*others, "<"))]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""


@contextlib.contextmanager
def kept_attributes(module):
    """What a module keeps of a run in attributes, or in dictionaries there, as anchors for the sizes that it saw last, is of the
    trace alone."""
    before = []
    for part in module.modules():
        before += [(kept, dict(kept)) for kept in (part.__dict__, *part.__dict__.values()) if type(kept) is dict]
    try:
        yield
    finally:
        for kept, entries in before:
            kept.clear()
            kept.update(entries)


def trace(module, args, kwargs, shapes, **options):
    with (kept_attributes(module), shared_sizes(module, shapes), torch.no_grad(), unasked_values(), rlx_export_detection.traceable(),
          rlx_export_flex.traceable(), rlx_export_sizes.any_size(), warnings.catch_warnings()):
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch's own, of its own functions
        return torch.export.export(module, tuple(args), kwargs, dynamic_shapes=shapes, strict=False, **options)


def with_loss(module, loss):
    """The module with a loss behind it, in training mode: its forward takes the loss's other arguments too, and gives the loss before
    its own results."""
    forward = module.forward
    own = inspect.signature(forward).parameters
    further = [p for p in list(inspect.signature(loss).parameters.values())[1:] if p.default is p.empty and p.name not in own]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in [*own.values(), *further]):
        raise ExportError("--train: the parameters of the model's forward and of the loss must have names, no * and **")

    def run(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        result = forward(**{name: value for name, value in given.items() if name in own})
        value = loss(result, *(given[p.name] for p in further))
        return (value, *(result if isinstance(result, tuple) else (result,)))

    plain = [p.replace(kind=p.KEYWORD_ONLY) for p in [*own.values(), *further]]
    signature = run.__signature__ = inspect.Signature(plain)
    module.forward, module.rlx_trains = run, True
    module.train()
    for part in module.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            part.eval()
    return module


def dynamic_shapes(given, dynamic):
    """torch.export's dynamic_shapes, and {name: (min, max, multiple)}. dynamic: {input: {axis: name, or (name, min, max[,
    multiple])}}."""
    unknown = set(dynamic) - set(given)
    if unknown:
        raise ExportError(f"--dynamic: there is no input {', '.join(sorted(unknown))}; the inputs are {', '.join(given)}")
    dims, ranges, shapes = {}, {}, {}
    for name, value in given.items():
        axes = {}
        for axis, wanted in dynamic.get(name, {}).items():
            label, low, high, multiple = whole_range(wanted)
            rank = value.dim() if isinstance(value, torch.Tensor) else 0
            if not -rank <= axis < rank:
                raise ExportError(f"--dynamic {name}.{axis}: the input has {rank} axes")
            if ranges.setdefault(label, (low, high, multiple)) != (low, high, multiple):
                raise ExportError(f"--dynamic {label}: two ranges, {ranges[label]} and {(low, high, multiple)}")
            dims.setdefault(label, torch.export.Dim(label, min=low, max=high))
            axes[axis % rank] = dims[label]
        shapes[name] = axes or None
    return (shapes if dims else None), ranges


def whole_range(wanted):
    """A symbol's name, smallest and largest value, and what divides it."""
    values = wanted if isinstance(wanted, tuple) else (wanted,)
    return (*values, *(None, 1, LARGEST_DIM, 1)[len(values):])


def tensor_of(program, spec):
    tensor = program.state_dict.get(spec.target)
    return program.constants.get(spec.target) if tensor is None else tensor


def unite_buffers(program):
    """Caches that are no modules are constants to torch.export, and buffers of the module beside it where it registered the
    same tensors. A constant that is a buffer's tensor becomes that buffer, so that what is assigned to it is a state."""
    signature, graph = program.graph_signature, program.graph
    placeholders = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    buffers = {}
    for spec in signature.input_specs:
        tensor = tensor_of(program, spec) if spec.kind == InputKind.BUFFER else None
        if tensor is not None and tensor.numel():
            buffers[identity_of(tensor)] = placeholders[spec.arg.name]
    for spec in [spec for spec in signature.input_specs if spec.kind == InputKind.CONSTANT_TENSOR]:
        tensor = tensor_of(program, spec)
        buffer = buffers.get(identity_of(tensor)) if isinstance(tensor, torch.Tensor) else None
        if buffer is None:
            continue
        placeholders[spec.arg.name].replace_all_uses_with(buffer)
        graph.erase_node(placeholders[spec.arg.name])
        signature.input_specs.remove(spec)
        program.constants.pop(spec.target)
    program.graph_module.recompile()


def identity_of(tensor):
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()


def decompose(program):
    """The program in the operators that there are handlers for, without assignments. What PyTorch makes of it has to give the
    outputs that the program had."""
    unite_buffers(program)
    before = output_types(program)
    try:
        program = run_decompositions(program)
    except Exception as error:  # noqa: BLE001  PyTorch's own, of many types
        if isinstance(error, ExportError):
            raise
        text = str(error).strip().split("\n")[0]
        raise ExportError(f"PyTorch {torch.__version__} cannot take its own program apart (run_decompositions): "
                          f"{type(error).__name__}: {text}\n  The fault is not in the exporter: try another version of PyTorch, or "
                          "export the model's parts one by one to find the one that it stumbles over") from error
    after = output_types(program)
    wrong = [f"output {i} is {new}, the model's is {old}" for i, (old, new) in enumerate(zip(before, after)) if old != new]
    if wrong:
        raise ExportError(f"PyTorch {torch.__version__} takes its own program apart wrongly (run_decompositions): "
                          f"{'; '.join(wrong)}\n"
                          "  Try another version of PyTorch, or write the part that gives this output with other operators")
    rlx_export_flex.drop_unread(program)
    return program


def output_types(program):
    """What the user's outputs are, dims that are no numbers left out."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    names = [spec.arg.name for spec in program.graph_signature.output_specs
             if spec.kind == OutputKind.USER_OUTPUT and getattr(spec.arg, "name", None) in values]
    tensors = [value for value in map(values.get, names) if isinstance(value, torch.Tensor)]
    return [f"{dtype_name(value.dtype)}{['?' if known(dim) is None else known(dim) for dim in value.shape]}" for value in tensors]


def run_decompositions(program):
    kept = torch.export.default_decompositions()
    for op in HANDLERS:
        if not isinstance(op, str):
            kept.pop(op, None)
    with warnings.catch_warnings(), torch.no_grad(), rlx_export_sizes.any_size():
        warnings.simplefilter("ignore", FutureWarning)
        return program.run_decompositions(kept)


# ---- from a program to a graph

class Converter:
    def __init__(self, program, name, dynamic, ranges, max_iterations=None, max_count=None, trains=False):
        self.program, self.ranges, self.trains = program, ranges, trains
        self.labels = {(key, axis): wanted[0] if isinstance(wanted, tuple) else wanted  # the user's name of an input's axis
                       for key, axes in dynamic.items() for axis, wanted in axes.items()}
        self.graph = Graph(name)
        self.module = program.graph_module  # whose nodes are being converted
        self.max_iterations = max_iterations
        self.counts = rlx_export_counts.Counts(self.graph, max_count)
        self.values = {}  # node's name: Tensor, or list of them
        self.weights = {}  # node's name: its value, of weights that the run does not change
        self.faults = []  # (operator, why, node, source)

    def run(self):
        outputs = self.program.graph_signature.output_specs
        self.mutated = {spec.target for spec in outputs if spec.kind == OutputKind.BUFFER_MUTATION}
        if any(spec.kind == OutputKind.USER_INPUT_MUTATION for spec in outputs):
            raise ExportError("the model assigns to an input; assign to a copy")
        specs = {spec.arg.name: spec for spec in self.program.graph_signature.input_specs}
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self.add_placeholder(node, specs[node.name])
            elif node.op == "call_function":
                self.add_node(node)
            elif node.op == "output":
                last = node
        if self.faults:
            raise ExportError(self.list_faults())
        self.add_outputs(last)
        return self.graph

    def add_placeholder(self, node, spec):
        if spec.kind == InputKind.USER_INPUT:
            self.add_input(node)
        elif not node.users and spec.target not in self.mutated:
            return
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            tensor = self.program.state_dict.get(spec.target)
            tensor = self.program.constants[spec.target] if tensor is None else tensor
            kind = self.graph.params if spec.kind == InputKind.PARAMETER else self.graph.constants
            kind = self.graph.states if spec.target in self.mutated else kind
            self.values[node.name] = self.graph.weight(kind, spec.target, tensor.detach())
            if kind is not self.graph.states and not self.trains:
                self.weights[node.name] = tensor.detach()
        elif spec.kind != InputKind.TOKEN:  # a token orders effects, of which no model has any but checks
            raise ExportError(f"{spec.target}: an input of kind {spec.kind.name.lower()} cannot be exported")

    def add_input(self, node):
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor):
            if value is not None and node.users:
                raise ExportError(f"input {node.name}: {type(value).__name__} is no tensor; fix it in the model")
            return
        name = self.graph.unique(node.name)
        for axis, dim in enumerate(value.shape):
            label = self.labels.get((name, axis)) or self.labels.get((name, axis - value.dim()))
            self.declare(dim, label or f"{name}_{axis}")
        shape = self.graph.dims(value.shape, f"input {name}")
        self.graph.inputs.append({"name": name, "dtype": dtype_name(value.dtype), "shape": shape})
        self.values[node.name] = Tensor(name, value.dtype, tuple(value.shape))

    def declare(self, dim, label):
        """A dynamic dimension, by the name that the user gave it: torch.export calls it by one of its own."""
        symbol = expression(dim)
        if symbol.is_Integer or symbol in self.graph.symbols:
            return
        if not symbol.is_Symbol:
            raise ExportError(f"{label} has the size {symbol}; a dynamic dimension is one number, not an expression")
        first = next((other for other, row in self.graph.symbols.items() if row["name"] == label), None)
        if first is not None:  # torch.export has a symbol for each input, and asserts that they are equal
            dim.node.shape_env.replacements[symbol] = first
            dim.node.shape_env._update_version_counter()
            return
        bounds = self.program.range_constraints.get(symbol)
        low, high, multiple = self.ranges.get(label, (1, LARGEST_DIM, 1))
        if bounds is not None:
            low = max(low, int(bounds.lower)) if bounds.lower.is_Integer else low
            high = min(high, int(bounds.upper)) if bounds.upper.is_Integer else high
        self.graph.names.add(label)
        self.graph.symbols[symbol] = {"name": label, "min": low, "max": high, "multiple_of": multiple}

    def add_node(self, node):
        target = str(node.target)
        if target == "aten._local_scalar_dense.default":
            scope = Scope(self.graph, node, source_of(node), self.counts)
            node.meta["counted"] = node.meta["val"]
            self.values[node.name] = scope.finish(self.counts.read_number(scope, self.resolve(node.args[0])))
            return
        if is_only_checked(node):
            return
        try:
            self.counts.enter(node)
        except Unsupported as error:
            self.faults.append((target, str(error), node.name, source_of(node)))
            self.values[node.name] = self.stand_in(node.meta.get("val"))
            return
        value = node.meta.get("val")
        if node.target.__name__ == "getitem" and node.args[0].name in self.values:
            self.pick(node)
            return
        if node.target.__name__ == "getitem" and str(node.args[0].target) == "with_effects":
            return
        if is_check(node):
            return
        if target in CONTROL_FLOW:
            self.add_control_flow(node, target)
            return
        if "_assert_scalar" in target:
            self.check_assertion(self.resolve(node.args[0]))
            return
        is_number = isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool))
        if is_number or any(word in target for word in IGNORED):
            return
        handler = handler_of(node) or (constant if is_constant(node) else None)
        source = source_of(node)
        if (handler is None or node.target in rlx_export_linalg.FOLDED_FIRST) and self.fold(node):
            return
        if handler is None:
            self.faults.append((target, "it has no counterpart", node.name, source))
            self.values[node.name] = self.stand_in(value)
            return
        scope = Scope(self.graph, node, source, self.counts)
        try:
            arguments = self.counts.give_filled(scope, node, self.bind(node, scope))
            self.values[node.name] = scope.finish(handler(scope, **arguments))
        except Unsupported as error:
            if self.fold(node):
                return
            self.faults.append((target, str(error), node.name, source))
            self.values[node.name] = self.stand_in(value)

    def fold(self, node):
        """What rlx cannot compute, of weights alone, is computed here once: parametrisations, determinants of weights."""
        result = self.value_of_weights(node)
        if result is None:
            return False
        parts = list(result) if isinstance(result, (tuple, list)) else [result]
        parts = [self.graph.weight(self.graph.constants, f"{node.name}.{i}", part) for i, part in enumerate(parts)]
        self.values[node.name] = parts if isinstance(result, (tuple, list)) else parts[0]
        return True

    def value_of_weights(self, node):
        """The value of a node that weights and numbers alone decide, or None."""
        pending = [node]
        while pending:  # by a list, for a program may be deeper than Python's stack; each node is looked at once
            source = pending[-1]
            inputs = [] if source.name in self.weights else source.all_input_nodes if is_computed(source) else []
            unknown = [part for part in inputs if part.name not in self.weights]
            pending += unknown
            if unknown:
                continue
            pending.pop()
            if source.name not in self.weights:
                self.weights[source.name] = self.computed(source, inputs)
        return self.weights[node.name]

    def computed(self, node, inputs):
        values = {source: self.weights[source.name] for source in inputs}
        if not values or any(value is None for value in values.values()):
            return None
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), values.get)
        with torch.no_grad():
            return node.target(*args, **kwargs)

    def add_control_flow(self, node, target):
        source = source_of(node)
        try:
            row = getattr(self, "convert_" + target)(*node.args)
        except Unsupported as error:
            self.faults.append((target, str(error), node.name, source))
            self.values[node.name] = self.stand_in(node.meta["val"])
            return
        results = [Tensor(self.graph.unique(f"{node.name}.{i}"), value.dtype, tuple(value.shape))
                   for i, value in enumerate(node.meta["val"])]
        row = {"name": self.graph.unique(node.name), **row, "outputs": [result.name for result in results]}
        if source:
            row["source"] = source
        self.graph.nodes.append(row)
        self.values[node.name] = results

    def operands(self, nodes):
        """The names of tensors that a body is given."""
        tensors = [self.resolve(node) for node in nodes]
        if not all(isinstance(tensor, Tensor) for tensor in tensors):
            raise Unsupported("an operand that is no tensor; make it one with torch.tensor, or fix it in the model")
        return [tensor.name for tensor in tensors]

    def body(self, function, order=None):
        """A graph of the program as a body; order: of its inputs by their places."""
        outer = self.module, self.values, self.graph.nodes
        self.module, self.values, self.graph.nodes = getattr(self.module, function.target), {}, []
        inputs, outputs = [], []
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                value = node.meta["val"]
                if not isinstance(value, torch.Tensor):
                    raise Unsupported("a body with an input that is no tensor")
                inputs.append(self.graph.unique(f"{function.target}.{node.name}"))
                self.values[node.name] = Tensor(inputs[-1], value.dtype, tuple(value.shape))
            elif node.op == "call_function":
                self.add_node(node)
            elif node.op == "output":
                outputs = self.operands(node.args[0] if isinstance(node.args[0], (tuple, list)) else [node.args[0]])
        nodes = self.graph.nodes
        self.module, self.values, self.graph.nodes = outer
        return {"inputs": [inputs[at] for at in order] if order else inputs, "nodes": nodes, "outputs": outputs}

    def convert_cond(self, predicate, taken, other, operands=()):
        return {"op": "if", "inputs": self.operands([predicate, *operands]),
                "bodies": {"then": self.body(taken), "else": self.body(other)}}

    def convert_while_loop(self, condition, function, carried, additional=()):
        if self.max_iterations is None:
            raise Unsupported("how many trips it takes is known only in the run; say how many there are at most with --max-iterations")
        return {"op": "while", "inputs": self.operands([*carried, *additional]), "attributes": {"max_iterations": self.max_iterations},
                "bodies": {"cond": self.body(condition), "body": self.body(function)}}

    def convert_scan(self, function, init, xs, additional=()):
        # Here: carries, slices, what every step sees; in a graph file what every step sees stands second.
        carries, sliced = len(init), len(xs)
        order = [*range(carries), *range(carries + sliced, carries + sliced + len(additional)), *range(carries, carries + sliced)]
        return {"op": "scan", "inputs": self.operands([*init, *additional, *xs]),
                "attributes": {"num_carry": carries, "num_bcast": len(additional), "num_xs": sliced},
                "bodies": {"body": self.body(function, order)}}

    def check_assertion(self, value):
        """What torch.export could not prove of dynamic dims, tried over their ranges."""
        if value is None:
            return  # of a node that is refused
        condition = expression(value)
        if isinstance(condition, sympy.Ne) and condition.rhs == 1 and not condition.lhs.is_Symbol:
            return  # asked for strides alone: here a dimension of 1 is none apart
        rows = [(symbol, self.graph.symbols.get(symbol)) for symbol in sorted(condition.free_symbols, key=str)]
        if any(row is None for _, row in rows):
            return  # sizes that depend on data; what gives them is refused
        tries = [{}]
        for symbol, row in rows:
            others = [{other: values_of(bounds)[at] for other, bounds in rows if other != symbol} for at in (0, -1)]
            tries += [{symbol: value, **rest} for value in values_of(row) for rest in others]
        if not all(bool(condition.subs(values)) for values in (tries[1:] or tries)):
            raise ExportError(f"the program of torch.export holds only where {self.graph.text(condition)}: narrow the range of the "
                              "dynamic dimensions, or say what divides them, as --dynamic x.1=seq:2:512 x.2=height:32:512:32")

    def pick(self, node):
        results, at = self.values[node.args[0].name], node.args[1]
        if at < len(results):
            self.values[node.name] = results[at]
        elif not all(is_check(user) for user in node.users):
            source = source_of(node.args[0])
            self.faults.append((str(node.args[0].target), f"its result {at} has no counterpart", node.args[0].name, source))
            self.values[node.name] = self.stand_in(node.meta["val"])

    def stand_in(self, value):
        """For the result of a node that failed, so that the nodes after it are looked at too."""
        if isinstance(value, (tuple, list)):
            return [self.stand_in(part) for part in value]
        return Tensor("?", value.dtype, tuple(value.shape)) if isinstance(value, torch.Tensor) else None

    def bind(self, node, scope):
        """The arguments by the names of the operator's schema, with its defaults. Named as a scope or Python would, they change:
        self is x, s is s_."""
        arguments = {}
        for i, slot in enumerate(node.target._schema.arguments):
            value = node.args[i] if i < len(node.args) else node.kwargs.get(slot.name, slot.default_value)
            value = self.resolve(value, scope, slot.name in ("other", "min", "max"))
            arguments[{"self": "x", "s": "s_"}.get(slot.name, slot.name)] = value
        for name in ("layout", "device", "pin_memory", "non_blocking", "memory_format", "generator"):
            arguments.pop(name, None)
        if "dtype" in arguments and "dtype" not in accepted(handler_of(node) or constant):
            arguments.pop("dtype")
        return arguments

    def resolve(self, value, scope=None, is_operand=False):
        """A node's value, and lists of them. Numbers that the data give become tensors in the scope where they are operands, or were read
        from tensors."""
        if isinstance(value, torch.fx.Node):
            number = scope and self.counts.as_operand(scope, value, is_operand)
            return number or (self.values[value.name] if value.name in self.values else value.meta["val"])
        if isinstance(value, (list, tuple)):
            return [self.resolve(part, scope) for part in value]
        return value

    def add_outputs(self, node):
        names = output_names(self.program)
        specs = self.program.graph_signature.output_specs
        for spec, value in zip(specs, node.args[0]):
            if spec.kind == OutputKind.BUFFER_MUTATION:
                state = self.graph.states[spec.target]["name"]
                self.add_end("state_write", [state, self.values[value.name].name], f"{state}.new")
            elif spec.kind == OutputKind.USER_OUTPUT:
                name = next(names)
                if not isinstance(value, torch.fx.Node) or not isinstance(self.values.get(value.name), Tensor):
                    if value is None:
                        continue
                    raise ExportError(f"output {name} is {value}, no tensor")
                self.graph.outputs.append(self.add_end("identity", [self.values[value.name].name], name))
                self.add_counts(value, name)
        if not self.graph.outputs:
            raise ExportError("the model returns no tensor")

    def add_counts(self, node, name):
        """How many rows of an output count, where the data decide."""
        scope = Scope(self.graph, node, None, self.counts)
        for size in rlx_export_counts.counted_axes(node.meta.get("counted")).values():
            count = self.counts.value(scope, size)
            self.graph.nodes += scope.added
            scope.added = []
            self.graph.outputs.append(self.add_end("identity", [count.name], f"{name}.count"))

    def add_end(self, op, inputs, name):
        name = self.graph.unique(name)
        self.graph.nodes.append({"name": name, "op": op, "inputs": inputs, "outputs": [name]})
        return name

    def list_faults(self):
        """Every operator that cannot be exported, with each place of it."""
        lines = [f"{len(self.faults)} of the model's nodes cannot be exported:"]
        for target, why in dict.fromkeys((fault[0], fault[1]) for fault in self.faults):
            lines.append(f"  {target}: {why}")
            lines += [f"    node {fault[2]}, in {fault[3] or 'the model itself'}" for fault in self.faults
                      if fault[:2] == (target, why)]
        return "\n".join(lines)


def values_of(row):
    """Some values of a symbol: the smallest, the largest, and some between."""
    step = row["multiple_of"]
    low, high = -(-row["min"] // step), row["max"] // step
    near = range(low, min(high, low + SAMPLES // 2) + 1)
    return [step * value for value in sorted({*near, *(low + (high - low) * i // SAMPLES for i in range(SAMPLES)), high})]


def is_computed(node):
    """By its inputs alone, each time the same."""
    return node.op == "call_function" and torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ())


def is_check(node):
    """An effect that tells of errors alone."""
    return str(node.target) == "with_effects" and any(word in str(node.args[1]) for word in IGNORED)


def is_only_checked(node):
    """A number that no node but an assertion reads."""
    pending, seen = [node], set()
    while pending:
        part = pending.pop()
        if part in seen:
            continue
        seen.add(part)
        if "_assert_scalar" in str(part.target):
            continue
        if not isinstance(part.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool)) or not part.users:
            return False
        pending += part.users
    return "_assert_scalar" not in str(node.target)


def handler_of(node):
    return HANDLERS.get(node.target) or HANDLERS.get(str(node.target))


def is_constant(node):
    """Whether a tensor follows from numbers alone, and not from chance: windows of signals, indices of triangles."""
    return (isinstance(node.meta.get("val"), torch.Tensor) and not node.all_input_nodes
            and torch.Tag.nondeterministic_seeded not in node.target.tags)


def constant(s, **_):
    on_host = {"device": "cpu"} if "device" in s.node.kwargs else {}
    return s.graph.weight(s.graph.constants, s.node.name, s.node.target(*s.node.args, **{**s.node.kwargs, **on_host}))


def accepted(handler):
    return inspect.signature(handler).parameters


def source_of(node):
    """The module that the node comes from, with its class, and the line of its code: "layers.0.norm (LayerNorm), net.py:12"."""
    parts = []
    stack = node.meta.get("nn_module_stack") or {}
    if stack:
        path, kind = list(stack.values())[-1]
        path = re.sub(r"^L\['self'\]\.?", "", path)
        kind = kind if isinstance(kind, str) else kind.__name__
        parts.append(f"{path or 'the model'} ({kind.rsplit('.', 1)[-1]})")
    places = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    if places:
        parts.append(f"{pathlib.Path(places[-1][0]).name}:{places[-1][1]}")
    return ", ".join(parts)


def output_names(program):
    """Names for the user's outputs: the keys of a dict, else output, or output_0, output_1, ..."""
    spec = program.call_spec.out_spec
    count = spec.num_leaves
    leaves = torch.utils._pytree.tree_unflatten(list(range(count)), spec)
    if isinstance(leaves, dict) and all(isinstance(leaf, int) for leaf in leaves.values()):
        yield from (re.sub(r"[^\w.]", "_", str(key)) for key, _ in sorted(leaves.items(), key=lambda item: item[1]))
    else:
        yield from (["output"] if count == 1 else [f"output_{i}" for i in range(count)])


# ---- files

def check_most(max_iterations, max_count):
    for option, most in (("max_iterations", max_iterations), ("max_count", max_count)):
        if most is not None and most < 1:
            raise ExportError(f"{option} is {most}, wanted at least 1")


def check_output(output):
    """What the path alone shows to be wrong, before the module is traced."""
    output = pathlib.Path(output)
    if output.suffix not in (".json", ".rlxg"):
        raise ExportError(f"{output}: the output is a .json or a .rlxg file")
    if not output.parent.is_dir():
        raise ExportError(f"{output}: there is no folder {output.parent}")


def write(graph, output, rlxc=None):
    """OUTPUT and its weights beside it, OUTPUT's stem with .safetensors, which take their names when both are whole. A .rlxg is
    converted by rlxc, which checks the graph."""
    output = pathlib.Path(output)
    weights = output.with_suffix(".safetensors")
    try:
        with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.stem}.") as folder:
            made, written = pathlib.Path(folder, weights.name), pathlib.Path(folder, "graph.json")
            if graph.tensors:
                graph.write_weights(made)
            graph.write_json(written, weights.name)
            if output.suffix == ".rlxg":
                done = subprocess.run([find_rlxc(rlxc), "convert", written, written.with_suffix(".rlxg")], capture_output=True, text=True)
                if done.returncode != 0:
                    raise ExportError(f"rlxc convert refuses the graph:\n{done.stderr}")
                written = written.with_suffix(".rlxg")
            if graph.tensors:
                made.replace(weights)
            written.replace(output)
    except OSError as error:
        raise ExportError(f"{output} cannot be written: {error.strerror or error}") from error


def find_rlxc(given):
    candidates = [given] if given else [TOOLS.parent / "build/bin/rlxc", shutil.which("rlxc")]
    for candidate in candidates:
        if candidate and pathlib.Path(candidate).exists():
            return str(candidate)
    raise ExportError("rlxc is needed to write .rlxg: give it as --rlxc, or write a .json")


def convert(program, output, dynamic=None, ranges=None, name=None, rlxc=None, max_iterations=None, max_count=None, trains=False):
    graph = Converter(decompose(program), name or pathlib.Path(output).stem, dynamic or {}, ranges or {}, max_iterations,
                      max_count, trains).run()
    write(graph, output, rlxc)
    return graph


def export(module, args, output, kwargs=None, dynamic=None, precision=None, name=None, rlxc=None, max_iterations=None,
           max_count=None, assume_values=False):
    """Writes module, called with args and kwargs, to OUTPUT (.rlxg or .json) and OUTPUT's stem .safetensors.

    dynamic: {parameter of forward: {axis: symbol's name, or (name, min, max[, multiple])}}. precision: a float type (f32, f16,
    bf16, f64) that the module and its float inputs are converted to, in place. rlxc: the program, for .rlxg. max_iterations: of
    each while_loop, the most trips. max_count: the most rows of results that are as long as the data decide (nonzero, masks, unique,
    nms); how many there are is an output more, NAME.count. assume_values: what the module asks tensors for is what it is
    with args and kwargs; the result's `assumed` has a line for each answer.
    Raises ExportError with everything that stands in the way."""
    check_output(output)
    check_most(max_iterations, max_count)
    kwargs = dict(kwargs or {})
    if precision:
        dtype = FLOATS[precision]
        module = module.to(dtype)
        args = tuple(to_float(value, dtype) for value in args)
        kwargs = {key: to_float(value, dtype) for key, value in kwargs.items()}
    try:
        program, ranges, assumed = capture(module, args, kwargs, dynamic, assume_values)
        graph = convert(program, output, dynamic, ranges, name, rlxc, max_iterations, max_count, hasattr(module, "rlx_trains"))
        graph.assumed = assumed
        return graph
    except Unsupported as error:
        raise ExportError(str(error)) from error


def to_float(value, dtype):
    return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


# ---- the command line

@contextlib.contextmanager
def told_of(what):
    """Errors of the user's own code and files, in one line: what they belong to, their own words, and the line that they come from."""
    try:
        yield
    except (ExportError, Unsupported):
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  anything may go wrong in a program that is not ours
        parts = (what, type(error).__name__, " ".join(str(error).split())[:MOST_WORDS], place_of(error))
        raise ExportError(": ".join(part for part in parts if part)) from error


def load_object(text):
    """MODULE:NAME or FILE.py:NAME."""
    place, _, name = text.rpartition(":")
    if not place:
        raise ExportError(f"{text}: wanted MODULE:NAME, FILE.py:NAME or FILE.pt2")
    if place.endswith(".py"):
        if not pathlib.Path(place).is_file():
            raise ExportError(f"{place}: there is no such file")
        spec = importlib.util.spec_from_file_location(pathlib.Path(place).stem, place)
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, str(pathlib.Path(place).resolve().parent))
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, "")
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise ExportError(f"{text}: {error}") from error
    if not hasattr(module, name):
        raise ExportError(f"{place} has no {name}")
    return getattr(module, name)


def parse_input(text):
    """x=1x3x224x224:f32 as ("x", a tensor of zeros). The type may be left out, and is f32 then; a scalar is x=:i64."""
    match = re.fullmatch(r"([A-Za-z_]\w*)=((?:\d+(?:x\d+)*)?)(?::(\w+))?", text)
    if not match or (match[3] or "f32") not in NAMED_DTYPES:
        raise ExportError(f"--input {text}: wanted NAME=1x3x224x224:DTYPE, with one of {', '.join(NAMED_DTYPES)}")
    shape = [int(dim) for dim in match[2].split("x")] if match[2] else []
    return match[1], torch.zeros(shape, dtype=NAMED_DTYPES[match[3] or "f32"])


def parse_dynamic(words):
    """x.0=batch, x.1=seq:1:512 as {"x": {0: ("batch", 1, LARGEST_DIM, 1), 1: ("seq", 1, 512, 1)}}."""
    dynamic = {}
    for text in words:
        match = re.fullmatch(r"([A-Za-z_]\w*)\.(-?\d+)=([A-Za-z_]\w*)(?::(\d+):(\d+)(?::([1-9]\d*))?)?", text)
        if not match:
            raise ExportError(f"--dynamic {text}: wanted INPUT.AXIS=NAME, NAME:MIN:MAX or NAME:MIN:MAX:MULTIPLE")
        bounds = tuple(int(number) for number in match.groups()[3:] if number)
        if bounds and not bounds[0] <= bounds[1] <= MOST_DIM:
            raise ExportError(f"--dynamic {text}: wanted MIN <= MAX <= {MOST_DIM}")
        axes = dynamic.setdefault(match[1], {})
        if int(match[2]) in axes:
            raise ExportError(f"--dynamic names axis {match[2]} of {match[1]} twice")
        axes[int(match[2])] = whole_range((match[3], *bounds))
    return dynamic


def make_module(args):
    made = load_object(args.model)
    if not isinstance(made, torch.nn.Module):
        made = made(**json.loads(args.kwargs))
    if not isinstance(made, torch.nn.Module):
        raise ExportError(f"{args.model} gives {type(made).__name__}, not a torch.nn.Module")
    if args.weights:
        with told_of(f"--weights {args.weights}"):
            made.load_state_dict(read_weights(args.weights))
    return made


def read_weights(path):
    if path.endswith(".safetensors"):
        try:
            from safetensors.torch import load_file
        except ImportError as error:
            raise ExportError(f"--weights {path} needs the package safetensors (pip install safetensors): {error}") from error
        return load_file(path)
    return torch.load(path, map_location="cpu", weights_only=True)


def sized_for(inputs, dynamic):
    """Example inputs whose dynamic dims are at least 2: torch.export takes a 0 or 1 for a fixed size."""
    for name, axes in dynamic.items():
        if name in inputs:
            shape = list(inputs[name].shape)
            for axis, (_, low, high, multiple) in axes.items():
                if -len(shape) <= axis < len(shape):
                    size = min(max(shape[axis], low, 2), high)
                    shape[axis] = -(-size // multiple) * multiple
            inputs[name] = torch.zeros(shape, dtype=inputs[name].dtype)
    return inputs


def run(args):
    if args.model.endswith(".pt2"):
        if args.input or args.dynamic or args.precision or args.weights or args.train:
            raise ExportError("a saved program has its inputs, dynamic dims, types, weights and results in it")
        check_output(args.output)
        check_most(args.max_iterations, args.max_count)
        with told_of(args.model):
            program = torch.export.load(args.model)
        return convert(program, args.output, name=args.name, rlxc=args.rlxc, max_iterations=args.max_iterations,
                       max_count=args.max_count)
    dynamic = parse_dynamic(args.dynamic)
    with told_of("--input"):
        inputs = dict(parse_input(text) for text in args.input)
        if len(inputs) < len(args.input):
            raise ExportError("--input names an input twice")
        inputs = sized_for(inputs, dynamic)
    with told_of(args.model):
        module = make_module(args)
    if args.train:
        with told_of(f"--train {args.train}"):
            module = with_loss(module, load_object(args.train))
    parameters = inspect.signature(module.forward).parameters
    unknown = [name for name in inputs if name not in parameters]
    if unknown and not any(p.kind == p.VAR_KEYWORD for p in parameters.values()):
        raise ExportError(f"--input: forward has no parameter {', '.join(unknown)}; it has {', '.join(parameters)}")
    return export(module, (), args.output, kwargs=inputs, dynamic=dynamic, precision=args.precision, name=args.name,
                  rlxc=args.rlxc, max_iterations=args.max_iterations, max_count=args.max_count, assume_values=args.assume_values)


def main():
    parser = argparse.ArgumentParser(prog="rlx_export", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("-o", "--output", required=True, help=".rlxg or .json; the weights go beside it, as .safetensors")
    parser.add_argument("--input", nargs="+", default=[], metavar="NAME=SHAPE:DTYPE", help="x=1x3x224x224:f32; may be repeated",
                        action="extend")
    parser.add_argument("--dynamic", nargs="+", default=[], metavar="INPUT.AXIS=NAME[:MIN:MAX[:MULTIPLE]]", action="extend",
                        help="a dimension that rlxc --dim binds; the same name on several axes makes them equal")
    parser.add_argument("--precision", choices=list(FLOATS), help="convert the module and its float inputs to this type first")
    parser.add_argument("--kwargs", default="{}", metavar="JSON", help="arguments of the callable that makes the model")
    parser.add_argument("--weights", metavar="FILE", help="state dict to load: .safetensors, or what torch.save wrote")
    parser.add_argument("--train", metavar="LOSS", help="MODULE:NAME or FILE.py:NAME of a loss to train by: the first output")
    parser.add_argument("--name", help="name of the graph (default: that of the file)")
    parser.add_argument("--max-iterations", type=int, metavar="N", help="of each while_loop, the most trips")
    parser.add_argument("--max-count", type=int, metavar="N", help="of results that are as long as the data decide, the most rows")
    parser.add_argument("--assume-values", action="store_true",
                        help="a number that the model asks a tensor for is what it is with the inputs, which are zeros here; each is told")
    parser.add_argument("--extension", action="append", default=[], metavar="DIR",
                        help="folder with extension.json, whose ops are custom operators of the model; may be repeated")
    parser.add_argument("--rlxc", metavar="PATH", help="for .rlxg (default: build/bin/rlxc of this tree, then PATH)")
    args = parser.parse_args()
    try:
        for folder in args.extension:
            rlx_export_extensions.add_extension(folder)
        graph = run(args)
    except (ExportError, Unsupported) as error:
        print(f"rlx_export: error: {error}", file=sys.stderr)
        sys.exit(2)
    inputs = ", ".join(f"{row['name']} {row['dtype']}{row['shape']}" for row in graph.inputs)
    print(f"{args.output}: {len(graph.nodes)} nodes, inputs {inputs}, outputs {', '.join(graph.outputs)}")
    for line in getattr(graph, "assumed", []):
        print(f"assumed: {line}")
    if args.train:
        print(f"train it by: rlxc {args.output} -o PLAN --grad {graph.outputs[0]} --optimizer adamw")


if __name__ == "__main__":
    main()
