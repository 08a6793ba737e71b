// SPDX-License-Identifier: Apache-2.0
// Plans made to cost their verifier much more than a regular plan of their size.
#include "tests/runtime/crafted_plans.h"

#include "schema/rounding.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace rlx::test {
namespace {

// A plan of one kernel, which no step runs, and of one entry without steps.
PlanSpec bare_plan() {
  PlanSpec spec = chain_plan(2);
  spec.entries[0] = {.name = "main"};
  spec.weights.clear();
  spec.weight_bytes.clear();
  spec.weights_bytes = 0;
  spec.debug_notes = false;
  return spec;
}

PlanSpec bare_cuda_plan(fb::CodeFormat format, std::vector<std::byte> code) {
  PlanSpec spec = bare_plan();
  spec.vulkan = {};
  spec.cuda = {.present = 1, .minimum_driver = 12000};
  const bool is_ptx = format == fb::CodeFormat::Ptx;
  if (is_ptx) spec.cuda.ptx_architecture = 80;
  if (!is_ptx) spec.cuda.architectures[spec.cuda.architecture_count++] = 90;
  spec.kernels[0].variants = {{.target = fb::TargetKind::Cuda,
                               .format = format,
                               .architecture = is_ptx ? 80u : 90u,
                               .code = std::move(code)}};
  return spec;
}

SpecValue words_value(const std::string& name, fb::Segment segment, uint64_t words,
                      uint64_t offset_bytes, uint32_t last_step) {
  return {.name = name,
          .dims = {words},
          .segment = segment,
          .offset_bytes = offset_bytes,
          .size_bytes = words * 4,
          .last_step = last_step};
}

SpecRelocation part(uint32_t value, uint64_t offset_bytes, uint64_t length_bytes,
                    fb::AccessMode mode) {
  return {.value = value,
          .position = mode == fb::AccessMode::Write ? 8u : 0u,
          .offset_bytes = offset_bytes,
          .length_bytes = length_bytes,
          .mode = mode};
}

// Each step waits for each before it, and no edge alone orders the conflicts of the first ones.
PlanSpec edges_of_all(size_t bytes) {
  PlanSpec spec = bare_plan();
  SpecEntry& main = spec.entries[0];
  uint32_t steps = 2;
  while (uint64_t{steps} * steps * 2 < bytes) ++steps;
  main.outputs = {0};
  main.values = {words_value("y", fb::Segment::Io, 64, 0, steps - 1)};
  for (uint32_t s = 0; s < steps; ++s) {
    SpecStep step{.kind = fb::StepKind::Fill,
                  .wave = s,
                  .relocations = {part(0, s % 64 * 4, 4, fb::AccessMode::Write)}};
    // All but the step whose bytes it writes again.
    for (uint32_t before = 0; before < s; ++before) {
      if (before + 64 != s) step.edges.push_back(before);
    }
    main.steps.push_back(std::move(step));
  }
  return spec;
}

// Pieces of one buffer are filled one by one, then the whole is copied again and again.
PlanSpec pieces_and_wholes(size_t bytes) {
  PlanSpec spec = bare_plan();
  SpecEntry& main = spec.entries[0];
  const auto half = static_cast<uint32_t>(bytes / 300);
  const uint32_t steps = 2 * half;
  const uint64_t whole = uint64_t{half} * 4;
  main.outputs = {1};
  main.arena_bytes = round_up(whole, rlx::kArenaAlignmentBytes);
  main.values = {words_value("a", fb::Segment::Arena, half, 0, steps - 1),
                 words_value("y", fb::Segment::Io, half, 0, steps - 1)};
  for (uint32_t i = 0; i < half; ++i) {
    main.steps.push_back({.kind = fb::StepKind::Fill,
                          .relocations = {part(0, uint64_t{i} * 4, 4, fb::AccessMode::Write)}});
  }
  for (uint32_t i = 0; i < half; ++i) {
    main.steps.push_back({.kind = fb::StepKind::Copy,
                          .wave = i + 1,
                          .relocations = {part(0, 0, whole, fb::AccessMode::Read),
                                          part(1, 0, whole, fb::AccessMode::Write)}});
  }
  return spec;
}

// Values side by side that all live for the whole run, in an order that is no order.
PlanSpec values_side_by_side(size_t bytes) {
  PlanSpec spec = bare_plan();
  SpecEntry& main = spec.entries[0];
  uint32_t count = 1;
  while (uint64_t{count} * 120 < bytes) count *= 2;
  main.arena_bytes = uint64_t{count} * 256;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t slot = uint64_t{i} * 2654435761u % count;
    main.values.push_back(words_value("v", fb::Segment::Arena, 1, slot * 256, 0));
  }
  return spec;
}

