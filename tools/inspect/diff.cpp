// SPDX-License-Identifier: Apache-2.0
// Both plans become lists of named facts; what is compared are the lists.
#include "tools/inspect/diff.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <span>
#include <sstream>

#include "runtime/base/text.h"
#include "runtime/plan/free_sizes.h"
#include "runtime/plan/profiles.h"
#include "tools/inspect/facts.h"
#include "tools/inspect/format.h"
#include "tools/inspect/views.h"

namespace rlx {
namespace inspect {
namespace {

// Texts by unique names, in the order in which they are told.
class FactList {
 public:
  // A name that was there before gets a number: "kernel copy #2".
  void add(const std::string& name, std::string text) {
    const uint32_t before = counts_[name]++;
    const std::string unique = before == 0 ? name : name + " #" + std::to_string(before + 1);
    index_.emplace(unique, names_.size());
    names_.push_back(unique);
    texts_.push_back(std::move(text));
  }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const std::string* find(const std::string& name) const {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &texts_[found->second];
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::string> texts_;
  std::map<std::string, size_t> index_;
  std::map<std::string, uint32_t> counts_;
};

void compare_facts(const FactList& a, const FactList& b, std::vector<PlanDifference>& rows) {
  for (const std::string& name : a.names()) {
    const std::string* other = b.find(name);
    if (other == nullptr) {
      rows.push_back({.what = name, .a = *a.find(name), .b = std::nullopt});
    } else if (*other != *a.find(name)) {
      rows.push_back({.what = name, .a = *a.find(name), .b = *other});
    }
  }
  for (const std::string& name : b.names()) {
    if (a.find(name) == nullptr)
      rows.push_back({.what = name, .a = std::nullopt, .b = *b.find(name)});
  }
}

std::string yes_or_no(bool yes) {
  return yes ? "yes" : "no";
}

void add_vulkan(const std::string& name, const PlanVulkanTarget& target, FactList& facts) {
  std::string text = "API version " + std::to_string(target.api_version) + ", workgroups of " +
                     std::to_string(target.max_workgroup_invocations) + ", shared memory of " +
                     byte_count(target.max_shared_bytes) + ", params of " +
                     byte_count(target.max_params_bytes) + ", grids of " +
                     extent_text(target.max_grid);
  for (const std::string_view feature : feature_names(target.features))
    text += ", " + std::string(feature);
  facts.add("target " + name, text);
}

void add_targets(const PlanHeader& header, FactList& facts) {
  if (header.vulkan.present != 0) add_vulkan("vulkan", header.vulkan, facts);
  for (uint32_t i = 0; i < header.profile_count; ++i)
    add_vulkan("vulkan program " + std::string(profile_name(header.profiles[i])),
               header.profiles[i].vulkan, facts);
  if (header.cuda.present != 0) {
    std::string text = "driver " + std::to_string(header.cuda.minimum_driver);
    for (uint32_t i = 0; i < header.cuda.architecture_count; ++i)
      text += ", sm_" + std::to_string(header.cuda.architectures[i]);
    if (header.cuda.ptx_architecture != 0)
      text += ", PTX of compute_" + std::to_string(header.cuda.ptx_architecture);
    facts.add("target cuda", text);
  }
}

FactList plan_facts(const PlanView& plan) {
  FactList facts;
  const PlanHeader& header = plan.header();
  facts.add("name", name_text(plan.name()));
  facts.add("producer", plain_text(PlanView::text(plan.index().producer())));
  facts.add("precision", plain_text(PlanView::text(plan.index().precision())));
  facts.add("format", std::to_string(header.major) + "." + std::to_string(header.minor));
  add_targets(header, facts);
  for (const fb::Symbol* symbol : *plan.index().symbols()) {
    facts.add("symbol " + name_text(PlanView::text(symbol->name())),
              std::to_string(symbol->minimum()) + " to " + std::to_string(symbol->maximum()) +
                  ", multiple of " + std::to_string(symbol->multiple_of()) +
                  (symbol->bound() ? ", compiled for " + std::to_string(*symbol->bound())
                                   : std::string(", free")));
  }
  return facts;
}

FactList interface_facts(const std::vector<EntryFacts>& entries) {
  FactList facts;
  for (const EntryFacts& entry : entries) {
    const std::string title = entry_title(entry);
    facts.add(title, count_text(entry.steps.size(), "step") + " in " +
                         count_text(entry.wave_count, "wave"));
    const auto add = [&](std::string_view role, const std::vector<uint32_t>& values) {
      for (size_t i = 0; i < values.size(); ++i) {
        const ValueFacts& value = entry.values[values[i]];
        facts.add(title + ": " + std::string(role) + " " + std::to_string(i),
                  name_text(value.name) + " " + value.type);
      }
    };
    add("input", entry.inputs);
    add("output", entry.outputs);
  }
  return facts;
}

FactList memory_facts(const PlanView& plan, const std::vector<EntryFacts>& entries) {
  FactList facts;
  const PlanHeader& header = plan.header();
  facts.add("weights", byte_count(header.weights_bytes));
  facts.add("state", byte_count(header.state_bytes));
  facts.add("arena", byte_count(header.arena_bytes));
  facts.add("inputs and outputs", byte_count(header.io_bytes));
  facts.add("index errors", byte_count(header.index_error_bytes));
  facts.add("host", byte_count(header.host_bytes));
  for (const EntryFacts& entry : entries) {
    const std::string title = entry_title(entry);
    facts.add(title + ": arena", byte_count(entry.arena_bytes));
    facts.add(title + ": arena's lower bound", byte_count(entry.lower_bound_bytes));
    facts.add(title + ": arena without reuse", byte_count(entry.unplanned_bytes));
    for (const ValueFacts& value : entry.values) {
      facts.add(title + ": value " + name_text(value.name),
                value.type + ", " + byte_count(value.size_bytes) + " at " +
                    grouped(value.offset_bytes) + " of " + std::string(value.segment) +
                    (value.alias_of ? ", in place of " + name_text(*value.alias_of) : ""));
    }
  }
  return facts;
}

FactList code_facts(const PlanView& plan) {
  FactList facts;
  for (const KernelFacts& kernel : kernel_facts(plan)) {
    const std::string title =
        plain_text(kernel.name) +
        (kernel.specialization.empty() ? "" : " (" + plain_text(kernel.specialization) + ")");
    for (const VariantFacts& variant : kernel.variants) {
      std::string text = byte_count(variant.size_bytes) + ", workgroup " +
                         extent_text(variant.workgroup) + ", shared " +
                         byte_count(variant.shared_bytes);
      if (variant.subgroup_size > 0)
        text += ", subgroups of " + std::to_string(variant.subgroup_size);
      if (variant.cluster_x > 1) text += ", clusters of " + std::to_string(variant.cluster_x);
      if (variant.registers) text += ", " + count_text(*variant.registers, "register");
      if (variant.local_bytes) text += ", local " + byte_count(*variant.local_bytes);
      for (const std::string_view feature : variant.features) text += ", " + std::string(feature);
      facts.add(title + " as " + variant.format, text + ", digest " + variant.digest.substr(0, 16));
    }
  }
  return facts;
}

// "RLX_K=3 block 256x1x1" as a fact for each name.
void add_specialization(const std::string& specialization, FactList& facts) {
  std::istringstream words(specialization);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    facts.add(word.substr(0, equals), equals == std::string::npos ? "" : word.substr(equals + 1));
  }
}

// What a step is and does but its place in the list.
FactList step_facts(const PlanView& plan, const fb::Entry& record, const StepFacts& step) {
  FactList facts;
  facts.add("does", step_title(step));
  add_specialization(step.specialization, facts);
  if (!step.kernel.empty()) {
    facts.add("grid", extent_text(step.grid));
    facts.add("workgroup", extent_text(step.workgroup));
  }
  for (const AccessFacts& access : step.accesses) {
    facts.add("pointer at " + std::to_string(access.params_position),
              std::string(access.mode) + " " + name_text(access.value) + " " + access.type +
                  ", bytes " + grouped(access.offset_bytes) + " to " +
                  grouped(access.offset_bytes + access.length_bytes));
  }
  const std::span<const std::byte> params = plan.params(PlanView::steps(record)[step.position]);
  for (size_t word = 0; (word + 1) * 4 <= params.size(); ++word) {
    uint32_t number = 0;
    std::memcpy(&number, params.data() + word * 4, sizeof number);
    facts.add("params word " + std::to_string(word), std::to_string(number));
  }
  facts.add("fill pattern", std::to_string(PlanView::steps(record)[step.position].fill_pattern()));
  facts.add("bytes moved", grouped(step.bytes_moved));
  facts.add("work", flop_count(step.flops));
  if (step.gemm) {
    facts.add("product", step.gemm->problem);
    facts.add("workspace", byte_count(step.gemm->workspace_bytes));
    facts.add("tuned", step.gemm->tuned.empty() ? "no" : step.gemm->tuned);
  }
  if (!step.alternative.empty()) facts.add("alternative", step.alternative);
  for (const std::string& form : step.forms) facts.add("form", plain_text(form));
  return facts;
}

FactList reason_facts(const StepFacts& step) {
  FactList facts;
  facts.add("op", plain_text(step.names.op));
  facts.add("source", plain_text(step.names.source));
  facts.add("reason", plain_text(step.names.reason));
  for (const OfferFacts& offer : step.offers)
    facts.add("offer of " + plain_text(offer.kernel), offer.text());
  return facts;
}

// A record of an entry with its steps by name: the node's, or the kernel's where no node is known.
struct NamedSteps {
  const EntryFacts* entry = nullptr;
  const fb::Entry* record = nullptr;
  std::vector<std::string> names;
  std::map<std::string, uint32_t> positions;
};

NamedSteps name_steps(const EntryFacts& entry, const fb::Entry& record) {
  NamedSteps named{.entry = &entry, .record = &record, .names = {}, .positions = {}};
  std::map<std::string, uint32_t> counts;
  for (const StepFacts& step : entry.steps) {
    const std::string base =
        step.names.node.empty() ? step_title(step) : name_text(step.names.node);
    const uint32_t before = counts[base]++;
    const std::string name = before == 0 ? base : base + " #" + std::to_string(before + 1);
    named.names.push_back(name);
    named.positions.emplace(name, step.position);
  }
  return named;
}

std::string one_line(const StepFacts& step) {
  return "step " + std::to_string(step.position) + ", " + step_title(step);
}

// The first step of A that stands before one in B that stands before it in A.
void compare_order(const std::string& title, const NamedSteps& a, const NamedSteps& b,
                   std::vector<PlanDifference>& rows) {
  std::optional<uint32_t> last;
  for (const std::string& name : a.names) {
    const auto other = b.positions.find(name);
    if (other == b.positions.end()) continue;
    if (last && other->second < *last) {
      rows.push_back({.what = title + ": order of steps",
                      .a = name + " after " + b.names[*last],
                      .b = name + " before " + b.names[*last]});
      return;
    }
    last = other->second;
  }
}

struct Side {
  const PlanView& plan;
  std::vector<EntryFacts> entries;
  std::vector<const fb::Entry*> records;

