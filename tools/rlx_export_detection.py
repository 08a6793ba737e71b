# SPDX-License-Identifier: Apache-2.0
"""torchvision's detectors without what they ask the data for: functions that compute the same where results are as long as the data
decide. They stand in for torchvision's own while a module is traced. And roi_pool."""
import contextlib
import math
import sys

import torch

from rlx_export_aten import aten
from rlx_export_graph import known


@contextlib.contextmanager
def traceable():
    """Only where the model has imported torchvision already."""
    found = [(sys.modules.get(module), name, make) for (module, name), make in STAND_INS.items()]
    found = [(module, name, getattr(module, name), make) for module, name, make in found if hasattr(module, name)]
    for module, name, _, make in found:
        setattr(module, name, make)
    try:
        yield
    finally:
        for module, name, own, _ in found:
            setattr(module, name, own)


def batched_nms(boxes, scores, idxs, iou_threshold):
    """Classes are moved apart, so that boxes of two of them never meet. torchvision does so only where there are few boxes."""
    import torchvision
    moved = boxes + (idxs.to(boxes) * (boxes.max() + 1))[:, None]
    return torchvision.ops.nms(moved, scores, iou_threshold)


def multiscale_roi_align(x_filtered, boxes, output_size, sampling_ratio, scales, mapper):
    """All boxes on all levels, of which each box takes its own."""
    from torchvision.ops import poolers
    rois = poolers._convert_to_roi_format(boxes)
    pooled = [poolers.roi_align(level, rois, output_size, scale, sampling_ratio) for level, scale in zip(x_filtered, scales)]
    result = pooled[0]
    for level, other in enumerate(pooled[1:], start=1):
        result = torch.where((mapper(boxes) == level)[:, None, None, None], other, result)
    return result


def paste_masks_in_image(masks, boxes, img_shape, padding=1):
    """Masks resized to their boxes and put there, [count, 1, height, width]: both at once by a matrix of linear weights per axis."""
    from torchvision.models.detection import roi_heads
    masks, scale = roi_heads.expand_masks(masks, padding)
    center, half = (boxes[:, 2:] + boxes[:, :2]) * 0.5, (boxes[:, 2:] - boxes[:, :2]) * 0.5 * scale
    places = torch.cat([center - half, center + half], 1).to(torch.int64)
    rows = linear_weights(places[:, 1], places[:, 3], img_shape[0], masks)
    columns = linear_weights(places[:, 0], places[:, 2], img_shape[1], masks)
    return (rows @ masks[:, 0] @ columns.transpose(1, 2))[:, None]


def linear_weights(first, last, size, masks):
    """[count, size, mask's size]: how much of each of a mask's lines lies in each line of the image, where its box goes from
    `first` to `last`; as F.interpolate without align_corners has it."""
    lines, count = masks.shape[-1], (last - first + 1).clamp(min=1)[:, None]
    at = torch.arange(size)[None] - first[:, None]
    source = ((at + 0.5) * (lines / count) - 0.5).clamp(0, lines - 1).to(masks.dtype)
    weights = (1 - (source[..., None] - torch.arange(lines)).abs()).clamp(min=0)
    return torch.where(((at >= 0) & (at < count))[..., None], weights, 0.0)


STAND_INS = {
    ("torchvision.ops.boxes", "batched_nms"): batched_nms,
    ("torchvision.ops", "batched_nms"): batched_nms,
    ("torchvision.models.detection.transform", "paste_masks_in_image"): paste_masks_in_image,
    ("torchvision.ops.poolers", "_multiscale_roi_align"): multiscale_roi_align,
}


@aten("torchvision.roi_pool.default")
def roi_pool(s, input, rois, spatial_scale, pooled_height, pooled_width):
    """The largest element of each bin, whose borders are whole numbers, first along the rows of an image and then along its columns; 0 of an
    empty bin."""
    images, channels, height, width = input.shape
    boxes, dtype = rois.shape[0], input.dtype
    x = input
    if known(images) != 1:
        x = s.emit("gather", [input, s.cast(s.reshape(s.narrow(rois, 1, 0, 1), [boxes]), torch.int64)],
                   shape=[boxes, channels, height, width], axis=0)
    for axis, size, bins, first in ((2, height, pooled_height, 2), (3, width, pooled_width, 1)):
        is_inside = bins_of(s, rois, spatial_scale, size, bins, first)  # [boxes, bins, size]
        mask = s.reshape(is_inside, [boxes, 1, bins, size, 1] if axis == 2 else [boxes, 1, 1, bins, size])
        wide = [boxes, channels, *x.shape[2:axis], bins, *x.shape[axis:]]
        x = s.reshape(x, [*x.shape[:axis], 1, *x.shape[axis:]])
        kept = s.emit("where", [mask, x, s.operand(-math.inf, dtype)], shape=wide)
        x = s.emit("reduce_max", [kept], shape=[*wide[:axis + 1], *wide[axis + 2:]], axes=[axis + 1], keep_dims=False)
    is_empty = s.emit("eq", [x, s.operand(-math.inf, dtype)], dtype=torch.bool, shape=x.shape)
    return [s.emit("where", [is_empty, s.operand(0.0, dtype), x], shape=x.shape)]


def bins_of(s, rois, scale, size, bins, first):
    """[boxes, bins, size]: whether a line of the image belongs to a bin of a box."""
    dtype, boxes = rois.dtype, rois.shape[0]

    def op(name, a, *rest, shape=(boxes, 1, 1), **attributes):
        operands = [s.operand(b, dtype) if isinstance(b, (int, float)) else b for b in (a, *rest)]
        return s.emit(name, operands, dtype=dtype, shape=shape, **attributes)

    def corner(column):
        """Rounded, halves away from zero."""
        at = op("mul", s.reshape(s.narrow(rois, 1, column, 1), [boxes, 1, 1]), scale)
        return op("mul", op("sign", at), op("floor", op("affine", op("abs", at), mul=1.0, add=0.5)))

    begin, end = corner(first), corner(first + 2)
    step = op("div", op("max", op("affine", op("sub", end, begin), mul=1.0, add=1.0), 1.0), float(bins))
    numbers = s.reshape(s.cast(s.graph.indices(range(bins)), dtype), [1, bins, 1])
    wide = (boxes, bins, 1)
    low = op("add", op("floor", op("mul", numbers, step, shape=wide), shape=wide), begin, shape=wide)
    after = op("affine", numbers, shape=(1, bins, 1), mul=1.0, add=1.0)
    high = op("add", op("ceil", op("mul", after, step, shape=wide), shape=wide), begin, shape=wide)
    lines = s.emit("range", [s.operand(0.0, dtype), None, s.operand(1.0, dtype)], dtype=dtype, shape=[size], count=s.dims([size])[0])
    lines = s.reshape(lines, [1, 1, size])
    tests = [s.emit(test, [lines, limit], dtype=torch.bool, shape=[boxes, bins, size]) for test, limit in (("ge", low), ("lt", high))]
    return s.emit("logical_and", tests, dtype=torch.bool, shape=[boxes, bins, size])
