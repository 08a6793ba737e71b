// SPDX-License-Identifier: Apache-2.0
// Loading: requirements, weights, code, and the init entry that generates weights on the device.
#include "runtime/cuda/cu_plan.h"

#include <future>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/cuda/cu_session.h"
#include "runtime/device/preflight.h"
#include "runtime/plan/plan_memory.h"

namespace rlx::cuda {

Status check_device(Context& context, const PlanView& view, const LoadOptions& options) {
  DeviceInfo now = context.info;
  now.available_bytes = context.available_bytes();
  const PlanHeader& header = view.header();
  RLX_RETURN_IF_ERROR(check_device_suits(header, now));
  const uint64_t needed = segment_bytes(header);
  if (options.memory_budget_bytes == 0 || needed <= options.memory_budget_bytes) return {};
  return out_of_device_memory(text_of("plan ", quoted(view.name()), " needs ", bytes_text(needed),
                                      " on ", context.text(), ", the budget is ",
                                      bytes_text(options.memory_budget_bytes), "; ",
                                      largest_segments_text(header)));
}

Status CudaPlan::load(std::shared_ptr<Context> context, const PlanView& view,
                      const LoadOptions& options, std::shared_ptr<DevicePlan>& loaded) {
  RLX_RETURN_IF_ERROR(context->health());
  RLX_RETURN_IF_ERROR(check_device(*context, view, options));
  std::shared_ptr<CudaPlan> made(new CudaPlan(std::move(context), view, options.profile));
  // Code is loaded while the weights come from the disk.
  // No thread to be had: it is done when asked for.
  constexpr std::launch kPolicy = std::launch::async | std::launch::deferred;
  std::future<Status> modules = std::async(kPolicy, [&made, &view, &options] {
    return ModuleSet::create(made->context(), view, options.jobs, made->modules_);
  });
  const Status weights = made->create_weights();
  RLX_RETURN_IF_ERROR(modules.get());
  RLX_RETURN_IF_ERROR(explain_memory(weights, view.header()));
  const Current current(made->context());
  RLX_RETURN_IF_ERROR(current.status());
  RLX_RETURN_IF_ERROR(GemmSet::create(made->context(), view, options.require_tuned, made->gemms_));
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
  return upload(*context_, weights_, inline_weight_ranges(view_),
                [this](uint64_t offset_bytes, std::span<std::byte> destination) {
                  return view_.read_weights(offset_bytes, destination);
                });
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
