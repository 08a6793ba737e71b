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
    count = rois.shape[0]
    images = s.cast(s.reshape(s.narrow(rois, 1, 0, 1), [count]), torch.int64)
    return s.emit("roi_align", [input, s.narrow(rois, 1, 1, 4), images], output_height=pooled_height, output_width=pooled_width,
                  sampling_ratio=max(sampling_ratio, 0), spatial_scale=float(spatial_scale), half_pixel=bool(aligned))


@aten("torchvision.deform_conv2d.default")
def deform_conv(s, input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups,
                offset_groups, use_mask):
    return s.emit("deform_conv", [input, weight, offset, mask if use_mask else None, bias], stride=[stride_h, stride_w],
                  pads=[pad_h, pad_w], dilation=[dilation_h, dilation_w], groups=groups, offset_groups=offset_groups)


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
