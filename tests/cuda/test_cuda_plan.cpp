// SPDX-License-Identifier: Apache-2.0
// What is CUDA's own: adopted contexts and streams, bound buffers, programmatic launches, a lost
// device. tests/device has what every device does.
#include <cstdio>

#include "runtime/cuda/cu_plan.h"
#include "runtime/cuda/cuda_device.h"
#include "tests/support/catch.h"
#include "tests/support/counting_allocator.h"
#include "tests/support/sketches.h"

#define REQUIRE_OK(expression)                \
  do {                                        \
    const ::rlx::Status status_ = expression; \
    INFO(status_.message());                  \
    REQUIRE(status_.ok());                    \
  } while (false)

// Declares `device`, or ends the test case where there is none.
#define RLX_NEED_CUDA(device)                                   \
  const std::shared_ptr<::rlx::Device> device = first_device(); \
  if (device == nullptr) return

using namespace rlx;
using namespace rlx::test;

namespace {

std::shared_ptr<Device> first_device() {
  std::string why_none;
  if (list_cuda_devices(why_none).empty()) {
    std::printf("SKIPPED: %s\n", why_none.c_str());
    return nullptr;
  }
  std::shared_ptr<Device> device;
  REQUIRE_OK(open_cuda_device("cuda", device));
  return device;
}

// A plan with one session, or several.
struct Loaded {
  Loaded(Device& device, const PlanSketch& sketch, const LoadOptions& options = {})
      : view(open_plan(sketch)) {
    REQUIRE_OK(device.load(*view, options, plan));
  }
  [[nodiscard]] std::unique_ptr<DeviceSession> session(const SessionOptions& options = {}) const {
    std::unique_ptr<DeviceSession> made;
    REQUIRE_OK(plan->create_session(options, made));
    return made;
  }
  [[nodiscard]] cuda::Context& context() const {
    return dynamic_cast<cuda::CudaPlan&>(*plan).context();
  }

