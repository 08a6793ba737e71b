// SPDX-License-Identifier: Apache-2.0
// The tables of forms over rows as users of rlxc meet them: --why and --without.
#include "tests/rlxc/tool_run.h"
#include "tests/support/catch.h"

using namespace rlx::test;

namespace {

// Compiles to net.plan and asks why it is as it is.
std::string why_of(const Workplace& place, const std::vector<std::string>& compile) {
  const ToolResult compiled = place.rlxc(compile);
  INFO(compiled.errors);
  REQUIRE(compiled.exit_code == 0);
  return place.rlxc({"inspect", place.path("net.plan"), "--why"}).output;
}

}  // namespace

TEST_CASE("inspect --why prints the forms of rows, and --without leaves them out") {
  const Workplace place;
  const std::string network = R"({"rlx_graph": 1,
    "inputs": [{"name": "x", "dtype": "f32", "shape": [300, 40]}],
    "nodes": [{"name": "soft", "op": "softmax", "inputs": ["x"], "outputs": ["s"]},
              {"name": "norm", "op": "rms_norm", "inputs": ["x"], "outputs": ["n"]},
              {"name": "l2", "op": "l2_norm", "inputs": ["x"], "outputs": ["l"]},
              {"name": "sum", "op": "reduce_sum", "inputs": ["x"], "outputs": ["r"],
               "attributes": {"axes": [0]}},
              {"name": "arg", "op": "argmax", "inputs": ["x"], "outputs": ["a"],
               "attributes": {"axis": 0}},
              {"name": "scan", "op": "cumsum", "inputs": ["x"], "outputs": ["c"],
               "attributes": {"axis": 0}},
              {"name": "order", "op": "sort", "inputs": ["x"], "outputs": ["o"]}],
    "outputs": ["s", "n", "l", "r", "a", "c", "o"]})";
  place.write("net.json", network);
  const std::vector<std::string> compile = {
      place.path("net.json"), "-o", place.path("net.plan"), "--target", "vulkan", "-q"};
  const std::string why = why_of(place, compile);
  for (const char* row :
       {"softmax narrow teams  fewer than ", "or else softmax read twice    at least ",
        "norm in parts      rows that fit registers", "or else norm read again    at least ",
        "moments column         rows that do not stand side by side",
        "reduce column         at least ", "arg_reduce row chunks     enough rows to keep",
        "scan row            at least ", "sort merged runs  at least "}) {
    INFO(row << "\n" << why);
    CHECK(why.find(row) != std::string::npos);
  }
  std::vector<std::string> without = compile;
  without.insert(without.end(), {"--without",
                                 "softmax in registers,norm in registers,reduce column,"
                                 "arg_reduce column,scan column,sort tiles"});
  const std::string next = why_of(place, without);
  size_t left_out = 0;
  const std::string sentence = "left out by --without";
  for (size_t at = next.find(sentence); at != std::string::npos; at = next.find(sentence, at + 1)) {
    ++left_out;
  }
  CHECK(left_out == 6);
}
