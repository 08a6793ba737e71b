// SPDX-License-Identifier: Apache-2.0
// The views as JSON. Sizes and offsets are bytes.
#include "runtime/plan/profiles.h"
#include "tools/inspect/facts.h"
#include "tools/inspect/format.h"
#include "tools/inspect/inspect.h"
#include "tools/inspect/views.h"

namespace rlx::inspect {
namespace {

using Json = nlohmann::ordered_json;

Json utf8_texts(const std::vector<std::string>& texts) {
  Json json = Json::array();
  for (const std::string& text : texts) json.push_back(utf8_text(text));
  return json;
}

Json segments_json(const PlanHeader& header) {
  return {{"weights_bytes", header.weights_bytes},
          {"state_bytes", header.state_bytes},
          {"arena_bytes", header.arena_bytes},
          {"io_bytes", header.io_bytes},
          {"index_error_bytes", header.index_error_bytes},
          {"host_bytes", header.host_bytes}};
}

Json arena_json(const EntryFacts& entry) {
  return {{"bytes", entry.arena_bytes},
          {"lower_bound_bytes", entry.lower_bound_bytes},
          {"gap_bytes", entry.gap_bytes()},
          {"ratio", entry.ratio()},
          {"unplanned_bytes", entry.unplanned_bytes}};
}

Json value_json(const ValueFacts& value) {
  Json json = {{"name", utf8_text(value.name)},  {"type", value.type},
               {"segment", value.segment},       {"offset_bytes", value.offset_bytes},
               {"size_bytes", value.size_bytes}, {"first_step", value.first_step},
               {"last_step", value.last_step},   {"first_wave", value.first_wave},
               {"last_wave", value.last_wave}};
  if (value.alias_of) json["in_place_of"] = utf8_text(*value.alias_of);
  return json;
}

Json access_json(const AccessFacts& access) {
  return {{"value", utf8_text(access.value)},
          {"type", access.type},
          {"segment", access.segment},
          {"mode", access.mode},
          {"offset_bytes", access.offset_bytes},
          {"length_bytes", access.length_bytes},
          {"segment_offset_bytes", access.segment_offset_bytes},
          {"params_position", access.params_position}};
}

Json extent_json(const uint32_t (&extent)[3]) {
  return Json::array({extent[0], extent[1], extent[2]});
}

Json gemm_json(const GemmFacts& gemm) {
  return {{"problem", gemm.problem},
          {"workspace_bytes", gemm.workspace_bytes},
          {"tuned", utf8_text(gemm.tuned)}};
}

Json regions_json(const EntryFacts& entry) {
  Json list = Json::array();
  for (const RegionFacts& region : entry.regions) {
    Json json = {{"name", utf8_text(region.name)},
                 {"first_step", region.first_step},
                 {"step_count", region.step_count},
                 {"most_trips", region.most_trips}};
    if (!region.word.empty()) json["word"] = utf8_text(region.word);
    list.push_back(std::move(json));
  }
  return list;
}

Json step_json(const StepFacts& step) {
  Json json = {{"position", step.position}, {"wave", step.wave}, {"kind", step.kind}};
  if (!step.kernel.empty()) {
    json["kernel"] = utf8_text(step.kernel);
    json["specialization"] = utf8_text(step.specialization);
    json["grid"] = extent_json(step.grid);
    json["workgroup"] = extent_json(step.workgroup);
    json["params_bytes"] = step.params_bytes;
  }
  if (step.gemm) json["gemm"] = gemm_json(*step.gemm);
  if (!step.alternative.empty()) json["alternative"] = utf8_text(step.alternative);
  for (const std::string& form : step.forms) json["forms"].push_back(utf8_text(form));
  json["edges"] = step.edges;
  json["bytes_moved"] = step.bytes_moved;
  json["flops"] = step.flops;
  json["node"] = utf8_text(step.names.node);
  json["op"] = utf8_text(step.names.op);
  json["accesses"] = Json::array();
  for (const AccessFacts& access : step.accesses) json["accesses"].push_back(access_json(access));
  return json;
}

Json entry_head(const EntryFacts& entry) {
  Json head = {{"name", utf8_text(entry.name)},
               {"targets", entry.targets},
               {"init", entry.is_init},
               {"wave_count", entry.wave_count}};
  if (!entry.ranges.empty()) head["ranges"] = utf8_text(entry.ranges);
  return head;
}

Json names_json(const EntryFacts& entry, const std::vector<uint32_t>& values) {
  Json json = Json::array();
  for (const uint32_t value : values) {
    json.push_back(
        {{"name", utf8_text(entry.values[value].name)}, {"type", entry.values[value].type}});
  }
  return json;
}

Json vulkan_json(const PlanVulkanTarget& target) {
  return {{"api_version", target.api_version},
          {"features", feature_names(target.features)},
          {"max_workgroup_invocations", target.max_workgroup_invocations},
          {"max_shared_bytes", target.max_shared_bytes},
          {"max_grid", extent_json(target.max_grid)}};
}

Json targets_json(const PlanHeader& header) {
  Json json = Json::object();
  if (header.vulkan.present != 0) json["vulkan"] = vulkan_json(header.vulkan);
  for (uint32_t i = 0; i < header.profile_count; ++i) {
    const PlanProfile& profile = header.profiles[i];
    Json told = vulkan_json(profile.vulkan);
    if (!made_for(profile).empty()) told["made_for"] = made_for(profile);
    json["vulkan"]["programs"][utf8_text(profile_name(profile))] = std::move(told);
  }
  if (header.cuda.present != 0) {
    Json architectures = Json::array();
    for (uint32_t i = 0; i < header.cuda.architecture_count; ++i) {
      architectures.push_back(header.cuda.architectures[i]);
    }
    json["cuda"] = {{"architectures", architectures},
                    {"ptx_architecture", header.cuda.ptx_architecture},
                    {"minimum_driver", header.cuda.minimum_driver}};
  }
  return json;
}

Json symbols_json(const PlanView& plan) {
  Json symbols = Json::array();
  const std::span<const uint64_t> values = plan.bound_symbols();
  for (uint32_t i = 0; i < plan.index().symbols()->size(); ++i) {
    const fb::Symbol* symbol = plan.index().symbols()->Get(i);
    Json json = {{"name", utf8_text(PlanView::text(symbol->name()))},
                 {"minimum", symbol->minimum()},
                 {"maximum", symbol->maximum()},
                 {"multiple_of", symbol->multiple_of()}};
    if (const auto bound = symbol->bound()) json["bound"] = *bound;
    json["free"] = !symbol->bound().has_value();
    if (!symbol->bound() && !values.empty()) json["value"] = values[i];
    symbols.push_back(std::move(json));
  }
  return symbols;
}

Json summary_json(const PlanView& plan) {
  const PlanHeader& header = plan.header();
  Json json = {{"name", utf8_text(plan.name())},
               {"producer", utf8_text(PlanView::text(plan.index().producer()))},
               {"precision", utf8_text(PlanView::text(plan.index().precision()))},
               {"format", {{"major", header.major}, {"minor", header.minor}}},
               {"file_bytes", header.file_bytes},
               {"targets", targets_json(header)},
               {"segments", segments_json(header)},
               {"weight_count", plan.index().weights()->size()},
               {"state_count", plan.index().states()->size()},
               {"kernel_count", plan.index().kernels()->size()},
               {"symbols", symbols_json(plan)},
               {"entries", Json::array()}};
  for (const EntryFacts& entry : entry_facts(plan)) {
    Json head = entry_head(entry);
    head["step_count"] = entry.steps.size();
    head["inputs"] = names_json(entry, entry.inputs);
    head["outputs"] = names_json(entry, entry.outputs);
    head["arena"] = arena_json(entry);
    json["entries"].push_back(std::move(head));
  }
  return json;
}

Json memory_json(const PlanView& plan) {
  Json json = {{"segments", segments_json(plan.header())}, {"entries", Json::array()}};
  for (const EntryFacts& entry : entry_facts(plan)) {
    Json head = entry_head(entry);
    head["arena"] = arena_json(entry);
    head["values"] = Json::array();
    for (const ValueFacts& value : entry.values) head["values"].push_back(value_json(value));
    json["entries"].push_back(std::move(head));
  }
  return json;
}

Json steps_json(const PlanView& plan) {
  Json json = {{"entries", Json::array()}};
  for (const EntryFacts& entry : entry_facts(plan)) {
    Json head = entry_head(entry);
    if (!entry.regions.empty()) head["regions"] = regions_json(entry);
    head["steps"] = Json::array();
    for (const StepFacts& step : entry.steps) head["steps"].push_back(step_json(step));
    json["entries"].push_back(std::move(head));
  }
  return json;
}

Json variant_json(const VariantFacts& variant) {
  Json json = {{"format", variant.format},
               {"size_bytes", variant.size_bytes},
               {"workgroup", variant.workgroup},
               {"subgroup_size", variant.subgroup_size},
               {"shared_bytes", variant.shared_bytes},
               {"dynamic_shared_bytes", variant.dynamic_shared_bytes},
               {"cluster_x", variant.cluster_x},
               {"waits_for_predecessors", variant.waits_for_predecessors},
               {"runs_together", variant.runs_together},
               {"features", variant.features},
               {"sha256", variant.digest}};
  if (variant.registers) json["registers"] = *variant.registers;
  if (variant.local_bytes) json["local_bytes"] = *variant.local_bytes;
  return json;
}

Json kernels_json(const PlanView& plan) {
  Json json = {{"kernels", Json::array()}};
  for (const KernelFacts& kernel : kernel_facts(plan)) {
    Json variants = Json::array();
    for (const VariantFacts& variant : kernel.variants) variants.push_back(variant_json(variant));
    json["kernels"].push_back({{"name", utf8_text(kernel.name)},
                               {"specialization", utf8_text(kernel.specialization)},
                               {"steps", kernel.steps},
                               {"variants", std::move(variants)}});
  }
  return json;
}

Json sizes_json(const PlanView& plan) {
  const SizeFacts facts = size_facts(plan);
  Json json = {{"file_bytes", facts.file_bytes}, {"regions", Json::array()}};
  for (const Region& region : facts.regions) {
    json["regions"].push_back({{"name", region.name},
                               {"offset_bytes", region.offset_bytes},
                               {"size_bytes", region.size_bytes}});
  }
  json["params"] = {{"blobs", facts.params_blobs},
                    {"blob_bytes", facts.params_blob_bytes},
                    {"padding_bytes", facts.params_padding_bytes}};
  json["code"] = {{"padding_bytes", facts.code_padding_bytes}, {"pieces", Json::array()}};
  for (const CodeFacts& piece : facts.code) {
    json["code"]["pieces"].push_back({{"offset_bytes", piece.offset_bytes},
                                      {"size_bytes", piece.size_bytes},
                                      {"format", piece.format},
                                      {"kernels", utf8_texts(piece.kernels)}});
  }
  json["weights"] = {{"padding_bytes", facts.weights_padding_bytes}, {"tensors", Json::array()}};
  for (const WeightFacts& weight : facts.weights) {
    json["weights"]["tensors"].push_back({{"name", utf8_text(weight.name)},
                                          {"type", weight.type},
                                          {"offset_bytes", weight.offset_bytes},
                                          {"size_bytes", weight.size_bytes},
                                          {"generated", weight.generated}});
    if (!weight.file.empty()) json["weights"]["tensors"].back()["file"] = utf8_text(weight.file);
  }
  return json;
}

Json offers_json(const std::vector<OfferFacts>& offers) {
  Json rows = Json::array();
  for (const OfferFacts& offer : offers) {
    Json row = {{"kernel", utf8_text(offer.kernel)}, {"rank", offer.rank}, {"taken", offer.taken}};
    if (!offer.refusal.empty()) {
      row["refusal"] = utf8_text(offer.refusal);
    } else {
      row[offer.is_bound ? "least_microseconds" : "microseconds"] = offer.microseconds;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json why_json(const PlanView& plan) {
  Json json = {{"has_debug", plan.debug() != nullptr},
               {"passes", Json::array()},
               {"entries", Json::array()}};
  if (plan.debug() == nullptr) return json;
  if (plan.debug()->passes() != nullptr) {
    for (const flatbuffers::String* pass : *plan.debug()->passes())
      json["passes"].push_back(utf8_text(PlanView::text(pass)));
  }
  for (const EntryFacts& entry : entry_facts(plan)) {
    Json head = entry_head(entry);
    head["steps"] = Json::array();
    for (const StepFacts& step : entry.steps) {
      Json why = {{"position", step.position},
                  {"kernel", utf8_text(step_title(step))},
                  {"specialization", utf8_text(step.specialization)},
                  {"node", utf8_text(step.names.node)},
                  {"op", utf8_text(step.names.op)},
                  {"source", utf8_text(step.names.source)},
                  {"reason", utf8_text(step.names.reason)}};
      if (!step.offers.empty()) why["offers"] = offers_json(step.offers);
      if (step.gemm) why["gemm"] = gemm_json(*step.gemm);
      if (!step.alternative.empty()) why["alternative"] = utf8_text(step.alternative);
      for (const std::string& form : step.forms) why["forms"].push_back(utf8_text(form));
      head["steps"].push_back(std::move(why));
    }
    json["entries"].push_back(std::move(head));
  }
  return json;
}

}  // namespace
}  // namespace rlx::inspect

namespace rlx {

nlohmann::ordered_json inspect_json(const PlanView& plan, InspectView view) {
  switch (view) {
    case InspectView::Summary:
      return inspect::summary_json(plan);
    case InspectView::Memory:
      return inspect::memory_json(plan);
    case InspectView::Steps:
      return inspect::steps_json(plan);
    case InspectView::Kernels:
      return inspect::kernels_json(plan);
    case InspectView::Sizes:
      return inspect::sizes_json(plan);
    case InspectView::Why:
      return inspect::why_json(plan);
  }
  return {};
}

}  // namespace rlx
