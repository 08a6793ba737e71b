// SPDX-License-Identifier: Apache-2.0
// The window attributes that convolutions and pools share.
#pragma once

#include "compiler/import/onnx/node_reader.h"

namespace rlx::onnx_import {

struct Windows {
  Ints kernel;
  Ints stride;
  Ints dilation;
  Ints pads;  // begins, then ends
};

// Reads kernel_shape, strides, dilations, pads and auto_pad; what is not written has ONNX's
// default, automatic pads are resolved for the input's spatial sizes. `kernel`: where kernel_shape
// is absent.
Windows read_windows(NodeReader& n, const Ints& kernel);

// As attributes of rlx's ops.
Attributes attributes_of(const Windows& windows);

}  // namespace rlx::onnx_import
