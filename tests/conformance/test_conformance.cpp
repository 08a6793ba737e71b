// SPDX-License-Identifier: Apache-2.0
// Every op family's table of cases, on the evaluator and on every device present.
#include <algorithm>
#include <iostream>
#include <set>
#include <utility>

#include "compiler/ops/conformance_record.h"
#include "compiler/ops/lowering/block_weights.h"
#include "compiler/ops/op_def.h"
#include "schema/features.h"
#include "tests/support/catch.h"
#include "tests/support/harness.h"

namespace rlx::test {

#define RLX_OPS(family, ...) std::vector<Case> family##_cases();
#include "compiler/ops/ops.def"
#undef RLX_OPS
std::vector<Case> cooperative_conv_cases();
std::vector<Case> cooperative_matrix_cases();
std::vector<Case> attention_matrix_cases();
std::vector<Case> conv_window_cases();
std::vector<Case> element_type_cases();

namespace {

// Once, which devices these are; tools/record_conformance reads it.
void name_devices() {
  static bool named = false;
  if (named) return;
  named = true;
  for (const std::shared_ptr<Device>& device : present_devices().devices) {
    const DeviceInfo& info = device->info();
    std::cout << "  device " << info.id << ": " << info.name << "; " << info.driver << "\n";
  }
}

void check_family(const std::vector<Case>& cases, const CaseOptions& options = {}) {
  std::map<std::string, Tally> tallies;
  check_cases(cases, tallies, options);
  name_devices();
  for (const auto& [key, tally] : tallies) {
    std::cout << "  " << key << (options.target.empty() ? "" : " as " + options.target) << ": "
              << tally.cases << " cases, " << tally.failed << " failed, worst ratio "
              << tally.worst_ratio;
    if (tally.skipped > 0) std::cout << "; SKIPPED for want of features: " << tally.skipped;
    std::cout << "\n";
  }
  const std::vector<std::string> said = validation_messages();
  INFO(said.size() << " validation messages, the first: " << (said.empty() ? "" : said[0]));
  CHECK(said.empty());
}

}  // namespace

#define RLX_OPS(family, ...)                              \
  TEST_CASE("conformance of " #family, "[" #family "]") { \
    check_family(family##_cases());                       \
  }
#include "compiler/ops/ops.def"
#undef RLX_OPS

TEST_CASE("conformance of 8-bit floats and complex numbers in movement and indexing", "[types]") {
  check_family(element_type_cases());
}

namespace {

// Those of the tables' cases that begin with a tensor of such a type.
std::vector<Case> of_types(const std::vector<std::vector<Case>>& tables,
                           std::initializer_list<DType> dtypes) {
  std::vector<Case> some;
  for (const std::vector<Case>& cases : tables) {
    for (const Case& test : cases) {
      if (test.inputs[0] && std::ranges::find(dtypes, test.inputs[0]->type.dtype) != dtypes.end())
        some.push_back(test);
    }
  }
  return some;
}

std::vector<Case> of_halves(const std::vector<std::vector<Case>>& tables) {
  return of_types(tables, {DType::f16, DType::bf16});
}

std::vector<Case> every_nth(const std::vector<Case>& cases, size_t step) {
  std::vector<Case> some;
  for (size_t i = 0; i < cases.size(); i += step) some.push_back(cases[i]);
  return some;
}

// By code for cooperative matrices, as each profile has it: the second one takes f32 too. Where no
// device runs it, few cases of the first stand for code that differs little from what the second
// one's compile.
void check_matrices(const std::vector<std::vector<Case>>& tables) {
  const std::vector<Case> cases = of_halves(tables);
  const bool runs = std::ranges::any_of(present_devices().devices, [](const auto& device) {
    return (device->info().features & mask_of(Feature::CooperativeMatrix)) != 0;
  });
  SECTION("vulkan-khr-coop") {
    check_family(runs ? cases : every_nth(cases, 24), {.target = "vulkan-khr-coop"});
  }
  SECTION("vulkan-nvidia") {
    check_family(of_types(tables, {DType::f16, DType::bf16, DType::f32}),
                 {.target = "vulkan-nvidia"});
  }
}

}  // namespace

TEST_CASE("conformance on cooperative matrices", "[coop]") {
  check_matrices({matmul_cases(), norm_matmul_cases(), cooperative_matrix_cases()});
}

TEST_CASE("conformance of attention on cooperative matrices", "[coop]") {
  check_matrices({attention_cases(), attention_block_cases(), attention_matrix_cases()});
}

TEST_CASE("conformance of convolutions on cooperative matrices", "[coop]") {
  check_matrices({conv_cases(), cooperative_conv_cases()});
}

// Up to eight rows, with the norms before them.
TEST_CASE("conformance of few rows of blocks on cooperative matrices", "[coop]") {
  std::vector<Case> cases = of_halves({weighted_matmul_cases(), fused_dequant_cases()});
  std::erase_if(cases, [](const Case& test) {
    const Shape& x = test.inputs[0]->type.shape;
    const bool has_blocks = test.inputs[1] && is_block_type(test.inputs[1]->type.dtype);
    return !has_blocks || test.op == "dequant_grouped_matmul" || x.empty() ||
           element_count(Shape(x.begin(), x.end() - 1)) > Dim(8);
  });
  check_family(cases, {.optimisation = 2, .target = "vulkan-nvidia"});
}

TEST_CASE("conformance of rows of experts on cooperative matrices", "[coop]") {
  std::vector<Case> cases = of_halves({weighted_matmul_cases()});
  std::erase_if(cases, [](const Case& test) { return test.op != "grouped_matmul"; });
  check_matrices({cases});
}

// What is taken where the form that is taken first was left out.
TEST_CASE("conformance of the next forms of rows", "[offers]") {
  check_family(softmax_cases(), {.without = {"softmax column", "softmax narrow teams"}});
  check_family(softmax_cases(), {.without = {"softmax column", "softmax in registers"}});
  check_family(norm_cases(), {.without = {"norm in parts", "norm in registers"}});
  const std::vector<std::string> columns = {
      "reduce column chunks", "reduce column",      "arg_reduce column chunks", "arg_reduce column",
      "scan column",          "scan column chunks", "moments column chunks",    "moments column"};
  for (const std::vector<Case>& cases :
       {reduce_cases(), arg_reduce_cases(), cumulative_cases(), moments_cases()}) {
    check_family(cases, {.without = columns});
  }
  const std::vector<std::string> chunks = {"reduce column chunks",     "reduce row chunks",
                                           "arg_reduce column chunks", "arg_reduce row chunks",
                                           "scan column chunks",       "scan row chunks"};
  for (const std::vector<Case>& cases : {reduce_cases(), arg_reduce_cases(), cumulative_cases()}) {
    check_family(cases, {.without = chunks});
  }
}

TEST_CASE("conformance of sorting by merged runs alone", "[offers]") {
  check_family(sort_cases(), {.without = {"sort tiles"}});
}

TEST_CASE("conformance of sequences in one piece", "[offers]") {
  for (const std::vector<Case>& cases :
       {selective_scan_cases(), gated_deltanet_cases(), mamba2_cases()}) {
    check_family(cases, {.without = {"selective_scan chunks", "linear_recurrence chunks"}});
  }
}

TEST_CASE("conformance of copies by regions and of pools by single threads", "[offers]") {
  check_family(transpose_cases(), {.without = {"transpose"}});
  check_family(pool_cases(), {.without = {"pool channels", "pool workgroup"}});
}

namespace {

// Those that take moments on a CPU: of each type, by small tensors.
std::vector<Case> of_few_elements(std::vector<Case> cases) {
  const Dim most = 3000;
  std::erase_if(cases, [&](const Case& test) {
    return std::any_of(test.inputs.begin(), test.inputs.end(), [&](const auto& input) {
      return input && element_count(input->type.shape) > most;
    });
  });
  return cases;
}

}  // namespace

// What the model of a CPU's driver takes.
TEST_CASE("conformance of products by lanes", "[lanes]") {
  const CaseOptions options{.target = "vulkan", .device_model = "lavapipe"};
  check_family(matmul_cases(), options);
  check_family(dot_general_cases(), options);
}

TEST_CASE("conformance of convolutions by lanes", "[lanes]") {
  const CaseOptions options{.target = "vulkan", .device_model = "lavapipe"};
  check_family(of_few_elements(conv_cases()), options);
  check_family(of_few_elements(cooperative_conv_cases()), options);
}

// Of heads that LLVM compiles in less than a second.
TEST_CASE("conformance of attention by lanes", "[lanes]") {
  std::vector<Case> cases = attention_cases();
  const Dim widest = 100;
  std::erase_if(cases,
                [&](const Case& test) { return test.inputs[0]->type.shape.back() > widest; });
  check_family(cases, {.target = "vulkan", .device_model = "lavapipe"});
}

// A case of each operator and type of blocks: LLVM takes half a second for each.
TEST_CASE("conformance of weights in blocks by lanes", "[lanes]") {
  std::set<std::pair<std::string, DType>> seen;
  for (std::vector<Case> cases : {fused_dequant_cases(), weighted_matmul_cases()}) {
    std::erase_if(cases, [&seen](const Case& test) {
      if (!test.inputs[1]) return true;
      const DType w = test.inputs[1]->type.dtype;
      return !is_block_type(w) || !seen.insert({test.op, w}).second;
    });
    check_family(cases, {.target = "vulkan", .device_model = "lavapipe"});
  }
}

// What smaller tiles or the library would take.
TEST_CASE("conformance of products in large tiles", "[large_tiles]") {
  check_family(of_halves({matmul_cases()}),
               {.target = "cuda", .without = {"matmul_mma", "library", "matvec", "matvec_stream"}});
}

// Convolutions whose pixels the copy engine collects; smaller ones than those that it is taken for.
TEST_CASE("conformance of convolutions by windows in large tiles", "[large_tiles]") {
  check_family(conv_window_cases(), {.target = "cuda", .without = {"conv_mma"}});
}

// Where halves are the device's own conversions.
TEST_CASE("conformance of native halves", "[native_halves]") {
  check_family(of_halves({unary_cases(), binary_cases(), cast_cases(), reduce_cases(),
                          softmax_cases(), norm_cases(), pool_cases()}),
               {.target = "vulkan-nvidia"});
}

TEST_CASE("the record of conformance knows every case of the tables", "[record]") {
  std::map<std::string, size_t> counts;
  const auto count = [&counts](const std::vector<Case>& cases) {
    for (const Case& test : cases) ++counts[tally_key(test)];
  };
#define RLX_OPS(family, ...) count(family##_cases());
#include "compiler/ops/ops.def"
#undef RLX_OPS
  count(element_type_cases());
  std::map<std::string, size_t> recorded;
  for (const ConformanceRow& row : conformance_rows()) {
    recorded[std::string(row.op) + " " + std::string(row.dtype)] = row.runs[0].cases;
  }
  // Forms that other ops take while compiling; and a write, whose effect shows in a later run, and
  // nodes with bodies (tests/compile).
  const std::set<std::string_view> without = {
      "one_hot_at", "state_write", "conv_transpose_gather", "coded_matmul", "if", "while", "loop",
      "scan",       "call"};
  for (const OpDef* op : all_ops()) {
    INFO(op->name << ": an operator has cases, or is known to have none");
    CHECK(conformance_rows(op->name).empty() == (without.count(op->name) == 1));
  }
  INFO("after a change of tables: tools/record_conformance says how to record a run");
  for (const auto& [key, cases] : counts) {
    INFO(key << ": cases in the tables, and in the record");
    CHECK(cases == recorded[key]);
  }
  for (const auto& [key, cases] : recorded) {
    INFO(key << ": the tables have no such cases any more");
    CHECK(counts.count(key) == 1);
  }
}

}  // namespace rlx::test
