// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions whose windows overlap, as a convolution.
#pragma once

#include <optional>

#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/op_def.h"

namespace rlx {

// How long the kernel of a conv_transpose_gather node takes by the device's model.
double conv_transpose_microseconds(const OfferContext& at, const Graph& graph, const Node& node);

// Replaces a conv_transpose_gather node whose kernel is a multiple of its stride: the pixels of y
// that share a remainder by the stride are a phase, each phase an ordinary convolution of x, and
// all of them one with stride-many times the filters; what it writes is put in place and cropped,
// by views alone where rows of pixels are channels last. The result of the convolution; nullopt,
// with nothing changed, for other windows, groups and free sizes. Precondition: the filters are
// finite, since x is padded by zeros that meet them.
std::optional<ValueId> emit_transpose_phases(RewriteContext& ctx);

}  // namespace rlx