// Aliases of one value on its bytes, which all live.
PlanSpec values_on_each_other(size_t bytes) {
  PlanSpec spec = bare_plan();
  SpecEntry& main = spec.entries[0];
  const auto count = static_cast<uint32_t>(bytes / 120);
  main.arena_bytes = uint64_t{count} * 256;
  main.values.push_back(words_value("whole", fb::Segment::Arena, uint64_t{count} * 64, 0, 0));
  for (uint32_t i = 1; i < count; ++i) {
    main.values.push_back(words_value("v", fb::Segment::Arena, 64, uint64_t{i} * 256, 0));
    main.values.back().alias_of = 0;
  }
  return spec;
}

std::vector<uint32_t> step_before(uint32_t step) {
  return step == 0 ? std::vector<uint32_t>{} : std::vector<uint32_t>{step - 1};
}

// One state read in pieces by many steps, and each piece by many; then the last step writes it.
PlanSpec readers_of_pieces(size_t bytes) {
  PlanSpec spec = bare_plan();
  SpecEntry& main = spec.entries[0];
  const auto steps = static_cast<uint32_t>(bytes / 160);
  const uint64_t length = uint64_t{steps} * 4;
  spec.states = {{.name = "x", .dims = {2 * uint64_t{steps}}, .size_bytes = 2 * length}};
  spec.state_bytes = round_up(2 * length, rlx::kArenaAlignmentBytes);
  main.outputs = {1};
  main.values = {words_value("x", fb::Segment::State, 2 * uint64_t{steps}, 0, steps),
                 words_value("y", fb::Segment::Io, steps, 0, steps)};
  for (uint32_t s = 0; s < steps; ++s) {
    main.steps.push_back({.kind = fb::StepKind::Copy,
                          .wave = s,
                          .relocations = {part(0, uint64_t{s} * 4, length, fb::AccessMode::Read),
                                          part(1, 0, length, fb::AccessMode::Write)},
                          .edges = step_before(s)});
  }
  main.steps.push_back({.kind = fb::StepKind::Fill,
                        .wave = steps,
                        .relocations = {part(0, 0, 2 * length, fb::AccessMode::Write)},
                        .edges = {steps - 1}});
  return spec;
}

// Another half of the steps writes what all of the first half read, a word each.
PlanSpec writers_of_pieces(size_t bytes) {
  PlanSpec spec = readers_of_pieces(bytes);
  SpecEntry& main = spec.entries[0];
  const auto half = static_cast<uint32_t>(main.steps.size() / 2);
  for (uint32_t s = half; s < main.steps.size(); ++s) {
    main.steps[s].kind = fb::StepKind::Fill;
    main.steps[s].relocations = {part(0, uint64_t{s} * 4, 4, fb::AccessMode::Write)};
  }
  return spec;
}

SpecKernel unused_kernel(std::vector<std::byte> code) {
  return {.name = "k", .variants = {{.code = std::move(code), .features = 1u << 4}}};
}

// Adds kernels that have the code of the first one, which is the first of the section.
void share_code(PlanSpec& spec, size_t count) {
  SpecKernel other = spec.kernels[0];
  SpecVariant& variant = other.variants[0];
  const std::vector<std::byte> code = codes_in_plan(other)[0];
  variant.code_offset = 0;
  variant.code_bytes = code.size();
  variant.code_hash = XXH3_64bits(code.data(), code.size());
  variant.code.clear();
  spec.kernels.resize(count, other);
}

