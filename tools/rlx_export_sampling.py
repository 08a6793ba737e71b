# SPDX-License-Identifier: Apache-2.0
"""Interpolation at computed positions: torchvision's deform_conv2d and roi_align, and grid_sample of volumes. See
rlx_export_aten.py."""
import itertools
import math

import torch

import rlx_export_nn  # noqa: F401  whose grid_sample of images stays
from rlx_export_aten import HANDLERS, aten
from rlx_export_graph import Tensor, Unsupported, known


class Numbers:
    """Elementwise arithmetic of one float type on tensors and numbers."""

    def __init__(self, s, dtype):
        self.s, self.dtype = s, dtype

    def __call__(self, op, *operands, dtype=None):
        values = [value if isinstance(value, Tensor) else self.s.operand(value, self.dtype) for value in operands]
        shape = torch.broadcast_shapes(*[tuple(value.shape) for value in values])
        return self.s.emit(op, values, dtype=dtype or self.dtype, shape=shape)

    def constant(self, name, values):
        values = torch.as_tensor(values, dtype=self.dtype)
        return self.s.graph.weight(self.s.graph.constants, f"{self.s.node.name}.{name}", values)


def sizes_of(x):
    sizes = [known(dim) for dim in x.shape]
    if None in sizes:
        raise Unsupported("interpolation of a tensor with dynamic dimensions; fix them")
    return sizes


def rows_of(s, x):
    """[N, C, spatial...] as a table of N * spatial rows of C."""
    sizes = sizes_of(x)
    return s.reshape(s.permute(x, [0, *range(2, x.rank), 1]), [sizes[0] * math.prod(sizes[2:]), sizes[1]])


def corners(s, e, table, first, places, sizes):
    """The sum over the corners around each place. places: of each axis (below, weight of the one above, is the lower inside, is the
    upper inside), where None is always; first: the row of the table at which the place's image begins."""
    total = None
    for choice in itertools.product((0, 1), repeat=len(sizes)):
        row, weight = first, None
        for above, (below, fraction, lower_inside, upper_inside), size in zip(choice, places, sizes):
            index = e("clamp", e("add", below, float(above)), 0.0, float(size - 1))
            row = e("add", e("mul", row, float(size)), index) if row is not None else index
            part = fraction if above else e("sub", 1.0, fraction)
            inside = upper_inside if above else lower_inside
            part = part if inside is None else e("where", inside, part, 0.0)
            weight = part if weight is None else e("mul", weight, part)
        found = s.emit("gather", [table, s.cast(row, torch.int64)], shape=[*row.shape, table.shape[1]], axis=0)
        term = s.emit("mul", [found, s.reshape(weight, [*weight.shape, 1])], shape=found.shape)
        total = term if total is None else s.emit("add", [total, term], shape=found.shape)
    return total


def check_count(count):
    if count > 1 << 23:
        raise Unsupported(f"interpolation in a table of {count} places, which f32 does not count; up to {1 << 23} can be exported")


