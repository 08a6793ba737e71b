// SPDX-License-Identifier: Apache-2.0
// Strided copies, bit by bit: tiles of the transpose kernel where input and output run along
// different axes, else a region.
#include <algorithm>
#include <array>

#include "compiler/dispatch/builder.h"
#include "compiler/ops/lowering/elementwise_loops.h"
#include "compiler/ops/lowering/elementwise_region.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/offers.h"
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

// What the table is asked of.
struct StridedCopy {
  const TensorRef& from;
  const TensorRef& to;
};

bool has_free_sizes(const StridedCopy& copy) {
  return element_count(copy.to.shape()).is_free();
}

struct CopyEmitter {
  Program& program;
  const Step& origin;
  WordUse words = WordUse::Never;
};

size_t unit_loop(const Strides& strides) {
  return static_cast<size_t>(std::find(strides.begin(), strides.end(), 1) - strides.begin());
}

bool steps_backwards(const Strides& strides) {
  return std::any_of(strides.begin(), strides.end(), [](const Dim& stride) { return stride < 0; });
}

// Complete where transposition_refusal refuses nothing.
Transposition transposition_of(const StridedCopy& copy) {
  Transposition t{.loops = coalesce_loops(copy.to.shape(), {copy.from.strides, copy.to.strides})};
  t.row_loop = unit_loop(t.loops.strides[0]);
  t.column_loop = unit_loop(t.loops.strides[1]);
  return t;
}

std::string transposition_refusal(const StridedCopy& copy) {
  const Transposition t = transposition_of(copy);
  const LoopNest& loops = t.loops;
  if (loops.sizes.size() < 2) return "elements that step alike";
  if (steps_backwards(loops.strides[0]) || steps_backwards(loops.strides[1]))
    return "elements that stand backwards";
  if (t.row_loop >= loops.sizes.size() || t.column_loop >= loops.sizes.size())
    return "no elements that are neighbours on each side";
  if (t.row_loop == t.column_loop) return "the same neighbours on both sides";
  if (std::min(loops.sizes[t.row_loop].bound(), loops.sizes[t.column_loop].bound()) < kLeastEdge)
    return "fewer than " + std::to_string(kLeastEdge) + " rows or columns";
  const int64_t bytes = std::max(copy.from.byte_range().length_bytes.bound(),
                                 copy.to.byte_range().length_bytes.bound());
  return bytes > kMaxCopyIndex32 ? "2 GiB or more" : "";
}

// A size or stride in the kernel's text.
std::string word_of(const Dim& size) {
  return size.is_free() ? "rlx_u32(" + size_text(size) + ")" : to_string(size) + "u";
}

// Statements that take `batch` apart and add its offsets to x_base and y_base.
std::string batch_text(const Transposition& t) {
  std::string text;
  for (size_t i = t.loops.sizes.size(); i-- > 0;) {
    if (i == t.row_loop || i == t.column_loop) continue;
    const std::string size = word_of(t.loops.sizes[i]);
    text += "x_base += (batch % " + size + ") * " + word_of(t.loops.strides[0][i]) + ";\n";
    text += "y_base += (batch % " + size + ") * " + word_of(t.loops.strides[1][i]) + ";\n";
    text += "batch /= " + size + ";\n";
  }
  return text;
}

Dim batches_of(const Transposition& t) {
  Dim batches = 1;
  for (size_t i = 0; i < t.loops.sizes.size(); ++i) {
    if (i != t.row_loop && i != t.column_loop) batches *= t.loops.sizes[i];
  }
  return batches;
}

// Tiles are found by division, which constants make cheaper.
bool takes_words(const Transposition& t, WordUse use) {
  const auto is_free = [](const Dim& size) { return size.is_free(); };
  return use == WordUse::Always &&
         std::none_of(t.loops.sizes.begin(), t.loops.sizes.end(), is_free) &&
         std::none_of(t.loops.strides[0].begin(), t.loops.strides[0].end(), is_free) &&
         std::none_of(t.loops.strides[1].begin(), t.loops.strides[1].end(), is_free);
}

void put_words(SizeWords& words, LoopNest& loops) {
  for (Dim& size : loops.sizes) size = words.word(size);
  for (Strides& strides : loops.strides) {
    for (Dim& stride : strides) stride = words.word(stride);
  }
}

// What the kernel touches of one side, by the words that it goes by.
TensorRef side(const TensorRef& view, const Transposition& t, size_t number) {
  Dim farthest = 0;
  for (size_t i = 0; i < t.loops.sizes.size(); ++i)
    farthest += reach_of(t.loops.sizes[i], t.loops.strides[number][i]);
  return reached(view, farthest);
}

