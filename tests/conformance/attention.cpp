// SPDX-License-Identifier: Apache-2.0
// Conformance of attention (ops.md 5.1).
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {

namespace {

struct Sizes {
  int64_t batch = 2;
  int64_t q_tokens = 5;
  int64_t kv_tokens = 7;
  int64_t heads = 2;
  int64_t kv_heads = 2;
  int64_t dim = 8;
  int64_t v_dim = 8;
  DType dtype = DType::f32;
};

// Attributes that tell the sizes, with `more` (", \"causal\": true") behind them.
std::string attributes_of(const Sizes& s, const std::string& more) {
  return R"({"num_heads": )" + std::to_string(s.heads) + R"(, "num_kv_heads": )" +
         std::to_string(s.kv_heads) + R"(, "head_dim": )" + std::to_string(s.dim) +
         R"(, "v_head_dim": )" + std::to_string(s.v_dim) + more + "}";
}

Tolerance tolerance_of(DType dtype) {
  const bool half = dtype == DType::f16 || dtype == DType::bf16;
  return half ? Tolerance::AttentionHalf : Tolerance::Norm;
}

// q, k, v in layout bshd, then `more_inputs`.
Case attention_case(const std::string& law, const Sizes& s, const std::string& more = "",
                    const std::vector<std::optional<CaseTensor>>& more_inputs = {},
                    size_t outputs = 2) {
  std::vector<std::optional<CaseTensor>> inputs = {
      tensor(s.dtype, {s.batch, s.q_tokens, s.heads, s.dim}),
      tensor(s.dtype, {s.batch, s.kv_tokens, s.kv_heads, s.dim}),
      tensor(s.dtype, {s.batch, s.kv_tokens, s.kv_heads, s.v_dim})};
  inputs.insert(inputs.end(), more_inputs.begin(), more_inputs.end());
  return {.name = law + " " + to_string(inputs[0]->type) + " keys " + std::to_string(s.kv_tokens),
          .op = "attention",
          .inputs = std::move(inputs),
          .attributes = attributes_of(s, more),
          .tolerance = tolerance_of(s.dtype),
          .outputs = outputs};
}

void add_golden(std::vector<Case>& cases) {
  const auto add = [&](const std::string& law, const std::string& more,
                       const std::vector<double>& first, std::vector<double> lse) {
    std::vector<double> y;
    for (const double value : first) y.insert(y.end(), {value, 10 * value});
    cases.push_back(
        {.name = law,
         .op = "attention",
         .inputs = {tensor(DType::f32, {1, 2, 2, 2}).of({1, 2, 3, -1, 0, 1, -2, 1}),
                    tensor(DType::f32, {1, 1, 3, 2}).of({1, 0, 0, 1, 1, 1}),
                    tensor(DType::f32, {1, 1, 3, 2}).of({1, 10, 2, 20, 3, 30})},
         .attributes = R"({"num_heads": 2, "num_kv_heads": 1, "head_dim": 2, "q_layout": "bhsd",
                                       "kv_layout": "bhsd")" +
                       more + "}",
         .tolerance = Tolerance::Norm,
         .outputs = 2,
         .golden = {y, std::move(lse)}});
  };
  add("golden, causal, align end", R"(, "causal": true)", {1.669762, 1.673406, 1.669762, 2.090421},
      {1.815047, 2.560977, 1.10794, 1.016788});
  add("golden, causal, align start", R"(, "causal": true, "causal_align": "start")",
      {1, 1.055807, 1, 1.892958}, {});
  cases.back().golden.pop_back();
  add("golden, sinks", R"(, "causal": true)", {1.316367, 1.484398, 1.488881, 1.844898},
      {2.052852, 2.680829, 1.222597, 1.141729});
  cases.back().inputs.resize(7);
  cases.back().inputs.emplace_back(tensor(DType::f32, {2}).of({0.5, -1}));
  add("T73 golden, window, scale, softcap",
      R"(, "causal": true, "window_left": 1, "scale": 0.5, "softcap": 2)",
      {1.606923, 2.804407, 1.620068, 2.272956}, {1.423587, 1.141884, 0.9677633, 0.8086061});
}

void add_sizes(std::vector<Case>& cases) {
  // Enough tiles of rows to fill a device, and many keys.
  cases.push_back(attention_case("a long prefill",
                                 {.batch = 1,
                                  .q_tokens = 200,
                                  .kv_tokens = 520,
                                  .heads = 128,
                                  .kv_heads = 1,
                                  .dim = 16,
                                  .v_dim = 16,
                                  .dtype = DType::f16},
                                 R"(, "causal": true)"));
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    cases.push_back(attention_case("primes", {.q_tokens = 17,
                                              .kv_tokens = 43,
                                              .heads = 3,
                                              .kv_heads = 3,
                                              .dim = 13,
                                              .v_dim = 11,
                                              .dtype = dtype}));
    cases.push_back(attention_case("MiniLM's heads", {.batch = 1,
                                                      .q_tokens = 40,
                                                      .kv_tokens = 40,
                                                      .heads = 3,
                                                      .kv_heads = 3,
                                                      .dim = 32,
                                                      .v_dim = 32,
                                                      .dtype = dtype}));
    cases.push_back(attention_case("T70 grouped heads", {.q_tokens = 9,
                                                         .kv_tokens = 9,
                                                         .heads = 8,
                                                         .kv_heads = 2,
                                                         .dim = 16,
                                                         .v_dim = 16,
                                                         .dtype = dtype}));
    cases.push_back(attention_case("one query", {.q_tokens = 1,
                                                 .kv_tokens = 700,
                                                 .heads = 4,
                                                 .kv_heads = 2,
                                                 .dim = 64,
                                                 .v_dim = 64,
                                                 .dtype = dtype}));
  }
  for (const int64_t dim : {1, 25, 40, 80, 96, 128, 192, 256, 512}) {
    cases.push_back(attention_case("T71 head_dim", {.batch = 1,
                                                    .q_tokens = 19,
                                                    .kv_tokens = 37,
                                                    .heads = 1,
                                                    .kv_heads = 1,
                                                    .dim = dim,
                                                    .v_dim = dim}));
    cases.push_back(attention_case("T71 head_dim, one query", {.batch = 1,
                                                               .q_tokens = 1,
                                                               .kv_tokens = 37,
                                                               .heads = 1,
                                                               .kv_heads = 1,
                                                               .dim = dim,
                                                               .v_dim = dim}));
  }
  cases.push_back(attention_case("T71 v_head_dim above", {.dim = 24, .v_dim = 100}));
  cases.push_back(attention_case("T71 v_head_dim below", {.dim = 130, .v_dim = 1}));
  cases.push_back(attention_case("T71 v_head_dim 512", {.dim = 1, .v_dim = 512}));
  cases.push_back(attention_case("T70 one kv head", {.heads = 8, .kv_heads = 1}));
  cases.push_back(attention_case("many queries: wide tiles",
                                 {.batch = 4,
                                  .q_tokens = 70,
                                  .kv_tokens = 70,
                                  .heads = 40,
                                  .kv_heads = 40,
                                  .dim = 4,
                                  .v_dim = 4},
                                 R"(, "causal": true)", {}, 1));
  cases.push_back(attention_case("two query tiles per thread row",
                                 {.batch = 8,
                                  .q_tokens = 33,
                                  .kv_tokens = 65,
                                  .heads = 16,
                                  .kv_heads = 4,
                                  .dim = 72,
                                  .v_dim = 36},
                                 "", {}, 1));
  cases.push_back(attention_case(
      "four queries split their keys",
      {.q_tokens = 4, .kv_tokens = 1100, .heads = 2, .kv_heads = 1, .dim = 40, .v_dim = 48}));
  cases.push_back(attention_case("three queries of wide heads",
                                 {.q_tokens = 3, .kv_tokens = 20, .dim = 200, .v_dim = 160}));
  cases.push_back(attention_case("empty keys", {.kv_tokens = 0}));
  cases.push_back(attention_case("T19 no queries", {.q_tokens = 0}));
  Case mixed = attention_case("k and v of other dtypes",
                              {.q_tokens = 6, .kv_tokens = 40, .dim = 16, .v_dim = 16});
  mixed.inputs[1]->type.dtype = DType::f16;
  mixed.inputs[2]->type.dtype = DType::bf16;
  mixed.tolerance = Tolerance::AttentionHalf;
  cases.push_back(mixed);
}

