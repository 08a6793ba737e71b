// SPDX-License-Identifier: Apache-2.0
// Attention of f16 and bf16 by attention_coop (ops.md 5.1; traps T70 to T80): ends inside its
// tiles, head sizes, all that may disallow a key, and what disallowed keys hold.
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

using Inputs = std::vector<std::optional<CaseTensor>>;

struct MatrixSizes {
  int64_t batch = 1;
  int64_t q_tokens = 33;
  int64_t kv_tokens = 70;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t dim = 64;
  int64_t v_dim = 64;
  DType dtype = DType::f16;
};

// q, k, v in layout bshd, then `more_inputs`; attributes with `more` (", \"causal\": true") behind.
Case attention(const std::string& law, const MatrixSizes& s, const std::string& more = "",
               const Inputs& more_inputs = {}) {
  Inputs inputs = {tensor(s.dtype, {s.batch, s.q_tokens, s.heads, s.dim}),
                   tensor(s.dtype, {s.batch, s.kv_tokens, s.kv_heads, s.dim}),
                   tensor(s.dtype, {s.batch, s.kv_tokens, s.kv_heads, s.v_dim})};
  inputs.insert(inputs.end(), more_inputs.begin(), more_inputs.end());
  return {.name = law + " " + to_string(inputs[0]->type) + " keys " + std::to_string(s.kv_tokens),
          .op = "attention",
          .inputs = std::move(inputs),
          .attributes = R"({"num_heads": )" + std::to_string(s.heads) + R"(, "num_kv_heads": )" +
                        std::to_string(s.kv_heads) + R"(, "head_dim": )" + std::to_string(s.dim) +
                        R"(, "v_head_dim": )" + std::to_string(s.v_dim) + more + "}",
          .tolerance = Tolerance::AttentionHalf,
          .outputs = 2};
}

CaseTensor whole(double value) {
  return tensor(DType::i32, {}).of({value});
}

void add_sizes(std::vector<Case>& cases, DType dtype) {
  cases.push_back(attention("ends inside tiles", {.dtype = dtype}));
  cases.push_back(attention("wide heads, causal", {.dim = 128, .v_dim = 128, .dtype = dtype},
                            R"(, "causal": true)"));
  cases.push_back(attention("uneven heads, windows", {.dim = 48, .v_dim = 80, .dtype = dtype},
                            R"(, "window_left": 11, "window_right": 5)"));
  // The last matrix of a head is half empty; heads wider than the largest tiles take.
  cases.push_back(
      attention("heads of 40", {.dim = 40, .v_dim = 40, .dtype = dtype}, R"(, "causal": true)"));
  cases.push_back(attention("uneven heads of half matrices",
                            {.kv_tokens = 130, .dim = 8, .v_dim = 120, .dtype = dtype}));
  cases.push_back(attention("heads of 160", {.dim = 160, .v_dim = 152, .dtype = dtype}));
  cases.push_back(attention("heads of 192 and 128", {.dim = 192, .v_dim = 128, .dtype = dtype},
                            R"(, "causal": true)"));
  cases.push_back(attention("heads of 256", {.dim = 256, .v_dim = 256, .dtype = dtype},
                            R"(, "causal": true, "window_left": 20)"));
  cases.push_back(attention("one key", {.kv_tokens = 1, .dim = 16, .v_dim = 32, .dtype = dtype}));
  // Tiles of many queries: of those whose keys end in it, before it and behind it.
  const MatrixSizes many{.batch = 4,
                         .q_tokens = 130,
                         .kv_tokens = 140,
                         .heads = 24,
                         .kv_heads = 8,
                         .dim = 32,
                         .v_dim = 16,
                         .dtype = dtype};
  cases.push_back(attention("T70 many tiles, causal", many, R"(, "causal": true)"));
  cases.push_back(
      attention("many tiles, a narrow window", many, R"(, "causal": true, "window_left": 20)"));
}

