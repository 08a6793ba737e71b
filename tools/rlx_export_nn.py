# SPDX-License-Identifier: Apache-2.0
"""ATen's products, norms, attention, convolutions, pools and resizing as operators of rlx. See rlx_export_aten.py."""
import math

import torch

from rlx_export_aten import aten
from rlx_export_graph import Unsupported, expression, known, known_number, same


# ---- products

@aten("linear.default")
def linear(s, input, weight, bias):
    product = s.contraction("matmul", input, weight, trans_b=True)
    return product if bias is None else s.emit("add", [product, s.cast(bias, s.out.dtype)])


@aten("matmul.default", "mm.default", "bmm.default", "mv.default", "dot.default")
def matmul(s, **arguments):
    return s.contraction("matmul", *arguments.values())


@aten("_int_mm.default")
def int_mm(s, x, mat2):
    return s.emit("matmul", [x, mat2])


@aten("addmm.default", "baddbmm.default", "addmv.default")
def addmm(s, x, beta, alpha, **factors):
    product = s.contraction("matmul", *factors.values())
    if alpha != 1:
        product = s.emit("mul", [product, s.operand(alpha, s.out.dtype)])
    if beta == 0:
        return product
    bias = s.cast(x, s.out.dtype)
    if beta != 1:
        bias = s.emit("mul", [bias, s.operand(beta, s.out.dtype)], shape=bias.shape)
    return s.emit("add", [product, bias])


# ---- norms

def norm_axis(x, normalized_shape):
    return x.rank - len(normalized_shape)


@aten("layer_norm.default", "native_layer_norm.default")
def layer_norm(s, input, normalized_shape, weight, bias, eps, **_):
    y = s.emit("layer_norm", [input, weight, bias], axis=norm_axis(input, normalized_shape), eps=float(eps))
    return [y] if "native" in str(s.node.target) else y


@aten("rms_norm.default", "_fused_rms_norm.default")
def rms_norm(s, input, normalized_shape, weight, eps):
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    y = s.emit("rms_norm", [input, weight], axis=norm_axis(input, normalized_shape), eps=float(eps))
    return [y] if "fused" in str(s.node.target) else y


@aten("group_norm.default")
def group_norm(s, input, num_groups, weight, bias, eps, **_):
    return s.emit("group_norm", [input, weight, bias], num_groups=num_groups, eps=float(eps))


@aten("native_group_norm.default")
def native_group_norm(s, input, weight, bias, group, eps, **_):
    return [s.emit("group_norm", [input, weight, bias], num_groups=group, eps=float(eps))]


def per_channel(s, input, weight, bias):
    """Weights of a norm of channels, ones and zeros where there are none."""
    shape = (known(input.shape[1]),)
    return [s.graph.splat(value, input.dtype, shape) if x is None else x for x, value in ((weight, 1.0), (bias, 0.0))]


def of_the_batch(s, input, weight, bias, eps):
    """Batch norm by the statistics of what is given: each channel's elements as those of one instance."""
    perm = [1, 0, *range(2, input.rank)]
    turned = s.permute(input, perm)
    lines = s.reshape(turned, [1, turned.shape[0], math.prod(turned.shape[1:])])
    y = s.emit("instance_norm", [lines, weight, bias], shape=lines.shape, eps=float(eps))
    return s.permute(s.reshape(y, turned.shape), perm)


@aten("batch_norm.default", "_native_batch_norm_legit_no_training.default", "_native_batch_norm_legit.default",
      "_native_batch_norm_legit.no_stats", "native_batch_norm.default")
def batch_norm(s, input, weight, bias, eps, running_mean=None, running_var=None, training=False, **_):
    if training and running_mean is not None:
        raise Unsupported("batch norm that changes its running statistics: call eval() on the model")
    if running_mean is None:
        y = of_the_batch(s, input, weight, bias, eps)
    else:
        y = s.emit("batch_norm", [input, *per_channel(s, input, weight, bias), running_mean, running_var], eps=float(eps))
    return y if str(s.node.target) == "aten.batch_norm.default" else [y]


