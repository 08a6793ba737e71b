# SPDX-License-Identifier: Apache-2.0
"""Results that are as long as the data decide: nonzero, selection by a mask, unique, torchvision's nms. Each is padded to the most
rows that there may be, and how many there are is a value of its own, which the model's outputs get beside them. Operators behind
them leave rows that do not count where they are; what would read these rows as if they counted is refused."""
import functools
import math

import sympy
import torch

from rlx_export_aten import aten
from rlx_export_graph import END, Tensor, Unsupported, expression, known

WORD = "the run decides how many rows count"
HELP = "move it behind the model, to the host, where the count is known"


def is_counted(symbol):
    """Whether a symbol of torch.export is a number that the data give."""
    return str(symbol).startswith(("u", "zuf"))


def counted_axes(value):
    """The axes of a value as torch describes it whose length the data decide: {axis: its expression}."""
    if not isinstance(value, torch.Tensor):
        return {}
    dims = {axis: expression(dim) for axis, dim in enumerate(value.shape)}
    return {axis: dim for axis, dim in dims.items() if any(map(is_counted, dim.free_symbols))}


def elements(node):
    return math.prod(sizes_of(node))


def sizes_of(node):
    return [expression(dim) for dim in node.meta["val"].shape]


def places_of_both(node):
    """How many elements two tensors have that are broadcast together."""
    shapes = [sizes_of(part) for part in node.args[:2]]
    rank = max(map(len, shapes))
    shapes = [[sympy.Integer(1)] * (rank - len(shape)) + shape for shape in shapes]
    return math.prod(b if a == 1 else a for a, b in zip(*shapes))


def masks_of(node):
    """Of x[mask, ...]: the masks."""
    return [index for index in node.args[1] if isinstance(index, torch.fx.Node)
            and index.meta["val"].dtype in (torch.bool, torch.uint8)]


def unique_rows(node):
    return sizes_of(node.args[0])[node.args[1]] if "unique_dim" in str(node.target) else elements(node.args[0])


def slice_bounds(node):
    """The first and the last index of a slice, as expressions."""
    size = sliced_axis(node)
    start, end = (argument(node, at, name) for at, name in ((2, "start"), (3, "end")))
    start, end = (expression(value.meta.get("counted", value.meta["val"])) if isinstance(value, torch.fx.Node) else value
                  for value in (start, end))
    return start or 0, size if end is None or end == END else sympy.Min(end, size)


def sliced_axis(node):
    x = node.args[0].meta
    return expression(x.get("counted", x["val"]).shape[argument(node, 1, "dim", 0)])


def slice_length(node):
    """Of a slice that the data end or begin: how many rows it has, as an expression of counts."""
    start, end = slice_bounds(node)
    if argument(node, 4, "step", 1) != 1 or any(isinstance(value, int) and value < 0 for value in (start, end)):
        raise Unsupported(f"{WORD}, counted from their end or by steps; " + HELP)
    return sympy.Max(end - start, 0) if start else end


# Arithmetic with counts and numbers, by sympy's names; of these whose results are real.
COMPUTED = {"Add": "add", "Mul": "mul", "Min": "min", "Max": "max", "FloorDiv": "floor_div", "Mod": "mod", "PythonMod": "mod",
            "IntTrueDiv": "div", "FloatTrueDiv": "div", "Abs": "abs", "ToFloat": "identity"}
REAL = ("IntTrueDiv", "FloatTrueDiv", "ToFloat")

UNBOUNDED = 1 << 62
UNBOUNDED_DIM = 1 << 31  # of a dynamic dimension for which no maximum was given
# The most rows that there may be, by operator: a number, or an expression of counts.
MOST_ROWS = {
    "aten.nonzero.default": lambda node: elements(node.args[0]),
    "aten.nonzero_numpy.default": lambda node: elements(node.args[0]),
    "aten.masked_select.default": places_of_both,
    "aten.index.Tensor": lambda node: sympy.Max(0, *map(elements, masks_of(node))),
    "aten._unique2.default": unique_rows,
    "aten.unique_dim.default": unique_rows,
    "aten.unique_consecutive.default": unique_rows,
    "aten.repeat_interleave.Tensor": lambda node: UNBOUNDED,
    "torchvision.nms.default": lambda node: sizes_of(node.args[0])[0],
    "aten.slice.Tensor": slice_length,
    "aten.bincount.default": lambda node: UNBOUNDED,
    **{f"aten.arange.{overload}": lambda node: UNBOUNDED for overload in ("default", "start", "start_step")},
}