// Enough heads that every multiprocessor of a large device has a workgroup, so that tiles are as
// large as they get: one tile of queries, which ends early, of each head; few and many keys.
void add_full_device(std::vector<Case>& cases, DType dtype) {
  const MatrixSizes few{.batch = 11,
                        .q_tokens = 33,
                        .kv_tokens = 70,
                        .heads = 12,
                        .kv_heads = 4,
                        .dim = 64,
                        .v_dim = 64,
                        .dtype = dtype};
  MatrixSizes wide = few;
  wide.dim = wide.v_dim = 128;
  MatrixSizes halves = few;
  halves.dim = halves.v_dim = 72;
  MatrixSizes widest = few;
  widest.dim = widest.v_dim = 256;
  MatrixSizes many = few;
  many.q_tokens = 17;
  many.kv_tokens = 520;
  MatrixSizes more = many;
  more.batch = 23;
  more.q_tokens = 9;
  cases.push_back(attention("full device, wide heads, causal", wide, R"(, "causal": true)"));
  cases.push_back(attention("full device, heads of 72, causal", halves, R"(, "causal": true)"));
  cases.push_back(attention("full device, heads of 256", widest));
  cases.push_back(attention("full device, few keys, causal", few, R"(, "causal": true)"));
  cases.push_back(attention("full device, few keys", few));
  cases.push_back(attention("full device, many keys", many));
  cases.push_back(attention("full device, many keys, a window", many,
                            R"(, "causal": true, "window_left": 100)"));
  cases.push_back(attention("full device, more groups than at once", more));
  std::vector<double> lengths;
  for (int64_t i = 0; i < more.batch; ++i) lengths.push_back(static_cast<double>(520 - 23 * i));
  cases.push_back(
      attention("full device, lengths", more, R"(, "causal": true)",
                {std::nullopt, std::nullopt, tensor(DType::i32, {more.batch}).of(lengths)}));
}

void add_masks(std::vector<Case>& cases, DType dtype) {
  const CaseTensor mask = tensor(DType::bool_, {1, 1, 33, 70});
  cases.push_back(attention("mask and bias", {.dim = 128, .v_dim = 128, .dtype = dtype}, "",
                            {mask, tensor(dtype, {1, 4, 33, 70})}));
  cases.push_back(attention("T77 softcap and scale", {.dim = 48, .v_dim = 80, .dtype = dtype},
                            R"(, "softcap": 3.0, "scale": 0.7, "causal": true)"));
  cases.push_back(attention("a negative scale", {.dtype = dtype}, R"(, "scale": -0.3)"));
  cases.push_back(attention("T79 no key is allowed", {.dtype = dtype}, "",
                            {tensor(DType::bool_, {1, 1, 33, 70}).range(0, 0)}));
  const CaseTensor lengths = tensor(DType::i32, {3}).of({70, 17, 0});
  cases.push_back(attention("T72 lengths", {.batch = 3, .dtype = dtype}, R"(, "causal": true)",
                            {std::nullopt, std::nullopt, lengths}));
  cases.push_back(attention("T71 queries that start behind the first key", {.dtype = dtype},
                            R"(, "causal": true)",
                            {std::nullopt, std::nullopt, std::nullopt, whole(37)}));
}

// From key `live` on, k and v hold what is not finite.
Case spoilt(Case made, const MatrixSizes& s, int64_t live) {
  std::vector<double> values;
  for (int64_t j = 0; j < s.kv_tokens; ++j) {
    for (int64_t e = 0; e < s.kv_heads * s.dim; ++e) {
      const double fine = static_cast<double>((j * 7 + e * 3) % 11) / 5.0 - 1;
      values.push_back(j < live ? fine : e % 2 == 0 ? kNan : kInfinity);
    }
  }
  const CaseTensor rows = tensor(s.dtype, {1, s.kv_tokens, s.kv_heads, s.dim}).of(values);
  made.inputs[1] = rows;
  made.inputs[2] = rows;
  return made;
}

