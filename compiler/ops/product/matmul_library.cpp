// SPDX-License-Identifier: Apache-2.0
// From a product over strided views to one problem of the vendor's library.
#include "compiler/ops/product/matmul_library.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <vector>

#include "compiler/dispatch/builder.h"
#include "compiler/ops/product/matmul_wgmma.h"
#include "compiler/ops/product/product_time.h"
#include "compiler/support/check.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

// Below these the library's tiles are mostly empty, or its call costs more than the product.
constexpr int64_t kLeastLines = 192;
constexpr int64_t kLeastColumns = 64;
constexpr int64_t kLeastDepth = 64;
constexpr int64_t kDimLimit = std::numeric_limits<int32_t>::max();
// The library's vector paths: addresses, pitches and batch strides in whole 16-byte pieces.
constexpr uint32_t kOperandAlignmentBytes = 16;

// ---- what the library takes ----

// A matrix as the library sees one: rows of one pitch, one stride from a batch entry to the next.
struct LibraryMatrix {
  uint64_t pitch = 0;
  uint64_t batch_stride = 0;
  bool transposed = false;
};

bool whole_pieces(int64_t elements, DType dtype) {
  return elements * element_bytes(dtype) % kOperandAlignmentBytes == 0;
}

// `row_stride` is the distance of the `rows` rows of `columns` dense elements.
std::optional<LibraryMatrix> matrix_of(const LowerContext& ctx, const TensorRef& ref,
                                       const Strides& batch, int64_t row_stride, int64_t columns) {
  const int64_t batch_stride = batch.empty() ? 0 : batch.front();
  const bool fits = row_stride >= columns && row_stride < kDimLimit && batch_stride >= 0 &&
                    whole_pieces(row_stride, ref.dtype()) &&
                    whole_pieces(batch_stride, ref.dtype()) &&
                    ctx.alignment(ref) >= kOperandAlignmentBytes;
  if (!fits) return std::nullopt;
  return LibraryMatrix{.pitch = static_cast<uint64_t>(row_stride),
                       .batch_stride = static_cast<uint64_t>(batch_stride)};
}

// a is stored [m][k], or [k][m] where transposed; b as [k][n], or [n][k].
std::optional<LibraryMatrix> operand_matrix(const LowerContext& ctx, const ProductOperand& operand,
                                            int64_t lines, int64_t depth, bool is_left) {
  const bool along_depth = operand.depth == 1;
  if (!along_depth && operand.line != 1) return std::nullopt;
  auto matrix = along_depth ? matrix_of(ctx, operand.ref, operand.batch, operand.line, depth)
                            : matrix_of(ctx, operand.ref, operand.batch, operand.depth, lines);
  if (matrix) matrix->transposed = along_depth != is_left;
  return matrix;
}

// Batch entries of y whose rows lie between each other's are none of the library's.
std::optional<LibraryMatrix> result_matrix(const LowerContext& ctx, const Product& product) {
  const int64_t entry = product.m * product.n;
  if (!product.y_lines) return matrix_of(ctx, product.y, {entry}, product.n, product.n);
  const ProductLines& lines = *product.y_lines;
  const bool apart = lines.batch.empty() || lines.batch.front() >= product.m * lines.line;
  if (!apart) return std::nullopt;
  return matrix_of(ctx, product.y, lines.batch, lines.line, product.n);
}

