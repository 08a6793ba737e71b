// SPDX-License-Identifier: Apache-2.0
// Free symbols over the C API and the null device: shapes that set them, bindings that are kept,
// and what is refused.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/api/handles.h"
#include "runtime/include/rlx.h"
#include "runtime/null/null_device.h"
#include "tests/runtime/verify_fixture.h"
#include "tests/support/catch.h"
#include "tests/support/free_plans.h"

namespace rlx::test {
namespace {

class FreeRig {
 public:
  explicit FreeRig(const PlanSpec& spec = free_copies_plan(), uint32_t max_bindings = 0)
      : bytes_(serialise(spec)) {
    REQUIRE(rlx_plan_open_memory(bytes_.data(), bytes_.size(), nullptr, &plan) == RLX_OK);
    device_ = make_device_handle(open_null_device(control));
    rlx_session_options options = RLX_INIT(rlx_session_options);
    options.max_bindings = max_bindings;
    options.profile = 1;
    REQUIRE(rlx_session_create(plan, device_, &options, &session) == RLX_OK);
  }
  ~FreeRig() {
    rlx_session_close(session);
    rlx_device_close(device_);
    rlx_plan_close(plan);
  }
  FreeRig(const FreeRig&) = delete;
  FreeRig& operator=(const FreeRig&) = delete;

  rlx_status set(const char* name, const std::vector<uint64_t>& dims, float first = 0) {
    rlx_tensor tensor = RLX_INIT(rlx_tensor);
    uint64_t count = 1;
    for (const uint64_t dim : dims) tensor.dims[tensor.rank++] = dim, count *= dim;
    std::vector<float> data(count + 1);
    std::iota(data.begin(), data.end(), first);
    tensor.data = data.data();
    tensor.size_bytes = count * sizeof(float);
    return rlx_session_set_input(session, 0, name, &tensor);
  }
  // All three inputs.
  void set_all(uint64_t batch, uint64_t seq, float first) {
    REQUIRE(set("x", {batch, seq}, first) == RLX_OK);
    REQUIRE(set("m", {batch, seq}, first + 100) == RLX_OK);
    REQUIRE(set("k", {2 * seq}, first + 200) == RLX_OK);
  }
  // "" where the output begins with `first` and counts on, as long as it should be.
  std::string wrong(const char* name, uint64_t count, float first) {
    std::vector<float> data(count + 1);
    if (rlx_session_read_output(session, 0, name, data.data(), count * 4) != RLX_OK)
      return rlx_last_error();
    for (uint64_t i = 0; i < count; ++i) {
      if (data[i] != first + static_cast<float>(i)) return "wrong numbers";
    }
    return "";
  }

  std::shared_ptr<NullControl> control = std::make_shared<NullControl>();
  rlx_plan* plan = nullptr;
  rlx_session* session = nullptr;