// Few queries whose keys are split over workgroups, merged by a second dispatch.
void add_split_keys(std::vector<Case>& cases) {
  const Sizes shared{.batch = 1,
                     .q_tokens = 1,
                     .kv_tokens = 900,
                     .heads = 6,
                     .kv_heads = 2,
                     .dim = 64,
                     .v_dim = 64};
  const auto add = [&](const std::string& law, const Sizes& s, const std::string& more = "",
                       const std::vector<std::optional<CaseTensor>>& more_inputs = {}) {
    cases.push_back(attention_case("split keys, " + law, s, more, more_inputs));
  };
  // Three heads read a kv head, two at a time: one row of the last tile does not exist.
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    Sizes s = shared;
    s.dtype = dtype;
    add("T70 three heads a kv head", s);
  }
  for (const int64_t held : {0, 1, 15, 900, 5000}) {
    add("kv_len " + std::to_string(held), shared, "",
        {std::nullopt, std::nullopt, tensor(DType::i64, {1}).of({static_cast<double>(held)})});
  }
  add("T76 bias of each head", shared, "", {std::nullopt, tensor(DType::f32, {1, 6, 1, 900})});
  add("T80 mask of each head, NaN in v", shared, "", {tensor(DType::bool_, {1, 6, 1, 900}).of([] {
        std::vector<double> mask(5400, 1);
        for (size_t i = 0; i < mask.size(); i += 900) mask[i + 17] = 0;
        return mask;
      }())});
  std::vector<double> values(115200, 0.5);
  for (const size_t head : {0, 1}) {
    for (size_t d = 0; d < 64; ++d)
      values[(17 * 2 + head) * 64 + d] = d % 2 == 0 ? kNan : kInfinity;
  }
  cases.back().inputs[2] = cases.back().inputs[2]->of(values);
  add("T73 window and softcap",
      {.q_tokens = 4, .kv_tokens = 700, .kv_heads = 1, .dim = 12, .v_dim = 20},
      R"(, "causal": true, "window_left": 300, "softcap": 2)");
  add("wide heads of several pieces a thread",
      {.batch = 1, .q_tokens = 2, .kv_tokens = 300, .kv_heads = 1, .dim = 260, .v_dim = 385});
  add("elements one by one", {.batch = 1, .q_tokens = 3, .kv_tokens = 500, .dim = 33, .v_dim = 31});
}

