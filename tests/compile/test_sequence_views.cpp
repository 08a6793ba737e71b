// SPDX-License-Identifier: Apache-2.0
// Ops with a carried state read parts of projections as they stand, in any order of the steps.
#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

// `len` elements of the last axis from `start` on.
std::string part(const std::string& from, const std::string& to, int64_t start, int64_t len) {
  return node("narrow", "\"" + from + "\"", to,
              R"({"axis": -1, "start": )" + std::to_string(start) + R"(, "len": )" +
                  std::to_string(len) + "}") +
         ", ";
}

std::string heads(const std::string& from, const std::string& to, const std::string& shape) {
  return node("reshape", "\"" + from + "\"", to, R"({"shape": )" + shape + "}") + ", ";
}

const std::string kTurned = R"({"perm": [0, 2, 1]})";

}  // namespace

TEST_CASE("a_causal_convolution_between_transpositions_copies_nothing") {
  const std::string text = graph(
      input("p", "[2, 9, 12]") + ", " + input("w", "[6, 1, 4]") + ", " + input("b", "[6]"),
      part("p", "left", 0, 6) + part("p", "right", 6, 6) +
          node("transpose", R"("left")", "x", kTurned) + ", " +
          node("causal_conv1d", R"("x", "w", "b")", "c", R"({"activation": "silu"})") + ", " +
          node("transpose", R"("c")", "t", kTurned) + ", " + node("mul", R"("t", "right")", "y"));
  check_on_devices(text);
  CHECK(steps_of(text) == 2);
}

TEST_CASE("a_selective_scan_reads_parts_and_steps_from_the_end") {
  const std::string text = graph(
      input("p", "[2, 5, 12]") + ", " + input("q", "[2, 5, 14]") + ", " + input("a", "[6, 4]"),
      part("p", "x", 0, 6) + part("p", "z", 6, 6) + part("q", "delta", 0, 6) +
          part("q", "b", 6, 4) + part("q", "c", 10, 4) +
          node("reverse", R"("x")", "back", R"({"axes": [1]})") + ", " +
          node("selective_scan", R"("back", "delta", "a", "b", "c", null, "z")", "y"));
  check_on_devices(text);
  CHECK(steps_of(text) == 1);
}

TEST_CASE("linear_attention_reads_heads_of_one_projection") {
  const std::string text = graph(
      input("p", "[2, 5, 20]"),
      part("p", "q3", 0, 6) + part("p", "k3", 6, 6) + part("p", "v3", 12, 8) +
          heads("q3", "q", "[2, 5, 2, 3]") + heads("k3", "k", "[2, 5, 2, 3]") +
          heads("v3", "v", "[2, 5, 2, 4]") +
          node("gated_deltanet", R"("q", "k", "v")", "y", R"({"num_heads": 2, "rule": "linear"})"));
  check_on_devices(text);
  CHECK(steps_of(text) == 1);
}

TEST_CASE("mamba2_reads_parts_of_one_projection") {
  const std::string text =
      graph(input("p", "[2, 5, 22]") + ", " + input("a", "[2]"),
            part("p", "x3", 0, 6) + part("p", "b3", 6, 4) + part("p", "c3", 10, 4) +
                part("p", "z3", 14, 6) + part("p", "dt", 20, 2) + heads("x3", "x", "[2, 5, 2, 3]") +
                heads("z3", "z", "[2, 5, 2, 3]") + heads("b3", "b", "[2, 5, 1, 4]") +
                heads("c3", "c", "[2, 5, 1, 4]") +
                node("mamba2", R"("x", "dt", "a", "b", "c", null, "z")", "y"));
  check_on_devices(text);
  CHECK(steps_of(text) == 1);
}

}  // namespace rlx::test