class Counts:
    """Of one program: the numbers that data give, each with the most that it may be and the value that holds it.
    limit: the user's bound, or None."""

    def __init__(self, graph, limit=None):
        self.graph, self.limit = graph, limit
        self.most, self.values = {}, {}  # symbol: int, Tensor
        self.numbers = set()  # symbols that are numbers read from tensors: the run has their values, and nothing their bounds
        self.opened = None  # the symbol of the node that is being converted

    def enter(self, node):
        """Before a node is converted: its result gets the largest size that it may have, and what it reads is checked."""
        value = node.meta.get("val")
        node.meta["counted"] = value
        self.opened = None
        is_number = isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))
        for symbol in sorted(self.symbols_of(value) - set(self.most) - (self.numbers if is_number else set()), key=str):
            most = MOST_ROWS.get(str(node.target))
            if most is None:
                raise Unsupported(f"{symbol}, a number that data give; " + HELP)
            self.opened = symbol
            bound = sympy.sympify(most(node))
            rows = self.largest(sliced_axis(node) if bound.free_symbols & self.numbers else bound)
            if rows == UNBOUNDED and self.limit is None:
                raise Unsupported("as many rows as a tensor's numbers say; say how many there are at most with --max-count, or give output_size")
            self.most[symbol] = rows if self.limit is None else min(rows, self.limit)
        if self.opened is None and str(node.target) in FINDS:  # asked of the same tensor before, and so the same count
            self.opened = next(iter(self.symbols_of(value[0] if isinstance(value, (tuple, list)) else value)), None)
        if self.symbols_of(value):
            node.meta["val"] = self.bounded(value)
        self.check(node)

    def read_number(self, scope, x):
        """item(): a number in arithmetic is the tensor that it was read from."""
        number = scope.reshape(x, [])
        symbol = expression(scope.node.meta["val"])
        self.numbers.add(symbol)
        self.values[symbol] = number if x.dtype.is_floating_point else scope.cast(number, torch.int64)
        return self.values[symbol]

    def as_operand(self, scope, value, is_operand):
        """A number of the program that the data give, as a tensor, where it is an operand or was read from a tensor; else None."""
        number = value.meta.get("counted") if isinstance(value, torch.fx.Node) else None
        symbols = self.symbols_of(number) if isinstance(number, (torch.SymInt, torch.SymFloat)) else set()
        if not symbols or not (is_operand or symbols <= self.numbers):
            return None
        return self.value(scope, expression(number))

    def symbols_of(self, value):
        if isinstance(value, (tuple, list)):
            return set().union(*map(self.symbols_of, value))
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return {symbol for symbol in expression(value).free_symbols if is_counted(symbol)}
        return {symbol for dim in counted_axes(value).values() for symbol in dim.free_symbols if is_counted(symbol)}

    def has_counted(self, node, axis):
        """Whether the data say how many rows of the node's result count."""
        return axis in counted_axes(node.meta.get("counted"))

    def largest(self, dim):
        """A size where every count is the largest, and every dynamic dimension."""
        value = expression(dim).subs(self.most)
        rows = {symbol: self.graph.symbols[symbol] for symbol in value.free_symbols if symbol in self.graph.symbols}
        if any(row["max"] >= UNBOUNDED_DIM for row in rows.values()):
            names = ", ".join(sorted(row["name"] for row in rows.values()))
            raise Unsupported(f"as many rows as the data and {names} say: give {names} a largest value, as --dynamic x.0={names}:1:4096, "
                              "or fix it")
        value = value.subs({symbol: row["max"] for symbol, row in rows.items()})
        if not value.is_Integer:
            raise Unsupported(f"the size {value} of a result depends on data; " + HELP)
        return int(value)

    def bounded(self, value):
        if isinstance(value, (tuple, list)):
            return [self.bounded(part) for part in value]
        if isinstance(value, torch.SymInt):
            return value if self.symbols_of(value) & self.numbers else self.largest(value)
        if not isinstance(value, torch.Tensor) or not counted_axes(value):
            return value
        shape = [self.largest(dim) if axis in counted_axes(value) else dim for axis, dim in enumerate(value.shape)]
        return torch.empty(shape, dtype=value.dtype, device="meta")

    def found(self, count):
        """The count of the node that is being converted, an i64 scalar."""
        if self.opened is not None:
            self.values[self.opened] = count

    def found_number(self, scope):
        """A number read from a tensor says how many there are: at most as many as there is room for."""
        if self.opened is not None:
            self.found(scope.emit("min", [self.values[self.opened], scope.operand(self.most[self.opened], torch.int64)], dtype=torch.int64,
                                  shape=()))

    def found_slice(self, scope):
        if self.opened is None:
            return
        length = slice_length(scope.node)
        self.found(self.clamped_end(scope) if length.free_symbols & self.numbers else self.value(scope, length))

    def clamped_end(self, scope):
        """Of x[:n]: how many rows there are, where n is a number read from a tensor and counts from the end if it is negative."""
        start, end = (argument(scope.node, at, name) for at, name in ((2, "start"), (3, "end")))
        if start:
            raise Unsupported("rows from where a tensor's number says to the end; only rows up to there, or a known number of rows from there, "
                              "can be exported")
        size = self.value(scope, sliced_axis(scope.node))
        end = self.value(scope, expression(end.meta["counted"]))

        def computed(op, *operands, dtype=torch.int64):
            return scope.emit(op, operands, dtype=dtype, shape=())
        is_negative = computed("lt", end, scope.operand(0, torch.int64), dtype=torch.bool)
        end = computed("where", is_negative, computed("add", end, size), end)
        return computed("max", computed("min", end, size), scope.operand(0, torch.int64))

    def value(self, scope, size):
        """The run's value of a size that depends on counts, an i64 scalar, or of a number that was read from a tensor."""
        size = sympy.sympify(size)
        if size in self.values:
            return self.values[size]
        if size.is_Integer:
            return scope.operand(int(size), torch.int64)
        if size.is_Float:
            return scope.operand(float(size), torch.float32)
        if all(symbol in self.graph.symbols for symbol in size.free_symbols):
            return scope.size_value(size)
        kind = type(size).__name__
        op = COMPUTED.get(kind)
        is_number = size.free_symbols <= self.numbers
        if op is None and not is_number:
            raise Unsupported(f"{WORD}, as {size}, which cannot be computed in the graph")
        parts = [self.value(scope, part) for part in size.args] if op else []
        dtype = functools.reduce(torch.promote_types, [part.dtype for part in parts], torch.float32 if kind in REAL else torch.int64)
        if op is None or (op in ("floor_div", "mod") and dtype.is_floating_point):
            raise Unsupported(f"{size}, arithmetic with a number that the model reads from a tensor; leave it a tensor")
        if len(parts) == 1:
            return scope.emit(op, [scope.cast(parts[0], dtype)], dtype=dtype, shape=())
        return functools.reduce(lambda a, b: scope.emit(op, [a, b], dtype=dtype, shape=()), [scope.cast(part, dtype) for part in parts])

    def fill(self, scope, x, node, value):
        """x with `value` in the rows that do not count."""
        for axis, size in counted_axes(node.meta.get("counted")).items():
            along = [x.shape[axis] if i == axis else 1 for i in range(x.rank)]
            rows = scope.emit("range", [scope.operand(0, torch.int64), None, scope.operand(1, torch.int64)], dtype=torch.int64,
                              shape=[x.shape[axis]], count=x.shape[axis])
            counts = scope.emit("lt", [scope.reshape(rows, along), self.value(scope, size)], dtype=torch.bool, shape=along)
            x = scope.emit("where", [counts, x, scope.operand(value, x.dtype)], dtype=x.dtype, shape=x.shape)
        return x

    def elements_along(self, scope, node, axes):
        """How many elements of a node's value stand along the axes, of those that count: an i64 scalar."""
        shape = node.meta.get("counted", node.meta["val"]).shape
        sizes = [self.value(scope, expression(shape[axis])) for axis in axes]
        return functools.reduce(lambda a, b: scope.emit("mul", [a, b], dtype=torch.int64, shape=()), sizes)

    def close_gaps(self, scope, joined, node, axis):
        """Parts joined along an axis of which not all of their rows count: those that do, one after the other."""
        parts = [part for part in node.args[0] if isinstance(part, torch.fx.Node) and part.meta["val"].dim() == len(joined.shape)]
        sizes = [(part.meta["val"].shape[axis], counted_axes(part.meta.get("counted")).get(axis)) for part in parts]
        is_last = all(count is None for _, count in sizes[:-1])
        if all(count is None for _, count in sizes) or (is_last and all(known(size) is not None for size, _ in sizes)):
            return joined
        counts = []
        for size, count in sizes:
            rows = scope.emit("range", [scope.operand(0, torch.int64), None, scope.operand(1, torch.int64)], dtype=torch.int64,
                              shape=[size], count=scope.dims([size])[0])
            counts.append(scope.emit("lt", [rows, scope.operand(size, torch.int64) if count is None else self.value(scope, count)],
                                     dtype=torch.bool, shape=[size]))
        chosen = scope.emit("concat", counts, dtype=torch.bool, shape=[sum(size for size, _ in sizes)], axis=0)
        types = [(joined.dtype, joined.shape), (torch.int64, ())]
        return scope.emit_many("compress", [joined, chosen], types, axis=axis, max_count=joined.shape[axis], index_dtype="i64")[0]

    def give_filled(self, scope, node, arguments):
        """The arguments of a handler, where rows that do not count change nothing."""
        if node.meta.get("fills"):
            name = next(iter(arguments))
            value = NEUTRAL[str(node.target)]
            value = value(node) if callable(value) else value
            if not arguments[name].dtype.is_floating_point and math.isinf(value):
                limits = torch.iinfo(arguments[name].dtype)
                value = limits.max if value > 0 else limits.min
            arguments[name] = self.fill(scope, arguments[name], node.args[0], value)
        return arguments

    def with_spare(self, scope, x, axis, index, node):
        """For an assignment to rows of x: x with one row more along the axis, and indices that lead there where they do not count."""
        if not counted_axes(node.meta.get("counted")):
            return x, index
        size = x.shape[axis]
        grown = [expression(size) + 1 if i == axis else dim for i, dim in enumerate(x.shape)]
        row = scope.expand(scope.operand(0, x.dtype), [1 if i == axis else dim for i, dim in enumerate(x.shape)])
        grown = scope.emit("concat", [x, row], dtype=x.dtype, shape=grown, axis=axis)
        return grown, self.fill(scope, index, node, size)

    def without_spare(self, scope, x, axis, node):
        """What is left of x behind the assignment."""
        if not counted_axes(node.meta.get("counted")):
            return x
        return scope.narrow(x, axis, 0, expression(x.shape[axis]) - 1)

    # What operators read of rows that do not count.

    def check(self, node):
        inputs = [(i, arg) for i, arg in enumerate(node.args) if isinstance(arg, torch.fx.Node)]
        listed = [(i, part) for i, arg in enumerate(node.args) if isinstance(arg, (list, tuple)) for part in arg
                  if isinstance(part, torch.fx.Node)]
        padded = {i: counted_axes(arg.meta.get("counted")) for i, arg in [*inputs, *listed]
                  if counted_axes(arg.meta.get("counted"))}
        self.check_numbers(node, inputs)
        if not padded or node.op != "call_function" or not hasattr(node.target, "_schema"):
            return
        target = str(node.target)
        if target in MOST_ROWS and target != "aten.index.Tensor":
            if target in FILLED:
                return
        elif torch.Tag.pointwise in node.target.tags or target in FREE:
            return
        rule = RULES.get(target)
        node.meta["fills"] = set(padded) <= {0} and target in NEUTRAL and not (rule and rule(node, padded))
        if node.meta["fills"]:
            return
        if rule is None or not rule(node, padded):
            raise Unsupported(f"{WORD} of what it reads; " + HELP)

    def check_numbers(self, node, inputs):
        """A count as a number in arithmetic would be the largest count."""
        if node.op != "call_function" or not hasattr(node.target, "_schema") or "arange" in str(node.target):
            return
        for i, arg in inputs:
            is_number = isinstance(arg.meta.get("counted"), (torch.SymInt, torch.SymFloat)) and self.symbols_of(arg.meta["counted"])
            slots = node.target._schema.arguments
            if is_number and i < len(slots) and "Scalar" in str(slots[i]) and slots[i].name != "other":
                raise Unsupported(f"{WORD}, and it computes with their number; " + HELP)


