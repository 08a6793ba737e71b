// SPDX-License-Identifier: Apache-2.0
// channel_products: linear layers between a transpose and its inverse.
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

std::string numbers(int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::to_string(i % 5 - 1);
  return text + "]";
}

// x [2, 3, 4, 5], its transpose t, then `nodes`; weights w [6, 3], v [6, 6], c [3, 6] and b [6].
Module mixed(const std::string& nodes, const std::string& outputs = R"("y")",
             const std::string& perm = "[0, 2, 3, 1]", const std::string& x = "[2, 3, 4, 5]") {
  return module_of(R"("inputs": [)" + input_text("x", x) + ", " + input_text("g", "[6, 3]") + ", " +
                   input_text("r", "[2, 4, 5, 6]") + R"(], "constants": [)" +
                   constant_text("w", "[6, 3]", numbers(18)) + ", " +
                   constant_text("v", "[6, 6]", numbers(36)) + ", " +
                   constant_text("c", "[3, 6]", numbers(18)) + ", " +
                   constant_text("b", "[6]", numbers(6)) + R"(], "nodes": [)" +
                   op_text("transpose", R"("x")", "t", R"("perm": )" + perm) + ", " + nodes +
                   R"(], "outputs": [)" + outputs + "]");
}

const std::string kProduct = op_text("matmul", R"("t", "w")", "p", R"("trans_b": true)");

std::string back(const std::string& from, const std::string& perm = "[0, 3, 1, 2]") {
  return ", " + op_text("transpose", "\"" + from + "\"", "y", R"("perm": )" + perm);
}

}  // namespace

TEST_CASE("products between a transpose and its inverse go over the axis as it stands") {
  Module plain = mixed(kProduct + back("p"));
  CHECK(apply_keeping_values(channel_products, plain) == 1);
  CHECK(node_lines(plain) ==
        Lines{"reshape(x)", "reshape(w)", "conv(p.reshape, p.reshape.1)", "reshape(p.1)"});
  Module columns = mixed(op_text("matmul", R"("t", "c")", "p") + back("p"));
  CHECK(apply_keeping_values(channel_products, columns) == 1);
  Module fused = mixed(op_text("fused_matmul_bias_act", R"("t", "w", "b")", "p",
                               R"("trans_w": true, "activation": "relu")") +
                       back("p"));
  CHECK(apply_keeping_values(channel_products, fused) == 1);
  Module middle =
      mixed(op_text("matmul", R"("t", "w")", "p", R"("trans_b": true)") + back("p", "[0, 1, 3, 2]"),
            R"("y")", "[0, 1, 3, 2]", "[2, 4, 3, 9]");
  CHECK(apply_keeping_values(channel_products, middle) == 1);
}

TEST_CASE("biases, curves and further products stand between the transposes") {
  Module layers = mixed(kProduct + ", " + op_text("add", R"("p", "b")", "q") + ", " +
                        op_text("gelu", R"("q")", "a") + ", " +
                        op_text("matmul", R"("a", "v")", "z", R"("trans_b": true)") + ", " +
                        op_text("mul", R"("b", "z")", "m") + back("m"));
  CHECK(apply_keeping_values(channel_products, layers) == 1);
  const Lines lines = node_lines(layers);
  CHECK(std::count_if(lines.begin(), lines.end(),
                      [](const std::string& line) { return line.starts_with("conv("); }) == 2);
  CHECK(std::none_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("transpose(") || line.starts_with("add(");
  }));
}

TEST_CASE("what is no product along an inner axis stays") {
  const auto stays = [](const std::string& nodes, const std::string& outputs = R"("y")",
                        const std::string& perm = "[0, 2, 3, 1]",
                        const std::string& x = "[2, 3, 4, 5]") {
    check_stays(channel_products, mixed(nodes, outputs, perm, x));
  };
  stays(kProduct + back("p", "[0, 3, 2, 1]"));        // another way back
  stays(kProduct + back("p"), R"("y", "p")");         // the lines are read too
  stays(op_text("relu", R"("t")", "p") + back("p"));  // no product
  stays(op_text("matmul", R"("t", "g")", "p", R"("trans_b": true)") + back("p"));  // no weights
  stays(kProduct + ", " + op_text("add", R"("p", "r")", "q") + back("q"));  // a whole value joins
  stays(kProduct + ", " + op_text("softmax", R"("p")", "q") + back("q"));   // lines are one thing
  stays(kProduct + back("p"), R"("y")", "[0, 3, 2, 1]");  // the others change places
  stays(kProduct + back("p", "[0, 2, 1]"), R"("y")", "[0, 2, 1]", "[2, 3, 4]");  // few pixels
}

}  // namespace rlx::test