void add_doubles(std::vector<Case>& cases) {
  const auto add = [&](const std::string& law, Sizes s, const std::string& more = "",
                       const std::vector<std::optional<CaseTensor>>& more_inputs = {}) {
    s.dtype = DType::f64;
    cases.push_back(attention_case(law, s, more, more_inputs));
  };
  add("f64 primes",
      {.q_tokens = 17, .kv_tokens = 43, .heads = 3, .kv_heads = 3, .dim = 13, .v_dim = 11});
  add("f64 T70 grouped heads, two query tiles per thread row", {.batch = 8,
                                                                .q_tokens = 33,
                                                                .kv_tokens = 65,
                                                                .heads = 16,
                                                                .kv_heads = 4,
                                                                .dim = 20,
                                                                .v_dim = 36});
  add("f64 one query",
      {.q_tokens = 1, .kv_tokens = 700, .heads = 4, .kv_heads = 2, .dim = 64, .v_dim = 64});
  add("f64 three queries split their keys",
      {.q_tokens = 3, .kv_tokens = 600, .kv_heads = 1, .dim = 40, .v_dim = 48});
  for (const int64_t q_tokens : {1, 19}) {
    add("f64 T71 head_dim 512", {.batch = 1,
                                 .q_tokens = q_tokens,
                                 .kv_tokens = 37,
                                 .heads = 1,
                                 .kv_heads = 1,
                                 .dim = 512,
                                 .v_dim = 512});
    add("f64 T79 T80 every key masked, NaN in v", {.q_tokens = q_tokens}, "",
        {tensor(DType::bool_, {1, 1, 1, 7}).range(0, 0)});
    cases.back().inputs[2] = tensor(DType::f64, {2, 7, 2, 8}).of(std::vector<double>(224, kNan));
  }
  add("f64 T73 T78 causal, window, softcap", {.q_tokens = 40, .kv_tokens = 70},
      R"(, "causal": true, "window_left": 9, "softcap": 3, "scale": 1.5)");
  std::vector<double> removing(41, 1e-9);
  removing[3] = -kInfinity;
  add("f64 T76 bias", {.q_tokens = 19, .kv_tokens = 41}, "",
      {std::nullopt, tensor(DType::f64, {1, 1, 1, 41}).of(removing)});
  Case mixed = attention_case("f32 q beside f64 k and f16 v", {.q_tokens = 6, .kv_tokens = 40});
  mixed.inputs[1]->type.dtype = DType::f64;
  mixed.inputs[2]->type.dtype = DType::f16;
  cases.push_back(mixed);
}

