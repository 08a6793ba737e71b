# SPDX-License-Identifier: Apache-2.0
"""ATen's elementwise operators, reductions, movement and indexing as operators of rlx. A handler takes its scope and the
arguments of the operator's schema by name ("self" is called x) and returns the result, or a list of several. What is in the
table is kept whole when the program is decomposed; the rest must decompose into what is in it."""
import math

import torch

from rlx_export_graph import END, Tensor, Unsupported, dtype_name, expression, known, known_number, same

HANDLERS = {}  # torch.ops.aten overload, or text as "torchvision.nms.default" for another library's: handler


def aten(*names):
    """Registers a handler under names as "add.Tensor"; what this version of PyTorch does not have is left out."""
    def register(handler):
        for name in names:
            *library, packet, overload = name.split(".")
            if library:  # it may be loaded later, or never
                HANDLERS[name] = handler
                continue
            op = getattr(getattr(torch.ops.aten, packet, None), overload, None)
            if op is not None:
                HANDLERS[op] = handler
        return handler
    return register


def table(names, make):
    for name, target in names.items():
        aten(*(name if isinstance(name, tuple) else (name,)))(make(target))


# ---- elementwise

def unary(op):
    def handler(s, **arguments):
        x = next(iter(arguments.values()))
        if x.dtype.is_complex:
            raise Unsupported(f"{op} of complex numbers; write it with their real and imaginary parts")
        is_test = op in ("is_nan", "is_inf")
        if is_test and not x.dtype.is_floating_point:
            x = s.cast(x, torch.float32)
        return s.emit(op, [x if is_test else s.cast(x, s.out.dtype)])
    return handler


table({f"{name}.default": op or name for name, op in {
    "abs": "", "neg": "", "_neg_view": "neg", "sign": "", "sgn": "sign", "floor": "", "ceil": "", "trunc": "", "round": "", "sqrt": "", "rsqrt": "",
    "reciprocal": "", "square": "", "exp": "", "exp2": "", "expm1": "", "log": "", "log2": "", "log10": "", "log1p": "",
    "sin": "", "cos": "", "tan": "", "asin": "", "acos": "", "atan": "", "sinh": "", "cosh": "", "tanh": "", "asinh": "",
    "acosh": "", "atanh": "", "erf": "", "sigmoid": "", "log_sigmoid": "", "relu": "", "silu": "", "mish": "",
    "selu": "", "hardswish": "hard_swish", "isnan": "is_nan", "isinf": "is_inf"}.items()}, unary)


@aten("gelu.default")
def gelu(s, x, approximate):
    return s.emit("gelu_tanh" if approximate == "tanh" else "gelu", [x])


@aten("leaky_relu.default")
def leaky_relu(s, x, negative_slope):
    return s.emit("leaky_relu", [x], alpha=float(negative_slope))


@aten("elu.default")
def elu(s, x, alpha, scale, input_scale):
    if scale != 1 or input_scale != 1:
        raise Unsupported("elu with a scale")
    return s.emit("elu", [x], alpha=float(alpha))


@aten("celu.default")
def celu(s, x, alpha):
    return s.emit("celu", [x], alpha=float(alpha))


@aten("softplus.default")
def softplus(s, x, beta, threshold):
    y = s.emit("softplus", [x], beta=float(beta))
    if threshold >= 16:  # where it is x but for rounding anyway
        return y
    if beta <= 0:
        raise Unsupported(f"softplus with beta {beta} and threshold {threshold}")
    is_above = s.emit("gt", [x, s.operand(threshold / beta, x.dtype)], dtype=torch.bool)
    return s.emit("where", [is_above, x, y])


@aten("rrelu_with_noise.default", "rrelu_with_noise_functional.default")
def rrelu(s, x, noise, lower, upper, training=False):
    if training:
        raise Unsupported("rrelu in training, which draws its slopes")
    y = s.emit("leaky_relu", [x], alpha=(lower + upper) / 2)
    return [y] if "functional" in str(s.node.target) else y


@aten("hardsigmoid.default")
def hard_sigmoid(s, x):
    return s.emit("hard_sigmoid", [x], alpha=1 / 6, beta=0.5)


@aten("hardshrink.default", "softshrink.default")
def shrink(s, x, lambd):
    return s.emit("shrink", [x], lambd=float(lambd), bias=float(lambd) if "soft" in str(s.node.target) else 0.0)


@aten("threshold.default")
def threshold(s, x, threshold, value):
    if value == 0 and x.dtype.is_floating_point:
        return s.emit("thresholded_relu", [x], alpha=float(threshold))
    is_above = s.emit("gt", [x, s.operand(threshold, x.dtype)], dtype=torch.bool)
    return s.emit("where", [is_above, x, s.operand(value, x.dtype)])


@aten("prelu.default")
def prelu(s, x, weight):
    slopes = s.reshape(weight, [weight.shape[0]] + [1] * (x.rank - 2)) if x.rank > 1 else weight
    return s.emit("prelu", [x, slopes])


@aten("clamp.default", "clamp.Tensor", "clamp_min.default", "clamp_max.default", "clamp_min.Tensor", "clamp_max.Tensor",
      "hardtanh.default")
def clamp(s, x, min=None, max=None, min_val=None, max_val=None):
    low, high = (min if min_val is None else min_val), (max if max_val is None else max_val)
    x = s.cast(x, s.out.dtype)
    if not isinstance(low, Tensor) and not isinstance(high, Tensor) and x.dtype.is_floating_point:
        bounds = {"min": low, "max": high}
        return s.emit("clamp", [x], **{key: float(value) for key, value in bounds.items() if value is not None})
    inputs = [x] + [None if bound is None else s.operand(bound, x.dtype) for bound in (low, high)]
    return s.emit("clamp", inputs)


def arithmetic(op):
    def handler(s, x, other, alpha=1):
        dtype = s.out.dtype
        if dtype == torch.bool:
            if op not in ("add", "mul", "max", "min"):
                raise Unsupported(f"{op} of bools")
            logical = "logical_or" if op in ("add", "max") else "logical_and"
            return s.emit(logical, [s.operand(x, dtype), s.operand(other, dtype)])
        # Scalars of halves are applied before the result is rounded, as PyTorch does.
        number = None if isinstance(other, Tensor) else known_number(other)
        if number is not None and isinstance(x, Tensor) and dtype in (torch.float16, torch.bfloat16) and \
                op in ("add", "sub", "mul"):
            factors = {"mul": float(number)} if op == "mul" else {"add": float(number * alpha) * (1 if op == "add" else -1)}
            return s.emit("affine", [s.cast(x, dtype)], **factors)
        right = s.operand(other, dtype)
        if alpha != 1:
            right = s.emit("mul", [right, s.operand(alpha, dtype)], shape=right.shape)
        return s.emit(op, [s.operand(x, dtype), right])
    return handler


