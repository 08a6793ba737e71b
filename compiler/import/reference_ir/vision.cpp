// SPDX-License-Identifier: Apache-2.0
// Convolutions, pools and resizes of the reference IR.
#include <algorithm>

#include "compiler/import/names.h"
#include "compiler/import/reference_ir/activations.h"
#include "compiler/import/reference_ir/windows.h"

namespace rlx::reference_ir {

Attributes window(AliasNode& n, WindowOptions options) {
  // Not every operator has all of them.
  const Attributes given = n.same({"kernel_size", "stride", "padding", "dilation", "groups"});
  Attributes attributes;
  for (const auto& [name, value] : given) {
    static_cast<void>(n.attrs().has(name));
    if (name == "kernel_size") {
      if (options.with_kernel) attributes.emplace("kernel", value);
    } else if (name == "padding") {
      Ints pads = n.attrs().integers("padding");
      const Ints begins = pads;
      pads.insert(pads.end(), begins.begin(), begins.end());
      attributes.emplace("pads", std::move(pads));
    } else {
      attributes.emplace(name, value);
    }
  }
  return attributes;
}

namespace vision {
namespace {

using Results = std::vector<ValueId>;

Results conv(AliasNode& n) {
  return {n.emit("conv", {n.input(0), n.input(1), n.optional(2)}, window(n))};
}

// What is added behind the convolution comes before the activation.
Results fused_conv(AliasNode& n) {
  const bool has_residual = n.attrs().flag("has_residual");
  if (n.has(3) != has_residual)
    n.refuse(std::string("has_residual is ") + (has_residual ? "true" : "false") +
             ", but input 3 is " + (n.has(3) ? "there" : "missing"));
  ValueId y = n.emit("conv", {n.input(0), n.input(1), n.optional(2)}, window(n));
  if (has_residual) y = n.emit("add", {y, n.input(3)});
  return {activate(n, y, n.attrs().text("activation"))};
}

int64_t at(const Attributes& attributes, const char* name, size_t i, int64_t absent) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return absent;
  const Ints& list = std::get<Ints>(found->second);
  return i < list.size() ? static_cast<int64_t>(list[i]) : absent;
}

// Output padding that the declared shape asks for: some versions of the reference IR drop theirs.
Ints padding_behind(AliasNode& n, const Attributes& attributes, const Shape& declared) {
  const size_t spatial = n.rank(0) - 2;
  if (declared.size() != n.rank(0))
    n.refuse("its declared shape has rank " + std::to_string(declared.size()) + ", wanted " +
             std::to_string(n.rank(0)));
  Ints padding;
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t stride = at(attributes, "stride", i, 1);
    const int64_t dilation = at(attributes, "dilation", i, 1);
    const int64_t kernel = n.shape(1)[i + 2];
    const int64_t reached = (static_cast<int64_t>(n.shape(0)[i + 2]) - 1) * stride -
                            2 * at(attributes, "pads", i, 0) + dilation * (kernel - 1) + 1;
    const int64_t behind = static_cast<int64_t>(declared[i + 2]) - reached;
    if (behind < 0 || behind >= std::max(stride, dilation)) {
      n.refuse("its declared size " + std::to_string(static_cast<int64_t>(declared[i + 2])) +
               " of axis " + std::to_string(i + 2) + " is not within " + std::to_string(reached) +
               " to " + std::to_string(reached + std::max(stride, dilation) - 1) +
               ", which its attributes give");
    }
    padding.emplace_back(behind);
  }
  return padding;
}

Results conv_transpose(AliasNode& n) {
  if (n.rank(0) < 3 || n.rank(1) != n.rank(0))
    n.refuse("input 0 is " + to_string(n.type(n.input(0))) + " and the weights " +
             to_string(n.type(n.input(1))) + ", wanted images and weights of one rank");
  Attributes attributes = window(n);
  const std::optional<Shape> declared = n.declared_shape();
  if (n.attrs().has("output_padding"))
    attributes.emplace("output_padding", n.attrs().integers("output_padding"));
  if (declared)
    attributes.insert_or_assign("output_padding", padding_behind(n, attributes, *declared));
  return {n.emit("conv_transpose", {n.input(0), n.input(1), n.optional(2)}, std::move(attributes))};
}

Results pool(AliasNode& n) {
  std::string kind = n.attrs().text("kind");
  std::ranges::transform(kind, kind.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  Attributes attributes = window(n);
  attributes.emplace("kind", kind);
  return {n.emit_all("pool", {n.input(0)}, std::move(attributes), 1).front()};
}

Results im2col(AliasNode& n) {
  return {n.emit("im2col", {n.input(0)}, window(n))};
}

Results resize_twice(AliasNode& n) {
  return {n.emit("resize_nearest_2x", {n.input(0)})};
}

Results interpolate(AliasNode& n) {
  return {n.emit("resize", {n.input(0)},
                 {{"sizes", n.attrs().integers("size")},
                  {"mode", std::string("nearest")},
                  {"coord", std::string("asymmetric")},
                  {"nearest_mode", std::string("floor")}})};
}

Results qconv(AliasNode& n) {
  Attributes attributes = window(n);
  for (auto& [name, value] : n.same({"x_zp", "w_zp", "out_zp", "mult"}))
    attributes.emplace(name, value);
  return {n.emit("qconv2d", {n.input(0), n.input(1), n.optional(2)}, std::move(attributes))};
}

constexpr AttrSpec kGroups{
    .name = "groups", .type = AttrType::Int, .default_text = "1", .minimum = 1};
constexpr std::array kTransposed = {window_list("kernel_size"),    window_list("stride"),
                                    window_list("padding"),        window_list("dilation"),
                                    window_list("output_padding"), kGroups};
constexpr std::array<std::string_view, 5> kPools = {"Max", "Mean", "Sum", "Min", "Prod"};
constexpr std::array kPool = {
    AttrSpec{.name = "kind", .type = AttrType::String, .required = true, .choices = kPools},
    window_list("kernel_size", true), window_list("stride"), window_list("padding")};
constexpr std::array kColumns = {window_list("kernel_size", true), window_list("stride"),
                                 window_list("padding"), window_list("dilation")};
constexpr std::array kSize = {
    AttrSpec{.name = "size", .type = AttrType::IntList, .required = true}};
constexpr std::array<std::string_view, 30> kActivations = [] {
  std::array<std::string_view, 30> words{};
  words[0] = "None";
  for (size_t i = 0; i < kActivationKinds.size(); ++i) words[i + 1] = kActivationKinds[i];
  return words;
}();
constexpr std::array kFused = {
    window_list("kernel_size"),
    window_list("stride"),
    window_list("padding"),
    window_list("dilation"),
    kGroups,
    AttrSpec{.name = "activation",
             .type = AttrType::String,
             .default_text = "\"None\"",
             .choices = kActivations},
    AttrSpec{.name = "has_residual", .type = AttrType::Bool, .default_text = "false"}};
constexpr std::array kQuantised = {
    window_list("kernel_size"),
    window_list("stride"),
    window_list("padding"),
    window_list("dilation"),
    kGroups,
    AttrSpec{.name = "x_zp", .type = AttrType::Int, .consumed_by_infer = true},
    AttrSpec{.name = "w_zp", .type = AttrType::IntList, .consumed_by_infer = true},
    AttrSpec{.name = "out_zp", .type = AttrType::Int, .consumed_by_infer = true},
    AttrSpec{
        .name = "mult", .type = AttrType::FloatList, .required = true, .consumed_by_infer = true}};

constexpr std::array kAliases = {
    Alias{"Conv", kAll, "`conv`", {2, 3}, kConvAttrs, conv},
    Alias{"Conv3d", kNone, "`conv`", {2, 3}, kConvAttrs, conv},
    Alias{"FusedConvBiasAct", kNone, "`conv`, `add`, the activation", {2, 4}, kFused, fused_conv},
    Alias{"ConvTranspose2d",
          kVulkan | kCuda,
          "`conv_transpose`; its output padding is what the declared shape asks for",
          {2, 3},
          kTransposed,
          conv_transpose},
    Alias{"ConvTranspose3d", kNone, "`conv_transpose`", {2, 3}, kTransposed, conv_transpose},
    Alias{"Pool", kAll, "`pool`; means are of the taps inside", {1, 1}, kPool, pool},
    Alias{"Im2Col", kAll, "`im2col`", {1, 1}, kColumns, im2col},
    Alias{"ResizeNearest2x", kAll, "`resize_nearest_2x`", {1, 1}, {}, resize_twice},
    Alias{"Interpolate3d", kNone, "`resize`, nearest", {1, 1}, kSize, interpolate},
    Alias{"QConv2d", kNone, "`qconv2d`", {2, 3}, kQuantised, qconv},
};

}  // namespace
}  // namespace vision

std::span<const Alias> vision_aliases() {
  return vision::kAliases;
}

}  // namespace rlx::reference_ir
