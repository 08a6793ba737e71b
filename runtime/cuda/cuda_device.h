// SPDX-License-Identifier: Apache-2.0
// The CUDA device: lists, opens and adopts devices behind runtime/device/device.h. libcuda.so.1 is
// opened at run time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/device.h"

namespace rlx {

struct CudaOptions {
  // The driver library's file name or path.
  std::string library = "libcuda.so.1";
  // Where everything made for the device is counted, itself included: for who wants to know that
  // nothing remains. Null: counts that end with the device.
  std::shared_ptr<ObjectCounts> objects = nullptr;
};

// Every device, in the driver's order. Empty: why_none says why and which package helps.
std::vector<DeviceInfo> list_cuda_devices(std::string& why_none, const CudaOptions& options = {});

// Opens "cuda:N", or the first device for "cuda", on its primary context. Errors: no driver
// library, no device, unknown id (the right ones are listed).
Status open_cuda_device(const std::string& id, std::shared_ptr<Device>& device,
                        const CudaOptions& options = {});

// The device of a CUcontext that the caller owns. It must outlive every object made from the
// device.
Status adopt_cuda_device(void* context, std::shared_ptr<Device>& device,
                         const CudaOptions& options = {});

}  // namespace rlx
