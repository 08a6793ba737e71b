// SPDX-License-Identifier: Apache-2.0
// The free sizes of an entry as its caller has chosen them: values of the symbols, and the shapes
// of the inputs, which must agree with them when the entry runs. Allocates nothing once it is made.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/free_sizes.h"
#include "runtime/plan/plan_view.h"
#include "schema/plan_header.h"

namespace rlx {

// Dims of a tensor, outermost first.
struct TensorDims {
  std::array<uint64_t, kMaxRank> dims{};
  uint32_t rank = 0;

  [[nodiscard]] std::span<const uint64_t> span() const { return {dims.data(), rank}; }
};

class EntrySizes {
 public:
  // `records` are one entry's, for the ranges of its symbols; the first has every free symbol at
  // its maximum, which is where the symbols begin.
  EntrySizes(const fb::Plan& plan, std::span<const fb::Entry* const> records);

  [[nodiscard]] bool is_free() const { return is_free_; }
  // The record for the present values; null where none is made for them, which check_record()
  // tells.
  [[nodiscard]] const fb::Entry* record() const { return present_; }
  [[nodiscard]] Status check_record() const;
  // A value for each symbol of the plan.
  [[nodiscard]] std::span<const uint64_t> symbols() const { return symbols_; }
  // "seq = 77, batch = 1"
  [[nodiscard]] std::string text() const;

  // True if the symbol has another value now.
  Status set_symbol(std::string_view name, uint64_t value, bool& changed);
  Status get_symbol(std::string_view name, uint64_t& value) const;

  // Whether a tensor of these dims can be an input: fixed dims are the entry's, symbols in their
  // ranges, and the whole no larger than at the maximum. `input` counts the entry's inputs.
  [[nodiscard]] Status check_input(uint32_t input, std::span<const uint64_t> dims) const;
  // The input holds a tensor that passed; symbols that are dims of it have its values. True if one
  // has another value now.
  bool take_input(uint32_t input, std::span<const uint64_t> dims);
  // The input holds nothing, or what somebody else put there.
  void forget_input(uint32_t input) { inputs_[input].given.reset(); }

  // Whether the shapes of all inputs that were set are those at the present values. Values at which
  // the entry has no sizes are not kept.
  Status check_agreement();
  // The values of the last binding that was right; restore() makes them the present ones again.
  void keep() { kept_ = symbols_; }
  void restore() {
    symbols_ = kept_;
    take_symbols();
  }

  // Dims of an input or output at the present values; none larger than at the maximum. `ports` is
  // fb::Entry's list, `number` a place in it.
  using Ports = const flatbuffers::Vector<uint32_t>* (fb::Entry::*)() const;
  Status shape(Ports ports, uint32_t number, TensorDims& shape);

 private:
  struct Input {
    uint32_t value = 0;               // of the first record
    std::optional<TensorDims> given;  // what it was set with
  };
  // What gave a symbol its value last; none: its caller, or nobody.
  struct Source {
    uint32_t input = 0;
    uint32_t axis = 0;
  };

  Status find_symbol(std::string_view name, uint32_t& symbol) const;
  // Some record is made for this value of the symbol.
  [[nodiscard]] bool is_possible(uint32_t symbol, uint64_t value) const;
  // "1 to 16, 32 to 512"
  [[nodiscard]] std::string possible_text(uint32_t symbol) const;
  void take_symbols() { present_ = record_for(records_, symbols_); }
  Status evaluate();
  // Of a value of the present record.
  [[nodiscard]] uint64_t dim_at(uint32_t value, uint32_t axis) const;
  [[nodiscard]] uint32_t present_value(uint32_t input) const {
    return present_->inputs()->Get(input);
  }
  [[nodiscard]] std::string input_name(uint32_t input) const;
  [[nodiscard]] std::string entry_name() const;
  [[nodiscard]] Status disagreement(uint32_t input, uint32_t axis) const;

  const fb::Plan* plan_;
  std::span<const fb::Entry* const> records_;
  const fb::Entry* entry_;    // the first record
  const fb::Entry* present_;  // the one for the present values
  bool is_free_ = false;
  std::vector<uint64_t> symbols_;
  std::vector<uint64_t> kept_;
  std::vector<std::optional<Source>> sources_;  // by symbol
  std::vector<Input> inputs_;
  std::vector<uint64_t> sizes_;  // of evaluate()
};

}  // namespace rlx