  std::shared_ptr<const PlanView> view;
  std::shared_ptr<DevicePlan> plan;
};

void write(DeviceSession& session, uint32_t value, const std::vector<float>& data) {
  REQUIRE_OK(session.write(0, value, std::as_bytes(std::span(data))));
}

std::vector<float> read(DeviceSession& session, uint32_t value) {
  std::vector<float> data(kCount);
  REQUIRE_OK(session.read(0, value, std::as_writable_bytes(std::span(data))));
  return data;
}

void execute(DeviceSession& session) {
  REQUIRE_OK(session.submit(0));
  REQUIRE_OK(session.wait(UINT64_MAX));
}

// y = 2 * x + 1 for all of a ramp.
bool is_affine(const std::vector<float>& y, float start) {
  for (uint32_t i = 0; i < kCount; ++i) {
    if (y[i] != 2.0f * (static_cast<float>(i) + start) + 1.0f) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a_context_and_a_stream_of_the_program_are_used_and_left_as_they_were") {
  RLX_NEED_CUDA(own);
  const Loaded first(*own, affine_sketch());
  cuda::Context& context = first.context();
  cuda::OwnedStream stream;
  {
    const cuda::Current current(context);
    REQUIRE_OK(cuda::create_stream(context, stream));
  }
  std::shared_ptr<Device> adopted;
  REQUIRE_OK(adopt_cuda_device(context.handle, adopted));
  CHECK(adopted->info().id == "cuda:adopted");
  CHECK(adopted->info().name == own->info().name);
  for (int round = 0; round < 2; ++round) {
    const Loaded loaded(*adopted, affine_sketch());
    const auto session = loaded.session({.stream = stream.get()});
    write(*session, 0, ramp(3));
    execute(*session);
    CHECK(is_affine(read(*session, 1), 3));
  }
  const cuda::Current current(context);
  CHECK(context.api.cuStreamSynchronize(stream.get()) == cuda::CUDA_SUCCESS);
}

TEST_CASE("bound_buffers_are_read_and_written_in_place_and_can_change_between_runs") {
  RLX_NEED_CUDA(device);
  const Loaded loaded(*device, affine_sketch());
  const auto session = loaded.session();
  cuda::Context& context = loaded.context();
  cuda::Segment memory;
  cuda::Staging staging;
  {
    const cuda::Current current(context);
    REQUIRE_OK(cuda::Segment::create(context, "the caller's", 4 * 4096, memory));
    REQUIRE_OK(cuda::Staging::create(context, nullptr, 4096, staging));
  }
  for (uint32_t round = 0; round < 3; ++round) {
    const std::vector<float> x = ramp(static_cast<float>(round));
    const uint64_t in = memory.address(round % 2 * 8192);
    const uint64_t out = memory.address(round % 2 * 8192 + 4096);
    std::vector<float> y(kCount);
    {
      const cuda::Current current(context);
      REQUIRE_OK(staging.write(in, std::as_bytes(std::span(x))));
      REQUIRE_OK(staging.read(in, std::as_writable_bytes(std::span(y))));  // waits for the write
    }
    REQUIRE_OK(session->bind(0, 0, {.device_address = in, .size_bytes = 4000}));
    REQUIRE_OK(session->bind(0, 1, {.device_address = out, .size_bytes = 4000}));
    execute(*session);
    execute(*session);
    {
      const cuda::Current current(context);
      REQUIRE_OK(staging.read(out, std::as_writable_bytes(std::span(y))));
    }
    CHECK(is_affine(y, static_cast<float>(round)));
    CHECK(session->read(0, 1, std::as_writable_bytes(std::span(y))).code() == RLX_INVALID_STATE);
  }
  REQUIRE_OK(session->bind(0, 0, {}));
  REQUIRE_OK(session->bind(0, 1, {}));
  write(*session, 0, ramp(9));
  execute(*session);
  CHECK(is_affine(read(*session, 1), 9));
}

TEST_CASE("a_bound_state_is_read_and_written_in_place") {
  RLX_NEED_CUDA(device);
  const Loaded loaded(*device, state_sketch());
  const auto session = loaded.session();
  cuda::Context& context = loaded.context();
  cuda::Segment memory;
  cuda::Staging staging;
  const std::vector<float> kept = ramp(5);
  std::vector<float> now(kCount);
  {
    const cuda::Current current(context);
    REQUIRE_OK(cuda::Segment::create(context, "the caller's", 4096, memory));
    REQUIRE_OK(cuda::Staging::create(context, nullptr, 4096, staging));
    REQUIRE_OK(staging.write(memory.address(), std::as_bytes(std::span(kept))));
    REQUIRE_OK(staging.read(memory.address(), std::as_writable_bytes(std::span(now))));
  }
  execute(*session);
  REQUIRE_OK(session->bind_state(0, {.device_address = memory.address(), .size_bytes = 4000}));
  execute(*session);
  REQUIRE_OK(session->reset_states());
  execute(*session);
  {
    const cuda::Current current(context);
    REQUIRE_OK(staging.read(memory.address(), std::as_writable_bytes(std::span(now))));
  }
  CHECK(now[10] == 17.0f);
  CHECK(read(*session, 3)[10] == 17.0f);
  REQUIRE_OK(session->bind_state(0, {}));
  execute(*session);
  CHECK(read(*session, 3)[10] == 2.0f);
}

TEST_CASE("kernels_that_start_early_still_see_everything_before_them") {
  RLX_NEED_CUDA(device);
  if (device->info().architecture < 90) {
    std::puts("SKIPPED: programmatic launches need compute capability 9.0");
    return;
  }
  for (const uint32_t width : {1u, 2u, 3u, 4u, 7u}) {
    constexpr uint32_t kDepth = 8;
    PlanSketch sketch = wide_sketch(width, kDepth);
    if (width == 1) sketch = chain_sketch();
    sketch.cuda_architecture = 90;
    const Loaded loaded(*device, sketch);
    const auto session = loaded.session();
    const float scale = 256.0f * static_cast<float>(width);
    const float shift = 255.0f * static_cast<float>(width);
    for (int round = 0; round < 50; ++round) {
      REQUIRE_OK(session->poison_arena(std::byte{0xFF}));
      write(*session, 0, ramp(static_cast<float>(round)));
      execute(*session);
      const std::vector<float> y = read(*session, 1);
      for (uint32_t i = 0; i < kCount; ++i)
        REQUIRE(y[i] == scale * static_cast<float>(i + static_cast<uint32_t>(round)) + shift);
    }
  }
}

TEST_CASE("a_wait_with_a_timeout_leaves_the_run_to_be_waited_for") {
  RLX_NEED_CUDA(device);
  const Loaded loaded(*device, wide_sketch(2, 100));
  const auto session = loaded.session();
  write(*session, 0, ramp(0));
  REQUIRE_OK(session->submit(0));
  Status status = session->wait(1);
  CHECK((status.ok() || status.code() == RLX_TIMEOUT));
  if (status.code() == RLX_TIMEOUT) CHECK(session->reset_states().code() == RLX_INVALID_STATE);
  REQUIRE_OK(session->wait(UINT64_MAX));
}

TEST_CASE("the_code_that_was_chosen_is_told") {
  RLX_NEED_CUDA(device);
  const Loaded loaded(*device, affine_sketch());
  const fb::Step& step = PlanView::steps(loaded.view->entry(0, fb::TargetKind::Cuda))[0];
  CHECK(std::string(loaded.plan->code_text(step)) == "PTX for sm_80, compiled by the driver");
}

TEST_CASE("ptx_that_the_driver_refuses_is_told_with_its_log") {
  RLX_NEED_CUDA(device);
  PlanSketch sketch = affine_sketch();
  sketch.kernels[0].ptx = "no.such.instruction %b, %a;";
  const auto view = open_plan(sketch);
  std::shared_ptr<DevicePlan> plan;
  const Status status = device->load(*view, {}, plan);
  CHECK(status.code() == RLX_UNSUITABLE_DEVICE);
  CHECK(status.message().find("loading kernel \"region\"") != std::string::npos);
  CHECK(status.message().find("ptxas") != std::string::npos);
  CHECK(plan == nullptr);
  const Loaded good(*device, affine_sketch());
}

// In a process of its own: CUDA keeps such an error until the process ends.
TEST_CASE("a_lost_device_stays_lost_and_everything_can_be_closed", "[.lost]") {
  RLX_NEED_CUDA(device);
  PlanSketch sketch = affine_sketch();
  sketch.kernels[0].ptx = "add.u64 %pb, %pb, 70368744177664; mov.f32 %b, %a;";
  const Loaded loaded(*device, sketch);
  {
    const auto session = loaded.session();
    const auto other = loaded.session();
    write(*session, 0, ramp(0));
    REQUIRE_OK(session->submit(0));
    const Status status = session->wait(UINT64_MAX);
    CHECK(status.code() == RLX_DEVICE_LOST);
    CHECK(status.message().find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos);
    CHECK(session->submit(0).code() == RLX_DEVICE_LOST);
    CHECK(other->submit(0).code() == RLX_DEVICE_LOST);
    std::unique_ptr<DeviceSession> none;
    CHECK(loaded.plan->create_session({}, none).code() == RLX_DEVICE_LOST);
  }
  std::shared_ptr<DevicePlan> again;
  CHECK(device->load(*loaded.view, {}, again).code() == RLX_DEVICE_LOST);
}