@aten("torchvision.roi_align.default")
def roi_align(s, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    if sampling_ratio <= 0:
        raise Unsupported("roi_align whose count of samples depends on the boxes; give sampling_ratio")
    batch, channels, height, width = sizes_of(input)
    check_count(batch * height * width)
    e = Numbers(s, input.dtype)
    count = rois.shape[0]
    table = rows_of(s, input)

    def column(i):
        return s.narrow(rois, 1, i, 1)

    def samples(low, high, bins, axis):
        """[K, bins * ratio] as [K, .., 1, ..]: the positions along one axis."""
        start, end = (e("add", e("mul", column(i), float(spatial_scale)), -0.5 if aligned else 0.0) for i in (low, high))
        length = e("sub", end, start)
        length = length if aligned else e("max", length, 1.0)
        steps = (torch.arange(bins * sampling_ratio, dtype=torch.float64) + 0.5) / (bins * sampling_ratio)
        at = e("add", start, e("mul", length, e.constant(f"steps_{axis}", steps.reshape(1, -1))))
        shape = [count, bins * sampling_ratio, 1] if axis == 0 else [count, 1, bins * sampling_ratio]
        return s.reshape(at, shape)

    def place(at, size):
        is_inside = s.emit("logical_and", [e("ge", at, -1.0, dtype=torch.bool), e("le", at, float(size), dtype=torch.bool)],
                           dtype=torch.bool, shape=at.shape)
        at = e("clamp", at, 0.0, float(size - 1))
        below = e("floor", at)
        return below, e("sub", at, below), is_inside, is_inside

    ys, xs = samples(2, 4, pooled_height, 0), samples(1, 3, pooled_width, 1)
    first = s.reshape(s.cast(column(0), input.dtype), [count, 1, 1])
    found = corners(s, e, table, first, [place(ys, height), place(xs, width)], [height, width])
    found = s.reshape(found, [count, pooled_height, sampling_ratio, pooled_width, sampling_ratio, channels])
    mean = s.emit("reduce_mean", [found], shape=[count, pooled_height, pooled_width, channels], axes=[2, 4], keep_dims=False)
    return s.permute(mean, [0, 3, 1, 2])


@aten("torchvision.deform_conv2d.default")
def deform_conv(s, input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups,
                offset_groups, use_mask):
    batch, channels, height, width = sizes_of(input)
    out, _, kernel_h, kernel_w = sizes_of(weight)
    _, _, out_h, out_w = [known(dim) for dim in s.out.shape]
    taps = kernel_h * kernel_w
    e = Numbers(s, input.dtype)
    images = batch * offset_groups
    moved = s.reshape(offset, [images, taps, 2, out_h, out_w])

    def grid(axis, size, kernel, stride, pad, dilation, lines):
        """The positions along one axis, as grid_sample counts them: -1 and 1 are the edges."""
        tap = torch.arange(taps) // kernel_w if axis == 0 else torch.arange(taps) % kernel_w
        line = torch.arange(lines) * stride - pad
        fixed = (tap * dilation)[:, None, None] + (line[:, None] if axis == 0 else line[None, :])[None]
        by = s.reshape(s.narrow(moved, 2, axis, 1), [images, taps, out_h, out_w])
        at = e("add", by, e.constant(f"taps_{axis}", fixed[None]))
        scaled = s.emit("affine", [at], shape=at.shape, mul=2 / size, add=1 / size - 1)
        return s.reshape(scaled, [images, taps * out_h, out_w])

    ys = grid(0, height, kernel_h, stride_h, pad_h, dilation_h, out_h)
    xs = grid(1, width, kernel_w, stride_w, pad_w, dilation_w, out_w)
    places = s.emit("stack", [xs, ys], shape=[*xs.shape, 2], axis=3)
    each = channels // offset_groups
    image = s.reshape(input, [images, each, height, width])
    found = s.emit("grid_sample", [image, places], shape=[images, each, taps * out_h, out_w], mode="linear", padding_mode="zeros",
                   align_corners=False)
    found = s.reshape(found, [images, each, taps, out_h * out_w])
    if use_mask:
        found = e("mul", found, s.reshape(mask, [images, 1, taps, out_h * out_w]))
    columns = s.reshape(found, [batch, groups, channels // groups * taps, out_h * out_w])
    rows = s.reshape(weight, [groups, out // groups, channels // groups * taps])
    y = s.emit("matmul", [rows, columns], shape=[batch, groups, out // groups, out_h * out_w])
    y = s.reshape(y, list(s.out.shape))
    return y if bias is None else e("add", y, s.reshape(bias, [1, out, 1, 1]))


def sample_volume(s, input, grid, interpolation_mode, padding_mode, align_corners):
    if interpolation_mode > 1 or padding_mode > 1:
        raise Unsupported("grid_sample of volumes, cubic or reflected; linear and nearest, with zeros or the border, can be "
                          "exported")
    batch, channels, *sizes = sizes_of(input)
    check_count(batch * math.prod(sizes))
    points = sizes_of(grid)[1:-1]
    e = Numbers(s, input.dtype)
    shape = [batch, math.prod(points)]

    def place(axis):
        size = sizes[axis]
        g = s.reshape(s.narrow(grid, grid.rank - 1, len(sizes) - 1 - axis, 1), shape)
        scale = (size - 1) / 2 if align_corners else size / 2
        at = s.emit("affine", [g], shape=shape, mul=scale, add=scale if align_corners else scale - 0.5)
        if padding_mode == 1:
            at = e("clamp", at, 0.0, float(size - 1))
        if interpolation_mode == 1:
            at = e("round", at)
        below = e("floor", at)

        def inside(index):
            return s.emit("logical_and", [e("ge", index, 0.0, dtype=torch.bool), e("le", index, float(size - 1), dtype=torch.bool)],
                          dtype=torch.bool, shape=shape)
        return below, e("sub", at, below), inside(below), inside(e("add", below, 1.0))

    first = e.constant("images", torch.arange(batch).reshape(-1, 1))
    found = corners(s, e, rows_of(s, input), first, [place(axis) for axis in range(len(sizes))], sizes)
    return s.reshape(s.permute(found, [0, 2, 1]), list(s.out.shape))


@aten("grid_sampler_3d.default")
def grid_sampler_3d(s, **arguments):
    return sample_volume(s, **arguments)


def of_volumes():
    """grid_sampler is of images too, whose handler there is."""
    op = torch.ops.aten.grid_sampler.default
    of_images = HANDLERS[op]

    def either(s, input, **arguments):
        return (sample_volume if input.rank == 5 else of_images)(s, input=input, **arguments)
    HANDLERS[op] = either


of_volumes()
