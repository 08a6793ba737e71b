// SPDX-License-Identifier: Apache-2.0
// The text views: summary, steps, sizes and why.
#include "runtime/plan/profiles.h"
#include "tools/inspect/facts.h"
#include "tools/inspect/format.h"
#include "tools/inspect/inspect.h"
#include "tools/inspect/views.h"

namespace rlx::inspect {
namespace {

std::string list_of(const std::vector<uint32_t>& numbers) {
  std::string text;
  for (const uint32_t number : numbers) {
    if (!text.empty()) text += ", ";
    text += std::to_string(number);
  }
  return text;
}

std::string vulkan_text(const std::string& name, const PlanVulkanTarget& target) {
  std::string text = name + " " + std::to_string(target.api_version >> 22 & 0x7F) + "." +
                     std::to_string(target.api_version >> 12 & 0x3FF);
  for (const std::string_view feature : feature_names(target.features))
    text += " " + std::string(feature);
  return text + "; workgroup up to " + std::to_string(target.max_workgroup_invocations) +
         " invocations and " + grouped(target.max_shared_bytes) + " shared bytes, grid up to " +
         std::to_string(target.max_grid[0]) + "x" + std::to_string(target.max_grid[1]) + "x" +
         std::to_string(target.max_grid[2]);
}

// One line for each program.
std::string vulkan_targets_text(const PlanHeader& header) {
  const std::vector<uint32_t> profiles = profiles_of(header, fb::TargetKind::Vulkan);
  if (profiles.empty()) return "target " + vulkan_text("vulkan", header.vulkan) + "\n";
  std::string text;
  for (const uint32_t number : profiles) {
    const PlanProfile& profile = header.profiles[number];
    const std::string_view for_whom = made_for(profile);
    const std::string name = plain_text(profile_name(profile)) + ":";
    text += "target " + vulkan_text(name + " vulkan", profile.vulkan) +
            (for_whom.empty() ? "" : "; made for " + std::string(for_whom)) + "\n";
  }
  return text;
}

std::string cuda_text(const PlanCudaTarget& target) {
  std::string text = "cuda";
  for (uint32_t i = 0; i < target.architecture_count; ++i) {
    text += " sm_" + std::to_string(target.architectures[i]);
  }
  if (target.ptx_architecture != 0) text += " compute_" + std::to_string(target.ptx_architecture);
  return text + "; driver " + std::to_string(target.minimum_driver) + " or newer";
}

std::string entry_summary(const EntryFacts& entry) {
  std::string text = entry_title(entry) + ": " + count_text(entry.steps.size(), "step") + " in " +
                     count_text(entry.wave_count, "wave") + ", arena " +
                     byte_count(entry.arena_bytes) + ", lower bound " +
                     byte_count(entry.lower_bound_bytes) + "\n";
  const auto list = [&](std::string_view what, const std::vector<uint32_t>& values) {
    for (const uint32_t value : values) {
      text += "  " + std::string(what) + " " + name_text(entry.values[value].name) + " " +
              entry.values[value].type + "\n";
    }
  };
  list("input ", entry.inputs);
  list("output", entry.outputs);
  return text;
}

std::string symbols_text(const PlanView& plan) {
  std::string text;
  const std::span<const uint64_t> values = plan.bound_symbols();
  for (uint32_t i = 0; i < plan.index().symbols()->size(); ++i) {
    const fb::Symbol* symbol = plan.index().symbols()->Get(i);
    text += "symbol " + name_text(PlanView::text(symbol->name())) + ": " +
            std::to_string(symbol->minimum()) + " to " + std::to_string(symbol->maximum()) +
            ", multiple of " + std::to_string(symbol->multiple_of());
    if (const auto bound = symbol->bound()) text += ", compiled for " + std::to_string(*bound);
    if (!symbol->bound()) text += values.empty() ? ", free" : ", here " + std::to_string(values[i]);
    text += "\n";
  }
  return text;
}

std::string access_line(const AccessFacts& access) {
  std::string line = "    " + std::string(access.mode) + std::string(11 - access.mode.size(), ' ') +
                     name_text(access.value) + " " + access.type + ", bytes " +
                     grouped(access.offset_bytes) + " to " +
                     grouped(access.offset_bytes + access.length_bytes) + ", " +
                     std::string(access.segment);
  // An io value is bound by itself, so it has no place in a segment.
  if (access.segment != segment_name(fb::Segment::Io)) {
    line += " + " + grouped(access.segment_offset_bytes);
  }
  return line + "\n";
}

std::string step_text(const StepFacts& step) {
  std::string text = "  step " + std::to_string(step.position) + ", wave " +
                     std::to_string(step.wave) + ": " + step_title(step);
  if (!step.kernel.empty()) {
    text += ", grid " + extent_text(step.grid) + ", workgroup " + extent_text(step.workgroup) +
            ", params " + std::to_string(step.params_bytes) + " bytes";
  }
  if (step.gemm) {
    text += ", " + step.gemm->problem + ", workspace " + byte_count(step.gemm->workspace_bytes);
  }
  text += ", moves " + byte_count(step.bytes_moved) + ", " + flop_count(step.flops);
  text += step.edges.empty() ? ", waits for none\n" : ", waits for " + list_of(step.edges) + "\n";
  if (!step.names.node.empty()) {
    text +=
        "    node       " + name_text(step.names.node) + " (" + plain_text(step.names.op) + ")\n";
  }
  for (const AccessFacts& access : step.accesses) text += access_line(access);
  return text;
}

// How a step is done, and how else it could be.
std::string choice_text(const StepFacts& step) {
  std::string text;
  if (!step.specialization.empty()) text += "    built   " + plain_text(step.specialization) + "\n";
  if (step.gemm) {
    text += "    product " + step.gemm->problem + "\n    tuned   " +
            (step.gemm->tuned.empty() ? "no: the library's heuristic chooses at load"
                                      : plain_text(step.gemm->tuned)) +
            "\n";
  }
  if (!step.alternative.empty()) text += "    or      " + plain_text(step.alternative) + "\n";
  for (const std::string& form : step.forms) text += "    form    " + plain_text(form) + "\n";
  return text;
}

// A line per offer; "or else" begins those that are asked where all before them refuse.
std::string offers_text(const StepFacts& step) {
  size_t width = 0;
  for (const OfferFacts& offer : step.offers) width = std::max(width, offer.kernel.size());
  std::string text;
  uint8_t rank = step.offers.empty() ? 0 : step.offers.front().rank;
  for (const OfferFacts& offer : step.offers) {
    text += std::string("    ") + (offer.rank > rank ? "or else " : "offer   ") +
            plain_text(offer.kernel) + std::string(width - offer.kernel.size() + 2, ' ') +
            plain_text(offer.text()) + "\n";
    rank = offer.rank;
  }
  return text;
}

std::string share(uint64_t bytes, uint64_t all) {
  if (all == 0) return "0.0 %";
  const std::string thousandths =
      three_digits(100.0 * static_cast<double>(bytes) / static_cast<double>(all));
  return thousandths.substr(0, thousandths.size() - 2) + " %";
}

}  // namespace

std::string entry_title(const EntryFacts& entry) {
  const std::string title = entry.is_init ? "init entry" : "entry " + name_text(entry.name);
  return title + " for " + entry.targets + (entry.ranges.empty() ? "" : ", " + entry.ranges);
}

std::string step_title(const StepFacts& step) {
  return plain_text(step.kernel.empty() ? step.kind : step.kernel);
}

std::string extent_text(const uint32_t (&extent)[3]) {
  return std::to_string(extent[0]) + "x" + std::to_string(extent[1]) + "x" +
         std::to_string(extent[2]);
}

std::string summary_text(const PlanView& plan) {
  const PlanHeader& header = plan.header();
  std::string text = "plan " + name_text(plan.name()) + ", format " + std::to_string(header.major) +
                     "." + std::to_string(header.minor) + ", by " +
                     plain_text(PlanView::text(plan.index().producer())) + "\n";
  const std::string_view precision = PlanView::text(plan.index().precision());
  if (!precision.empty()) text += "precision " + plain_text(precision) + "\n";
  if (header.vulkan.present != 0) text += vulkan_targets_text(header);
  if (header.cuda.present != 0) text += "target " + cuda_text(header.cuda) + "\n";
  text += "file " + byte_count(header.file_bytes) + ": " +
          count_text(plan.index().weights()->size(), "weight") + ", " +
          count_text(plan.index().states()->size(), "state") + ", " +
          count_text(plan.index().kernels()->size(), "kernel") + "\n";
  text += "device memory: weights " + byte_count(header.weights_bytes) + ", state " +
          byte_count(header.state_bytes) + ", arena " + byte_count(header.arena_bytes) + ", io " +
          byte_count(header.io_bytes) + ", index errors " + byte_count(header.index_error_bytes) +
          "; host memory " + byte_count(header.host_bytes) + "\n";
  text += symbols_text(plan);
  for (const EntryFacts& entry : entry_facts(plan)) text += entry_summary(entry);
  return text;
}

std::string steps_text(const PlanView& plan) {
  std::string text;
  for (const EntryFacts& entry : entry_facts(plan)) {
    text += entry_title(entry) + ": " + count_text(entry.steps.size(), "step") + " in " +
            count_text(entry.wave_count, "wave") + "\n";
    for (const RegionFacts& region : entry.regions) text += "  " + region.text() + "\n";
    for (const StepFacts& step : entry.steps) text += step_text(step);
  }
  return text;
}

std::string sizes_text(const PlanView& plan) {
  const SizeFacts facts = size_facts(plan);
  Table file(
      {{"offset", Align::Right}, {"bytes", Align::Right}, {"share", Align::Right}, {"what"}});
  for (const Region& region : facts.regions) {
    file.add({grouped(region.offset_bytes), grouped(region.size_bytes),
              share(region.size_bytes, facts.file_bytes), region.name});
  }
  std::string text = "file: " + byte_count(facts.file_bytes) + "\n" + file.text(2);

  text += "params: " + count_text(facts.params_blobs, "different blob") + ", " +
          byte_count(facts.params_blob_bytes) + ", padding " +
          byte_count(facts.params_padding_bytes) + "\n";

  Table code({{"offset", Align::Right}, {"bytes", Align::Right}, {"format"}, {"kernels"}});
  for (const CodeFacts& piece : facts.code) {
    std::string kernels;
    for (const std::string& kernel : piece.kernels)
      kernels += (kernels.empty() ? "" : "; ") + plain_text(kernel);
    code.add({grouped(piece.offset_bytes), grouped(piece.size_bytes), piece.format, kernels});
  }
  text += "code: padding " + byte_count(facts.code_padding_bytes) + "\n" + code.text(2);

  Table weights({{"offset", Align::Right}, {"bytes", Align::Right}, {"type"}, {"weight"}});
  for (const WeightFacts& weight : facts.weights) {
    weights.add({grouped(weight.offset_bytes), grouped(weight.size_bytes), weight.type,
                 name_text(weight.name) +
                     (weight.generated ? ", filled on the device, not in the file" : "") +
                     (weight.file.empty() ? "" : ", in file " + name_text(weight.file))});
  }
  text += "weights: padding " + byte_count(facts.weights_padding_bytes) + "\n" + weights.text(2);
  return text;
}

std::string why_text(const PlanView& plan) {
  const fb::Debug* debug = plan.debug();
  if (debug == nullptr) {
    return "this plan has no debug section: nothing is recorded of passes and reasons\n";
  }
  std::string text = "passes\n";
  if (debug->passes() != nullptr) {
    for (const flatbuffers::String* pass : *debug->passes()) {
      text += "  " + plain_text(PlanView::text(pass)) + "\n";
    }
  }
  for (const EntryFacts& entry : entry_facts(plan)) {
    text += entry_title(entry) + "\n";
    for (const RegionFacts& region : entry.regions) text += "  " + region.text() + "\n";
    for (const StepFacts& step : entry.steps) {
      text += "  step " + std::to_string(step.position) + ": " + step_title(step) + " for " +
              plain_text(step.names.op) + " " + name_text(step.names.node) + "\n";
      if (!step.names.source.empty()) text += "    source  " + plain_text(step.names.source) + "\n";
      if (!step.names.reason.empty()) text += "    why     " + plain_text(step.names.reason) + "\n";
      text += offers_text(step);
      text += choice_text(step);
    }
  }
  return text;
}

}  // namespace rlx::inspect

namespace rlx {

std::string inspect_text(const PlanView& plan, InspectView view) {
  switch (view) {
    case InspectView::Summary:
      return inspect::summary_text(plan);
    case InspectView::Memory:
      return inspect::memory_text(plan);
    case InspectView::Steps:
      return inspect::steps_text(plan);
    case InspectView::Kernels:
      return inspect::kernels_text(plan);
    case InspectView::Sizes:
      return inspect::sizes_text(plan);
    case InspectView::Why:
      return inspect::why_text(plan);
  }
  return {};
}

}  // namespace rlx
