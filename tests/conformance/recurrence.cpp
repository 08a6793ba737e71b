// SPDX-License-Identifier: Apache-2.0
// Cases of recurrence: sizes that choose between its kernels, and vectors that do not fit.
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

Case layer_case(std::string law, const std::string& cell, int64_t gates, int64_t batch,
                int64_t steps, int64_t hidden, DType w, const std::string& dtype = "f32") {
  return {.name = std::move(law),
          .op = "recurrence",
          .inputs = {tensor(DType::f32, {batch, steps, gates * hidden}),
                     tensor(w, {1, gates * hidden, hidden}).uniform(-0.1, 0.1).param()},
          .attributes = R"({"cell": ")" + cell + R"(", "dtype": ")" + dtype + R"("})",
          .tolerance = Tolerance::Norm,
          .outputs = cell == "lstm" ? size_t{3} : size_t{2}};
}

// Layers whose weights no cluster has room for, with all that a node may have.
struct LargeLayer {
  std::string cell = "lstm";
  int64_t gates = 4;
  int64_t batch = 9;
  int64_t hidden = 1024;
  DType w = DType::f16;
  std::string direction = "forward";
  std::string layout = "bsi";
  std::vector<double> lengths = {};
  bool states = false;
  bool vectors = false;  // the bias of a GRU, the peepholes of an LSTM
};

Case large_case(std::string law, const LargeLayer& layer) {
  const int64_t steps = 5;
  const int64_t directions = layer.direction == "bidirectional" ? 2 : 1;
  const int64_t wide = directions * layer.gates * layer.hidden;
  const bool time_first = layer.layout == "sbi";
  const bool is_lstm = layer.cell == "lstm";
  const std::optional<CaseTensor> state =
      layer.states ? std::optional(tensor(DType::f32, {directions, layer.batch, layer.hidden}))
                   : std::nullopt;
  const auto vector = [&](int64_t count) {
    return tensor(DType::f32, {directions, count * layer.hidden}).uniform(-0.4, 0.4).param();
  };
  Case made{
      .name = std::move(law),
      .op = "recurrence",
      .inputs = {tensor(DType::f32, time_first ? Shape{steps, layer.batch, wide}
                                               : Shape{layer.batch, steps, wide}),
                 tensor(layer.w, {directions, layer.gates * layer.hidden, layer.hidden})
                     .uniform(-0.1, 0.1)
                     .param(),
                 std::nullopt, state, is_lstm ? state : std::nullopt, std::nullopt, std::nullopt},
      .attributes = R"({"cell": ")" + layer.cell + R"(", "direction": ")" + layer.direction +
                    R"(", "layout": ")" + layer.layout + R"(", "dtype": ")" +
                    std::string(name_of(layer.w)) + R"("})",
      .tolerance = Tolerance::Norm,
      .outputs = is_lstm ? size_t{3} : size_t{2}};
  if (layer.vectors && layer.cell == "gru") made.inputs[2] = vector(1);
  if (layer.vectors && is_lstm) made.inputs[6] = vector(3);
  if (!layer.lengths.empty()) made.inputs[5] = tensor(DType::i32, {layer.batch}).of(layer.lengths);
  return made;
}

struct Outlier {
  size_t place = 0;
  double value = 0;
};

// `tensor` within +-bound but for the outliers.
CaseTensor with_outliers(const CaseTensor& tensor, double bound,
                         const std::vector<Outlier>& outliers) {
  std::mt19937 random(1);
  std::vector<double> values(element_count(tensor.type.shape).bound());
  for (double& value : values) value = bound * (random() / 2147483648.0 - 1);
  for (const Outlier& outlier : outliers) values.at(outlier.place) = outlier.value;
  return tensor.of(std::move(values));
}

