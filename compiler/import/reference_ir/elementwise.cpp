// SPDX-License-Identifier: Apache-2.0
// Elementwise operators of the reference IR, and regions of them.
#include <algorithm>
#include <array>

#include "compiler/import/names.h"
#include "compiler/import/reference_ir/activations.h"
#include "compiler/import/reference_ir/alias.h"
#include "compiler/import/reference_ir/words.h"

namespace rlx::reference_ir {
namespace elementwise {
namespace {

using Results = std::vector<ValueId>;

struct Word {
  std::string_view reference;
  std::string_view rlx;
};

constexpr std::array kBinary = {Word{"Add", "add"},
                                Word{"Sub", "sub"},
                                Word{"Mul", "mul"},
                                Word{"Div", "div"},
                                Word{"Max", "max"},
                                Word{"Min", "min"},
                                Word{"Pow", "pow"},
                                Word{"Mod", "fmod"},
                                Word{"BitAnd", "bitwise_and"},
                                Word{"BitOr", "bitwise_or"},
                                Word{"BitXor", "bitwise_xor"},
                                Word{"Shl", "shift_left"},
                                Word{"Shr", "shift_right"},
                                Word{"Atan2", "atan2"}};
constexpr std::array kCompare = {Word{"Eq", "eq"}, Word{"Ne", "ne"}, Word{"Lt", "lt"},
                                 Word{"Le", "le"}, Word{"Gt", "gt"}, Word{"Ge", "ge"}};

constexpr std::array<std::string_view, 14> kBinaryKinds = {
    "Add", "Sub",    "Mul",   "Div",    "Max", "Min", "Pow",
    "Mod", "BitAnd", "BitOr", "BitXor", "Shl", "Shr", "Atan2"};
constexpr std::array<std::string_view, 6> kCompareKinds = {"Eq", "Ne", "Lt", "Le", "Gt", "Ge"};

std::string_view word_of(std::span<const Word> words, std::string_view kind) {
  const auto found = std::ranges::find(words, kind, &Word::reference);
  return found == words.end() ? std::string_view() : found->rlx;
}

Results activation(AliasNode& n) {
  return {activate(n, n.input(0), n.attrs().text("kind"))};
}

// Integers kept in floats are bits of whole numbers.
Results bitwise(AliasNode& n, std::string_view op) {
  const DType given = n.dtype(0);
  const DType whole = is_float(given) ? DType::i32 : given;
  return {n.cast(n.emit(op, {n.cast(n.input(0), whole), n.cast(n.input(1), whole)}), given)};
}

Results binary(AliasNode& n) {
  const std::string_view op = word_of(kBinary, n.attrs().text("kind"));
  if (op.starts_with("bitwise") || op.starts_with("shift")) return bitwise(n, op);
  return {n.binary(op, n.input(0), n.input(1))};
}

Results compare(AliasNode& n) {
  return {n.binary(word_of(kCompare, n.attrs().text("kind")), n.input(0), n.input(1))};
}

Results where(AliasNode& n) {
  const ValueId b = n.cast(n.input(2), n.dtype(1));
  return {n.emit("where", {n.input(0), n.input(1), b})};
}

Results fma(AliasNode& n) {
  return {n.emit("fma", {n.input(0), n.input(1), n.input(2)})};
}

Results cast(AliasNode& n) {
  return {n.emit("cast", {n.input(0)}, n.same({"to"}))};
}

Results stop_gradient(AliasNode& n) {
  return {n.emit("stop_gradient", {n.input(0)})};
}

Results clamp(AliasNode& n) {
  return {n.emit("clamp", {n.input(0)}, n.same({"min", "max"}))};
}

void check_count(AliasNode& n, const char* name) {
  if (n.attrs().has(name) && n.attrs().integer(name) != static_cast<int64_t>(n.input_count())) {
    n.refuse("attribute " + in_quotes(name) + " is " + std::to_string(n.attrs().integer(name)) +
             ", but the node has " + std::to_string(n.input_count()) + " inputs");
  }
}

// Bits of inputs with one element, which broadcast by their shapes.
void check_scalars(AliasNode& n) {
  const int64_t mask = n.attrs().integer("scalar_input_mask");
  for (size_t i = 0; i < n.input_count() && i < 32; ++i) {
    if ((mask >> i & 1) != 0 && element_count(n.shape(i)) != 1)
      n.refuse("bit " + std::to_string(i) + " of scalar_input_mask is set, but input " +
               std::to_string(i) + " is " + to_string(n.type(n.input(i))));
  }
}

// The legacy moduli, of which those behind the last input are padding.
std::optional<Ints> moduli(AliasNode& n) {
  if (!n.attrs().has("input_modulus")) return std::nullopt;
  Ints given = n.attrs().integers("input_modulus");
  if (given.size() < n.input_count()) return given;  // which the operator refuses
  given.resize(n.input_count());
  for (size_t i = 0; i < given.size(); ++i) {
    if (element_count(n.shape(i)) == 1) given[i] = 0;  // it broadcasts by its shape
  }
  return given;
}

Results region(AliasNode& n) {
  check_count(n, "num_inputs");
  check_scalars(n);
  Attributes attributes = n.same({"chain"});
  if (std::optional<Ints> given = moduli(n)) attributes.emplace("input_modulus", std::move(*given));
  const int64_t source = n.attrs().integer("prologue_input");
  if (n.attrs().text("prologue") == "ResizeNearest2x") attributes.emplace("upsample_input", source);
  std::vector<std::optional<ValueId>> inputs;
  for (size_t i = 0; i < n.input_count(); ++i) inputs.emplace_back(n.input(i));
  return {n.emit("ew_region", std::move(inputs), std::move(attributes))};
}

// One chain over several tensors, whose results lie one after another.
Results batch_region(AliasNode& n) {
  check_count(n, "num_batch_inputs");
  check_scalars(n);
  static_cast<void>(moduli(n));  // of inputs as large as their results
  static_cast<void>(n.attrs().integer("prologue_input"));
  const bool grows = n.attrs().text("prologue") == "ResizeNearest2x";
  std::vector<std::optional<ValueId>> parts;
  for (size_t i = 0; i < n.input_count(); ++i) {
    ValueId x = n.input(i);
    if (grows) x = n.emit("resize_nearest_2x", {x});
    parts.emplace_back(n.emit("ew_region", {x}, n.same({"chain"})));
  }
  if (parts.size() == 1) return {*parts.front()};
  return {n.emit("concat", std::move(parts), {{"axis", int64_t{0}}})};
}

Results transform_region(AliasNode& n) {
  check_count(n, "num_inputs");
  const Attributes given = n.same({"steps"});
  ValueId x = n.input(0);
  for (const std::string& step : std::get<Strings>(given.at("steps"))) {
    if (step != "ResizeNearest2x") {
      n.refuse("step " + in_quotes(step) + " is not read", "ResizeNearest2x is");
    }
    x = n.emit("resize_nearest_2x", {x});
  }
  static_cast<void>(n.attrs().has("steps"));
  return {x};
}

constexpr std::array kActivation = {AttrSpec{
    .name = "kind", .type = AttrType::String, .required = true, .choices = kActivationKinds}};
constexpr std::array kBinaryAttrs = {
    AttrSpec{.name = "kind", .type = AttrType::String, .required = true, .choices = kBinaryKinds}};
constexpr std::array kCompareAttrs = {
    AttrSpec{.name = "kind", .type = AttrType::String, .required = true, .choices = kCompareKinds}};
constexpr std::array kCast = {AttrSpec{
    .name = "to", .type = AttrType::DTypeName, .required = true, .consumed_by_infer = true}};
constexpr std::array kClamp = {
    AttrSpec{.name = "min", .type = AttrType::Float, .required = true, .consumed_by_infer = true},
    AttrSpec{.name = "max", .type = AttrType::Float, .required = true, .consumed_by_infer = true}};
constexpr std::array<std::string_view, 2> kPrologues = {"None", "ResizeNearest2x"};
constexpr AttrSpec kChain{
    .name = "chain", .type = AttrType::StringList, .required = true, .consumed_by_infer = true};
constexpr AttrSpec kScalarMask{
    .name = "scalar_input_mask", .type = AttrType::Int, .default_text = "0", .minimum = 0};
constexpr AttrSpec kModulus{.name = "input_modulus", .type = AttrType::IntList, .minimum = 0};
constexpr AttrSpec kPrologue{.name = "prologue",
                             .type = AttrType::String,
                             .default_text = "\"None\"",
                             .choices = kPrologues};
constexpr AttrSpec kPrologueInput{
    .name = "prologue_input", .type = AttrType::Int, .default_text = "0", .minimum = 0};
constexpr std::array kRegion = {kChain,      AttrSpec{.name = "num_inputs", .type = AttrType::Int},
                                kScalarMask, kModulus,
                                kPrologue,   kPrologueInput};
constexpr std::array kBatchRegion = {
    kChain,      AttrSpec{.name = "num_batch_inputs", .type = AttrType::Int},
    kScalarMask, kModulus,
    kPrologue,   kPrologueInput};
constexpr std::array kTransform = {
    AttrSpec{.name = "steps", .type = AttrType::StringList, .required = true},
    AttrSpec{.name = "num_inputs", .type = AttrType::Int}};

constexpr std::array kAliases = {
    Alias{"Activation", kAll, "the unary operator of its `kind`", {1, 1}, kActivation, activation},
    Alias{"Binary",
          kAll,
          "the binary operator of its `kind`; `Mod` is `fmod`",
          {2, 2},
          kBinaryAttrs,
          binary},
    Alias{"Compare",
          kAll,
          "`eq` to `ge`; f32 where the node declares it",
          {2, 2},
          kCompareAttrs,
          compare},
    Alias{"Where", kAll, "`where`", {3, 3}, {}, where},
    Alias{"Fma", kVulkan, "`fma`", {3, 3}, {}, fma},
    Alias{"Cast", kAll, "`cast`", {1, 1}, kCast, cast},
    Alias{"StopGradient", kVulkan, "`stop_gradient`", {1, 1}, {}, stop_gradient},
    Alias{"Clamp", kAll, "`clamp`", {1, 1}, kClamp, clamp},
    Alias{"ElementwiseRegion",
          kAll,
          "`ew_region`, `chain` in its words",
          {1, kUnlimited},
          kRegion,
          region},
    Alias{"BatchElementwiseRegion",
          kWgpu | kCuda,
          "`ew_region` of each input, and `concat`",
          {1, kUnlimited},
          kBatchRegion,
          batch_region},
    Alias{"TransformRegion",
          kNone,
          "`resize_nearest_2x`, once a step",
          {1, 1},
          kTransform,
          transform_region},
};

}  // namespace
}  // namespace elementwise

std::string_view binary_op(std::string_view kind) {
  return elementwise::word_of(elementwise::kBinary, kind);
}
std::string_view compare_op(std::string_view kind) {
  return elementwise::word_of(elementwise::kCompare, kind);
}

std::span<const Alias> elementwise_aliases() {
  return elementwise::kAliases;
}

}  // namespace rlx::reference_ir
