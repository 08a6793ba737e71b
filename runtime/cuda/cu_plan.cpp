// SPDX-License-Identifier: Apache-2.0
// Loading: requirements, weights, code, and the init entry that generates weights on the device.
#include "runtime/cuda/cu_plan.h"

#include <algorithm>
#include <vector>

#include "runtime/cuda/cu_preflight.h"
#include "runtime/cuda/cu_session.h"
#include "runtime/device/load.h"
#include "runtime/plan/plan_memory.h"

namespace rlx::cuda {

Status CudaPlan::load(std::shared_ptr<Context> context, const PlanView& view,
                      const LoadOptions& options, std::shared_ptr<DevicePlan>& loaded) {
  RLX_RETURN_IF_ERROR(context->health());
  DeviceInfo now = context->info;
  now.available_bytes = context->available_bytes();
  RLX_RETURN_IF_ERROR(check_load(view, now, check_target, options.memory_budget_bytes));
  std::shared_ptr<CudaPlan> made(new CudaPlan(std::move(context), view, options.profile));
  RLX_RETURN_IF_ERROR(load_code_and_weights(
      view, [&] { return ModuleSet::create(made->context(), view, options.jobs, made->modules_); },
      [&] { return made->create_weights(); }));
  const Current current(made->context());
  RLX_RETURN_IF_ERROR(current.status());
  RLX_RETURN_IF_ERROR(GemmSet::create(made->context(), view, options.require_tuned, made->gemms_));
  const std::vector<const fb::Entry*> records = view.records(fb::TargetKind::Cuda);
  if (std::any_of(records.begin(), records.end(),
                  [](const fb::Entry* entry) { return entry->regions() != nullptr; }))
    RLX_RETURN_IF_ERROR(RegionKernel::create(made->context(), made->region_kernel_));
  RLX_RETURN_IF_ERROR(explain_memory(made->run_init(), view.header()));
  loaded = std::move(made);
  return {};
}

Status CudaPlan::create_weights() {
  {
    const Current current(*context_);
    RLX_RETURN_IF_ERROR(current.status());
    RLX_RETURN_IF_ERROR(
        Segment::create(*context_, "the weights", view_.header().weights_bytes, weights_));
  }
  return upload(*context_, weights_, stored_weight_ranges(view_), weights_source(view_));
}

Status CudaPlan::run_init() {
  const fb::Entry* init = view_.init(fb::TargetKind::Cuda);
  if (init == nullptr || init->steps()->size() == 0) return {};
  Segment arena;
  OwnedStream stream;
  EntryGraph graph;
  RLX_RETURN_IF_ERROR(Segment::create(*context_, "the arena of init", init->arena_bytes(), arena));
  RLX_RETURN_IF_ERROR(create_stream(*context_, stream));
  LinkedEntry linked{.entry = init, .addresses = {}};
  for (const fb::Value* value : *init->values()) {
    const Segment& segment = value->segment() == fb::Segment::Weights ? weights_ : arena;
    linked.addresses.push_back(segment.address(value->offset_bytes()));
  }
  RLX_RETURN_IF_ERROR(EntryGraph::create(
      code(), linked, {.step_count = init->steps()->size(), .events = {}}, stream.get(), graph));
  const Api& api = context_->api;
  RLX_RETURN_IF_ERROR(
      context_->check(api.cuGraphLaunch(graph.exec(), stream.get()), "the plan's init entry"));
  return context_->check(api.cuStreamSynchronize(stream.get()), "the plan's init entry");
}

Status CudaPlan::create_session(const SessionOptions& options,
                                std::unique_ptr<DeviceSession>& session) {
  return explain_memory(CudaSession::create(shared_from_this(), options, session), view_.header());
}

const char* CudaPlan::code_text(const fb::Step& step) const {
  if (step.kind() == fb::StepKind::LibraryGemm) return gemms_.text_of_step(step).c_str();
  if (step.kind() != fb::StepKind::Dispatch) return "";
  return modules_.at(step.kernel()).text.c_str();
}

DevicePlan::TuningIdentity CudaPlan::tuning_identity() const {
  return {.device = context_->info.name,
          .driver = context_->info.driver,
          .library = gemms_.library_text()};
}

}  // namespace rlx::cuda