// Half of the plan are capabilities of a module, half are kernels that use it.
PlanSpec capabilities_for_all(size_t bytes) {
  SpirvOptions options{.push_constant_words64 = 0};
  for (size_t i = 0; i < bytes / 16; ++i) options.capabilities.push_back(i % 2 == 0 ? 1 : 11);
  PlanSpec spec = bare_plan();
  spec.kernels = {unused_kernel(empty_kernel(options))};
  share_code(spec, bytes / 320);
  return spec;
}

// Words put in front of a module's functions, where declarations stand.
std::vector<std::byte> kernel_with(const std::vector<uint32_t>& declarations) {
  const std::vector<std::byte> code = empty_kernel({.push_constant_words64 = 0});
  std::vector<uint32_t> words(code.size() / 4);
  std::memcpy(words.data(), code.data(), code.size());
  size_t at = 5;
  while ((words[at] & 0xFFFF) != 54) at += words[at] >> 16;
  words.insert(words.begin() + static_cast<ptrdiff_t>(at), declarations.begin(),
               declarations.end());
  words[3] = static_cast<uint32_t>(words.size() / 2);
  const auto* data = reinterpret_cast<const std::byte*>(words.data());
  return {data, data + words.size() * sizeof(uint32_t)};
}

// `each` makes a few words for each number.
template <class Each>
PlanSpec declarations(size_t bytes, const Each& each) {
  std::vector<uint32_t> words;
  for (uint32_t i = 0; words.size() * sizeof(uint32_t) < bytes; ++i) {
    const std::vector<uint32_t> instruction = each(i);
    words.push_back(static_cast<uint32_t>(instruction.size()) << 16 | instruction[0]);
    words.insert(words.end(), instruction.begin() + 1, instruction.end());
  }
  PlanSpec spec = bare_plan();
  spec.kernels = {unused_kernel(kernel_with(words))};
  return spec;
}

// Structs of two structs each, all of them push constants: 2^depth members.
PlanSpec nested_structs(size_t bytes) {
  return declarations(bytes, [](uint32_t i) -> std::vector<uint32_t> {
    const uint32_t id = 10 + 2 * (i / 5);
    const std::vector<uint32_t> each[] = {{72, id, 0, 35, 0},
                                          {72, id, 1, 35, 0},
                                          {30, id, id - 2, id - 2},
                                          {32, id + 1, 9, id},
                                          {59, id + 1, 9, 9}};
    return each[i % 5];
  });
}

std::vector<std::byte> text_code(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.c_str());
  return {data, data + text.size() + 1};
}

PlanSpec ptx_of(size_t bytes, const std::string& piece) {
  std::string text = ".version 8.0\n.target sm_80\n.visible .entry main(\n";
  while (text.size() < bytes) text += piece;
  return bare_cuda_plan(fb::CodeFormat::Ptx, text_code(text));
}

// Kernels that are entry points of one text.
PlanSpec entry_points_of_one_text(size_t bytes) {
  const auto count = static_cast<uint32_t>(bytes / 300);
  std::string text = ".version 8.0\n.target sm_80\n";
  for (uint32_t i = 0; i < count; ++i)
    text.append(".entry e").append(std::to_string(i)).append("(\n");
  PlanSpec spec = bare_cuda_plan(fb::CodeFormat::Ptx, text_code(text));
  spec.kernels[0] = {.name = "k", .variants = spec.kernels[0].variants};
  share_code(spec, count);
  for (uint32_t i = 0; i < count; ++i)
    spec.kernels[i].variants[0].entry_point = "e" + std::to_string(i);
  return spec;
}

PlanSpec operands_of_a_product(size_t bytes) {
  PlanSpec spec = gemm_plan();
  SpecEntry& main = spec.entries[0];
  main.steps[0].relocations.resize(bytes / 32, main.steps[0].relocations[0]);
  return spec;
}

// Alternatives that all have the relocations of all.
PlanSpec alternatives_of_one_list(size_t bytes) {
  PlanSpec spec = alternative_plan();
  SpecEntry& main = spec.entries[0];
  const size_t count = bytes / 600;
  main.steps.assign(count, SpecStep(main.steps[0]));
  main.alternatives.assign(count, SpecAlternative(main.alternatives[0]));
  for (uint32_t i = 0; i < count; ++i) {
    SpecAlternative& alternative = main.alternatives[i];
    main.steps[i].wave = alternative.other.wave = alternative.step = i;
    alternative.other.relocation_first = 0;
    alternative.other.relocation_count = static_cast<uint32_t>(6 * count);
  }
  return spec;
}