void add_garbage(std::vector<Case>& cases, DType dtype) {
  const MatrixSizes s{.dtype = dtype};
  constexpr int64_t kLive = 45;
  std::vector<double> mask;
  for (int64_t j = 0; j < s.kv_tokens; ++j) mask.push_back(j < kLive ? 1 : 0);
  const Inputs first_keys = {tensor(DType::bool_, {1, s.kv_tokens}).of(mask)};
  cases.push_back(spoilt(attention("T80 masked keys hold NaN", s, "", first_keys), s, kLive));
  cases.push_back(
      spoilt(attention("T80 future keys hold NaN", s, R"(, "causal": true)",
                       {std::nullopt, std::nullopt, std::nullopt, whole(kLive - s.q_tokens)}),
             s, kLive));
  cases.push_back(spoilt(attention("T80 a NaN in an allowed score", s, R"(, "causal": true)",
                                   {std::nullopt, std::nullopt, std::nullopt, whole(20)}),
                         s, kLive));
  Case infinite = attention("an infinite value", s, R"(, "causal": true)");
  std::vector<double> values(static_cast<size_t>(s.kv_tokens * s.kv_heads * s.v_dim), 0.25);
  values[50 * static_cast<size_t>(s.kv_heads * s.v_dim) + 3] = kInfinity;
  infinite.inputs[2] = tensor(dtype, {1, s.kv_tokens, s.kv_heads, s.v_dim}).of(values);
  cases.push_back(infinite);
}

void add_sinks(std::vector<Case>& cases, DType dtype) {
  const auto with = [](const CaseTensor& sinks) {
    return Inputs{std::nullopt, std::nullopt, std::nullopt, std::nullopt, sinks};
  };
  cases.push_back(attention("sinks", {.dtype = dtype}, R"(, "causal": true)",
                            with(tensor(DType::f32, {4}).uniform(-2, 3))));
  cases.push_back(attention("sinks above, below, none and NaN", {.dtype = dtype}, "",
                            with(tensor(DType::f32, {4}).of({300, -300, -kInfinity, kNan}))));
  cases.push_back(attention("sinks where queries have no key", {.kv_tokens = 20, .dtype = dtype},
                            R"(, "causal": true)", with(tensor(dtype, {4}).uniform(-2, 3))));
}

// Few queries, whose keys are split over workgroups: shares without keys and ones that end inside a
// tile, all that moves the first and last key, and shares that hold what is not finite.
void add_split_keys(std::vector<Case>& cases, DType dtype) {
  const MatrixSizes s{.batch = 2, .q_tokens = 8, .kv_tokens = 300, .dtype = dtype};
  const auto add = [&](const std::string& law, const MatrixSizes& sizes,
                       const std::string& more = "", const Inputs& inputs = {}) {
    cases.push_back(attention("split keys, " + law, sizes, more, inputs));
  };
  const std::string causal = R"(, "causal": true)";
  MatrixSizes wide = s;
  wide.dim = wide.v_dim = 128;
  MatrixSizes uneven = s;
  uneven.dim = 40;
  uneven.v_dim = 72;
  MatrixSizes many = s;
  many.kv_tokens = 1300;
  add("all of them", s);
  add("wide heads", wide, causal);
  add("uneven heads", uneven, causal);
  add("as many splits as there are", many, causal);
  add("T72 lengths", many, causal,
      {std::nullopt, std::nullopt, tensor(DType::i32, {2}).of({1033, 5})});
  add("T72 no key of one batch", s, "",
      {std::nullopt, std::nullopt, tensor(DType::i32, {2}).of({131, 0})});
  add("T71 a window", many, causal + R"(, "window_left": 250)",
      {std::nullopt, std::nullopt, std::nullopt, whole(901)});
  add("mask, bias, softcap", s, causal + R"(, "softcap": 3.0)",
      {tensor(DType::bool_, {1, 1, 8, 300}), tensor(dtype, {1, 4, 8, 300})});
  add("sinks", s, causal,
      {std::nullopt, std::nullopt, std::nullopt, std::nullopt,
       tensor(DType::f32, {4}).uniform(-2, 3)});
  MatrixSizes one = s;
  one.batch = 1;
  constexpr int64_t kLive = 145;
  cases.push_back(spoilt(attention("split keys, T80 rows behind the last hold NaN", one, causal,
                                   {std::nullopt, std::nullopt, whole(kLive)}),
                         one, kLive));
  cases.push_back(spoilt(attention("split keys, T80 a NaN in an allowed score", one, causal,
                                   {std::nullopt, std::nullopt, std::nullopt, whole(kLive - 4)}),
                         one, kLive));
}

}  // namespace

std::vector<Case> attention_matrix_cases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    add_sizes(cases, dtype);
    add_full_device(cases, dtype);
    add_masks(cases, dtype);
    add_garbage(cases, dtype);
    add_sinks(cases, dtype);
    add_split_keys(cases, dtype);
  }
  return cases;
}

}  // namespace rlx::test
