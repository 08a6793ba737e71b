// SPDX-License-Identifier: Apache-2.0
// A run allocates nothing, and an allocation that fails is an error: by operator new of this whole
// program.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "runtime/include/rlx.h"
#include "tests/runtime/verify_fixture.h"
#include "tests/support/catch.h"
#include "tests/support/plan_fixture.h"

namespace {

std::atomic<uint64_t> allocations{0};
std::atomic<uint64_t> fail_at{0};  // 0: none

void* counted(size_t bytes) {
  if (++allocations == fail_at) throw std::bad_alloc();
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) {
  return counted(bytes);
}
void* operator new[](size_t bytes) {
  return counted(bytes);
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return ++allocations == fail_at ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}

namespace {

void check_that_runs_allocate_nothing(const rlx::test::PlanSpec& spec,
                                      const rlx_session_options* options) {
  const std::vector<std::byte> bytes = rlx::test::serialise(spec);
  rlx_plan* plan = nullptr;
  rlx_device* device = nullptr;
  rlx_session* session = nullptr;
  REQUIRE(rlx_plan_open_memory(bytes.data(), bytes.size(), nullptr, &plan) == RLX_OK);
  REQUIRE(rlx_device_open("null", &device) == RLX_OK);
  REQUIRE(rlx_session_create(plan, device, options, &session) == RLX_OK);
  float x[64] = {};
  float y[64] = {};
  rlx_tensor tensor = RLX_INIT(rlx_tensor);
  tensor.data = x;
  tensor.size_bytes = sizeof x;
  tensor.rank = 1;
  tensor.dims[0] = 64;
  const uint32_t depth = options == nullptr ? 1 : std::max(options->queue_depth, 1u);
  const auto submit_all = [&] {
    bool ok = true;
    uint64_t run = 0;
    for (uint32_t i = 0; i < depth; ++i) ok = ok && rlx_session_enqueue(session, 0, &run) == RLX_OK;
    return ok && rlx_session_wait_for(session, run, RLX_NO_TIMEOUT) == RLX_OK;
  };
  bool all_ok = true;
  const auto replay = [&] {
    all_ok = all_ok && rlx_session_set_input(session, 0, "x", &tensor) == RLX_OK &&
             rlx_session_run(session, 0) == RLX_OK && submit_all() &&
             rlx_session_wait(session, RLX_NO_TIMEOUT) == RLX_OK &&
             rlx_session_read_output(session, 0, "y", y, sizeof y) == RLX_OK;
  };
  replay();
  const uint64_t before = allocations;
  for (int i = 0; i < 100; ++i) replay();
  const uint64_t after = allocations;
  CHECK(all_ok);
  CHECK(after - before == 0);
  rlx_session_close(session);
  rlx_device_close(device);
  rlx_plan_close(plan);
}

}  // namespace

TEST_CASE("a_run_allocates_nothing") {
  check_that_runs_allocate_nothing(rlx::test::small_plan(), nullptr);
}

TEST_CASE("queued_runs_allocate_nothing") {
  rlx_session_options options = RLX_INIT(rlx_session_options);
  options.queue_depth = 5;
  check_that_runs_allocate_nothing(rlx::test::small_plan(), &options);
}

TEST_CASE("a_run_that_checks_indices_allocates_nothing") {
  rlx_session_options options = RLX_INIT(rlx_session_options);
  options.check_indices = 1;
  check_that_runs_allocate_nothing(rlx::test::index_plan(5), &options);
}

TEST_CASE("a_run_at_a_kept_binding_allocates_nothing") {
  const std::vector<std::byte> bytes = rlx::test::serialise(rlx::test::free_plan());
  rlx_plan* plan = nullptr;
  rlx_device* device = nullptr;
  rlx_session* session = nullptr;
  REQUIRE(rlx_plan_open_memory(bytes.data(), bytes.size(), nullptr, &plan) == RLX_OK);
  REQUIRE(rlx_device_open("null", &device) == RLX_OK);
  REQUIRE(rlx_session_create(plan, device, nullptr, &session) == RLX_OK);
  float x[64] = {};
  float z[16] = {};
  bool all_ok = true;
  // Three bindings in turn.
  const auto replay = [&] {
    for (const uint64_t seq : {3, 16, 5}) {
      rlx_tensor tensor = RLX_INIT(rlx_tensor);
      tensor.data = x;
      tensor.rank = 2;
      tensor.dims[0] = 2;
      tensor.dims[1] = seq;
      tensor.size_bytes = 2 * seq * sizeof(float);
      all_ok = all_ok && rlx_session_set_input(session, 0, "x", &tensor) == RLX_OK &&
               rlx_session_run(session, 0) == RLX_OK &&
               rlx_session_read_output(session, 0, "z", z, seq * sizeof(float)) == RLX_OK;
    }
  };
  replay();
  const uint64_t before = allocations;
  for (int i = 0; i < 100; ++i) replay();
  CHECK(allocations - before == 0);
  CHECK(all_ok);
  rlx_session_close(session);
  rlx_device_close(device);
  rlx_plan_close(plan);
}

TEST_CASE("every_failing_allocation_is_an_error_and_the_next_try_works") {
  const std::vector<std::byte> bytes = rlx::test::serialise(rlx::test::small_plan());
  const auto use = [&]() -> rlx_status {
    rlx_plan* plan = nullptr;
    rlx_device* device = nullptr;
    rlx_session* session = nullptr;
    float x[64] = {4};
    rlx_tensor tensor = RLX_INIT(rlx_tensor);
    tensor.data = x;
    tensor.size_bytes = sizeof x;
    tensor.rank = 1;
    tensor.dims[0] = 64;
    rlx_status status = rlx_plan_open_memory(bytes.data(), bytes.size(), nullptr, &plan);
    if (status == RLX_OK) status = rlx_device_open("null", &device);
    if (status == RLX_OK) status = rlx_session_create(plan, device, nullptr, &session);
    if (status == RLX_OK) status = rlx_session_set_input(session, 1, "x", &tensor);
    if (status == RLX_OK) status = rlx_session_run(session, 1);
    if (status == RLX_OK) status = rlx_session_read_output(session, 1, "y", x, sizeof x);
    rlx_session_close(session);
    rlx_device_close(device);
    rlx_plan_close(plan);
    return status;
  };
  const uint64_t first = allocations;
  REQUIRE(use() == RLX_OK);
  const uint64_t count = allocations - first;
  uint64_t wrong = 0;
  for (uint64_t k = 1; k <= count; ++k) {
    fail_at = allocations + k;
    // std::get_temporary_buffer and its like do without what they were refused.
    const rlx_status status = use();
    wrong += status == RLX_OUT_OF_HOST_MEMORY || status == RLX_OK ? 0 : 1;
    fail_at = 0;
    wrong += use() == RLX_OK ? 0 : 1;
  }
  CHECK(count > 50);
  CHECK(wrong == 0);
}

TEST_CASE("a_binding_for_which_memory_runs_out_can_be_tried_again") {
  const std::vector<std::byte> bytes = rlx::test::serialise(rlx::test::free_plan());
  rlx_plan* plan = nullptr;
  rlx_device* device = nullptr;
  rlx_session* session = nullptr;
  rlx_session_options options = RLX_INIT(rlx_session_options);
  options.max_bindings = 2;
  REQUIRE(rlx_plan_open_memory(bytes.data(), bytes.size(), nullptr, &plan) == RLX_OK);
  REQUIRE(rlx_device_open("null", &device) == RLX_OK);
  REQUIRE(rlx_session_create(plan, device, &options, &session) == RLX_OK);
  alignas(16) float z[16] = {};
  float x[64] = {};
  const auto run = [&](uint64_t seq) {
    rlx_tensor tensor = RLX_INIT(rlx_tensor);
    tensor.data = x;
    tensor.rank = 2;
    tensor.dims[0] = 1;
    tensor.dims[1] = seq;
    tensor.size_bytes = seq * sizeof(float);
    const rlx_status status = rlx_session_set_input(session, 0, "x", &tensor);
    return status == RLX_OK ? rlx_session_run(session, 0) : status;
  };
  uint64_t wrong = 0;
  uint64_t refused = 0;
  for (uint64_t k = 1; k < 120; ++k) {
    const uint64_t seq = 1 + k % 15;
    fail_at = allocations + k;
    const rlx_status status = run(seq);
    fail_at = 0;
    refused += status == RLX_OUT_OF_HOST_MEMORY ? 1 : 0;
    wrong += status == RLX_OUT_OF_HOST_MEMORY || status == RLX_OK ? 0 : 1;
    // What was begun is in nobody's way.
    wrong +=
        rlx_session_bind_output(session, 0, "z", reinterpret_cast<uint64_t>(z), sizeof z) == RLX_OK
            ? 0
            : 1;
    z[seq - 1] = 0;
    wrong += run(seq) == RLX_OK && z[seq - 1] == 1 ? 0 : 1;
    wrong += rlx_session_bind_output(session, 0, "z", 0, 0) == RLX_OK ? 0 : 1;
  }
  CHECK(refused > 20);
  CHECK(wrong == 0);
  rlx_session_close(session);
  rlx_device_close(device);
  rlx_plan_close(plan);
}
