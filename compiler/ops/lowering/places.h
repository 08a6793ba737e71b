// SPDX-License-Identifier: Apache-2.0
// What the indexing ops share: index tensors of any dtype, tuples of coordinates that name places
// of a tensor, and views split around an axis.
#pragma once

#include <string>
#include <vector>

#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/rows.h"

namespace rlx {

// Reports an index input that is neither an integer nor a legacy float (f32, f16).
bool check_index_dtype(InferContext& ctx, size_t input);
// Element i of an index tensor as cast to i64: toward zero, NaN is 0.
int64_t index_value(const Tensor& index, int64_t i);

// What becomes of an index outside [0, size) after negative ones have counted from the end.
enum class Outside : uint8_t {
  Clamp,  // the nearest inside
  Drop,   // the whole tuple names no place
};

// One coordinate of a tuple.
struct PlaceAxis {
  Dim size = 1;
  Dim stride = 1;  // places from one to the next
};

// Tuple t, the t-th run of axes.size() elements of an index tensor, names the place
// base(t) + sum of coordinate * stride.
struct PlaceMap {
  LoopDims base;  // over the tuples, strides[0] in places
  std::vector<PlaceAxis> axes;
  Outside outside = Outside::Drop;
  Dim tuples = 0;
};

// generated/place.inc: RLX_FN rlx_i64 rlx_place(rlx_ptr index, rlx_i64 tuple), -1 where the tuple
// names none; the same with RLX_INOUT(rlx_u32) outside, to which the coordinates are added that lie
// outside; and RLX_INDEX, an unsigned or wide type for `count` positions and any place. Stands
// behind lib/indexing.
std::string place_text(const PlaceMap& map, DType index, const Dim& count);

// The same on the host, by loops of its own over the tuples' dims.
std::optional<int64_t> place_of(const PlaceMap& map, const Tensor& index, int64_t tuple);
// Whether a coordinate of any tuple lies outside, at the largest sizes.
bool has_place_outside(const PlaceMap& map, const Tensor& index);

// The dims of a strided view before and behind an axis, apart.
struct AxisLoops {
  LoopDims outer;
  Dim row_stride = 0;
  LoopDims inner;
};
AxisLoops axis_loops(const TensorRef& view, int64_t axis);

// Bytes that one thread moves of rows of `inner` elements: the widest word that divides the rows
// and the address of every row, where the view is contiguous along them and the other side dense
// with an alignment of `alignment_bytes`.
int64_t row_word_bytes(const LowerContext& ctx, const TensorRef& view, const AxisLoops& loops,
                       uint32_t alignment_bytes, const Dim& inner);
// Words that one thread of a gather moves: several where there are enough for the whole device, so
// that their latencies overlap.
int64_t words_per_thread(const Dim& words);
// Strides of operand 0 in words.
LoopDims in_words(LoopDims dims, int64_t word_elements);

}  // namespace rlx
