// SPDX-License-Identifier: Apache-2.0
// From a product over strided views to one problem of the vendor's library.
#include "compiler/ops/product/matmul_library.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <limits>
#include <vector>

#include "compiler/dispatch/builder.h"
#include "compiler/dispatch/library_gemm.h"
#include "compiler/ops/product/matmul_emit.h"
#include "compiler/ops/product/product_time.h"
#include "compiler/support/check.h"
#include "compiler/support/checked.h"
#include "compiler/support/sampled_sizes.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// Below these the library's tiles are mostly empty.
constexpr int64_t kLeastLines = 64;
constexpr int64_t kLeastColumns = 64;
constexpr int64_t kLeastDepth = 64;
constexpr int64_t kDimLimit = std::numeric_limits<int32_t>::max();
// The library's vector paths: addresses, pitches and batch strides in whole 16-byte pieces.
constexpr uint32_t kOperandAlignmentBytes = 16;

// ---- what the library takes ----

// A matrix as the library sees one: rows of one pitch, one stride from a batch entry to the next.
struct LibraryMatrix {
  Dim pitch = 0;
  Dim batch_stride = 0;
  bool transposed = false;
};

bool whole_pieces(const Dim& elements, DType dtype) {
  return (elements * element_bytes(dtype)).divides_by(kOperandAlignmentBytes);
}

// `row_stride` is the distance of the `rows` rows of `columns` dense elements.
std::optional<LibraryMatrix> matrix_of(const OfferContext& at, const TensorRef& ref,
                                       const Strides& batch, const Dim& row_stride,
                                       const Dim& columns) {
  const Dim batch_stride = batch.empty() ? Dim() : batch.front();
  const bool fits = row_stride >= columns && row_stride < kDimLimit && batch_stride >= 0 &&
                    whole_pieces(row_stride, ref.dtype()) &&
                    whole_pieces(batch_stride, ref.dtype()) &&
                    at.alignment(ref) >= kOperandAlignmentBytes;
  if (!fits) return std::nullopt;
  return LibraryMatrix{.pitch = row_stride, .batch_stride = batch_stride};
}

// a is stored [m][k], or [k][m] where transposed; b as [k][n], or [n][k].
std::optional<LibraryMatrix> operand_matrix(const OfferContext& at, const ProductOperand& operand,
                                            const Dim& lines, const Dim& depth, bool is_left) {
  const bool along_depth = operand.depth == 1;
  if (!along_depth && operand.line != 1) return std::nullopt;
  auto matrix = along_depth ? matrix_of(at, operand.ref, operand.batch, operand.line, depth)
                            : matrix_of(at, operand.ref, operand.batch, operand.depth, lines);
  if (matrix) matrix->transposed = along_depth != is_left;
  return matrix;
}

// Batch entries of y whose rows lie between each other's are none of the library's.
std::optional<LibraryMatrix> result_matrix(const OfferContext& at, const Product& product) {
  const Dim entry = product.m * product.n;
  if (!product.y_lines) return matrix_of(at, product.y, {entry}, product.n, product.n);
  const ProductLines& lines = *product.y_lines;
  const bool apart = lines.batch.empty() || lines.batch.front() >= product.m * lines.line;
  if (!apart) return std::nullopt;
  return matrix_of(at, product.y, lines.batch, lines.line, product.n);
}

// A vector over n, the same for every line and batch entry.
bool is_bias_vector(const OfferContext& at, const AddedOperand& bias) {
  return bias.n == 1 && bias.m == 0 && at.alignment(bias.ref) >= kOperandAlignmentBytes &&
         std::all_of(bias.batch.begin(), bias.batch.end(), [](const Dim& s) { return s == 0; });
}