table({("add.Tensor", "add.Scalar"): "add", ("sub.Tensor", "sub.Scalar"): "sub", ("mul.Tensor", "mul.Scalar"): "mul",
       ("div.Tensor", "div.Scalar"): "div", ("remainder.Tensor", "remainder.Scalar"): "mod",
       ("fmod.Tensor", "fmod.Scalar"): "fmod", ("maximum.default",): "max", ("minimum.default",): "min",
       ("atan2.default",): "atan2", ("floor_divide.default", "floor_divide.Scalar"): "floor_div"}, arithmetic)


@aten("hypot.default")
def hypot(s, x, other):
    squares = [s.emit("square", [s.cast(value, s.out.dtype)], shape=value.shape) for value in (x, other)]
    return s.emit("sqrt", [s.emit("add", squares)])


@aten("copysign.Tensor", "copysign.Scalar")
def copysign(s, x, other):
    size = s.emit("abs", [s.operand(x, s.out.dtype)], shape=x.shape)
    other = s.operand(other, s.out.dtype)
    # The sign of a zero counts: 1 / -0 is below 0.
    is_below = s.emit("lt", [other, s.operand(0, s.out.dtype)], dtype=torch.bool, shape=other.shape)
    inverse = s.emit("reciprocal", [other], shape=other.shape)
    is_minus_zero = s.emit("lt", [inverse, s.operand(0, s.out.dtype)], dtype=torch.bool, shape=other.shape)
    is_minus = s.emit("logical_or", [is_below, is_minus_zero], dtype=torch.bool, shape=other.shape)
    return s.emit("where", [is_minus, s.emit("neg", [size], shape=size.shape), size])


def bits_of(s, x):
    """The bits of a float as a signed whole number of its size."""
    ints = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.dtype.itemsize]
    return s.emit("bitcast", [x], dtype=ints, shape=x.shape, to=dtype_name(ints))


@aten("signbit.default")
def signbit(s, x):
    number = bits_of(s, x) if x.dtype.is_floating_point else x
    return s.emit("lt", [number, s.operand(0, number.dtype)], dtype=torch.bool)


@aten("frexp.Tensor")
def frexp(s, x):
    """The fraction and the power of two, out of the bits; what has no fraction of its own is first multiplied by 2^24."""
    if x.dtype != torch.float32:
        raise Unsupported(f"frexp of {dtype_name(x.dtype)}; cast it to float32")
    ints, shape = torch.int32, x.shape

    def made(op, *operands, dtype=ints):
        return s.emit(op, operands, dtype=dtype, shape=shape)

    def number(value):
        return s.operand(value, ints)
    size = made("abs", x, dtype=x.dtype)
    is_small = made("lt", size, s.operand(2.0**-126, x.dtype), dtype=torch.bool)
    bits = bits_of(s, made("where", is_small, made("mul", x, s.operand(2.0**24, x.dtype), dtype=x.dtype), x, dtype=x.dtype))
    power = made("sub", made("bitwise_and", made("shift_right", bits, number(23)), number(255)), made("where", is_small, number(150), number(126)))
    fraction = made("bitwise_or", made("bitwise_and", bits, number(-0x7f800001)), number(0x3f000000))
    fraction = s.emit("bitcast", [fraction], dtype=x.dtype, shape=shape, to="f32")
    is_plain = made("logical_and", made("gt", size, s.operand(0, x.dtype), dtype=torch.bool),
                    made("lt", size, s.operand(math.inf, x.dtype), dtype=torch.bool), dtype=torch.bool)
    return [made("where", is_plain, fraction, x, dtype=x.dtype), made("where", is_plain, power, number(0))]


@aten("nextafter.default")
def nextafter(s, x, other):
    """The neighbour toward the other: its bits are one more or one less."""
    dtype = s.out.dtype
    x, other = s.expand(s.cast(x, dtype), s.out.shape), s.expand(s.cast(other, dtype), s.out.shape)
    bits = bits_of(s, x)
    ints = bits.dtype

    def made(op, *operands, dtype=torch.bool):
        return s.emit(op, operands, dtype=dtype)

    def tests(value):
        return made("gt", other, value), made("gt", value, s.operand(0, dtype))
    is_up, is_positive = tests(x)
    step = made("where", made("eq", is_up, is_positive), s.operand(1, ints), s.operand(-1, ints), dtype=ints)
    least = made("where", is_up, s.operand(1, ints), s.operand(torch.iinfo(ints).min + 1, ints), dtype=ints)
    is_zero = made("eq", x, s.operand(0, dtype))
    moved = made("where", is_zero, least, made("add", bits, step, dtype=ints), dtype=ints)
    moved = s.emit("bitcast", [moved], to=dtype_name(dtype))
    is_odd = made("logical_or", made("is_nan", x), made("is_nan", other))
    stays = made("where", is_odd, made("add", x, other, dtype=dtype), other, dtype=dtype)
    return made("where", made("logical_or", is_odd, made("eq", x, other)), stays, moved, dtype=dtype)


@aten("fmax.default", "fmin.default")
def not_nan(s, x, other):
    """The larger or smaller of two, where one is NaN the other."""
    x, other = (s.operand(value, s.out.dtype) for value in (x, other))
    y = s.emit("max" if "fmax" in str(s.node.target) else "min", [x, other])
    if not s.out.dtype.is_floating_point:
        return y
    has_no_x, has_no_other = (s.emit("is_nan", [value], dtype=torch.bool, shape=value.shape) for value in (x, other))
    return s.emit("where", [has_no_x, other, s.emit("where", [has_no_other, x, y])])


@aten("ldexp.Tensor")
def ldexp(s, x, other):
    power = s.emit("exp2", [s.operand(other, s.out.dtype)], shape=other.shape)
    return s.emit("mul", [s.operand(x, s.out.dtype), power])


# After so many divisions with a rest Euclid's algorithm is at its end whatever the numbers: Fibonacci's take longest.
DIVISIONS = {torch.int64: 92, torch.int32: 46, torch.int16: 23, torch.int8: 12, torch.uint8: 13}


