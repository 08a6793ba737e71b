// SPDX-License-Identifier: Apache-2.0
// Cases of rope_append, whose evaluator is the composition of rope, transpose and kv_append.
#include "tests/support/case.h"

namespace rlx::test {

namespace {

struct Sizes {
  int64_t batch;
  int64_t tokens;
  int64_t heads;
  int64_t key_heads;
  int64_t head_dim;
};

CaseTensor table(const Sizes& sizes, DType dtype = DType::f32, int64_t more = 0) {
  return tensor(dtype, {16, sizes.head_dim / 2 + more}).uniform(-1, 1);
}

// Queries and keys only.
Case rotate(const std::string& law, DType dtype, const Sizes& s,
            std::optional<CaseTensor> positions, const std::string& attributes) {
  std::vector<std::optional<CaseTensor>> inputs = {
      tensor(dtype, {s.batch, s.tokens, s.heads, s.head_dim}),
      tensor(dtype, {s.batch, s.tokens, s.key_heads, s.head_dim}), std::nullopt, table(s),
      table(s)};
  if (positions) inputs.push_back(positions);
  return {.name = law,
          .op = "rope_append",
          .inputs = std::move(inputs),
          .attributes = attributes,
          .tolerance = Tolerance::Norm,
          .outputs = 2};
}

Case append(const std::string& law, DType dtype, const Sizes& s, int64_t capacity,
            const CaseTensor& position, const std::string& layout = "bhsd",
            const std::string& more = "", std::optional<DType> stored = std::nullopt) {
  const Shape keys = {s.batch, s.tokens, s.key_heads, s.head_dim};
  const Shape cache = layout == "bhsd" ? Shape{s.batch, s.key_heads, capacity, s.head_dim}
                                       : Shape{s.batch, capacity, s.key_heads, s.head_dim};
  return {.name = law + " " + layout,
          .op = "rope_append",
          .inputs = {tensor(dtype, {s.batch, s.tokens, s.heads, s.head_dim}), tensor(dtype, keys),
                     tensor(dtype, keys), table(s), table(s, DType::f16), position,
                     tensor(stored.value_or(dtype), cache), tensor(stored.value_or(dtype), cache)},
          .attributes = R"({"kv_layout": ")" + layout + "\"" + more + "}",
          .tolerance = Tolerance::Norm,
          .outputs = 3};
}

}  // namespace

std::vector<Case> rope_append_cases() {
  std::vector<Case> cases;
  const auto scalar = [](int64_t value, DType dtype = DType::i32) {
    return tensor(dtype, {}).of_integers({value});
  };
  const Sizes even = {.batch = 2, .tokens = 3, .heads = 4, .key_heads = 2, .head_dim = 16};
  const Sizes odd = {.batch = 1, .tokens = 5, .heads = 3, .key_heads = 3, .head_dim = 10};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    cases.push_back(rotate("queries and keys", dtype, even, std::nullopt, "{}"));
    cases.push_back(
        rotate("pairs that are no vectors", dtype, odd, scalar(4), R"({"position_offset": 2})"));
    for (const char* layout : {"bhsd", "bshd"}) {
      cases.push_back(append("T155 appends", dtype, even, 9, scalar(4), layout));
      cases.push_back(
          append("T155 appends odd heads", dtype, odd, 7, scalar(1, DType::i64), layout));
    }
  }
  cases.push_back(rotate("gptj", DType::f32, even, std::nullopt, R"({"style": "gptj"})"));
  cases.push_back(rotate("inverse", DType::f32, even, std::nullopt, R"({"inverse": true})"));
  cases.push_back(
      rotate("T83 rows outside the table are clamped", DType::f32, even, scalar(15), "{}"));
  cases.push_back(append("gptj, one token", DType::f32,
                         {.batch = 1, .tokens = 1, .heads = 8, .key_heads = 2, .head_dim = 8}, 4,
                         scalar(3), "bhsd", R"(, "style": "gptj")"));
  cases.push_back(
      append("T155 rows beyond the capacity are dropped", DType::f32, even, 5, scalar(4)));
  cases.push_back(
      append("a position below 0 counts from the end", DType::f32, even, 5, scalar(-2)));
  cases.push_back(append("an offset moves the angle, not the row", DType::f32, even, 8, scalar(2),
                         "bshd", R"(, "position_offset": 5)"));
  for (const auto& [dtype, stored] :
       {std::pair(DType::f32, DType::f16), std::pair(DType::f16, DType::f32)}) {
    cases.push_back(
        append("caches of another float dtype", dtype, even, 9, scalar(4), "bhsd", "", stored));
    cases.push_back(append("caches of another float dtype, odd heads", dtype, odd, 7, scalar(1),
                           "bshd", "", stored));
  }
  for (const Sizes& sizes : {even, odd}) {
    cases.push_back(append("queries of halves beside caches of halves", DType::f32, sizes, 9,
                           scalar(4), "bhsd", R"(, "q_dtype": "f16")", DType::f16));
  }
  cases.push_back(append("queries of another float dtype, gptj", DType::f16, even, 9, scalar(2),
                         "bshd", R"(, "style": "gptj", "q_dtype": "bf16")"));
  return cases;
}

}  // namespace rlx::test