@aten("instance_norm.default")
def instance_norm(s, input, weight, bias, running_mean, running_var, use_input_stats, eps, **_):
    if not use_input_stats:
        return s.emit("batch_norm", [input, *per_channel(s, input, weight, bias), running_mean, running_var], eps=float(eps))
    return s.emit("instance_norm", [input, weight, bias], eps=float(eps))


# ---- recurrent networks

def packed(s, tensors):
    """The elements of all, one after another."""
    flat = [s.reshape(x, [math.prod(known(dim) for dim in x.shape)]) for x in tensors]
    count = sum(known(x.shape[0]) for x in flat)
    return flat[0] if len(flat) == 1 else s.emit("concat", flat, dtype=flat[0].dtype, shape=[count], axis=0)


def recurrent(s, op, input, states, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, **attributes):
    """Weights of layer after layer, in each of direction after direction: w_ih, w_hh and, where there are such, b_ih, b_hh."""
    if train and dropout > 0:
        raise Unsupported("dropout between recurrent layers: call eval() on the model")
    blocks = num_layers * (2 if bidirectional else 1)
    parts = 4 if has_biases else 2
    groups = [packed(s, params[i::parts]) for i in range(parts)]
    if has_biases and op != "gru":
        groups[2:] = [s.emit("add", groups[2:], dtype=groups[2].dtype, shape=groups[2].shape)]
    groups += [None] * ((4 if op == "gru" else 3) - len(groups))
    real = torch.float64 if input.dtype == torch.float64 else torch.float32
    hidden = known(states[0].shape[-1])
    y, *last = s.emit_many(op, [input, *groups, *(s.cast(x, real) for x in states)],
                           [(input.dtype, s.out.shape)] + [(real, x.shape) for x in states], hidden_size=hidden,
                           num_layers=num_layers, direction="bidirectional" if bidirectional else "forward",
                           layout="bsi" if batch_first else "sbi", **attributes)
    return [y, *(s.cast(x, input.dtype) for x in last)]


def is_zeros(node):
    """Whether an exported node makes a tensor of zeros, as nn.LSTM does where no states are given."""
    return getattr(node, "op", None) == "call_function" and (
        node.target == torch.ops.aten.zeros.default or
        node.target == torch.ops.aten.full.default and node.args[1] == 0)


def joined(s, tensors, axis):
    shape = list(tensors[0].shape)
    shape[axis] = sum(x.shape[axis] for x in tensors)
    return s.emit("concat", tensors, dtype=tensors[0].dtype, shape=shape, axis=axis)


def with_first_rows(s, x, rows, time, at_end):
    """x [.., I] beside `rows` [B, P] at its first step, or its last, and zeros at the others: [.., I + P]."""
    steps = known(x.shape[time])
    if steps is None:
        raise Unsupported("a recurrent network with projections (proj_size), a given initial state and a dynamic number of steps; "
                          "fix the number, or leave the state out")
    one = s.reshape(rows, [rows.shape[0], 1, rows.shape[1]] if time == 1 else [1, *rows.shape])
    others = [steps - 1, 0] if at_end else [0, steps - 1]
    shape = list(one.shape)
    shape[time] = steps
    return joined(s, [x, s.emit("pad", [one], dtype=x.dtype, shape=shape, pads=others, axes=[time])], 2)


def projected(s, x, weights, hidden, cell, time, reverse, hidden_is_zero):
    """One layer in one direction whose output is w_hr o tanh(c): an LSTM of the unprojected states h, whose w_hh is w_hh w_hr, and
    the product of its rows with w_hr. The initial hidden state, which is projected already, enters beside the first step's x."""
    w_ih, w_hh, *biases, w_hr = weights
    size, rows = known(w_hr.shape[1]), w_hh.shape[0]
    w_rows = s.emit("matmul", [w_hh, w_hr], dtype=x.dtype, shape=[rows, size])
    if not hidden_is_zero:
        x = with_first_rows(s, x, hidden, time, reverse)
        w_ih = joined(s, [w_ih, w_hh], 1)
    real = torch.float64 if x.dtype == torch.float64 else torch.float32
    bias = s.emit("add", biases, dtype=x.dtype, shape=biases[0].shape) if biases else None
    batch = hidden.shape[0]
    start = s.reshape(s.cast(cell, real), [1, batch, size])
    wide = [*x.shape[:-1], size]
    y, _, last = s.emit_many("lstm", [x, w_ih, w_rows, bias, None, start],
                             [(x.dtype, wide)] + [(real, [1, batch, size])] * 2, hidden_size=size, num_layers=1,
                             direction="reverse" if reverse else "forward", layout="bsi" if time == 1 else "sbi")
    y = s.emit("matmul", [y, w_hr], dtype=x.dtype, shape=[*x.shape[:-1], w_hr.shape[0]], trans_b=True)
    first = s.narrow(y, time, 0 if reverse else x.shape[time] - 1, 1)
    return y, s.reshape(first, [1, batch, w_hr.shape[0]]), s.cast(last, x.dtype)


