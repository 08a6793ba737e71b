// SPDX-License-Identifier: Apache-2.0
// group_norm, instance_norm, layer_norm2d and l2_norm (ops.md 4; traps T62, T66, T19, T20).
#include "tests/support/case.h"

namespace rlx::test {

namespace {

Case norm_case(const std::string& law, const std::string& op,
               std::vector<std::optional<CaseTensor>> inputs,
               const std::string& attributes = "{}") {
  return {.name = law + " " + to_string(inputs[0]->type),
          .op = op,
          .inputs = std::move(inputs),
          .attributes = attributes,
          .tolerance = Tolerance::Norm};
}

void add_group_norms(std::vector<Case>& cases) {
  const auto group = [&cases](const std::string& law, std::vector<std::optional<CaseTensor>> inputs,
                              int64_t groups) {
    cases.push_back(norm_case(law, "group_norm", std::move(inputs),
                              R"({"num_groups": )" + std::to_string(groups) + "}"));
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const CaseTensor per_channel = tensor(dtype, {6}).of({1, -2, 0.5, 3, -1, 4});
    group("T66 gamma is per channel", {tensor(dtype, {2, 6, 5, 7}), per_channel, per_channel}, 3);
    group("rows in parts", {tensor(dtype, {1, 4, 96, 112}), tensor(dtype, {4}).param()}, 2);
  }
  const DType f32 = DType::f32;
  group("no spatial dims", {tensor(f32, {3, 12}), tensor(f32, {12}), tensor(f32, {12})}, 4);
  group("one spatial dim, eight at a time", {tensor(DType::f16, {2, 4, 24}), tensor(f32, {4})}, 2);
  group("three spatial dims", {tensor(f32, {2, 4, 3, 4, 5}), tensor(f32, {4}), tensor(f32, {4})},
        2);
  group("rank 8", {tensor(f32, {2, 4, 1, 2, 3, 1, 2, 2}), tensor(f32, {4})}, 2);
  group("no gamma, no beta", {tensor(f32, {2, 4, 5})}, 4);
  group("beta alone", {tensor(f32, {2, 4, 5}), std::nullopt, tensor(f32, {4})}, 1);
  group("gamma and beta of other dtypes",
        {tensor(DType::f16, {2, 4, 9}), tensor(f32, {4}), tensor(DType::bf16, {4})}, 2);
  group("one element a group", {tensor(f32, {2, 4}), tensor(f32, {4})}, 4);
  group("T62 far from zero", {tensor(f32, {2, 4, 33}).uniform(9999, 10001)}, 2);
  group("T62 far from zero, in parts", {tensor(f32, {1, 2, 150, 150}).uniform(9999, 10001)}, 1);
  group("T19 no images", {tensor(f32, {0, 4, 5}), tensor(f32, {4})}, 2);
  group("T19 empty rows", {tensor(f32, {2, 4, 0}), tensor(f32, {4})}, 2);
  group("T20 more rows than a grid axis holds", {tensor(f32, {140003, 2, 1})}, 2);
  Case edges = norm_case("infinities and NaN stay in their group", "group_norm",
                         {tensor(f32, {3, 4, 9}).edges()}, R"({"num_groups": 2})");
  cases.push_back(edges);
  // numpy: x = arange(12).reshape(1, 6, 2), three groups.
  std::vector<double> x(12);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
  Case golden = norm_case("T66 golden", "group_norm",
                          {tensor(f32, {1, 6, 2}).of(x), tensor(f32, {6}).of({1, 2, 3, 4, 5, 6}),
                           tensor(f32, {6}).of({0, 0, 0, 1, 1, 1})},
                          R"({"num_groups": 3, "eps": 0.0})");
  golden.golden = {{-1.3416408, -0.4472136, 0.8944272, 2.6832816, -4.0249224, -1.3416408, 2.7888544,
                    6.3665631, -5.7082039, -1.236068, 3.6832816, 9.0498447}};
  cases.push_back(golden);
}

void add_instance_norms(std::vector<Case>& cases) {
  const DType f32 = DType::f32;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    cases.push_back(
        norm_case("planes", "instance_norm",
                  {tensor(dtype, {2, 3, 9, 8}), tensor(dtype, {3}), tensor(dtype, {3})}));
  }
  cases.push_back(norm_case("planes in parts", "instance_norm",
                            {tensor(f32, {1, 2, 120, 130}), tensor(f32, {2}), tensor(f32, {2})}));
  cases.push_back(norm_case("one pixel", "instance_norm", {tensor(f32, {2, 3, 1})}));
  cases.push_back(
      norm_case("large eps", "instance_norm", {tensor(f32, {2, 3, 5})}, R"({"eps": 2.5})"));
}

void add_layer_norms(std::vector<Case>& cases) {
  const DType f32 = DType::f32;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    cases.push_back(
        norm_case("each pixel over its channels", "layer_norm2d",
                  {tensor(dtype, {2, 37, 5, 7}), tensor(dtype, {37}), tensor(dtype, {37})}));
  }
  cases.push_back(norm_case("many channels, in parts", "layer_norm2d",
                            {tensor(f32, {1, 700, 3, 11}), tensor(f32, {700})}));
  cases.push_back(norm_case("T62 far from zero", "layer_norm2d",
                            {tensor(f32, {1, 600, 2, 3}).uniform(9999, 10001)}));
  cases.push_back(norm_case("one pixel", "layer_norm2d",
                            {tensor(f32, {3, 64, 1, 1}), tensor(f32, {64}), tensor(f32, {64})}));
  cases.push_back(norm_case("T19 no pixels", "layer_norm2d", {tensor(f32, {1, 8, 0, 3})}));
  cases.push_back(norm_case("T19 no channels", "layer_norm2d", {tensor(f32, {1, 0, 2, 3})}));
}

void add_l2_norms(std::vector<Case>& cases) {
  const DType f32 = DType::f32;
  for (const char* mode : {"max", "add"}) {
    const std::string rest = std::string(R"("mode": ")") + mode + "\"";
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
      cases.push_back(norm_case(std::string("l2 ") + mode, "l2_norm", {tensor(dtype, {5, 384})},
                                "{" + rest + "}"));
    }
    cases.push_back(norm_case(std::string("l2 over a middle axis ") + mode, "l2_norm",
                              {tensor(f32, {3, 17, 5})}, R"({"axis": -2, )" + rest + "}"));
    cases.push_back(norm_case(std::string("l2 with a large eps ") + mode, "l2_norm",
                              {tensor(f32, {3, 7}).uniform(-0.5, 0.5)},
                              R"({"eps": 0.75, )" + rest + "}"));
  }
  cases.push_back(norm_case("l2 of a long row, in parts", "l2_norm", {tensor(f32, {2, 20011})}));
  cases.push_back(norm_case("l2 of a vector", "l2_norm", {tensor(f32, {1000})}));
  Case zeros =
      norm_case("a zero row stays zero", "l2_norm", {tensor(f32, {2, 3}).of({0, 0, 0, 3, 0, -4})});
  zeros.golden = {{0, 0, 0, 0.6, 0, -0.8}};
  cases.push_back(zeros);
  cases.push_back(norm_case("T19 empty row", "l2_norm", {tensor(f32, {4, 0})}));
  cases.push_back(norm_case("edges", "l2_norm", {tensor(f32, {6, 8}).edges()}));
}

}  // namespace

std::vector<Case> channel_norm_cases() {
  std::vector<Case> cases;
  add_group_norms(cases);
  add_instance_norms(cases);
  add_layer_norms(cases);
  add_l2_norms(cases);
  return cases;
}

}  // namespace rlx::test
