// SPDX-License-Identifier: Apache-2.0
// Conformance of the gradients of softmax and of softmax_cross_entropy (ops.md 16.3). Golden values
// of ops.md 17 and of PyTorch's cross_entropy in f64.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> losses_cases() {
  std::vector<Case> cases;
  for (const char* op : {"softmax_backward", "log_softmax_backward"}) {
    for (const DType dtype : {DType::f32, DType::f16, DType::f64}) {
      for (const int64_t axis : {-1, 1}) {
        cases.push_back(
            {.name = "axis " + std::to_string(axis),
             .op = op,
             .inputs = {tensor(dtype, {3, 7, 11}).uniform(-2, 0), tensor(dtype, {3, 7, 11})},
             .attributes = R"({"axis": )" + std::to_string(axis) + "}",
             .tolerance = Tolerance::Norm});
      }
    }
  }
  const auto add = [&cases](std::string name, std::vector<std::optional<CaseTensor>> inputs,
                            std::string attributes, std::vector<std::vector<double>> golden = {},
                            bool backward = false) {
    cases.push_back({.name = std::move(name),
                     .op = backward ? "softmax_cross_entropy_backward" : "softmax_cross_entropy",
                     .inputs = std::move(inputs),
                     .attributes = std::move(attributes),
                     .tolerance = Tolerance::Norm,
                     .golden = std::move(golden)});
  };
  // Both the loss and its gradient.
  const auto both = [&](const std::string& name, const CaseTensor& logits, const CaseTensor& target,
                        const std::string& attributes, std::optional<CaseTensor> weight = {}) {
    std::vector<std::optional<CaseTensor>> inputs = {logits, target};
    if (weight) inputs.push_back(weight);
    add(name, inputs, "{" + attributes + "}");
    inputs.insert(inputs.begin() + 2, tensor(logits.type.dtype, {}));
    add(name, inputs, "{" + attributes + "}", {}, true);
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    for (const char* reduction : {"none", "mean", "sum"}) {
      both(std::string("classes ") + reduction, tensor(dtype, {9, 13}),
           tensor(DType::i64, {9}).range(0, 12),
           R"("reduction": ")" + std::string(reduction) + "\"");
    }
  }
  const CaseTensor logits = tensor(DType::f32, {4, 5, 3, 2});
  const CaseTensor target = tensor(DType::i32, {4, 3, 2}).range(-2, 6);
  const CaseTensor weight = tensor(DType::f32, {5}).uniform(0.2, 2);
  both("T161 targets outside and ignored", logits, target,
       R"("reduction": "mean", "ignore_index": 3)");
  both("T160 class weights, smoothing, ignored rows", logits, target,
       R"("reduction": "mean", "ignore_index": 3, "label_smoothing": 0.1)", weight);
  both("T160 class weights", logits, target, R"("reduction": "none")", weight);
  both("T160 dense targets that do not sum to 1", logits,
       tensor(DType::f32, {4, 5, 3, 2}).uniform(0, 1),
       R"("reduction": "mean", "label_smoothing": 0.2)", weight);
  both("T161 targets as f32 and -100", tensor(DType::f32, {3, 4}),
       tensor(DType::f32, {3}).of({1, -100, 3}), R"("reduction": "sum", "ignore_index": -100)");
  both("T161 targets as u8", tensor(DType::f32, {3, 4}), tensor(DType::u8, {3}).range(0, 3), "");
  const CaseTensor row = tensor(DType::f32, {1, 3}).of({1, 2, 0});
  const CaseTensor one = tensor(DType::i64, {1}).of_integers({1});
  add("T160 golden", {row, one}, "{}", {{0.407606}});
  add("T160 golden, smoothed", {row, one}, R"({"label_smoothing": 0.1})", {{0.507606}});
  add("T160 golden gradient", {row, one, tensor(DType::f32, {1}).of({1})}, "{}",
      {{0.2447285, -0.334759, 0.09003057}}, true);
  add("T160 a target of a logit that is -inf",
      {tensor(DType::f32, {2, 2}).of({0, -kInfinity, -kInfinity, 1}),
       tensor(DType::i64, {2}).of_integers({1, 1})},
      "{}", {{kInfinity, 0}});
  add("T160 a mean of ignored rows alone is NaN",
      {tensor(DType::f32, {2, 2}), tensor(DType::i64, {2}).of_integers({7, -1})},
      R"({"reduction": "mean"})", {{kNan}});
  cases.push_back({.name = "log-probabilities beside the loss",
                   .op = "softmax_cross_entropy",
                   .inputs = {tensor(DType::f32, {6, 10}), tensor(DType::i32, {6}).range(0, 9)},
                   .tolerance = Tolerance::Norm,
                   .outputs = 2});
  return cases;
}

}  // namespace rlx::test
