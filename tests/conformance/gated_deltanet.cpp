// SPDX-License-Identifier: Apache-2.0
// Cases of gated_deltanet and its other name, linear_attention.
#include <cmath>
#include <limits>
#include <string>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

struct DeltaForm {
  int64_t batch = 2;
  int64_t steps = 7;
  int64_t heads = 3;
  int64_t query_heads = 3;
  int64_t key_heads = 3;
  int64_t keys = 8;
  int64_t columns = 8;
  std::string rule = "gated_delta";
  bool by_key = false;  // gates
  bool state0 = true;
  bool heads_first = false;
  size_t outputs = 2;
  std::optional<DType> gates = std::nullopt;  // their dtype, if not that of q
  double least_gate = -1;
};

Shape delta_shape(const DeltaForm& form, int64_t heads, std::optional<int64_t> last) {
  Shape shape = {form.batch, form.steps, heads};
  if (form.heads_first) shape = {form.batch, heads, form.steps};
  if (last) shape.emplace_back(*last);
  return shape;
}

Case delta_case(const std::string& law, DType dtype, const DeltaForm& form) {
  const bool gates = form.rule == "gated" || form.rule == "gated_delta";
  const bool corrects = form.rule == "delta" || form.rule == "gated_delta";
  const DType state = dtype == DType::f64 ? DType::f64 : DType::f32;
  // Keys of length about 1, as models have them: longer ones make the delta rule grow.
  const double size = 1.7 / std::sqrt(static_cast<double>(form.keys));
  const TensorType v{dtype, delta_shape(form, form.heads, form.columns)};
  Case made{
      .name = law + " " + form.rule + " " + to_string(v),
      .op = "gated_deltanet",
      .inputs = {tensor(dtype, delta_shape(form, form.query_heads, form.keys)),
                 tensor(dtype, delta_shape(form, form.key_heads, form.keys)).uniform(-size, size),
                 tensor(dtype, v.shape), std::nullopt, std::nullopt, std::nullopt},
      .attributes = R"({"num_heads": )" + std::to_string(form.heads) + R"(, "rule": ")" +
                    form.rule + R"(", "layout": ")" + (form.heads_first ? "bhsd" : "bshd") +
                    R"("})",
      .tolerance = Tolerance::Norm,
      .outputs = form.outputs};
  if (gates) {
    const auto last = form.by_key ? std::optional(form.keys) : std::nullopt;
    made.inputs[3] = tensor(form.gates.value_or(dtype), delta_shape(form, form.heads, last))
                         .uniform(form.least_gate, 0);
  }
  if (corrects) {
    made.inputs[4] =
        tensor(form.gates.value_or(dtype), delta_shape(form, form.heads, {})).uniform(0, 1);
  }
  if (form.state0)
    made.inputs[5] = tensor(state, {form.batch, form.heads, form.keys, form.columns});
  return made;
}

Case delta_values(const std::string& law, std::vector<std::optional<CaseTensor>> inputs,
                  const std::string& attributes, std::vector<std::vector<double>> golden) {
  return {.name = law,
          .op = "gated_deltanet",
          .inputs = std::move(inputs),
          .attributes = attributes,
          .tolerance = Tolerance::Norm,
          .outputs = 2,
          .golden = std::move(golden)};
}

