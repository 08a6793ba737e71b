// SPDX-License-Identifier: Apache-2.0
// The option check_indices over the null device: what a caller is told of indices that lie outside.
#include <memory>
#include <string>

#include "runtime/api/handles.h"
#include "runtime/include/rlx.h"
#include "runtime/null/null_device.h"
#include "tests/support/catch.h"
#include "tests/support/plan_fixture.h"

using namespace rlx::test;

namespace {

// A session on a plan of steps with a word each, whose input is set.
class IndexRig {
 public:
  explicit IndexRig(uint32_t check_indices, const PlanSpec& spec = index_plan(3))
      : bytes_(serialise(spec)) {
    REQUIRE(rlx_plan_open_memory(bytes_.data(), bytes_.size(), nullptr, &plan) == RLX_OK);
    device_ = rlx::make_device_handle(rlx::open_null_device(control));
    rlx_session_options options = RLX_INIT(rlx_session_options);
    options.check_indices = check_indices;
    options.profile = 1;
    REQUIRE(rlx_session_create(plan, device_, &options, &session) == RLX_OK);
    const float x[64] = {};
    rlx_tensor tensor = RLX_INIT(rlx_tensor);
    tensor.data = x;
    tensor.size_bytes = sizeof x;
    tensor.rank = 1;
    tensor.dims[0] = 64;
    REQUIRE(rlx_session_set_input(session, 0, "x", &tensor) == RLX_OK);
  }
  ~IndexRig() {
    rlx_session_close(session);
    rlx_device_close(device_);
    rlx_plan_close(plan);
  }
  IndexRig(const IndexRig&) = delete;
  IndexRig& operator=(const IndexRig&) = delete;

  [[nodiscard]] rlx_status run() const { return rlx_session_run(session, 0); }

  std::shared_ptr<rlx::NullControl> control = std::make_shared<rlx::NullControl>();
  rlx_plan* plan = nullptr;
  rlx_session* session = nullptr;

 private:
  std::vector<std::byte> bytes_;
  rlx_device* device_ = nullptr;
};

}  // namespace

TEST_CASE("a_run_with_indices_outside_names_its_first_such_step") {
  const IndexRig rig(1);
  CHECK(rig.run() == RLX_OK);
  rig.control->index_errors = {{1, 7}};
  CHECK(rig.run() == RLX_INDEX_OUT_OF_RANGE);
  CHECK(std::string(rlx_last_error()) ==
        "entry \"main\", step 1 (region, node \"main.node1\"): 7 indices lie outside");
  CHECK(std::string(rlx_status_name(RLX_INDEX_OUT_OF_RANGE)) == "index out of range");
}

TEST_CASE("other_steps_with_indices_outside_are_counted") {
  const IndexRig rig(1);
  rig.control->index_errors = {{0, 1}, {2, 4}};
  CHECK(rig.run() == RLX_INDEX_OUT_OF_RANGE);
  CHECK(std::string(rlx_last_error()) ==
        "entry \"main\", step 0 (region, node \"main.node0\"): 1 index lies outside; "
        "so do indices of 1 other step");
}

TEST_CASE("a_run_after_one_with_indices_outside_begins_anew") {
  const IndexRig rig(1);
  rig.control->index_errors = {{2, 1}};
  CHECK(rig.run() == RLX_INDEX_OUT_OF_RANGE);
  CHECK(rig.run() == RLX_INDEX_OUT_OF_RANGE);
  CHECK(std::string(rlx_last_error()).find(" 1 index lies") != std::string::npos);
  rig.control->index_errors.clear();
  CHECK(rig.run() == RLX_OK);
  CHECK(std::string(rlx_last_error()).empty());
}

TEST_CASE("outputs_of_a_run_with_indices_outside_can_be_read") {
  const IndexRig rig(1);
  rig.control->index_errors = {{0, 3}};
  CHECK(rlx_session_submit(rig.session, 0) == RLX_OK);
  CHECK(rlx_session_wait(rig.session, RLX_NO_TIMEOUT) == RLX_INDEX_OUT_OF_RANGE);
  float y[64] = {};
  CHECK(rlx_session_read_output(rig.session, 0, "y", y, sizeof y) == RLX_OK);
  CHECK(rlx_session_wait(rig.session, RLX_NO_TIMEOUT) == RLX_OK);
}

