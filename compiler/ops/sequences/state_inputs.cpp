// SPDX-License-Identifier: Apache-2.0
// Checks and views of the inputs of ops with a carried state.
#include "compiler/ops/sequences/state_inputs.h"

#include <algorithm>

#include "compiler/ops/lowering/rows.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

bool fits(DType dtype, DType x, InputDType wanted) {
  if (wanted == InputDType::State) return dtype == state_dtype(x);
  return dtype == x ||
         (wanted == InputDType::AsXOrF32 && dtype == DType::f32 && state_dtype(x) == DType::f32);
}

std::string wanted_text(DType x, InputDType wanted) {
  const DType state = state_dtype(x);
  std::string text(name_of(wanted == InputDType::State ? state : x));
  if (wanted == InputDType::AsXOrF32 && x != state) text += " or " + std::string(name_of(state));
  return text;
}

}  // namespace

DType state_dtype(DType values) {
  return values == DType::f64 ? DType::f64 : DType::f32;
}

bool check_state_inputs(InferContext& ctx, const std::vector<StateInput>& inputs) {
  bool good = true;
  for (const StateInput& input : inputs) {
    if (!ctx.has_input(input.position)) continue;
    const TensorType& type = ctx.input(input.position);
    if (!fits(type.dtype, ctx.dtype(0), input.dtype)) {
      good = ctx.fail(DiagCode::BadDtype, std::string(input.name) + " is " +
                                              std::string(name_of(type.dtype)) + ", wanted " +
                                              wanted_text(ctx.dtype(0), input.dtype));
    }
    if (std::count(input.shapes.begin(), input.shapes.end(), type.shape) > 0) continue;
    std::string wanted;
    for (const Shape& shape : input.shapes)
      wanted += (wanted.empty() ? "" : " or ") + to_string(shape);
    good = ctx.fail(DiagCode::BadShape, std::string(input.name) + " has shape " +
                                            to_string(type.shape) + ", wanted " + wanted);
  }
  return good;
}

bool check_fixed_size(InferContext& ctx, const Dim& size, std::string_view name) {
  if (!size.is_free()) return true;
  return ctx.fail(
      DiagCode::FreeSize,
      std::string(name) + " is " + to_string(size) + ", a size of the run, wanted a number",
      "give its symbol a value with --dim; batch and sequence may stay free");
}

TensorRef sequence_input(LowerContext& ctx, size_t position) {
  const TensorRef ref = ctx.input(position);
  const bool is_dense_along =
      ref.shape().empty() || ref.shape().back() == 1 || ref.strides.back() == 1;
  return is_dense_along ? ref : ctx.dense(ref);
}

Dim axis_stride(const TensorRef& ref, size_t axis) {
  return ref.shape()[axis] == 1 ? Dim(0) : ref.strides[axis];
}

int64_t steps_of_chunk(const OfferContext& at, const Dim& groups, const Dim& steps, int64_t piece) {
  // A chunk costs its states twice, and a pass over all chunks.
  constexpr int64_t kLeastSteps = 64;
  constexpr int64_t kLeastChunks = 4;
  constexpr int64_t kGroupsPerMultiprocessor = 8;
  const int64_t wanted = kGroupsPerMultiprocessor * at.device().multiprocessors;
  const int64_t chunks =
      std::min(wanted / std::max<int64_t>(groups.bound(), 1), steps.bound() / kLeastSteps);
  return chunks < kLeastChunks ? 0 : round_up(ceil_div(steps.bound(), chunks), piece);
}

std::string sequence_index(const std::vector<TensorRef>& views, const Dim& count) {
  std::vector<const TensorRef*> pointers;
  pointers.reserve(views.size());
  for (const TensorRef& view : views) pointers.push_back(&view);
  return index_type(pointers, count.range().most);
}

std::string stride_line(const std::string& name, const Dim& stride) {
  return define_line(name, "RLX_INDEX(" + integer_text(stride) + ")");
}

}  // namespace rlx