 private:
  Bytes bytes_;
  rlx_device* device_ = nullptr;
};

std::string error() {
  return rlx_last_error();
}

}  // namespace

TEST_CASE("symbols_follow_the_shapes_of_the_inputs_in_any_order") {
  FreeRig rig;
  const auto check = [&](uint64_t batch, uint64_t seq, float first) {
    INFO(batch << " x " << seq);
    CHECK(rlx_session_run(rig.session, 0) == RLX_OK);
    INFO(error());
    CHECK(rig.wrong("y", batch * seq, first) == "");
    CHECK(rig.wrong("n", batch * seq, first + 100) == "");
    CHECK(rig.wrong("l", 2 * seq, first + 200) == "");
  };
  rig.set_all(4, 16, 1);
  check(4, 16, 1);
  rig.set_all(2, 7, 2);
  check(2, 7, 2);
  REQUIRE(rig.set("k", {20}, 203) == RLX_OK);
  REQUIRE(rig.set("m", {3, 10}, 103) == RLX_OK);
  REQUIRE(rig.set("x", {3, 10}, 3) == RLX_OK);
  check(3, 10, 3);
  rig.set_all(1, 0, 4);
  check(1, 0, 4);
  rig.set_all(4, 16, 5);
  check(4, 16, 5);
}

TEST_CASE("inputs_that_disagree_on_a_symbol_are_named_with_their_axes") {
  FreeRig rig;
  rig.set_all(2, 7, 1);
  REQUIRE(rlx_session_run(rig.session, 0) == RLX_OK);
  REQUIRE(rig.set("m", {2, 9}) == RLX_OK);
  CHECK(rlx_session_run(rig.session, 0) == RLX_INVALID_ARGUMENT);
  CHECK(error() ==
        "inputs \"m\" (9 at axis 1) and \"x\" (7 at axis 1) of entry \"main\" disagree on symbol "
        "\"seq\"");
  REQUIRE(rig.set("x", {2, 9}) == RLX_OK);
  CHECK(rlx_session_run(rig.session, 0) == RLX_INVALID_ARGUMENT);
  CHECK(error() ==
        "input \"k\" of entry \"main\" was set with 14 at axis 0, wanted 18, which seq + seq is "
        "at batch = 2, seq = 9");
  REQUIRE(rig.set("k", {18}) == RLX_OK);
  CHECK(rlx_session_run(rig.session, 0) == RLX_OK);
  REQUIRE(rlx_session_set_symbol(rig.session, 0, "batch", 3) == RLX_OK);
  CHECK(rlx_session_run(rig.session, 0) == RLX_INVALID_STATE);
  CHECK(
      error() ==
      "input \"x\" of entry \"main\" was set with 2 at axis 0, symbol \"batch\" is 3 now; set the "
      "input again, or the symbol");
  REQUIRE(rlx_session_set_symbol(rig.session, 0, "batch", 2) == RLX_OK);
  CHECK(rlx_session_run(rig.session, 0) == RLX_OK);
}

TEST_CASE("a_size_outside_its_range_is_refused_and_changes_nothing") {
  PlanSpec spec = free_copies_plan();
  spec.symbols[1].multiple_of = 2;
  FreeRig rig(spec);
  rig.set_all(2, 6, 1);
  REQUIRE(rlx_session_run(rig.session, 0) == RLX_OK);
  CHECK(rig.set("x", {5, 6}) == RLX_INVALID_ARGUMENT);
  CHECK(error() ==
        "input \"x\" of entry \"main\" has 5 at axis 0, which is symbol \"batch\", wanted 1 to 4");
  CHECK(rig.set("x", {2, 7}) == RLX_INVALID_ARGUMENT);
  CHECK(error() ==
        "input \"x\" of entry \"main\" has 7 at axis 1, which is symbol \"seq\", wanted 0 to 16 in "
        "steps of 2");
  CHECK(rig.set("x", {6}) == RLX_INVALID_ARGUMENT);
  CHECK(error() == "input \"x\" of entry \"main\" got f32[6], wanted f32[batch,seq]");
  CHECK(rig.set("k", {40}) == RLX_INVALID_ARGUMENT);
  CHECK(error() ==
        "input \"k\" of entry \"main\" got f32[40], which is larger than it can become: f32[32]");
  CHECK(rlx_session_set_symbol(rig.session, 0, "seq", 18) == RLX_INVALID_ARGUMENT);
  CHECK(error() == "symbol \"seq\" was given 18, wanted 0 to 16 in steps of 2");
  CHECK(rlx_session_set_symbol(rig.session, 0, "heads", 1) == RLX_INVALID_ARGUMENT);
  CHECK(error() == "the plan has no symbol \"heads\"; its symbols are \"batch\" and \"seq\"");
  // Nothing of that took effect.
  CHECK(rig.wrong("y", 12, 1) == "");
  CHECK(rlx_session_run(rig.session, 0) == RLX_OK);
  CHECK(rig.wrong("y", 12, 1) == "");
}

TEST_CASE("a_refused_binding_leaves_the_session_at_its_last_one") {
  PlanSpec spec = free_copies_plan();
  // batch - seq / 5 is negative for some.
  SpecEntry& main = spec.entries[0];
  main.sizes.emplace_back(5, 0, 0, fb::SizeOp::Constant);
  main.sizes.emplace_back(0, 1, 7, fb::SizeOp::FloorDivide);
  main.sizes.emplace_back(0, 0, 8, fb::SizeOp::Subtract);
  FreeRig rig(spec);
  REQUIRE(rlx_session_set_symbol(rig.session, 0, "batch", 2) == RLX_OK);
  REQUIRE(rlx_session_set_symbol(rig.session, 0, "seq", 4) == RLX_OK);
  REQUIRE(rlx_session_prepare(rig.session, 0) == RLX_OK);
  REQUIRE(rlx_session_set_symbol(rig.session, 0, "seq", 16) == RLX_OK);
  CHECK(rlx_session_prepare(rig.session, 0) == RLX_INVALID_PLAN);
  CHECK(error() == "entry \"main\" at batch = 2, seq = 16: batch - floor(seq / 5) is negative");
  uint64_t seq = 0;
  REQUIRE(rlx_session_get_symbol(rig.session, 0, "seq", &seq) == RLX_OK);
  CHECK(seq == 4);
  CHECK(rlx_session_prepare(rig.session, 0) == RLX_OK);
}

TEST_CASE("a_run_takes_the_program_of_the_range_that_its_values_are_in") {
  FreeRig rig(ranged_copies_plan());
  const auto check = [&](uint64_t batch, uint64_t seq, float first) {
    INFO(batch << " x " << seq);
    rig.set_all(batch, seq, first);
    CHECK(rlx_session_run(rig.session, 0) == RLX_OK);
    INFO(error());
    CHECK(rig.wrong("y", batch * seq, first) == "");
    CHECK(rig.wrong("n", batch * seq, first + 100) == "");
    CHECK(rig.wrong("l", 2 * seq, first + 200) == "");
    rlx_tensor_info info = RLX_INIT(rlx_tensor_info);
    REQUIRE(rlx_session_get_output(rig.session, 0, 2, &info) == RLX_OK);
    CHECK(info.dims[0] == 2 * seq);
    // The first value of either record: x of the large one, l of the small one.
    REQUIRE(rlx_session_get_value(rig.session, 0, 0, &info) == RLX_OK);
    CHECK(std::string(info.name) == (seq < 8 ? "l" : "x"));
  };
  check(4, 16, 1);
  check(2, 7, 2);
  check(2, 8, 3);
  check(1, 0, 4);
  check(3, 7, 5);
  check(4, 16, 6);
}

TEST_CASE("values_between_the_ranges_are_refused_with_what_there_is") {
  PlanSpec spec = ranged_copies_plan();
  spec.entries[0].ranges = {{10, 16, 2, 1}};
  FreeRig rig(spec);
  CHECK(rig.set("x", {2, 9}) == RLX_INVALID_ARGUMENT);
  CHECK(error() ==
        "input \"x\" of entry \"main\" has 9 at axis 1, which is symbol \"seq\", wanted 0 to 7, 10 "
        "to 16 in steps of 2");
  CHECK(rlx_session_set_symbol(rig.session, 0, "seq", 11) == RLX_INVALID_ARGUMENT);
  CHECK(error() == "symbol \"seq\" was given 11, wanted 0 to 7, 10 to 16 in steps of 2");
  CHECK(rlx_session_set_symbol(rig.session, 0, "seq", 12) == RLX_OK);
  CHECK(rlx_session_prepare(rig.session, 0) == RLX_OK);
}

TEST_CASE("values_that_no_program_has_together_are_refused_when_the_entry_runs") {
  PlanSpec spec = ranged_copies_plan();
  spec.entries[1].ranges = {{1, 2, 1, 0}, {0, 7, 1, 1}};
  // At its maxima: batch 2.
  for (SpecValue& value : spec.entries[1].values) {
    if (value.dims.size() == 2) value.dims[0] = 2, value.size_bytes /= 2;
  }
  for (SpecStep& step : spec.entries[1].steps) {
    for (SpecRelocation& relocation : step.relocations)
      relocation.length_bytes = spec.entries[1].values[relocation.value].size_bytes;
  }
  FreeRig rig(spec);
  rig.set_all(2, 7, 1);
  CHECK(rlx_session_run(rig.session, 0) == RLX_OK);
  rig.set_all(3, 7, 1);
  CHECK(rlx_session_run(rig.session, 0) == RLX_INVALID_ARGUMENT);
  CHECK(
      error() ==
      "the plan has nothing for entry \"main\" at batch = 3, seq = 7: none of its ranges has these "
      "values together");
  rlx_program_info info = RLX_INIT(rlx_program_info);
  CHECK(rlx_session_get_program(rig.session, 0, &info) == RLX_OK);  // at the last right binding
  rig.set_all(3, 12, 1);
  CHECK(rlx_session_run(rig.session, 0) == RLX_OK);
}

TEST_CASE("outputs_have_their_present_shapes") {
  FreeRig rig;
  rig.set_all(2, 7, 1);
  rlx_tensor_info info = RLX_INIT(rlx_tensor_info);
  REQUIRE(rlx_session_get_output(rig.session, 0, 2, &info) == RLX_OK);
  CHECK(info.rank == 1);
  CHECK(info.dims[0] == 14);
  CHECK(info.size_bytes == 56);
  REQUIRE(rlx_session_get_input(rig.session, 0, 0, &info) == RLX_OK);
  CHECK(info.dims[1] == 7);
  REQUIRE(rlx_plan_get_output(rig.plan, 0, 2, &info) == RLX_OK);
  CHECK(info.dims[0] == 32);
  REQUIRE(rlx_session_run(rig.session, 0) == RLX_OK);
  float data[64];
  CHECK(rlx_session_read_output(rig.session, 0, "y", data, sizeof data) == RLX_INVALID_ARGUMENT);
  CHECK(error() == "output \"y\" of entry \"main\" got room for 256 bytes, wanted 56 for f32[2,7]");
  // Another size drops what the last run gave.
  REQUIRE(rlx_session_set_symbol(rig.session, 0, "seq", 8) == RLX_OK);
  CHECK(rlx_session_read_output(rig.session, 0, "y", data, 56) == RLX_INVALID_STATE);
  CHECK(rlx_session_get_output(rig.session, 0, 3, &info) == RLX_INVALID_ARGUMENT);
}

TEST_CASE("a_plan_tells_its_symbols_and_which_dims_are_free") {
  FreeRig rig;
  CHECK(rlx_plan_symbol_count(rig.plan) == 2);
  CHECK(rlx_plan_symbol_count(nullptr) == 0);
  rlx_symbol_info symbol = RLX_INIT(rlx_symbol_info);
  REQUIRE(rlx_plan_get_symbol(rig.plan, 1, &symbol) == RLX_OK);
  CHECK(std::string(symbol.name) == "seq");
  CHECK(symbol.minimum == 0);
  CHECK(symbol.maximum == 16);
  CHECK(symbol.is_free == 1);
  CHECK(rlx_plan_get_symbol(rig.plan, 2, &symbol) == RLX_INVALID_ARGUMENT);
  rlx_dim_info dim = RLX_INIT(rlx_dim_info);
  REQUIRE(rlx_plan_get_input_dim(rig.plan, 0, 1, 1, &dim) == RLX_OK);
  CHECK(dim.is_free == 1);
  CHECK(dim.symbol == 1);
  CHECK(dim.maximum == 16);
  REQUIRE(rlx_plan_get_output_dim(rig.plan, 0, 2, 0, &dim) == RLX_OK);
  CHECK(dim.is_free == 1);
  CHECK(dim.symbol == RLX_NO_SYMBOL);
  CHECK(rlx_plan_get_input_dim(rig.plan, 0, 1, 2, &dim) == RLX_INVALID_ARGUMENT);
}

TEST_CASE("the_last_bindings_of_a_session_stay_recorded") {
  FreeRig rig(free_copies_plan(), 2);
  const auto calls_of_run_at = [&](uint64_t seq) {
    rig.set_all(2, seq, 1);
    const uint64_t before = rig.control->calls;
    REQUIRE(rlx_session_run(rig.session, 0) == RLX_OK);
    CHECK(rig.wrong("y", 2 * seq, 1) == "");
    return rig.control->calls - before;
  };
  const uint64_t recorded = calls_of_run_at(1);
  const uint64_t kept = calls_of_run_at(1);
  CHECK(kept + 1 == recorded);
  CHECK(calls_of_run_at(2) == recorded);
  CHECK(calls_of_run_at(1) == kept);
  CHECK(calls_of_run_at(3) == recorded);  // in the place of 2
  CHECK(calls_of_run_at(1) == kept);
  CHECK(calls_of_run_at(2) == recorded);
}

TEST_CASE("a_kept_binding_costs_a_look_up") {
  constexpr int kTimes = 2000;
  FreeRig rig;
  bool good = true;
  const auto use_all = [&] {
    for (uint64_t seq = 1; seq <= 8; ++seq) {
      good = good && rlx_session_set_symbol(rig.session, 0, "seq", seq) == RLX_OK &&
             rlx_session_prepare(rig.session, 0) == RLX_OK;
    }
  };
  use_all();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i) use_all();
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  std::printf("a kept binding: %.2f us\n", took.count() / kTimes / 8);
  CHECK(good);
  CHECK(took.count() / kTimes / 8 < 50);
}

