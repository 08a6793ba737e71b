// SPDX-License-Identifier: Apache-2.0
// rlx.h on CUDA: opening, adopting, streams, and what it tells of steps.
#include <cstdio>
#include <cstring>

#include "runtime/cuda/cu_context.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/include/rlx.h"
#include "tests/support/catch.h"
#include "tests/support/sketches.h"

using namespace rlx;
using namespace rlx::test;

namespace {

// Closes its handles in the wrong order on purpose: a session keeps its plan and device alive.
struct Handles {
  rlx_plan* plan = nullptr;
  rlx_device* device = nullptr;
  rlx_session* session = nullptr;
  ~Handles() {
    rlx_plan_close(plan);
    rlx_device_close(device);
    rlx_session_close(session);
  }
};

void open_affine(rlx_plan** plan) {
  const std::vector<std::byte> bytes = serialise(to_spec(affine_sketch()));
  rlx_plan_options options = RLX_INIT(rlx_plan_options);
  options.copy_memory = 1;
  REQUIRE(rlx_plan_open_memory(bytes.data(), bytes.size(), &options, plan) == RLX_OK);
}

void check_run(rlx_session* session) {
  const std::vector<float> x = ramp(4);
  std::vector<float> y(kCount);
  rlx_tensor tensor = RLX_INIT(rlx_tensor);
  tensor.data = x.data();
  tensor.size_bytes = x.size() * sizeof(float);
  tensor.dtype = RLX_F32;
  tensor.rank = 1;
  tensor.dims[0] = kCount;
  REQUIRE(rlx_session_set_input(session, 0, "x", &tensor) == RLX_OK);
  REQUIRE(rlx_session_run(session, 0) == RLX_OK);
  REQUIRE(rlx_session_read_output(session, 0, "y", y.data(), y.size() * sizeof(float)) == RLX_OK);
  for (uint32_t i = 0; i < kCount; ++i) REQUIRE(y[i] == 2.0f * x[i] + 1.0f);
}

bool have_cuda() {
  std::string why_none;
  if (!list_cuda_devices(why_none).empty()) return true;
  std::printf("SKIPPED: %s\n", why_none.c_str());
  return false;
}

}  // namespace

TEST_CASE("what_is_wrong_about_cuda_handles_is_told_without_cuda") {
  Handles handles;
  rlx_cuda_handles cuda = RLX_INIT(rlx_cuda_handles);
  CHECK(rlx_device_adopt_cuda(nullptr, &handles.device) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_device_adopt_cuda(&cuda, nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_device_adopt_cuda(&cuda, &handles.device) == RLX_INVALID_ARGUMENT);
  CHECK(std::string(rlx_last_error()) == "argument handles->context is NULL");
  CHECK(handles.device == nullptr);
  CHECK(rlx_device_open("cudax", &handles.device) == RLX_NO_DEVICE);

  open_affine(&handles.plan);
  REQUIRE(rlx_device_open("null", &handles.device) == RLX_OK);
  rlx_session_options options = RLX_INIT(rlx_session_options);
  options.cuda_stream = &handles;
  CHECK(rlx_session_create(handles.plan, handles.device, &options, &handles.session) ==
        RLX_INVALID_ARGUMENT);
  CHECK(handles.session == nullptr);
}

TEST_CASE("a_plan_for_both_targets_runs_on_cuda_through_the_c_api") {
  if (!have_cuda()) return;
  Handles handles;
  open_affine(&handles.plan);
  REQUIRE(rlx_device_open("cuda:0", &handles.device) == RLX_OK);
  rlx_device_info info = RLX_INIT(rlx_device_info);
  REQUIRE(rlx_device_get_info(handles.device, &info) == RLX_OK);
  CHECK(info.architecture >= 50);
  CHECK(std::string(info.id) == "cuda:0");
  CHECK(info.available_bytes > 0);
  rlx_session_options options = RLX_INIT(rlx_session_options);
  options.profile = 1;
  REQUIRE(rlx_session_create(handles.plan, handles.device, &options, &handles.session) == RLX_OK);
  rlx_program_info program = RLX_INIT(rlx_program_info);
  REQUIRE(rlx_session_get_program(handles.session, 0, &program) == RLX_OK);
  CHECK(program.target == RLX_TARGET_CUDA);
  rlx_step_info step = RLX_INIT(rlx_step_info);
  REQUIRE(rlx_session_get_step(handles.session, 0, 0, &step) == RLX_OK);
  CHECK(std::string(step.code) == "PTX for sm_80, compiled by the driver");
  check_run(handles.session);
  rlx_step_time time = {};
  uint32_t count = 0;
  REQUIRE(rlx_session_profile(handles.session, 0, &time, 1, &count) == RLX_OK);
  CHECK(count == 1);
  check_run(handles.session);
}

TEST_CASE("a_context_and_a_stream_are_adopted_through_the_c_api") {
  if (!have_cuda()) return;
  std::shared_ptr<const cuda::Driver> driver;
  REQUIRE(cuda::Driver::open("libcuda.so.1", driver).ok());
  std::shared_ptr<cuda::Context> context;
  REQUIRE(cuda::Context::open(driver, 0, "cuda:0", nullptr, context).ok());
  cuda::OwnedStream stream;
  {
    const cuda::Current current(*context);
    REQUIRE(cuda::create_stream(*context, stream).ok());
  }
  Handles handles;
  open_affine(&handles.plan);
  rlx_cuda_handles cuda_handles = RLX_INIT(rlx_cuda_handles);
  cuda_handles.context = context->handle;
  REQUIRE(rlx_device_adopt_cuda(&cuda_handles, &handles.device) == RLX_OK);
  rlx_session_options options = RLX_INIT(rlx_session_options);
  options.cuda_stream = stream.get();
  REQUIRE(rlx_session_create(handles.plan, handles.device, &options, &handles.session) == RLX_OK);
  check_run(handles.session);
}