void add_layouts(std::vector<Case>& cases) {
  const DType f32 = DType::f32;
  const auto add = [&](const std::string& law, std::vector<std::optional<CaseTensor>> inputs,
                       const std::string& attributes) {
    cases.push_back({.name = law,
                     .op = "attention",
                     .inputs = std::move(inputs),
                     .attributes = attributes,
                     .tolerance = Tolerance::Norm,
                     .outputs = 2});
  };
  add("bhsd", {tensor(f32, {2, 3, 5, 8}), tensor(f32, {2, 3, 7, 8}), tensor(f32, {2, 3, 7, 4})},
      R"({"num_heads": 3, "head_dim": 8, "v_head_dim": 4, "q_layout": "bhsd", "kv_layout": "bhsd"})");
  add("bsd", {tensor(f32, {2, 5, 24}), tensor(f32, {2, 7, 24}), tensor(f32, {2, 7, 12})},
      R"({"num_heads": 3, "head_dim": 8, "v_head_dim": 4, "q_layout": "bsd", "kv_layout": "bsd"})");
  add("mixed layouts",
      {tensor(f32, {2, 5, 24}), tensor(f32, {2, 3, 7, 8}), tensor(f32, {2, 3, 7, 4})},
      R"({"num_heads": 3, "head_dim": 8, "v_head_dim": 4, "q_layout": "bsd", "kv_layout": "bhsd", "out_layout": "bshd"})");
  add("out bsd", {tensor(f32, {2, 3, 5, 8}), tensor(f32, {2, 7, 3, 8}), tensor(f32, {2, 7, 3, 8})},
      R"({"num_heads": 3, "head_dim": 8, "q_layout": "bhsd", "out_layout": "bsd"})");
  add("T69 tokens equal heads, bshd",
      {tensor(f32, {2, 8, 8, 16}), tensor(f32, {2, 8, 8, 16}), tensor(f32, {2, 8, 8, 16})},
      R"({"num_heads": 8, "head_dim": 16, "causal": true})");
  add("T69 tokens equal heads, bhsd",
      {tensor(f32, {2, 8, 8, 16}), tensor(f32, {2, 8, 8, 16}), tensor(f32, {2, 8, 8, 16})},
      R"({"num_heads": 8, "head_dim": 16, "causal": true, "q_layout": "bhsd", "kv_layout": "bhsd"})");
  add("T89 packed 3hd", {tensor(f32, {2, 9, 3, 4, 8})},
      R"({"num_heads": 4, "head_dim": 8, "packed": "3hd", "causal": true})");
  add("packed gqa", {tensor(f32, {2, 9, 64})},
      R"({"num_heads": 4, "num_kv_heads": 2, "head_dim": 8, "packed": "gqa"})");
  add("packed gqa of odd heads to bsd", {tensor(f32, {2, 9, 35})},
      R"({"num_heads": 3, "num_kv_heads": 1, "head_dim": 7, "packed": "gqa", "out_layout": "bsd"})");
}

