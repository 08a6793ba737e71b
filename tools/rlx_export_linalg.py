# SPDX-License-Identifier: Apache-2.0
"""ATen's systems of equations, distances and pretended quantisation as operators of rlx. See rlx_export_aten.py."""
import math

import torch

from rlx_export_aten import aten
from rlx_export_graph import Unsupported, dtype_name, known

LARGEST_CHOLESKY = 64  # columns, each of which is some nodes


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