def divisor_of(s, x, other):
    """The greatest common divisor of two whole numbers, and their sizes."""
    dtype, shape = s.out.dtype, s.out.shape
    def op(name, *operands, dtype=dtype):
        return s.emit(name, list(operands), dtype=dtype, shape=shape)
    zero = s.operand(0, dtype)
    sizes = [s.expand(s.emit("abs", [s.cast(value, dtype)], dtype=dtype, shape=value.shape), shape) for value in (x, other)]
    a, b = sizes
    is_nothing = op("eq", op("max", a, b), zero, dtype=torch.bool)  # of 0 and 0 it is 0
    a = op("where", is_nothing, s.operand(1, dtype), a)
    for _ in range(DIVISIONS[dtype]):
        divisor = op("where", op("eq", b, zero, dtype=torch.bool), a, b)
        a, b = divisor, op("mod", a, divisor)
    return op("where", is_nothing, zero, a), sizes


@aten("gcd.default")
def gcd(s, x, other):
    return divisor_of(s, x, other)[0]


@aten("lcm.default")
def lcm(s, x, other):
    divisor, (a, b) = divisor_of(s, x, other)
    whole = s.emit("max", [divisor, s.operand(1, s.out.dtype)])
    return s.emit("mul", [s.emit("div", [a, whole]), b])


@aten("round.decimals")
def round_to(s, x, decimals):
    if not x.dtype.is_floating_point:
        raise Unsupported("whole numbers rounded to decimals; cast them to a float type")
    before, after = ("mul", "div") if decimals >= 0 else ("div", "mul")
    scale = s.operand(10.0 ** abs(decimals), x.dtype)
    return s.emit(after, [s.emit("round", [s.emit(before, [x, scale])]), scale])


@aten("div.Tensor_mode", "div.Scalar_mode")
def div_mode(s, x, other, rounding_mode):
    operands = [s.operand(x, s.out.dtype), s.operand(other, s.out.dtype)]
    if rounding_mode == "floor":
        return s.emit("floor_div", operands)
    quotient = s.emit("div", operands)
    return s.emit("trunc", [quotient]) if rounding_mode == "trunc" and s.out.dtype.is_floating_point else quotient


@aten("rsub.Tensor", "rsub.Scalar")
def rsub(s, x, other, alpha):
    scaled = x if alpha == 1 else s.emit("mul", [s.operand(x, s.out.dtype), s.operand(alpha, s.out.dtype)])
    return s.emit("sub", [s.operand(other, s.out.dtype), s.operand(scaled, s.out.dtype)])


@aten("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(s, x, exponent):
    dtype = s.out.dtype
    number = None if isinstance(exponent, Tensor) else known_number(exponent)
    if number is not None and dtype.is_floating_point:
        name = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}.get(number)
        x = s.cast(x, dtype)
        return s.emit(name, [x]) if name else s.emit("powf", [x], exponent=float(number))
    return s.emit("pow", [s.operand(x, dtype), s.operand(exponent, dtype)])


def common_dtype(*values):
    """PyTorch's type of a comparison's operands."""
    sample = [torch.empty([1] * value.rank, dtype=value.dtype, device="meta") if isinstance(value, Tensor) else
              0 if known_number(value) is None else known_number(value) for value in values]
    return torch.result_type(*sample)


def comparison(op):
    def handler(s, x, other):
        dtype = common_dtype(x, other)
        if dtype == torch.bool and op not in ("eq", "ne"):
            dtype = torch.uint8
        return s.emit(op, [s.operand(x, dtype), s.operand(other, dtype)])
    return handler


table({(f"{op}.Tensor", f"{op}.Scalar"): op for op in ("eq", "ne", "lt", "le", "gt", "ge")}, comparison)


def bitwise(name):
    def handler(s, x, other):
        op = ("logical_" if s.out.dtype == torch.bool else "bitwise_") + name
        return s.emit(op, [s.operand(x, s.out.dtype), s.operand(other, s.out.dtype)])
    return handler


table({(f"bitwise_{op}.Tensor", f"bitwise_{op}.Scalar", f"bitwise_{op}.Scalar_Tensor"): op for op in ("and", "or", "xor")},
      bitwise)


table({(f"bitwise_{name}_shift.Tensor", f"bitwise_{name}_shift.Tensor_Scalar", f"bitwise_{name}_shift.Scalar_Tensor",
        f"__{name[0]}shift__.Tensor", f"__{name[0]}shift__.Scalar"): name for name in ("left", "right")},
      lambda name: lambda s, x, other: s.emit("shift_" + name, [s.operand(x, s.out.dtype), s.operand(other, s.out.dtype)]))


def logical(op):
    def handler(s, x, other):
        return s.emit(op, [s.operand(x, torch.bool), s.operand(other, torch.bool)])
    return handler


table({f"{op}.default": op for op in ("logical_and", "logical_or", "logical_xor")}, logical)


@aten("logical_not.default", "bitwise_not.default")
def invert(s, x):
    return s.emit("logical_not", [s.cast(x, torch.bool)]) if s.out.dtype == torch.bool else s.emit("bitwise_not", [x])


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(s, condition, x, other):
    return s.emit("where", [s.cast(condition, torch.bool), s.operand(x, s.out.dtype), s.operand(other, s.out.dtype)])


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(s, x, mask, value):
    return s.emit("where", [mask, s.operand(value, x.dtype), x])


@aten("_to_copy.default", "to.dtype", "to.dtype_layout", "type_as.default")
def to_dtype(s, x, **_):
    return s.cast(x, s.out.dtype)


@aten("copy.default")
def copy(s, x, src, **_):
    return s.expand(s.cast(src, x.dtype), x.shape)


@aten("clone.default", "alias.default", "lift_fresh_copy.default", "contiguous.default")
def identity(s, x, **_):
    return x


@aten("detach.default", "detach_.default")
def detach(s, x):
    return s.emit("stop_gradient", [x])


@aten("dropout.default", "native_dropout.default", "feature_dropout.default", "alpha_dropout.default")
def dropout(s, p, train, x=None, input=None):
    x = x or input
    if not (train and p):
        return x
    if str(s.node.target) == "aten.native_dropout.default":
        return s.emit_many("dropout", [x], [(x.dtype, x.shape), (torch.bool, x.shape)], p=float(p), training=True)
    if str(s.node.target) != "aten.dropout.default":
        raise Unsupported("this dropout while it is active: call eval() on the model before the export, or use torch.nn.Dropout")
    return s.emit("dropout", [x], p=float(p), training=True)


