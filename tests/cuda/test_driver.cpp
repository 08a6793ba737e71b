// SPDX-License-Identifier: Apache-2.0
// Machines without CUDA: the error says what is missing and which package brings it.
#include "runtime/cuda/cuda_device.h"
#include "tests/support/catch.h"

using namespace rlx;

TEST_CASE("a_missing_driver_is_refused_with_the_package_that_has_it") {
  std::shared_ptr<Device> device;
  const Status status = open_cuda_device("cuda:0", device, {.library = "libcuda-missing.so.1"});
  CHECK(status.code() == RLX_NO_DEVICE);
  CHECK(status.message().find("the CUDA driver library libcuda-missing.so.1 cannot be opened") !=
        std::string::npos);
  CHECK(status.message().find("install NVIDIA's driver") != std::string::npos);
  CHECK(device == nullptr);
  std::string why_none;
  CHECK(list_cuda_devices(why_none, {.library = "libcuda-missing.so.1"}).empty());
  CHECK(why_none == status.message());
}

TEST_CASE("a_library_that_is_no_driver_is_refused") {
  std::shared_ptr<Device> device;
  const Status status = open_cuda_device("cuda:0", device, {.library = "libc.so.6"});
  CHECK(status.code() == RLX_UNSUITABLE_DEVICE);
  CHECK(status.message().find("libc.so.6 has no cuInit") != std::string::npos);
}

TEST_CASE("a_context_to_adopt_must_be_given") {
  std::shared_ptr<Device> device;
  CHECK(adopt_cuda_device(nullptr, device).code() == RLX_INVALID_ARGUMENT);
}
