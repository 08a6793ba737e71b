# SPDX-License-Identifier: Apache-2.0
"""ATen's indexing, counting and scattering as operators of rlx. See rlx_export_aten.py."""
import math

import torch

import rlx_export_counts
from rlx_export_aten import aten
from rlx_export_graph import Tensor, Unsupported, known, known_number, same


@aten("embedding.default")
def embedding(s, weight, indices, **_):
    return s.emit("gather", [weight, indices], axis=0)


@aten("embedding_renorm.default")
def embedding_renorm(s, x, indices, max_norm, norm_type):
    """The table with the rows that the indices name scaled down to this norm."""
    rows, dtype = x.shape[0], x.dtype
    line = [rows, 1]
    def op(name, *operands, shape=line, **attributes):
        return s.emit(name, [s.operand(value, dtype) for value in operands], dtype=dtype, shape=shape, **attributes)
    size = op("abs", x, shape=x.shape)
    last = {"axes": [1], "keep_dims": True}
    if norm_type == math.inf:
        norm = op("reduce_max", size, **last)
    elif norm_type in (1, 2):
        norm = op(f"reduce_l{int(norm_type)}", x, **last)
    else:
        norm = op("powf", op("reduce_sum", op("powf", size, shape=x.shape, exponent=float(norm_type)), **last), exponent=1 / norm_type)
    count = [math.prod(indices.shape)]
    named = s.emit("scatter_elements", [s.expand(s.graph.splat(0, torch.int32, [1]), [rows]), s.reshape(indices, count),
                                        s.expand(s.graph.splat(1, torch.int32, [1]), count)],
                   dtype=torch.int32, shape=[rows], axis=0, reduction="max")
    is_named = s.emit("gt", [s.reshape(named, line), s.operand(0, torch.int32)], dtype=torch.bool, shape=line)
    is_longer = s.emit("gt", [norm, s.operand(float(max_norm), dtype)], dtype=torch.bool, shape=line)
    is_scaled = s.emit("logical_and", [is_named, is_longer], dtype=torch.bool, shape=line)
    scale = op("div", float(max_norm), op("add", norm, 1e-7))
    return s.emit("mul", [x, s.emit("where", [is_scaled, scale, s.operand(1.0, dtype)], dtype=dtype, shape=line)])


@aten("index_select.default")
def index_select(s, x, dim, index):
    return s.emit("gather", [x, index], axis=dim % max(x.rank, 1))


@aten("gather.default")
def gather(s, x, dim, index, **_):
    return s.emit("gather_elements", [x, index], axis=dim % max(x.rank, 1))


@aten("index_copy.default")
def index_copy(s, x, dim, index, source):
    return at_rows(s, x, dim % x.rank, index, lambda x, index, axis: s.emit("index_copy", [x, index, source], shape=x.shape, axis=axis))


def at_rows(s, x, axis, index, change):
    """x, changed in the rows along the axis that the index names; what of the index does not count names a spare one."""
    node = s.node.args[2]
    x, index = s.counts.with_spare(s, x, axis, index, node)
    return s.counts.without_spare(s, change(x, index, axis), axis, node)


@aten("index_add.default")
def index_add(s, x, dim, index, source, alpha):
    def added(x, index, axis):
        return s.emit("index_add", [x, index, source], shape=x.shape, axis=axis, alpha=float(alpha))
    return at_rows(s, x, dim % x.rank, index, added)


@aten("scatter.src", "scatter.value", "scatter_add.default")
def scatter(s, x, dim, index, src=None, value=None):
    if src is None:
        updates = s.expand(s.operand(value, x.dtype), index.shape)
    else:
        updates = src
        for axis in range(index.rank):  # as much of it as there are indices
            if not same(updates.shape[axis], index.shape[axis]):
                updates = s.narrow(updates, axis, 0, index.shape[axis])
    kind = "add" if "scatter_add" in str(s.node.target) else "none"
    return at_rows(s, x, dim % x.rank, index, lambda x, index, axis: scattered(s, x, index, updates, axis, kind))


@aten("put.default")
def put(s, x, index, source, accumulate):
    flat = s.reshape(x, [math.prod(x.shape)])
    places = [math.prod(index.shape)]
    updates = s.reshape(s.cast(source, x.dtype), places)
    return s.reshape(scattered(s, flat, s.reshape(index, places), updates, 0, "add" if accumulate else "none"), x.shape)