// A vector over n, the same for every line and batch entry.
bool is_bias_vector(const LowerContext& ctx, const AddedOperand& bias) {
  return bias.n == 1 && bias.m == 0 && ctx.alignment(bias.ref) >= kOperandAlignmentBytes &&
         std::all_of(bias.batch.begin(), bias.batch.end(), [](int64_t s) { return s == 0; });
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

bool fills_tiles(int64_t m, int64_t n, int64_t k) {
  return m >= kLeastLines && n >= kLeastColumns && k >= kLeastDepth;
}

std::string size_refusal(const Product& product) {
  if (!fills_tiles(product.m, product.n, product.k)) {
    return "less than " + std::to_string(kLeastLines) + " lines, " + std::to_string(kLeastColumns) +
           " columns or a depth of " + std::to_string(kLeastDepth);
  }
  if (std::max({product.m, product.n, product.k, element_count(product.batch)}) > kDimLimit)
    return "a size of 2^31 or more";
  if (product.batch.size() > 1) return "batch dims that do not merge";
  return {};
}

// Split-k keeps partial tiles here, stream-k little more than counters. Where whole tiles fill the
// device splitting gains nothing (measured on an H200: 0 to 32 MiB, the same times).
uint64_t workspace_bytes(const LowerContext& ctx, const Product& product) {
  constexpr int64_t kTile = 128;
  constexpr uint64_t kCounters = uint64_t{64} << 10;
  constexpr uint64_t kMost = uint64_t{32} << 20;  // what the library's makers advise for Hopper
  const int64_t tiles = ((product.m + kTile - 1) / kTile) * ((product.n + kTile - 1) / kTile) *
                        element_count(product.batch);
  if (4 * tiles >= 3 * int64_t{ctx.target().device.multiprocessors}) return kCounters;
  const auto partial = static_cast<uint64_t>(tiles) * kTile * kTile * sizeof(float);
  return std::min(kCounters + 8 * partial, kMost);
}

// ---- the choice ----

// The library's product of 16 bits in tiles that fill the device, against matmul_wgmma's estimate.
double library_tile_microseconds(const LibraryTiles& times, double flops, double added_bytes) {
  return times.begin + flops / times.rate * 1e-6 + added_bytes / times.added_rate * 1e-3;
}

ProductWork work_of(const LowerContext& ctx, const Product& product, const Step& step) {
  return {.dtype = product.a.ref.dtype(),
          .precision = ctx.products(),
          .flops = step.flops,
          .bytes = step.bytes_moved};
}

std::string microseconds_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f us", value);
  return text.data();
}

// What our own steps take, all of them.
double own_microseconds(LowerContext& ctx, const Product& product, size_t first_step) {
  const Program& program = ctx.program();
  const DeviceModel& device = ctx.target().device;
  double sum = 0;
  for (size_t i = first_step; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    const KernelId kernel = program.kernels.at(index_of(step.kernel.value())).kernel;
    if (kernel == KernelId::matmul_wgmma)
      return wgmma_microseconds(ctx.target(), tiled_size({.product = product}));
    const ProductRates& rates =
        kernel == KernelId::matmul_mma ? device.mma_rates : device.thread_rates;
    sum += rate_microseconds(rates, device, work_of(ctx, product, step));
  }
  return sum;
}

KernelId own_kernel(LowerContext& ctx, size_t first_step) {
  const Program& program = ctx.program();
  const Step& step = program.steps.at(first_step);
  return program.kernels.at(index_of(step.kernel.value())).kernel;
}

double library_microseconds(LowerContext& ctx, const Product& product, size_t first_step) {
  const Step& own = ctx.program().steps.at(first_step);
  const DeviceModel& device = ctx.target().device;
  if (own_kernel(ctx, first_step) != KernelId::matmul_wgmma)
    return rate_microseconds(device.library_rates, device, work_of(ctx, product, own));
  const double added = product.residual ? static_cast<double>(byte_size(product.y.type)) : 0;
  return library_tile_microseconds(device.library_tiles, static_cast<double>(own.flops), added);
}

// Of dense operands, read and written once.
ProductWork dense_work(int64_t m, int64_t n, int64_t k, DType dtype) {
  const auto product = [](int64_t a, int64_t b) {
    return static_cast<uint64_t>(a) * static_cast<uint64_t>(b);
  };
  return {.dtype = dtype,
          .flops = 2 * product(m, n) * static_cast<uint64_t>(k),
          .bytes = (product(m, k) + product(k, n) + product(m, n)) * element_bytes(dtype)};
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

}  // namespace

bool library_suits(const Target& target, int64_t m, int64_t n, int64_t k) {
  return target.library_gemm && fills_tiles(m, n, k);
}

