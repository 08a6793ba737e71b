// SPDX-License-Identifier: Apache-2.0
// What the ops with a state that is carried along a sequence share (ops.md 10.4 to 10.7): checks of
// inputs, and how they lie.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

// Of states, and of all arithmetic beside values of this type.
DType state_dtype(DType values);

enum class InputDType : uint8_t {
  AsX,       // that of x
  AsXOrF32,  // a parameter, which may be kept exact
  State,     // state_dtype() of that of x
};

// An input of an op whose first is x; an absent one is right.
struct StateInput {
  size_t position = 0;
  std::string_view name;
  InputDType dtype = InputDType::AsX;
  std::vector<Shape> shapes;  // one of them
};
// Reports every input that is not as wanted.
bool check_state_inputs(InferContext& ctx, const std::vector<StateInput>& inputs);

// The size as a number: the kernels hold arrays of it. Reports a size of the run by `name`.
bool check_fixed_size(InferContext& ctx, const Dim& size, std::string_view name);

// The input with its last axis dense: as it stands, or a dense copy.
TensorRef sequence_input(LowerContext& ctx, size_t position);
// The strides of axes of size 1 are 0: they say nothing.
Dim axis_stride(const TensorRef& ref, size_t axis);

// Steps of a chunk, a multiple of `piece`, so that the chunks of a sequence keep a device busy
// which its `groups` alone would leave idle; 0 where they do not, or the sequence is short.
int64_t steps_of_chunk(const OfferContext& at, const Dim& groups, const Dim& steps, int64_t piece);

// Text of the type of offsets into all of these views, and of numbers up to `count`.
std::string sequence_index(const std::vector<TensorRef>& views, const Dim& count);
// "#define NAME RLX_INDEX(stride)"
std::string stride_line(const std::string& name, const Dim& stride);

}  // namespace rlx
