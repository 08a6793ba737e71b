# SPDX-License-Identifier: Apache-2.0
"""ATen's Fourier transforms and complex numbers as operators of rlx. See rlx_export_aten.py.

A complex value whose two parts are known keeps them in Graph.parts, so that products of such values are fused like others; the
c64 tensor is made beside them and goes where nothing reads it."""
import math

import torch

import rlx_export_nn  # noqa: F401  whose handlers of products this one extends
from rlx_export_aten import HANDLERS, aten
from rlx_export_graph import Unsupported

REAL = torch.float32  # of the parts of c64
WHOLE_POWERS = range(1, 9)


def parts(s, z):
    """The real and the imaginary part of a value; None for the latter where it is 0."""
    if not z.dtype.is_complex:
        return s.cast(z, REAL), None
    if z.name not in s.graph.parts:
        s.graph.parts[z.name] = tuple(s.emit(op, [z], dtype=REAL, shape=z.shape) for op in ("real", "imag"))
    return s.graph.parts[z.name]


def joined(s, re, im):
    """The c64 value of two parts."""
    if im is None:
        im = s.expand(s.graph.splat(0.0, REAL), re.shape)
    z = s.emit("complex", [re, im], dtype=torch.complex64, shape=re.shape)
    s.graph.parts[z.name] = (re, im)
    return z


def real(s, op, operands, shape, **attributes):
    return s.emit(op, operands, dtype=REAL, shape=shape, **attributes)


def number(s, value):
    """An operand of complex arithmetic: a tensor or a number."""
    if not isinstance(value, (int, float, complex)):
        return parts(s, value)
    value = complex(value)
    return s.graph.splat(value.real, REAL), s.graph.splat(value.imag, REAL) if value.imag else None


def combine(s, op, a, b, shape):
    """a op b, where None is 0."""
    if a is None or b is None:
        only = a if b is None else b
        return real(s, "neg", [b], b.shape) if only is b and op == "sub" and b is not None else only
    return real(s, op, [a, b], shape)


def product(s, a, b, multiply, shape):
    """The parts of the product of two pairs of parts."""
    both = [None if x is None or y is None else multiply(x, y) for x in a for y in b]
    return combine(s, "sub", both[0], both[3], shape), combine(s, "add", both[1], both[2], shape)


# Operators that the table of real ones has too: of complex values they go another way.

def of_complex(*names):
    def register(handler):
        for name in names:
            packet, overload = name.split(".")
            op = getattr(getattr(torch.ops.aten, packet), overload)
            ordinary = HANDLERS[op]

            def either(s, _ordinary=ordinary, **arguments):
                tensors = [value for value in arguments.values() if hasattr(value, "dtype")]
                is_complex = s.out.dtype.is_complex or any(value.dtype.is_complex for value in tensors)
                return (handler if is_complex else _ordinary)(s, **arguments)
            HANDLERS[op] = either
        return handler
    return register


@of_complex("mul.Tensor", "mul.Scalar")
def mul(s, x, other):
    a, b = number(s, x), number(s, other)
    return joined(s, *grown(s, product(s, a, b, lambda p, q: real(s, "mul", [p, q], s.out.shape), s.out.shape)))


@of_complex("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar")
def add(s, x, other, alpha):
    op = "add" if "add" in str(s.node.target) else "sub"
    a, b = number(s, x), number(s, other)
    if alpha != 1:
        b = product(s, b, number(s, alpha), lambda p, q: real(s, "mul", [p, q], p.shape), s.out.shape)
    return joined(s, *grown(s, [combine(s, op, p, q, s.out.shape) for p, q in zip(a, b)]))


def grown(s, pair):
    """Both parts in the shape of the result: one that is no sum may be smaller."""
    return [None if part is None else s.expand(part, s.out.shape) for part in pair]


@of_complex("div.Tensor", "div.Scalar")
def div(s, x, other):
    a, b = number(s, x), number(s, other)
    if b[1] is None:
        return joined(s, *grown(s, [None if part is None else real(s, "div", [part, b[0]], s.out.shape) for part in a]))
    left, right = (s.expand(joined(s, *pair), s.out.shape) for pair in (a, b))
    return s.emit("div", [left, right])


@of_complex("reciprocal.default")
def reciprocal(s, x):
    return div(s, 1, x)


@of_complex("sqrt.default")
def square_root(s, x):
    return s.emit("sqrt", [x])


@of_complex("log.default")
def logarithm(s, x):
    return s.emit("log", [x])


@of_complex("neg.default")
def neg(s, x):
    return joined(s, *[real(s, "neg", [part], x.shape) for part in parts(s, x)])