void add_positions(std::vector<Case>& cases) {
  const std::string causal = R"(, "causal": true)";
  const std::string start = R"(, "causal_align": "start")";
  cases.push_back(
      attention_case("T72 one query sees all keys", {.q_tokens = 1, .kv_tokens = 9}, causal));
  cases.push_back(
      attention_case("T72 one query sees key 0", {.q_tokens = 1, .kv_tokens = 9}, causal + start));
  cases.push_back(
      attention_case("T72 T79 more queries than keys", {.q_tokens = 5, .kv_tokens = 3}, causal));
  cases.push_back(attention_case("more queries than keys, start", {.q_tokens = 50, .kv_tokens = 33},
                                 causal + start));
  cases.push_back(
      attention_case("causal prefill over a cache", {.q_tokens = 21, .kv_tokens = 90}, causal));
  cases.push_back(attention_case("T73 window_left 2 keeps three keys",
                                 {.q_tokens = 40, .kv_tokens = 40},
                                 causal + R"(, "window_left": 2)"));
  cases.push_back(attention_case("T73 both windows", {.q_tokens = 40, .kv_tokens = 70},
                                 R"(, "window_left": 3, "window_right": 5)"));
  cases.push_back(attention_case("T73 right window alone", {.q_tokens = 20, .kv_tokens = 20},
                                 R"(, "window_right": 0)"));
  cases.push_back(attention_case("window over split keys", {.q_tokens = 2, .kv_tokens = 900},
                                 causal + R"(, "window_left": 600)"));
  cases.push_back(attention_case("window wider than 32 bits", {.q_tokens = 5, .kv_tokens = 9},
                                 R"(, "window_left": 9000000000)"));
  cases.push_back(
      attention_case("T77 scale 1", {.q_tokens = 9, .kv_tokens = 9}, R"(, "scale": 1)"));
  cases.push_back(
      attention_case("T77 scale 0.0884", {.q_tokens = 9, .kv_tokens = 9}, R"(, "scale": 0.0884)"));
  Case capped = attention_case("T78 softcap 30 on large scores", {.q_tokens = 9, .kv_tokens = 9},
                               R"(, "softcap": 30, "scale": 6)");
  for (size_t i = 0; i < 2; ++i) capped.inputs[i] = capped.inputs[i]->uniform(-3, 3);
  cases.push_back(capped);
  const CaseTensor lengths = tensor(DType::i32, {2}).of({5, 33});
  cases.push_back(attention_case("T72 kv_len per batch", {.q_tokens = 6, .kv_tokens = 40}, causal,
                                 {std::nullopt, std::nullopt, lengths}));
  cases.push_back(attention_case("T72 kv_len per batch, one query",
                                 {.q_tokens = 1, .kv_tokens = 40}, causal,
                                 {std::nullopt, std::nullopt, lengths}));
  cases.push_back(
      attention_case("kv_len 0 and beyond the cache", {.q_tokens = 6, .kv_tokens = 40}, "",
                     {std::nullopt, std::nullopt, tensor(DType::i64, {2}).of({0, 1000})}));
  cases.push_back(attention_case(
      "q_start, scalar", {.q_tokens = 6, .kv_tokens = 40}, causal + R"(, "window_left": 7)",
      {std::nullopt, std::nullopt, std::nullopt, tensor(DType::i32, {}).of({20})}));
  cases.push_back(attention_case("q_start per batch and kv_len", {.q_tokens = 6, .kv_tokens = 40},
                                 causal,
                                 {std::nullopt, std::nullopt, tensor(DType::u32, {}).of({30}),
                                  tensor(DType::i64, {2}).of({-3, 24})}));
}

void add_masks(std::vector<Case>& cases) {
  const Sizes s{.batch = 2, .q_tokens = 19, .kv_tokens = 41, .heads = 3, .kv_heads = 3};
  const Sizes few{.batch = 2, .q_tokens = 2, .kv_tokens = 41, .heads = 3, .kv_heads = 3};
  for (const Sizes& sizes : {s, few}) {
    const std::vector<Shape> shapes = {
        {2, 1, 1, 41}, {1, 1, sizes.q_tokens, 41}, {1, 3, 1, 41}, {2, 3, sizes.q_tokens, 41}};
    for (const Shape& shape : shapes) {
      cases.push_back(
          attention_case("T74 mask " + to_string(shape), sizes, "", {tensor(DType::bool_, shape)}));
      cases.push_back(attention_case("T74 T76 bias " + to_string(shape), sizes, "",
                                     {std::nullopt, tensor(DType::f32, shape)}));
    }
  }
  cases.push_back(attention_case("T75 rank 2 is batch by keys",
                                 {.batch = 5, .q_tokens = 5, .kv_tokens = 7}, "",
                                 {tensor(DType::bool_, {5, 7})}));
  cases.push_back(attention_case("T75 rank 3 is batch by queries by keys", {}, "",
                                 {tensor(DType::i32, {2, 5, 7}).range(0, 1)}));
  cases.push_back(attention_case("T75 numeric mask 0.49 and 0.5",
                                 {.batch = 1, .q_tokens = 5, .kv_tokens = 4}, "",
                                 {tensor(DType::f32, {1, 4}).of({0.49, 0.5, 1, 0})}));
  cases.push_back(attention_case("T75 numeric mask in f16", {.batch = 1}, "",
                                 {tensor(DType::f16, {1, 7}).uniform(0, 1)}));
  cases.push_back(attention_case(
      "T76 mask, bias, causal and window together", s, R"(, "causal": true, "window_left": 9)",
      {tensor(DType::bool_, {2, 1, 19, 41}), tensor(DType::f16, {1, 3, 1, 41})}));
  std::vector<double> removing(41, -kInfinity);
  removing[3] = 0.5;
  removing[40] = -1;
  cases.push_back(attention_case("T76 a bias of -inf removes keys", s, "",
                                 {std::nullopt, tensor(DType::f32, {1, 1, 1, 41}).of(removing)}));
  cases.push_back(attention_case(
      "T79 a bias of -inf removes every key", s, "",
      {std::nullopt, tensor(DType::f32, {1, 1, 1, 41}).of(std::vector<double>(41, -kInfinity))}));
  cases.push_back(attention_case("T79 no key is allowed", s, "",
                                 {tensor(DType::bool_, {1, 1, 1, 41}).range(0, 0)}));
  cases.push_back(attention_case("T79 no key is allowed, few queries", few, "",
                                 {tensor(DType::bool_, {1, 1, 1, 41}).range(0, 0)}));
}