// The first is of ops.md 17, the others are from NumPy.
void add_delta_values(std::vector<Case>& cases) {
  const auto numbers = [](Shape shape, std::vector<double> values) {
    return tensor(DType::f32, std::move(shape)).of(std::move(values));
  };
  const CaseTensor one_query = numbers({1, 2, 1, 2}, {1, 0, 0.6, 0.8});
  const CaseTensor key = numbers({1, 2, 1, 2}, {0, 1, 0.6, 0.8});
  const CaseTensor value = numbers({1, 2, 1, 2}, {1, 2, 3, -1});
  const CaseTensor gate = numbers({1, 2, 1}, {-0.5, -1});
  const CaseTensor beta = numbers({1, 2, 1}, {1, 0.5});
  cases.push_back(
      delta_values("two steps", {one_query, key, value, gate, beta}, R"({"num_heads": 1})",
                   {{0, 0, 1.164712, -0.1454494}, {0.8117089, -0.4765821, 1.450158, 0.100316}}));
  cases.push_back(
      delta_values("T121 the gate comes first, y reads the new state",
                   {numbers({1, 1, 1, 2}, {1, 0}), numbers({1, 1, 1, 2}, {0.6, 0.8}),
                    numbers({1, 1, 1, 2}, {1, 2}), numbers({1, 1, 1}, {-3}),
                    numbers({1, 1, 1}, {1}), numbers({1, 1, 2, 2}, {4, -8, 10, 20})},
                   R"({"num_heads": 1, "scale": 1})",
                   {{0.4884770, 0.4671344}, {0.4884770, 0.4671344, 0.8836423, 2.149649}}));
  cases.push_back(delta_values(
      "T122 one key head and one query head for two heads, a gate per key",
      {one_query, key, numbers({1, 2, 2, 3}, {1, 2, 3, -1, 0.5, -2, 1, 0, 2, 1, -1, 0.25}),
       numbers({1, 2, 2, 2}, {-0.5, -1, -0.25, 0, -3, -0.1, -2, -0.7}),
       numbers({1, 2, 2}, {1, 0.5, 0.25, 0.75}),
       numbers({1, 2, 2, 3}, {-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75})},
      R"({"num_heads": 2, "scale": 0.5})",
      {{-0.3032653, -0.2274490, -0.1516327, 0.1947002, 0.2920503, 0.3894004, 0.3896568, 0.5378066,
        1.060956, 0.3851598, -0.3194128, 0.09544763},
       {0.01393989, -0.2377707, -0.03948128, 0.9636871, 1.522845, 2.682002, 0.4661244, -0.5710646,
        0.2117878, 0.6133062, -0.3702334, 0.07977823}}));
  const CaseTensor two_queries = numbers({1, 2, 2, 2}, {1, 0, 0, 1, 0.6, 0.8, -1, 2});
  cases.push_back(delta_values("two query heads read one state",
                               {two_queries, key, value, {}, beta},
                               R"({"num_heads": 1, "scale": 1, "rule": "delta"})",
                               {{0, 0, 1, 2, 1.9, 0.3, 3.1, 2.7}, {0.66, -0.78, 1.88, 0.96}}));
  cases.push_back(delta_values("no gate, no correction", {two_queries, key, value},
                               R"({"num_heads": 1, "scale": 1, "rule": "linear"})",
                               {{0, 0, 1, 2, 3.8, 0.6, 5, 3}, {1.8, -0.6, 3.4, 1.2}}));
  cases.push_back(delta_values("no correction", {two_queries, key, value, gate},
                               R"({"num_heads": 1, "scale": 1, "rule": "gated"})",
                               {{0, 0, 1, 2, 3.294304, -0.4113929, 3.735759, 0.4715178},
                                {1.8, -0.6, 2.767879, -0.06424112}}));
}

// What matrix units take by chunks of 64 steps.
void add_chunks_of_pairs(std::vector<Case>& cases) {
  const std::string law = "pairs of steps, ";
  DeltaForm form{.batch = 1, .heads = 2, .query_heads = 2, .key_heads = 2, .columns = 16};
  form.keys = 32;
  for (const int64_t steps : {63, 64, 65, 200, 1000}) {
    form.steps = steps;
    for (const DType t : {DType::f16, DType::bf16}) {
      for (const char* rule : {"linear", "gated", "delta", "gated_delta"}) {
        form.rule = rule;
        cases.push_back(delta_case(law + "every rule", t, form));
      }
    }
  }
  form.rule = "gated_delta";
  form.steps = 130;
  for (const int64_t keys : {16, 48, 64, 128}) {
    form.keys = keys;
    form.columns = keys + 3;
    cases.push_back(delta_case(law + "every size", DType::f16, form));
  }
  form.state0 = false;
  form.outputs = 1;
  cases.push_back(delta_case(law + "from zero, the state not wanted", DType::f16, form));
  form = {.steps = 140, .heads = 6, .query_heads = 3, .key_heads = 2, .keys = 32, .columns = 24};
  form.gates = DType::f32;
  cases.push_back(delta_case(law + "fewer key heads and query heads", DType::bf16, form));
  form.heads_first = true;
  cases.push_back(delta_case(law + "heads before steps", DType::f16, form));
  // Decays that reach zero within a chunk.
  form.least_gate = -300;
  cases.push_back(delta_case(law + "gates far below zero", DType::f16, form));
  form.rule = "gated";
  cases.push_back(delta_case(law + "gates far below zero", DType::f16, form));
  // More groups of columns than multiprocessors.
  for (const DType t : {DType::f16, DType::bf16}) {
    DeltaForm many{.batch = 12, .steps = 129, .heads = 12, .query_heads = 12, .key_heads = 12};
    many.keys = 16;
    many.columns = 16;
    cases.push_back(delta_case(law + "many groups,", t, many));
  }
}