TEST_CASE("a_recording_that_fails_at_new_values_can_be_tried_again") {
  FreeRig rig;
  rig.set_all(2, 4, 1);
  REQUIRE(rlx_session_run(rig.session, 0) == RLX_OK);
  rig.set_all(2, 6, 1);
  rig.control->fail_at_call = rig.control->calls + 1;
  CHECK(rlx_session_run(rig.session, 0) == RLX_OUT_OF_DEVICE_MEMORY);
  CHECK(rlx_session_run(rig.session, 0) == RLX_OK);
  CHECK(rig.wrong("y", 12, 1) == "");
}

TEST_CASE("buffers_of_the_caller_hold_the_present_size") {
  FreeRig rig;
  rig.set_all(2, 4, 1);
  alignas(16) float room[64] = {};
  const auto address = reinterpret_cast<uint64_t>(room);
  REQUIRE(rlx_session_bind_output(rig.session, 0, "y", address, 48) == RLX_OK);
  REQUIRE(rlx_session_run(rig.session, 0) == RLX_OK);
  CHECK(room[7] == 8);
  rig.set_all(2, 8, 1);
  CHECK(rlx_session_run(rig.session, 0) == RLX_INVALID_ARGUMENT);
  CHECK(
      error() ==
      "the memory for \"y\" of entry \"main\" has 48 bytes, at batch = 2, seq = 8 it must have 64");
  REQUIRE(rlx_session_bind_output(rig.session, 0, "y", address, sizeof room) == RLX_OK);
  REQUIRE(rlx_session_run(rig.session, 0) == RLX_OK);
  CHECK(room[15] == 16);
  // Bindings that were made before use the same buffer.
  rig.set_all(2, 4, 50);
  REQUIRE(rlx_session_run(rig.session, 0) == RLX_OK);
  CHECK(room[7] == 57);
}

