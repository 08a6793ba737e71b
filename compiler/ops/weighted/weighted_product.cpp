// SPDX-License-Identifier: Apache-2.0
// From a weighted product to a dispatch of dequant_matvec, dequant_matmul or grouped_matmul.
#include "compiler/ops/weighted/weighted_product.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>

#include "compiler/ops/lowering/block_weights.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/product/matmul_emit.h"
#include "compiler/ops/product/matmul_tiles.h"
#include "compiler/ops/weighted/weighted_tiles.h"
#include "compiler/support/checked.h"
#include "schema/rounding.h"

namespace rlx {
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
// Shared memory that a group's counters of experts may take.
constexpr int64_t kMostExperts = 2048;
constexpr int64_t kRun = 8;  // elements decoded together

bool is_dense_weight(const WeightedProduct& product) {
  return product.scheme == nullptr && !is_block_type(product.w.dtype());
}

uint64_t expert_bytes(const WeightedProduct& product) {
  if (product.experts == 0) return 0;
  return byte_size(product.w.type) / static_cast<uint64_t>(product.experts);
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

bool loads_run_of_x(const OfferContext& at, const WeightedProduct& product, int64_t elements) {
  if (product.x.dtype() == DType::f64 || product.k % elements != 0) return false;
  return at.alignment(product.x) >=
         std::min<int64_t>(16, elements * element_bytes(product.x.dtype()));
}

using WeightedDispatch = DispatchBuilder<WeightedMatmulParams>;

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
  dispatch.read(&WeightedMatmulParams::w, product.w,
                blocks ? block_alignment(product.w.dtype()) : run);
  if (product.scale) dispatch.read(&WeightedMatmulParams::scale, *product.scale);
  if (product.zero) dispatch.read(&WeightedMatmulParams::zero, *product.zero);
}

uint64_t moved_bytes(const WeightedProduct& product) {
  uint64_t bytes =
      byte_size(product.x.type) + byte_size(product.w.type) + byte_size(product.y.type);
  for (const auto* side : {&product.scale, &product.zero, &product.bias}) {
    if (*side) bytes += byte_size((*side)->type);
  }
  return bytes;
}

uint64_t flops_of(const WeightedProduct& product) {
  return 2 * static_cast<uint64_t>(product.m) * static_cast<uint64_t>(product.n) *
         static_cast<uint64_t>(product.k);
}

// Sizes, epilogue and everything but the tile or team.
void define_product_sizes(const LowerContext& ctx, WeightedDispatch& dispatch,
                          const WeightedProduct& product, int64_t y_vector = 1) {
  const bool wide = product.x.dtype() == DType::f64;
  dispatch.define("RLX_ACC", wide ? "f64" : "f32")
      .define("RLX_INDEX", "rlx_i64")
      .define("RLX_ACTIVATION", 0)
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
  if (product.bias) {
    dispatch.define("RLX_BIAS", std::string(name_of(product.bias->dtype())))
        .define("RLX_BIAS_M", 0)
        .define("RLX_BIAS_N", 1)
        .define("RLX_BIAS_VECTOR", 1)
        .read(&WeightedMatmulParams::bias, *product.bias);
  }
  if (product.index) {
    dispatch.define("RLX_I", std::string(name_of(product.index->dtype())))
        .generated("experts.inc",
                   "#define RLX_EXPERTS " + std::to_string(product.experts) + "\n" +
                       wide_define("RLX_EXPERT_BYTES", narrow<int64_t>(expert_bytes(product))))
        .read(&WeightedMatmulParams::index, *product.index)
        .count_index_errors();
  }
}

WeightedSize size_of(const WeightedProduct& product) {
  const DType dtype = product.w.dtype();
  return {.m = product.index ? 1 : product.m,
          .n = product.n,
          .k = product.k,
          .batches = product.index ? product.m : 1,
          .bits = is_block_type(dtype) ? 8.0 * block_bytes(dtype) / block_elements(dtype) : 0,
          .along_depth = product.along_depth};
}

// Types for which holding x in registers was measured to be faster. Where kernels are compiled to
// machine code (the target has tensor cores' kernels), RLX_MIN_GROUPS bounds their registers, less
// where they would spill: indices, and x of other types than f16. Other drivers take as many as
// they like, and more lines at a time make up for the fewer threads.
std::optional<HeldForm> held_form(const LowerContext& ctx, const WeightedProduct& product) {
  constexpr std::array kTypes = {DType::q4_1, DType::q2_k, DType::q3_k, DType::q4_k, DType::q5_k};
  const DType dtype = product.w.dtype();
  const bool known = std::find(kTypes.begin(), kTypes.end(), dtype) != kTypes.end();
  if (!known || product.x.dtype() == DType::f64) return {};
  if (ctx.target().offers(KernelId::dequant_mma)) {
    const bool fits = !product.index && product.x.dtype() == DType::f16;
    return HeldForm{.lines = 2, .threads = fits ? 512 : 256};
  }
  if (dtype == DType::q4_k) return HeldForm{.lines = 4, .threads = 256};
  return HeldForm{.lines = 2, .threads = 384};
}

double thread_bound(const OfferContext& at, const WeightedProduct& product) {
  return thread_bound_microseconds(at.device(),
                                   {.bytes = moved_bytes(product), .flops = flops_of(product)});
}

std::string teams_refusal(const OfferContext&, const WeightedProduct& product) {
  const int64_t most = product.index ? kMostGroupedVectors : kMostVectors;
  return product.m > most ? "more than " + std::to_string(most) + " vectors" : "";
}

bool emit_teams(LowerContext& ctx, const WeightedProduct& product) {
  WeightedSize size = size_of(product);
  size.held = held_form(ctx, product);
  const VectorTeams teams = choose_teams(size, ctx.target().device);
  const bool runs = loads_run_of_x(ctx, product, kRun);
  auto dispatch = ctx.dispatch<KernelId::dequant_matvec>();
  define_product_sizes(ctx, dispatch, product);
  dispatch.workgroup({narrow<uint32_t>(teams.lanes * teams.rows)})
      .define("RLX_VECTORS", size.m)
      .define("RLX_BATCHES", size.batches)
      .define("RLX_LANES", teams.lanes)
      .define("RLX_OUTPUT_BLOCKS", teams.blocks)
      .define("RLX_GROUP_OUTPUTS", teams.group_outputs)
      .define("RLX_X_VECTOR", runs ? kRun : 1)
      .grid(split_grid(static_cast<uint64_t>(teams.blocks * size.batches)))
      .reason(
          "matvec: " + std::to_string(product.m) + " vectors, weights " +
          (product.along_depth ? "along k, " : "along the outputs, ") +
          std::to_string(teams.lanes) + " lanes" +
          (teams.held ? " that hold x, " + std::to_string(teams.group_outputs) + " lines" : ""));
  if (product.k > 0)
    dispatch.read(&WeightedMatmulParams::x, product.x, runs && product.along_depth ? 16 : 0);
  if (product.along_depth) {
    dispatch.define("RLX_BY_COLUMN", 0)
        .define("RLX_HELD", teams.held ? 1 : 0)
        .define("RLX_ROWS", teams.rows)
        .define("RLX_TEAM_OUTPUTS", teams.outputs);
    if (teams.held) dispatch.define("RLX_MIN_GROUPS", size.held->threads / teams.lanes);
  } else {
    dispatch.define("RLX_SLICES", teams.rows);
  }
  return true;
}

std::string mma_refusal(const OfferContext& at, const WeightedProduct& product) {
  const DType x = product.x.dtype();
  const DType w = product.w.dtype();
  if (product.index) return "rows of several experts";
  if (!is_block_type(w)) return "weights that are no blocks";
  if (w == DType::mxfp4 || w == DType::nvfp4) return "codes that are no whole numbers";
  if (x != DType::f16 && x != DType::bf16) return "x of " + std::string(name_of(x));
  if (product.k == 0) return "nothing to add";
  if (!loads_run_of_x(at, product, kRun)) return "rows of x that are no aligned 16-byte pieces";
  return {};
}

double mma_time(const OfferContext& at, const WeightedProduct& product) {
  const WeightedSize size = size_of(product);
  const WeightedMmaTile tile = choose_weighted_mma_tile(size, at.device());
  return at.device().step_microseconds + weighted_mma_microseconds(tile, size, at.device());
}

bool emit_mma(LowerContext& ctx, const WeightedProduct& product) {
  const WeightedMmaTile tile = choose_weighted_mma_tile(size_of(product), ctx.target().device);
  const bool stores_vectors =
      product.n % 4 == 0 && ctx.alignment(product.y) >= 4 * element_bytes(product.y.dtype());
  auto dispatch = ctx.dispatch<KernelId::dequant_mma>();
  define_product_sizes(ctx, dispatch, product, stores_vectors ? 4 : 1);
  dispatch.workgroup({tile.threads()})
      .define("RLX_M", product.m)
      .define("RLX_TILE_N", tile.n)
      .define("RLX_TILE_M", tile.m)
      .define("RLX_WARPS_N", tile.warps_n)
      .define("RLX_WARPS_M", tile.warps_m)
      .define("RLX_MIN_GROUPS", tile.groups)
      .grid(split_grid(
          static_cast<uint64_t>(ceil_div(product.m, tile.m) * ceil_div(product.n, tile.n))))
      .reason("tensor cores: " + std::to_string(tile.n) + " lines of w x " +
              std::to_string(tile.m) + " rows of x, " + std::to_string(tile.threads() / 32) +
              " warps")
      .read(&WeightedMatmulParams::x, product.x, 16);
  return true;
}

// Tiles beside which the row lists of experts fit into 32 KiB of shared memory.
constexpr TileShape kFewRows = {16, 64, 32, 4, 4, 4, 2, 0};
constexpr TileShape kManyRows = {64, 64, 16, 8, 4, 1, 2, 0};
constexpr TileShape kDoubles = {32, 64, 16, 4, 4, 1, 2, 0};

TileShape grouped_tile(const WeightedProduct& product) {
  if (product.x.dtype() == DType::f64) return kDoubles;
  return product.m / std::max<int64_t>(product.experts, 1) <= 16 ? kFewRows : kManyRows;
}

TileShape plain_tile(const LowerContext& ctx, const WeightedProduct& product) {
  return choose_tile({.m = product.m, .n = product.n, .k = product.k}, {.allow_splits = false},
                     ctx.target().device)
      .tile;
}

template <KernelId kernel>
bool emit_tiles(LowerContext& ctx, const WeightedProduct& product, const TileShape& tile,
                int64_t tiles_m) {
  const bool runs = loads_run_of_x(ctx, product, 4);
  auto dispatch = ctx.dispatch<kernel>();
  define_product_sizes(ctx, dispatch, product);
  define_tile(dispatch, tile);
  dispatch.define("RLX_M", product.m)
      .define("RLX_TILES_M", tiles_m)
      .define("RLX_X_VECTOR", runs ? 4 : 1)
      .grid(split_grid(static_cast<uint64_t>(tiles_m * ceil_div(product.n, tile.n))))
      .reason(std::to_string(tile.m) + "x" + std::to_string(tile.n) + "x" + std::to_string(tile.k) +
              " tile, weights decoded into shared memory");
  if (product.k > 0) {
    dispatch.read(&WeightedMatmulParams::x, product.x,
                  runs ? 4 * element_bytes(product.x.dtype()) : 0);
  }
  return true;
}

std::string plain_refusal(const OfferContext&, const WeightedProduct& product) {
  return product.index ? "rows of several experts" : "";
}

bool emit_plain(LowerContext& ctx, const WeightedProduct& product) {
  const TileShape tile = plain_tile(ctx, product);
  return emit_tiles<KernelId::dequant_matmul>(ctx, product, tile, ceil_div(product.m, tile.m));
}

std::string grouped_refusal(const OfferContext&, const WeightedProduct& product) {
  if (!product.index) return "no experts";
  return product.experts > kMostExperts ? std::to_string(product.experts) + " experts, at most " +
                                              std::to_string(kMostExperts) + " have a kernel"
                                        : "";
}

bool emit_grouped(LowerContext& ctx, const WeightedProduct& product) {
  // Every expert, and the rows of none, may leave one tile partly filled.
  const TileShape tile = grouped_tile(product);
  const int64_t most = std::min(product.m, product.m / tile.m + product.experts + 1);
  return emit_tiles<KernelId::grouped_matmul>(ctx, product, tile, most);
}

constexpr std::array kWeightedOffers = {
    // Tiles of few vectors would stay mostly empty.
    Offer<WeightedProduct>{.kernel = KernelId::dequant_matvec,
                           .rank = 0,
                           .estimate = Estimate::Bound,
                           .refusal = teams_refusal,
                           .microseconds = thread_bound,
                           .emit = emit_teams},
    // Several times faster than threads.
    Offer<WeightedProduct>{.kernel = KernelId::dequant_mma,
                           .rank = 1,
                           .refusal = mma_refusal,
                           .microseconds = mma_time,
                           .emit = emit_mma},
    Offer<WeightedProduct>{.kernel = KernelId::dequant_matmul,
                           .rank = 2,
                           .estimate = Estimate::Bound,
                           .refusal = plain_refusal,
                           .microseconds = thread_bound,
                           .emit = emit_plain},
    Offer<WeightedProduct>{.kernel = KernelId::grouped_matmul,
                           .rank = 2,
                           .estimate = Estimate::Bound,
                           .refusal = grouped_refusal,
                           .microseconds = thread_bound,
                           .emit = emit_grouped},
};

}  // namespace

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
  const int64_t work = grouped ? product.m + product.experts : product.m;
  if (std::max({work, product.n, product.k}) > kCountLimit ||
      ceil_div(work, 16) * ceil_div(product.n, 16) > kCountLimit) {
    return ctx.fail(DiagCode::UnsupportedOp, "a product of m=" + std::to_string(product.m) +
                                                 " n=" + std::to_string(product.n) +
                                                 " k=" + std::to_string(product.k) +
                                                 " exceeds the kernels' 32-bit counts");
  }
  return lower_by_offers(ctx, weighted_offers(), product);
}

}  // namespace rlx
