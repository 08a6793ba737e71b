// SPDX-License-Identifier: Apache-2.0
// Random numbers of a session: its seed and its step are states, and every node has a stream of its
// own.
#include <cstring>
#include <vector>

#include "schema/philox.h"
#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

// Two nodes that draw by the session's seed, and one by its own. Their streams are hashes of "a",
// "b" and "c" (ops.md 0.8).
constexpr const char* kThreeDraws = R"({"rlx_graph": 1, "nodes": [
    {"op": "rng_bits", "inputs": [], "outputs": ["a"], "attributes": {"shape": [3, 7]}},
    {"op": "rng_bits", "inputs": [], "outputs": ["b"], "attributes": {"shape": [3, 7]}},
    {"op": "rng_bits", "inputs": [], "outputs": ["c"], "attributes": {"shape": [3, 7], "seed": -2}}],
  "outputs": ["a", "b", "c"]})";
constexpr uint32_t kStreams[] = {0xe40c292c, 0xe70c2de5, 0xe60c2c52};

std::vector<int64_t> words_of(uint64_t seed, uint32_t stream, uint32_t step) {
  std::vector<int64_t> words;
  for (uint32_t i = 0; i < 21; ++i)
    words.push_back(philox({i / 4, 0, step, stream}, philox_key(seed))[i % 4]);
  return words;
}

void check_draws(TestSession& session, uint64_t seed, uint32_t step) {
  const std::vector<Tensor> drawn = session.run(0, {}, std::byte{0xA5});
  REQUIRE(drawn.size() == 3);
  CHECK(drawn[0].integers == words_of(seed, kStreams[0], step));
  CHECK(drawn[1].integers == words_of(seed, kStreams[1], step));
  CHECK(drawn[2].integers == words_of(static_cast<uint64_t>(int64_t{-2}), kStreams[2], step));
}

template <typename Number>
void write_number(TestSession& session, uint32_t state, Number value) {
  const StatePart whole{.state = state,
                        .begin_bytes = 0,
                        .piece_bytes = sizeof(value),
                        .stride_bytes = sizeof(value),
                        .pieces = 1};
  REQUIRE(session.session().write_state(whole, std::as_bytes(std::span(&value, 1))).ok());
}

// A sample of those logits, and what else draws behind it.
std::string sampled(const std::string& shape, const std::string& given, const std::string& behind) {
  const auto drawn = [&](const std::string& op, const std::string& output, int stream) {
    const std::string rest = op == "sample" ? R"("temperature": 0.8, "top_k": 40, "top_p": 0.95)"
                                            : R"("training": true)";
    return node(op, R"("x")" + given, output,
                R"({"stream": )" + std::to_string(stream) + ", " + rest + "}");
  };
  const std::string scalars = ", " + input("seed", "[]", "i64") + ", " + input("step", "[]", "u32");
  return graph(input("x", shape) + (given.empty() ? "" : scalars),
               drawn("sample", "y", 5) + (behind.empty() ? "" : ", " + drawn(behind, "z", 6)),
               behind.empty() ? R"("y")" : R"("y", "z")");
}

Tensor scalar_of(DType dtype, int64_t number) {
  Tensor scalar = Tensor::zeros({dtype, {}});
  scalar.integers[0] = number;
  return scalar;
}

}  // namespace

TEST_CASE("a_sample_draws_in_the_steps_of_topk_and_advances_the_step_in_them") {
  const auto steps = [](const std::string& shape, const std::string& behind = "") {
    return steps_of(sampled(shape, "", behind));
  };
  CHECK(steps("[1, 128256]") == 2);
  CHECK(steps("[8, 32000]") == 2);
  CHECK(steps("[3, 2, 32000]") == 2);
  CHECK(steps("[1, 1000]") == 1);
  CHECK(steps("[40]") == 1);
  // Several workgroups draw, none of which may write what another is about to read.
  CHECK(steps("[8, 1000]") == 2);
  // The last draw of a run advances the step: a region that draws leaves that to another one.
  CHECK(steps("[1, 32000]", "sample") == 4);
  CHECK(steps("[1, 1000]", "dropout") == 4);
}

TEST_CASE("samples_of_a_session_are_those_of_its_seed_and_steps") {
  const std::string given = R"(, "seed", "step")";
  for (const char* shape : {"[1, 9001]", "[5, 9001]", "[1, 600]", "[7, 600]", "[70, 41]"}) {
    for (const char* behind : {"", "sample"}) {
      Diagnostics diagnostics;
      const Module module = module_from(sampled(shape, "", behind));
      const auto plan = compile_plan(module, test_options(2), diagnostics);
      const auto told =
          compile_plan(module_from(sampled(shape, given, behind)), test_options(2), diagnostics);
      INFO(shape << " " << behind << diagnostics.text());
      REQUIRE((plan != nullptr && told != nullptr));
      const Tensor x = random_inputs(module.entries[0])[0];
      for (const auto& device : present_devices().devices) {
        TestSession session(*device, plan);
        TestSession other(*device, told);
        for (int64_t step = 0; step < 3; ++step) {
          const auto drawn = session.run(0, {x}, std::byte{0xA5});
          const auto wanted = other.run(
              0, {x, scalar_of(DType::i64, 0), scalar_of(DType::u32, step)}, std::byte{0});
          REQUIRE(drawn.size() == wanted.size());
          for (size_t i = 0; i < drawn.size(); ++i) CHECK(drawn[i].integers == wanted[i].integers);
        }
      }
    }
  }
}

TEST_CASE("each_run_draws_by_the_next_step_and_each_node_by_its_own_stream") {
  for (const int level : {0, 2}) {
    Diagnostics diagnostics;
    const auto plan = compile_plan(module_from(kThreeDraws), test_options(level), diagnostics);
    INFO(diagnostics.text());
    REQUIRE(plan != nullptr);
    for (const auto& device : present_devices().devices) {
      INFO("-O" << level << " on " << device->info().id);
      TestSession session(*device, plan);
      for (uint32_t step = 0; step < 3; ++step) check_draws(session, 0, step);
    }
  }
}

TEST_CASE("a_seed_and_a_step_that_are_set_replay_a_run") {
  Diagnostics diagnostics;
  const auto plan = compile_plan(module_from(kThreeDraws), test_options(2), diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan != nullptr);
  for (const auto& device : present_devices().devices) {
    INFO(device->info().id);
    TestSession session(*device, plan);
    TestSession other(*device, plan);
    for (const uint64_t seed : {uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0}}) {
      write_number(session, 0, seed);
      write_number(session, 1, 0xFFFFFFFFu);
      check_draws(session, seed, 0xFFFFFFFFu);
      check_draws(session, seed, 0);  // steps wrap
    }
    check_draws(other, 0, 0);  // another session has a seed and a step of its own
  }
}

TEST_CASE("a_state_of_the_model_in_the_place_of_the_seed_is_refused") {
  const std::string text = R"({"rlx_graph": 1,
    "states": [{"name": "rlx.random.seed", "dtype": "f32", "shape": [2], "init": "zeros"}],
    "nodes": [{"op": "rng_bits", "inputs": [], "outputs": ["a"], "attributes": {"shape": [4]}}], "outputs": ["a"]})";
  Diagnostics diagnostics;
  CHECK(compile_plan(module_from(text), test_options(2), diagnostics) == nullptr);
  INFO(diagnostics.text());
  CHECK(diagnostics.text().find("rlx.random.seed") != std::string::npos);
}

}  // namespace rlx::test