@aten("cross_entropy_loss.default")
def cross_entropy(s, x, target, weight, reduction, ignore_index, label_smoothing):
    if x.rank < 2:
        raise Unsupported("cross_entropy of logits without a batch: give them as [1, C]")
    dense = target.dtype.is_floating_point
    attributes = {} if dense else {"ignore_index": int(ignore_index)}
    return s.emit("softmax_cross_entropy", [x, s.cast(target, x.dtype) if dense else target, weight], axis=1,
                  reduction=("none", "mean", "sum")[reduction], label_smoothing=float(label_smoothing), **attributes)


# ---- reductions

def axes_of(x, dim):
    """The reduced axes; no dim, or an empty list, means all of them."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(x.rank))
    return sorted(d % max(x.rank, 1) for d in (dim if isinstance(dim, (list, tuple)) else [dim]))


def reduction(op):
    def handler(s, x, dim=None, keepdim=False, **_):
        if op in ("reduce_any", "reduce_all"):
            x = s.cast(x, torch.bool)
        elif s.out.dtype != x.dtype:
            x = s.cast(x, s.out.dtype)
        if x.rank == 0:
            return x
        return s.emit(op, [x], axes=axes_of(x, dim), keep_dims=bool(keepdim))
    return handler


@aten("mean.default", "mean.dim")
def mean(s, x, dim=None, keepdim=False, **_):
    if not s.node.meta.get("fills"):
        return reduction("reduce_mean")(s, x, dim, keepdim)
    # Of rows that the data count: what is there, by as many as there are.
    real = torch.float64 if s.out.dtype == torch.float64 else torch.float32
    axes = axes_of(x, dim)
    total = s.emit("reduce_sum", [s.cast(x, real)], dtype=real, axes=axes, keep_dims=keepdim)
    count = s.cast(s.counts.elements_along(s, s.node.args[0], axes), real)
    return s.cast(s.emit("div", [total, count], dtype=real), s.out.dtype)


table({("sum.default", "sum.dim_IntList"): "reduce_sum",
       ("amax.default", "max.default"): "reduce_max", ("amin.default", "min.default"): "reduce_min",
       ("prod.default", "prod.dim_int"): "reduce_prod", ("logsumexp.default",): "reduce_log_sum_exp",
       ("any.default", "any.dim", "any.dims"): "reduce_any", ("all.default", "all.dim", "all.dims"): "reduce_all"}, reduction)


@aten("mode.default")
def mode(s, x, dim=-1, keepdim=False):
    """The least of the values that are there most often, and the last place where it stands."""
    if x.rank == 0:
        raise Unsupported("mode of a scalar")
    axis = dim % x.rank
    size, ints = x.shape[axis], torch.int64
    kept = [1 if i == axis else n for i, n in enumerate(x.shape)]
    rows = s.reshape(x, [*x.shape[:axis + 1], 1, *x.shape[axis + 1:]])
    columns = s.reshape(x, [*x.shape[:axis], 1, *x.shape[axis:]])
    is_same = s.emit("eq", [rows, columns], dtype=torch.bool, shape=[*x.shape[:axis], size, *x.shape[axis:]])
    counts = s.emit("reduce_sum", [s.cast(is_same, torch.int32)], dtype=torch.int32, shape=x.shape, axes=[axis + 1], keep_dims=False)
    most = s.emit("reduce_max", [counts], dtype=torch.int32, shape=kept, axes=[axis], keep_dims=True)
    is_frequent = s.emit("eq", [counts, most], dtype=torch.bool, shape=x.shape)
    if x.dtype.is_floating_point:
        largest = s.operand(math.inf, x.dtype)
    else:
        largest = s.emit("reduce_max", [x], dtype=x.dtype, shape=kept, axes=[axis], keep_dims=True)
    shown = s.emit("where", [is_frequent, x, largest], dtype=x.dtype, shape=x.shape)
    value = s.emit("reduce_min", [shown], dtype=x.dtype, shape=kept, axes=[axis], keep_dims=True)
    places = s.emit("range", [s.operand(0, ints), None, s.operand(1, ints)], dtype=ints, shape=[size], count=s.dims([size])[0])
    places = s.reshape(places, [size if i == axis else 1 for i in range(x.rank)])
    is_it = s.emit("eq", [x, value], dtype=torch.bool, shape=x.shape)
    places = s.emit("where", [is_it, places, s.operand(0, ints)], dtype=ints, shape=x.shape)
    place = s.emit("reduce_max", [places], dtype=ints, shape=kept, axes=[axis], keep_dims=True)
    return [part if keepdim else s.reshape(part, list(s.out.shape)) for part in (value, place)]


@aten("max.dim", "min.dim")
def extreme(s, x, dim, keepdim):
    kind = "max" if "max" in str(s.node.target) else "min"
    axis = axes_of(x, dim)
    values = s.emit(f"reduce_{kind}", [x], axes=axis, keep_dims=keepdim)
    return [values, s.emit(f"arg{kind}", [x], dtype=torch.int64, axis=axis[0], keep_dims=keepdim, index_dtype="i64")]


@aten("argmax.default", "argmin.default")
def arg_extreme(s, x, dim, keepdim):
    op = "argmax" if "argmax" in str(s.node.target) else "argmin"
    return s.emit(op, [x], axis=None if dim is None else dim % x.rank, keep_dims=bool(keepdim), index_dtype="i64")


@aten("var.correction", "std.correction")
def variance(s, x, dim, correction, keepdim):
    value = s.emit("variance", [x], axes=axes_of(x, dim), keep_dims=bool(keepdim),
                   correction=1 if correction is None else int(correction))
    return s.emit("sqrt", [value]) if "std" in str(s.node.target) else value


@aten("var_mean.correction")
def var_mean(s, x, dim, correction, keepdim):
    mean = s.emit("reduce_mean", [x], axes=axes_of(x, dim), keep_dims=bool(keepdim))
    return [variance(s, x, dim, correction, keepdim), mean]


@aten("linalg_vector_norm.default")
def vector_norm(s, x, ord, dim, keepdim, dtype):
    op = {1: "reduce_l1", 2: "reduce_l2", math.inf: "reduce_max", -math.inf: "reduce_min"}.get(ord, "reduce_sum")
    if ord == 0:
        raise Unsupported("a norm of order 0, which counts; sum x != 0")
    x = s.cast(x, s.out.dtype)
    over = {"axes": axes_of(x, dim), "keep_dims": bool(keepdim)}
    if op in ("reduce_l1", "reduce_l2"):
        return s.emit(op, [x], **over)
    size = s.emit("abs", [x], shape=x.shape)
    if op != "reduce_sum":
        return s.emit(op, [size], **over)
    powers = s.emit("powf", [size], shape=x.shape, exponent=float(ord))
    return s.emit("powf", [s.emit("reduce_sum", [powers], **over)], exponent=1 / ord)


@aten("cumsum.default", "cumprod.default")
def cumulative(s, x, dim, dtype):
    op = "cumsum" if "cumsum" in str(s.node.target) else "cumprod"
    return s.emit(op, [s.cast(x, s.out.dtype)], axis=dim % max(x.rank, 1)) if x.rank else s.cast(x, s.out.dtype)


@aten("cummax.default", "cummin.default")
def running_extreme(s, x, dim):
    op = "cummax" if "cummax" in str(s.node.target) else "cummin"
    return s.emit_many(op, [x], [(x.dtype, x.shape), (torch.int64, x.shape)], axis=dim % x.rank, index_dtype="i64")


@aten("softmax.int", "_softmax.default", "_safe_softmax.default", "log_softmax.int", "_log_softmax.default")
def softmax(s, x, dim, **_):
    op = "log_softmax" if "log_softmax" in str(s.node.target) else "softmax"
    if x.rank == 0:
        raise Unsupported("softmax of a scalar")
    if "_safe_softmax" in str(s.node.target):
        raise Unsupported("_safe_softmax, whose fully masked rows are 0; use scaled_dot_product_attention")
    return s.emit(op, [s.cast(x, s.out.dtype)], axis=dim % x.rank)


@aten("topk.default")
def topk(s, x, k, dim, largest, sorted):
    count = s.dims([k])[0]
    types = [(value.dtype, value.shape) for value in s.node.meta["val"]]
    return s.emit_many("topk", [x], types, k=count, axis=dim % x.rank, largest=largest, sorted=sorted, index_dtype="i64")


@aten("sort.default", "sort.stable")
def sort(s, x, dim, descending, stable=None):
    return s.emit_many("sort", [x], [(x.dtype, x.shape), (torch.int64, x.shape)], axis=dim % x.rank, descending=descending,
                       index_dtype="i64")


@aten("median.dim", "kthvalue.default")
def ranked(s, x, dim, keepdim, k=None):
    """The k-th of the sorted elements, and its place; of a median the lower one in the middle."""
    axis = dim % max(x.rank, 1)
    count = known(x.shape[axis]) if x.rank else None
    if count is None:
        raise Unsupported("a median of a scalar or of a dynamic axis")
    sorted_ = s.emit_many("sort", [x], [(x.dtype, x.shape), (torch.int64, x.shape)], axis=axis, index_dtype="i64")
    at = (count - 1) // 2 if k is None else k - 1
    return [s.reshape(s.narrow(part, axis, at, 1), list(s.out.shape)) for part in sorted_]


@aten("median.default")
def median_of_all(s, x):
    return ranked(s, s.reshape(x, [math.prod(x.shape)]), 0, False)[0]


@aten("nanmedian.dim", "nanmedian.default")
def nanmedian(s, x, dim=None, keepdim=False):
    """The lower one in the middle of those that are numbers, which sort in front of NaN; NaN where there is none."""
    if dim is None:
        x, dim = s.reshape(x, [math.prod(x.shape)]), 0
    axis = dim % max(x.rank, 1)
    if not x.rank or not x.dtype.is_floating_point:
        return ranked(s, x, axis, keepdim) if x.rank else [x, s.operand(0, torch.int64)]
    sorted_ = s.emit_many("sort", [x], [(x.dtype, x.shape), (torch.int64, x.shape)], axis=axis, index_dtype="i64")
    one = [*x.shape[:axis], 1, *x.shape[axis + 1:]]
    is_number = s.emit("eq", [x, x], dtype=torch.bool, shape=x.shape)
    count = s.emit("reduce_sum", [s.cast(is_number, torch.int64)], dtype=torch.int64, shape=one, axes=[axis], keep_dims=True)
    before = s.emit("clamp", [s.emit("sub", [count, s.operand(1, torch.int64)], dtype=torch.int64, shape=one)], dtype=torch.int64, shape=one,
                    min=0)
    at = s.emit("floor_div", [before, s.operand(2, torch.int64)], dtype=torch.int64, shape=one)
    found = [s.emit("gather_elements", [part, at], dtype=part.dtype, shape=one, axis=axis) for part in sorted_]
    results = [s.reshape(part, list(s.out.shape)) for part in found]
    return results[0] if "default" in str(s.node.target) else results


@aten("logcumsumexp.default")
def running_log_sum(s, x, dim):
    """By doubling: after step k each place has the sum of the 2^k before it. One largest value for all would leave nothing of places that lie
    far below it."""
    if x.rank == 0:
        return x
    axis = dim % x.rank
    size = expression(x.shape[axis])
    symbols = sorted(size.free_symbols, key=str)
    if any(symbol not in s.graph.symbols or s.graph.symbols[symbol]["max"] > 1 << 20 for symbol in symbols):
        raise Unsupported(f"logcumsumexp over {s.graph.text(size)} elements: give the dimension a largest value of at most 2^20")
    most = max((int(size.subs(place)) for place in s.graph.ends(symbols)), default=0)
    lowest = -3.0e38 if x.dtype in (torch.float32, torch.bfloat16, torch.float64) else -6.0e4  # in the place of -inf, which has no differences
    y = s.emit("clamp", [x], min=lowest)
    distance = 1
    while distance < most:
        pads = [0] * (2 * x.rank)
        pads[axis] = distance
        wide = [expression(dim) + distance if i == axis else dim for i, dim in enumerate(x.shape)]
        before = s.emit("pad", [y], shape=wide, pads=pads, axes=list(range(x.rank)), mode="constant", value=lowest)
        before = s.narrow(before, axis, 0, x.shape[axis])
        apart = s.emit("neg", [s.emit("abs", [s.emit("sub", [y, before])])])
        y = s.emit("add", [s.emit("max", [y, before]), s.emit("log1p", [s.emit("exp", [apart])])])
        distance *= 2
    is_nothing = s.emit("le", [y, s.operand(lowest / 2, x.dtype)], dtype=torch.bool)
    return s.emit("where", [is_nothing, s.operand(-math.inf, x.dtype), y])


# ---- shapes and movement

@aten("view.default", "reshape.default", "_unsafe_view.default", "flatten.using_ints", "unflatten.int", "squeeze.default",
      "squeeze.dim", "squeeze.dims", "unsqueeze.default")
def reshape(s, x, **_):
    return s.reshape(x, list(s.out.shape))


@aten("view.dtype")
def view_dtype(s, x, dtype):
    return s.emit("bitcast", [x], to=dtype_name(s.out.dtype))


@aten("permute.default")
def permute(s, x, dims):
    return s.permute(x, [dim % x.rank for dim in dims])


@aten("transpose.int")
def transpose(s, x, dim0, dim1):
    perm = list(range(x.rank))
    if perm:
        perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
    return s.permute(x, perm)


@aten("t.default")
def t(s, x):
    return s.permute(x, list(range(x.rank))[::-1])


@aten("expand.default")
def expand(s, x, size, **_):
    return s.expand(x, s.out.shape)


@aten("repeat.default", "tile.default")
def repeat(s, x, repeats=None, dims=None):
    counts = list(dims if repeats is None else repeats)
    counts = [1] * (x.rank - len(counts)) + counts
    return s.emit("tile", [s.reshape(x, [1] * (len(counts) - x.rank) + list(x.shape))], repeats=s.dims(counts))


@aten("repeat_interleave.self_int")
def repeat_interleave(s, x, repeats, dim, output_size):
    x = s.reshape(x, [math.prod(x.shape)]) if dim is None else x
    return s.emit("repeat_interleave", [x], axis=0 if dim is None else dim % x.rank, repeats=s.dims([repeats])[0])


@aten("cat.default")
def cat(s, tensors, dim):
    parts = [s.cast(x, s.out.dtype) for x in tensors if not (x.rank == 1 and known(x.shape[0]) == 0 and len(s.out.shape) > 1)]
    axis = dim % len(s.out.shape)
    return s.counts.close_gaps(s, s.emit("concat", parts, axis=axis), s.node, axis)


@aten("stack.default")
def stack(s, tensors, dim):
    return s.emit("stack", [s.cast(x, s.out.dtype) for x in tensors], axis=dim % len(s.out.shape))


@aten("split.Tensor", "split_with_sizes.default", "chunk.default")
def split(s, x, dim, **_):
    types = [(part.dtype, part.shape) for part in s.node.meta["val"]]
    axis = dim % x.rank
    return s.emit_many("split", [x], types, axis=axis, sizes=s.dims([shape[axis] for _, shape in types]))


@aten("unbind.int")
def unbind(s, x, dim):
    axis = dim % x.rank
    return [s.reshape(s.narrow(x, axis, i, 1), list(part.shape)) for i, part in enumerate(s.node.meta["val"])]


def from_end(index, dim):
    """The index as a number, or as the name-free distance from the axis's end, which is negative; None where it is neither."""
    if known(index) is not None:
        return known(index)
    distance = expression(index) - expression(dim)
    return int(distance) if distance.is_Integer and distance < 0 else None


