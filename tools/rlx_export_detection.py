# SPDX-License-Identifier: Apache-2.0
"""torchvision's detectors without what they ask the data for: functions that compute the same where results are as long as the data
decide. They stand in for torchvision's own while a module is traced."""
import contextlib
import sys

import torch


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
