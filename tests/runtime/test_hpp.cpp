// SPDX-License-Identifier: Apache-2.0
// rlx.hpp on the null device: handles, tensors, runs, and what is thrown.
#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "runtime/include/rlx.hpp"
#include "tests/support/catch.h"
#include "tests/support/plan_fixture.h"

namespace {

constexpr uint32_t kEcho = 1;  // copies x f32[64] to y
constexpr std::array<uint64_t, 1> kDims = {64};

std::vector<float> counting() {
  std::vector<float> numbers(64);
  std::iota(numbers.begin(), numbers.end(), 0.5F);
  return numbers;
}

struct Opened {
  std::vector<std::byte> bytes = rlx::test::serialise(rlx::test::small_plan());
  rlx::Plan plan{std::span<const std::byte>(bytes)};
  rlx::Device device{"null"};
  rlx::Session session{plan, device};
};

// Status and sentence of what `call` throws.
template <class Call>
std::pair<rlx_status, std::string> thrown_by(Call call) {
  try {
    call();
  } catch (const rlx::Error& error) {
    return {error.status(), error.what()};
  }
  return {RLX_OK, ""};
}

}  // namespace

TEST_CASE("hpp_runs_what_a_span_holds", "[hpp]") {
  Opened opened;
  const std::vector<float> x = counting();
  opened.session.set_input<float>("x", x, kDims, kEcho);
  opened.session.run(kEcho);
  REQUIRE(opened.session.read_output<float>(0, kEcho) == x);
  const uint64_t run = opened.session.submit(kEcho);
  REQUIRE(opened.session.wait_for(run));
  std::vector<float> y(64);
  opened.session.read_output("y", std::span<float>(y), kEcho);
  REQUIRE(y == x);
}

TEST_CASE("hpp_describes_plans", "[hpp]") {
  const Opened opened;
  REQUIRE(opened.plan.find_entry("echo") == kEcho);
  const std::vector<rlx::TensorInfo> inputs = opened.plan.inputs(kEcho);
  REQUIRE(inputs.size() == 1);
  REQUIRE(std::string(inputs[0].name()) == "x");
  REQUIRE(inputs[0].dtype() == RLX_F32);
  REQUIRE(std::vector<uint64_t>(inputs[0].dims().begin(), inputs[0].dims().end()) ==
          std::vector<uint64_t>{64});
  REQUIRE(opened.plan.states().size() == rlx_plan_state_count(opened.plan.get()));
  REQUIRE(std::string(opened.device.info().id) == "null");
}

TEST_CASE("hpp_throws_the_library_s_sentence", "[hpp]") {
  Opened opened;
  const std::vector<float> x = counting();
  const auto [status, sentence] =
      thrown_by([&] { opened.session.set_input<float>("z", x, kDims, kEcho); });
  REQUIRE(status == RLX_INVALID_ARGUMENT);
  const rlx_tensor tensor = rlx::make_tensor(std::span<const float>(x), kDims);
  REQUIRE(rlx_session_set_input(opened.session.get(), kEcho, "z", &tensor) == status);
  REQUIRE(sentence == rlx_last_error());
  REQUIRE(thrown_by([&] { opened.session.run(kEcho); }).first == RLX_INVALID_STATE);
  REQUIRE(thrown_by([] { rlx::Plan(std::string("/no/such.plan")); }).first == RLX_IO_ERROR);
  REQUIRE(thrown_by([] { rlx::Device("abacus"); }).first != RLX_OK);
}

TEST_CASE("hpp_refuses_another_element_type_and_rank", "[hpp]") {
  Opened opened;
  opened.session.set_input<float>("x", counting(), kDims, kEcho);
  opened.session.run(kEcho);
  const auto [status, sentence] =
      thrown_by([&] { static_cast<void>(opened.session.read_output<int32_t>(0, kEcho)); });
  REQUIRE(status == RLX_INVALID_ARGUMENT);
  REQUIRE(sentence == "output \"y\" is f32, read as i32");
  const std::vector<uint64_t> many(RLX_MAX_RANK + 1, 1);
  REQUIRE(thrown_by([&] { rlx::make_tensor(std::span<const float>(), many); }).first ==
          RLX_INVALID_ARGUMENT);
}

TEST_CASE("hpp_handles_close_in_any_order", "[hpp]") {
  auto opened = std::make_unique<Opened>();
  rlx::Session moved = std::move(opened->session);
  const std::vector<std::byte> kept = std::move(opened->bytes);  // the plan reads them
  opened.reset();
  moved.set_input<float>("x", counting(), kDims, kEcho);
  moved.run(kEcho);
  REQUIRE(moved.read_output<float>(0, kEcho) == counting());
}
