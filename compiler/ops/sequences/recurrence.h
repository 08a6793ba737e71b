// SPDX-License-Identifier: Apache-2.0
// One layer of lstm, gru or rnn (ops.md 10.1 to 10.3), whose input has been multiplied by its
// weights before: what the three operators become, and the definition that their evaluators share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rlx {

// `gru_reset_first`: the reset gate weighs h before its product.
enum class CellKind : uint8_t { Lstm, Gru, GruResetFirst, Tanh, Relu };

inline constexpr std::string_view kCellNames[] = {"lstm", "gru", "gru_reset_first", "tanh", "relu"};
inline constexpr std::string_view kDirections[] = {"forward", "reverse", "bidirectional"};
inline constexpr std::string_view kSequenceLayouts[] = {"bsi", "sbi"};

CellKind cell_kind(const AttributeReader& attrs);
// Blocks of hidden_size rows in the weights of a cell.
int64_t gates_of(CellKind kind);

// How the sequences of a node lie and run.
struct SequenceForm {
  int64_t directions = 1;
  bool begins_backward = false;  // its only direction runs backward
  bool time_first = false;

  [[nodiscard]] bool is_backward(int64_t direction) const {
    return begins_backward || direction == 1;
  }
  [[nodiscard]] size_t batch_axis() const { return time_first ? 1 : 0; }
  [[nodiscard]] size_t time_axis() const { return time_first ? 0 : 1; }
};
SequenceForm sequence_form(const AttributeReader& attrs);

// Whether input `input`, if it is there, has this shape and, unless it holds lengths, is a float.
bool check_sequence_input(InferContext& ctx, size_t input, std::string_view name,
                          const Shape& wanted);
bool check_lengths(InferContext& ctx, size_t input, const Dim& batch);

// What a layer computes, on the host. An empty vector stands for zeros, or for whole sequences.
struct LayerValues {
  CellKind cell = CellKind::Lstm;
  SequenceForm form;
  int64_t batch = 0;
  int64_t steps = 0;
  int64_t hidden = 0;
  std::vector<double> x;         // as input 0 of recurrence
  std::vector<double> w;         // [directions, gates * hidden, hidden]
  std::vector<double> bias;      // [directions, hidden]
  std::vector<double> h;         // [directions, batch, hidden]: before, then behind
  std::vector<double> c;         // likewise
  std::vector<int64_t> lengths;  // [batch]
  std::vector<double> peephole;  // [directions, 3 * hidden]
  std::vector<double> y;         // [batch, steps, directions * hidden], or time first
};
void run_layer(LayerValues& layer);
// Lengths as the kernel takes them: clamped to [0, steps].
std::vector<int64_t> lengths_of(const Tensor& lengths, int64_t steps);

// What may be left out of the table of its kernels.
std::vector<std::string> recurrence_offer_names();

}  // namespace rlx