@aten("select.int")
def select(s, x, dim, index):
    axis = dim % x.rank
    if isinstance(index, Tensor):  # a number that the model reads from a tensor
        return s.emit("gather", [x, index], axis=axis)
    start = from_end(index, x.shape[axis])
    return s.reshape(s.narrow(x, axis, index if start is None else start, 1), list(s.out.shape))


def bound(s, index, dim, default):
    """A bound of a slice."""
    if index is None:
        return default
    if same(index, dim):
        return END
    position = from_end(index, dim)
    return s.dims([index])[0] if position is None else position


@aten("slice.Tensor")
def slice_axis(s, x, dim, start, end, step):
    axis = dim % x.rank
    s.counts.found_slice(s)
    is_counted = s.counts.has_counted(s.node, axis)
    if isinstance(start, Tensor) and not is_counted and step == 1:
        return s.emit("narrow", [x, start], axis=axis, len=s.dims([s.out.shape[axis]])[0])
    if isinstance(end, Tensor) and is_counted:  # as many as there may be; who reads the rows counts them
        end = s.out.shape[axis]
    first, last = bound(s, start, x.shape[axis], 0), bound(s, end, x.shape[axis], END)
    if is_counted and first == 0 and step == 1 and known(x.shape[axis]) is None:
        return as_many_rows(s, x, axis)
    if first == 0 and step == 1 and same(s.out.shape[axis], x.shape[axis]):
        return x
    if step == 1 and (isinstance(first, str) or isinstance(last, str)):  # of a size: how many there are is known without a clamp
        return s.narrow(x, axis, first_row(start, x.shape[axis]), s.out.shape[axis])
    return s.emit("slice", [x], axes=[axis], starts=[first], ends=[last], steps=[step])


