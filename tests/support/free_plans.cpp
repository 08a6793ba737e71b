// SPDX-License-Identifier: Apache-2.0
// Plans with free symbols.
#include "tests/support/free_plans.h"

#include <algorithm>
#include <tuple>

namespace rlx::test {

void add_patch(SpecEntry& entry, fb::Patch patch) {
  const auto behind =
      std::find_if(entry.patches.begin(), entry.patches.end(), [&](const fb::Patch& other) {
        return std::tuple(other.field(), other.index(), other.part()) >
               std::tuple(patch.field(), patch.index(), patch.part());
      });
  entry.patches.insert(behind, patch);
}

PlanSpec free_copies_plan() {
  using fb::PatchField;
  using fb::SizeOp;
  PlanSpec spec = chain_plan(1);
  spec.symbols = {{.name = "batch", .minimum = 1, .maximum = 4},
                  {.name = "seq", .minimum = 0, .maximum = 16}};
  SpecEntry main{.name = "main", .inputs = {0, 1, 2}, .outputs = {3, 4, 5}};
  main.sizes = {{0, 0, 0, SizeOp::Symbol},   {0, 1, 0, SizeOp::Symbol},
                {0, 0, 1, SizeOp::Multiply}, {4, 0, 0, SizeOp::Constant},
                {0, 2, 3, SizeOp::Multiply}, {0, 1, 1, SizeOp::Add},
                {0, 5, 3, SizeOp::Multiply}};
  for (const char* name : {"x", "m", "k", "y", "n", "l"}) {
    const auto v = static_cast<uint32_t>(main.values.size());
    const bool is_flat = v % 3 == 2;
    main.values.push_back(
        {.name = name,
         .dims = is_flat ? std::vector<uint64_t>{32} : std::vector<uint64_t>{4, 16},
         .segment = fb::Segment::Io,
         .size_bytes = is_flat ? 128u : 256u,
         .last_step = 2});
    add_patch(main, {v, 0, is_flat ? 5u : 0u, PatchField::ValueDim});
    if (!is_flat) add_patch(main, {v, 1, 1, PatchField::ValueDim});
    add_patch(main, {v, 0, is_flat ? 6u : 4u, PatchField::ValueBytes});
    add_patch(main, {v % 3 * 2 + v / 3, 0, is_flat ? 6u : 4u, PatchField::RelocationLength});
  }
  for (uint32_t s = 0; s < 3; ++s) {
    const uint64_t bytes = main.values[s].size_bytes;
    main.steps.push_back({.kind = fb::StepKind::Copy,
                          .relocations = {{.value = s, .length_bytes = bytes},
                                          {.value = s + 3,
                                           .position = 8,
                                           .length_bytes = bytes,
                                           .mode = fb::AccessMode::Write}}});
  }
  spec.entries = {main};
  return spec;
}

namespace {

// The copies with another maximum of seq, their values in the opposite order.
SpecEntry turned_copies(const SpecEntry& copies, uint64_t seq) {
  SpecEntry entry = copies;
  const auto turned = [&](uint32_t value) {
    return static_cast<uint32_t>(copies.values.size()) - 1 - value;
  };
  std::reverse(entry.values.begin(), entry.values.end());
  for (SpecValue& value : entry.values) {
    value.dims =
        value.dims.size() == 1 ? std::vector<uint64_t>{2 * seq} : std::vector<uint64_t>{4, seq};
    value.size_bytes = (value.dims.size() == 1 ? 2 : 4) * seq * sizeof(float);
  }
  for (std::vector<uint32_t>* list : {&entry.inputs, &entry.outputs}) {
    for (uint32_t& value : *list) value = turned(value);
  }
  for (SpecStep& step : entry.steps) {
    for (SpecRelocation& relocation : step.relocations) {
      relocation.value = turned(relocation.value);
      relocation.length_bytes = entry.values[relocation.value].size_bytes;
    }
  }
  entry.patches.clear();
  for (const fb::Patch& patch : copies.patches) {
    const bool is_of_value =
        patch.field() == fb::PatchField::ValueDim || patch.field() == fb::PatchField::ValueBytes;
    add_patch(entry, {is_of_value ? turned(patch.index()) : patch.index(), patch.part(),
                      patch.size(), patch.field()});
  }
  return entry;
}

}  // namespace

PlanSpec ranged_copies_plan() {
  PlanSpec spec = free_copies_plan();
  SpecEntry small = turned_copies(spec.entries[0], 7);
  spec.entries[0].ranges = {{8, 16, 1, 1}};
  small.ranges = {{0, 7, 1, 1}};
  spec.entries.push_back(small);
  return spec;
}

PlanSpec free_gemm_plan() {
  using fb::PatchField;
  using fb::SizeOp;
  PlanSpec spec = gemm_plan();
  spec.stores_defaults = true;
  spec.symbols = {{.name = "rows", .minimum = 0, .maximum = 16}};
  SpecEntry& main = spec.entries[0];
  // Rows of a, of the residual and of y.
  main.sizes = {{0, 0, 0, SizeOp::Symbol}, {16, 0, 0, SizeOp::Constant}};
  for (const uint32_t value : {0, 3, 4}) add_patch(main, {value, 0, 0, PatchField::ValueDim});
  main.sizes.emplace_back(0, 0, 1, SizeOp::Multiply);  // bytes of a
  main.sizes.emplace_back(64, 0, 0, SizeOp::Constant);
  main.sizes.emplace_back(0, 0, 3, SizeOp::Multiply);  // bytes of the others
  for (const uint32_t value : {0, 3, 4}) {
    const uint32_t bytes = value == 0 ? 2 : 4;
    add_patch(main, {value, 0, bytes, PatchField::ValueBytes});
    add_patch(main, {value, 0, bytes, PatchField::RelocationLength});
  }
  add_patch(main, {0, 0, 0, PatchField::Gemm});
  return spec;
}

}  // namespace rlx::test
