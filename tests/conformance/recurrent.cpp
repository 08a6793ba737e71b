// SPDX-License-Identifier: Apache-2.0
// Cases of lstm, gru and rnn.
#include <string>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

struct RecurrentSpec {
  std::string op = "lstm";
  DType dtype = DType::f32;
  int64_t batch = 2;
  int64_t steps = 5;
  int64_t inputs = 6;
  int64_t hidden = 8;
  int64_t layers = 1;
  std::string direction = "forward";
  std::string layout = "bsi";
  std::string more;  // attributes
  bool states = false;
  bool peephole = false;
  std::vector<double> lengths = {};

  [[nodiscard]] int64_t gates() const { return op == "lstm" ? 4 : op == "gru" ? 3 : 1; }
  [[nodiscard]] int64_t directions() const { return direction == "bidirectional" ? 2 : 1; }
};

CaseTensor weights_of(DType dtype, int64_t count) {
  return tensor(dtype, {count}).uniform(-0.4, 0.4).param();
}

Case recurrent_case(std::string law, const RecurrentSpec& spec) {
  const int64_t directions = spec.directions();
  const int64_t rows = spec.gates() * spec.hidden;
  const int64_t blocks = spec.layers * directions;
  const bool time_first = spec.layout == "sbi";
  const DType state = spec.dtype == DType::f64 ? DType::f64 : DType::f32;
  const int64_t input_weights =
      directions * rows * (spec.inputs + (spec.layers - 1) * directions * spec.hidden);
  Case made{.name = std::move(law),
            .op = spec.op,
            .inputs = {tensor(spec.dtype, time_first ? Shape{spec.steps, spec.batch, spec.inputs}
                                                     : Shape{spec.batch, spec.steps, spec.inputs}),
                       weights_of(spec.dtype, input_weights),
                       weights_of(spec.dtype, blocks * rows * spec.hidden),
                       weights_of(spec.dtype, blocks * rows)},
            .attributes = R"({"hidden_size": )" + std::to_string(spec.hidden) +
                          R"(, "num_layers": )" + std::to_string(spec.layers) +
                          R"(, "direction": ")" + spec.direction + R"(", "layout": ")" +
                          spec.layout + "\"" + spec.more + "}",
            .tolerance = Tolerance::Norm,
            .outputs = spec.op == "lstm" ? size_t{3} : size_t{2}};
  if (spec.op == "gru") made.inputs.emplace_back(weights_of(spec.dtype, blocks * rows));
  const auto add_state = [&] {
    made.inputs.emplace_back();
    if (spec.states) made.inputs.back() = tensor(state, {blocks, spec.batch, spec.hidden});
  };
  add_state();
  if (spec.op == "lstm") add_state();
  made.inputs.emplace_back();
  if (!spec.lengths.empty()) made.inputs.back() = tensor(DType::i64, {spec.batch}).of(spec.lengths);
  if (spec.peephole) made.inputs.emplace_back(weights_of(spec.dtype, blocks * 3 * spec.hidden));
  return made;
}