def as_many_rows(s, x, axis):
    """As many rows of x as there may be at the largest size of the axis; at smaller ones the last row stands for those that are not
    there, which do not count."""
    ints, most = torch.int64, known(s.out.shape[axis])
    last = s.emit("sub", [s.operand(x.shape[axis], ints), s.operand(1, ints)], dtype=ints, shape=())
    rows = s.emit("min", [s.graph.indices(range(most)), last], dtype=ints, shape=[most])
    return s.emit("gather", [x, rows], axis=axis)


def first_row(start, dim):
    """Where a slice begins, from the axis's begin."""
    value = expression(0 if start is None else start)
    return value + expression(dim) if value.could_extract_minus_sign() else value


def place(index, dim, default):
    """A bound of a slice as a distance from the axis's begin, inside the axis where that is known."""
    value = expression(default if index is None or index == END else index)
    value = value + expression(dim) if value.is_Integer and value < 0 else value
    size = known(dim)
    return max(0, min(int(value), size)) if value.is_Integer and size is not None else value


def put(s, x, source, axis, first, last):
    """x with source in place of the rows from first to last."""
    size = expression(x.shape[axis])
    parts = [s.narrow(x, axis, 0, first), source, s.narrow(x, axis, last, size - last)]
    parts = [part for part in parts if known(part.shape[axis]) != 0]
    return s.emit("concat", parts, axis=axis) if len(parts) > 1 else parts[0] if parts else x


def put_from(s, x, source, axis, first, count):
    """x with source in place of `count` rows, from one on whose place is a number that the model reads from a tensor."""
    ints = torch.int64
    rows = s.emit("range", [first, None, s.operand(1, ints)], dtype=ints, shape=[count], count=s.dims([count])[0])
    return s.emit("index_copy", [x, rows, source], axis=axis)