# Operators on whose results rows stay rows, whatever the axis.
FREE = {f"aten.{name}" for name in (
    "clone.default", "_to_copy.default", "alias.default", "detach.default", "unsqueeze.default", "squeeze.default", "squeeze.dim",
    "squeeze.dims", "permute.default", "transpose.int", "t.default", "expand.default", "sym_size.int", "sym_numel.default",
    "full_like.default", "zeros_like.default", "ones_like.default", "empty_like.default", "new_zeros.default", "new_ones.default",
    "new_full.default", "new_empty.default", "leaky_relu.default", "prelu.default", "log_sigmoid.default", "hardswish.default",
    "rsub.Tensor", "floor_divide.default", "masked_fill.Tensor", "dropout.default", "copy.default",
    "_assert_tensor_metadata.default", "where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")} | {"torchvision.roi_align.default"}
# What changes no result along a counted axis.
NEUTRAL = {f"aten.{name}": value for names, value in {
    ("sum.default", "sum.dim_IntList", "mean.default", "mean.dim", "any.default", "any.dim"): 0,
    ("prod.default", "prod.dim_int", "all.default", "all.dim"): 1,
    ("max.default", "max.dim", "amax.default", "argmax.default", "softmax.int", "_softmax.default", "_log_softmax.default",
     "logsumexp.default"): -math.inf,
    ("min.default", "min.dim", "amin.default", "argmin.default"): math.inf,
    ("topk.default",): lambda node: -math.inf if argument(node, 3, "largest", True) else math.inf,
    ("sort.default", "sort.stable"): lambda node: -math.inf if argument(node, 2, "descending", False) else math.inf}.items() for name in names}
