// SPDX-License-Identifier: Apache-2.0
// The view of kernels: what each one's code asks of a device.
#include "runtime/plan/cuda_code.h"
#include "tools/inspect/facts.h"
#include "tools/inspect/format.h"
#include "tools/inspect/inspect.h"
#include "tools/inspect/views.h"

namespace rlx::inspect {
namespace {

VariantFacts variant_facts(const PlanView& plan, const fb::Kernel& kernel,
                           const fb::Variant& variant) {
  VariantFacts facts{
      .format = format_text(variant),
      .size_bytes = variant.code_bytes(),
      .workgroup = {variant.workgroup_x(), variant.workgroup_y(), variant.workgroup_z()},
      .subgroup_size = variant.subgroup_size(),
      .shared_bytes = variant.shared_bytes(),
      .dynamic_shared_bytes = variant.dynamic_shared_bytes(),
      .cluster_x = variant.cluster_x(),
      .waits_for_predecessors = variant.waits_for_predecessors(),
      .runs_together = variant.runs_together(),
      .features = feature_names(variant.features()),
      .digest = hex_text(plan.code_digest(kernel, variant))};
  if (variant.format() != fb::CodeFormat::Cubin) return facts;
  if (const auto cubin = read_cubin(plan.code(variant), PlanView::text(variant.entry_point()),
                                    variant.architecture())) {
    facts.registers = cubin->registers;
    facts.local_bytes = cubin->local_bytes;
  }
  return facts;
}

std::string number_text(const std::optional<uint32_t>& number) {
  return number ? grouped(*number) : "";
}

// What a launch does beyond the usual, and the features of a device that the code needs.
std::string notes_text(const VariantFacts& variant) {
  std::string text;
  const auto add = [&text](const std::string& note) { text += (text.empty() ? "" : ", ") + note; };
  if (variant.dynamic_shared_bytes > 0)
    add(grouped(variant.dynamic_shared_bytes) + " of it dynamic");
  if (variant.subgroup_size > 0) add("subgroups of " + std::to_string(variant.subgroup_size));
  if (variant.cluster_x > 1) add("clusters of " + std::to_string(variant.cluster_x));
  if (variant.waits_for_predecessors) add("waits for its predecessors itself");
  if (variant.runs_together) add("all workgroups at once");
  for (const std::string_view feature : variant.features) add(std::string(feature));
  return text;
}

}  // namespace

std::string format_text(const fb::Variant& variant) {
  switch (variant.format()) {
    case fb::CodeFormat::SpirV:
      return "spir-v";
    case fb::CodeFormat::Cubin:
      return "cubin sm_" + std::to_string(variant.architecture());
    case fb::CodeFormat::Ptx:
      return "ptx compute_" + std::to_string(variant.architecture());
  }
  return {};
}

std::vector<KernelFacts> kernel_facts(const PlanView& plan) {
  std::vector<KernelFacts> all;
  for (const fb::Kernel* kernel : *plan.index().kernels()) {
    KernelFacts& facts = all.emplace_back();
    facts.name = PlanView::text(kernel->name());
    facts.specialization = PlanView::text(kernel->specialization());
    for (const fb::Variant* variant : *kernel->variants())
      facts.variants.push_back(variant_facts(plan, *kernel, *variant));
  }
  for (const fb::Entry* record : plan.records()) {
    for (const fb::Step& step : PlanView::steps(*record)) {
      if (step.kind() == fb::StepKind::Dispatch) ++all[step.kernel()].steps;
    }
  }
  return all;
}

std::string kernels_text(const PlanView& plan) {
  std::string text;
  for (const KernelFacts& kernel : kernel_facts(plan)) {
    text += plain_text(kernel.name) + " for " + count_text(kernel.steps, "step") + "\n";
    if (!kernel.specialization.empty()) text += "  " + plain_text(kernel.specialization) + "\n";
    Table table({{"code"},
                 {"bytes", Align::Right},
                 {"workgroup"},
                 {"registers", Align::Right},
                 {"local bytes", Align::Right},
                 {"shared bytes", Align::Right},
                 {""}});
    for (const VariantFacts& variant : kernel.variants) {
      table.add({variant.format, grouped(variant.size_bytes), extent_text(variant.workgroup),
                 number_text(variant.registers), number_text(variant.local_bytes),
                 grouped(variant.shared_bytes), notes_text(variant)});
    }
    text += table.text(2);
    for (const VariantFacts& variant : kernel.variants)
      text += "  sha-256 " + variant.digest + " " + variant.format + "\n";
  }
  return text.empty() ? "this plan has no kernels\n" : text;
}

}  // namespace rlx::inspect

namespace rlx {

std::string known_code_text(const PlanView& plan) {
  std::string text;
  for (const inspect::KernelFacts& kernel : inspect::kernel_facts(plan)) {
    for (const inspect::VariantFacts& variant : kernel.variants)
      text +=
          variant.digest + "  " + inspect::plain_text(kernel.name) + " " + variant.format + "\n";
  }
  return text;
}

}  // namespace rlx