@aten("slice_scatter.default")
def slice_scatter(s, x, src, dim, start, end, step):
    axis = dim % x.rank
    if isinstance(start, Tensor) and src.rank == x.rank and step == 1:
        return put_from(s, x, s.cast(src, x.dtype), axis, start, src.shape[axis])
    first, last = place(start, x.shape[axis], 0), place(end, x.shape[axis], x.shape[axis])
    shape = list(x.shape)
    if step == 1:
        shape[axis] = last - first
        return put(s, x, s.expand(s.cast(src, x.dtype), shape), axis, first, last)
    if known(x.shape[axis]) is None or not isinstance(first, int) or not isinstance(last, int):
        return put_by_steps(s, x, s.cast(src, x.dtype), axis, first, last, step)
    rows = list(range(first, last, step))
    shape[axis] = len(rows)
    return s.emit("index_copy", [x, s.graph.indices(rows), s.expand(s.cast(src, x.dtype), shape)], axis=axis)


def put_by_steps(s, x, source, axis, first, last, step):
    """x with the source in every step-th row from first to last, of an axis whose size the run gives: each row takes what its place
    says."""
    index, size = torch.int64, x.shape[axis]
    along = [size if i == axis else 1 for i in range(x.rank)]

    def computed(op, a, b, dtype=index):
        return s.emit(op, [a, b if isinstance(b, Tensor) else s.operand(b, index)], dtype=dtype, shape=[size])

    count = s.dims([size])[0]
    rows = s.emit("range", [s.operand(0, index), None, s.operand(1, index)], dtype=index, shape=[size], count=count)
    behind = computed("sub", rows, first)
    is_chosen = computed("eq", computed("mod", behind, step), 0, torch.bool)
    for test, limit in (("ge", first), ("lt", last)):
        is_chosen = computed("logical_and", is_chosen, computed(test, rows, limit, torch.bool), torch.bool)
    shape = list(x.shape)
    if known(source.shape[axis] if source.rank == x.rank else 1) == 1:
        wide = s.expand(source, [1 if i == axis else dim for i, dim in enumerate(shape)])
    else:
        at = computed("max", computed("min", computed("floor_div", behind, step), source.shape[axis] - 1), 0)
        wide = s.emit("gather", [source, at], shape=[size if i == axis else dim for i, dim in enumerate(source.shape)], axis=axis)
    return s.emit("where", [s.reshape(is_chosen, along), wide, x])


@aten("select_scatter.default")
def select_scatter(s, x, src, dim, index):
    axis = dim % x.rank
    shape = list(x.shape)
    shape[axis] = 1
    source = s.reshape(s.cast(src, x.dtype), shape)
    if isinstance(index, Tensor):
        return put_from(s, x, source, axis, index, 1)
    first = place(index, x.shape[axis], 0)
    return put(s, x, source, axis, first, first + 1)


@aten("unfold.default")
def unfold(s, x, dimension, size, step):
    axis = dimension % x.rank
    count = s.out.shape[axis]
    ints = torch.int64
    begins = s.emit("range", [s.operand(0, ints), None, s.operand(step, ints)], dtype=ints, shape=[count], count=s.dims([count])[0])
    at = s.emit("add", [s.reshape(begins, [count, 1]), s.graph.indices(range(size))], dtype=ints, shape=[count, size])
    windows = s.emit("gather", [x, at], shape=[*x.shape[:axis], count, size, *x.shape[axis + 1:]], axis=axis)
    return s.permute(windows, [i for i in range(x.rank + 1) if i != axis + 1] + [axis + 1])


@aten("flip.default")
def flip(s, x, dims):
    return s.emit("reverse", [x], axes=[dim % x.rank for dim in dims])


@aten("roll.default")
def roll(s, x, shifts, dims):
    if dims and any(isinstance(shift, Tensor) or known_number(shift) is None for shift in shifts):
        return rolled(s, x, shifts, dims)
    if dims:
        return s.emit("roll", [x], shifts=list(shifts), axes=[dim % x.rank for dim in dims])
    flat = s.reshape(x, [math.prod(x.shape)])
    return s.reshape(s.emit("roll", [flat], shape=flat.shape, shifts=list(shifts), axes=[0]), list(x.shape))


def rolled(s, x, shifts, dims):
    """By sizes of the run: on each axis the last part before the first."""
    for shift, dim in zip(shifts, dims):
        axis = dim % x.rank
        size = x.shape[axis]
        if isinstance(shift, Tensor):  # a number that the model reads from a tensor: the row of each place is looked up
            ints = torch.int64
            rows = s.emit("range", [s.operand(0, ints), None, s.operand(1, ints)], dtype=ints, shape=[size], count=s.dims([size])[0])
            rows = s.emit("mod", [s.emit("sub", [rows, shift], dtype=ints, shape=[size]), s.operand(size, ints)], dtype=ints, shape=[size])
            x = s.emit("gather", [x, rows], axis=axis)
            continue
        amount = expression(shift)
        if amount.could_extract_minus_sign():
            amount = expression(size) + amount
        rest = expression(size) - amount
        symbols = sorted(amount.free_symbols | rest.free_symbols, key=str)
        is_known = all(symbol in s.graph.symbols for symbol in symbols)
        if not is_known or any(part.subs(place) < 0 for part in (amount, rest) for place in s.graph.ends(symbols)):
            raise Unsupported(f"a roll by {s.graph.text(expression(shift))} of {s.graph.text(expression(size))} elements, which may be more "
                              "than there are, or of either sign")
        at = s.dims([rest])[0]
        shape = [list(x.shape) for _ in range(2)]
        shape[0][axis], shape[1][axis] = amount, rest
        last = s.emit("slice", [x], dtype=x.dtype, shape=shape[0], axes=[axis], starts=[at], ends=[END], steps=[1])
        first = s.emit("slice", [x], dtype=x.dtype, shape=shape[1], axes=[axis], starts=[0], ends=[at], steps=[1])
        x = s.emit("concat", [last, first], dtype=x.dtype, shape=x.shape, axis=axis)
    return x


@aten("tril.default", "triu.default")
def triangle(s, x, diagonal):
    return s.emit("trilu", [x], upper="triu" in str(s.node.target), k=diagonal)