// k, v and bias hold NaN and infinities at keys that the mask or kv_len removes.
void add_garbage(std::vector<Case>& cases) {
  for (const int64_t q_tokens : {1, 19}) {
    const int64_t keys = 41;
    const int64_t dim = 8;
    const auto spoilt = [&](const std::vector<bool>& bad) {
      std::vector<double> values;
      for (int64_t j = 0; j < keys; ++j) {
        for (int64_t d = 0; d < dim; ++d) {
          const double fine = static_cast<double>((j * 7 + d * 3) % 11) / 5.0 - 1;
          values.push_back(!bad[static_cast<size_t>(j)] ? fine : d % 2 == 0 ? kNan : kInfinity);
        }
      }
      return tensor(DType::f32, {1, keys, 1, dim}).of(values);
    };
    const auto add = [&](const std::string& law, const std::vector<bool>& bad,
                         const std::string& more,
                         const std::vector<std::optional<CaseTensor>>& more_inputs) {
      Case made = attention_case(
          law, {.batch = 1, .q_tokens = q_tokens, .kv_tokens = keys, .heads = 1, .kv_heads = 1},
          more, more_inputs);
      made.inputs[1] = spoilt(bad);
      made.inputs[2] = spoilt(bad);
      cases.push_back(made);
    };
    std::vector<bool> every_third(41);
    std::vector<bool> tail(41);
    std::vector<double> mask(41);
    std::vector<double> bias(41, 0.25);
    for (size_t j = 0; j < 41; ++j) {
      every_third[j] = j % 3 == 0;
      tail[j] = j >= 23;
      mask[j] = every_third[j] ? 0 : 1;
      if (every_third[j]) bias[j] = kNan;
    }
    add("T80 masked keys hold NaN", every_third, "",
        {tensor(DType::bool_, {1, 41}).of(mask), tensor(DType::f32, {1, 1, 1, 41}).of(bias)});
    add("T80 rows behind kv_len hold NaN", tail, R"(, "causal": true)",
        {std::nullopt, std::nullopt, tensor(DType::i32, {1}).of({23})});
    add("T80 future keys hold NaN", tail, R"(, "causal": true)",
        {std::nullopt, std::nullopt, std::nullopt, tensor(DType::i32, {}).of({10})});
    Case poisoned = attention_case(
        "T80 a NaN in an allowed score",
        {.batch = 1, .q_tokens = q_tokens, .kv_tokens = keys, .heads = 1, .kv_heads = 1},
        R"(, "causal": true)",
        {std::nullopt, std::nullopt, std::nullopt, tensor(DType::i32, {}).of({15})});
    poisoned.inputs[1] = spoilt(tail);
    cases.push_back(poisoned);
  }
}

// Sizes at which kernels on tensor cores change their ways: edges of their tiles, grouped heads
// that share one, keys split over warps and workgroups, tiles through shared memory.
void add_tiles(std::vector<Case>& cases, DType dtype) {
  for (const int64_t tokens : {15, 16, 17}) {
    for (const int64_t keys : {16, 33}) {
      cases.push_back(attention_case("edges of tiles", {.batch = 1,
                                                        .q_tokens = tokens,
                                                        .kv_tokens = keys,
                                                        .dim = 32,
                                                        .v_dim = 40,
                                                        .dtype = dtype}));
    }
  }
  const CaseTensor lengths = tensor(DType::i32, {3}).of({300, 17, 0});
  for (const int64_t kv_heads : {8, 4, 2, 1}) {
    cases.push_back(attention_case("T70 T72 one query per sequence over its cache",
                                   {.batch = 3,
                                    .q_tokens = 1,
                                    .kv_tokens = 300,
                                    .heads = 8,
                                    .kv_heads = kv_heads,
                                    .dim = 32,
                                    .v_dim = 32,
                                    .dtype = dtype},
                                   R"(, "causal": true)", {std::nullopt, std::nullopt, lengths}));
    cases.push_back(attention_case("T70 a few queries of grouped heads",
                                   {.batch = 1,
                                    .q_tokens = 3,
                                    .kv_tokens = 70,
                                    .heads = 8,
                                    .kv_heads = kv_heads,
                                    .dim = 16,
                                    .v_dim = 16,
                                    .dtype = dtype},
                                   R"(, "causal": true, "window_left": 40)"));
  }
}

