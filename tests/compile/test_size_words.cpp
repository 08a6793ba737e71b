// SPDX-License-Identifier: Apache-2.0
// Weights that are made when a plan is loaded, by kernels that take sizes as words.
#include "compiler/lower/lower.h"
#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

std::string seeded(const std::string& name, const std::string& shape) {
  return R"({"name": ")" + name + R"(", "dtype": "f32", "shape": )" + shape +
         R"(, "data": {"random": {"distribution": "uniform", "low": -1.0, "high": 1.0, "seed": 7}}})";
}

// y<i> = x<i> + what is made of w<i> [3, rows, columns] and r<i> [columns]: a product with a row in
// several loops, one with itself in one, a transposition through tiles, and every second column.
std::string made_of(int64_t rows, int64_t columns, const std::string& i) {
  const std::string size = std::to_string(rows) + ", " + std::to_string(columns);
  return node("mul", R"("w)" + i + R"(", "r)" + i + "\"", "a" + i) + "," +
         node("mul", R"("a)" + i + R"(", "a)" + i + "\"", "b" + i) + "," +
         node("transpose", "\"b" + i + "\"", "c" + i, R"({"perm": [0, 2, 1]})") + "," +
         node("slice", "\"c" + i + "\"", "d" + i,
              R"({"axes": [2], "starts": [0], "ends": [)" + std::to_string(rows) +
                  R"(], "steps": [2]})") +
         "," + node("add", R"("x)" + i + R"(", "c)" + i + "\"", "y" + i) + "," +
         node("mul", R"("v)" + i + R"(", "d)" + i + "\"", "z" + i);
}

std::string made_weights() {
  return R"({"rlx_graph": 1, "inputs": [)" + input("x0", "[3, 24, 16]") + "," +
         input("v0", "[3, 24, 8]") + "," + input("x1", "[3, 20, 24]") + "," +
         input("v1", "[3, 20, 12]") + R"(], "params": [)" + seeded("w0", "[3, 16, 24]") + "," +
         seeded("r0", "[24]") + "," + seeded("w1", "[3, 24, 20]") + "," + seeded("r1", "[20]") +
         R"(], "nodes": [)" + made_of(16, 24, "0") + "," + made_of(24, 20, "1") +
         R"(], "outputs": ["y0", "z0", "y1", "z1"]})";
}

}  // namespace

TEST_CASE("weights_made_by_words_are_right_on_every_device") {
  check_on_devices(made_weights());
}

TEST_CASE("weights_of_other_sizes_take_no_kernels_of_their_own") {
  CompileOptions options = test_options(2);
  options.targets.resize(1);
  Diagnostics diagnostics;
  CompileSummary summary;
  REQUIRE(compile_to_bytes(module_from(made_weights()), options, diagnostics, &summary));
  CompileSummary alone;
  const std::string one = R"({"rlx_graph": 1, "inputs": [)" + input("x0", "[3, 24, 16]") + "," +
                          input("v0", "[3, 24, 8]") + R"(], "params": [)" +
                          seeded("w0", "[3, 16, 24]") + "," + seeded("r0", "[24]") +
                          R"(], "nodes": [)" + made_of(16, 24, "0") +
                          R"(], "outputs": ["y0", "z0"]})";
  REQUIRE(compile_to_bytes(module_from(one), options, diagnostics, &alone));
  // Those of the run, add and mul, stand beside them with numbers.
  CHECK(summary.kernels <= alone.kernels + 2);
}

}  // namespace rlx::test