@aten("diagonal_scatter.default")
def diagonal_scatter(s, x, src, offset, dim1, dim2):
    """Each place of the two axes that lies on the diagonal takes what stands there in the source, whose last axis goes along it."""
    row, column = dim1 % x.rank, dim2 % x.rank
    order = [axis for axis in range(x.rank) if axis not in (row, column)] + [row, column]
    moved = s.permute(x, order)
    height, width = moved.shape[-2:]
    ints = torch.int64

    def places(size, shape):
        return s.reshape(s.emit("range", [s.operand(0, ints), None, s.operand(1, ints)], dtype=ints, shape=[size],
                                count=s.dims([size])[0]), shape)

    behind = s.emit("sub", [places(width, [1, width]), places(height, [height, 1])], dtype=ints, shape=[height, width])
    is_on = s.emit("eq", [behind, s.operand(offset, ints)], dtype=torch.bool, shape=[height, width])
    count = src.shape[-1]
    if known(count) == 0:
        return x
    along = places(height, [height])
    at = s.emit("sub", [along, s.operand(max(-offset, 0), ints)], dtype=ints, shape=[height])
    at = s.emit("max", [at, s.operand(0, ints)], dtype=ints, shape=[height])
    at = s.emit("min", [at, s.operand(count - 1, ints)], dtype=ints, shape=[height])
    lead = moved.shape[:-2]
    wide = s.emit("gather", [s.cast(src, x.dtype), at], dtype=x.dtype, shape=[*lead, height], axis=src.rank - 1)
    changed = s.emit("where", [is_on, s.reshape(wide, [*lead, height, 1]), moved], dtype=x.dtype, shape=moved.shape)
    return s.permute(changed, sorted(range(x.rank), key=order.__getitem__))


# ---- indices of several axes

def stacked_indices(s, indices):
    """Index tensors broadcast together, as the tuples along a last axis."""
    shape = torch.broadcast_shapes(*[tuple(index.shape) for index in indices])
    columns = [s.expand(s.cast(index, torch.int64), shape) for index in indices]
    return s.emit("stack", columns, dtype=torch.int64, shape=[*shape, len(columns)], axis=len(shape))


def indexed_axes(x, used):
    """The indexed axes, how many axes stand before those of the indices in the result, and the order of x's axes with the
    indexed ones first."""
    axes = [axis for axis, _ in used]
    are_neighbours = axes == list(range(axes[0], axes[0] + len(axes)))
    others = [axis for axis in range(x.rank) if axis not in axes]
    return axes, (axes[0] if are_neighbours else 0), [*axes, *others]


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(s, x, indices):
    used = [(axis, index) for axis, index in enumerate(rlx_export_counts.by_masks(s, indices)) if index is not None]
    if len(used) == 1:
        return s.emit("gather", [x, used[0][1]], axis=used[0][0])
    axes, before, order = indexed_axes(x, used)
    moved = s.permute(x, order)
    tuples = stacked_indices(s, [index for _, index in used])
    lead = tuples.rank - 1
    found = s.emit("gather_nd", [moved, tuples], shape=[*tuples.shape[:-1], *moved.shape[len(axes):]])
    return s.permute(found, [*range(lead, lead + before), *range(lead), *range(lead + before, found.rank)])


@aten("index_put.default", "_unsafe_index_put.default")
def index_put(s, x, indices, values, accumulate):
    used = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    values = s.cast(values, x.dtype)
    if any(index.dtype in (torch.bool, torch.uint8) for _, index in used):
        return put_by_mask(s, x, used, values, accumulate)
    nodes = [s.node.args[1][axis] for axis, _ in used]
    at = next((at for at, node in enumerate(nodes) if rlx_export_counts.counted_axes(node.meta.get("counted"))), 0)
    spare, first = used[at]
    x, first = s.counts.with_spare(s, x, spare, first, nodes[at])
    used = [(axis, first if i == at else s.counts.fill(s, index, nodes[i], 0)) for i, (axis, index) in enumerate(used)]
    axes, before, order = indexed_axes(x, used)
    tuples = stacked_indices(s, [index for _, index in used])
    lead = tuples.rank - 1
    rest = [x.shape[axis] for axis in order[len(axes):]]
    found = [*rest[:before], *tuples.shape[:-1], *rest[before:]]  # the shape of x[indices]
    updates = s.permute(s.expand(values, found), [*range(before, before + lead), *range(before), *range(before + lead, len(found))])
    moved = s.permute(x, order)
    changed = s.emit("scatter_nd", [moved, tuples, updates], shape=moved.shape, reduction="add" if accumulate else "none")
    return s.counts.without_spare(s, s.permute(changed, sorted(range(x.rank), key=order.__getitem__)), spare, nodes[at])