PlanSpec symbols_alone(size_t bytes) {
  PlanSpec spec = bare_plan();
  spec.symbols.resize(bytes / 44);
  for (size_t i = 0; i < spec.symbols.size(); ++i) spec.symbols[i].name = std::to_string(i);
  return spec;
}

PlanSpec inputs_alone(size_t bytes) {
  PlanSpec spec = bare_plan();
  SpecEntry& main = spec.entries[0];
  const auto count = static_cast<uint32_t>(bytes / 80);
  for (uint32_t i = 0; i < count; ++i) {
    main.inputs.push_back(i);
    main.values.push_back(words_value(std::to_string(i), fb::Segment::Io, 1, 0, 0));
  }
  return spec;
}

// Weights that an init would fill, and values of every entry that name them.
PlanSpec generated_for_all(size_t bytes) {
  PlanSpec spec = bare_plan();
  const auto count = static_cast<uint32_t>(bytes / 200);
  spec.weights_bytes = uint64_t{count} * 256;
  spec.init = SpecEntry{.name = "init"};
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t offset = uint64_t{i} * 256;
    spec.weights.push_back({.name = std::to_string(i),
                            .dims = {64},
                            .kind = fb::WeightKind::Generated,
                            .offset_bytes = offset,
                            .size_bytes = 256});
    spec.entries[0].values.push_back(
        words_value("v", fb::Segment::Weights, 64, uint64_t{count - 1 - i} * 256, 0));
  }
  spec.init->values = {words_value("all", fb::Segment::Arena, 1, 0, 0)};
  spec.init->arena_bytes = 256;
  return spec;
}

PlanSpec names_of_letters(size_t bytes, const std::string& letter) {
  PlanSpec spec = bare_plan();
  std::string name;
  while (name.size() + letter.size() <= 4096) name += letter;
  spec.entries[0].arena_bytes = 256;
  for (size_t i = 0; i < bytes / 4200; ++i) {
    spec.entries[0].values.push_back(words_value(name, fb::Segment::Arena, 1, 0, 0));
    spec.entries[0].values.back().dims = {0};
    spec.entries[0].values.back().size_bytes = 0;
  }
  return spec;
}

PlanSpec notes_alone(size_t bytes) {
  PlanSpec spec = bare_plan();
  SpecEntry& main = spec.entries[0];
  const auto steps = static_cast<uint32_t>(bytes / 200);
  main.outputs = {0};
  main.values = {words_value("y", fb::Segment::Io, steps, 0, steps - 1)};
  for (uint32_t s = 0; s < steps; ++s) {
    main.steps.push_back({.kind = fb::StepKind::Fill,
                          .relocations = {part(0, uint64_t{s} * 4, 4, fb::AccessMode::Write)}});
  }
  spec.debug_notes = true;
  return spec;
}

PlanSpec interface_of_many_records(size_t bytes) {
  PlanSpec spec = bare_plan();
  const SpecEntry entry = spec.entries[0];
  spec.entries.assign(2000, entry);
  const size_t values = bytes / 2000 / 80;
  for (size_t e = 0; e < spec.entries.size(); ++e) {
    SpecEntry& record = spec.entries[e];
    record.name = std::to_string(e);
    for (size_t v = 0; v < values; ++v) {
      record.values.push_back(words_value("v", fb::Segment::Weights, 0, 0, 0));
    }
  }
  return spec;
}

// Offsets of a list that all lead to its first table.
Bytes one_table_for_all(size_t bytes) {
  PlanSpec spec = bare_plan();
  spec.symbols.resize(bytes / 44);
  for (size_t i = 0; i < spec.symbols.size(); ++i) spec.symbols[i].name = std::to_string(i);
  Bytes plan = serialise(spec);
  const PlanHeader header = header_of(plan);
  std::byte* index = plan.data() + header.sections[0].offset_bytes;
  const auto* symbols = fb::GetPlan(index)->symbols();
  std::byte* offsets = index + (symbols->Data() - reinterpret_cast<const uint8_t*>(index));
  uint32_t distance = 0;
  std::memcpy(&distance, offsets, sizeof distance);
  for (uint32_t i = 1; i < symbols->size() && distance > 4; ++i) {
    distance -= sizeof distance;
    std::memcpy(offsets + uint64_t{i} * sizeof distance, &distance, sizeof distance);
  }
  reseal(plan);
  return plan;
}

}  // namespace

