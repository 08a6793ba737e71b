// SPDX-License-Identifier: Apache-2.0
// Movement and indexing of the reference IR. Its indices are whole numbers in f32, which rlx takes.
#include <algorithm>
#include <array>
#include <limits>

#include "compiler/import/names.h"
#include "compiler/import/reference_ir/alias.h"

namespace rlx::reference_ir {
namespace movement {
namespace {

using Results = std::vector<ValueId>;

Results reshape(AliasNode& n) {
  return {n.emit("reshape", {n.input(0)}, {{"shape", n.attrs().integers("new_shape")}})};
}
Results transpose(AliasNode& n) {
  return {n.emit("transpose", {n.input(0)}, n.same({"perm"}))};
}
Results narrow(AliasNode& n) {
  return {n.emit("narrow", {n.input(0)}, n.same({"axis", "start", "len"}))};
}

Results slice(AliasNode& n) {
  const int64_t start = n.attrs().integer("start");
  const int64_t step = n.attrs().integer("step");
  const int64_t length = n.attrs().integer("len");
  const auto axis = static_cast<int64_t>(n.axis(0));
  const int64_t size = n.shape(0)[static_cast<size_t>(axis)];
  const int64_t last = start + (length - 1) * step;
  if (step == 0 || (length > 0 && (start >= size || last < 0 || last >= size))) {
    n.refuse("elements " + std::to_string(start) + " to " + std::to_string(last) + " by " +
             std::to_string(step) + " lie outside an axis of " + std::to_string(size));
  }
  // A negative end would count from the end of the axis.
  int64_t end = start + length * step;
  if (end < 0) end = std::numeric_limits<int64_t>::min();
  return {n.emit(
      "slice", {n.input(0)},
      {{"axes", Ints{axis}}, {"starts", Ints{start}}, {"ends", Ints{end}}, {"steps", Ints{step}}})};
}

Results concat(AliasNode& n) {
  std::vector<std::optional<ValueId>> inputs;
  for (size_t i = 0; i < n.input_count(); ++i) inputs.emplace_back(n.input(i));
  return {n.emit("concat", std::move(inputs), n.same({"axis"}))};
}
Results expand(AliasNode& n) {
  return {n.emit("expand", {n.input(0)}, {{"shape", n.attrs().integers("target_shape")}})};
}
Results gather(AliasNode& n) {
  return {n.emit("gather", {n.input(0), n.input(1)}, n.same({"axis"}))};
}
Results reverse(AliasNode& n) {
  return {n.emit("reverse", {n.input(0)}, n.same({"axes"}))};
}

// Its pads are pairs, an axis after the other.
Results pad(AliasNode& n) {
  const Ints pairs = n.attrs().integers("pads");
  if (pairs.size() != 2 * n.rank(0)) {
    n.refuse("it has " + std::to_string(pairs.size()) +
             " pads, wanted before and after of each of " + std::to_string(n.rank(0)) + " axes");
  }
  Ints pads;
  for (size_t side = 0; side < 2; ++side) {
    for (size_t axis = 0; axis < n.rank(0); ++axis) pads.push_back(pairs[2 * axis + side]);
  }
  const std::string mode = n.attrs().text("mode");
  const std::string word = mode == "Constant"    ? "constant"
                           : mode == "Reflect"   ? "reflect"
                           : mode == "Replicate" ? "edge"
                                                 : "wrap";
  Attributes attributes = {{"pads", pads}, {"mode", word}};
  if (n.attrs().has("value")) {
    if (mode != "Constant") n.refuse("attribute \"value\" has no use in mode " + mode);
    attributes.emplace("value", n.attrs().real("value"));
  }
  return {n.emit("pad", {n.input(0)}, std::move(attributes))};
}

Results tile(AliasNode& n) {
  return {n.emit("tile", {n.input(0)}, {{"repeats", n.attrs().integers("reps")}})};
}
Results trilu(AliasNode& n) {
  return {n.emit("trilu", {n.input(0)},
                 {{"upper", n.attrs().flag("upper")}, {"k", n.attrs().integer("diagonal")}})};
}

// Rows are added to zeros, of which the declared shape says how many.
Results scatter_add(AliasNode& n) {
  const Shape result = n.needed_shape();
  if (result.empty()) n.refuse("its declared shape has no axis");
  return {
      n.emit("scatter_add", {n.input(0), n.input(1)}, {{"dim0", Ints{result[0]}.front().bound()}})};
}

std::string reduction(AliasNode& n) {
  std::string word = n.attrs().text("reduction");
  std::ranges::transform(word, word.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return word;
}

Results scatter_nd(AliasNode& n) {
  return {
      n.emit("scatter_nd", {n.input(0), n.input(1), n.input(2)}, {{"reduction", reduction(n)}})};
}
Results scatter_elements(AliasNode& n) {
  return {n.emit("scatter_elements", {n.input(0), n.input(1), n.input(2)},
                 {{"reduction", reduction(n)}, {"axis", n.attrs().integer("axis")}})};
}
Results gather_nd(AliasNode& n) {
  return {n.emit("gather_nd", {n.input(0), n.input(1)}, n.same({"batch_dims"}))};
}
Results gather_elements(AliasNode& n) {
  return {n.emit("gather_elements", {n.input(0), n.input(1)}, n.same({"axis"}))};
}

constexpr AttrSpec given(std::string_view name, AttrType type) {
  return {.name = name, .type = type, .required = true, .consumed_by_infer = true};
}
constexpr AttrSpec read(std::string_view name, AttrType type) {
  return {.name = name, .type = type, .required = true};
}
constexpr std::array kReshape = {read("new_shape", AttrType::IntList)};
constexpr std::array kTranspose = {given("perm", AttrType::IntList)};
constexpr std::array kNarrow = {given("axis", AttrType::Int), given("start", AttrType::Int),
                                given("len", AttrType::Int)};
constexpr std::array kSlice = {read("axis", AttrType::Int), read("start", AttrType::Int),
                               read("len", AttrType::Int), read("step", AttrType::Int)};
constexpr std::array kAxis = {given("axis", AttrType::Int)};
constexpr std::array kExpand = {read("target_shape", AttrType::IntList)};
constexpr std::array kReverse = {given("axes", AttrType::IntList)};
constexpr std::array<std::string_view, 4> kPadModes = {"Constant", "Reflect", "Replicate",
                                                       "Circular"};
constexpr std::array kPad = {read("pads", AttrType::IntList),
                             AttrSpec{.name = "mode",
                                      .type = AttrType::String,
                                      .default_text = "\"Constant\"",
                                      .choices = kPadModes},
                             AttrSpec{.name = "value", .type = AttrType::Float}};
constexpr std::array kTile = {read("reps", AttrType::IntList)};
constexpr std::array kTrilu = {
    read("upper", AttrType::Bool),
    AttrSpec{.name = "diagonal", .type = AttrType::Int, .default_text = "0"}};
constexpr std::array<std::string_view, 5> kReductions = {"None", "Add", "Mul", "Max", "Min"};
constexpr AttrSpec kReduction{.name = "reduction",
                              .type = AttrType::String,
                              .default_text = "\"None\"",
                              .choices = kReductions};
constexpr std::array kScatterNd = {kReduction};
constexpr std::array kScatterElements = {read("axis", AttrType::Int), kReduction};
constexpr std::array kGatherNd = {AttrSpec{
    .name = "batch_dims", .type = AttrType::Int, .default_text = "0", .consumed_by_infer = true}};

constexpr std::array kAliases = {
    Alias{"Reshape", kAll, "`reshape`", {1, 1}, kReshape, reshape},
    Alias{"Transpose", kAll, "`transpose`", {1, 1}, kTranspose, transpose},
    Alias{"Narrow", kAll, "`narrow`", {1, 1}, kNarrow, narrow},
    Alias{"Slice", kNone, "`slice`", {1, 1}, kSlice, slice},
    Alias{"Concat", kAll, "`concat`", {1, kUnlimited}, kAxis, concat},
    Alias{"Expand", kAll, "`expand`", {1, 1}, kExpand, expand},
    Alias{"Gather", kAll, "`gather`", {2, 2}, kAxis, gather},
    Alias{"Reverse", kVulkan, "`reverse`", {1, 1}, kReverse, reverse},
    Alias{
        "Pad", kNone, "`pad`, `pads` before and after an axis after the other", {1, 1}, kPad, pad},
    Alias{"Tile", kNone, "`tile`", {1, 1}, kTile, tile},
    Alias{"Trilu", kNone, "`trilu`", {1, 1}, kTrilu, trilu},
    Alias{"ScatterAdd",
          kAll,
          "`scatter_add` to zeros of the declared shape",
          {2, 2},
          {},
          scatter_add},
    Alias{"ScatterNd", kNone, "`scatter_nd`", {3, 3}, kScatterNd, scatter_nd},
    Alias{
        "ScatterElements", kNone, "`scatter_elements`", {3, 3}, kScatterElements, scatter_elements},
    Alias{"GatherNd", kNone, "`gather_nd`", {2, 2}, kGatherNd, gather_nd},
    Alias{"GatherElements", kNone, "`gather_elements`", {2, 2}, kAxis, gather_elements},
};

}  // namespace
}  // namespace movement

std::span<const Alias> movement_aliases() {
  return movement::kAliases;
}

}  // namespace rlx::reference_ir