// The epilogue that applies bias and activation before the one rounding; nullopt where there is
// none. The library's own tanh is an approximation that is right for short floats only.
std::optional<GemmEpilogue> epilogue_of(const Product& product) {
  const bool bias = product.bias.has_value();
  const Activation& activation = product.activation;
  if (activation.none()) return bias ? GemmEpilogue::Bias : GemmEpilogue::None;
  if (product.residual) return std::nullopt;
  if (activation.op == "relu") return bias ? GemmEpilogue::BiasRelu : GemmEpilogue::Relu;
  if (activation.op == "gelu_tanh" && is_half(product.y.dtype())) {
    return bias ? GemmEpilogue::BiasGeluTanh : GemmEpilogue::GeluTanh;
  }
  return std::nullopt;
}

std::string dtype_refusal(const Product& product) {
  const DType a = product.a.ref.dtype();
  const DType y = product.y.dtype();
  if (a != product.b.ref.dtype()) return "operands of two dtypes";
  if (a != DType::f32 && !is_half(a)) return "no product of " + std::string(name_of(a));
  if (y != a && y != DType::f32) return std::string(name_of(a)) + " to " + std::string(name_of(y));
  for (const auto* added : {&product.bias, &product.residual}) {
    if (*added && (*added)->ref.dtype() != y) return "bias or residual of another dtype than y";
  }
  return {};
}

std::string size_refusal(const Product& product) {
  if (product.m < kLeastLines || product.n < kLeastColumns || product.k < kLeastDepth) {
    return "less than " + std::to_string(kLeastLines) + " lines, " + std::to_string(kLeastColumns) +
           " columns or a depth of " + std::to_string(kLeastDepth);
  }
  if (std::max<Dim>({product.m, product.n, product.k, element_count(product.batch)}) > kDimLimit)
    return "a size of 2^31 or more";
  if (product.batch.size() > 1) return "batch dims that do not merge";
  return {};
}

// Split-k keeps partial tiles here, stream-k little more than counters. Where whole tiles fill the
// device splitting gains nothing (measured on an H200: 0 to 32 MiB, the same times).
uint64_t workspace_bytes(const OfferContext& at, const Product& product) {
  constexpr int64_t kTile = 128;
  constexpr uint64_t kCounters = uint64_t{64} << 10;
  constexpr uint64_t kMost = uint64_t{32} << 20;  // what the library's makers advise for Hopper
  const int64_t tiles =
      (ceil_div(product.m, kTile) * ceil_div(product.n, kTile) * element_count(product.batch))
          .bound();
  if (4 * tiles >= 3 * int64_t{at.device().multiprocessors}) return kCounters;
  const auto partial = static_cast<uint64_t>(tiles) * kTile * kTile * sizeof(float);
  return std::min(kCounters + 8 * partial, kMost);
}

// ---- the time ----

// A product at one size.
struct LibraryWork {
  DType dtype{};  // of the operands
  ProductPrecision precision = ProductPrecision::F32;
  int64_t depth_bytes = 0;
  int64_t flops = 0;
  int64_t bytes = 0;  // read and written once
  int64_t added_bytes = 0;
};

// At each of a few sizes, the largest first.
std::vector<LibraryWork> works_of(const OfferContext& at, const Product& product) {
  const Dim flops = flops_of(product);
  const Dim bytes = least_bytes(product);
  const Dim added = product.residual ? byte_size(product.y.type) : Dim(0);
  const auto work_at = [&](const SampledSizes& sampled) {
    return LibraryWork{
        .dtype = product.a.ref.dtype(),
        .precision = at.products(),
        .depth_bytes = sampled.value(product.k * element_bytes(product.a.ref.dtype())),
        .flops = sampled.value(flops),
        .bytes = sampled.value(bytes),
        .added_bytes = sampled.value(added)};
  };
  return at_sampled_sizes({product.m, product.n, batch_count(product)}, work_at);
}

double teraflops_of(const LibraryTimes& times, const LibraryWork& work) {
  if (work.dtype != DType::f32) return times.short_float;
  return work.precision == ProductPrecision::Tf32 ? times.tf32 : times.f32;
}