Bytes long_plan(size_t bytes) {
  return serialise(chain_plan(static_cast<uint32_t>(bytes / 430)));
}

Bytes skips_plan(size_t bytes) {
  const auto steps = static_cast<uint32_t>(bytes / 430);
  PlanSpec spec = chain_plan(steps);
  SpecEntry& main = spec.entries[0];
  constexpr uint32_t kFirst = 3;  // the output of step 0; those of the others follow
  for (uint32_t s = 0; s + 1 < steps; ++s) {
    main.values[kFirst + s].offset_bytes = uint64_t{s} * 256;
    main.values[kFirst + s].last_step = steps - 1;
  }
  main.arena_bytes = main.arena_lower_bound = uint64_t{steps - 1} * 256;
  for (uint32_t s = steps / 2 + 1; s < steps; ++s)
    main.steps[s].relocations[1].value = kFirst + steps - 1 - s;
  return serialise(spec);
}

void for_each_crafted_plan(size_t bytes, const std::function<void(const CraftedPlan&)>& use) {
  using Rule = VerifyRule;
  using Words = std::vector<uint32_t>;
  const auto give = [&](std::string what, const PlanSpec& spec, std::optional<Rule> rule = {}) {
    use({.what = std::move(what), .plan = serialise(spec), .rule = rule});
  };
  give("edges from every step to every later one", edges_of_all(bytes));
  give("pieces and wholes", pieces_and_wholes(bytes), Rule::WorkBudget);
  give("values side by side", values_side_by_side(bytes));
  give("values on each other", values_on_each_other(bytes));
  give("readers of pieces", readers_of_pieces(bytes));
  give("writers of pieces", writers_of_pieces(bytes), Rule::WorkBudget);
  give("capabilities for all", capabilities_for_all(bytes), Rule::WorkBudget);
  give("execution modes", declarations(bytes, [](uint32_t) { return Words{16, 3, 17, 64, 1, 1}; }));
  give("entry points", declarations(bytes, [](uint32_t i) { return Words{15, 5, i, 'e', 0}; }));
  give("member offsets", declarations(bytes, [](uint32_t i) { return Words{72, 9, i, 35, 0}; }));
  give("constants", declarations(bytes, [](uint32_t i) { return Words{43, 1, 9 + i, i}; }));
  give("integers", declarations(bytes, [](uint32_t i) { return Words{21, 9 + i, 32, 0}; }));
  give("empty structs", declarations(bytes, [](uint32_t i) { return Words{30, 9 + i}; }));
  give("nested structs", nested_structs(bytes), Rule::SpirvParams);
  give("PTX of dots", ptx_of(bytes, "."), Rule::CodeContract);
  give("PTX of entries", ptx_of(bytes, ".entry "), Rule::CodeContract);
  give("PTX of targets", ptx_of(bytes, ".target sm_"), Rule::CodeContract);
  give("entry points of one text", entry_points_of_one_text(bytes), Rule::CodeShared);
  give("operands of a product", operands_of_a_product(bytes), Rule::GemmOperands);
  give("alternatives of one list", alternatives_of_one_list(bytes), Rule::IndexShared);
  give("symbols", symbols_alone(bytes));
  give("inputs", inputs_alone(bytes));
  give("generated weights", generated_for_all(bytes), Rule::GeneratedCovered);
  give("names of letters", names_of_letters(bytes, "x"));
  give("names of signs", names_of_letters(bytes, "\xE6\xBC\xA2"));
  give("notes", notes_alone(bytes));
  give("records of many entries", interface_of_many_records(bytes));
  use({.what = "one table for all", .plan = one_table_for_all(bytes), .rule = Rule::IndexShared});
}

}  // namespace rlx::test
