// SPDX-License-Identifier: Apache-2.0
// Element types that others stand for.
#include "compiler/import/onnx/stand_ins.h"

#include <algorithm>
#include <array>
#include <string>

#include "compiler/import/onnx/refusal.h"
#include "compiler/ops/op_id.h"

namespace rlx::onnx_import {
namespace {

constexpr uint32_t kAll = ~uint32_t{0};

// Results whose elements are elements of inputs, or lie between them.
struct Move {
  OpId op;
  uint32_t operands = 1;    // bits: the inputs that they are of
  size_t results = 1;       // so many first ones
  bool is_ordered = false;  // by the size of numbers
};

constexpr size_t kEach = ~size_t{0};
constexpr std::array kMoves = {
    Move{OpId::identity},
    Move{OpId::reshape},
    Move{OpId::squeeze},
    Move{OpId::unsqueeze},
    Move{OpId::flatten},
    Move{OpId::transpose},
    Move{OpId::narrow},
    Move{OpId::slice},
    Move{OpId::reverse},
    Move{OpId::diagonal},
    Move{.op = OpId::split, .results = kEach},
    Move{.op = OpId::concat, .operands = kAll},
    Move{.op = OpId::stack, .operands = kAll},
    Move{OpId::expand},
    Move{OpId::tile},
    Move{OpId::repeat_interleave},
    Move{OpId::resize_nearest_2x},
    Move{OpId::depth_to_space},
    Move{OpId::space_to_depth},
    Move{OpId::pad},
    Move{OpId::roll},
    Move{OpId::reverse_sequence},
    Move{OpId::trilu},
    Move{OpId::gather},
    Move{OpId::gather_elements},
    Move{OpId::gather_nd},
    Move{.op = OpId::index_copy, .operands = 0b101},
    Move{.op = OpId::scatter_elements, .operands = 0b101},
    Move{.op = OpId::scatter_nd, .operands = 0b101},
    Move{.op = OpId::where, .operands = 0b110},
    Move{.op = OpId::clamp, .is_ordered = true},
    Move{.op = OpId::max, .operands = kAll, .is_ordered = true},
    Move{.op = OpId::min, .operands = kAll, .is_ordered = true},
    Move{.op = OpId::reduce_max, .is_ordered = true},
    Move{.op = OpId::reduce_min, .is_ordered = true},
    Move{.op = OpId::topk, .is_ordered = true},
    Move{.op = OpId::sort, .is_ordered = true},
    Move{.op = OpId::unique, .is_ordered = true},
    Move{OpId::compress},
    Move{OpId::masked_select},
    Move{.op = OpId::bitwise_and, .operands = kAll},
    Move{.op = OpId::bitwise_or, .operands = kAll},
    Move{.op = OpId::bitwise_xor, .operands = kAll},
    Move{.op = OpId::shift_right, .is_ordered = true},
};

// What gives the same bits of all bits, and what reads them.
constexpr std::array kBitMoves = {OpId::bitwise_not, OpId::shift_left};
constexpr std::array kBitReaders = {OpId::eq, OpId::ne, OpId::nonzero, OpId::shape_of,
                                    OpId::size_of};

// What reads elements as numbers, places or signs and gives something else.
constexpr std::array kReaders = {
    OpId::cast,       OpId::quantize, OpId::dequantize, OpId::eq,     OpId::ne,     OpId::lt,
    OpId::le,         OpId::gt,       OpId::ge,         OpId::argmax, OpId::argmin, OpId::argsort,
    OpId::sign,       OpId::nonzero,  OpId::one_hot,    OpId::is_nan, OpId::is_inf, OpId::shape_of,
    OpId::one_hot_at, OpId::size_of,  OpId::assert_,
};

std::string name_of_type(const StandIn* stand_in, const TensorType& type) {
  return std::string(stand_in != nullptr ? stand_in->name : name_of(type.dtype));
}

// Numbers that the importer adds, as zeros around a tensor.
bool is_known_within(Builder& builder, ValueId id, const StandIn& range) {
  const Tensor* known = builder.known(id);
  if (known == nullptr) return false;
  const auto is_within = [&range](auto x) {
    return static_cast<double>(x) >= range.least && static_cast<double>(x) <= range.most;
  };
  return std::ranges::all_of(known->integers, is_within) &&
         std::ranges::all_of(known->floats, is_within);
}

// Elements that meet in one place become a sum or a product.
bool adds_up(const Attributes& attributes) {
  const auto found = attributes.find("reduction");
  if (found == attributes.end()) return false;
  const std::string& reduction = std::get<std::string>(found->second);
  return reduction == "add" || reduction == "mul";
}

const StandIn* of_operands(Builder& builder, const Move& move, const Inputs& inputs) {
  const auto is_operand = [&](size_t i) {
    return inputs[i] && (move.operands & (1U << std::min<size_t>(i, 31))) != 0;
  };
  const StandIn* found = nullptr;
  for (size_t i = 0; i < inputs.size() && found == nullptr; ++i) {
    if (is_operand(i)) found = builder.stand_in(*inputs[i]);
  }
  if (found == nullptr) return nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_operand(i)) continue;
    const StandIn* const own = builder.stand_in(*inputs[i]);
    if (own == found || (own == nullptr && is_known_within(builder, *inputs[i], *found))) continue;
    throw Refusal{.message = "it joins tensors of " + std::string(found->name) + " and " +
                             name_of_type(own, builder.type(*inputs[i]))};
  }
  return found;
}