double library_microseconds(const DeviceModel& device, const LibraryWork& work) {
  // More depth than that is divided over the device.
  constexpr int64_t kMostDepthBytes = 16384;
  const LibraryTimes& times = device.library;
  const double begin = work.dtype == DType::f32 ? times.float_begin : times.begin;
  const double deep =
      static_cast<double>(std::min(work.depth_bytes, kMostDepthBytes)) / times.depth_rate;
  const double computing = static_cast<double>(work.flops) / teraflops_of(times, work) * 1e-6;
  const double adding = static_cast<double>(work.added_bytes) / times.added_rate * 1e-3;
  const double moving = moving_microseconds(device, work.bytes);
  return begin + std::max({computing + adding, moving, deep});
}

std::string microseconds_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f us", value);
  return text.data();
}

// ---- the step ----

void bind(Step& step, GemmOperand operand, const TensorRef& ref, AccessMode mode) {
  step.accesses.push_back(
      make_access(static_cast<uint32_t>(operand), ref, mode, kOperandAlignmentBytes));
}

Step library_step(LowerContext& ctx, const Product& product, const LibraryGemm& gemm) {
  Step step = ctx.new_step();
  step.kind = StepKind::LibraryGemm;
  step.gemm = gemm;
  bind(step, GemmOperand::A, product.a.ref, AccessMode::Read);
  bind(step, GemmOperand::B, product.b.ref, AccessMode::Read);
  if (product.bias) bind(step, GemmOperand::Bias, product.bias->ref, AccessMode::Read);
  if (product.residual) bind(step, GemmOperand::Residual, product.residual->ref, AccessMode::Read);
  bind(step, GemmOperand::Y, product.y, AccessMode::Write);
  const TensorRef workspace =
      ctx.scratch({DType::u8, {narrow<int64_t>(gemm.workspace_bytes)}}, "workspace");
  bind(step, GemmOperand::Workspace, workspace, AccessMode::Write);
  return step;
}

// The bytes that a step touches, without what is the library's alone.
struct Touched {
  uint32_t buffer;
  uint64_t offset_bytes;
  uint64_t length_bytes;
  AccessMode mode;
  auto operator<=>(const Touched&) const = default;
};
std::vector<Touched> touched_by(const Step& step) {
  std::vector<Touched> touched;
  for (const Access& access : step.accesses) {
    const bool workspace = step.kind == StepKind::LibraryGemm &&
                           access.position == static_cast<uint32_t>(GemmOperand::Workspace);
    if (workspace) continue;
    touched.push_back({static_cast<uint32_t>(index_of(access.buffer)), access.range_offset_bytes,
                       access.range_bytes, access.mode});
  }
  std::sort(touched.begin(), touched.end());
  return touched;
}

// The product as a problem for the library, or why the library cannot compute it with one rounding.
struct LibraryProblem {
  std::optional<LibraryGemm> gemm;
  std::string refusal;  // "batch dims that do not merge"; empty with a gemm
};