// A gate of -inf forgets all before, one of zero nothing.
Case forgetting_case(const std::string& rule) {
  DeltaForm form{.batch = 1, .steps = 80, .heads = 1, .query_heads = 1, .key_heads = 1};
  form.keys = form.columns = 16;
  form.rule = rule;
  form.gates = DType::f32;
  Case made = delta_case("pairs of steps, gates of -inf and 0", DType::f16, form);
  std::vector<double> gates(80, 0.0);
  for (const size_t t : {5u, 6u, 40u, 63u, 64u, 79u})
    gates[t] = -std::numeric_limits<double>::infinity();
  made.inputs[3] = tensor(DType::f32, {1, 80, 1}).of(std::move(gates));
  return made;
}

}  // namespace

std::vector<Case> gated_deltanet_cases() {
  std::vector<Case> cases;
  add_delta_values(cases);
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    for (const char* rule : {"linear", "gated", "delta", "gated_delta"})
      cases.push_back(delta_case("every dtype and rule", t, {.rule = rule}));
    cases.push_back(delta_case("T122 a gate per key", t, {.steps = 19, .by_key = true}));
    cases.push_back(delta_case("T116 one step", t, {.steps = 1, .keys = 64, .columns = 64}));
  }
  for (const DType t : {DType::f16, DType::bf16})
    cases.push_back(delta_case("gates of f32", t, {.steps = 19, .gates = DType::f32}));
  for (const int64_t size : {64, 128, 192, 256}) {
    cases.push_back(delta_case("T122 state of " + std::to_string(size), DType::f32,
                               {.batch = 1,
                                .steps = 9,
                                .heads = 2,
                                .query_heads = 2,
                                .key_heads = 2,
                                .keys = size,
                                .columns = size}));
  }
  cases.push_back(delta_case("T122 more keys than columns", DType::f32,
                             {.steps = 21, .keys = 37, .columns = 5}));
  cases.push_back(delta_case("T122 more columns than keys", DType::f16,
                             {.steps = 21, .keys = 3, .columns = 67, .by_key = true}));
  cases.push_back(delta_case("T122 fewer key heads and query heads", DType::f32,
                             {.steps = 17, .heads = 6, .query_heads = 3, .key_heads = 2}));
  cases.push_back(delta_case("more query heads", DType::f32,
                             {.steps = 17, .heads = 2, .query_heads = 8, .key_heads = 1}));
  cases.push_back(delta_case("more queries than shared memory holds", DType::f32,
                             {.batch = 1,
                              .steps = 5,
                              .heads = 1,
                              .query_heads = 48,
                              .key_heads = 1,
                              .keys = 130,
                              .columns = 40,
                              .by_key = true}));
  cases.push_back(delta_case("many keys", DType::f32,
                             {.batch = 1,
                              .steps = 3,
                              .heads = 1,
                              .query_heads = 1,
                              .key_heads = 1,
                              .keys = 1000,
                              .columns = 9}));
  cases.push_back(delta_case("heads before steps", DType::f32,
                             {.steps = 19, .query_heads = 6, .heads_first = true}));
  cases.push_back(delta_case("heads before steps, a gate per key", DType::bf16,
                             {.steps = 19, .by_key = true, .heads_first = true}));
  cases.push_back(delta_case("T116 a long sequence", DType::f32,
                             {.batch = 1, .steps = 1025, .keys = 32, .columns = 32}));
  cases.push_back(
      delta_case("in chunks", DType::f32,
                 {.batch = 1, .steps = 1030, .keys = 19, .columns = 37, .rule = "gated"}));
  cases.push_back(
      delta_case("in chunks, more query heads", DType::f16,
                 {.steps = 517, .heads = 1, .query_heads = 3, .key_heads = 1, .rule = "linear"}));
  cases.push_back(delta_case("in chunks, a gate per key, heads before steps", DType::f32,
                             {.batch = 1,
                              .steps = 700,
                              .keys = 19,
                              .columns = 5,
                              .rule = "gated",
                              .by_key = true,
                              .state0 = false,
                              .heads_first = true}));
  cases.push_back(delta_case("in chunks, the state not wanted", DType::bf16,
                             {.batch = 1, .steps = 512, .rule = "gated", .outputs = 1}));
  add_chunks_of_pairs(cases);
  for (const char* rule : {"gated", "gated_delta"}) cases.push_back(forgetting_case(rule));
  cases.push_back(delta_case("from zero", DType::f32, {.state0 = false, .outputs = 1}));
  cases.push_back(delta_case("T116 T19 no steps: the state stays", DType::f32, {.steps = 0}));
  cases.push_back(
      delta_case("T19 no steps and no state", DType::f32, {.steps = 0, .state0 = false}));
  cases.push_back(delta_case("T19 no batch", DType::f32, {.batch = 0}));
  cases.push_back(delta_case("T19 no columns", DType::f32, {.columns = 0}));
  Case other_name = delta_case("another name", DType::f32, {.steps = 5});
  other_name.op = "linear_attention";
  cases.push_back(other_name);
  return cases;
}

}  // namespace rlx::test