# Operators whose handlers count what they find, for which torch.export may have a number already.
FINDS = ("aten.nonzero.default", "aten.nonzero_numpy.default")
# Operators that are given other rows in the place of those that do not count.
FILLED = ("aten.nonzero.default", "aten.nonzero_numpy.default", "torchvision.nms.default")


def counted_dims(padded, i=0):
    return list(padded.get(i, {}))


def argument(node, at, name, absent=None):
    return node.args[at] if len(node.args) > at else node.kwargs.get(name, absent)


def keeps_dims(at, name, absent=-1):
    """Other rows than those along the axes that it works on."""
    def rule(node, padded):
        rank = node.args[0].meta["val"].dim()
        axes = argument(node, at, name, absent)
        axes = axes if isinstance(axes, (list, tuple)) else [axes]
        return set(padded) <= {0} and not {axis % rank for axis in axes if axis is not None} & set(counted_dims(padded)) and axes != [None]
    return rule


def keeps_dims_of_parts(node, padded):
    at = 1 if "unbind" in str(node.target) else 2
    return argument(node, at, "dim", 0) % node.args[0].meta["val"].dim() not in counted_dims(padded)


def keeps_leading(node, padded):
    """A view in which as many elements stand before the axis as before."""
    before, after = node.args[0].meta["counted"], node.meta["counted"]
    old, new = counted_axes(before), counted_axes(after)
    if len(old) != 1 or len(new) != 1:
        return False
    (a, _), (b, _) = *old.items(), *new.items()
    return math.prod(map(expression, before.shape[:a])) == math.prod(map(expression, after.shape[:b]))