// Heads too wide for registers, and enough rows to fill a device: keys through shared memory.
void add_shared_tiles(std::vector<Case>& cases, DType dtype) {
  const Sizes wide{.batch = 1,
                   .q_tokens = 70,
                   .kv_tokens = 90,
                   .heads = 2,
                   .kv_heads = 1,
                   .dim = 256,
                   .v_dim = 200,
                   .dtype = dtype};
  cases.push_back(attention_case("wide heads", wide));
  cases.push_back(attention_case("wide heads, causal", wide, R"(, "causal": true)"));
  cases.push_back(
      attention_case("wide heads, windows", wide, R"(, "window_left": 11, "window_right": 20)"));
  cases.push_back(
      attention_case("wide heads, mask", wide, "", {tensor(DType::bool_, {1, 1, 70, 90})}));
  cases.push_back(attention_case("causal tiles of unequal length",
                                 {.batch = 1,
                                  .q_tokens = 200,
                                  .kv_tokens = 200,
                                  .heads = 1,
                                  .kv_heads = 1,
                                  .dim = 200,
                                  .v_dim = 64,
                                  .dtype = dtype},
                                 R"(, "causal": true)", {}, 1));
  if (dtype != DType::f16) return;
  cases.push_back(attention_case("many short sequences",
                                 {.batch = 4,
                                  .q_tokens = 64,
                                  .kv_tokens = 64,
                                  .heads = 16,
                                  .kv_heads = 16,
                                  .dim = 64,
                                  .v_dim = 64,
                                  .dtype = dtype},
                                 "", {}, 1));
}

// Rows of 16-bit caches behind kv_len, and future keys, hold NaN and infinities.
void add_dead_rows(std::vector<Case>& cases, DType dtype) {
  constexpr int64_t kKeys = 150;
  constexpr int64_t kLive = 93;
  struct Way {
    int64_t q_tokens;
    int64_t dim;
  };
  for (const Way& way : {Way{1, 64}, Way{19, 64}, Way{70, 256}}) {
    std::vector<double> values;
    for (int64_t j = 0; j < kKeys; ++j) {
      for (int64_t d = 0; d < way.dim; ++d) {
        const double fine = static_cast<double>((j * 7 + d * 3) % 11) / 5.0 - 1;
        values.push_back(j < kLive ? fine : d % 2 == 0 ? kNan : kInfinity);
      }
    }
    const CaseTensor spoilt = tensor(dtype, {1, kKeys, 1, way.dim}).of(values);
    const auto add = [&](const std::string& law,
                         const std::vector<std::optional<CaseTensor>>& more_inputs) {
      Case made = attention_case(law,
                                 {.batch = 1,
                                  .q_tokens = way.q_tokens,
                                  .kv_tokens = kKeys,
                                  .heads = 2,
                                  .kv_heads = 1,
                                  .dim = way.dim,
                                  .v_dim = way.dim,
                                  .dtype = dtype},
                                 R"(, "causal": true)", more_inputs);
      made.inputs[1] = spoilt;
      made.inputs[2] = spoilt;
      cases.push_back(made);
    };
    const auto count = [](int64_t value) {
      return tensor(DType::i32, {}).of({static_cast<double>(value)});
    };
    add("T80 16-bit rows behind kv_len hold NaN", {std::nullopt, std::nullopt, count(kLive)});
    add("T80 16-bit future keys hold NaN",
        {std::nullopt, std::nullopt, std::nullopt, count(kLive - way.q_tokens)});
  }
}