TEST_CASE("a_timeout_leaves_the_counts_for_the_wait_that_ends_the_run") {
  const IndexRig rig(1);
  rig.control->index_errors = {{0, 3}};
  rig.control->timeouts = 1;
  CHECK(rlx_session_submit(rig.session, 0) == RLX_OK);
  CHECK(rlx_session_wait(rig.session, 1000) == RLX_TIMEOUT);
  CHECK(rlx_session_wait(rig.session, 1000) == RLX_INDEX_OUT_OF_RANGE);
}

TEST_CASE("a_run_in_which_something_does_not_hold_says_what") {
  PlanSpec spec = index_plan(3);
  spec.entries[0].assertions = {
      {.word = spec.entries[0].steps[1].relocations.back().value, .text = "loop \"l\" goes on"}};
  const IndexRig rig(1, spec);
  CHECK(rig.run() == RLX_OK);
  rig.control->index_errors = {{0, 4}, {1, 7}};
  CHECK(rig.run() == RLX_ASSERTION_FAILED);
  CHECK(std::string(rlx_last_error()) ==
        "entry \"main\", step 1 (region, node \"main.node1\"): loop \"l\" goes on");
  CHECK(std::string(rlx_status_name(RLX_ASSERTION_FAILED)) == "assertion failed");
  rig.control->index_errors = {{0, 4}};
  CHECK(rig.run() == RLX_INDEX_OUT_OF_RANGE);
}

TEST_CASE("without_the_option_nobody_is_told_of_indices_outside") {
  const IndexRig rig(0);
  rig.control->index_errors = {{0, 3}};
  CHECK(rig.run() == RLX_OK);
  CHECK(rig.run() == RLX_OK);
}

TEST_CASE("a_profile_tells_of_indices_outside_and_reading_a_value_does_not") {
  const IndexRig rig(1);
  rig.control->index_errors = {{1, 2}};
  rlx_step_time times[3] = {};
  uint32_t count = 9;
  CHECK(rlx_session_profile(rig.session, 0, times, 3, &count) == RLX_INDEX_OUT_OF_RANGE);
  CHECK(count == 9);
  float h[64] = {};
  CHECK(rlx_session_read_value(rig.session, 0, 1, 4, h, sizeof h) == RLX_OK);
  rig.control->index_errors.clear();
  CHECK(rig.run() == RLX_OK);
}

TEST_CASE("check_indices_is_0_or_1") {
  const IndexRig rig(1);
  rlx_session_options options = RLX_INIT(rlx_session_options);
  options.check_indices = 2;
  rlx_device* device = rlx::make_device_handle(rlx::open_null_device(rig.control));
  rlx_session* session = nullptr;
  CHECK(rlx_session_create(rig.plan, device, &options, &session) == RLX_INVALID_ARGUMENT);
  CHECK(std::string(rlx_last_error()) == "options.check_indices is 2, must be 0 or 1");
  rlx_device_close(device);
}

TEST_CASE("words_of_index_errors_are_part_of_the_memory_that_a_plan_needs") {
  const IndexRig rig(1, index_plan(5));
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  REQUIRE(rlx_plan_get_info(rig.plan, &info) == RLX_OK);
  CHECK(info.index_error_bytes == 20);
  const uint64_t needed =
      info.weights_bytes + info.state_bytes + info.arena_bytes + info.io_bytes + 20;
  rlx_session_options options = RLX_INIT(rlx_session_options);
  rlx_device* device = rlx::make_device_handle(rlx::open_null_device(rig.control));
  rlx_session* session = nullptr;
  options.memory_budget_bytes = needed - 1;
  CHECK(rlx_session_create(rig.plan, device, &options, &session) == RLX_OUT_OF_DEVICE_MEMORY);
  CHECK(std::string(rlx_last_error()).find("index errors 20") != std::string::npos);
  options.memory_budget_bytes = needed;
  CHECK(rlx_session_create(rig.plan, device, &options, &session) == RLX_OK);
  rlx_session_close(session);
  rlx_device_close(device);
}
