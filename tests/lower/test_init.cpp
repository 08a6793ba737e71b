// SPDX-License-Identifier: Apache-2.0
// The init program: where generated weights are made, and in what order.
#include "compiler/lower/lower.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

WeightId random_weight(Module& module, const std::string& name, Shape shape) {
  return module.add_weight(
      {.name = name, .type = {DType::f32, std::move(shape)}, .data = RandomData{}});
}

WeightId computed_weight(Module& module, const std::string& name, Shape shape, ComputedData data) {
  return module.add_weight(
      {.name = name, .type = {DType::f32, std::move(shape)}, .data = std::move(data)});
}

// The init program of an entry that reads these weights.
Program init_of(const Module& module, const std::vector<WeightId>& read) {
  Program entry;
  for (WeightId id : read) {
    entry.add_buffer({.name = module.weight(id).name,
                      .type = module.weight(id).type,
                      .size_bytes = byte_size(module.weight(id).type),
                      .segment = Segment::Weights,
                      .weight = id});
  }
  Diagnostics diagnostics;
  const LowerOptions options{.target = find_target("vulkan")};
  auto program = lower_init(module, {&entry, 1}, options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(program.has_value());
  return std::move(*program);
}

// "op: reads > writes" with segments and offsets, per step.
std::vector<std::string> step_lines(const Program& program) {
  static constexpr const char* kSegments[] = {"weights", "state", "arena", "io"};
  std::vector<std::string> lines;
  for (const Step& step : program.steps) {
    std::string line = step.op + ":";
    for (const Access& access : step.accesses) {
      const Buffer& buffer = program.buffer(access.buffer);
      line += access.mode == AccessMode::Write ? " > " : " ";
      line += buffer.name + "@" + kSegments[static_cast<size_t>(buffer.segment)] + "+" +
              to_string(access.offset_bytes);
    }
    lines.push_back(line);
  }
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a_weight_that_only_init_reads_lives_in_its_arena") {
  Module module;
  const WeightId w = random_weight(module, "w", {8});
  const WeightId e =
      computed_weight(module, "e", {8}, {.op = "exp", .attributes = {}, .inputs = {w}});
  random_weight(module, "unused", {8});
  CHECK(step_lines(init_of(module, {e})) ==
        Lines{"random: > w@arena+0", "exp: > e@weights+0 w@arena+0"});
  CHECK(step_lines(init_of(module, {e, w})) ==
        Lines{"random: > w@weights+0", "exp: > e@weights+0 w@weights+0"});
}

TEST_CASE("rows_that_weights_select_are_made_without_counting_indices") {
  Module module;
  const WeightId table = random_weight(module, "table", {4, 8});
  const WeightId ids = module.add_weight(
      {.name = "ids", .type = {DType::i64, {3}}, .data = SplatData{.value = 1.0}});
  const WeightId rows = computed_weight(
      module, "rows", {3, 8}, {.op = "embedding", .attributes = {}, .inputs = {table, ids}});
  const Lines lines = step_lines(init_of(module, {rows}));
  REQUIRE(lines.size() == 3);
  CHECK(lines.back() == "embedding: table@arena+0 ids@arena+0 > rows@weights+0");
}

TEST_CASE("a_weight_larger_than_what_it_is_made_of_says_why") {
  Module module;
  const WeightId w = random_weight(module, "w", {1, 8});
  const WeightId e = computed_weight(
      module, "e", {4, 8}, {.op = "expand", .attributes = {{"shape", Ints{4, 8}}}, .inputs = {w}});
  const WeightId t =
      computed_weight(module, "t", {1, 8}, {.op = "exp", .attributes = {}, .inputs = {w}});
  const Program init = init_of(module, {t, e});
  REQUIRE(init.steps.size() == 3);
  for (const Step& step : init.steps) {
    INFO(step.node << ": " << step.reason);
    CHECK(step.reason.ends_with("once, in 128 bytes of weights, instead of at every run") ==
          (step.node == "e"));
  }
}

TEST_CASE("joined_random_weights_are_filled_where_they_are_joined") {
  Module module;
  const WeightId q = random_weight(module, "q", {4, 8});
  const WeightId k = random_weight(module, "k", {2, 8});
  const WeightId j =
      computed_weight(module, "j", {6, 8},
                      {.op = "concat", .attributes = {{"axis", int64_t{0}}}, .inputs = {q, k}});
  CHECK(step_lines(init_of(module, {j})) ==
        Lines{"random: > j@weights+0", "random: > j@weights+128"});
}

TEST_CASE("a_part_that_begins_off_the_fill_alignment_is_copied_in") {
  Module module;
  const WeightId q = random_weight(module, "q", {3});
  const WeightId k = random_weight(module, "k", {2});
  const WeightId j = computed_weight(
      module, "j", {5}, {.op = "concat", .attributes = {{"axis", int64_t{0}}}, .inputs = {q, k}});
  CHECK(step_lines(init_of(module, {j})) ==
        Lines{"random: > j@weights+0", "random: > k@arena+0", "fill: k@arena+0 > j@weights+12"});
}

TEST_CASE("a_transposed_random_weight_is_written_in_its_new_order") {
  Module module;
  const WeightId w = random_weight(module, "w", {16, 32});
  const WeightId t =
      computed_weight(module, "t", {32, 16}, {.op = "transpose", .attributes = {}, .inputs = {w}});
  CHECK(step_lines(init_of(module, {t})) ==
        Lines{"random: > w@arena+0", "transpose: w@arena+0 > t@weights+0"});
}

TEST_CASE("a_weight_is_made_once_for_all_its_readers") {
  Module module;
  const WeightId w = random_weight(module, "w", {8});
  const WeightId a =
      computed_weight(module, "a", {8}, {.op = "exp", .attributes = {}, .inputs = {w}});
  const WeightId b =
      computed_weight(module, "b", {8}, {.op = "add", .attributes = {}, .inputs = {a, w}});
  CHECK(step_lines(init_of(module, {b, a})) == Lines{"random: > w@arena+0",
                                                     "exp: > a@weights+0 w@arena+0",
                                                     "add: > b@weights+0 a@weights+0 w@arena+0"});
}

TEST_CASE("weights_of_other_sizes_are_made_by_one_kernel") {
  Module module;
  std::vector<WeightId> made;
  for (const int64_t count : {8, 12, 20}) {
    const std::string name = "w" + std::to_string(count);
    const WeightId w = random_weight(module, name, {count});
    made.push_back(computed_weight(module, name + ".exp", {count},
                                   {.op = "exp", .attributes = {}, .inputs = {w}}));
  }
  const Program init = init_of(module, made);
  CHECK(init.steps.size() == 6);
  CHECK(init.kernels.size() == 2);
}

}  // namespace rlx::test
