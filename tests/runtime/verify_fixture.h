// SPDX-License-Identifier: Apache-2.0
// A plan that breaks one rule of the verifier alone, made from a valid one.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/verify/verify.h"
#include "tests/support/free_plans.h"
#include "tests/support/plan_fixture.h"

namespace rlx::test {

using Bytes = std::vector<std::byte>;

struct Fixture {
  VerifyRule rule{};
  std::string what;
  std::function<void(PlanSpec&)> edit;          // of the description
  std::function<void(Bytes&)> edit_bytes = {};  // of the finished plan
  PlanSpec (*base)() = small_plan;
};

// Of CUDA code, in rule group 9.
std::vector<Fixture> cuda_fixtures();

// Of rule group 11 and of tensor maps.
std::vector<Fixture> gemm_fixtures();
// Of rule group 12, and of what other groups ask of words of index errors.
std::vector<Fixture> index_error_fixtures();
// Of the words of params that are no pointers, and of code that belongs to another record.
std::vector<Fixture> contract_fixtures();
// Of rule group 14.
std::vector<Fixture> free_fixtures();
// Of rule group 15.
std::vector<Fixture> profile_fixtures();
// Of rule group 16.
std::vector<Fixture> region_fixtures();
// Plans that are right with every free symbol at its maximum, and not at these values.
struct BindingFixture {
  Fixture fixture;
  std::vector<uint64_t> symbols;
};
std::vector<BindingFixture> binding_fixtures();
// A plan with free symbols, batch from 1 to 4 and seq from 0 to 16. "main": x f32[batch, seq] ->
// y f32[batch, seq], z f32[seq]: x is copied to the arena, a kernel with a count of elements in its
// params makes y of that, a fill makes z.
PlanSpec free_plan();
// free_plan() with forms of its dispatch by seq: kernel 2 up to 4 with a grid of [seq * 4, 4, 4],
// kernel 1 up to 8 with one of [4, 4, seq]. All kernels are the same.
PlanSpec formed_plan();
// free_plan() in which kernel 1 computes y up to 8 of seq, kernel 0 from there on: step 1, which is
// skipped at the maximum, and step 2, which is skipped where step 1 is not.
PlanSpec alternates_plan();
// small_plan() in which a count of two words bounds two pointers and one of one word the third,
// beside a plain word; init dispatches too.
PlanSpec counted_plan();
// index_plan() of three steps.
PlanSpec three_words_plan();
// gemm_plan() with a kernel that has a tensor map.
PlanSpec map_plan();
// map_plan() with a map of pixels under a window.
PlanSpec window_plan();
// map_plan() with a map of three dims, the second of which is a size of the kernel.
PlanSpec sized_map_plan();
// gemm_plan() with a dispatch that may take the place of its library product.
PlanSpec alternative_plan();

}  // namespace rlx::test