void add_known_values(std::vector<Case>& cases) {
  const CaseTensor x = tensor(DType::f32, {1, 2, 1}).of({1, -2});
  const auto packed = [](std::vector<double> values) {
    const auto count = static_cast<int64_t>(values.size());
    return tensor(DType::f32, {count}).of(std::move(values));
  };
  const auto known = [&](std::string op, std::vector<std::optional<CaseTensor>> inputs,
                         std::string attributes, std::vector<std::vector<double>> golden) {
    cases.push_back({.name = "T117 one cell, two steps, known gates",
                     .op = std::move(op),
                     .inputs = std::move(inputs),
                     .attributes = std::move(attributes),
                     .tolerance = Tolerance::Norm,
                     .outputs = golden.size(),
                     .golden = std::move(golden)});
  };
  known("lstm", {x, packed({.5, -.5, 1, .25}), packed({.1, .2, .3, .4}), packed({0, .1, 0, -.1})},
        R"({"hidden_size": 1})", {{0.2372618, 0.03658525}, {0.03658525}, {0.09752024}});
  const std::vector<std::optional<CaseTensor>> of_gru = {
      x, packed({.5, -.5, 1}), packed({.1, .2, .3}), packed({.1, 0, .2}), packed({0, .3, -.4})};
  known("gru", of_gru, R"({"hidden_size": 1})", {{0.4046886, 0.1316346}, {0.1316346}});
  known("gru", of_gru, R"({"hidden_size": 1, "linear_before_reset": false})",
        {{0.36511, 0.09440553}, {0.09440553}});

  // NumPy, step by step: w_ih = 0.05 * [1..32] - 0.8, w_hh = 0.1 * [1..16] - 0.7, bias = 0.03 *
  // [1..16].
  const auto ramp = [](int64_t count, double scale, double offset) {
    std::vector<double> values;
    for (int64_t i = 1; i <= count; ++i) values.push_back(scale * static_cast<double>(i) + offset);
    return tensor(DType::f32, {count}).of(std::move(values));
  };
  Case layers{
      .name = "T118 the second layer of two directions, lengths and reverse",
      .op = "lstm",
      .inputs = {tensor(DType::f32, {2, 3, 2}).of({1, -1, .5, 2, -1, .25, 1, -1, .5, 2, -1, .25}),
                 ramp(32, 0.05, -0.8), ramp(16, 0.1, -0.7), ramp(16, 0.03, 0), std::nullopt,
                 std::nullopt, tensor(DType::i32, {2}).of({3, 2})},
      .attributes = R"({"hidden_size": 1, "num_layers": 2, "direction": "bidirectional"})",
      .tolerance = Tolerance::Norm,
      .outputs = 3};
  layers.golden = {{0.11298683, 0.4662522, 0.18546429, 0.34171908, 0.26542586, 0.22013319,
                    0.11043709, 0.29300875, 0.17845581, 0.14012567, 0, 0},
                   {0.14505004, -0.034069027, 0.062191507, 0.038954689, 0.26542586, 0.17845581,
                    0.4662522, 0.29300875},
                   {0.23924743, -0.11910447, 0.11394604, 0.071329724, 0.44638989, 0.30763463,
                    0.80448786, 0.48062767}};
  cases.push_back(layers);
}

}  // namespace

std::vector<Case> recurrent_cases() {
  std::vector<Case> cases;
  add_known_values(cases);
  for (const std::string op : {"lstm", "gru", "rnn"}) {
    for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::f64})
      cases.push_back(recurrent_case("every dtype", {.op = op, .dtype = t}));
    for (const std::string direction : {"forward", "reverse", "bidirectional"}) {
      cases.push_back(recurrent_case("states, lengths of 0, 1 and all, " + direction,
                                     {.op = op,
                                      .batch = 5,
                                      .steps = 7,
                                      .hidden = 13,
                                      .direction = direction,
                                      .states = true,
                                      .lengths = {7, 0, 1, 4, 6}}));
      cases.push_back(recurrent_case("time first, " + direction, {.op = op,
                                                                  .batch = 3,
                                                                  .hidden = 20,
                                                                  .direction = direction,
                                                                  .layout = "sbi",
                                                                  .states = true}));
    }
    cases.push_back(recurrent_case(
        "three layers of two directions",
        {.op = op, .steps = 4, .layers = 3, .direction = "bidirectional", .states = true}));
    cases.push_back(recurrent_case("wide cells", {.op = op, .steps = 3, .hidden = 260}));
    cases.push_back(recurrent_case("one sequence, more units than lanes",
                                   {.op = op, .batch = 1, .steps = 9, .hidden = 96}));
    cases.push_back(
        recurrent_case("many sequences", {.op = op, .batch = 37, .steps = 3, .hidden = 12}));
    cases.push_back(recurrent_case("lengths outside count as clamped",
                                   {.op = op, .batch = 3, .steps = 4, .lengths = {-1, 9, 4}}));
    cases.push_back(
        recurrent_case("T116 no steps keep the state", {.op = op, .steps = 0, .states = true}));
    cases.push_back(recurrent_case("T19 no sequences", {.op = op, .batch = 0, .states = true}));
  }
  for (const std::string direction : {"forward", "bidirectional"}) {
    cases.push_back(recurrent_case("peepholes, o sees the new c, " + direction,
                                   {.direction = direction, .states = true, .peephole = true}));
    cases.push_back(recurrent_case("T119 the reset before the product, " + direction,
                                   {.op = "gru",
                                    .batch = 3,
                                    .hidden = 21,
                                    .direction = direction,
                                    .more = R"(, "linear_before_reset": false)",
                                    .states = true,
                                    .lengths = {5, 2, 0}}));
  }
  cases.push_back(recurrent_case("relu", {.op = "rnn", .more = R"(, "activation": "relu")"}));
  Case bare = recurrent_case("weights alone", {.op = "gru"});
  bare.inputs.resize(3);
  cases.push_back(bare);
  return cases;
}

}  // namespace rlx::test