TEST_CASE("an_input_in_the_callers_memory_takes_its_size_from_the_symbols") {
  FreeRig rig;
  alignas(16) float x[64];
  std::iota(std::begin(x), std::end(x), 7.0f);
  REQUIRE(rlx_session_bind_input(rig.session, 0, "x", reinterpret_cast<uint64_t>(x), sizeof x) ==
          RLX_OK);
  REQUIRE(rig.set("m", {3, 5}) == RLX_OK);
  REQUIRE(rig.set("k", {10}) == RLX_OK);
  REQUIRE(rlx_session_run(rig.session, 0) == RLX_OK);
  CHECK(rig.wrong("y", 15, 7) == "");
}

TEST_CASE("what_a_session_tells_of_its_program_is_at_the_present_values") {
  FreeRig rig(free_plan());
  rlx_step_info step = RLX_INIT(rlx_step_info);
  REQUIRE(rlx_session_get_step(rig.session, 0, 1, &step) == RLX_OK);
  CHECK(step.kind == RLX_STEP_DISPATCH);
  CHECK(std::string(step.kernel) == "region");
  REQUIRE(rlx_session_set_symbol(rig.session, 0, "seq", 0) == RLX_OK);
  REQUIRE(rlx_session_get_step(rig.session, 0, 1, &step) == RLX_OK);
  CHECK(step.kind == RLX_STEP_SKIP);
  CHECK(std::string(step.kernel) == "skip");
  REQUIRE(rlx_session_set_symbol(rig.session, 0, "seq", 5) == RLX_OK);
  rlx_tensor_info value = RLX_INIT(rlx_tensor_info);
  REQUIRE(rlx_session_get_value(rig.session, 0, 2, &value) == RLX_OK);
  CHECK(value.dims[1] == 5);
  CHECK(std::string(value.name) == "a");
  REQUIRE(rig.set("x", {4, 5}, 3) == RLX_OK);
  float a[20];
  REQUIRE(rlx_session_read_value(rig.session, 0, 0, 2, a, sizeof a) == RLX_OK);
  CHECK(a[19] == 22);
  CHECK(rlx_session_read_value(rig.session, 0, 0, 2, a, 4) == RLX_INVALID_ARGUMENT);
  rlx_step_time times[3];
  uint32_t count = 0;
  REQUIRE(rlx_session_profile(rig.session, 0, times, 3, &count) == RLX_OK);
  CHECK(count == 3);
}

TEST_CASE("options_of_an_older_header_are_taken") {
  FreeRig rig;
  rlx_session_options options = RLX_INIT(rlx_session_options);
  options.struct_size = offsetof(rlx_session_options, max_bindings);
  options.max_bindings = 77;  // is not there
  rlx_device* device = nullptr;
  rlx_session* session = nullptr;
  REQUIRE(rlx_device_open("null", &device) == RLX_OK);
  CHECK(rlx_session_create(rig.plan, device, &options, &session) == RLX_OK);
  rlx_session_close(session);
  options.struct_size -= 4;
  CHECK(rlx_session_create(rig.plan, device, &options, &session) == RLX_INVALID_ARGUMENT);
  rlx_device_close(device);
}

}  // namespace rlx::test
