// SPDX-License-Identifier: Apache-2.0
// Every call of the CUDA driver and of cuBLASLt fails once in every way that it may, and the device
// is lost at each: on a fake driver, or on the real one (README.md).
#include <cstdio>

#include "runtime/cuda/cu_context.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/cuda_device.h"
#include "tests/faults/fault_fixture.h"
#include "tests/support/catch.h"

using namespace rlx;
using namespace rlx::test;

namespace {

constexpr int kUnknown = 999;

bool starts_with_any(const std::string& text, std::initializer_list<const char*> beginnings) {
  for (const char* beginning : beginnings) {
    if (text.starts_with(beginning)) return true;
  }
  return false;
}

// cuBLASLt has numbers of its own.
Wanted cublas_status(const std::string& function, int result) {
  const bool asks = function == "cublasLtMatmulAlgoCheck";  // of a plan's choice; another is made
  if (asks || function.ends_with("Destroy")) return {RLX_OK};
  if (result == cuda::CUBLAS_STATUS_ALLOC_FAILED) return {RLX_OUT_OF_DEVICE_MEMORY};
  return {result == cuda::CUBLAS_STATUS_NOT_SUPPORTED ? RLX_UNSUITABLE_DEVICE : RLX_DRIVER_ERROR};
}

Wanted cuda_status(const std::string& function, int result) {
  if (function.starts_with("cublas")) return cublas_status(function, result);
  // What ends something ends it, with or without its context being current; how much memory is free
  // need not be known.
  const bool or_none =
      starts_with_any(function, {"cuMemFree", "cuMemGetInfo", "cuModuleUnload", "cuCtxPush",
                                 "cuCtxPop", "cuDevicePrimaryCtxRelease"}) ||
      function.find("Destroy") != std::string::npos;
  if (result == cuda::CUDA_ERROR_LAUNCH_FAILED) return {RLX_DEVICE_LOST, or_none};
  if (result == cuda::CUDA_ERROR_OUT_OF_MEMORY) {
    const bool host = function == "cuMemHostAlloc";
    return {host ? RLX_OUT_OF_HOST_MEMORY : RLX_OUT_OF_DEVICE_MEMORY, or_none};
  }
  if (result == cuda::CUDA_ERROR_NOT_SUPPORTED) return {RLX_UNSUITABLE_DEVICE, or_none};
  return {result == kUnknown ? RLX_DRIVER_ERROR : RLX_NO_DEVICE, or_none};
}

}  // namespace

TEST_CASE("a cuda call that fails is a status, and the next use is as good as the first") {
  const FaultCounts counts = fail_every_call(cuda_scenario(), cuda_status);
  std::printf("%lu calls of CUDA, %lu faults\n", counts.calls, counts.faults);
  CHECK(counts.faults > 2 * counts.calls);
}

TEST_CASE("a cuda device is lost at any call, and stays lost until it is opened again") {
  const FaultCounts counts = lose_at_every_call(cuda_scenario());
  CHECK(counts.faults + 5 > counts.calls);
}

TEST_CASE("a call of the library of products that fails is a status too") {
  const Scenario scenario = cuda_scenario(serialise(gemm_plan()));
  CHECK(fail_every_call(scenario, cuda_status).faults > 0);
  CHECK(lose_at_every_call(scenario).faults > 0);
}

TEST_CASE("a lent cuda context is left with nothing of ours in it") {
  FaultControl& control = open_stand_in(RLX_CUDA_STAND_IN);
  control.reset();
  const auto view = open_plan(full_sketch());
  const auto objects = std::make_shared<ObjectCounts>();
  std::shared_ptr<const cuda::Driver> driver;
  std::shared_ptr<cuda::Context> own;
  REQUIRE(cuda::Driver::open(RLX_CUDA_STAND_IN, driver).ok());
  REQUIRE(cuda::Context::open(driver, 0, "cuda:0", nullptr, own).ok());
  const int64_t before = control.live;
  {
    std::shared_ptr<Device> device;
    std::shared_ptr<DevicePlan> plan;
    std::unique_ptr<DeviceSession> session;
    REQUIRE(
        adopt_cuda_device(own->handle, device, {.library = RLX_CUDA_STAND_IN, .objects = objects})
            .ok());
    CHECK(objects_text(objects->read()) == "none");
    REQUIRE(device->load(*view, {}, plan).ok());
    REQUIRE(plan->create_session({}, session).ok());
    REQUIRE(session->submit(0).ok());
    REQUIRE(session->wait(UINT64_MAX).ok());
    CHECK(objects->of(ObjectKind::Session) == 1);
  }
  CHECK(objects_text(objects->read()) == "none");
  CHECK(control.live == before);
  CHECK(control.misuses == 0);
}

TEST_CASE("a wait with a timeout on cuda leaves the run to be waited for") {
  FaultControl& control = open_stand_in(RLX_CUDA_STAND_IN);
  control.reset();
  const auto view = open_plan(full_sketch());
  std::shared_ptr<Device> device;
  std::shared_ptr<DevicePlan> plan;
  std::unique_ptr<DeviceSession> session;
  REQUIRE(open_cuda_device("cuda", device, {.library = RLX_CUDA_STAND_IN}).ok());
  REQUIRE(device->load(*view, {}, plan).ok());
  REQUIRE(plan->create_session({}, session).ok());
  REQUIRE(session->submit(0).ok());
  CHECK(session->wait(1000).code() == RLX_TIMEOUT);
  CHECK(session->submit(0).code() == RLX_INVALID_STATE);
  CHECK(session->wait(uint64_t{10} * 1000 * 1000 * 1000).ok());
  CHECK(control.misuses == 0);
}
