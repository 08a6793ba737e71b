# SPDX-License-Identifier: Apache-2.0
"""ATen's systems of equations, distances and pretended quantisation as operators of rlx. See rlx_export_aten.py."""
import math

import torch

from rlx_export_aten import aten
from rlx_export_graph import Unsupported, dtype_name, known

LARGEST_CHOLESKY = 64  # columns, each of which is some nodes
# Of weights alone they are computed while exporting.
FOLDED_FIRST = [getattr(torch.ops.aten, name).default for name in ("_linalg_det", "_linalg_slogdet", "linalg_qr", "linalg_matrix_exp")]
LARGEST_FACTOR = 32  # rows or columns of determinants and QR, each of which is a dozen nodes
MOST_SQUARINGS = 12
TAYLOR_TERMS = {torch.float32: 9, torch.float64: 16}


def batch_of(shape):
    return math.prod(shape) if shape else 1


def solved(s, a, b, shape):
    """x of a x = b, for a [.., N, N] and b [.., N, K]."""
    lead = list(shape[:-2])
    count = batch_of(lead)
    a = s.reshape(s.expand(a, [*lead, *a.shape[-2:]]), [count, *a.shape[-2:]])
    b = s.reshape(s.expand(b, [*lead, *b.shape[-2:]]), [count, *b.shape[-2:]])
    x = s.emit("batched_dense_solve", [a, b], dtype=a.dtype, shape=b.shape)
    return s.reshape(x, list(shape))


