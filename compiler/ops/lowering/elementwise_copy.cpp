// SPDX-License-Identifier: Apache-2.0
// Strided copies, bit by bit: tiles of the transpose kernel where input and output run along
// different axes, else a region.
#include <algorithm>

#include "compiler/dispatch/builder.h"
#include "compiler/ops/lowering/elementwise_loops.h"
#include "compiler/ops/lowering/elementwise_region.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kTile = 32;      // edge of the tile in shared memory
constexpr int64_t kTileRows = 8;   // workgroup 32 x 8
constexpr int64_t kLeastEdge = 8;  // smaller matrices waste most of a tile
constexpr int64_t kMaxCopyIndex32 = (int64_t{1} << 31) - 1;

// A batch of matrices that `from` holds along `row_loop` (stride 1) and `to` along the innermost
// loop (stride 1).
struct Transposition {
  LoopNest loops;  // strides: 0 from, 1 to
  size_t row_loop = 0;
  size_t column_loop = 0;
};

std::optional<Transposition> find_transposition(const TensorRef& from, const TensorRef& to) {
  Transposition found{.loops = coalesce_loops(to.shape(), {from.strides, to.strides})};
  const LoopNest& loops = found.loops;
  if (loops.sizes.size() < 2) return std::nullopt;
  for (const Strides& strides : loops.strides) {
    if (std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride < 0; }))
      return std::nullopt;
  }
  const auto unit_loop = [&](const Strides& strides) {
    return static_cast<size_t>(std::find(strides.begin(), strides.end(), 1) - strides.begin());
  };
  found.row_loop = unit_loop(loops.strides[0]);
  found.column_loop = unit_loop(loops.strides[1]);
  if (found.row_loop >= loops.sizes.size() || found.column_loop >= loops.sizes.size())
    return std::nullopt;
  if (found.row_loop == found.column_loop) return std::nullopt;
  if (std::min(loops.sizes[found.row_loop], loops.sizes[found.column_loop]) < kLeastEdge)
    return std::nullopt;
  if (from.byte_range().length_bytes > uint64_t{kMaxCopyIndex32} ||
      to.byte_range().length_bytes > uint64_t{kMaxCopyIndex32})
    return std::nullopt;
  return found;
}

// Statements that take `batch` apart and add its offsets to x_base and y_base.
std::string batch_text(const Transposition& t) {
  std::string text;
  for (size_t i = t.loops.sizes.size(); i-- > 0;) {
    if (i == t.row_loop || i == t.column_loop) continue;
    const std::string size = std::to_string(t.loops.sizes[i]) + "u";
    text += "x_base += (batch % " + size + ") * " + std::to_string(t.loops.strides[0][i]) + "u;\n";
    text += "y_base += (batch % " + size + ") * " + std::to_string(t.loops.strides[1][i]) + "u;\n";
    text += "batch /= " + size + ";\n";
  }
  return text;
}

void emit_transposition(Program& program, const Step& origin, const TensorRef& from,
                        const TensorRef& to, const Transposition& t) {
  const uint32_t bytes = element_bytes(from.dtype());
  const int64_t rows = t.loops.sizes[t.row_loop];
  const int64_t columns = t.loops.sizes[t.column_loop];
  const int64_t batches = element_count(t.loops.sizes) / (rows * columns);
  const int64_t row_tiles = ceil_div(rows, kTile);
  const int64_t column_tiles = ceil_div(columns, kTile);
  const Extent3 grid = split_grid(static_cast<uint64_t>(row_tiles * column_tiles * batches));
  DispatchBuilder<CopyParams> dispatch(program, KernelId::transpose, origin);
  dispatch.workgroup({kTile, kTileRows})
      .define("RLX_RAW", raw_storage(bytes).name)
      .define("RLX_ROWS", std::to_string(rows) + "u")
      .define("RLX_COLUMNS", std::to_string(columns) + "u")
      .define("RLX_X_STRIDE", std::to_string(t.loops.strides[0][t.column_loop]) + "u")
      .define("RLX_Y_STRIDE", std::to_string(t.loops.strides[1][t.row_loop]) + "u")
      .define("RLX_BATCHES", std::to_string(batches) + "u")
      .generated("batch.inc", batch_text(t))
      .read(&CopyParams::x, from)
      .write(&CopyParams::y, to)
      .grid(grid.x, grid.y, grid.z)
      .work(2 * byte_size(to.type), 0)
      .reason(std::to_string(batches) + " transposed " + std::to_string(rows) + " x " +
              std::to_string(columns) + " matrices through 32 x 32 tiles");
}

}  // namespace

void emit_strided_copy(Program& program, const Step& origin, const TensorRef& from,
                       const TensorRef& to) {
  RLX_CHECK(from.type == to.type, "copy of " + to_string(from.type) + " to " + to_string(to.type) +
                                      " for " + origin.node);
  if (element_count(to.shape()) == 0) return;
  if (const std::optional<Transposition> t = find_transposition(from, to)) {
    emit_transposition(program, origin, from, to, *t);
    return;
  }
  const ElementStorage storage = raw_storage(element_bytes(from.dtype()));
  emit_region(program, origin,
              {.output = to,
               .output_storage = storage,
               .operands = {{.view = from, .storage = storage}},
               .element_text = "return x1;\n",
               .operations = 0,
               .subject = "strided copy"});
}

}  // namespace rlx