  explicit Side(const PlanView& view)
      : plan(view), entries(entry_facts(view)), records(view.bound_records()) {}
};

// Waves and edges of a step, by the names of the steps that must have ended.
std::string order_text(const NamedSteps& named, const StepFacts& step) {
  std::string text;
  for (const uint32_t edge : step.edges) text += (text.empty() ? "" : ", ") + named.names[edge];
  return text.empty() ? "nothing" : text;
}

void compare_record_steps(const std::string& title, const Side& a, const NamedSteps& in_a,
                          const Side& b, const NamedSteps& in_b, std::vector<PlanDifference>& steps,
                          std::vector<PlanDifference>& reasons) {
  compare_order(title, in_a, in_b, steps);
  for (const std::string& name : in_a.names) {
    const StepFacts& step = in_a.entry->steps[in_a.positions.at(name)];
    const std::string what = title + ": step " + name;
    const auto other = in_b.positions.find(name);
    if (other == in_b.positions.end()) {
      steps.push_back({.what = what, .a = one_line(step), .b = std::nullopt});
      continue;
    }
    const StepFacts& step_b = in_b.entry->steps[other->second];
    const auto add = [&](std::vector<PlanDifference>& rows, const FactList& facts_a,
                         const FactList& facts_b) {
      const size_t before = rows.size();
      compare_facts(facts_a, facts_b, rows);
      for (size_t i = before; i < rows.size(); ++i) rows[i].what = what + ": " + rows[i].what;
    };
    FactList facts_a = step_facts(a.plan, *in_a.record, step);
    FactList facts_b = step_facts(b.plan, *in_b.record, step_b);
    facts_a.add("waits for", order_text(in_a, step));
    facts_b.add("waits for", order_text(in_b, step_b));
    add(steps, facts_a, facts_b);
    add(reasons, reason_facts(step), reason_facts(step_b));
  }
  for (const std::string& name : in_b.names) {
    if (in_a.positions.contains(name)) continue;
    const StepFacts& step = in_b.entry->steps[in_b.positions.at(name)];
    steps.push_back({.what = title + ": step " + name, .a = std::nullopt, .b = one_line(step)});
  }
}

void compare_steps(const Side& a, const Side& b, std::vector<PlanDifference>& steps,
                   std::vector<PlanDifference>& reasons) {
  std::map<std::string, size_t> in_b;
  for (size_t i = 0; i < b.entries.size(); ++i) in_b.emplace(entry_title(b.entries[i]), i);
  for (size_t i = 0; i < a.entries.size(); ++i) {
    const std::string title = entry_title(a.entries[i]);
    const auto other = in_b.find(title);
    if (other == in_b.end()) continue;  // told among the entries
    compare_record_steps(title, a, name_steps(a.entries[i], *a.records[i]), b,
                         name_steps(b.entries[other->second], *b.records[other->second]), steps,
                         reasons);
  }
}

FactList pass_facts(const PlanView& plan) {
  FactList facts;
  facts.add("debug section", yes_or_no(plan.debug() != nullptr));
  if (plan.debug() == nullptr || plan.debug()->passes() == nullptr) return facts;
  for (const flatbuffers::String* pass : *plan.debug()->passes()) {
    const std::string text = plain_text(PlanView::text(pass));
    const size_t colon = text.find(':');
    facts.add("pass " + text.substr(0, colon),
              colon == std::string::npos ? "" : text.substr(std::min(colon + 2, text.size())));
  }
  return facts;
}

std::string weight_text(const PlanView& plan, const fb::Weight& weight) {
  std::string text = tensor_text(weight.dtype(), {weight.dims()->data(), weight.dims()->size()}) +
                     ", " + byte_count(weight.size_bytes());
  if (weight.kind() == fb::WeightKind::Generated) text += ", generated";
  if (weight.kind() == fb::WeightKind::External) {
    const fb::WeightFile& file = *plan.index().weight_files()->Get(weight.file());
    char checksum[20];
    std::snprintf(checksum, sizeof checksum, "%016llx",
                  static_cast<unsigned long long>(file.checksum()));
    text += ", at " + grouped(weight.file_offset()) + " of " +
            name_text(PlanView::text(file.name())) + " (checksum " + checksum + ")";
  }
  return text;
}

FactList weight_facts(const PlanView& plan) {
  FactList facts;
  for (const fb::Weight* weight : *plan.index().weights())
    facts.add("weight " + name_text(PlanView::text(weight->name())), weight_text(plan, *weight));
  for (const fb::State* state : *plan.index().states()) {
    facts.add("state " + name_text(PlanView::text(state->name())),
              tensor_text(state->dtype(), {state->dims()->data(), state->dims()->size()}) + ", " +
                  byte_count(state->size_bytes()) + " at " + grouped(state->offset_bytes()) +
                  (state->init_weight() ? ", begins as a weight" : ""));
  }
  facts.add("text section", byte_count(plan.text_section_bytes()));
  return facts;
}

// How many bytes of two weights of one size differ, and the first that does.
struct DifferentBytes {
  uint64_t count = 0;
  uint64_t first = 0;
};

Status compare_bytes(const PlanView& a, uint64_t offset_a, const PlanView& b, uint64_t offset_b,
                     uint64_t size_bytes, DifferentBytes& different) {
  constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
  std::vector<std::byte> piece_a;
  std::vector<std::byte> piece_b;
  for (uint64_t done = 0; done < size_bytes; done += kPieceBytes) {
    const auto bytes = static_cast<size_t>(std::min(kPieceBytes, size_bytes - done));
    piece_a.resize(bytes);
    piece_b.resize(bytes);
    RLX_RETURN_IF_ERROR(a.read_weights(offset_a + done, piece_a));
    RLX_RETURN_IF_ERROR(b.read_weights(offset_b + done, piece_b));
    if (piece_a == piece_b) continue;
    for (size_t i = 0; i < bytes; ++i) {
      if (piece_a[i] == piece_b[i]) continue;
      if (different.count == 0) different.first = done + i;
      ++different.count;
    }
  }
  return {};
}

// Contents of the weights of one name, type and kind.
Status compare_contents(const PlanView& a, const PlanView& b, std::vector<PlanDifference>& rows) {
  std::map<std::string, const fb::Weight*> in_b;
  for (const fb::Weight* weight : *b.index().weights())
    in_b.emplace(std::string(PlanView::text(weight->name())), weight);
  for (const fb::Weight* weight : *a.index().weights()) {
    const std::string name(PlanView::text(weight->name()));
    const auto other = in_b.find(name);
    if (other == in_b.end() || weight->kind() != fb::WeightKind::Inline) continue;
    if (weight_text(a, *weight) != weight_text(b, *other->second)) continue;
    DifferentBytes different;
    RLX_RETURN_IF_ERROR(compare_bytes(a, weight->offset_bytes(), b, other->second->offset_bytes(),
                                      weight->size_bytes(), different));
    if (different.count == 0) continue;
    rows.push_back({.what = "weight " + name_text(name) + ": content",
                    .a = "",
                    .b = grouped(different.count) + " of " + byte_count(weight->size_bytes()) +
                         " differ, the first at " + grouped(different.first)});
  }
  return {};
}

FactList file_facts(const PlanHeader& header) {
  FactList facts;
  for (uint32_t i = 0; i < header.section_count; ++i) {
    const PlanSection& section = header.sections[i];
    char checksum[20];
    std::snprintf(checksum, sizeof checksum, "%016llx",
                  static_cast<unsigned long long>(section.checksum));
    facts.add("section " + section_name(section.kind),
              byte_count(section.size_bytes) + ", checksum " + checksum);
  }
  return facts;
}

uint64_t weights_checksum(const PlanHeader& header) {
  for (uint32_t i = 0; i < header.section_count; ++i) {
    if (header.sections[i].kind == static_cast<uint32_t>(SectionKind::Weights))
      return header.sections[i].checksum;
  }
  return 0;
}

}  // namespace
}  // namespace inspect

bool PlanDifferences::none() const {
  return std::all_of(groups.begin(), groups.end(),
                     [](const DifferenceGroup& group) { return group.differences.empty(); });
}

Status compare_plans(const PlanView& a, const PlanView& b, PlanDifferences& differences) {
  using namespace inspect;
  const Side side_a(a);
  const Side side_b(b);
  PlanDifferences found;
  const auto group = [&](std::string_view title) -> std::vector<PlanDifference>& {
    found.groups.push_back({.title = title, .differences = {}});
    return found.groups.back().differences;
  };
  compare_facts(plan_facts(a), plan_facts(b), group("plan"));
  compare_facts(interface_facts(side_a.entries), interface_facts(side_b.entries), group("entries"));
  compare_facts(memory_facts(a, side_a.entries), memory_facts(b, side_b.entries), group("memory"));
  compare_facts(code_facts(a), code_facts(b), group("kernels"));
  std::vector<PlanDifference> reasons;
  compare_steps(side_a, side_b, group("steps"), reasons);
  std::vector<PlanDifference>& weights = group("weights");
  compare_facts(weight_facts(a), weight_facts(b), weights);
  if (weights_checksum(a.header()) != weights_checksum(b.header()))
    RLX_RETURN_IF_ERROR(compare_contents(a, b, weights));
  compare_facts(pass_facts(a), pass_facts(b), reasons);
  group("reasons") = std::move(reasons);
  compare_facts(file_facts(a.header()), file_facts(b.header()), group("file"));
  differences = std::move(found);
  return {};
}

std::string differences_text(const PlanDifferences& differences, size_t most) {
  if (differences.none()) return "the plans are equal\n";
  std::string text;
  for (const DifferenceGroup& group : differences.groups) {
    if (group.differences.empty()) continue;
    text += std::string(group.title) + ": " +
            inspect::count_text(group.differences.size(), "difference") + "\n";
    for (size_t i = 0; i < std::min(most, group.differences.size()); ++i) {
      const PlanDifference& row = group.differences[i];
      if (row.a && row.b) {
        text += "  ~ " + row.what + ": " + *row.a + (row.a->empty() ? "" : " -> ") + *row.b + "\n";
      } else {
        text += std::string(row.a ? "  - " : "  + ") + row.what + ": " + (row.a ? *row.a : *row.b) +
                "\n";
      }
    }
    if (group.differences.size() > most)
      text += "  and " + inspect::grouped(group.differences.size() - most) + " more: --all\n";
  }
  return text;
}

nlohmann::ordered_json differences_json(const PlanDifferences& differences) {
  using Json = nlohmann::ordered_json;
  Json json = {{"equal", differences.none()}, {"differences", Json::object()}};
  for (const DifferenceGroup& group : differences.groups) {
    Json rows = Json::array();
    for (const PlanDifference& row : group.differences) {
      Json one = {{"what", inspect::utf8_text(row.what)}};
      one["a"] = row.a ? Json(inspect::utf8_text(*row.a)) : Json();
      one["b"] = row.b ? Json(inspect::utf8_text(*row.b)) : Json();
      rows.push_back(std::move(one));
    }
    json["differences"][std::string(group.title)] = std::move(rows);
  }
  return json;
}

}  // namespace rlx
