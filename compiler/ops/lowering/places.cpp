// SPDX-License-Identifier: Apache-2.0
// Shared parts of the indexing ops.
#include "compiler/ops/lowering/places.h"

#include <algorithm>

#include "compiler/ops/lowering/index_type.h"

namespace rlx {
namespace {

Dim reach(const PlaceMap& map) {
  Dim places = 1;
  for (const LoopDim& dim : map.base) places += (dim.size - 1) * dim.strides[0];
  for (const PlaceAxis& axis : map.axes) places += axis.size * axis.stride;
  return places;
}

// `value` inside [0, size), or nullopt where it is dropped.
std::optional<int64_t> settled(int64_t value, int64_t size, Outside outside) {
  if (value < 0) value += size;
  if (value >= 0 && value < size) return value;
  if (outside == Outside::Drop) return std::nullopt;
  return std::clamp<int64_t>(value, 0, size - 1);
}

}  // namespace

bool check_index_dtype(InferContext& ctx, size_t input) {
  const DType dtype = ctx.dtype(input);
  if (is_integer(dtype) || dtype == DType::f32 || dtype == DType::f16) return true;
  return ctx.fail(DiagCode::BadDtype, "index is " + std::string(name_of(dtype)) +
                                          ", wanted an integer type (or f32, f16)");
}

int64_t index_value(const Tensor& index, int64_t i) {
  if (!index.is_float()) return index.integers[static_cast<size_t>(i)];
  const double value = index.floats[static_cast<size_t>(i)];
  if (value != value) return 0;
  return static_cast<int64_t>(std::clamp(value, -0x1p62, 0x1p62));
}

std::string place_text(const PlaceMap& map, DType index, const Dim& count) {
  const std::string dtype(name_of(index));
  const int64_t farthest = max(max(count, map.tuples), reach(map)).range().most;
  std::string text = define_line("RLX_INDEX", index_type(IndexUse::Place, farthest));
  text += index_macro("RLX_PLACE_BASE", map.base, 0);
  text += "RLX_FN rlx_i64 rlx_place(rlx_ptr index, rlx_i64 tuple, RLX_INOUT(rlx_u32) outside) {\n";
  text += "  rlx_i64 place = rlx_i64(RLX_PLACE_BASE(tuple));\n  rlx_i64 at;\n";
  text += "  bool is_place = true;\n  bool inside;\n";
  for (size_t k = 0; k < map.axes.size(); ++k) {
    const std::string size = "rlx_i64(" + integer_text(map.axes[k].size) + ")";
    text += "  at = rlx_index_from_" + dtype + "(rlx_load_" + dtype + "(index, tuple * rlx_i64(" +
            std::to_string(map.axes.size()) + ") + rlx_i64(" + std::to_string(k) + ")));\n";
    text += "  if (at < rlx_i64(0)) at += " + size + ";\n";
    text += "  inside = at >= rlx_i64(0) && at < " + size + ";\n  if (!inside) ++outside;\n";
    text += map.outside == Outside::Clamp
                ? "  at = min(max(at, rlx_i64(0)), " + size + " - rlx_i64(1));\n"
                : "  is_place = is_place && inside;\n  if (!inside) at = rlx_i64(0);\n";
    text += "  place += at * rlx_i64(" + integer_text(map.axes[k].stride) + ");\n";
  }
  text += "  return is_place ? place : rlx_i64(-1);\n}\n";
  text += "RLX_FN rlx_i64 rlx_place(rlx_ptr index, rlx_i64 tuple) {\n";
  return text + "  rlx_u32 outside = 0u;\n  return rlx_place(index, tuple, outside);\n}\n";
}

std::optional<int64_t> place_of(const PlaceMap& map, const Tensor& index, int64_t tuple) {
  int64_t place = 0;
  int64_t rest = tuple;
  for (size_t d = map.base.size(); d-- > 0;) {
    place += rest % map.base[d].size * map.base[d].strides[0];
    rest /= map.base[d].size;
  }
  const auto count = static_cast<int64_t>(map.axes.size());
  for (int64_t k = 0; k < count; ++k) {
    const PlaceAxis& axis = map.axes[static_cast<size_t>(k)];
    const auto at = settled(index_value(index, tuple * count + k), axis.size, map.outside);
    if (!at) return std::nullopt;
    place += *at * axis.stride;
  }
  return place;
}

bool has_place_outside(const PlaceMap& map, const Tensor& index) {
  const auto count = static_cast<int64_t>(map.axes.size());
  for (int64_t i = 0; i < index.count(); ++i) {
    const Dim& size = map.axes[static_cast<size_t>(i % count)].size;
    const int64_t at = index_value(index, i);
    if (at < -size.bound() || at >= size.bound()) return true;
  }
  return false;
}

AxisLoops axis_loops(const TensorRef& view, int64_t axis) {
  AxisLoops loops{.outer = {}, .row_stride = view.strides[static_cast<size_t>(axis)], .inner = {}};
  for (size_t d = 0; d < view.strides.size(); ++d) {
    if (static_cast<int64_t>(d) == axis) continue;
    LoopDims& dims = static_cast<int64_t>(d) < axis ? loops.outer : loops.inner;
    dims.push_back({.size = view.shape()[d], .strides = {view.strides[d], 0}});
  }
  loops.outer = merged(loops.outer);
  loops.inner = merged(loops.inner);
  return loops;
}

int64_t row_word_bytes(const LowerContext& ctx, const TensorRef& view, const AxisLoops& loops,
                       uint32_t alignment_bytes, const Dim& inner) {
  const int64_t element = element_bytes(view.dtype());
  if (!is_contiguous(loops.inner)) return element;
  int64_t word = std::min(ctx.alignment(view), alignment_bytes);
  const auto divides = [&word, element](const Dim& elements) {
    return (elements * element).divides_by(word);
  };
  const auto fits = [&] {
    return divides(inner) && divides(loops.row_stride) &&
           std::all_of(loops.outer.begin(), loops.outer.end(),
                       [&](const LoopDim& dim) { return divides(dim.strides[0]); });
  };
  while (word > element && !fits()) word /= 2;
  return word;
}

int64_t words_per_thread(const Dim& words) {
  constexpr int64_t kManyWords = int64_t{1} << 20;
  return words >= kManyWords ? 4 : 1;
}

LoopDims in_words(LoopDims dims, int64_t word_elements) {
  for (LoopDim& dim : dims) dim.strides[0] /= word_elements;
  return dims;
}

}  // namespace rlx