def from_start(node, padded):
    axis = argument(node, 1, "dim", 0) % node.args[0].meta["val"].dim()
    start, step = argument(node, 2, "start"), argument(node, 4, "step", 1)
    ends = argument(node, 3, "end")
    is_forward = all(value is None or (isinstance(value, int) and value >= 0) or isinstance(value, torch.fx.Node) for value in (start, ends))
    return axis not in counted_dims(padded) or (is_forward and step == 1)


def from_front(node, padded):
    axis = argument(node, 1, "dim") % node.args[0].meta["val"].dim()
    return axis not in counted_dims(padded) or (isinstance(node.args[2], int) and node.args[2] >= 0)


def keeps_lines(first, second):
    """A product whose counted axes are lines: of its operands at these places, never those that are summed."""
    def rule(node, padded):
        for i, summed in ((first, -1), (second, -2)):
            value = node.args[i].meta.get("counted")
            if value is not None and (summed % value.dim() if value.dim() > 1 else 0) in counted_axes(value):
                return False
        return True
    return rule


def keeps_input_lines(node, padded):
    return set(padded) <= {0} and node.args[0].meta["val"].dim() - 1 not in counted_dims(padded)


def keeps_images(node, padded):
    return set(padded) <= {0} and counted_dims(padded) == [0]


