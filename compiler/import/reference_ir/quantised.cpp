// SPDX-License-Identifier: Apache-2.0
// Quantisation of the reference IR: codes, pretended quantisation and its gradients, packed
// weights.
#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/import/names.h"
#include "compiler/import/reference_ir/alias.h"

namespace rlx::reference_ir {
namespace quantised {
namespace {

using Results = std::vector<ValueId>;

struct Word {
  std::string_view reference;
  std::string_view rlx;
};

Results quantize(AliasNode& n) {
  Attributes attributes = n.same({"axis", "scales", "zero_points"});
  attributes.emplace("to", std::string("i8"));
  return {n.emit("quantize", {n.input(0)}, std::move(attributes))};
}

Results dequantize(AliasNode& n) {
  return {n.emit("dequantize", {n.input(0)}, n.same({"axis", "scales", "zero_points"}))};
}

constexpr std::array kSteWords = {Word{"Identity", "identity"},
                                  Word{"ClippedIdentity", "clipped_identity"}, Word{"Tanh", "tanh"},
                                  Word{"HardTanh", "hard_tanh"}};
constexpr std::array kScaleWords = {Word{"PerBatch", "per_batch"}, Word{"EMA", "ema"},
                                    Word{"Fixed", "fixed"}};
constexpr std::array<std::string_view, 4> kSteKinds = {"Identity", "ClippedIdentity", "Tanh",
                                                       "HardTanh"};
constexpr std::array<std::string_view, 3> kScaleModes = {"PerBatch", "EMA", "Fixed"};

std::string word_of(std::span<const Word> words, const std::string& kind) {
  return std::string(std::ranges::find(words, kind, &Word::reference)->rlx);
}

Results fake_quantize(AliasNode& n) {
  Attributes attributes = n.same({"bits", "axis", "decay"});
  const std::string mode = word_of(kScaleWords, n.attrs().text("scale_mode"));
  attributes.emplace("scale_mode", mode);
  attributes.emplace("ste", word_of(kSteWords, n.attrs().text("ste")));
  if (mode == "per_batch") return {n.emit("fake_quantize", {n.input(0)}, std::move(attributes))};
  return n.emit_all("fake_quantize", {n.input(0), n.input(1)}, std::move(attributes),
                    mode == "ema" ? 2 : 1);
}

Results fake_quantize_lsq(AliasNode& n) {
  return {n.emit("fake_quantize_lsq", {n.input(0), n.input(1)}, n.same({"bits", "axis"}))};
}

double largest_code(AliasNode& n) {
  return std::exp2(n.attrs().integer("bits") - 1) - 1;
}

// All axes but the channels'.
Ints other_axes(AliasNode& n) {
  Ints axes;
  const bool has_channels = n.attrs().has("axis");
  const size_t channels = has_channels ? n.axis(0) : 0;
  for (size_t i = 0; i < n.rank(0); ++i) {
    if (!has_channels || i != channels) axes.emplace_back(static_cast<int64_t>(i));
  }
  return axes;
}

// A vector of channels, or one number, against the axes of input 0.
ValueId along_channels(AliasNode& n, ValueId scale) {
  Shape shape(n.rank(0), 1);
  if (n.attrs().has("axis")) shape[n.axis(0)] = n.shape(0)[n.axis(0)];
  return n.reshape(scale, shape);
}

ValueId kept_where(AliasNode& n, ValueId condition, ValueId x) {
  return n.emit("where", {condition, x, n.scalar(x, 0)});
}

// The gradient that a straight-through estimator lets pass (ops.md 16.8); the scale is that of the
// batch, which is all that the node tells.
Results fake_quantize_backward(AliasNode& n) {
  const ValueId x = n.input(0);
  const ValueId dy = n.input(1);
  const std::string ste = n.attrs().text("ste");
  const double most = largest_code(n);
  const Ints axes = other_axes(n);
  // Of its own batch nothing lies beyond the largest code.
  if (ste == "Identity" || ste == "ClippedIdentity") return {dy};
  ValueId scale = n.emit("reduce_max", {n.emit("abs", {x})}, {{"axes", axes}, {"keep_dims", true}});
  scale = n.emit("affine", {scale}, {{"mul", 1 / most}});
  scale = n.emit("clamp", {scale}, {{"min", 1e-12}});
  const ValueId z = n.emit("div", {x, scale});
  if (ste == "Tanh") {
    const ValueId slope =
        n.emit("affine", {n.emit("square", {n.emit("tanh", {z})})}, {{"mul", -1.0}, {"add", 1.0}});
    return {n.emit("mul", {dy, slope})};
  }
  const ValueId size = n.emit("abs", {z});
  const ValueId slope =
      n.emit("relu", {n.emit("affine", {size}, {{"mul", -1 / most}, {"add", 1.0}})});
  return {n.emit("mul", {dy, slope})};
}

struct Learned {
  ValueId ratio;   // x / scale
  ValueId inside;  // whether a code reaches it
};

Learned learned(AliasNode& n) {
  const ValueId scale = n.emit("clamp", {along_channels(n, n.input(1))}, {{"min", 1e-12}});
  const ValueId ratio = n.emit("div", {n.input(0), scale});
  const ValueId size = n.emit("abs", {ratio});
  return {ratio, n.emit("le", {size, n.scalar(size, largest_code(n))})};
}

Results lsq_backward_x(AliasNode& n) {
  return {kept_where(n, learned(n).inside, n.input(2))};
}

Results lsq_backward_scale(AliasNode& n) {
  const Learned at = learned(n);
  const ValueId rest = n.emit("sub", {n.emit("round", {at.ratio}), at.ratio});
  const ValueId edge = n.emit("affine", {n.emit("sign", {at.ratio})}, {{"mul", largest_code(n)}});
  const ValueId share = n.emit("mul", {n.input(2), n.emit("where", {at.inside, rest, edge})});
  const ValueId sum = n.emit("reduce_sum", {share}, {{"axes", other_axes(n)}, {"keep_dims", true}});
  return {n.reshape(sum, n.shape(1))};
}

// ---- packed weights ----

constexpr std::array kSideSchemes = {
    Word{"Int8Block", "int8_block"}, Word{"Int8BlockAsym", "int8_block_asym"},
    Word{"Int4Block", "int4_block"}, Word{"Fp8E4m3", "fp8_e4m3"},
    Word{"Fp8E5m2", "fp8_e5m2"},     Word{"Nvfp4Block", "nvfp4_kn"}};
constexpr std::array kBlockSchemes = {
    Word{"GgufQ4K", "q4_k"},  Word{"GgufQ5K", "q5_k"},  Word{"GgufQ6K", "q6_k"},
    Word{"GgufQ8K", "q8_k"},  Word{"GgufQ2K", "q2_k"},  Word{"GgufQ3K", "q3_k"},
    Word{"GgufQ4_0", "q4_0"}, Word{"GgufQ8_0", "q8_0"}, Word{"GgufQ4_1", "q4_1"},
    Word{"GgufQ5_0", "q5_0"}, Word{"GgufQ5_1", "q5_1"}};
constexpr std::array<std::string_view, 17> kSchemes = {
    "Int8Block", "Int8BlockAsym", "Int4Block", "Fp8E4m3",  "Fp8E5m2", "Nvfp4Block",
    "GgufQ4K",   "GgufQ5K",       "GgufQ6K",   "GgufQ8K",  "GgufQ2K", "GgufQ3K",
    "GgufQ4_0",  "GgufQ8_0",      "GgufQ4_1",  "GgufQ5_0", "GgufQ5_1"};

DType block_type(AliasNode& n) {
  const std::string scheme = n.attrs().text("scheme");
  const auto found = std::ranges::find(kBlockSchemes, scheme, &Word::reference);
  if (found == kBlockSchemes.end())
    n.refuse("scheme " + in_quotes(scheme) + " has no blocks",
             "experts in blocks have one of GGUF's schemes");
  return *dtype_from_name(found->rlx);
}

// Input i, bytes of blocks, as matrices of `columns` columns: of `leading` sizes and rows.
ValueId blocks_of(AliasNode& n, size_t i, const Shape& leading, int64_t columns) {
  const DType dtype = block_type(n);
  if (n.dtype(i) != DType::u8 && n.dtype(i) != DType::i8) {
    n.refuse("packed weights are " + to_string(n.type(n.input(i))) + ", wanted bytes");
  }
  const int64_t elements = block_elements(dtype);
  const int64_t bytes = element_count(n.shape(i));
  const int64_t rows = element_count(leading);
  if (columns == 0 || columns % elements != 0) {
    n.refuse("rows of " + std::to_string(columns) + " elements are no whole blocks of " +
             std::to_string(elements));
  }
  const int64_t slab = columns / elements * block_bytes(dtype) * rows;
  if (slab == 0 || bytes % slab != 0) {
    n.refuse(std::to_string(bytes) + " bytes of weights are no multiple of the " +
             std::to_string(slab) + " that " + std::to_string(rows) + " rows of " +
             std::to_string(columns) + " elements take");
  }
  Shape shape = {bytes / slab};
  shape.insert(shape.end(), leading.begin(), leading.end());
  shape.emplace_back(columns);
  return n.retyped_weight(n.input(i), {dtype, shape});
}

Results dequant_matmul(AliasNode& n) {
  const std::string scheme = n.attrs().text("scheme");
  const auto side = std::ranges::find(kSideSchemes, scheme, &Word::reference);
  if (n.rank(0) == 0) n.refuse("input 0 is a scalar");
  if (side == kSideSchemes.end()) {
    const ValueId w = blocks_of(n, 1, {}, n.shape(0).back());
    const std::string blocks(name_of(n.type(w).dtype));
    return {n.emit("dequant_matmul", {n.input(0), w}, {{"scheme", blocks}})};
  }
  Attributes attributes = n.same({"block_size"});
  static_cast<void>(n.attrs().has("block_size"));
  attributes.emplace("scheme", std::string(side->rlx));
  // The reference IR hands over a zero point that symmetric schemes do not have.
  const bool has_fourth = scheme == "Int8BlockAsym" || scheme == "Nvfp4Block";
  return {n.emit("dequant_matmul",
                 {n.input(0), n.input(1), n.optional(2), has_fourth ? n.optional(3) : std::nullopt},
                 std::move(attributes))};
}

// The number of experts follows from the bytes, what is over is an error.
Results dequant_grouped(AliasNode& n) {
  const Shape result = n.needed_shape();
  if (n.rank(0) == 0 || result.empty()) n.refuse("it wants rows");
  const ValueId w = blocks_of(n, 1, {result.back()}, n.shape(0).back());
  return {n.emit("dequant_grouped_matmul", {n.input(0), w, n.input(2)},
                 {{"scheme", std::string(name_of(n.type(w).dtype))}})};
}

Results dequant_experts(AliasNode& n) {
  const Shape result = n.needed_shape();
  if (result.size() != 3)
    n.refuse("its declared shape has no three sizes: experts, depth, columns");
  const ValueId w = blocks_of(n, 0, {result[2]}, result[1]);
  return {n.emit("dequantize_weights", {w}, {{"transpose", true}})};
}

Results qmatmul(AliasNode& n) {
  Attributes attributes = n.same({"x_zp", "w_zp", "out_zp", "mult"});
  return {n.emit("qmatmul", {n.input(0), n.input(1), n.optional(2)}, std::move(attributes))};
}

constexpr AttrSpec kBits{
    .name = "bits", .type = AttrType::Int, .required = true, .minimum = 2, .maximum = 8};
constexpr AttrSpec kAxis{.name = "axis", .type = AttrType::Int};
constexpr AttrSpec kSte{
    .name = "ste", .type = AttrType::String, .default_text = "\"Identity\"", .choices = kSteKinds};
constexpr std::array kCodes = {
    AttrSpec{.name = "axis", .type = AttrType::Int, .consumed_by_infer = true},
    AttrSpec{
        .name = "scales", .type = AttrType::FloatList, .required = true, .consumed_by_infer = true},
    AttrSpec{.name = "zero_points",
             .type = AttrType::IntList,
             .required = true,
             .consumed_by_infer = true}};
constexpr std::array kFake = {
    AttrSpec{.name = "bits",
             .type = AttrType::Int,
             .required = true,
             .minimum = 2,
             .maximum = 8,
             .consumed_by_infer = true},
    AttrSpec{.name = "axis", .type = AttrType::Int, .consumed_by_infer = true}, kSte,
    AttrSpec{.name = "scale_mode",
             .type = AttrType::String,
             .default_text = "\"PerBatch\"",
             .choices = kScaleModes},
    AttrSpec{.name = "decay", .type = AttrType::Float, .consumed_by_infer = true}};
constexpr std::array kLsq = {
    AttrSpec{.name = "bits",
             .type = AttrType::Int,
             .required = true,
             .minimum = 2,
             .maximum = 8,
             .consumed_by_infer = true},
    AttrSpec{.name = "axis", .type = AttrType::Int, .consumed_by_infer = true}};
constexpr std::array kBackward = {kBits, kAxis, kSte};
constexpr std::array kLsqBackward = {kBits, kAxis};
constexpr AttrSpec kScheme{
    .name = "scheme", .type = AttrType::String, .required = true, .choices = kSchemes};
constexpr std::array kPacked = {
    kScheme, AttrSpec{.name = "block_size", .type = AttrType::Int, .minimum = 1}};
constexpr std::array kExperts = {kScheme};
constexpr std::array kInteger = {
    AttrSpec{.name = "x_zp", .type = AttrType::Int, .consumed_by_infer = true},
    AttrSpec{.name = "w_zp", .type = AttrType::IntList, .consumed_by_infer = true},
    AttrSpec{.name = "out_zp", .type = AttrType::Int, .consumed_by_infer = true},
    AttrSpec{
        .name = "mult", .type = AttrType::FloatList, .required = true, .consumed_by_infer = true}};

constexpr std::array kAliases = {
    Alias{"Quantize", kNone, "`quantize` to i8", {1, 1}, kCodes, quantize},
    Alias{"Dequantize", kNone, "`dequantize`", {1, 1}, kCodes, dequantize},
    Alias{"FakeQuantize",
          kNone,
          "`fake_quantize`; the next scale of `EMA` is its second output",
          {1, 2},
          kFake,
          fake_quantize,
          2},
    Alias{"FakeQuantizeLSQ", kNone, "`fake_quantize_lsq`", {2, 2}, kLsq, fake_quantize_lsq},
    Alias{
        "FakeQuantizeBackward", kNone, "a composition", {2, 2}, kBackward, fake_quantize_backward},
    Alias{"FakeQuantizeLSQBackwardX", kNone, "a composition", {3, 3}, kLsqBackward, lsq_backward_x},
    Alias{"FakeQuantizeLSQBackwardScale",
          kNone,
          "a composition",
          {3, 3},
          kLsqBackward,
          lsq_backward_scale},
    Alias{"QMatMul", kNone, "`qmatmul`", {2, 3}, kInteger, qmatmul},
    Alias{"DequantMatMul",
          kAll,
          "`dequant_matmul`: x, codes, scales, zero points; or x and GGUF's bytes",
          {2, 4},
          kPacked,
          dequant_matmul},
    Alias{"DequantGroupedMatMul",
          kAll,
          "`dequant_grouped_matmul` of GGUF's bytes",
          {3, 3},
          kExperts,
          dequant_grouped},
    Alias{"DequantMoEWeights",
          kAll,
          "`dequantize_weights`, transposed",
          {1, 1},
          kExperts,
          dequant_experts},
};

}  // namespace
}  // namespace quantised

std::span<const Alias> quantised_aliases() {
  return quantised::kAliases;
}

}  // namespace rlx::reference_ir