def projected_lstm(s, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    if train and dropout > 0:
        raise Unsupported("dropout between recurrent layers: call eval() on the model")
    parts, time = 5 if has_biases else 3, 1 if batch_first else 0
    zero = is_zeros(s.node.args[1][0])
    x, hidden, cell = input, [], []
    for layer in range(num_layers):
        results = []
        for direction in range(2 if bidirectional else 1):
            block = layer * (2 if bidirectional else 1) + direction
            h, c = (s.reshape(s.narrow(state, 0, block, 1), list(state.shape[1:])) for state in hx)
            y, h, c = projected(s, x, params[parts * block:parts * (block + 1)], h, c, time, direction == 1, zero)
            results.append(y)
            hidden.append(h)
            cell.append(c)
        x = results[0] if len(results) == 1 else joined(s, results, 2)
    return [x, *(states[0] if len(states) == 1 else joined(s, states, 0) for states in (hidden, cell))]


@aten("lstm.input", "rlx.lstm.default")
def lstm(s, input, hx, params, **arguments):
    if hx[0].shape[-1] != hx[1].shape[-1]:
        return projected_lstm(s, input, hx, params, **arguments)
    return recurrent(s, "lstm", input, hx, params, **arguments)


@aten("gru.input", "rlx.gru.default")
def gru(s, input, hx, **arguments):
    return recurrent(s, "gru", input, [hx], **arguments)


@aten("rnn_tanh.input", "rnn_relu.input", "rlx.rnn_tanh.default", "rlx.rnn_relu.default")
def rnn(s, input, hx, **arguments):
    return recurrent(s, "rnn", input, [hx], activation="relu" if "relu" in str(s.node.target) else "tanh", **arguments)


# ---- attention

def four_dims(s, x):
    """[.., S, D] as [B, H, S, D]. Without heads there is one; more leading dims are batch."""
    if x.rank == 3:
        return s.reshape(x, [x.shape[0], 1, *x.shape[1:]])
    if x.rank == 2:
        return s.reshape(x, [1, 1, *x.shape])
    return x if x.rank == 4 else s.reshape(x, [math.prod(x.shape[:-3]), *x.shape[-3:]])


@aten("scaled_dot_product_attention.default")
def attention(s, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    if dropout_p:
        raise Unsupported("attention with dropout: call eval() on the model before the export")
    if attn_mask is not None and query.rank > 4:
        raise Unsupported(f"attention of rank {query.rank} with a mask")
    mask = bias = None
    if attn_mask is not None:
        allowed = s.reshape(attn_mask, [1] * (2 - attn_mask.rank) + list(attn_mask.shape)) if attn_mask.rank < 2 else attn_mask
        axis = 1 if query.rank == 3 and allowed.rank == 3 else 0  # [N, L, S] beside queries without heads
        shape = list(allowed.shape)
        allowed = s.reshape(allowed, [*shape[:axis], *[1] * (4 - len(shape)), *shape[axis:]])
        mask, bias = (allowed, None) if allowed.dtype == torch.bool else (None, allowed)
    number = None if scale is None else known_number(scale)
    if scale is not None and number is None:
        raise Unsupported("attention whose scale depends on dynamic dimensions")
    return attended(s, query, key, value, mask, bias, causal=is_causal, scale=number)[0]


def attended(s, query, key, value, mask, bias, causal=False, scale=None, softcap=0.0, with_lse=False):
    """[y, and the logarithm of its sums], whose mask and bias have rank 4."""
    q, k, v = (four_dims(s, x) for x in (query, key, value))
    heads, kv_heads = known(q.shape[1]), known(k.shape[1])
    if heads is None or kv_heads is None:
        raise Unsupported("attention whose count of heads is dynamic")
    if not same(q.shape[0], k.shape[0]):
        k, v = (s.expand(x, [q.shape[0], *x.shape[1:]]) for x in (k, v))
    types = [(q.dtype, [*q.shape[:3], v.shape[3]]), (torch.float32, q.shape[:3])][:2 if with_lse else 1]
    y, *lse = s.emit_many("attention", [q, k, v, mask, bias], types, num_heads=heads, num_kv_heads=kv_heads, head_dim=known(q.shape[3]),
                          v_head_dim=known(v.shape[3]), q_layout="bhsd", kv_layout="bhsd", causal=causal, causal_align="start",
                          scale=None if scale is None else float(scale), softcap=softcap or None)
    return [s.reshape(y, [*query.shape[:-1], value.shape[-1]]), *lse]


# ---- convolutions, pools

def spread(values, count):
    """One number for every axis, or a number per axis."""
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    return values * count if len(values) == 1 else values


@aten("convolution.default")
def convolution(s, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    count = weight.rank - 2
    window = {"stride": spread(stride, count), "pads": spread(padding, count) * 2, "dilation": spread(dilation, count)}
    if known(groups) is None and not transposed:
        return convolution_of_free_groups(s, input, weight, bias, window, expression(groups))
    window["groups"] = groups
    if transposed:
        return s.emit("conv_transpose", [input, weight, bias], output_padding=spread(output_padding, count), **window)
    return s.emit("conv", [input, weight, bias], **window)


def convolution_of_free_groups(s, input, weight, bias, window, groups):
    """One image whose groups a dynamic dimension counts, as where each sample of a batch has weights of its own: a product of each
    group over its windows."""
    filters = known(expression(weight.shape[0]) / groups)
    if weight.rank > 4 or known(input.shape[0]) != 1 or filters is None:
        raise Unsupported("a convolution whose count of groups is dynamic, of several images or three spatial axes")
    lines = [1] * (4 - weight.rank)  # before the spatial axis of a convolution over one
    kernel, image = [*lines, *weight.shape[2:]], [*lines, *input.shape[2:]]
    depth = weight.shape[1] * math.prod(kernel)
    window = {"stride": lines + window["stride"], "dilation": lines + window["dilation"],
              "pads": ([0] * len(lines) + window["pads"][:weight.rank - 2]) * 2}
    x = s.reshape(input, [groups, weight.shape[1], *image])
    pixels = math.prod(expression(dim) for dim in s.out.shape[2:])
    windows = s.emit("im2col", [x], shape=[groups, depth, pixels], kernel=kernel, layout="unfold", **window)
    y = s.contraction("matmul", s.reshape(weight, [groups, filters, depth]), windows, shape=[groups, filters, pixels])
    y = s.reshape(y, list(s.out.shape))
    if bias is None:
        return y
    return s.emit("add", [y, s.reshape(bias, [*bias.shape, *[1] * (weight.rank - 2)])])


def batched(s, x, count):
    """Input without a batch as a batch of one."""
    return x if x.rank == count + 2 else s.reshape(x, [1, *x.shape])


def windowed(s, kind, x, count, kernel, stride, padding, outputs=1, **attributes):
    kernel = spread(kernel, count)
    x = batched(s, x, count)
    shape = [1, *s.out.shape] if len(s.out.shape) == count + 1 else list(s.out.shape)
    types = [(s.out.dtype, shape), (torch.int64, shape)][:outputs]
    results = s.emit_many("pool", [x], types, kind=kind, kernel=kernel, stride=spread(stride, count) if stride else kernel,
                          pads=spread(padding, count) * 2, **attributes)
    return [s.reshape(result, list(s.out.shape)) for result in results]


def spatial_rank(s):
    """Of an operator with a name as max_pool2d."""
    return int(next(c for c in str(s.node.target).split("d.")[0].split("d_")[0][::-1] if c.isdigit()))


@aten("max_pool1d.default", "max_pool2d.default", "max_pool3d.default")
def max_pool(s, x, kernel_size, stride, padding, dilation, ceil_mode):
    count = spatial_rank(s)
    return windowed(s, "max", x, count, kernel_size, stride, padding, dilation=spread(dilation, count), ceil_mode=ceil_mode)[0]


@aten("max_pool1d_with_indices.default", "max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def max_pool_with_indices(s, x, kernel_size, stride, padding, dilation, ceil_mode):
    count = spatial_rank(s)
    return windowed(s, "max", x, count, kernel_size, stride, padding, outputs=2, dilation=spread(dilation, count),
                    ceil_mode=ceil_mode, index_dtype="i64")


@aten("avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default")
def avg_pool(s, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override=None):
    return windowed(s, "mean", x, spatial_rank(s), kernel_size, stride, padding, ceil_mode=ceil_mode,
                    count_include_pad=count_include_pad, divisor_override=divisor_override or 0)[0]


@aten("adaptive_avg_pool1d.default", "adaptive_avg_pool2d.default", "adaptive_avg_pool3d.default",
      "_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default", "adaptive_max_pool1d.default",
      "adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def adaptive_pool(s, x, output_size):
    count = spatial_rank(s)
    is_max = "max" in str(s.node.target)
    sizes = list(s.out.shape)[-count:]
    x = batched(s, x, count)
    y = s.emit("adaptive_pool", [x], shape=[*x.shape[:2], *sizes], kind="max" if is_max else "mean", out=s.dims(sizes))
    y = s.reshape(y, list(s.out.shape))
    return [y] if is_max else y  # its indices have no counterpart


@aten("im2col.default")
def im2col(s, x, kernel_size, dilation, padding, stride):
    if x.rank != 4:
        raise Unsupported("unfold without a batch")
    return s.emit("im2col", [x], kernel=list(kernel_size), dilation=list(dilation), pads=list(padding) * 2,
                  stride=list(stride), layout="unfold")


@aten("col2im.default")
def col2im(s, x, output_size, kernel_size, dilation, padding, stride):
    if x.rank != 3:
        raise Unsupported("fold without a batch")
    return s.emit("col2im", [x], out_hw=list(output_size), kernel=list(kernel_size), dilation=list(dilation),
                  pads=list(padding) * 2, stride=list(stride), layout="unfold")


# ---- resizing

def resize(s, x, scales, **attributes):
    """With scales that were given the coordinates come from them, else from the sizes."""
    count = x.rank - 2
    axes = list(range(2, x.rank))
    scales = [] if scales is None else [known_number(scale) for scale in scales]
    if scales and None not in scales:
        return s.emit("resize", [x], scales=[float(scale) for scale in scales], axes=axes, **attributes)
    return s.emit("resize", [x], sizes=s.dims(list(s.out.shape)[-count:]), axes=axes, **attributes)


def given_scales(arguments):
    """Of the overload with one list, or with one scale per axis."""
    if "scale_factors" in arguments:
        return arguments["scale_factors"]
    return [value for name, value in arguments.items() if name.startswith("scales")]


@aten(*(f"{name}.{overload}" for overload in ("vec", "default") for name in
        ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
         "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")))
def upsample_nearest(s, output_size, x=None, input=None, **scales):
    is_exact = "exact" in str(s.node.target)
    return resize(s, input if x is None else x, given_scales(scales), mode="nearest",
                  coord="half_pixel" if is_exact else "asymmetric",
                  nearest_mode="round_prefer_ceil" if is_exact else "floor")


@aten(*(f"{name}.{overload}" for overload in ("vec", "default") for name in
        ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bilinear2d_aa",
         "_upsample_bicubic2d_aa")))
def upsample_smooth(s, output_size, align_corners, x=None, input=None, **scales):
    name = str(s.node.target)
    is_wide = "_aa" in name  # whose cubic is that of Pillow
    return resize(s, input if x is None else x, None if align_corners else given_scales(scales),
                  mode="cubic" if "cubic" in name else "linear", coord="align_corners" if align_corners else "half_pixel",
                  cubic_a=(-0.5 if is_wide else -0.75) if "cubic" in name else None, antialias=is_wide or None)