// Values that 16-bit floats have no room for, in weights and first states.
void add_outlier_cases(std::vector<Case>& cases) {
  constexpr int64_t kHidden = 1024;
  const auto layer = [&](std::string law, DType w, const std::vector<Outlier>& of_weights,
                         const std::vector<Outlier>& of_h0) {
    Case made = large_case(std::move(law), {.batch = 3, .w = w, .states = true});
    made.inputs[1] = with_outliers(*made.inputs[1], 0.1, of_weights);
    made.inputs[3] = with_outliers(*made.inputs[3], 1, of_h0);
    cases.push_back(std::move(made));
  };
  for (const DType w : {DType::f16, DType::bf16}) {
    layer("a large layer, first states beyond f16", w, {},
          {{.place = 5, .value = 1e5}, {.place = kHidden + 900, .value = -70000}});
    layer("a large layer, an infinite first state", w, {}, {{.place = 7, .value = kInfinity}});
    layer("a large layer, infinite weights", w,
          {{.place = 3, .value = kInfinity}, {.place = 2000 * kHidden, .value = -kInfinity}}, {});
  }
  layer("a large layer, a first state of NaN", DType::f16, {}, {{.place = 7, .value = kNan}});
  layer("a large layer, weights beyond f16", DType::bf16,
        {{.place = 3, .value = 1e5}, {.place = 4000 * kHidden + 8, .value = -3e38}}, {});
  layer("a large layer, weights and first states of hundreds", DType::bf16,
        {{.place = 3, .value = 255}, {.place = 3000 * kHidden + 8, .value = 256}},
        {{.place = 5, .value = 250}});
  // Too small for f16, of states that make them count.
  Case small = large_case("a large layer, small weights and large first states",
                          {.batch = 3, .w = DType::bf16, .states = true});
  small.inputs[1] = with_outliers(*small.inputs[1], 1e-5, {});
  small.inputs[3] = with_outliers(*small.inputs[3], 200, {});
  cases.push_back(std::move(small));
}

void add_large_cases(std::vector<Case>& cases) {
  cases.push_back(large_case("a large layer", {.batch = 33}));
  cases.push_back(large_case("a large layer of one sequence", {.batch = 1, .w = DType::bf16}));
  cases.push_back(large_case("a large layer, states and peepholes, backward",
                             {.batch = 17,
                              .hidden = 1000,
                              .direction = "reverse",
                              .lengths = {5, 0, 1, 2, 3, 4, 5, 5, 5, 1, 9, -1, 2, 3, 4, 5, 3},
                              .states = true,
                              .vectors = true}));
  cases.push_back(large_case("a large layer of two directions, time first",
                             {.cell = "gru",
                              .gates = 3,
                              .batch = 11,
                              .hidden = 1016,
                              .direction = "bidirectional",
                              .layout = "sbi",
                              .lengths = {5, 0, 1, 2, 3, 4, 5, 5, 5, 1, 2},
                              .states = true,
                              .vectors = true}));
  cases.push_back(large_case("a large layer of more sequences than at once",
                             {.cell = "tanh", .gates = 1, .batch = 150, .w = DType::bf16}));
}

}  // namespace

std::vector<Case> recurrence_cases() {
  std::vector<Case> cases;
  for (const DType w : {DType::f32, DType::f16, DType::bf16}) {
    cases.push_back(layer_case("a wide layer step by step", "lstm", 4, 3, 4, 512, w));
    cases.push_back(layer_case("units that do not fill a workgroup", "gru", 3, 5, 3, 333, w));
  }
  cases.push_back(layer_case("results of another type", "lstm", 4, 2, 3, 64, DType::f16, "f16"));
  cases.push_back(layer_case("one unit", "tanh", 1, 2, 6, 1, DType::f32));
  cases.push_back(layer_case("a reset before the product of many units", "gru_reset_first", 3, 2, 3,
                             300, DType::f32));
  Case nan = layer_case("NaN in a step stays in its sequence", "lstm", 4, 2, 3, 4, DType::f32);
  std::vector<double> values(2 * 3 * 16, 0.25);
  values[20] = kNan;
  nan.inputs[0]->fill = FillKind::Values;
  nan.inputs[0]->values = values;
  cases.push_back(nan);
  add_large_cases(cases);
  add_outlier_cases(cases);
  return cases;
}

}  // namespace rlx::test
