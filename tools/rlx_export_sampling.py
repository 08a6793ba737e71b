# SPDX-License-Identifier: Apache-2.0
"""Interpolation at computed positions: grid_sample of images and volumes, torchvision's deform_conv2d and roi_align. See
rlx_export_aten.py."""
import torch

from rlx_export_aten import aten

GRID_MODES = ("linear", "nearest", "cubic")
GRID_PADDINGS = ("zeros", "border", "reflection")


@aten("grid_sampler.default", "grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sample(s, input, grid, interpolation_mode, padding_mode, align_corners):
    return s.emit("grid_sample", [input, grid], mode=GRID_MODES[interpolation_mode], padding_mode=GRID_PADDINGS[padding_mode],
                  align_corners=align_corners)


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
