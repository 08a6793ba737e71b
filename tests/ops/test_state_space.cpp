// SPDX-License-Identifier: Apache-2.0
// Laws of the shapes, diagnostics and steps of causal_conv1d, selective_scan, gated_deltanet and
// mamba2.
#include "tests/ops/one_node.h"

namespace rlx::test {
namespace {

OneNode causal_node(Shape x, Shape w) {
  return {.op = "causal_conv1d", .inputs = {f32(std::move(x)), f32(std::move(w))}, .outputs = 2};
}

OneNode selective_node(Shape x, Shape a, Shape b, DType dtype = DType::f32) {
  return {.op = "selective_scan",
          .inputs = {TensorType{dtype, x}, TensorType{dtype, x}, f32(std::move(a)),
                     TensorType{dtype, b}, TensorType{dtype, b}},
          .outputs = 2};
}

OneNode delta_node(Shape q, Shape k, Shape v, Attributes attributes) {
  attributes.emplace("rule", std::string("linear"));
  return {.op = "gated_deltanet",
          .inputs = {f32(std::move(q)), f32(std::move(k)), f32(std::move(v))},
          .attributes = std::move(attributes),
          .outputs = 2};
}

// What lowering a node that infers says; empty where it does not fail.
std::string lowering_fault(const OneNode& node) {
  try {
    lower(node);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("states_are_f32_beside_halves_and_f64_beside_doubles") {
  const Inferred halves = infer(selective_node({2, 7, 6}, {6, 4}, {2, 7, 4}, DType::f16));
  REQUIRE(halves.good);
  CHECK(halves.outputs[0] == TensorType{DType::f16, {2, 7, 6}});
  CHECK(halves.outputs[1] == f32({2, 6, 4}));
  OneNode doubles = causal_node({2, 6, 7}, {6, 1, 4});
  for (auto& input : doubles.inputs) input->dtype = DType::f64;
  CHECK(infer(doubles).outputs[1] == TensorType{DType::f64, {2, 6, 3}});
}

TEST_CASE("what_does_not_fit_a_causal_convolution_is_named") {
  CHECK(refused(causal_node({2, 6, 7}, {5, 1, 4}), "bad-shape", "wanted [6, 1, 4]"));
  CHECK(refused(causal_node({2, 6, 7}, {6, 1, 0}), "bad-shape", "no taps"));
  CHECK(refused(causal_node({2, 6}, {6, 1, 4}), "bad-rank", "[B, C, S]"));
  OneNode node = causal_node({2, 6, 7}, {6, 1, 4});
  node.inputs.resize(4);
  node.inputs[3] = TensorType{DType::f16, {2, 6, 3}};
  CHECK(refused(node, "bad-dtype", "state0 is f16, wanted f32"));
  node.inputs[3] = f32({2, 6, 4});
  CHECK(refused(node, "bad-shape", "wanted [2, 6, 3]"));
}

TEST_CASE("groups_of_a_selective_scan_divide_its_channels") {
  CHECK(infer(selective_node({2, 7, 6}, {6, 4}, {2, 7, 3, 4})).good);
  CHECK(refused(selective_node({2, 7, 6}, {6, 4}, {2, 7, 4, 4}), "bad-shape", "4 groups"));
  CHECK(refused(selective_node({2, 7, 6}, {6, 5}, {2, 7, 4}), "bad-shape", "A has shape"));
}

TEST_CASE("a_long_selective_scan_of_few_channels_is_taken_in_chunks") {
  const OneNode few = selective_node({1, 4096, 64}, {64, 16}, {1, 4096, 16});
  CHECK(lower(few).steps.size() == 3);
  OneNode whole = few;
  whole.without = {"selective_scan chunks"};
  CHECK(lower(whole).steps.size() == 1);
  CHECK(lower(selective_node({1, 128, 64}, {64, 16}, {1, 128, 16})).steps.size() == 1);
  CHECK(lower(selective_node({64, 4096, 4096}, {4096, 16}, {64, 4096, 16})).steps.size() == 1);
}

TEST_CASE("a_long_sequence_is_taken_in_chunks_where_no_step_reads_the_states") {
  OneNode node =
      delta_node({1, 4096, 2, 64}, {1, 4096, 2, 64}, {1, 4096, 2, 64}, {{"num_heads", int64_t{2}}});
  CHECK(lower(node).steps.size() == 3);
  node.attributes["rule"] = std::string("delta");
  node.inputs.resize(4);
  node.inputs.push_back(f32({1, 4096, 2}));
  const Program program = lower(node);
  CHECK(program.steps.size() == 1);
  CHECK(contains(refusal_by(program, "linear_recurrence chunks"), "depends on the states"));
}

TEST_CASE("chunks_of_a_long_sequence_of_halves_are_products_on_matrix_units") {
  const auto node_of = [](int64_t steps, int64_t keys) {
    const TensorType vectors{DType::f16, {1, steps, 2, keys}};
    return OneNode{
        .op = "gated_deltanet",
        .inputs = {vectors, vectors, vectors, std::nullopt, TensorType{DType::f16, {1, steps, 2}}},
        .attributes = {{"num_heads", int64_t{2}}, {"rule", std::string("delta")}},
        .outputs = 2,
        .target = "cuda"};
  };
  CHECK(lower(node_of(64, 64)).steps.size() == 2);
  const auto refusal = [&](const OneNode& node) {
    return refusal_by(lower(node), "linear_recurrence_mma");
  };
  CHECK(contains(refusal(node_of(63, 64)), "shorter than a chunk"));
  CHECK(contains(refusal(node_of(640, 40)), "multiples of 16"));
  OneNode whole = node_of(640, 64);
  for (const size_t i : {0u, 1u, 2u, 4u}) whole.inputs[i]->dtype = DType::f32;
  CHECK(contains(refusal(whole), "it takes f16 and bf16"));
}

TEST_CASE("T122_heads_of_queries_keys_and_states_fit_each_other") {
  const Attributes four = {{"num_heads", int64_t{4}}};
  const Inferred shared = infer(delta_node({2, 7, 8, 5}, {2, 7, 2, 5}, {2, 7, 4, 3}, four));
  REQUIRE(shared.good);
  CHECK(shared.outputs[0] == f32({2, 7, 8, 3}));
  CHECK(shared.outputs[1] == f32({2, 4, 5, 3}));
  CHECK(infer(delta_node({2, 7, 2, 5}, {2, 7, 4, 5}, {2, 7, 4, 3}, four)).outputs[0] ==
        f32({2, 7, 4, 3}));
  CHECK(refused(delta_node({2, 7, 3, 5}, {2, 7, 4, 5}, {2, 7, 4, 3}, four), "bad-shape",
                "q has 3 heads"));
  CHECK(refused(delta_node({2, 7, 4, 5}, {2, 7, 3, 5}, {2, 7, 4, 3}, four), "bad-shape",
                "k has 3 heads"));
  CHECK(refused(delta_node({2, 7, 4, 5}, {2, 7, 4, 6}, {2, 7, 4, 3}, four), "bad-shape",
                "q has shape"));
  CHECK(refused(delta_node({2, 7, 4, 5}, {2, 7, 4, 5}, {2, 7, 4, 3}, {{"num_heads", int64_t{2}}}),
                "bad-attribute", "num_heads is 2"));
}

TEST_CASE("a_rule_takes_the_gates_that_it_names_and_no_others") {
  OneNode node = delta_node({2, 7, 4, 5}, {2, 7, 4, 5}, {2, 7, 4, 3}, {{"num_heads", int64_t{4}}});
  node.inputs.push_back(f32({2, 7, 4}));
  CHECK(refused(node, "bad-arity", "no use for g"));
  node.attributes["rule"] = std::string("gated_delta");
  CHECK(refused(node, "bad-arity", "wants the input beta"));
  node.inputs.push_back(f32({2, 7, 4}));
  CHECK(infer(node).good);
  node.inputs[3] = f32({2, 7, 4, 5});
  CHECK(infer(node).good);
  node.inputs[3] = f32({2, 7, 4, 3});
  CHECK(refused(node, "bad-shape", "g has shape"));
}

TEST_CASE("more_states_than_registers_hold_are_refused_by_their_number") {
  CHECK(
      contains(lowering_fault(selective_node({1, 2, 3}, {3, 5000}, {1, 2, 5000})), "5000 states"));
  CHECK(contains(lowering_fault(delta_node({1, 2, 1, 5000}, {1, 2, 1, 5000}, {1, 2, 1, 4},
                                           {{"num_heads", int64_t{1}}})),
                 "5000 keys"));
}

}  // namespace rlx::test
