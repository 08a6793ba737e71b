// SPDX-License-Identifier: Apache-2.0
// Fourier transforms and what is made of spectra, inside graphs.
#include "tests/compile/graph_text.h"

namespace rlx::test {

TEST_CASE("T36 log_mel and welch_peaks first, in the middle, last and twice") {
  const std::string welch = R"({"k": 3, "n_segments": 2})";
  const std::string nodes =
      node("log_mel", R"("spec", "filters")", "first") + "," +
      node("welch_peaks", R"("spec")", "bins", welch) + "," +
      node("cast", R"("bins")", "places", R"({"to": "f32"})") + "," +
      node("add", R"("first", "first")", "twice") + "," +
      node("concat", R"("twice", "first")", "middle_spec", R"({"axis": 1})") + "," +
      node("log_mel", R"("middle_spec", "filters")", "middle", R"({"scope": "frame"})") + "," +
      node("mul", R"("middle", "first")", "mixed") + "," +
      node("reduce_sum", R"("places")", "sum") + "," + node("add", R"("mixed", "sum")", "shifted") +
      "," + node("concat", R"("shifted", "shifted")", "last_spec", R"({"axis": 1})") + "," +
      node("log_mel", R"("last_spec", "filters")", "last") + "," +
      node("log_mel", R"("last_spec", "filters")", "again", R"({"scope": "tensor"})");
  check_on_devices(graph(input("spec", "[6, 8]") + "," + input("filters", "[4, 3]"), nodes,
                         R"("last", "again", "mixed", "sum")"));
}

TEST_CASE("T123 there and back again, between other nodes") {
  for (const std::string points : {"60", "97", "5000"}) {
    INFO(points << " points");
    const std::string nodes =
        node("mul", R"("x", "x")", "squared") + "," + node("rfft", R"("squared")", "spectrum") +
        "," + node("conjugate", R"("spectrum")", "turned") + "," +
        node("irfft", R"("turned")", "back", R"({"norm": "backward", "n": )" + points + "}") + "," +
        node("add", R"("back", "x")", "y");
    check_on_devices(graph(input("x", "[3, " + points + "]"), nodes));
  }
}

TEST_CASE("transforms read views and write parts of a concat") {
  const std::string nodes =
      node("transpose", R"("x")", "columns", R"({"perm": [1, 0]})") + "," +
      node("rfft", R"("columns")", "a", R"({"layout": "interleaved"})") + "," +
      node("narrow", R"("x")", "part", R"({"axis": 1, "start": 3, "len": 20})") + "," +
      node("transpose", R"("part")", "part_columns", R"({"perm": [1, 0]})") + "," +
      node("rfft", R"("part_columns")", "b", R"({"layout": "interleaved"})") + "," +
      node("concat", R"("a", "b")", "y", R"({"axis": 0})");
  const std::string text = graph(input("x", "[16, 37]"), nodes);
  check_on_devices(text);
  CHECK(steps_of(text) == 2);
}

}  // namespace rlx::test
