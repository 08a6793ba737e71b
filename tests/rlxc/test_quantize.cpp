// SPDX-License-Identifier: Apache-2.0
// `rlxc quantize` as a user would run it.
#include "tests/rlxc/tool_run.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_writer.h"

using namespace rlx::test;

TEST_CASE("quantize writes a smaller model and tells what stayed") {
  const Workplace place;
  GgufWriter writer;
  writer.zeros("output.weight", {64, 4}).zeros("a_norm.weight", {64}).zeros("odd.weight", {8, 2});
  const std::string model = place.write("in.gguf", writer.bytes());
  const std::string out = place.path("out.gguf");
  const ToolResult done = place.rlxc({"quantize", model, out, "--type", "q4_0"});
  CHECK(done.errors.empty());
  CHECK(done.exit_code == 0);
  CHECK(done.output.find("q4_0: 1 tensor, 144 B\n") != std::string::npos);
  CHECK(done.output.find("of one dimension: 1 tensor, 256 B: \"a_norm.weight\"") !=
        std::string::npos);
  CHECK(done.output.find("of rows that are not whole blocks: 1 tensor, 64 B: \"odd.weight\"") !=
        std::string::npos);
  CHECK(std::filesystem::file_size(out) < 800);
}

TEST_CASE("quantize refuses what is no GGUF file, and types that it does not make") {
  const Workplace place;
  const std::string other = place.write("a.json", "{}");
  const ToolResult no_file = place.rlxc({"quantize", other, place.path("o"), "--type", "q4_0"});
  CHECK(no_file.exit_code == 2);
  CHECK(no_file.errors.find("quantize reads GGUF files") != std::string::npos);
  const ToolResult no_type = place.rlxc({"quantize", other, place.path("o"), "--type", "q9"});
  CHECK(no_type.exit_code == 1);
  CHECK(no_type.errors.find("\"q9\", which is no type") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(place.path("o")));
  const ToolResult same = place.rlxc({"quantize", other, other, "--type", "q4_0"});
  CHECK(same.exit_code == 1);
  CHECK(same.errors.find("is the model itself") != std::string::npos);
}
