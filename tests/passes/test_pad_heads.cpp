// SPDX-License-Identifier: Apache-2.0
// Heads of a size that matrix units do not take are filled up where that is faster, and only there.
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

// Attention of four heads of 20, `tokens` of them, as exporters give it.
Module attention(const std::string& tokens, const std::string& layout,
                 const std::string& attributes = "", const std::string& size = "20") {
  const std::string shape =
      layout == "bsd" ? "[1, " + tokens + ", 80]" : "[1, 4, " + tokens + ", " + size + "]";
  return module_of(R"("inputs": [)" + input_text("q", shape, "f16") + ", " +
                   input_text("k", shape, "f16") + ", " + input_text("v", shape, "f16") +
                   R"(], "nodes": [)" +
                   op_text("attention", R"("q", "k", "v")", "y",
                           R"("num_heads": 4, "head_dim": )" + size + R"(, "q_layout": ")" +
                               layout + R"(", "kv_layout": ")" + layout + "\"" + attributes) +
                   R"(], "outputs": ["y"])");
}

}  // namespace

TEST_CASE("heads of 20 are filled up to 24 and cut again, with the scale that they had") {
  Module module = attention("2048", "bhsd", R"(, "causal": true)");
  CHECK(apply_for(pad_heads, module, "cuda", 2e-3) == 1);
  const Node& node = only_node(module, "attention");
  CHECK(attribute_of<int64_t>(node, "head_dim") == 24);
  CHECK(attribute_of<double>(node, "scale") == Approx(0.2236068));
  CHECK(only_node(module, "narrow").attributes.at("len") == AttributeValue(int64_t{20}));
}

TEST_CASE("heads in one axis are set apart first") {
  Module many = attention("4096", "bsd");
  CHECK(apply(pad_heads, many, {.target = find_target("cuda")}) == 1);
  CHECK(output_lines(many).at(0).find("f16[1, 4096, 80]") != std::string::npos);
  CHECK(attribute_of<std::string>(only_node(many, "attention"), "q_layout") == "bshd");
}

TEST_CASE("of cooperative matrices too, which take a fifth of the time of threads") {
  Module many = attention("1024", "bhsd");
  CHECK(apply_for(pad_heads, many, "vulkan-nvidia", 2e-3) == 1);
  Module few = attention("64", "bhsd");
  CHECK(apply_for(pad_heads, few, "vulkan-nvidia") == 0);
}

TEST_CASE("heads stay where copies take longer, where they fit, and where there are no matrices") {
  Module few = attention("4", "bhsd");
  CHECK(apply_for(pad_heads, few, "cuda") == 0);
  Module fits = attention("4096", "bhsd", "", "24");
  CHECK(apply(pad_heads, fits, {.target = find_target("cuda")}) == 0);
  Module plain = attention("4096", "bhsd");
  CHECK(apply(pad_heads, plain, {.target = find_target("vulkan")}) == 0);
}

}  // namespace rlx::test
