// SPDX-License-Identifier: Apache-2.0
// Which grids have a multiprocessor for each workgroup, and how much shared memory keeps a second
// one away. Needs no GPU.
#include <utility>

#include "runtime/cuda/cu_launch.h"
#include "tests/support/catch.h"

using namespace rlx;

namespace {

// Of an H200, and of a GeForce RTX 30: in all, and of one workgroup.
constexpr uint32_t kDatacenter = 228 * 1024;
constexpr uint32_t kMostDatacenter = 227 * 1024;
constexpr uint32_t kDesktop = 100 * 1024;
constexpr uint32_t kMostDesktop = 99 * 1024;
constexpr uint32_t kReserved = 1024;  // of each workgroup, beside what it asks for

}  // namespace

TEST_CASE("a workgroup that is to be alone leaves no room for another one") {
  for (const uint32_t fixed_bytes : {0u, 16u, 4096u}) {
    for (const uint32_t shared_bytes : {49u * 1024, 80u * 1024, kDatacenter / 2 - 1}) {
      const uint32_t dynamic_bytes = cuda::alone_shared_bytes(
          shared_bytes, shared_bytes - fixed_bytes, kDatacenter, kMostDatacenter);
      CAPTURE(fixed_bytes, shared_bytes, dynamic_bytes);
      REQUIRE(dynamic_bytes + fixed_bytes > shared_bytes);
      REQUIRE(dynamic_bytes + fixed_bytes <= kMostDatacenter);
      REQUIRE(2 * (dynamic_bytes + fixed_bytes + kReserved) > kDatacenter);
    }
  }
}

TEST_CASE("a workgroup that is alone anyway asks for no more") {
  REQUIRE(cuda::alone_shared_bytes(kDatacenter / 2, kDatacenter / 2, kDatacenter,
                                   kMostDatacenter) == 0);
  REQUIRE(cuda::alone_shared_bytes(200 * 1024, 200 * 1024, kDatacenter, kMostDatacenter) == 0);
  REQUIRE(cuda::alone_shared_bytes(60 * 1024, 60 * 1024, kDesktop, kMostDesktop) == 0);
  // A device whose workgroups may not have half of it.
  REQUIRE(cuda::alone_shared_bytes(49 * 1024, 49 * 1024, kDatacenter, kDatacenter / 2 - 1) == 0);
}

TEST_CASE("workgroups have a multiprocessor each where their clusters find room") {
  constexpr uint32_t kMultiprocessors = 132;
  for (const auto& [cluster, most] :
       {std::pair(1u, 132u), std::pair(2u, 132u), std::pair(4u, 118u), std::pair(8u, 99u)}) {
    CAPTURE(cluster);
    REQUIRE(cuda::fit_one_each(most, cluster, kMultiprocessors));
    REQUIRE_FALSE(cuda::fit_one_each(most + 1, cluster, kMultiprocessors));
  }
  REQUIRE_FALSE(cuda::fit_one_each(1, 1, 0));
}