LibraryProblem library_problem(const OfferContext& at, const FusedProduct& fused) {
  const Product& product = fused.product;
  if (at.is_left_out("library")) return {.gemm = {}, .refusal = "left out"};
  if (!at.target().library_gemm) return {.gemm = {}, .refusal = "the target has no library"};
  for (const std::string& refusal :
       {beside_refusal(fused), size_refusal(product), dtype_refusal(product)}) {
    if (!refusal.empty()) return {.gemm = {}, .refusal = refusal};
  }
  const auto epilogue = epilogue_of(product);
  if (!epilogue) {
    return {.gemm = {},
            .refusal = "activation " + product.activation.op +
                       (product.residual ? " before a residual" : " is none of its epilogues")};
  }
  if (product.bias && !is_bias_vector(at, *product.bias))
    return {.gemm = {}, .refusal = "a bias that is no vector over n"};
  const auto a = operand_matrix(at, product.a, product.m, product.k, true);
  const auto b = operand_matrix(at, product.b, product.n, product.k, false);
  const auto y = result_matrix(at, product);
  std::optional<LibraryMatrix> residual = LibraryMatrix{};
  if (product.residual) {
    const AddedOperand& added = *product.residual;
    residual =
        added.n != 1 ? std::nullopt : matrix_of(at, added.ref, added.batch, added.m, product.n);
  }
  if (!a || !b || !y || !residual)
    return {.gemm = {}, .refusal = "rows that are not dense or not aligned to 16 bytes"};
  const Dim batch = element_count(product.batch);
  LibraryGemm gemm{.m = product.m,
                   .n = product.n,
                   .k = product.k,
                   .batch = batch,
                   .a_dtype = product.a.ref.dtype(),
                   .b_dtype = product.b.ref.dtype(),
                   .y_dtype = product.y.dtype()};
  const bool tf32 = gemm.a_dtype == DType::f32 && at.products() == ProductPrecision::Tf32;
  gemm.compute = tf32 ? GemmCompute::Tf32 : GemmCompute::F32;
  gemm.epilogue = *epilogue;
  gemm.a_transposed = a->transposed;
  gemm.b_transposed = b->transposed;
  gemm.has_residual = product.residual.has_value();
  gemm.a_pitch = a->pitch;
  gemm.b_pitch = b->pitch;
  gemm.y_pitch = y->pitch;
  gemm.residual_pitch = residual->pitch;
  gemm.a_batch_stride = a->batch_stride;
  gemm.b_batch_stride = b->batch_stride;
  gemm.y_batch_stride = batch > 1 ? y->batch_stride : Dim();
  gemm.residual_batch_stride = residual->batch_stride;
  gemm.workspace_bytes = workspace_bytes(at, product);
  return {.gemm = gemm, .refusal = {}};
}

}  // namespace

std::string library_refusal(const OfferContext& at, const FusedProduct& fused) {
  return library_problem(at, fused).refusal;
}

double library_time(const OfferContext& at, const FusedProduct& fused) {
  return mean_over_sizes(works_of(at, fused.product), [&at](const LibraryWork& work) {
    return library_microseconds(at.device(), work);
  });
}

bool emit_library(LowerContext& ctx, const FusedProduct& fused) {
  std::vector<Step>& steps = ctx.program().steps;
  const size_t first_step = steps.size();
  const Choice<ProductOffer> own = choose(own_product_offers(), ctx, fused);
  // A tuner's choice would hold for one size.
  const bool has_own = own.row != nullptr && !has_free_sizes(fused);
  std::vector<FormChoice>& form_choices = ctx.program().form_choices;
  const size_t first_choice = form_choices.size();
  if (has_own && !own.row->emit(ctx, fused)) return false;
  // Of a step that does not run nothing is timed.
  form_choices.resize(first_choice);
  std::vector<Step> ours(std::make_move_iterator(steps.begin() + static_cast<int64_t>(first_step)),
                         std::make_move_iterator(steps.end()));
  steps.resize(first_step);

  const Product& product = fused.product;
  Step step = library_step(ctx, product, library_problem(ctx, fused).gemm.value());
  step.bytes_moved = least_bytes(product);
  step.flops = flops_of(product);
  step.estimate = [work = works_of(ctx, product).front()](const DeviceModel& device) {
    return library_microseconds(device, work);
  };
  step.reason =
      reason_of(product, microseconds_text(library_time(ctx, fused)) + " by the library expected");
  if (ours.size() == 1 && touched_by(ours[0]) == touched_by(step))
    step.alternatives.push_back(std::move(ours[0]));
  steps.push_back(std::move(step));
  return true;
}

bool library_wants_activation_apart(const OfferContext& at, const ProductTypes& types) {
  if (epilogue_of(product_of_types(types).product)) return false;
  ProductTypes plain = types;
  plain.activation.clear();
  const FusedProduct alone = product_of_types(plain);
  const TensorType& y = alone.product.y.type;
  if (!is_half(types.x) || !library_refusal(at, alone).empty()) return false;
  const double pass = copy_microseconds(at.device(), y, y);
  const Choice<ProductOffer> own = choose(own_product_offers(), at, product_of_types(types));
  return own.row != nullptr && library_time(at, alone) + pass < own.microseconds;
}

}  // namespace rlx
