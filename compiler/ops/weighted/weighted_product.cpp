// SPDX-License-Identifier: Apache-2.0
// From a weighted product to a dispatch of one of the kernels of its table.
#include "compiler/ops/weighted/weighted_product.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>

#include "compiler/ops/lowering/block_weights.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/product/matmul_emit.h"
#include "compiler/ops/product/matmul_tiles.h"
#include "compiler/ops/weighted/decoded_product.h"
#include "compiler/ops/weighted/expert_tiles.h"
#include "compiler/ops/weighted/weighted_dispatch.h"
#include "compiler/ops/weighted/weighted_tiles.h"
#include "compiler/support/checked.h"
#include "schema/rounding.h"

namespace rlx {

bool is_dense_weight(const WeightedProduct& product) {
  return product.scheme == nullptr && !is_block_type(product.w.dtype());
}

bool loads_run_of_x(const OfferContext& at, const WeightedProduct& product, int64_t elements) {
  if (product.x.dtype() == DType::f64 || product.k % elements != 0) return false;
  return at.alignment(product.x) >=
         std::min<int64_t>(16, elements * element_bytes(product.x.dtype()));
}

namespace {

constexpr std::array<SideScheme, 8> kSchemes = {{
    {"int8_block", WeightCodes::I8, false, false, true, 0},
    {"int8_block_asym", WeightCodes::I8, false, true, true, 0},
    {"int4_block", WeightCodes::I4, false, false, true, 0},
    {"int4_block_asym", WeightCodes::U4, false, true, true, 0},
    {"fp8_e4m3", WeightCodes::E4M3, false, false, false, 0},
    {"fp8_e5m2", WeightCodes::E5M2, false, false, false, 0},
    {"nvfp4_kn", WeightCodes::E2M1, false, false, false, 16},
    {"nvfp4_nk", WeightCodes::E2M1, true, false, false, 16},
}};

// Vectors that stay in a thread's registers beside the decoded weights.
constexpr int64_t kMostVectors = 8;
// Rows up to which an expert's matrix is read once for each of them.
constexpr int64_t kMostGroupedVectors = 16;
constexpr int64_t kRun = kDecodedRun;

uint64_t expert_bytes(const WeightedProduct& product) {
  if (product.experts == 0) return 0;
  return static_cast<uint64_t>(byte_size(product.w.type)) / static_cast<uint64_t>(product.experts);
}

// Bytes of eight neighbouring elements of w where one load may take them, else 0.
uint32_t run_bytes(const LowerContext& ctx, const WeightedProduct& product) {
  const DType dtype = product.w.dtype();
  if (is_block_type(dtype) || dtype == DType::f64) return 0;
  const int64_t line = product.along_depth ? product.k : product.n;
  uint32_t bytes = 8;
  if (is_dense_weight(product)) {
    bytes = 16;
  } else if (product.scheme->is_packed()) {
    bytes = 4;
  }
  return line % kRun == 0 && ctx.alignment(product.w) >= bytes ? bytes : 0;
}

// The matrices behind w, and where their lines begin.
void read_more_matrices(WeightedDispatch& dispatch, const WeightedProduct& product,
                        uint32_t alignment) {
  constexpr std::array kFields = {&WeightedMatmulParams::w2, &WeightedMatmulParams::w3};
  constexpr std::array kLines = {"RLX_W2_LINE", "RLX_W3_LINE"};
  Dim line = product.w.shape().front();
  for (size_t i = 0; i < product.more_w.size(); ++i) {
    dispatch.read(kFields.at(i), product.more_w[i], alignment);
    if (!product.gated) dispatch.define(kLines.at(i), line);
    line += product.more_w[i].shape().front();
  }
}

// True where a thread's write may take the place of the residual that it read.
bool may_replace_residual(const WeightedProduct& product) {
  const TensorRef& residual = *product.residual;
  const auto elsewhere = [&residual](const TensorRef& ref) {
    return ref.buffer != residual.buffer;
  };
  return residual.dense() && residual.dtype() == product.y.dtype() && elsewhere(product.x) &&
         elsewhere(product.w) && std::ranges::all_of(product.more_w, elsewhere) &&
         (!product.bias || elsewhere(*product.bias)) &&
         (!product.norm || !product.norm->gamma || elsewhere(*product.norm->gamma));
}

void define_epilogue(WeightedDispatch& dispatch, const WeightedProduct& product) {
  dispatch.define("RLX_ACTIVATION", product.activation.none() ? 0 : 1);
  define_activation(dispatch, product.activation, DType::f32);
  if (product.gated) dispatch.define("RLX_GATED", 1);
  if (product.bias) {
    dispatch.define("RLX_BIAS", std::string(name_of(product.bias->dtype())))
        .define("RLX_BIAS_M", 0)
        .define("RLX_BIAS_N", 1)
        .define("RLX_BIAS_VECTOR", 1)
        .read(&WeightedMatmulParams::bias, *product.bias);
  }
  if (!product.residual) return;
  dispatch.define("RLX_RESIDUAL", std::string(name_of(product.residual->dtype())))
      .define("RLX_RESIDUAL_M", product.columns())
      .define("RLX_RESIDUAL_N", 1)
      .define("RLX_RESIDUAL_VECTOR", 1)
      .read(&WeightedMatmulParams::residual, *product.residual);
  if (may_replace_residual(product)) dispatch.allow_in_place(*product.residual);
}

void define_weights(const LowerContext& ctx, WeightedDispatch& dispatch,
                    const WeightedProduct& product) {
  const uint32_t run = run_bytes(ctx, product);
  dispatch.define("RLX_W_ALONG_DEPTH", product.along_depth ? 1 : 0)
      .define("RLX_W_VECTOR", run != 0 ? kRun : 1);
  if (is_block_type(product.w.dtype())) {
    define_blocks(dispatch, product.w.dtype());
  } else if (product.scheme == nullptr) {
    dispatch.define("RLX_W_DENSE", std::string(name_of(product.w.dtype())));
  } else {
    const bool is_factor = product.zero && !product.scheme->has_zero;
    dispatch.define("RLX_W_CODES", static_cast<int64_t>(product.scheme->codes))
        .define("RLX_SCALE", static_cast<int64_t>(product.scale_kind))
        .define("RLX_SCALE_BLOCK", product.scale_block)
        .define("RLX_ZERO", product.scheme->has_zero ? 1 : 0)
        .define("RLX_GLOBAL", is_factor ? 1 : 0);
  }
  if (product.k == 0) return;  // nothing is read
  const bool blocks = is_block_type(product.w.dtype());
  const uint32_t alignment = blocks ? block_alignment(product.w.dtype()) : run;
  dispatch.read(&WeightedMatmulParams::w, product.w, alignment);
  read_more_matrices(dispatch, product, alignment);
  if (product.scale) dispatch.read(&WeightedMatmulParams::scale, *product.scale);
  if (product.zero) dispatch.read(&WeightedMatmulParams::zero, *product.zero);
}

Dim moved_bytes(const WeightedProduct& product) {
  Dim bytes = byte_size(product.x.type) + byte_size(product.w.type) + byte_size(product.y.type);
  for (const auto* side : {&product.scale, &product.zero, &product.bias, &product.residual}) {
    if (*side) bytes += byte_size((*side)->type);
  }
  for (const TensorRef& w : product.more_w) bytes += byte_size(w.type);
  return bytes;
}

Dim flops_of(const WeightedProduct& product) {
  return 2 * product.m * product.n * product.k;
}

}  // namespace

void define_product_sizes(const LowerContext& ctx, WeightedDispatch& dispatch,
                          const WeightedProduct& product, int64_t y_vector) {
  const bool wide = product.x.dtype() == DType::f64;
  dispatch.define("RLX_ACC", wide ? "f64" : "f32")
      .define("RLX_INDEX", "rlx_i64")
      .define("RLX_X", std::string(name_of(product.x.dtype())))
      .define("RLX_Y", std::string(name_of(product.y.dtype())))
      .define("RLX_Y_VECTOR", y_vector)
      .define("RLX_N", product.n)
      .define("RLX_K", product.k)
      .define("RLX_GROUPED", product.index ? 1 : 0)
      .write(&WeightedMatmulParams::y, product.y,
             y_vector > 1 ? narrow<uint32_t>(y_vector * element_bytes(product.y.dtype())) : 0)
      .work(moved_bytes(product), flops_of(product));
  define_weights(ctx, dispatch, product);
  define_epilogue(dispatch, product);
  if (product.index) {
    dispatch.define("RLX_I", std::string(name_of(product.index->dtype())))
        .generated("experts.inc",
                   "#define RLX_EXPERTS " + std::to_string(product.experts) + "\n" +
                       wide_define("RLX_EXPERT_BYTES", narrow<int64_t>(expert_bytes(product))))
        .read(&WeightedMatmulParams::index, *product.index)
        .count_index_errors();
  }
}

namespace {

// At the largest sizes.
WeightedSize size_of(const WeightedProduct& product) {
  const DType dtype = product.w.dtype();
  return {.m = product.index ? 1 : product.m.bound(),
          .n = product.n,
          .k = product.k,
          .batches = product.index ? product.m.bound() : 1,
          .bits = is_block_type(dtype) ? 8.0 * block_bytes(dtype) / block_elements(dtype) : 0,
          .along_depth = product.along_depth,
          .gated = product.gated};
}

// Types for which holding x in registers was measured to be faster. Where kernels are compiled to
// machine code (the target has tensor cores' kernels), RLX_MIN_GROUPS bounds their registers, less
// where they would spill: indices, a norm, an epilogue, and x of other types than f16. Other
// drivers take as many as they like, and more lines at a time make up for the fewer threads.
std::optional<HeldForm> held_form(const OfferContext& at, const WeightedProduct& product) {
  constexpr std::array kTypes = {DType::q4_1, DType::q2_k, DType::q3_k, DType::q4_k, DType::q5_k};
  const DType dtype = product.w.dtype();
  const bool known = std::find(kTypes.begin(), kTypes.end(), dtype) != kTypes.end();
  if (!known || product.x.dtype() == DType::f64) return {};
  if (at.target().offers(KernelId::dequant_mma)) {
    if (product.index || product.norm || product.x.dtype() != DType::f16)
      return HeldForm{.lines = 2, .threads = 256};
    const bool is_plain = !product.residual && !product.gated && product.activation.none();
    return HeldForm{.lines = 2, .threads = is_plain ? 512 : 384};
  }
  if (dtype == DType::q4_k) return HeldForm{.lines = 4, .threads = 256};
  return HeldForm{.lines = 2, .threads = 384};
}

double thread_bound(const OfferContext& at, const WeightedProduct& product) {
  return thread_bound_microseconds(at.device(),
                                   {.bytes = static_cast<uint64_t>(moved_bytes(product).bound()),
                                    .flops = static_cast<uint64_t>(flops_of(product).bound())});
}

// Multiply-adds for whose time a thread is busy with a weight and each vector behind the first:
// fitted to a step of 8 tokens of a Llama-1B-shaped model in Q4_K_M, H100, 2026-11-26.
constexpr double kVectorProducts = 6;

// Times its bound that a team takes on a CPU, whose lanes load and add up one by one: SmolLM2-135M
// in Q4_1 on lavapipe of Mesa 22.3, 2026-11-26.
constexpr double kTeamsOfCpu = 10;

double vectors_time(const OfferContext& at, const WeightedProduct& product) {
  const double bound = thread_bound(at, product) * (at.device().is_cpu() ? kTeamsOfCpu : 1);
  const int64_t rows = product.index ? 1 : product.m.bound();
  if (rows == 1 || !is_block_type(product.w.dtype())) return bound;
  const double weights = static_cast<double>(product.n) * static_cast<double>(product.k);
  const auto flops =
      static_cast<uint64_t>(2 * kVectorProducts * static_cast<double>(rows) * weights);
  return std::max(bound, thread_bound_microseconds(at.device(), {.bytes = 0, .flops = flops}));
}

constexpr const char* kRoundedRefusal = "weights that are rounded first";
constexpr const char* kRoundedRows = "rows that are rounded behind their norm";
constexpr const char* kNormRefusal = "rms_norm of x, which needs few vectors";

bool rounds_rows(const WeightedProduct& product) {
  return product.norm && product.norm->in_halves;
}

std::string teams_refusal(const OfferContext&, const WeightedProduct& product) {
  if (product.rounded) return kRoundedRefusal;
  if (rounds_rows(product)) return kRoundedRows;
  const int64_t most = product.index ? kMostGroupedVectors : kMostVectors;
  // Sums of every vector are an array of a thread's; rows of experts are groups of their own.
  if (product.m.is_free() && !product.index) return "a number of vectors that the run gives";
  return product.m > most ? "more than " + std::to_string(most) + " vectors" : "";
}

// rms_norm of x before the product.
void define_norm(const LowerContext& ctx, WeightedDispatch& dispatch, const NormPrologue& norm) {
  dispatch.define("RLX_NORM", 1)
      .define("RLX_EPS", literal(DType::f32, norm.eps))
      .define("RLX_GAMMA_OFFSET", literal(DType::f32, norm.gamma_offset));
  if (!norm.gamma) return;
  const uint32_t bytes = std::min<uint32_t>(16, kRun * element_bytes(norm.gamma->dtype()));
  const bool runs = ctx.alignment(*norm.gamma) >= bytes;
  dispatch.define("RLX_GAMMA", std::string(name_of(norm.gamma->dtype())))
      .define("RLX_GAMMA_VECTOR", runs ? kRun : 1)
      .read(&WeightedMatmulParams::gamma, *norm.gamma, runs ? bytes : 0);
}

// Whether no step of a run writes the matrices.
bool has_early_weights(const LowerContext& ctx, const WeightedProduct& product) {
  const auto is_weight = [&ctx](const TensorRef& w) {
    return ctx.segment_of(w) == Segment::Weights;
  };
  return is_weight(product.w) && std::ranges::all_of(product.more_w, is_weight);
}

bool emit_teams(LowerContext& ctx, const WeightedProduct& product) {
  WeightedSize size = size_of(product);
  size.held = held_form(ctx, product);
  const VectorTeams teams = choose_teams(size, ctx.target().device);
  const bool runs = loads_run_of_x(ctx, product, kRun);
  const Dim batches = product.index ? product.m : Dim(1);
  auto dispatch = ctx.dispatch<KernelId::dequant_matvec>();
  define_product_sizes(ctx, dispatch, product);
  dispatch.workgroup({narrow<uint32_t>(teams.lanes * teams.rows)})
      .define("RLX_VECTORS", size.m)
      .size("RLX_BATCHES", batches)
      .define("RLX_LANES", teams.lanes)
      .define("RLX_OUTPUT_BLOCKS", teams.blocks)
      .define("RLX_GROUP_OUTPUTS", teams.group_outputs)
      .define("RLX_X_VECTOR", runs ? kRun : 1)
      .grid(split_grid(teams.blocks * batches))
      .reason(
          "matvec: " + to_string(product.m) + " vectors, weights " +
          (product.along_depth ? "along k, " : "along the outputs, ") +
          std::to_string(teams.lanes) + " lanes" +
          (teams.held ? " that hold x, " + std::to_string(teams.group_outputs) + " lines" : "") +
          (product.norm ? ", rms_norm first" : "") + (product.gated ? ", gated pair" : ""));
  if (product.k > 0)
    dispatch.read(&WeightedMatmulParams::x, product.x, runs && product.along_depth ? 16 : 0);
  if (product.norm) define_norm(ctx, dispatch, *product.norm);
  if (product.along_depth) {
    const bool early = is_block_type(product.w.dtype()) && !product.index && product.k > 0 &&
                       has_early_weights(ctx, product);
    dispatch.define("RLX_BY_COLUMN", 0)
        .define("RLX_HELD", teams.held ? 1 : 0)
        .define("RLX_W_EARLY", early ? 1 : 0)
        .define("RLX_ROWS", teams.rows)
        .define("RLX_TEAM_OUTPUTS", teams.outputs);
    if (teams.held) dispatch.define("RLX_MIN_GROUPS", size.held->threads / teams.lanes);
  } else {
    dispatch.define("RLX_SLICES", teams.rows);
  }
  return true;
}

// ---- a CPU's lines ----

bool is_for_cpu(const DeviceModel& device) {
  return device.is_cpu();
}

std::string own_lines_refusal(const OfferContext&, const WeightedProduct& product) {
  if (product.rounded) return kRoundedRefusal;
  if (rounds_rows(product)) return kRoundedRows;
  if (!is_block_type(product.w.dtype())) return "weights that are no blocks";
  if (product.x.dtype() == DType::f64) return "sums of f64";
  return product.k == 0 ? "nothing to add" : "";
}

double own_lines_time(const OfferContext& at, const WeightedProduct& product) {
  const WeightedSize size = size_of(product);
  return own_lines_microseconds(choose_own_lines(size, at.device()), size, at.device());
}

bool emit_own_lines(LowerContext& ctx, const WeightedProduct& product) {
  const OwnLines own = choose_own_lines(size_of(product), ctx.target().device);
  const bool runs = loads_run_of_x(ctx, product, kRun);
  const Dim rows = product.index ? Dim(1) : product.m;
  const Dim batches = product.index ? product.m : ceil_div(product.m, own.vectors);
  auto dispatch = ctx.dispatch<KernelId::dequant_matvec>();
  define_product_sizes(ctx, dispatch, product);
  dispatch.workgroup({narrow<uint32_t>(OwnLines::kThreads)})
      .define("RLX_OWN_LINES", 1)
      .define("RLX_HELD", 0)
      .define("RLX_BY_COLUMN", 0)
      .define("RLX_VECTORS", own.vectors)
      .size("RLX_M", rows)
      .size("RLX_BATCHES", batches)
      .define("RLX_LANES", OwnLines::kTeam)
      .define("RLX_ROWS", OwnLines::kThreads / OwnLines::kTeam)
      .define("RLX_TEAM_OUTPUTS", own.lines)
      .define("RLX_OUTPUT_BLOCKS", own.blocks)
      .define("RLX_GROUP_OUTPUTS", own.group_lines())
      .define("RLX_X_VECTOR", runs ? kRun : 1)
      .grid(split_grid(own.blocks * batches))
      .reason("eight lanes: " + std::to_string(own.lines) + " lines each, " +
              std::to_string(own.vectors) + " of " + to_string(product.m) + " rows" +
              (product.norm ? ", rms_norm first" : "") + (product.gated ? ", gated pair" : ""))
      .read(&WeightedMatmulParams::x, product.x, runs ? 16 : 0);
  if (product.norm) define_norm(ctx, dispatch, *product.norm);
  return true;
}

// ---- many rows on tensor cores ----

// As size_of, but of the rows that share a matrix, at least one.
WeightedSize size_of_rows(const WeightedProduct& product) {
  WeightedSize size = size_of(product);
  if (!product.index) return size;
  size.m = std::max<int64_t>(1, rows_of_expert(product));
  size.batches = std::max<int64_t>(1, std::min(product.experts, product.m.bound()));
  return size;
}

std::string mma_refusal(const OfferContext& at, const WeightedProduct& product) {
  const DType x = product.x.dtype();
  const DType w = product.w.dtype();
  if (product.rounded) return kRoundedRefusal;
  // Beside the largest tile.
  constexpr int64_t kMostExpertsOfBlocks = 1024;
  if (auto refusal = too_many_experts(product, kMostExpertsOfBlocks)) return *refusal;
  if (!is_block_type(w)) return "weights that are no blocks";
  if (w == DType::mxfp4 || w == DType::nvfp4) return "codes that are no whole numbers";
  if (x != DType::f16 && x != DType::bf16) return "x of " + std::string(name_of(x));
  if (product.k == 0) return "nothing to add";
  if (product.norm) return kNormRefusal;
  if (!loads_run_of_x(at, product, kRun)) return "rows of x that are no aligned 16-byte pieces";
  return {};
}

double mma_time(const OfferContext& at, const WeightedProduct& product) {
  const WeightedSize size = size_of_rows(product);
  const WeightedMmaTile tile = choose_weighted_mma_tile(size, at.device());
  return at.device().step_microseconds + weighted_mma_microseconds(tile, size, at.device());
}

bool emit_mma(LowerContext& ctx, const WeightedProduct& product) {
  const WeightedMmaTile tile = choose_weighted_mma_tile(size_of_rows(product), ctx.target().device);
  const bool stores_vectors = !product.gated && product.n % 4 == 0 &&
                              ctx.alignment(product.y) >= 4 * element_bytes(product.y.dtype());
  const Dim tiles_m =
      product.index ? most_expert_tiles(product, tile.m) : ceil_div(product.m, tile.m);
  auto dispatch = ctx.dispatch<KernelId::dequant_mma>();
  define_product_sizes(ctx, dispatch, product, stores_vectors ? 4 : 1);
  if (product.index) dispatch.size("RLX_TILES_M", tiles_m);
  dispatch.workgroup({tile.threads()})
      .size("RLX_M", product.m)
      .define("RLX_TILE_N", tile.n)
      .define("RLX_TILE_M", tile.m)
      .define("RLX_WARPS_N", tile.warps_n)
      .define("RLX_WARPS_M", tile.warps_m)
      .define("RLX_MIN_GROUPS", tile.groups)
      .grid(split_grid(tiles_m * ceil_div(product.n, tile.n)))
      .reason("tensor cores: " + std::to_string(tile.n) + " lines of w x " +
              std::to_string(tile.m) + " rows of x, " + std::to_string(tile.threads() / 32) +
              " warps")
      .read(&WeightedMatmulParams::x, product.x, 16);
  return true;
}

// Instructions of a thread for a weight, counted in the text for q4_k, whatever the rows are.
constexpr double kStreamProducts = 2.4;
// Threads of a multiprocessor for whose registers there is room.
constexpr int64_t kStreamThreads = 512;

// What both streamed forms refuse.
std::string lines_refusal(const OfferContext& at, const WeightedProduct& product) {
  if (product.rounded) return kRoundedRefusal;
  if (product.index) return "rows of several experts";
  if (!is_block_type(product.w.dtype())) return "weights that are no blocks";
  if (product.k == 0) return "nothing to add";
  if (!loads_run_of_x(at, product, kRun)) return "rows of x that are no aligned 16-byte pieces";
  const auto is_aligned = [&at](const TensorRef& w) { return at.alignment(w) >= 16; };
  if (!is_aligned(product.w) || !std::ranges::all_of(product.more_w, is_aligned))
    return "a matrix that begins at no multiple of 16 bytes";
  return {};
}

// The same for up to eight rows.
std::string few_rows_refusal(const OfferContext& at, const WeightedProduct& product) {
  if (product.m.is_free() || product.m > kMostVectors)
    return "more than " + std::to_string(kMostVectors) + " vectors";
  return lines_refusal(at, product);
}

std::string stream_refusal(const OfferContext& at, const WeightedProduct& product) {
  if (product.x.dtype() != DType::f16) return "x of " + std::string(name_of(product.x.dtype()));
  if (product.norm) return kNormRefusal;
  return few_rows_refusal(at, product);
}

std::string row_refusal(const OfferContext& at, const WeightedProduct& product) {
  if (product.m.is_free() || product.m > 1) return "more than one vector";
  if (rounds_rows(product)) return kRoundedRows;
  return lines_refusal(at, product);
}

double stream_time(const OfferContext& at, const WeightedProduct& product) {
  const double weights = static_cast<double>(product.n) * static_cast<double>(product.k);
  return thread_bound_microseconds(at.device(),
                                   {.bytes = static_cast<uint64_t>(moved_bytes(product).bound()),
                                    .flops = static_cast<uint64_t>(2 * kStreamProducts * weights)});
}

// Bytes at the memory's speed.
double row_time(const OfferContext& at, const WeightedProduct& product) {
  return thread_bound_microseconds(
      at.device(), {.bytes = static_cast<uint64_t>(moved_bytes(product).bound()), .flops = 0});
}

// What both streamed forms are given.
void define_stream(LowerContext& ctx, WeightedDispatch& dispatch, const WeightedProduct& product,
                   uint32_t threads) {
  define_product_sizes(ctx, dispatch, product);
  dispatch.workgroup({threads})
      .define("RLX_STREAMED", 1)
      .define("RLX_M", product.m)
      .define("RLX_W_EARLY", has_early_weights(ctx, product) ? 1 : 0)
      .define("RLX_MIN_GROUPS", std::max<int64_t>(1, kStreamThreads / threads))
      .read(&WeightedMatmulParams::x, product.x, 16);
}

bool emit_stream(LowerContext& ctx, const WeightedProduct& product) {
  const BlockStream stream =
      choose_block_stream(size_of(product), product.w.dtype(), ctx.target().device);
  auto dispatch = ctx.dispatch<KernelId::dequant_mma>();
  define_stream(ctx, dispatch, product, stream.threads());
  dispatch.define("RLX_ONE_ROW", 0)
      .define("RLX_WARPS", stream.warps)
      .define("RLX_TILES", stream.tiles)
      .define("RLX_STAGES", stream.stages)
      .grid(split_grid(static_cast<uint64_t>(stream.blocks)))
      .reason("tensor cores: " + to_string(product.m) + " rows, w read once, " +
              std::to_string(stream.warps) + " warps share out k, " +
              std::to_string(stream.tiles * kStreamLines) + " lines");
  return true;
}

bool emit_row(LowerContext& ctx, const WeightedProduct& product) {
  const RowStream stream =
      choose_row_stream(size_of(product), product.w.dtype(), ctx.target().device);
  auto dispatch = ctx.dispatch<KernelId::dequant_mma>();
  define_stream(ctx, dispatch, product, stream.threads());
  dispatch.define("RLX_ONE_ROW", 1)
      .define("RLX_WARPS", stream.warps)
      .define("RLX_ROUND_TEAMS", stream.teams)
      .define("RLX_TILES", stream.tiles)
      .define("RLX_STAGES", stream.stages)
      .define("RLX_GROUPS", stream.groups)
      .grid(split_grid(static_cast<uint64_t>(stream.groups)))
      .reason("tensor cores: one row, w read once, " + std::to_string(stream.warps) +
              " warps share out k, " + std::to_string(stream.tiles * kStreamLines) + " lines" +
              (product.norm ? ", rms_norm first" : "") + (product.gated ? ", gated pair" : ""));
  if (product.norm) define_norm(ctx, dispatch, *product.norm);
  return true;
}

// ---- a few rows on cooperative matrices ----

std::string coop_refusal(const OfferContext& at, const WeightedProduct& product) {
  if (!at.target().known_fragments) return "elements of matrices that lie nobody knows where";
  if (product.norm && !product.norm->in_halves) return "rms_norm of x that is not rounded";
  if (!product.norm && product.x.dtype() != DType::f16)
    return "x of " + std::string(name_of(product.x.dtype()));
  return few_rows_refusal(at, product);
}

bool emit_coop(LowerContext& ctx, const WeightedProduct& product) {
  const CoopStream stream =
      choose_coop_stream(size_of(product), product.w.dtype(), ctx.target().device);
  auto dispatch = ctx.dispatch<KernelId::dequant_coop>();
  define_product_sizes(ctx, dispatch, product);
  dispatch.workgroup({narrow<uint32_t>(RLX_MATRIX_SUBGROUP * stream.warps())})
      .define("RLX_MATRIX", "f16")
      .define("RLX_M", product.m)
      .define("RLX_WARPS", stream.warps())
      .define("RLX_SHARES", stream.shares)
      .define("RLX_TEAMS", stream.teams)
      .define("RLX_TILES", stream.tiles)
      .define("RLX_GROUPS", stream.groups)
      .grid(split_grid(static_cast<uint64_t>(stream.groups)))
      .reason("cooperative matrices: " + to_string(product.m) + " rows, w read once, " +
              std::to_string(stream.shares) + " subgroups share out k, " +
              std::to_string(stream.teams * stream.tiles * kStreamLines) + " lines" +
              (product.norm ? ", rms_norm first" : "") + (product.gated ? ", gated pair" : ""))
      .read(&WeightedMatmulParams::x, product.x, 16);
  if (product.norm) define_norm(ctx, dispatch, *product.norm);
  return true;
}

// Tiles beside which the row lists of experts fit into 32 KiB of shared memory.
constexpr TileShape kFewRows = {16, 64, 32, 4, 4, 4, 2, 0};
constexpr TileShape kManyRows = {64, 64, 16, 8, 4, 1, 2, 0};
constexpr TileShape kDoubles = {32, 64, 16, 4, 4, 1, 2, 0};

TileShape grouped_tile(const WeightedProduct& product) {
  if (product.x.dtype() == DType::f64) return kDoubles;
  return rows_of_expert(product) <= 16 ? kFewRows : kManyRows;
}

TileShape plain_tile(const LowerContext& ctx, const WeightedProduct& product) {
  return choose_tile({.m = product.m.bound(), .n = product.n, .k = product.k},
                     {.allow_splits = false}, ctx.target().device)
      .tile;
}

template <KernelId kernel>
bool emit_tiles(LowerContext& ctx, const WeightedProduct& product, const TileShape& tile,
                const Dim& tiles_m) {
  const bool runs = loads_run_of_x(ctx, product, 4);
  auto dispatch = ctx.dispatch<kernel>();
  define_product_sizes(ctx, dispatch, product);
  define_tile(dispatch, tile);
  dispatch.size("RLX_M", product.m)
      .size("RLX_TILES_M", tiles_m)
      .define("RLX_X_VECTOR", runs ? 4 : 1)
      .grid(split_grid(tiles_m * ceil_div(product.n, tile.n)))
      .reason(std::to_string(tile.m) + "x" + std::to_string(tile.n) + "x" + std::to_string(tile.k) +
              " tile, weights decoded into shared memory");
  if (product.k > 0) {
    dispatch.read(&WeightedMatmulParams::x, product.x,
                  runs ? 4 * element_bytes(product.x.dtype()) : 0);
  }
  return true;
}

std::string plain_refusal(const OfferContext&, const WeightedProduct& product) {
  if (product.rounded) return kRoundedRefusal;
  if (product.norm) return kNormRefusal;
  return product.index ? "rows of several experts" : "";
}

bool emit_plain(LowerContext& ctx, const WeightedProduct& product) {
  const TileShape tile = plain_tile(ctx, product);
  return emit_tiles<KernelId::dequant_matmul>(ctx, product, tile, ceil_div(product.m, tile.m));
}

std::string grouped_refusal(const OfferContext&, const WeightedProduct& product) {
  if (!product.index) return "no experts";
  return too_many_experts(product).value_or("");
}

bool emit_grouped(LowerContext& ctx, const WeightedProduct& product) {
  const TileShape tile = grouped_tile(product);
  return emit_tiles<KernelId::grouped_matmul>(ctx, product, tile,
                                              most_expert_tiles(product, tile.m));
}

constexpr std::array kWeightedOffers = {
    Offer<WeightedProduct>{.kernel = KernelId::dequant_mma,
                           .form = "one row",
                           .rank = 0,
                           .estimate = Estimate::Bound,
                           .refusal = row_refusal,
                           .microseconds = row_time,
                           .emit = emit_row},
    Offer<WeightedProduct>{.kernel = KernelId::dequant_matvec,
                           .form = "lines",
                           .rank = 0,
                           .refusal = own_lines_refusal,
                           .microseconds = own_lines_time,
                           .emit = emit_own_lines,
                           .is_for = is_for_cpu,
                           .takes_free_sizes = true},
    // Tiles of few vectors would stay mostly empty.
    Offer<WeightedProduct>{.kernel = KernelId::dequant_matvec,
                           .rank = 0,
                           .estimate = Estimate::Bound,
                           .refusal = teams_refusal,
                           .microseconds = vectors_time,
                           .emit = emit_teams,
                           .takes_free_sizes = true},
    Offer<WeightedProduct>{.kernel = KernelId::dequant_mma,
                           .form = "streamed",
                           .rank = 0,
                           .estimate = Estimate::Bound,
                           .refusal = stream_refusal,
                           .microseconds = stream_time,
                           .emit = emit_stream},
    Offer<WeightedProduct>{.kernel = KernelId::dequant_coop,
                           .rank = 0,
                           .estimate = Estimate::Bound,
                           .refusal = coop_refusal,
                           .microseconds = stream_time,
                           .emit = emit_coop},
    // All that takes weights which are rounded first.
    Offer<WeightedProduct>{.kernel = KernelId::dequantize,
                           .form = "then a product",
                           .rank = 0,
                           .refusal = decoded_refusal,
                           .microseconds = decoded_time,
                           .emit = emit_decoded},
    // Several times faster than threads.
    Offer<WeightedProduct>{.kernel = KernelId::dequant_mma,
                           .rank = 1,
                           .refusal = mma_refusal,
                           .microseconds = mma_time,
                           .emit = emit_mma,
                           .takes_free_sizes = true},
    Offer<WeightedProduct>{.kernel = KernelId::dequant_mma,
                           .form = "experts",
                           .rank = 1,
                           .estimate = Estimate::Bound,
                           .refusal = expert_tiles_refusal,
                           .microseconds = row_time,
                           .emit = emit_expert_tiles,
                           .takes_free_sizes = true},
    Offer<WeightedProduct>{.kernel = KernelId::dequant_coop,
                           .form = "experts",
                           .rank = 1,
                           .estimate = Estimate::Bound,
                           .refusal = expert_coop_refusal,
                           .microseconds = row_time,
                           .emit = emit_expert_coop,
                           .takes_free_sizes = true},
    Offer<WeightedProduct>{.kernel = KernelId::dequant_matmul,
                           .rank = 2,
                           .estimate = Estimate::Bound,
                           .refusal = plain_refusal,
                           .microseconds = thread_bound,
                           .emit = emit_plain,
                           .takes_free_sizes = true},
    Offer<WeightedProduct>{.kernel = KernelId::grouped_matmul,
                           .rank = 2,
                           .estimate = Estimate::Bound,
                           .refusal = grouped_refusal,
                           .microseconds = thread_bound,
                           .emit = emit_grouped,
                           .takes_free_sizes = true},
};

}  // namespace

WeightedProduct product_of_types(const BlockProductTypes& types) {
  return {.m = types.m,
          .n = types.n,
          .k = types.k,
          .x = dense_ref({}, {types.x, {types.m, types.k}}),
          .w = dense_ref({}, {types.w, {types.n, types.k}}),
          .activation = {.op = types.activation},
          .gated = types.gated,
          .rounded = types.rounded,
          .y = dense_ref({}, {types.y, {types.m, types.gated ? types.n / 2 : types.n}})};
}

NormFusion norm_fusion(const OfferContext& at, WeightedProduct product, DType alone) {
  constexpr int64_t kFewBytes = int64_t{8} << 20;
  WeightedProduct plain = product;
  plain.x = dense_ref({}, {alone, product.x.shape()});
  product.norm = NormPrologue{};
  const auto exact = choose(weighted_offers(), at, product);
  product.norm->in_halves = true;
  const auto halves = choose(weighted_offers(), at, product);
  product.norm->in_halves = false;
  const auto other = choose(weighted_offers(), at, plain);
  // The norm, and the step that rounds its rows.
  const int steps = alone == product.x.dtype() ? 1 : 2;
  const double apart = other.microseconds + steps * at.device().step_microseconds;
  const bool is_faster = exact.row == nullptr || halves.microseconds < exact.microseconds;
  if (alone == DType::f16 && halves.row != nullptr && is_faster && halves.microseconds < apart)
    return NormFusion::InHalves;
  if (exact.row == nullptr) return NormFusion::None;
  const bool on_matrix_units =
      other.row != nullptr &&
      (other.row->kernel == KernelId::dequant_mma || other.row->kernel == KernelId::dequant_coop);
  if (on_matrix_units && apart < exact.microseconds) return NormFusion::None;
  // The threads that load a line's blocks wait for them longer than for x.
  if (exact.row->kernel == KernelId::dequant_mma) return NormFusion::Exact;
  WeightedSize size = size_of(product);
  size.held = held_form(at, product);
  const bool reads_once = choose_teams(size, at.device()).held;
  return reads_once || byte_size(product.w.type) <= kFewBytes ? NormFusion::Exact
                                                              : NormFusion::None;
}

bool has_free_sizes(const WeightedProduct& product) {
  return product.m.is_free();
}

const SideScheme* find_side_scheme(std::string_view name) {
  const auto found = std::find_if(kSchemes.begin(), kSchemes.end(),
                                  [name](const SideScheme& row) { return row.name == name; });
  return found == kSchemes.end() ? nullptr : &*found;
}

std::span<const Offer<WeightedProduct>> weighted_offers() {
  return kWeightedOffers;
}

bool lower_weighted_product(LowerContext& ctx, const WeightedProduct& product) {
  if (product.m == 0 || product.n == 0) return true;
  const bool grouped = product.index.has_value();
  const int64_t rows = product.m.range().most;
  const int64_t work = grouped ? rows + product.experts : rows;
  if (std::max({work, product.n, product.k}) > kCountLimit ||
      ceil_div(work, 16) * ceil_div(product.n, 16) > kCountLimit) {
    return ctx.fail(DiagCode::UnsupportedOp,
                    "a product of m=" + to_string(product.m) + " n=" + std::to_string(product.n) +
                        " k=" + std::to_string(product.k) + " exceeds the kernels' 32-bit counts");
  }
  return lower_by_offers(ctx, weighted_offers(), product);
}

}  // namespace rlx