std::vector<const StandIn*> bits_of_results(Builder& builder, std::string_view op,
                                            const Inputs& inputs, const Attributes& attributes,
                                            const StandIn& read, size_t output_count) {
  std::vector<const StandIn*> results(output_count, nullptr);
  const auto is_op = [op](OpId row) { return op == row; };
  const auto move = std::ranges::find_if(kMoves, [op](const Move& row) { return op == row.op; });
  const bool is_move = move != kMoves.end() && !move->is_ordered && !adds_up(attributes);
  if (is_move || std::ranges::any_of(kBitMoves, is_op)) {
    const Move row = is_move ? *move : Move{.op = OpId::bitwise_not};
    // Otherwise what is moved is something else, and the bits are its places.
    if (const StandIn* const moved = of_operands(builder, row, inputs)) {
      std::fill_n(results.begin(), std::min(row.results, output_count), moved);
      return results;
    }
  }
  const auto to = attributes.find("to");
  const bool is_cast =
      op == OpId::cast && has_bits(*dtype_from_name(std::get<std::string>(to->second)));
  if (is_cast || std::ranges::any_of(kBitReaders, is_op)) return results;
  throw Refusal{
      .message = "it computes with " + std::string(read.name) + ", of which rlx has the bits alone",
      .hint = "cast to int64 before it, where no number is 2^63 or more"};
}

}  // namespace

std::vector<const StandIn*> stand_ins_of_results(Builder& builder, std::string_view op,
                                                 const Inputs& inputs, const Attributes& attributes,
                                                 size_t output_count) {
  std::vector<const StandIn*> results(output_count, nullptr);
  const StandIn* read = nullptr;
  for (const std::optional<ValueId>& input : inputs) {
    if (input && read == nullptr) read = builder.stand_in(*input);
  }
  if (read == nullptr) return results;
  if (read->is_bits) return bits_of_results(builder, op, inputs, attributes, *read, output_count);
  const auto move = std::ranges::find_if(kMoves, [op](const Move& row) { return op == row.op; });
  if (move != kMoves.end() && !adds_up(attributes)) {
    const StandIn* const moved = of_operands(builder, *move, inputs);
    std::fill_n(results.begin(), std::min(move->results, output_count), moved);
    return results;
  }
  if (std::ranges::any_of(kReaders, [op](OpId row) { return op == row; })) return results;
  throw Refusal{.message = "it computes with " + std::string(read->name) +
                           ", which rlx has in constants alone",
                .hint = "cast to a type that rlx has before it"};
}

const StandIn* common_stand_in(const Builder& builder, ValueId a, ValueId b) {
  const StandIn* const first = builder.stand_in(a);
  const StandIn* const second = builder.stand_in(b);
  if (first == second) return first;
  throw Refusal{.message = "a value is of " + name_of_type(first, builder.type(a)) + " and of " +
                           name_of_type(second, builder.type(b))};
}

void refuse_stand_in(const Builder& builder, ValueId id, const std::string& what) {
  if (const StandIn* stand_in = builder.stand_in(id))
    throw Refusal{.message = what + " has the element type " + std::string(stand_in->name) +
                             ", which rlx has in constants alone"};
}

}  // namespace rlx::onnx_import