@of_complex("matmul.default", "mm.default", "bmm.default")
def matmul(s, **arguments):
    a, b = (parts(s, x) for x in arguments.values())
    return joined(s, *product(s, a, b, lambda p, q: real(s, "matmul", [p, q], s.out.shape), s.out.shape))


@of_complex("linear.default")
def linear(s, input, weight, bias):
    shape = s.out.shape
    y = product(s, parts(s, input), parts(s, weight), lambda p, q: real(s, "matmul", [p, q], shape, trans_b=True), shape)
    return joined(s, *(y if bias is None else [combine(s, "add", p, q, shape) for p, q in zip(y, parts(s, bias))]))


@of_complex("addmm.default")
def addmm(s, x, mat1, mat2, beta, alpha):
    if beta != 1 or alpha != 1:
        raise Unsupported("a complex product with beta or alpha; multiply by them apart")
    shape = s.out.shape
    y = product(s, parts(s, mat1), parts(s, mat2), lambda p, q: real(s, "matmul", [p, q], shape), shape)
    return joined(s, *grown(s, [combine(s, "add", p, q, shape) for p, q in zip(y, parts(s, x))]))


@of_complex("sum.default", "sum.dim_IntList", "mean.default", "mean.dim")
def reduction(s, x, dim=None, keepdim=False, **_):
    op = "reduce_sum" if "sum" in str(s.node.target) else "reduce_mean"
    dims = range(x.rank) if not dim else dim if isinstance(dim, (list, tuple)) else [dim]
    axes = sorted(axis % x.rank for axis in dims)
    return joined(s, *[real(s, op, [part], s.out.shape, axes=axes, keep_dims=bool(keepdim)) for part in parts(s, x)])


@of_complex("abs.default")
def absolute(s, x):
    return s.emit("abs", [x])


@of_complex("exp.default")
def exp(s, x):
    return s.emit("exp", [x])


# Functions of a + ib by functions of a and of b.

def hyperbolic(s, re, im):
    """The parts of sinh and of cosh."""
    def of(op, x):
        return real(s, op, [x], x.shape)
    def times(x, y):
        return real(s, "mul", [x, y], re.shape)
    sinh, cosh, sin, cos = (of(op, x) for op, x in (("sinh", re), ("cosh", re), ("sin", im), ("cos", im)))
    return (times(sinh, cos), times(cosh, sin)), (times(cosh, cos), times(sinh, sin))


def hyperbolic_tangent(s, re, im):
    """tanh a / (cos^2 b + tanh^2 a sin^2 b) and sin b cos b / cosh^2 a over the same: nothing overflows."""
    def of(op, *operands):
        return real(s, op, operands, re.shape)
    slope, sin, cos, inverse = of("tanh", re), of("sin", im), of("cos", im), of("reciprocal", of("cosh", re))
    below = of("add", of("square", cos), of("square", of("mul", slope, sin)))
    return of("div", slope, below), of("div", of("mul", of("mul", sin, cos), of("square", inverse)), below)


def turned(s, pair):
    """i z."""
    return real(s, "neg", [pair[1]], pair[1].shape), pair[0]


def turned_back(s, pair):
    """-i z."""
    return pair[1], real(s, "neg", [pair[0]], pair[0].shape)


@of_complex("sinh.default", "cosh.default", "tanh.default")
def hyperbolic_function(s, x):
    name = str(s.node.target)
    if "tanh" in name:
        return joined(s, *hyperbolic_tangent(s, *parts(s, x)))
    return joined(s, *hyperbolic(s, *parts(s, x))[0 if "sinh" in name else 1])


@of_complex("sin.default", "cos.default", "tan.default")
def circular_function(s, x):
    """-i sinh(iz), cosh(iz) and -i tanh(iz)."""
    name, pair = str(s.node.target), turned(s, parts(s, x))
    if "cos" in name:
        return joined(s, *hyperbolic(s, *pair)[1])
    return joined(s, *turned_back(s, hyperbolic_tangent(s, *pair) if "tan" in name else hyperbolic(s, *pair)[0]))


@of_complex("sigmoid.default")
def sigmoid(s, x):
    """(1 + tanh(z / 2)) / 2."""
    def half(part, add=0.0):
        return s.emit("affine", [part], dtype=REAL, shape=part.shape, mul=0.5, add=add)
    re, im = hyperbolic_tangent(s, *(half(part) for part in parts(s, x)))
    return joined(s, half(re, 0.5), half(im))


@of_complex("silu.default")
def silu(s, x):
    return mul(s, x, sigmoid(s, x))


@of_complex("rsqrt.default")
def inverse_root(s, x):
    return div(s, 1, s.emit("sqrt", [x]))


