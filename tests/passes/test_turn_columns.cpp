// SPDX-License-Identifier: Apache-2.0
// turn_columns: weights [K, N] as rows where a kernel of rows alone is expected to be faster.
#include "tests/passes/pass_support.h"

namespace rlx::test {
namespace {

// y = gelu(x w): x [m, 384], w [384, 1536], which `more` may read as well.
Module product(const std::string& m, const std::string& more = "", const std::string& dtype = "f16",
               bool is_weight = true) {
  const std::string type = R"("dtype": ")" + dtype + R"(", "shape": )";
  const std::string w = R"({"name": "w", )" + type + "[384, 1536]";
  return module_of(
      R"("inputs": [{"name": "x", )" + type + "[" + m + R"(, 384]})" +
      (is_weight ? R"(], "params": [)" + w + R"(, "data": {"splat": 0.5}})" : ", " + w + "}") +
      R"(], "nodes": [{"op": "fused_matmul_bias_act", "inputs": ["x", "w"],
                        "outputs": ["y"], "attributes": {"activation": "gelu"}})" +
      more + R"(], "outputs": ["y"])");
}

size_t turned(Module& module, const char* target) {
  Diagnostics diagnostics;
  const size_t changed = turn_columns(module, {.target = find_target(target)}, diagnostics);
  CHECK_FALSE(diagnostics.has_errors());
  return changed;
}

}  // namespace

TEST_CASE("columns become rows where warpgroups multiply rows alone") {
  Module module = product("6272");
  CHECK(turned(module, "cuda") == 1);
  const Node& node = only_node(module, "fused_matmul_bias_act");
  CHECK(std::get<bool>(node.attributes.at("trans_w")));
  CHECK(module.entries.at(0).value(*node.inputs[1]).type.shape == Shape{1536, 384});
  CHECK(turned(module, "cuda") == 0);
}

TEST_CASE("columns become rows where few lines let rows be streamed") {
  Module few = product("8");
  CHECK(turned(few, "cuda") == 1);
}

TEST_CASE("columns stay where no kernel of rows gains, and where others read them") {
  Module single = product("6272", "", "f32");
  CHECK(turned(single, "cuda") == 0);
  Module vulkan = product("6272");
  CHECK(turned(vulkan, "vulkan") == 0);
  Module input = product("6272", "", "f16", false);
  CHECK(turned(input, "cuda") == 0);
  Module read = product("6272", R"(, {"op": "exp", "inputs": ["w"], "outputs": ["more"]})");
  CHECK(turned(read, "cuda") == 0);
}

}  // namespace rlx::test