// Caches of 8-bit floats beside queries of another dtype, decoding and prefill, wide and narrow
// loads, NaN behind kv_len.
void add_float8_caches(std::vector<Case>& cases) {
  const auto add = [&](const std::string& law, Sizes s, DType k, DType v) {
    Case made = attention_case(law, s, R"(, "causal": true)");
    made.inputs[1]->type.dtype = k;
    made.inputs[2]->type.dtype = v;
    made.name += " k " + std::string(name_of(k)) + " v " + std::string(name_of(v));
    cases.push_back(std::move(made));
  };
  const Sizes decode{.q_tokens = 1, .kv_tokens = 300, .heads = 4, .dim = 64, .v_dim = 64};
  Sizes half = decode;
  half.dtype = DType::f16;
  add("8-bit caches", decode, DType::f8e4m3, DType::f8e4m3);
  add("8-bit caches", half, DType::f8e5m2, DType::f8e4m3);
  add("doubles beside 8-bit caches", {.kv_tokens = 33, .dtype = DType::f64}, DType::f8e4m3,
      DType::f8e5m2);
  add("one 8-bit cache", half, DType::f16, DType::f8e5m2);
  half.q_tokens = 70;
  add("8-bit caches", half, DType::f8e4m3, DType::f8e4m3);
  add("8-bit caches, odd sizes", {.q_tokens = 5, .kv_tokens = 33, .dim = 7, .v_dim = 5},
      DType::f8e4m3, DType::f8e5m2);
  std::vector<double> codes(2 * 9 * 2 * 8, 0x7F);  // NaN but for the first 4 keys
  for (size_t i = 0; i < codes.size(); ++i) {
    if (i / 16 % 9 < 4) codes[i] = static_cast<double>(i * 37 % 0x50);
  }
  Case garbage = attention_case("T80 8-bit rows behind kv_len hold NaN", {.kv_tokens = 9}, "",
                                {std::nullopt, std::nullopt, tensor(DType::i32, {}).of({4})});
  for (const size_t input : {1, 2}) {
    garbage.inputs[input] = tensor(DType::f8e4m3, {2, 9, 2, 8}).of(codes);
  }
  cases.push_back(std::move(garbage));
}

// A sink for each head: at every kernel's end, below and above all scores, and alone.
void add_sinks(std::vector<Case>& cases) {
  const std::string causal = R"(, "causal": true)";
  const auto add = [&](const std::string& law, const Sizes& s, const CaseTensor& sinks,
                       const std::string& more = "",
                       const std::optional<CaseTensor>& kv_len = std::nullopt) {
    cases.push_back(attention_case("sinks, " + law, s, more,
                                   {std::nullopt, std::nullopt, kv_len, std::nullopt, sinks}));
  };
  const auto of_heads = [](const Sizes& s, DType dtype) {
    return tensor(dtype, {s.heads}).uniform(-2, 3);
  };
  const Sizes tiles{
      .q_tokens = 37, .kv_tokens = 70, .heads = 6, .kv_heads = 2, .dim = 32, .v_dim = 32};
  const Sizes one{.batch = 1,
                  .q_tokens = 1,
                  .kv_tokens = 900,
                  .heads = 6,
                  .kv_heads = 2,
                  .dim = 64,
                  .v_dim = 64};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (Sizes s : {tiles, one}) {
      s.dtype = dtype;
      add("their own type", s, of_heads(s, dtype), causal + R"(, "window_left": 40)");
      add("f32", s, of_heads(s, DType::f32));
    }
  }
  add("f64", {.dtype = DType::f64}, of_heads({}, DType::f64));
  add("f64 beside f32", {}, of_heads({}, DType::f64));
  add("one team", {.q_tokens = 2, .kv_tokens = 5}, of_heads({}, DType::f32), causal);
  for (const int64_t q_tokens : {1, 19}) {
    const Sizes s{.q_tokens = q_tokens, .kv_tokens = 41};
    add("far above and far below", s, tensor(DType::f32, {2}).of({300, -300}));
    add("none, infinite and NaN", {.batch = 2, .q_tokens = q_tokens, .heads = 3, .kv_heads = 3},
        tensor(DType::f32, {3}).of({-kInfinity, kInfinity, kNan}));
    add("alone where there is no key", s, of_heads(s, DType::f32), "",
        tensor(DType::i32, {2}).of({0, 3}));
  }
}

}  // namespace

std::vector<Case> attention_cases() {
  std::vector<Case> cases;
  add_golden(cases);
  add_sizes(cases);
  add_split_keys(cases);
  add_doubles(cases);
  add_layouts(cases);
  add_positions(cases);
  add_masks(cases);
  add_garbage(cases);
  add_float8_caches(cases);
  add_sinks(cases);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) add_tiles(cases, dtype);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    add_shared_tiles(cases, dtype);
    add_dead_rows(cases, dtype);
  }
  return cases;
}

}  // namespace rlx::test
