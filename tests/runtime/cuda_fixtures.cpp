// SPDX-License-Identifier: Apache-2.0
// Plans that break the verifier's rules about CUDA code.
#include "runtime/plan/cuda_code.h"
#include "tests/runtime/verify_fixture.h"
#include "tests/support/catch.h"
#include "tests/support/cubin.h"

namespace rlx::test {
namespace {

constexpr size_t kCubin = 1;  // of the variants that add_cuda gives a kernel
constexpr size_t kPtx = 2;

Fixture cuda_fixture(VerifyRule rule, std::string what, size_t variant,
                     std::function<void(SpecVariant&)> edit) {
  return {rule, std::move(what), [variant, edit = std::move(edit)](PlanSpec& spec) {
            add_cuda(spec);
            edit(spec.kernels[0].variants[variant]);
          }};
}

// Code of the first kernel, whose params have 24 bytes.
Fixture cubin_fixture(VerifyRule rule, std::string what, const CubinOptions& options) {
  return cuda_fixture(rule, std::move(what), kCubin,
                      [options](SpecVariant& v) { v.code = make_cubin(options); });
}

Bytes without_end(Bytes bytes) {
  bytes.pop_back();
  return bytes;
}

}  // namespace

std::vector<Fixture> cuda_fixtures() {
  using Rule = VerifyRule;
  return {
      cubin_fixture(Rule::CubinForm, "a cubin for another architecture", {.architecture = 80}),
      cuda_fixture(Rule::CubinForm, "a cubin that is no ELF", kCubin,
                   [](SpecVariant& v) { v.code = make_ptx("sm_70", "main"); }),
      cubin_fixture(Rule::CubinEntry, "a cubin without the function", {.function = "other"}),
      cuda_fixture(Rule::PtxForm, "PTX for a newer architecture", kPtx,
                   [](SpecVariant& v) { v.code = make_ptx("sm_90", "main"); }),
      cuda_fixture(Rule::PtxForm, "PTX without the entry", kPtx,
                   [](SpecVariant& v) { v.code = make_ptx("sm_80", "main2"); }),
      cuda_fixture(Rule::PtxForm, "PTX without its end", kPtx,
                   [](SpecVariant& v) { v.code = without_end(v.code); }),
      cuda_fixture(Rule::LaunchFields, "clusters in PTX for compute_80", kPtx,
                   [](SpecVariant& v) { v.cluster_x = 2; }),
      cuda_fixture(Rule::LaunchFields, "PTX for compute_80 that waits", kPtx,
                   [](SpecVariant& v) { v.waits_for_predecessors = true; }),
      cuda_fixture(Rule::LaunchFields, "clusters of 17", kCubin,
                   [](SpecVariant& v) {
                     v.code = make_cubin({.cluster_x = 17});
                     v.cluster_x = 17;
                   }),
      cuda_fixture(Rule::LaunchFields, "more dynamic shared memory than shared memory", kPtx,
                   [](SpecVariant& v) { v.dynamic_shared_bytes = 4; }),
      {Rule::LaunchFields, "SPIR-V that waits",
       [](PlanSpec& spec) { spec.kernels[0].variants[0].waits_for_predecessors = true; }},
      {Rule::LaunchFields, "SPIR-V whose workgroups run at once",
       [](PlanSpec& spec) { spec.kernels[0].variants[0].runs_together = true; }},
      cubin_fixture(Rule::CubinTogether,
                    "workgroups that wait for each other, which is not recorded",
                    {.runs_together = true}),
      cuda_fixture(Rule::CubinTogether, "workgroups recorded as waiting for each other", kCubin,
                   [](SpecVariant& v) { v.runs_together = true; }),
      cubin_fixture(Rule::CubinParams, "a cubin of other params", {.params_bytes = 32}),
      cubin_fixture(Rule::CubinWorkgroup, "a cubin of smaller workgroups", {.max_threads = 63}),
      cubin_fixture(Rule::CubinShared, "shared memory that is not recorded",
                    {.static_shared_bytes = 512}),
      cubin_fixture(Rule::CubinShared, "dynamic shared memory that is not recorded",
                    {.dynamic_shared_bytes = 512}),
      cuda_fixture(Rule::CubinShared, "static shared memory recorded as dynamic", kCubin,
                   [](SpecVariant& v) {
                     v.code = make_cubin({.static_shared_bytes = 512});
                     v.shared_bytes = 512;
                     v.dynamic_shared_bytes = 512;
                   }),
      cubin_fixture(Rule::CubinCluster, "clusters that are not recorded", {.cluster_x = 2}),
      cuda_fixture(Rule::ClusterGrid, "a grid of half a cluster", kCubin,
                   [](SpecVariant& v) {
                     v.code = make_cubin({.cluster_x = 2});
                     v.cluster_x = 2;
                   }),
  };
}

TEST_CASE("a cubin tells what its kernel needs") {
  const Bytes cubin = make_cubin({.params_bytes = 40,
                                  .max_threads = 256,
                                  .registers = 77,
                                  .local_bytes = 16,
                                  .static_shared_bytes = 1000,
                                  .dynamic_shared_bytes = 50000,
                                  .cluster_x = 4,
                                  .runs_together = true});
  const std::optional<CubinFacts> facts = read_cubin(cubin, "main", 90);
  REQUIRE(facts.has_value());
  CHECK(facts->params_bytes == 40);
  CHECK(facts->max_threads == 256);
  CHECK(facts->registers == 77);
  CHECK(facts->local_bytes == 16);
  CHECK(facts->static_shared_bytes == 1000);
  CHECK(facts->dynamic_shared_bytes == 50000);
  CHECK(facts->cluster_x == 4);
  CHECK(facts->runs_together);
}

TEST_CASE("a damaged cubin is refused or read, never followed out of its bytes") {
  const Bytes whole = make_cubin({.static_shared_bytes = 512, .cluster_x = 2});
  for (size_t size = 0; size < whole.size(); ++size) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK_FALSE(check_cubin(cut, 90).empty());
    CHECK_FALSE(read_cubin(cut, "main", 90).has_value());
  }
  size_t read = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int value : {0x00, 0x7F, 0xFF}) {
      Bytes damaged = whole;
      damaged[at] = std::byte(value);
      static_cast<void>(check_cubin(damaged, 90));
      if (read_cubin(damaged, "main", 90).has_value()) ++read;
    }
  }
  CHECK(read > 0);
}

}  // namespace rlx::test
