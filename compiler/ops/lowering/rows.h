// SPDX-License-Identifier: Apache-2.0
// Loops over strided operands split into kept and reduced dims: what reductions, softmax and norms
// lower from.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ops/lowering/lower_context.h"
#include "schema/rounding.h"

namespace rlx {

// One loop with a stride per operand, in elements. Operand 0 is the tensor read, operand 1 the
// tensor written.
struct LoopDim {
  Dim size = 1;
  std::array<Dim, 2> strides{};
};
using LoopDims = std::vector<LoopDim>;  // outermost first

struct RowLoops {
  LoopDims kept;
  LoopDims reduced;
};

// Splits the dims of `shape` by `axes` (normalised), drops those of size 1 and merges neighbours
// that step alike. The strides of a written tensor that lacks a dim are 0 there.
RowLoops split_rows(const Shape& shape, const Strides& read, const Strides& written,
                    const Ints& axes);
// Strides of a dense tensor without the dims in `axes` (or with 1 in their place), written by the
// dims of `shape`.
Strides strides_without(const Shape& shape, const Ints& axes);
// Puts the dim with the smallest stride of operand 0 innermost, then merges again. Only for loops
// whose order is free.
LoopDims by_stride(LoopDims dims);
LoopDims merged(const LoopDims& dims);
Dim loop_count(const LoopDims& dims);
// One dim of stride 1 in operand 0, or nothing to loop over.
bool is_contiguous(const LoopDims& dims);
// Whether sizes of the loops depend on the run.
bool has_free_sizes(const RowLoops& loops);

// "#define NAME(i) (...)": the element offset of loop position i in one operand, an expression of
// type RLX_INDEX.
std::string index_macro(const std::string& name, const LoopDims& dims, size_t operand);
// Text of the type for offsets into these views and counters up to `count` (IndexUse::Padded).
std::string index_type(const std::vector<const TensorRef*>& views, int64_t count);

// A literal of any size, or an expression for a free one, valid in GLSL and CUDA C++.
std::string integer_text(const Dim& value);

// How the threads of a workgroup divide into rows.
//   Row: `lanes` neighbouring threads share a row; `rows` rows per workgroup.
//   Column: `rows` neighbouring threads take neighbouring rows, so that loads coalesce over a
//   strided reduction; each takes `columns` of them, which it loads at once.
struct RowPlan {
  bool by_column = false;
  uint32_t lanes = 1;
  uint32_t rows = 1;
  uint32_t columns = 1;

  [[nodiscard]] uint32_t threads() const { return lanes * rows; }
  [[nodiscard]] Dim groups(const Dim& row_count) const {
    return ceil_div(row_count, rows * columns);
  }
};
// By column; none where the rows are not neighbours in memory, or each lies along it. `columns`
// divides the count of rows that stand side by side.
std::optional<RowPlan> plan_side_by_side(const RowLoops& loops, uint32_t columns = 1);
// By row, of rows of at most `row_length`. `elements_per_lane`: how many neighbouring elements a
// thread loads at once.
RowPlan plan_neighbours(const Dim& row_length, uint32_t elements_per_lane);
std::string to_string(const RowPlan& plan);

// True where every row of this view can be read or written `width` elements at a time, aligned to
// their bytes.
bool rows_divide(const OfferContext& at, const TensorRef& view, const RowLoops& loops,
                 size_t operand, uint32_t width);
// `width` (4, or 8 for f16 and bf16) where rows of this f32, f16 or bf16 view can be read or
// written so many elements at a time (rlx_load4_*, rlx_load8_*), else 1.
uint32_t vector_width(const OfferContext& at, const TensorRef& view, const RowLoops& loops,
                      size_t operand, uint32_t width = 4);
// Pieces of `width` elements that each thread of a row holds when the row is kept in registers; 0
// where it is too long.
int64_t items_per_lane(const RowPlan& plan, const Dim& row_length, uint32_t width);
// As few threads to a row as hold it in registers, so that little is combined between threads: a
// warp or more, or part of one where that leaves workgroups enough to keep the device busy.
// Workgroups of 128 threads where a row takes no more.
RowPlan plan_in_registers(const OfferContext& at, const Dim& row_count, const Dim& row_length,
                          uint32_t width);
// The device holds no more workgroups at once: what counts is how many rows are under way, not how
// soon one is done.
int64_t busy_groups(const OfferContext& at);

// Rows taken in several parts of `length` elements, each by a workgroup of its own.
struct RowChunks {
  int64_t count = 1;
  int64_t length = 0;
};
// Splits rows of `row_length` whose `groups` alone would leave the device idle, so that about
// `wanted_groups` are at work. A chunk is a multiple of `piece` elements, `least_pieces` or more.
RowChunks split_into_chunks(int64_t row_length, int64_t groups, int64_t wanted_groups,
                            int64_t piece, int64_t least_pieces);

// "#define NAME text\n"
std::string define_line(const std::string& name, const std::string& text);

// Kept and reduced positions of a dense tensor, for the evaluator: element (k, r) is at kept[k] +
// reduced[r].
struct RowOffsets {
  std::vector<int64_t> kept;
  std::vector<int64_t> reduced;
};
RowOffsets row_offsets(const Shape& shape, const Ints& axes);

// f32, f16 or bf16; else a diagnostic naming what was got. `what` names the input ("x").
bool check_float_input(InferContext& ctx, size_t input, const std::string& what);
// Input `input` must be a float tensor whose shape broadcasts to `target`.
bool check_broadcasts(InferContext& ctx, size_t input, const std::string& what,
                      const Shape& target);

}  // namespace rlx