@of_complex("sgn.default")
def direction(s, x):
    """z / |z|, and 0 for 0."""
    size = real(s, "abs", [x], x.shape)
    is_zero = s.emit("eq", [size, s.graph.splat(0.0, REAL)], dtype=torch.bool, shape=x.shape)
    size = real(s, "where", [is_zero, s.graph.splat(1.0, REAL), size], x.shape)
    return joined(s, *[real(s, "div", [part, size], x.shape) for part in parts(s, x)])


def polar_of(s, size, angle):
    factors = [real(s, op, [angle], angle.shape) for op in ("cos", "sin")]
    return joined(s, *grown(s, [real(s, "mul", [size, factor], s.out.shape) for factor in factors]))


@of_complex("_to_copy.default", "to.dtype")
def to_dtype(s, x, **_):
    if not s.out.dtype.is_complex:
        return s.cast(parts(s, x)[0], s.out.dtype)
    return x if x.dtype == s.out.dtype else joined(s, *parts(s, x))


@of_complex("pow.Tensor_Scalar")
def power(s, x, exponent):
    if exponent not in WHOLE_POWERS:
        raise Unsupported(f"a complex number to the power {exponent}; 1 to {WHOLE_POWERS[-1]} can be exported, others as exp(power * log(z))")
    y = x
    for _ in range(int(exponent) - 1):
        y = mul(s, y, x)
    return y


@aten("view_as_complex.default")
def view_as_complex(s, x):
    return joined(s, *[s.reshape(s.narrow(x, x.rank - 1, i, 1), list(s.out.shape)) for i in (0, 1)])


@aten("view_as_real.default")
def view_as_real(s, x):
    return s.emit("stack", list(parts(s, x)), axis=x.rank)


@aten("complex.default")
def make_complex(s, real, imag):
    return joined(s, *[s.expand(part, s.out.shape) for part in (real, imag)])


@aten("polar.default")
def polar(s, abs, angle):
    return polar_of(s, abs, angle)


@aten("real.default")
def real_part(s, x):
    return parts(s, x)[0] if x.dtype.is_complex else x


@aten("imag.default")
def imaginary_part(s, x):
    return parts(s, x)[1]


@aten("angle.default")
def angle(s, x):
    if x.dtype.is_complex:
        return s.emit("atan2", list(parts(s, x))[::-1])
    # Of a real number 0 or pi, of NaN that.
    dtype = s.out.dtype
    is_below = s.emit("lt", [x, s.operand(0, x.dtype)], dtype=torch.bool)
    turn = s.emit("where", [is_below, s.operand(math.pi, dtype), s.operand(0.0, dtype)])
    return s.emit("where", [s.emit("is_nan", [x], dtype=torch.bool), x, turn]) if x.dtype.is_floating_point else turn


@aten("conj.default", "_conj.default", "_conj_physical.default", "conj_physical.default")
def conjugate(s, x):
    if not x.dtype.is_complex:
        return x
    re, im = parts(s, x)
    return joined(s, re, real(s, "neg", [im], x.shape))


@aten("resolve_conj.default", "resolve_neg.default")
def resolve(s, x):
    return x


# ---- transforms

NORMS = {  # torch's factors 1, 1 / root(n) and 1 / n by the names of a transform forward and back
    False: ("none", "ortho", "forward"), True: ("none", "ortho", "backward")}


@aten("_fft_c2c.default")
def fft_c2c(s, x, dim, normalization, forward):
    x = x if x.dtype.is_complex else joined(s, *parts(s, x))
    for axis in (axis % x.rank for axis in dim):
        x = s.emit("fft", [x], shape=x.shape, axis=axis, inverse=not forward, norm=NORMS[not forward][normalization])
    return x


@aten("_fft_r2c.default")
def fft_r2c(s, x, dim, normalization, onesided):
    *others, last = [axis % x.rank for axis in dim]
    shape = list(x.shape)
    shape[last] = s.out.shape[last]
    y = s.emit("rfft", [x], shape=shape, axis=last, norm=NORMS[False][normalization], onesided=onesided)
    for axis in others:
        y = s.emit("fft", [y], shape=y.shape, axis=axis, norm=NORMS[False][normalization])
    return y


@aten("_fft_c2r.default")
def fft_c2r(s, x, dim, normalization, last_dim_size):
    *others, last = [axis % x.rank for axis in dim]
    norm = NORMS[True][normalization]
    for axis in others:
        x = s.emit("fft", [x], shape=x.shape, axis=axis, inverse=True, norm=norm)
    return s.emit("irfft", [x], axis=last, n=s.dims([last_dim_size])[0], norm=norm)
