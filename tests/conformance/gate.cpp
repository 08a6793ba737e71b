// SPDX-License-Identifier: Apache-2.0
// Cases of llada2_gate.
#include <string>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

Case gate_case(std::string law, CaseTensor scores, CaseTensor routing, std::string attributes) {
  return {.name = std::move(law),
          .op = "llada2_gate",
          .inputs = {std::move(scores), std::move(routing)},
          .attributes = std::move(attributes),
          .tolerance = Tolerance::Norm,
          .outputs = 2};
}

}  // namespace

std::vector<Case> gate_cases() {
  std::vector<Case> cases;
  const CaseTensor eight = tensor(DType::f32, {1, 8}).of({1, 2, 3, 4, 5, 6, 7, 8});
  Case known = gate_case("T139 scores weigh, routing below -1 stays out", eight,
                         tensor(DType::f32, {1, 8}).of({-5, -6, -3, -9, -2, -8, -7, -4}),
                         R"({"n_group": 4, "topk_group": 2, "top_k": 3, "scaling": 2.5})");
  // Groups score -11, -12, -10, -11: the third and, of equal ones, the first.
  known.golden = {{4, 0, 1}, {2.5 * 5 / 8, 2.5 * 1 / 8, 2.5 * 2 / 8}};
  cases.push_back(known);
  known = gate_case("ties go to the lower index, NaN is lowest", eight,
                    tensor(DType::f32, {1, 8}).of({kNan, 1, 1, 1, kNan, 1, 0, 0}),
                    R"({"n_group": 1, "topk_group": 1, "top_k": 5, "norm_topk": false})");
  known.golden = {{1, 2, 3, 5, 6}, {2, 3, 4, 6, 7}};
  cases.push_back(known);
  known = gate_case("one expert is not normed", eight, eight,
                    R"({"n_group": 8, "topk_group": 3, "top_k": 1, "scaling": 0.5})");
  known.golden = {{7}, {4}};
  cases.push_back(known);
  for (const DType t : {DType::f32, DType::f16, DType::bf16}) {
    cases.push_back(gate_case("LLaDA2's sizes", tensor(t, {13, 256}).uniform(0.01, 1),
                              tensor(t, {13, 256}),
                              R"({"n_group": 8, "topk_group": 4, "top_k": 8, "scaling": 2.5})"));
    cases.push_back(gate_case("plain: one group", tensor(t, {2, 7, 60}).uniform(0.01, 1),
                              tensor(t, {2, 7, 60}),
                              R"({"n_group": 1, "topk_group": 1, "top_k": 4})"));
  }
  cases.push_back(gate_case("T19 no tokens", tensor(DType::f32, {0, 16}),
                            tensor(DType::f32, {0, 16}),
                            R"({"n_group": 4, "topk_group": 2, "top_k": 2})"));
  return cases;
}

}  // namespace rlx::test