@aten("diagonal.default")
def diagonal(s, x, offset, dim1, dim2):
    return s.emit("diagonal", [x], offset=offset, axis1=dim1 % x.rank, axis2=dim2 % x.rank)


# The value's padding modes by the names of torch.nn.functional.pad.
PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@aten("pad.default", "constant_pad_nd.default")
def pad(s, x, pad, mode="constant", value=None):
    count = len(pad) // 2
    axes = [x.rank - 1 - i for i in range(count)]
    pads = s.dims([pad[2 * i] for i in range(count)] + [pad[2 * i + 1] for i in range(count)])
    is_constant = mode == "constant"
    return s.emit("pad", [x], pads=pads, axes=axes, mode=PAD_MODES[mode], value=float(value or 0) if is_constant else None)


@aten("pixel_shuffle.default")
def pixel_shuffle(s, x, upscale_factor):
    if x.rank != 4:
        raise Unsupported(f"pixel_shuffle of rank {x.rank}")
    return s.emit("depth_to_space", [x], block=upscale_factor, mode="crd")


# ---- constants

@aten("full.default", "full_like.default", "zeros.default", "ones.default", "zeros_like.default", "ones_like.default",
      "scalar_tensor.default", "new_zeros.default", "new_ones.default", "new_full.default", "empty.memory_format",
      "empty_like.default", "new_empty.default")
def full(s, fill_value=None, s_=None, **_):
    value = fill_value if fill_value is not None else s_
    value = value if value is not None else 1 if "ones" in str(s.node.target) else 0
    number, dtype = known_number(value), s.out.dtype
    if number is None or isinstance(number, Tensor) or number != number or len(s.out.shape) == 0:
        return s.expand(s.operand(value, dtype), s.out.shape)
    return s.emit("fill", [], shape_=s.dims(s.out.shape), value=float(number), dtype_=dtype_name(dtype))


@aten("arange.default", "arange.start", "arange.start_step")
def arange(s, end, start=0, step=1, **_):
    dtype = s.out.dtype
    count = s.dims(s.out.shape)[0]
    s.counts.found_number(s)
    scalars = [s.operand(value, dtype) for value in (start, start, step)]  # the count stands for the limit
    return s.emit("range", [scalars[0], None, scalars[2]], count=count)


@aten("rand.default", "rand.generator", "rand_like.default", "randn.default", "randn.generator", "randn_like.default", "uniform.default",
      "normal_functional.default")
def random(s, std=1.0, mean=0.0, to=1.0, **arguments):
    """Numbers of the run's seed and step: PyTorch's are others, of the same distribution."""
    name = str(s.node.target)
    low = arguments.get("from", 0.0)
    shape, dtype = s.dims(s.out.shape), dtype_name(s.out.dtype)
    if "randn" in name or "normal" in name:
        return s.emit("rng_normal", [], shape_=shape, dtype_=dtype, mean=float(mean), scale=float(std))
    return s.emit("rng_uniform", [], shape_=shape, dtype_=dtype, low=float(low), high=float(to))


@aten("exponential.default")
def exponential(s, x, lambd=1.0):
    """-log(1 - u) / lambd of u below 1, drawn as above."""
    dtype = dtype_name(s.out.dtype)
    drawn = s.emit("rng_uniform", [], shape_=s.dims(s.out.shape), dtype_=dtype, low=0.0, high=1.0)
    return s.emit("mul", [s.emit("log1p", [s.emit("neg", [drawn])]), s.operand(-1 / lambd, s.out.dtype)])


@aten("bernoulli.default", "bernoulli.p")
def bernoulli(s, x, p=None, **_):
    """1 where a number drawn as above lies below the probability: the element's own, or p."""
    drawn = s.emit("rng_uniform", [], dtype=torch.float32, shape_=s.dims(s.out.shape), dtype_="f32", low=0.0, high=1.0)
    return s.cast(s.emit("lt", [drawn, s.operand(x if p is None else p, torch.float32)], dtype=torch.bool), s.out.dtype)


@aten("multinomial.default")
def multinomial(s, x, num_samples, replacement=False, **_):
    """Columns of each row, as often as their weights say: one draw by itself, or without replacement the largest of all columns' keys."""
    scores = s.emit("log", [s.cast(x, torch.float32)], dtype=torch.float32, shape=x.shape)
    if num_samples > 1 and not replacement:
        # log(weight / a waiting time): the order in which exponential clocks of these rates ring.
        drawn = s.emit("rng_uniform", [], dtype=torch.float32, shape=x.shape, shape_=s.dims(x.shape), dtype_="f32", low=2.0**-25, high=1.0)
        waits = s.emit("neg", [s.emit("log1p", [s.emit("neg", [drawn], torch.float32, x.shape)], torch.float32, x.shape)], torch.float32, x.shape)
        keys = s.emit("sub", [scores, s.emit("log", [waits], torch.float32, x.shape)], torch.float32, x.shape)
        return s.emit_many("topk", [keys], [(torch.float32, s.out.shape), (torch.int64, s.out.shape)], k=s.dims([num_samples])[0],
                           axis=x.rank - 1, index_dtype="i64")[1]
    rows = [*x.shape[:-1], 1, x.shape[-1]]
    scores = s.expand(s.reshape(scores, rows), [*x.shape[:-1], num_samples, x.shape[-1]])
    return s.emit("sample", [scores], index_dtype="i64")


@aten("randint.default", "randint.low", "randint_like.default", "randint_like.low_dtype")
def random_integers(s, high, low=0, **_):
    """Whole numbers of the run's seed and step, from low to below high."""
    low, high = known_number(low), known_number(high)
    if low is None or high is None or high - low > 1 << 24:
        raise Unsupported("random integers of a range that is dynamic, or wider than 2^24")
    places = s.emit("rng_uniform", [], dtype=torch.float32, shape_=s.dims(s.out.shape), dtype_="f32", low=float(low),
                    high=float(high))
    return s.cast(s.emit("floor", [places], dtype=torch.float32), s.out.dtype)


@aten("eye.default", "eye.m")
def eye(s, n, m=None, **_):
    return s.emit("eye", [], n=s.dims([n])[0], m=s.dims([n if m is None else m])[0], dtype_=dtype_name(s.out.dtype))


@aten("one_hot.default")
def one_hot(s, x, num_classes):
    if num_classes < 0:
        raise Unsupported("one_hot without num_classes: the size of its result depends on data")
    return s.emit("one_hot", [x], depth=num_classes, dtype_="i64")
