// SPDX-License-Identifier: Apache-2.0
// Libraries of kernels without the functions that a kernel does not need.
#include <algorithm>

#include "compiler/emit/needed_functions.h"
#include "tests/support/catch.h"

using namespace rlx;

namespace {

constexpr std::string_view kLibrary = R"(// double() is a word here, no call.
#define CALLS(x) by_macro(x)
#define MAKES(name) \
RLX_FN int name() { return 5; }
RLX_FN int once(int x) { return x; }
RLX_FN int twice(int x) {
  return once(x) + once(x);
}
template <int kN>
RLX_BIG_FN int deep(int x) {
  if (x == 0) {
    return kN;
  }
  return deep<kN>(x - 1);
}
RLX_FN int declared(int x);
RLX_FN int RLX_CAT(made_, RLX_X)(int x) { return x; }
RLX_FN float load_f32(int x) { return x; }
RLX_FN float load_f16(int x) { return x; }
RLX_FN float loader(int x) { return x; }
RLX_FN int by_macro(int x) { return x; }
RLX_FN int double(int x) { return 2 * x; }
RLX_FN int double(float x) { return 2 * x; }
)";

std::string kept(std::string_view kernel) {
  std::string text = without_unneeded_functions(kernel, {kLibrary})[0];
  CHECK(std::ranges::count(text, '\n') == std::ranges::count(kLibrary, '\n'));
  return text;
}

bool has(const std::string& text, std::string_view words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("what a kernel names stays, with what that names") {
  const std::string text = kept("int x = twice(3);");
  CHECK(has(text, "RLX_FN int once"));
  CHECK(has(text, "once(x) + once(x);\n}\n"));
  CHECK_FALSE(has(text, "deep"));
  CHECK_FALSE(has(text, "kN"));
  CHECK_FALSE(has(text, "int double("));
  CHECK_FALSE(has(text, "load"));
}

TEST_CASE("macros, declarations and names that macros make stay as they are") {
  const std::string text = kept("");
  CHECK(has(text, "MAKES(name) \\\nRLX_FN int name() { return 5; }"));
  CHECK(has(text, "RLX_FN int declared(int x);"));
  CHECK(has(text, "RLX_CAT(made_, RLX_X)(int x)"));
  CHECK(has(text, "RLX_FN int by_macro(int x) { return x; }"));
  CHECK_FALSE(has(text, "RLX_FN int once"));
}

TEST_CASE("the beginning of a name stands for all that go on from it") {
  const std::string text = kept("RLX_CAT(load_, RLX_X)(1)");
  CHECK(has(text, "load_f32"));
  CHECK(has(text, "load_f16"));
  CHECK_FALSE(has(text, "loader"));
}

TEST_CASE("functions that share a name stay together, a template with its line") {
  CHECK(has(kept("double(1)"), "double(int x) { return 2 * x; }\nRLX_FN int double(float x)"));
  CHECK(has(kept("deep<3>(1)"), "template <int kN>\nRLX_BIG_FN int deep"));
  CHECK_FALSE(has(kept("// double(1)"), "int double("));
}

TEST_CASE("libraries need each other's functions") {
  const std::vector<std::string> texts = without_unneeded_functions(
      "a();", {"RLX_FN int b() { return 1; }\nRLX_FN int c() { return 2; }\n",
               "RLX_FN int a() {\n  return b();\n}"});
  CHECK(texts[0] == "RLX_FN int b() { return 1; }\n\n");
  CHECK(texts[1] == "RLX_FN int a() {\n  return b();\n}");
}