def turned(s, x):
    return s.permute(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def identity_matrix(s, a):
    return s.emit("eye", [], dtype=a.dtype, shape=a.shape[-2:], n=s.dims([a.shape[-1]])[0], m=s.dims([a.shape[-1]])[0],
                  dtype_=dtype_name(a.dtype))


@aten("linalg_inv_ex.default", "inverse.default", "linalg_inv.default")
def inverse(s, A=None, x=None, check_errors=False):
    a = x if A is None else A
    y = solved(s, a, identity_matrix(s, a), a.shape)
    return [y] if "_ex" in str(s.node.target) else y


@aten("_linalg_solve_ex.default")
def solve(s, A, B, left, check_errors):
    if not left:
        return [turned(s, solved(s, turned(s, A), turned(s, B), [*s.out.shape[:-2], s.out.shape[-1], s.out.shape[-2]]))]
    if len(s.out.shape) == A.rank - 1:  # vectors
        column = s.reshape(B, [*B.shape, 1])
        return [s.reshape(solved(s, A, column, [*s.out.shape, 1]), list(s.out.shape))]
    return [solved(s, A, B, s.out.shape)]


@aten("linalg_solve_triangular.default")
def solve_triangular(s, x, B, upper, left, unitriangular):
    a = s.emit("trilu", [x], dtype=x.dtype, shape=x.shape, upper=upper, k=1 if upper and unitriangular else
               -1 if unitriangular else 0)
    if unitriangular:
        a = s.emit("add", [a, identity_matrix(s, a)], dtype=a.dtype, shape=a.shape)
    if left:
        return solved(s, a, B, s.out.shape)
    return turned(s, solved(s, turned(s, a), turned(s, B), [*s.out.shape[:-2], s.out.shape[-1], s.out.shape[-2]]))


@aten("cholesky_solve.default")
def cholesky_solve(s, x, input2, upper):
    """Of a matrix whose triangular factor is known: two systems."""
    first, second = (turned(s, input2), input2) if upper else (input2, turned(s, input2))
    return solved(s, second, solved(s, first, x, s.out.shape), s.out.shape)


@aten("cholesky_inverse.default")
def cholesky_inverse(s, x, upper=False):
    return cholesky_solve(s, s.expand(identity_matrix(s, x), x.shape), x, upper)


@aten("_trilinear.default")
def trilinear(s, i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """nn.Bilinear: the sum of i1[n, i] * i2[o, i, j] * i3[n, j] over i and j, as two products."""
    if (list(expand1), list(expand2), list(expand3), list(sumdim)) != ([1, 3], [0], [1, 2], [2, 3]):
        raise Unsupported(f"a product of three tensors that is no nn.Bilinear (sums over {list(sumdim)})")
    rows, (out, left, right) = i1.shape[0], i2.shape
    weight = s.reshape(s.permute(i2, [1, 0, 2]), [left, out * right])
    half = s.contraction("matmul", i1, weight, dtype=s.out.dtype, shape=[rows, out * right])
    half = s.reshape(half, [rows, out, right])
    whole = s.contraction("matmul", half, s.reshape(i3, [rows, right, 1]), dtype=s.out.dtype, shape=[rows, out, 1])
    return s.reshape(whole, [rows, out])


@aten("linalg_cholesky_ex.default")
def cholesky(s, x, upper, check_errors):
    """Column after column: what is left of the matrix loses the product of each with itself."""
    count = known(x.shape[-1])
    if count is None or count > LARGEST_CHOLESKY:
        raise Unsupported(f"a Cholesky factor of {s.dims([x.shape[-1]])[0]} columns; up to {LARGEST_CHOLESKY} can be exported")
    axis = x.rank - 1
    rest, columns = x, []
    for i in range(count):
        column = s.narrow(rest, axis, i, 1)
        pivot = s.narrow(column, axis - 1, i, 1)
        root = s.emit("sqrt", [pivot], dtype=x.dtype, shape=pivot.shape)
        column = s.emit("div", [column, root], dtype=x.dtype, shape=column.shape)
        columns.append(column)
        if i + 1 < count:
            square = s.emit("mul", [column, turned(s, column)], dtype=x.dtype, shape=x.shape)
            rest = s.emit("sub", [rest, square], dtype=x.dtype, shape=x.shape)
    whole = columns[0] if count == 1 else s.emit("concat", columns, dtype=x.dtype, shape=x.shape, axis=axis)
    lower = s.emit("trilu", [whole], dtype=x.dtype, shape=x.shape, upper=False, k=0)
    return [turned(s, lower) if upper else lower]


# ---- distances

@aten("_cdist_forward.default", "_euclidean_dist.default")
def distances(s, x1, x2, p=2.0, compute_mode=None):
    """Of every row of x1 [.., P, M] from every row of x2 [.., R, M]."""
    lead = list(torch.broadcast_shapes(tuple(x1.shape[:-2]), tuple(x2.shape[:-2])))
    rows, columns, size = x1.shape[-2], x2.shape[-2], x1.shape[-1]
    a = s.reshape(x1, [*x1.shape[:-2], rows, 1, size])
    b = s.reshape(x2, [*x2.shape[:-2], 1, columns, size])
    wide = [*lead, rows, columns, size]
    difference = s.emit("sub", [a, b], shape=wide)
    last = {"axes": [len(wide) - 1], "keep_dims": False}
    if p in (1, 2):
        return s.emit("reduce_l2" if p == 2 else "reduce_l1", [difference], **last)
    size_of = s.emit("abs", [difference], shape=wide)
    if p == math.inf:
        return s.emit("reduce_max", [size_of], **last)
    if p == 0:
        is_other = s.emit("ne", [a, b], dtype=torch.bool, shape=wide)
        return s.emit("reduce_sum", [s.cast(is_other, s.out.dtype)], **last)
    power = s.emit("powf", [size_of], shape=wide, exponent=float(p))
    return s.emit("powf", [s.emit("reduce_sum", [power], **last)], exponent=1 / p)


# ---- pretended quantisation

def rounded(s, x, scale, zero_point, low, high):
    """(clamp(round(x / scale) + zero) - zero) * scale, each of which broadcasts to x."""
    def at(op, a, b):
        return s.emit(op, [a, b], dtype=x.dtype, shape=x.shape)
    code = s.emit("round", [at("div", x, scale)], dtype=x.dtype, shape=x.shape)
    code = s.emit("clamp", [at("add", code, zero_point)], dtype=x.dtype, shape=x.shape, min=float(low), max=float(high))
    return at("mul", at("sub", code, zero_point), scale)


@aten("fake_quantize_per_tensor_affine_cachemask.default", "fake_quantize_per_tensor_affine.default",
      "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default", "fake_quantize_per_tensor_affine.tensor_qparams")
def fake_quantize(s, x, scale, zero_point, quant_min, quant_max, fake_quant_enabled=None):
    y = rounded(s, x, s.operand(scale, x.dtype), s.operand(zero_point, x.dtype), quant_min, quant_max)
    return [y] if "cachemask" in str(s.node.target) else y


@aten("fake_quantize_per_channel_affine_cachemask.default", "fake_quantize_per_channel_affine.default")
def fake_quantize_channels(s, x, scale, zero_point, axis, quant_min, quant_max):
    shape = [dim if i == axis % x.rank else 1 for i, dim in enumerate(x.shape)]
    scale, zero = (s.reshape(s.cast(value, x.dtype), shape) for value in (scale, zero_point))
    y = rounded(s, x, scale, zero, quant_min, quant_max)
    return [y] if "cachemask" in str(s.node.target) else y


# ---- determinants and factors, column after column

def rows_of(s, x):
    """[batch, N, M] and the leading dims."""
    return s.reshape(x, [batch_of(x.shape[:-2]), *x.shape[-2:]]), list(x.shape[:-2])


def columns_of(s, x, what):
    count = known(x.shape[-1])
    if count is None or known(x.shape[-2]) is None or max(count, known(x.shape[-2])) > LARGEST_FACTOR:
        raise Unsupported(f"{what} of a matrix of {s.dims([x.shape[-2]])[0]} x {s.dims([x.shape[-1]])[0]}; up to {LARGEST_FACTOR} can be exported")
    return count


def eliminated(s, x):
    """The pivots [batch, N] and the sign of their rows' order [batch, 1] of x [batch, N, N]. Each step takes the row of the column's largest
    element from all rows, as often as makes their elements of the column 0: it becomes 0 itself, and is never chosen again."""
    batch, count = x.shape[0], known(x.shape[-1])
    dtype, long = x.dtype, torch.int64
    pivots, places = [], []
    zero = s.operand(0.0, dtype)
    for k in range(count):
        column = s.narrow(x, 2, k, 1)
        size = s.emit("abs", [column], dtype=dtype, shape=column.shape)
        place = s.emit("argmax", [size], dtype=long, shape=[batch, 1, 1], axis=1, keep_dims=True, index_dtype="i64")
        row = s.emit("gather_elements", [x, s.expand(place, [batch, 1, count])], dtype=dtype, shape=[batch, 1, count], axis=1)
        pivot = s.narrow(row, 2, k, 1)
        pivots.append(pivot)
        places.append(place)
        if k + 1 == count:
            break
        is_nothing = s.emit("eq", [pivot, zero], dtype=torch.bool, shape=pivot.shape)
        divisor = s.emit("where", [is_nothing, s.operand(1.0, dtype), pivot], dtype=dtype, shape=pivot.shape)
        factor = s.emit("div", [column, divisor], dtype=dtype, shape=column.shape)
        x = s.emit("sub", [x, s.emit("mul", [factor, row], dtype=dtype, shape=x.shape)], dtype=dtype, shape=x.shape)
    places, pivots = (s.emit("concat", parts, dtype=parts[0].dtype, shape=[batch, count, 1], axis=1) for parts in (places, pivots))
    later = s.emit("gt", [places, turned(s, places)], dtype=torch.bool, shape=[batch, count, count])
    pairs = s.cast(s.emit("trilu", [s.cast(later, torch.int32)], dtype=torch.int32, shape=later.shape, upper=True, k=1), long)
    swaps = s.emit("reduce_sum", [pairs], dtype=long, shape=[batch], axes=[1, 2], keep_dims=False)
    odd = s.emit("mod", [s.reshape(swaps, [batch, 1]), s.operand(2, long)], dtype=long, shape=[batch, 1])
    sign = s.emit("affine", [s.cast(odd, dtype)], dtype=dtype, shape=[batch, 1], mul=-2.0, add=1.0)
    return s.reshape(pivots, [batch, count]), sign


def products_of(s, x, pairs):
    """The sum of products of elements: (sign, (row, column), ...) each."""
    def element(row, column):
        return s.narrow(s.narrow(x, x.rank - 2, row, 1), x.rank - 1, column, 1)
    shape = [*x.shape[:-2], 1, 1]
    total = None
    for sign, *places in pairs:
        term = element(*places[0])
        for place in places[1:]:
            term = s.emit("mul", [term, element(*place)], dtype=x.dtype, shape=shape)
        op = "add" if sign > 0 else "sub"
        total = term if total is None else s.emit(op, [total, term], dtype=x.dtype, shape=shape)
    return total


DETERMINANTS = {1: [(1, (0, 0))], 2: [(1, (0, 0), (1, 1)), (-1, (0, 1), (1, 0))]}


@aten("_linalg_det.default")
def determinant(s, A):
    lead = list(A.shape[:-2])
    count = columns_of(s, A, "a determinant")
    if count in DETERMINANTS:
        return [s.reshape(products_of(s, A, DETERMINANTS[count]), lead)]
    x, _ = rows_of(s, A)
    pivots, sign = eliminated(s, x)
    product = s.emit("reduce_prod", [pivots], dtype=A.dtype, shape=sign.shape, axes=[1], keep_dims=True)
    return [s.reshape(s.emit("mul", [product, sign], dtype=A.dtype, shape=sign.shape), lead)]


@aten("_linalg_slogdet.default")
def sign_and_logarithm(s, A):
    columns_of(s, A, "a determinant")
    x, lead = rows_of(s, A)
    pivots, sign = eliminated(s, x)
    signs, sizes = (s.emit(op, [pivots], dtype=A.dtype, shape=pivots.shape) for op in ("sign", "abs"))
    last = {"axes": [1], "keep_dims": True}
    sign = s.emit("mul", [sign, s.emit("reduce_prod", [signs], dtype=A.dtype, shape=sign.shape, **last)], dtype=A.dtype, shape=sign.shape)
    logarithms = s.emit("log", [sizes], dtype=A.dtype, shape=sizes.shape)
    total = s.emit("reduce_sum", [logarithms], dtype=A.dtype, shape=sign.shape, **last)
    return [s.reshape(sign, lead), s.reshape(total, lead)]


@aten("linalg_qr.default")
def qr(s, A, mode):
    """By Householder's reflections with LAPACK's signs: a column's largest part goes to -sign of its first element; a last row stays."""
    columns = columns_of(s, A, "a QR factorisation")
    rows = known(A.shape[-2])
    dtype = A.dtype
    x, lead = rows_of(s, A)
    batch = x.shape[0]
    lines, vectors = [], []

    def op(name, operands, shape, **attributes):
        return s.emit(name, operands, dtype=dtype, shape=shape, **attributes)

    for k in range(min(rows, columns)):
        left, wide = rows - k, columns - k
        if left == 1:
            lines.append(x)
            break
        column = s.narrow(x, 2, 0, 1)
        first, below = s.narrow(column, 1, 0, 1), s.narrow(column, 1, 1, left - 1)
        one = [batch, 1, 1]
        rest = op("reduce_l2", [below], one, axes=[1], keep_dims=True)
        length = op("sqrt", [op("add", [op("square", [first], one), op("square", [rest], one)], one)], one)
        is_below = s.emit("lt", [first, s.operand(0.0, dtype)], dtype=torch.bool, shape=one)
        beta = op("where", [is_below, length, op("neg", [length], one)], one)
        # v = column with first - beta in front, and 2 / v'v = 1 / (beta (beta - first)); nothing to do where all below is 0.
        is_done = s.emit("eq", [rest, s.operand(0.0, dtype)], dtype=torch.bool, shape=one)
        head = op("sub", [first, beta], one)
        v = op("concat", [head, below], [batch, left, 1], axis=1)
        divisor = op("where", [is_done, s.operand(1.0, dtype), op("neg", [op("mul", [beta, head], one)], one)], one)
        scale = op("where", [is_done, s.operand(0.0, dtype), op("reciprocal", [divisor], one)], one)
        vectors.append((v, scale))
        x = reflected(s, x, v, scale)
        lines.append(s.narrow(x, 1, 0, 1))
        if wide > 1:
            x = s.narrow(s.narrow(x, 1, 1, left - 1), 2, 1, wide - 1)
    shared = min(rows, columns)
    padded = [op("pad", [line], [batch, 1, columns], pads=[0, 0, k, 0, 0, 0], axes=[0, 1, 2], mode="constant", value=0.0) if k else line
              for k, line in enumerate(lines)]
    r = padded[0] if len(padded) == 1 else op("concat", padded, [batch, shared, columns], axis=1)
    height = rows if mode == "complete" else shared
    if height > shared:
        r = op("pad", [r], [batch, height, columns], pads=[0, 0, 0, 0, height - shared, 0], axes=[0, 1, 2], mode="constant", value=0.0)
    r = s.reshape(op("trilu", [r], r.shape, upper=True, k=0), [*lead, height, columns])
    if mode == "r":
        return [s.emit("fill", [], dtype=dtype, shape=[0], shape_=[0], value=0.0, dtype_=dtype_name(dtype)), r]
    q = s.emit("eye", [], dtype=dtype, shape=[rows, height], n=rows, m=height, dtype_=dtype_name(dtype))
    q = s.expand(s.reshape(q, [1, rows, height]), [batch, rows, height])
    for k, (v, scale) in reversed(list(enumerate(vectors))):
        if k:
            v = op("pad", [v], [batch, rows, 1], pads=[0, k, 0, 0, 0, 0], axes=[0, 1, 2], mode="constant", value=0.0)
        q = reflected(s, q, v, scale)
    return [s.reshape(q, [*lead, rows, height]), r]


def reflected(s, x, v, scale):
    """x - scale v (v' x)."""
    along = s.emit("matmul", [v, x], dtype=x.dtype, shape=[x.shape[0], 1, x.shape[2]], trans_a=True)
    along = s.emit("mul", [along, scale], dtype=x.dtype, shape=along.shape)
    return s.emit("sub", [x, s.emit("mul", [v, along], dtype=x.dtype, shape=x.shape)], dtype=x.dtype, shape=x.shape)


@aten("linalg_matrix_exp.default")
def matrix_exp(s, x):
    """Taylor's series of x / 2^k, whose 1-norm is at most 1/2, squared k times. Beyond 2^MOST_SQUARINGS / 2 it gives NaN."""
    dtype = x.dtype
    a, lead = rows_of(s, x)
    batch, one = a.shape[0], [a.shape[0], 1, 1]

    def op(name, operands, shape, **attributes):
        return s.emit(name, operands, dtype=dtype, shape=shape, **attributes)

    size = op("reduce_max", [op("reduce_l1", [a], [batch, 1, a.shape[2]], axes=[1], keep_dims=True)], one, axes=[2], keep_dims=True)
    power = op("ceil", [op("log2", [op("affine", [op("max", [size, s.operand(0.5, dtype)], one)], one, mul=2.0, add=0.0)], one)], one)
    a = op("mul", [a, op("exp2", [op("neg", [power], one)], one)], a.shape)
    unit = s.reshape(identity_matrix(s, a), [1, *a.shape[1:]])
    y = unit
    for k in range(TAYLOR_TERMS[dtype], 0, -1):
        product = op("matmul", [a, y], a.shape) if k < TAYLOR_TERMS[dtype] else a
        y = op("add", [op("affine", [product], a.shape, mul=1 / k, add=0.0), unit], a.shape)
    for k in range(MOST_SQUARINGS):
        wants_more = s.emit("gt", [power, s.operand(float(k), dtype)], dtype=torch.bool, shape=one)
        y = op("where", [wants_more, op("matmul", [y, y], a.shape), y], a.shape)
    is_known = s.emit("le", [power, s.operand(float(MOST_SQUARINGS), dtype)], dtype=torch.bool, shape=one)
    return s.reshape(op("where", [is_known, y, s.operand(math.nan, dtype)], a.shape), list(x.shape))
