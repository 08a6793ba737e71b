// SPDX-License-Identifier: Apache-2.0
// Facts of the file: where every byte of it goes.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/base/text.h"
#include "schema/plan_regions.h"
#include "schema/plan_signature.h"
#include "schema/self_test.h"
#include "tools/inspect/facts.h"

namespace rlx::inspect {
namespace {

uint64_t section_bytes(const PlanHeader& header, SectionKind kind) {
  for (uint32_t i = 0; i < header.section_count; ++i) {
    if (header.sections[i].kind == static_cast<uint32_t>(kind))
      return header.sections[i].size_bytes;
  }
  return 0;
}

// Header, sections and what lies between them.
std::vector<Region> file_regions(const PlanHeader& header) {
  std::vector<Region> parts{{.name = "header", .offset_bytes = 0, .size_bytes = kPlanHeaderBytes}};
  for (uint32_t i = 0; i < header.section_count; ++i) {
    const PlanSection& section = header.sections[i];
    parts.push_back({.name = section_name(section.kind),
                     .offset_bytes = section.offset_bytes,
                     .size_bytes = section.size_bytes});
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Region& a, const Region& b) {
    return a.offset_bytes < b.offset_bytes;
  });
  std::vector<Region> all;
  uint64_t end = 0;
  const auto pad_to = [&](uint64_t offset) {
    if (offset > end)
      all.push_back({.name = "padding", .offset_bytes = end, .size_bytes = offset - end});
  };
  for (Region& part : parts) {
    pad_to(part.offset_bytes);
    end = part.offset_bytes + part.size_bytes;
    all.push_back(std::move(part));
  }
  pad_to(header.file_bytes);
  return all;
}

// Bytes of a section that no range covers; ranges may repeat and overlap.
uint64_t uncovered(uint64_t section_bytes, std::vector<std::pair<uint64_t, uint64_t>> ranges) {
  std::sort(ranges.begin(), ranges.end());
  uint64_t covered = 0;
  uint64_t end = 0;
  for (const auto& [offset, bytes] : ranges) {
    const uint64_t range_end = offset + bytes;
    if (range_end <= end) continue;
    covered += range_end - std::max(end, offset);
    end = range_end;
  }
  return section_bytes - std::min(section_bytes, covered);
}

void add_weights(const PlanView& plan, SizeFacts& facts) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const fb::Weight* weight : *plan.index().weights()) {
    const bool generated = weight->kind() == fb::WeightKind::Generated;
    const bool external = weight->kind() == fb::WeightKind::External;
    facts.weights.push_back(
        {.name = std::string(PlanView::text(weight->name())),
         .type = tensor_text(weight->dtype(),
                             std::span(weight->dims()->data(), weight->dims()->size())),
         .offset_bytes = weight->offset_bytes(),
         .size_bytes = weight->size_bytes(),
         .generated = generated,
         .file = external ? std::string(PlanView::text(
                                plan.index().weight_files()->Get(weight->file())->name()))
                          : std::string()});
    if (!generated && !external) ranges.emplace_back(weight->offset_bytes(), weight->size_bytes());
  }
  facts.weights_padding_bytes = uncovered(plan.weights_section_bytes(), std::move(ranges));
}

void add_code(const PlanView& plan, SizeFacts& facts) {
  std::map<std::pair<uint64_t, uint64_t>, CodeFacts> pieces;
  for (const fb::Kernel* kernel : *plan.index().kernels()) {
    for (const fb::Variant* variant : *kernel->variants()) {
      CodeFacts& piece = pieces[{variant->code_offset(), variant->code_bytes()}];
      piece.offset_bytes = variant->code_offset();
      piece.size_bytes = variant->code_bytes();
      piece.format = format_text(*variant);
      std::string name(PlanView::text(kernel->name()));
      const std::string_view specialization = PlanView::text(kernel->specialization());
      if (!specialization.empty()) name += " (" + std::string(specialization) + ")";
      piece.kernels.push_back(std::move(name));
    }
  }
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (auto& [range, piece] : pieces) {
    ranges.push_back(range);
    facts.code.push_back(std::move(piece));
  }
  facts.code_padding_bytes =
      uncovered(section_bytes(plan.header(), SectionKind::Code), std::move(ranges));
}

void add_params(const PlanView& plan, SizeFacts& facts) {
  std::set<std::pair<uint64_t, uint64_t>> blobs;
  const auto collect = [&](const fb::Entry& entry) {
    for (const fb::Step& step : PlanView::steps(entry)) {
      if (step.params_bytes() > 0) blobs.emplace(step.params_offset(), step.params_bytes());
    }
  };
  for (const fb::Entry* record : plan.records()) collect(*record);
  const uint64_t section = section_bytes(plan.header(), SectionKind::Params);
  facts.params_blobs = static_cast<uint32_t>(blobs.size());
  facts.params_padding_bytes = uncovered(section, {blobs.begin(), blobs.end()});
  facts.params_blob_bytes = section - facts.params_padding_bytes;
}

}  // namespace

std::string section_name(uint32_t kind) {
  switch (static_cast<SectionKind>(kind)) {
    case SectionKind::Index:
      return "index";
    case SectionKind::Params:
      return "params";
    case SectionKind::Code:
      return "code";
    case SectionKind::Weights:
      return "weights";
    case SectionKind::Debug:
      return "debug";
    case SectionKind::Text:
      return "text";
  }
  if (kind == kSelfTestSection) return "self-test";
  if (kind == kRegionsSection) return "regions";
  if (kind == kSignatureSection) return "signature";
  return "section of unknown kind " + std::to_string(kind);
}

SizeFacts size_facts(const PlanView& plan) {
  SizeFacts facts{.file_bytes = plan.header().file_bytes, .regions = file_regions(plan.header())};
  add_weights(plan, facts);
  add_code(plan, facts);
  add_params(plan, facts);
  return facts;
}

}  // namespace rlx::inspect