bool emit_transposition(CopyEmitter& emitter, const StridedCopy& copy) {
  Transposition t = transposition_of(copy);
  const auto& [from, to] = copy;
  const uint32_t bytes = element_bytes(from.dtype());
  const Dim fixed_rows = t.loops.sizes[t.row_loop];
  const Dim fixed_columns = t.loops.sizes[t.column_loop];
  const Dim fixed_batches = batches_of(t);
  const Grid grid =
      split_grid(ceil_div(fixed_rows, kTile) * ceil_div(fixed_columns, kTile) * fixed_batches);
  DispatchBuilder<CopyParams> dispatch(emitter.program, KernelId::transpose, emitter.origin);
  SizeWords words;
  const bool in_words = takes_words(t, emitter.words);
  if (in_words) put_words(words, t.loops);
  words.give(dispatch);
  const Dim& rows = t.loops.sizes[t.row_loop];
  const Dim& columns = t.loops.sizes[t.column_loop];
  const Dim batches = batches_of(t);
  dispatch.workgroup({kTile, kTileRows})
      .define("RLX_RAW", raw_storage(bytes).name)
      .define("RLX_ROWS", word_of(rows))
      .define("RLX_COLUMNS", word_of(columns))
      .define("RLX_X_STRIDE", word_of(t.loops.strides[0][t.column_loop]))
      .define("RLX_Y_STRIDE", word_of(t.loops.strides[1][t.row_loop]))
      .define("RLX_BATCHES", word_of(batches))
      .generated("batch.inc", batch_text(t))
      .read(&CopyParams::x, in_words ? side(from, t, 0) : from)
      .write(&CopyParams::y, in_words ? side(to, t, 1) : to)
      .grid(grid)
      .work(2 * byte_size(to.type), 0)
      .reason(to_string(fixed_batches) + " transposed " + to_string(fixed_rows) + " x " +
              to_string(fixed_columns) + " matrices through 32 x 32 tiles" +
              (in_words ? ", sizes as words" : ""));
  return true;
}

bool emit_copy_region(CopyEmitter& emitter, const StridedCopy& copy) {
  const ElementStorage storage = raw_storage(element_bytes(copy.from.dtype()));
  emit_region(emitter.program, emitter.origin,
              {.output = copy.to,
               .output_storage = storage,
               .operands = {{.view = copy.from, .storage = storage}},
               .element_text = "return x1;\n",
               .operations = 0,
               .subject = "strided copy",
               .words = emitter.words});
  return true;
}

double copy_bound(const OfferContext& at, const StridedCopy& copy) {
  const Dim written = byte_size(copy.to.type);
  const Dim bytes = min(copy.from.byte_range().length_bytes, written) + written;
  return thread_bound_microseconds(at.device(),
                                   {.bytes = static_cast<uint64_t>(bytes.bound()), .flops = 0});
}

using CopyOffer = Offer<StridedCopy, CopyEmitter>;

constexpr std::array kCopyOffers = {
    // Both sides are moved a whole line of memory at a time.
    CopyOffer{.kernel = KernelId::transpose,
              .rank = 0,
              .estimate = Estimate::Bound,
              .refusal = [](const OfferContext&,
                            const StridedCopy& copy) { return transposition_refusal(copy); },
              .microseconds = copy_bound,
              .emit = emit_transposition,
              .takes_free_sizes = true},
    // Takes everything.
    CopyOffer{.kernel = KernelId::region,
              .rank = 1,
              .estimate = Estimate::Bound,
              .refusal = [](const OfferContext&, const StridedCopy&) { return std::string(); },
              .microseconds = copy_bound,
              .emit = emit_copy_region,
              .takes_free_sizes = true},
};

}  // namespace

void emit_strided_copy(const LowerOptions& options, Program& program, const Step& origin,
                       const TensorRef& from, const TensorRef& to) {
  RLX_CHECK(from.type == to.type, "copy of " + to_string(from.type) + " to " + to_string(to.type) +
                                      " for " + origin.node);
  if (element_count(to.shape()) == 0) return;
  const StridedCopy copy{.from = from, .to = to};
  const OfferContext at(options, &program);
  Choice<CopyOffer> choice = choose(std::span<const CopyOffer>(kCopyOffers), at, copy);
  RLX_CHECK(choice.row != nullptr, "no kernel for the copy of " + origin.node);
  const size_t first_step = program.steps.size();
  CopyEmitter emitter{.program = program, .origin = origin, .words = at.word_use()};
  choice.row->emit(emitter, copy);
  note_offers(program, first_step, choice.row->kernel, std::move(choice.notes));
}

bool turns_elements(const TensorRef& from, const TensorRef& to) {
  return transposition_refusal({.from = from, .to = to}).empty();
}

void emit_joined_copy(const LowerOptions& options, Program& program, const Step& origin,
                      const JoinedParts& from, const TensorRef& to) {
  const OfferContext at(options, &program);
  const ElementStorage storage = raw_storage(element_bytes(to.dtype()));
  Region region{.output = to,
                .output_storage = storage,
                .operands = {},
                .element_text = "return x1;\n",
                .subject = "strided copy",
                .words = at.word_use()};
  append_joined(region.operands, from, storage);
  emit_region(program, origin, region);
}

std::vector<std::string> copy_offer_names() {
  return {offer_name(kCopyOffers.front().kernel, kCopyOffers.front().form)};
}

}  // namespace rlx