bool library_wants_activation_apart(const Target& target, int64_t m, int64_t n, int64_t k,
                                    DType dtype, const std::string& activation) {
  if (!library_suits(target, m, n, k) || !is_half(dtype)) return false;
  if (activation == "relu" || activation == "gelu_tanh") return false;  // epilogues of the library
  const DeviceModel& device = target.device;
  const ProductWork work = dense_work(m, n, k, dtype);
  double ours = rate_microseconds(device.mma_rates, device, work);
  double library = rate_microseconds(device.library_rates, device, work);
  if (wgmma_takes(target, m, n, k, dtype)) {
    library = library_tile_microseconds(device.library_tiles, static_cast<double>(work.flops), 0);
    ours = std::min(
        ours, wgmma_microseconds(target, {.m = m,
                                          .n = n,
                                          .k = k,
                                          .gated = false,
                                          .residual = false,
                                          .heavy_activation = is_heavy_activation(activation)}));
  }
  const double pass_bytes = 2.0 * static_cast<double>(m) * static_cast<double>(n) *
                            static_cast<double>(element_bytes(dtype));
  const double pass =
      pass_bytes / device.memory_gigabytes_per_second * 1e-3 + device.step_microseconds;
  return library + pass < ours;
}

LibraryProblem library_problem(const LowerContext& ctx, const Product& product) {
  if (!ctx.target().library_gemm) return {.gemm = {}, .refusal = "the target has no library"};
  for (const std::string& refusal : {size_refusal(product), dtype_refusal(product)}) {
    if (!refusal.empty()) return {.gemm = {}, .refusal = refusal};
  }
  const auto epilogue = epilogue_of(product);
  if (!epilogue) {
    return {.gemm = {},
            .refusal = "activation " + product.activation.op +
                       (product.residual ? " before a residual" : " is none of its epilogues")};
  }
  if (product.bias && !is_bias_vector(ctx, *product.bias))
    return {.gemm = {}, .refusal = "a bias that is no vector over n"};
  const auto a = operand_matrix(ctx, product.a, product.m, product.k, true);
  const auto b = operand_matrix(ctx, product.b, product.n, product.k, false);
  const auto y = result_matrix(ctx, product);
  std::optional<LibraryMatrix> residual = LibraryMatrix{};
  if (product.residual) {
    const AddedOperand& added = *product.residual;
    residual =
        added.n != 1 ? std::nullopt : matrix_of(ctx, added.ref, added.batch, added.m, product.n);
  }
  if (!a || !b || !y || !residual)
    return {.gemm = {}, .refusal = "rows that are not dense or not aligned to 16 bytes"};
  const auto batch = static_cast<uint64_t>(element_count(product.batch));
  LibraryGemm gemm{.m = static_cast<uint64_t>(product.m),
                   .n = static_cast<uint64_t>(product.n),
                   .k = static_cast<uint64_t>(product.k),
                   .batch = batch,
                   .a_dtype = product.a.ref.dtype(),
                   .b_dtype = product.b.ref.dtype(),
                   .y_dtype = product.y.dtype()};
  const bool tf32 = gemm.a_dtype == DType::f32 && ctx.products() == ProductPrecision::Tf32;
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
  gemm.y_batch_stride = batch > 1 ? y->batch_stride : 0;
  gemm.residual_batch_stride = residual->batch_stride;
  gemm.workspace_bytes = workspace_bytes(ctx, product);
  return {.gemm = gemm, .refusal = {}};
}

void offer_to_library(LowerContext& ctx, const Product& product, size_t first_step) {
  std::vector<Step>& steps = ctx.program().steps;
  if (!ctx.target().library_gemm || steps.size() == first_step) return;
  const LibraryProblem problem = library_problem(ctx, product);
  if (!problem.gemm) {
    if (size_refusal(product).empty())
      steps[first_step].reason += "; the library does not take it: " + problem.refusal;
    return;
  }
  const Step& own = steps[first_step];
  const double ours = own_microseconds(ctx, product, first_step);
  const double library = library_microseconds(ctx, product, first_step);
  const std::string comparison = microseconds_text(ours) + " by " +
                                 std::string(kernel_row(own_kernel(ctx, first_step)).name) + ", " +
                                 microseconds_text(library) + " by the library expected";
  if (library >= ours) {
    steps[first_step].reason += "; " + comparison;
    return;
  }
  Step step = library_step(ctx, product, *problem.gemm);
  step.bytes_moved = own.bytes_moved;
  step.flops = own.flops;
  step.reason = (product.note.empty() ? "" : product.note + ": ") + comparison;
  const bool exchangeable = steps.size() == first_step + 1 && touched_by(own) == touched_by(step);
  if (exchangeable) step.alternatives.push_back(std::move(steps.back()));
  steps.resize(first_step);
  steps.push_back(std::move(step));
}

}  // namespace rlx
