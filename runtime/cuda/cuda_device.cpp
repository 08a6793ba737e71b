// SPDX-License-Identifier: Apache-2.0
// Listing, opening and adopting CUDA devices.
#include "runtime/cuda/cuda_device.h"

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/cuda/cu_context.h"
#include "runtime/cuda/cu_plan.h"
#include "runtime/cuda/cu_preflight.h"
#include "runtime/device/device_names.h"

namespace rlx {
namespace cuda {
namespace {

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  [[nodiscard]] const DeviceInfo& info() const override { return context_->info; }
  [[nodiscard]] Status health() const override { return context_->health(); }
  [[nodiscard]] const ObjectCounts& objects() const override { return context_->objects(); }
  [[nodiscard]] Status check_suits(const PlanHeader& header) const override {
    return check_device_suits(header, info(), check_target);
  }
  Status load(const PlanView& plan, const LoadOptions& options,
              std::shared_ptr<DevicePlan>& loaded) override {
    return CudaPlan::load(context_, plan, options, loaded);
  }

 private:
  std::shared_ptr<Context> context_;
};

struct Found {
  CUdevice device = 0;
  DeviceInfo info;
};

Status find_devices(const Driver& driver, std::vector<Found>& devices) {
  const Api& api = driver.api;
  int count = 0;
  RLX_RETURN_IF_ERROR(to_status(api, api.cuDeviceGetCount(&count), "cuDeviceGetCount"));
  for (int i = 0; i < count; ++i) {
    Found found;
    RLX_RETURN_IF_ERROR(to_status(api, api.cuDeviceGet(&found.device, i), "cuDeviceGet"));
    RLX_RETURN_IF_ERROR(describe_device(driver, found.device, text_of("cuda:", i), found.info));
    devices.push_back(std::move(found));
  }
  if (devices.empty()) return no_device("the CUDA driver finds no GPU");
  return {};
}

}  // namespace
}  // namespace cuda

std::vector<DeviceInfo> list_cuda_devices(std::string& why_none, const CudaOptions& options) {
  using namespace cuda;
  why_none.clear();
  std::shared_ptr<const Driver> driver;
  std::vector<Found> devices;
  Status status = Driver::open(options.library, driver);
  if (status.ok()) status = find_devices(*driver, devices);
  if (!status.ok()) {
    why_none = status.message();
    return {};
  }
  std::vector<DeviceInfo> infos;
  for (Found& found : devices) infos.push_back(std::move(found.info));
  return infos;
}

Status open_cuda_device(const std::string& id, std::shared_ptr<Device>& device,
                        const CudaOptions& options) {
  using namespace cuda;
  std::shared_ptr<const Driver> driver;
  std::vector<Found> devices;
  RLX_RETURN_IF_ERROR(Driver::open(options.library, driver));
  RLX_RETURN_IF_ERROR(find_devices(*driver, devices));
  Found* chosen = nullptr;
  RLX_RETURN_IF_ERROR(find_device(id, "cuda", devices, chosen));
  std::shared_ptr<Context> context;
  RLX_RETURN_IF_ERROR(
      Context::open(std::move(driver), chosen->device, chosen->info.id, options.objects, context));
  device = std::make_shared<CudaDevice>(std::move(context));
  return {};
}

Status adopt_cuda_device(void* context, std::shared_ptr<Device>& device,
                         const CudaOptions& options) {
  using namespace cuda;
  if (context == nullptr) return invalid_argument("adopting a CUDA device needs its CUcontext");
  std::shared_ptr<const Driver> driver;
  RLX_RETURN_IF_ERROR(Driver::open(options.library, driver));
  std::shared_ptr<Context> adopted;
  RLX_RETURN_IF_ERROR(
      Context::adopt(std::move(driver), static_cast<CUcontext>(context), options.objects, adopted));
  device = std::make_shared<CudaDevice>(std::move(adopted));
  return {};
}

}  // namespace rlx