def put_by_mask(s, x, used, values, accumulate):
    """x[mask] = one value, or one for each place that the mask chooses."""
    (axis, mask), *others = used
    if others or accumulate:
        raise Unsupported("assignment by a mask beside other indices, or that adds; use torch.where")
    mask = s.cast(mask, torch.bool)
    behind = x.rank - axis - mask.rank  # axes
    mask = s.reshape(mask, [*[1] * axis, *mask.shape, *[1] * behind])
    if all(known(dim) == 1 for dim in values.shape):
        return s.emit("where", [mask, s.reshape(values, []), x], shape=x.shape)
    if values.rank <= behind or (values.rank == behind + 1 and known(values.shape[0]) == 1):  # each place gets the same
        return s.emit("where", [mask, s.reshape(values, values.shape[max(values.rank - behind, 0):]), x], shape=x.shape)
    if axis == 0:
        return s.emit("masked_scatter", [x, s.expand(mask, x.shape), values], shape=x.shape)
    raise Unsupported("assignment by a mask behind other axes of as many values as it chooses; use torch.where or masked_scatter")


@aten("masked_scatter.default")
def masked_scatter(s, x, mask, source):
    return s.emit("masked_scatter", [s.expand(x, s.out.shape), s.expand(mask, s.out.shape), s.cast(source, x.dtype)])


# ---- scattering

REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


def neutral(reduce, dtype):
    """What changes no sum, product or extreme of this type."""
    if reduce in ("sum", "mean", "prod"):
        return 1 if reduce == "prod" else 0
    lowest, highest = (-math.inf, math.inf) if dtype.is_floating_point else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    return lowest if reduce == "amax" else highest


def scattered(s, x, index, updates, axis, reduction):
    return s.emit("scatter_elements", [x, index, updates], dtype=x.dtype, shape=x.shape, axis=axis, reduction=reduction)


@aten("scatter_reduce.two")
def scatter_reduce(s, x, dim, index, src, reduce, include_self):
    updates = as_indices(s, src, index)
    return at_rows(s, x, dim % max(x.rank, 1), index,
                   lambda x, index, axis: reduced(s, x, axis, index, updates, reduce, include_self))


def reduced(s, x, axis, index, updates, reduce, include_self):
    start = x
    if not include_self:
        blank = s.expand(s.operand(neutral(reduce, x.dtype), x.dtype), index.shape)
        start = scattered(s, x, index, blank, axis, "none")
    y = scattered(s, start, index, updates, axis, REDUCTIONS[reduce])
    if reduce != "mean":
        return y
    one = s.expand(s.operand(1, x.dtype), index.shape)
    counts = s.expand(s.operand(1 if include_self else 0, x.dtype), x.shape)
    counts = scattered(s, counts, index, one, axis, "add")
    if not include_self:
        counts = s.emit("max", [counts, s.operand(1, x.dtype)], shape=x.shape)
    return s.emit("div" if x.dtype.is_floating_point else "floor_div", [y, counts], shape=x.shape)


def as_indices(s, src, index):
    """As much of the source as there are indices."""
    for axis in range(index.rank):
        if not same(src.shape[axis], index.shape[axis]):
            src = s.narrow(src, axis, 0, index.shape[axis])
    return src


@aten("index_reduce.default")
def index_reduce(s, x, dim, index, source, reduce, include_self):
    def changed(x, index, axis):
        rows = s.expand(s.reshape(index, [index.shape[0] if i == axis else 1 for i in range(x.rank)]), source.shape)
        return reduced(s, x, axis, rows, source, reduce, include_self)
    return at_rows(s, x, dim % x.rank, index, changed)


# ---- places in sorted rows

def count_where(s, op, rows, values, shape):
    """Of each value, how many of its row [.., n] are not `op` it. Written so that a NaN lies behind all of them."""
    rank = len(shape)
    row_shape = list(rows.shape) if rows.rank == 1 else [*rows.shape[:-1], 1, rows.shape[-1]]
    rows = s.reshape(rows, row_shape)
    wide = [*shape, rows.shape[-1]]
    values = s.reshape(values, [*shape, 1])
    is_behind = s.emit(op, [rows, values], dtype=torch.bool, shape=wide)
    is_before = s.emit("logical_not", [is_behind], dtype=torch.bool, shape=wide)
    return s.emit("reduce_sum", [s.cast(is_before, torch.int64)], dtype=torch.int64, shape=shape, axes=[rank], keep_dims=False)