def keeps_unpadded(node, padded):
    rank = node.args[0].meta["val"].dim()
    return all(axis < rank - len(node.args[1]) // 2 for axis in counted_dims(padded))


def keeps_outer(node, padded):
    """A norm over the last axes, as many as its shape has."""
    rank = node.args[0].meta["val"].dim()
    return set(padded) <= {0} and all(axis < rank - len(node.args[1]) for axis in counted_dims(padded))


def keeps_assigned_dims(node, padded):
    return argument(node, 2, "dim", 0) % node.args[0].meta["val"].dim() not in counted_dims(padded)


def leads_to_rows(node, padded):
    """An assignment: rows of the source beside an index that does not count go nowhere. What is assigned to counts in all, or a mask
    as long chooses from its rows, of which those that do not count come last."""
    return 0 not in padded or ("index_put" in str(node.target) and bool(masks_of(node)))


def chosen(node, padded):
    return True  # indices name rows that count, and rows of indices are rows of the result


RULES = {f"aten.{name}": rule for names, rule in {
    ("view.default", "reshape.default", "_unsafe_view.default"): keeps_leading,
    ("slice.Tensor",): from_start,
    ("select.int",): from_front,
    ("split.Tensor", "chunk.default", "unbind.int"): keeps_dims_of_parts,
    ("split_with_sizes.default",): lambda node, padded: keeps_dims_of_parts(node, padded) or len(node.args[1]) == 1,
    ("slice_scatter.default", "select_scatter.default"): keeps_assigned_dims,
    ("scatter_add.default", "scatter.src", "scatter.value", "scatter_reduce.two", "index_add.default", "index_copy.default",
     "index_reduce.default", "index_put.default", "_unsafe_index_put.default"): leads_to_rows,
    ("cat.default", "stack.default"): lambda node, padded: True,
    ("index.Tensor", "_unsafe_index.Tensor", "index_select.default", "gather.default", "embedding.default"): chosen,
    ("sum.dim_IntList", "mean.dim", "amax.default", "amin.default", "argmax.default", "argmin.default",
     "logsumexp.default"): keeps_dims(1, "dim", None),
    ("max.dim", "min.dim", "softmax.int", "_softmax.default", "_log_softmax.default", "cumsum.default", "sort.default", "sort.stable",
     "prod.dim_int", "any.dim", "all.dim"): keeps_dims(1, "dim"),
    ("topk.default",): keeps_dims(2, "dim"),
    ("mm.default", "matmul.default", "bmm.default"): keeps_lines(0, 1),
    ("addmm.default",): keeps_lines(1, 2),
    ("linear.default",): keeps_input_lines,
    ("native_layer_norm.default", "layer_norm.default", "rms_norm.default"): keeps_outer,
    ("pad.default", "constant_pad_nd.default"): keeps_unpadded,
    ("convolution.default", "conv2d.default", "max_pool2d.default", "avg_pool2d.default", "max_pool2d_with_indices.default",
     "_native_batch_norm_legit_no_training.default", "batch_norm.default", "adaptive_avg_pool2d.default",
     "_adaptive_avg_pool2d.default"): keeps_images,
}.items() for name in names}


# ---- handlers

def most_rows(s, axis=0):
    """The largest count of the node that is being converted; of a count that the program asserts to be a size, that size's."""
    return s.counts.most[s.counts.opened] if s.counts.opened is not None else s.counts.largest(s.out.shape[axis])


def found_rows(s, op, inputs, types, most=None, **attributes):
    """A node with a bound on its rows and their count as its second result."""
    most = most_rows(s) if most is None else most
    results = s.emit_many(op, inputs, [types[0], (torch.int64, ()), *types[1:]], max_count=most, index_dtype="i64", **attributes)
    count = results.pop(1)
    s.counts.found(s.emit("min", [count, s.operand(most, torch.int64)], dtype=torch.int64, shape=()))
    return results


def asserted_rows(s, x, axis=0):
    """Of results that are as many as a size says, as many."""
    return x if s.counts.opened is not None or known(s.out.shape[axis]) is not None else s.narrow(x, 0, 0, s.out.shape[axis])


def true_places(s, mask, node, axis=0):
    """Where a mask holds: [most, rank]. axis: of the node's result, along which they lie."""
    mask = s.counts.fill(s, s.cast(mask, torch.bool), node, False)
    most = most_rows(s, axis)
    places = found_rows(s, "nonzero", [mask], [(torch.int64, [most, mask.rank])], most)[0]
    return asserted_rows(s, places, axis)


@aten("nonzero.default")
def nonzero(s, x):
    if x.rank == 0:
        raise Unsupported("nonzero of a scalar")
    x = s.emit("ne", [x, s.operand(0, x.dtype)], dtype=torch.bool, shape=x.shape)
    return true_places(s, x, s.node.args[0])


@aten("nonzero_numpy.default")
def nonzero_numpy(s, x):
    return columns_of(s, nonzero(s, x))


def columns_of(s, places):
    return [s.reshape(s.narrow(places, 1, axis, 1), [places.shape[0]]) for axis in range(known(places.shape[1]))]


@aten("masked_select.default")
def masked_select(s, x, mask):
    return asserted_rows(s, found_rows(s, "masked_select", [x, s.cast(mask, torch.bool)], [(x.dtype, [most_rows(s)])])[0])


@aten("_unique2.default", "unique_dim.default", "unique_consecutive.default")
def unique(s, x, dim=None, **_):
    is_consecutive = "consecutive" in str(s.node.target)
    most = most_rows(s)
    values = s.node.meta["val"]
    rows = x.shape[dim] if dim is not None else math.prod(x.shape)
    index = torch.int64
    found = found_rows(s, "unique", [x], [(x.dtype, values[0].shape), (index, [most]), (index, [rows]), (index, [most])], axis=dim,
                       consecutive=True if is_consecutive else None)
    return [found[0], s.reshape(found[2], list(values[1].shape)) if values[1].numel() else found[2], found[3]]


@aten("torchvision.nms.default")
def non_max_suppression(s, dets, scores, iou_threshold):
    count = dets.shape[0]
    scores = s.counts.fill(s, scores, s.node.args[1], -math.inf)
    filled = bool(counted_axes(s.node.args[1].meta.get("counted")))
    boxes, scores = s.reshape(dets, [1, count, 4]), s.reshape(scores, [1, 1, count])
    most = most_rows(s)
    rows = found_rows(s, "non_max_suppression", [boxes, scores], [(torch.int64, [most, 3])], max_per_class=count,
                      iou_threshold=float(iou_threshold), score_threshold=-1.0e38 if filled else None)[0]
    return s.reshape(s.narrow(rows, 1, 2, 1), [most])


def by_masks(s, indices):
    """Indices of x[...] in which the places of a mask stand for the mask."""
    columns = []
    for at, index in enumerate(indices):
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            columns.append(index)
            continue
        if s.counts.opened is None:
            s.counts.opened = next(iter(expression(dim) for dim in s.node.meta["counted"].shape
                                        if expression(dim) in s.counts.most), None)
        places = true_places(s, index, s.node.args[1][at], at)
        columns += columns_of(s, places)
    return columns
