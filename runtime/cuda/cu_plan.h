// SPDX-License-Identifier: Apache-2.0
// A plan on a CUDA device: weights, code and library products, shared by its sessions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/cu_gemm.h"
#include "runtime/cuda/cu_graph.h"
#include "runtime/cuda/cu_memory.h"
#include "runtime/cuda/cu_modules.h"
#include "runtime/device/device.h"
#include "runtime/plan/plan_view.h"

namespace rlx::cuda {

class CudaPlan final : public DevicePlan, public std::enable_shared_from_this<CudaPlan> {
 public:
  // Checks what the plan needs against the device and the budget before anything is allocated.
  static Status load(std::shared_ptr<Context> context, const PlanView& view,
                     const LoadOptions& options, std::shared_ptr<DevicePlan>& loaded);

  [[nodiscard]] fb::TargetKind target() const override { return fb::TargetKind::Cuda; }
  Status create_session(const SessionOptions& options,
                        std::unique_ptr<DeviceSession>& session) override;
  [[nodiscard]] const char* code_text(const fb::Step& step) const override;
  [[nodiscard]] std::vector<GemmReport> gemm_reports() const override { return gemms_.reports(); }
  [[nodiscard]] TuningIdentity tuning_identity() const override;

  [[nodiscard]] Context& context() const { return *context_; }
  [[nodiscard]] const PlanView& view() const { return view_; }
  [[nodiscard]] const Segment& weights() const { return weights_; }
  [[nodiscard]] bool profile() const { return profile_; }
  [[nodiscard]] const GemmSet& gemms() const { return gemms_; }
  // Of an entry at a binding: the plan that it is in, and its products.
  [[nodiscard]] StepCode code(const PlanView& view, const GemmSet& gemms) const {
    return {*context_, view, modules_, gemms, region_kernel_};
  }
  [[nodiscard]] StepCode code() const { return code(view_, gemms_); }

 private:
  CudaPlan(std::shared_ptr<Context> context, const PlanView& view, bool profile)
      : context_(std::move(context)),
        counted_(context_->objects(), ObjectKind::Plan),
        view_(view),
        profile_(profile) {}

  Status create_weights();
  Status run_init();

  // Members are destroyed from the last to the first.
  std::shared_ptr<Context> context_;
  CountedObject counted_;
  const PlanView& view_;
  bool profile_ = false;
  Segment weights_;
  ModuleSet modules_;
  GemmSet gemms_;
  RegionKernel region_kernel_;  // empty where no entry has regions
};

}  // namespace rlx::cuda