def place_in(s, rows, values, right):
    dtype = torch.promote_types(rows.dtype, values.dtype)
    count = count_where(s, "gt" if right else "ge", s.cast(rows, dtype), s.cast(values, dtype), list(s.out.shape))
    return s.cast(count, s.out.dtype)


def as_tensor(s, value, dtype):
    return value if isinstance(value, Tensor) else s.operand(value, dtype)


@aten("bucketize.Tensor", "bucketize.Scalar")
def bucketize(s, boundaries, right, x=None, **_):
    return place_in(s, boundaries, as_tensor(s, x, boundaries.dtype), right)


@aten("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(s, sorted_sequence, x, right, side, sorter, **_):
    if sorter is not None:
        raise Unsupported("searchsorted with a sorter; sort the sequence first")
    return place_in(s, sorted_sequence, as_tensor(s, x, sorted_sequence.dtype), right or side == "right")


@aten("repeat_interleave.Tensor")
def repeat_interleave_counts(s, repeats, output_size):
    count = known(s.out.shape[0])
    if count is None:
        raise Unsupported("as many repeats as a tensor says: the size of the result depends on data; give output_size")
    repeats = s.cast(repeats, torch.int64)
    if s.counts.opened is not None:
        total = s.emit("reduce_sum", [repeats], dtype=torch.int64, shape=(), axes=[0], keep_dims=False)
        s.counts.found(s.emit("min", [total, s.operand(count, torch.int64)], dtype=torch.int64, shape=()))
    ends = s.emit("cumsum", [repeats], dtype=torch.int64, shape=repeats.shape, axis=0)
    place = place_in(s, ends, s.graph.indices(range(count)), right=True)
    return s.emit("min", [place, s.operand(repeats.shape[0] - 1, torch.int64)])  # what lies behind all repeats names a row, too


# ---- counts

@aten("histc.default")
def histogram(s, x, bins, min, max):
    low, high = known_number(min), known_number(max)
    if low is None or high is None or (low == high and low != 0):
        raise Unsupported(f"a histogram from {min} to {max}")
    flat = s.cast(s.reshape(x, [math.prod(x.shape)]), torch.float32 if s.out.dtype != torch.float64 else torch.float64)
    real = flat.dtype
    def op(name, *operands, shape=flat.shape, dtype=real, **attributes):
        return s.emit(name, [s.operand(value, real) for value in operands], dtype=dtype, shape=shape, **attributes)
    if low == high:
        # From the least value to the greatest, or to one on each side of a value that all are.
        low, high = (op(name, flat, shape=(), axes=[0], keep_dims=False) for name in ("reduce_min", "reduce_max"))
        is_one = op("eq", low, high, shape=(), dtype=torch.bool)
        margin = s.cast(is_one, real)
        low, high = (op(name, end, margin, shape=()) for name, end in (("sub", low), ("add", high)))
        size = op("div", op("sub", high, low, shape=()), bins, shape=())
    else:
        size = (high - low) / bins
    bin_of = op("min", op("floor", op("div", op("sub", flat, low), size)), bins - 1)
    is_inside = op("le", flat, high, dtype=torch.bool)
    bin_of = s.emit("where", [is_inside, bin_of, s.operand(-1, real)], dtype=real, shape=flat.shape)
    return counted(s, bin_of, bins)


def counted(s, labels, count, weights=None):
    """How often each whole number below count stands in a vector, or the sum of the weights beside it."""
    wide = [labels.shape[0], count]
    numbers = s.cast(s.graph.indices(range(count)), labels.dtype)
    is_it = s.emit("eq", [s.reshape(labels, [labels.shape[0], 1]), numbers], dtype=torch.bool, shape=wide)
    terms = s.cast(is_it, s.out.dtype)
    if weights is not None:
        weights = s.cast(s.reshape(weights, [labels.shape[0], 1]), s.out.dtype)
        terms = s.emit("where", [is_it, weights, s.operand(0, s.out.dtype)], shape=wide)
    return s.emit("reduce_sum", [terms], shape=[count], axes=[0], keep_dims=False)


@aten("bincount.default")
def bincount(s, x, weights, minlength):
    """As many as the largest number says, and minlength; those behind what there is room for are left out."""
    count = known(s.out.shape[0])
    if s.counts.opened is None or count is None:
        raise Unsupported("bincount: the size of its result depends on data; use torch.histc with bins, min and max, or one_hot")
    ints = torch.int64
    labels = s.cast(x, ints)
    size = s.emit("add", [s.emit("reduce_max", [labels], dtype=ints, shape=(), axes=[0], keep_dims=False), s.operand(1, ints)], dtype=ints, shape=())
    size = s.emit("max", [size, s.operand(minlength, ints)], dtype=ints, shape=())
    s.counts.found(s.emit("min", [size, s.operand(count, ints)], dtype=ints, shape=()))
    return counted(s, labels, count, weights)


@aten("nonzero_static.default")
def nonzero_static(s, x, size, fill_value):
    places = s.emit_many("nonzero", [x], [(torch.int64, s.out.shape)], max_count=s.dims([size])[0], index_dtype="i64")[0]
    if fill_value == -1:
        return places
    is_unused = s.emit("lt", [places, s.operand(0, torch.int64)], dtype=torch.bool)
    return s.emit("where", [is_unused, s.operand(fill_value, torch.int64), places])


# ---- views by strides

def places_in_memory(s, x, size, stride, storage_offset):
    """Where the elements of a strided view lie among those of x in the order of its memory, and the axes in that order, as far as these
    are known when the model is exported."""
    value = s.node.args[0].meta["val"]
    first = known(value.storage_offset())
    dims = [known(dim) for dim in (*size, *stride, first if storage_offset is None else storage_offset)]
    order = memory_order(value)
    if None in (first, *dims) or order is None:
        raise Unsupported("as_strided of a dynamic size, or of a tensor that does not fill its memory; use unfold, or contiguous() first")
    places = torch.zeros([1] * len(size), dtype=torch.int64) + dims[-1] - first
    for axis in range(len(size)):
        steps = torch.arange(dims[axis]) * dims[len(size) + axis]
        places = places + steps.reshape([-1 if i == axis else 1 for i in range(len(size))])
    if places.numel() and (int(places.min()) < 0 or int(places.max()) >= math.prod(known(dim) for dim in x.shape)):
        raise Unsupported("as_strided beyond the end of its tensor")
    return places, order


@aten("as_strided.default")
def as_strided(s, x, size, stride, storage_offset):
    places, order = places_in_memory(s, x, size, stride, storage_offset)
    at = s.graph.weight(s.graph.constants, f"{s.node.name}.places", places)
    return s.emit("gather", [s.reshape(s.permute(x, order), [math.prod(x.shape)]), at], axis=0)


@aten("as_strided_scatter.default")
def as_strided_scatter(s, x, src, size, stride, storage_offset):
    places, order = places_in_memory(s, x, size, stride, storage_offset)
    if places.unique().numel() != places.numel():
        raise Unsupported("as_strided_scatter to places that lie on each other")
    at = s.graph.weight(s.graph.constants, f"{s.node.name}.places", places.flatten())
    moved = s.permute(x, order)
    flat = s.reshape(moved, [math.prod(x.shape)])
    source = s.reshape(s.expand(s.cast(src, x.dtype), list(places.shape)), [places.numel()])
    changed = s.emit("index_copy", [flat, at, source], dtype=x.dtype, shape=flat.shape, axis=0)
    return s.permute(s.reshape(changed, moved.shape), sorted(range(x.rank), key=order.__getitem__))


def memory_order(value):
    """The axes of a tensor as they lie in memory, the outermost first; None where its elements do not lie side by side."""
    dims, strides = [[known(number) for number in numbers] for numbers in (value.shape, value.stride())]
    if None in (*dims, *strides):
        return None
    order = sorted(range(len(dims)), key=lambda axis: (-strides[axis], axis) if dims[axis] > 1 else (-math.inf, axis))
    inner = 1
    for axis in reversed(order):
        if dims[axis] > 1 and strides[axis] != inner:
            return None
        inner *= dims[axis]
    return order


# ---- bags of embeddings

BAG_MODES = ("sum", "mean", "max")


@aten("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(s, weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx, **_):
    length = even_bags(s, indices) if padding_idx < 0 else None
    op = BAG_MODES[mode]
    if length is not None:
        return [even_sum(s, weight, indices, [s.out.shape[0], length], op, per_sample_weights)]
    rows = s.emit("gather", [weight, indices], shape=[*indices.shape, weight.shape[1]], axis=0)
    if per_sample_weights is not None:
        factor = s.reshape(per_sample_weights, [indices.shape[0], 1])
        rows = s.emit("mul", [rows, s.cast(factor, rows.dtype)], shape=rows.shape)
    # The bag of each row: how many bags begin before or at it.
    count = s.out.shape[0]
    starts = s.narrow(offsets, 0, 0, count) if include_last_offset else offsets
    places = s.emit("range", [s.operand(0, torch.int64), None, s.operand(1, torch.int64)], dtype=torch.int64,
                    shape=[indices.shape[0]], count=s.dims([indices.shape[0]])[0])
    bags = count_where(s, "gt", s.cast(starts, torch.int64), places, [indices.shape[0]])
    bags = s.emit("sub", [bags, s.operand(1, torch.int64)], dtype=torch.int64, shape=bags.shape)
    all_bags = count
    if padding_idx >= 0:  # what a bag leaves out goes into one bag more, which is cut off
        if known(count) is None:
            raise Unsupported("embedding_bag with a padding_idx and a dynamic number of bags; use embedding, a mask and a sum")
        is_left_out = s.emit("eq", [s.cast(indices, torch.int64), s.operand(padding_idx, torch.int64)], dtype=torch.bool,
                             shape=indices.shape)
        bags = s.emit("where", [is_left_out, s.operand(known(count), torch.int64), bags], dtype=torch.int64, shape=bags.shape)
        all_bags = known(count) + 1
    zeros = s.expand(s.operand(0, rows.dtype), [all_bags, weight.shape[1]])
    at = s.expand(s.reshape(bags, [bags.shape[0], 1]), rows.shape)
    joined = reduced(s, zeros, 0, at, rows, {"sum": "sum", "mean": "mean", "max": "amax"}[op], include_self=False)
    return [joined if padding_idx < 0 else s.narrow(joined, 0, 0, count)]


def even_sum(s, weight, indices, bags, op, per_sample_weights):
    """Of bags [COUNT, LENGTH], which PyTorch flattened; a weighted sum is a product of a row and the bag."""
    wide = [*bags, weight.shape[1]]
    rows = s.emit("gather", [weight, s.reshape(indices, bags)], dtype=weight.dtype, shape=wide, axis=0)
    if per_sample_weights is None:
        return s.emit(f"reduce_{op}", [rows], axes=[1], keep_dims=False)
    factor = s.cast(s.reshape(per_sample_weights, [bags[0], 1, bags[1]]), weight.dtype)
    total = s.contraction("matmul", factor, rows, dtype=weight.dtype, shape=[bags[0], 1, weight.shape[1]])
    return s.reshape(total, [bags[0], weight.shape[1]])


def even_bags(s, indices):
    """The size of bags that are all as large: their offsets are 0, n, 2 n, ..."""
    offsets = s.node.args[2]
    if not isinstance(offsets, torch.fx.Node) or not str(offsets.target).startswith("aten.arange"):
        return None
    count, total = known(s.out.shape[0]), known(indices.shape[0])
    step = offsets.args[2] if len(offsets.args) > 2 else 1
    return step if count and total == count * step and (len(offsets.args) < 2 or offsets.args[0] == 0) else None


# ---- experts

def grouped_product(s, x, weight, ends, bias=None):
    """Rows of x, sorted by expert, times the matrix of their expert; ends: where the rows of each end."""
    if x.rank != 2 or weight.rank != 3 or ends is None:
        raise Unsupported("a grouped product that is not of rows [M, K], matrices [E, K, N] and offsets [E]")
    rows = s.emit("range", [s.operand(0, torch.int64), None, s.operand(1, torch.int64)], dtype=torch.int64, shape=[x.shape[0]],
                  count=s.dims([x.shape[0]])[0])
    expert = count_where(s, "gt", s.cast(ends, torch.int64), rows, [x.shape[0]])
    return s.emit("grouped_matmul", [x, weight, expert, bias])


@aten("_grouped_mm.default", "transformers.grouped_mm_fallback.default")
def grouped_mm(s, x=None, mat2=None, input=None, weight=None, offs=None, bias=None, out_dtype=None):
    if out_dtype is not None or bias is not None:
        raise Unsupported("a grouped product with a bias or another type of result")
    return grouped_product(s, input if x is None else x, weight if mat2 is None else mat2, offs)
