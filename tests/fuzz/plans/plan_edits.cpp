// SPDX-License-Identifier: Apache-2.0
// Edits of what several fields say together, so that mutants get past the rules about single
// fields.
#include <algorithm>
#include <cstring>

#include "tests/fuzz/plans/mutant_builder.h"

namespace rlx::test {
namespace {

constexpr uint32_t kStep = sizeof(fb::Step);
constexpr uint32_t kRange = sizeof(fb::Relocation);

ptrdiff_t place(size_t element, uint32_t bytes) {
  return static_cast<ptrdiff_t>(element * bytes);
}

}  // namespace

const FieldType& MutantBuilder::struct_field(const char* object, const char* field) const {
  const TreeSchema& schema = all_.plan_schema_;
  const uint32_t number = schema.object_named(object);
  return schema.object(number).fields[schema.field_named(number, field)];
}

uint64_t MutantBuilder::get(const Node& records, size_t element, uint32_t bytes,
                            const FieldType& field) {
  uint64_t bits = 0;
  std::memcpy(&bits, records.bytes.data() + element * bytes + field.offset, field.bytes);
  return bits;
}

void MutantBuilder::set(Node& records, size_t element, uint32_t bytes, const FieldType& field,
                        uint64_t bits) {
  std::memcpy(records.bytes.data() + element * bytes + field.offset, &bits, field.bytes);
}

uint64_t MutantBuilder::step_field(const Node& steps, size_t step, const char* name) const {
  return get(steps, step, kStep, struct_field("Step", name));
}

void MutantBuilder::set_step_field(Node& steps, size_t step, const char* name, uint64_t bits) {
  set(steps, step, kStep, struct_field("Step", name), bits);
}

std::vector<Node*> MutantBuilder::entries() {
  std::vector<Node*> all;
  for (const int list : {fb::Plan::VT_ENTRIES, fb::Plan::VT_INITS}) {
    for (Node& entry : kid(index_, list).kids) all.push_back(&entry);
  }
  // Edits may have taken them all: an empty one takes further edits without effect.
  static thread_local Node empty;
  empty = Node{.kind = NodeKind::Table, .bytes = {}, .kids = {}};
  empty.kids.resize(
      all_.plan_schema_.object(all_.plan_schema_.object_named("Entry")).fields.size());
  if (all.empty()) all.push_back(&empty);
  return all;
}

Node& MutantBuilder::some_entry() {
  const std::vector<Node*> all = entries();
  return *all[dice_.below(all.size())];
}

Node* MutantBuilder::some_variant() {
  std::vector<Node>& kernels = kid(index_, fb::Plan::VT_KERNELS).kids;
  if (kernels.empty()) return nullptr;
  std::vector<Node>& variants =
      kid(kernels[dice_.below(kernels.size())], fb::Kernel::VT_VARIANTS).kids;
  return variants.empty() ? nullptr : &variants[dice_.below(variants.size())];
}

void MutantBuilder::swap_kernels() {
  Node& steps = kid(some_entry(), fb::Entry::VT_STEPS);
  const size_t size = count(steps, kStep);
  if (size < 2) return;
  const size_t a = dice_.below(size);
  const size_t b = dice_.below(size);
  const bool with_params = dice_.chance(1, 2);
  for (const char* field : {"kernel", "params_offset", "params_bytes"}) {
    const uint64_t of_a = step_field(steps, a, field);
    set_step_field(steps, a, field, step_field(steps, b, field));
    set_step_field(steps, b, field, of_a);
    if (!with_params) break;
  }
  note("steps ", a, " and ", b, " swap kernels", with_params ? " and params" : "");
}

void MutantBuilder::other_kernel() {
  Node& steps = kid(some_entry(), fb::Entry::VT_STEPS);
  const size_t size = count(steps, kStep);
  const size_t kernels = kid(index_, fb::Plan::VT_KERNELS).kids.size();
  if (size == 0 || kernels == 0) return;
  const size_t step = dice_.below(size);
  const uint64_t kernel = dice_.below(kernels);
  set_step_field(steps, step, "kernel", kernel);
  if (dice_.chance(1, 2)) {
    const Node& record = kid(index_, fb::Plan::VT_KERNELS).kids[kernel];
    set_step_field(steps, step, "params_bytes",
                   record.kids[field_id(fb::Kernel::VT_PARAMS_BYTES)].bits);
  }
  note("step ", step, " runs kernel ", kernel);
}

// A pointer to another value, or to a like place.
void MutantBuilder::retarget() {
  Node& entry = some_entry();
  Node& ranges = kid(entry, fb::Entry::VT_RELOCATIONS);
  const size_t size = count(ranges, kRange);
  const size_t values = kid(entry, fb::Entry::VT_VALUES).kids.size();
  if (size == 0 || values == 0) return;
  const size_t a = dice_.below(size);
  const size_t b = dice_.below(size);
  const FieldType& value = struct_field("Relocation", "value");
  const FieldType& position = struct_field("Relocation", "position");
  switch (dice_.below(3)) {
    case 0:
      set(ranges, a, kRange, value, dice_.below(values));
      break;
    case 1: {
      const uint64_t of_a = get(ranges, a, kRange, value);
      set(ranges, a, kRange, value, get(ranges, b, kRange, value));
      set(ranges, b, kRange, value, of_a);
      break;
    }
    default: {
      const uint64_t of_a = get(ranges, a, kRange, position);
      set(ranges, a, kRange, position, get(ranges, b, kRange, position));
      set(ranges, b, kRange, position, of_a);
    }
  }
  note("relocations ", a, " and ", b, " retargeted");
}

// Moves the begin, the end or the whole of a range.
void MutantBuilder::shift_range() {
  Node& ranges = kid(some_entry(), fb::Entry::VT_RELOCATIONS);
  const size_t size = count(ranges, kRange);
  if (size == 0) return;
  const size_t a = dice_.below(size);
  static constexpr uint64_t kBy[] = {1, 4, 8, 16, 32, 128, 252, 256, 512, 4096};
  const uint64_t by = kBy[dice_.below(std::size(kBy))];
  const FieldType& offset = struct_field("Relocation", "offset_bytes");
  const FieldType& length = struct_field("Relocation", "length_bytes");
  const uint64_t old_offset = get(ranges, a, kRange, offset);
  const uint64_t old_length = get(ranges, a, kRange, length);
  const bool down = dice_.chance(1, 2);
  const uint64_t kind = dice_.below(3);
  if (kind != 1) set(ranges, a, kRange, offset, down ? old_offset - by : old_offset + by);
  if (kind != 2)
    set(ranges, a, kRange, length, (kind == 0) != down ? old_length - by : old_length + by);
  note("relocation ", a, " from ", old_offset, " + ", old_length, ", shifted by ", by);
}

// Two values on the same bytes, with or without saying so.
void MutantBuilder::share_place() {
  std::vector<Node>& values = kid(some_entry(), fb::Entry::VT_VALUES).kids;
  if (values.size() < 2) return;
  const size_t a = dice_.below(values.size());
  const size_t b = dice_.below(values.size());
  Node& to = kid(values[a], fb::Value::VT_OFFSET_BYTES);
  const Node& from = kid(values[b], fb::Value::VT_OFFSET_BYTES);
  if (dice_.chance(2, 3)) to.bits = from.bits;
  if (dice_.chance(1, 3)) to.bits += 256;
  if (dice_.chance(1, 3))
    kid(values[a], fb::Value::VT_SEGMENT) = Node(kid(values[b], fb::Value::VT_SEGMENT));
  if (dice_.chance(1, 2)) {
    Node& alias = kid(values[a], fb::Value::VT_ALIAS_OF);
    alias.kind = NodeKind::Scalar;
    alias.bits = b;
  }
  note("value ", a, " placed on value ", b);
}

void MutantBuilder::merge_waves() {
  Node& steps = kid(some_entry(), fb::Entry::VT_STEPS);
  const size_t size = count(steps, kStep);
  if (size < 2) return;
  const size_t from = 1 + dice_.below(size - 1);
  for (size_t s = from; s < size; ++s) {
    const uint64_t wave = step_field(steps, s, "wave");
    set_step_field(steps, s, "wave", wave == 0 ? 0 : wave - 1);
  }
  note("step ", from, " joins the wave before it");
}

void MutantBuilder::split_wave() {
  Node& steps = kid(some_entry(), fb::Entry::VT_STEPS);
  const size_t size = count(steps, kStep);
  if (size == 0) return;
  const size_t from = dice_.below(size);
  for (size_t s = from; s < size; ++s)
    set_step_field(steps, s, "wave", step_field(steps, s, "wave") + 1);
  note("step ", from, " begins a wave");
}

void MutantBuilder::move_step() {
  Node& steps = kid(some_entry(), fb::Entry::VT_STEPS);
  const size_t size = count(steps, kStep);
  if (size < 2) return;
  const size_t a = dice_.below(size);
  const size_t b = dice_.below(size);
  std::swap_ranges(steps.bytes.begin() + place(a, kStep), steps.bytes.begin() + place(a + 1, kStep),
                   steps.bytes.begin() + place(b, kStep));
  if (dice_.chance(2, 3)) {
    const uint64_t wave = step_field(steps, a, "wave");
    set_step_field(steps, a, "wave", step_field(steps, b, "wave"));
    set_step_field(steps, b, "wave", wave);
  }
  note("steps ", a, " and ", b, " swap places");
}

void MutantBuilder::drop_edges() {
  Node& entry = some_entry();
  Node& steps = kid(entry, fb::Entry::VT_STEPS);
  Node& edges = kid(entry, fb::Entry::VT_EDGES);
  const size_t size = count(steps, kStep);
  if (size == 0) return;
  const size_t step = dice_.below(size);
  const uint64_t known = step_field(steps, step, "edge_count");
  if (dice_.chance(1, 4) && edges.kind == NodeKind::Bytes) {
    // One more, at the end of the list, where only a last step's edges can go on.
    const auto before = static_cast<uint32_t>(dice_.below(step + 1));
    const size_t at = edges.bytes.size();
    edges.bytes.resize(at + sizeof before);
    std::memcpy(edges.bytes.data() + at, &before, sizeof before);
    set_step_field(steps, step, "edge_first", at / sizeof before);
    set_step_field(steps, step, "edge_count", 1);
    return note("step ", step, " waits for step ", before, " alone");
  }
  set_step_field(steps, step, "edge_count", known == 0 ? 1 : dice_.below(known));
  note("step ", step, " has other edges");
}

// A step once more, at the end, in a wave of its own, with relocations of its own.
void MutantBuilder::copy_step() {
  Node& entry = some_entry();
  Node& steps = kid(entry, fb::Entry::VT_STEPS);
  Node& ranges = kid(entry, fb::Entry::VT_RELOCATIONS);
  Node& edges = kid(entry, fb::Entry::VT_EDGES);
  const size_t size = count(steps, kStep);
  if (size == 0 || ranges.kind != NodeKind::Bytes || edges.kind != NodeKind::Bytes) return;
  const size_t from = dice_.below(size);
  const uint64_t first = step_field(steps, from, "relocation_first");
  const uint64_t used = step_field(steps, from, "relocation_count");
  const size_t known = count(ranges, kRange);
  if (used > known || first > known - used) return;
  const std::vector<std::byte> copy(steps.bytes.begin() + place(from, kStep),
                                    steps.bytes.begin() + place(from + 1, kStep));
  const std::vector<std::byte> own(ranges.bytes.begin() + place(first, kRange),
                                   ranges.bytes.begin() + place(first + used, kRange));
  steps.bytes.insert(steps.bytes.end(), copy.begin(), copy.end());
  ranges.bytes.insert(ranges.bytes.end(), own.begin(), own.end());
  set_step_field(steps, size, "relocation_first", known);
  set_step_field(steps, size, "wave", step_field(steps, size - 1, "wave") + 1);
  set_step_field(steps, size, "edge_first", edges.bytes.size() / 4);
  set_step_field(steps, size, "edge_count", size);
  for (uint32_t before = 0; before < size; ++before) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&before);
    edges.bytes.insert(edges.bytes.end(), bytes, bytes + sizeof before);
  }
  note("step ", from, " once more at the end");
}

void MutantBuilder::remove_step() {
  Node& steps = kid(some_entry(), fb::Entry::VT_STEPS);
  const size_t size = count(steps, kStep);
  if (size == 0) return;
  const size_t step = dice_.below(size);
  steps.bytes.erase(steps.bytes.begin() + place(step, kStep),
                    steps.bytes.begin() + place(step + 1, kStep));
  note("step ", step, " removed");
}

// The code of one variant under another's record.
void MutantBuilder::other_code() {
  Node* to = some_variant();
  Node* from = some_variant();
  if (to == nullptr || from == nullptr || to == from) return;
  const bool whole = dice_.chance(1, 2);
  for (const int field :
       {fb::Variant::VT_CODE_OFFSET, fb::Variant::VT_CODE_BYTES, fb::Variant::VT_CODE_HASH,
        fb::Variant::VT_ENTRY_POINT, fb::Variant::VT_WORKGROUP_X, fb::Variant::VT_WORKGROUP_Y,
        fb::Variant::VT_WORKGROUP_Z, fb::Variant::VT_FEATURES, fb::Variant::VT_SHARED_BYTES}) {
    kid(*to, field) = Node(kid(*from, field));
    if (!whole && field == fb::Variant::VT_CODE_HASH) break;
  }
  note("code of another kernel", whole ? ", with what is recorded of it" : "");
}

// What one kernel does with its pointers, said of another.
void MutantBuilder::other_accesses() {
  std::vector<Node>& kernels = kid(index_, fb::Plan::VT_KERNELS).kids;
  if (kernels.size() < 2) return;
  const size_t a = dice_.below(kernels.size());
  const size_t b = dice_.below(kernels.size());
  kid(kernels[a], fb::Kernel::VT_ACCESSES) = Node(kid(kernels[b], fb::Kernel::VT_ACCESSES));
  if (dice_.chance(1, 2))
    kid(kernels[a], fb::Kernel::VT_PARAMS_BYTES) =
        Node(kid(kernels[b], fb::Kernel::VT_PARAMS_BYTES));
  note("kernel ", a, " with the accesses of kernel ", b);
}

// Another dim; repairs make the bytes of the value fit.
void MutantBuilder::resize_value() {
  const bool weight = dice_.chance(1, 4);
  Node& owner = weight
                    ? kid(index_, dice_.chance(1, 2) ? fb::Plan::VT_WEIGHTS : fb::Plan::VT_STATES)
                    : kid(some_entry(), fb::Entry::VT_VALUES);
  if (owner.kids.empty()) return;
  // Values, weights and states have their dims in the same place.
  static_assert(int{fb::Value::VT_DIMS} == int{fb::Weight::VT_DIMS} &&
                int{fb::Value::VT_DIMS} == int{fb::State::VT_DIMS});
  Node& value = owner.kids[dice_.below(owner.kids.size())];
  Node& dims = kid(value, fb::Value::VT_DIMS);
  const FieldType dim{.name = {}, .bytes = sizeof(uint64_t), .names = {}};
  const size_t rank = dims.bytes.size() / sizeof(uint64_t);
  if (rank == 0) return;
  const size_t axis = dice_.below(rank);
  const uint64_t old = get(dims, axis, sizeof(uint64_t), dim);
  const uint64_t made[] = {old - 1, old + 1, old * 2, old / 2, 0, old + 64, old * 4};
  set(dims, axis, sizeof(uint64_t), dim, made[dice_.below(std::size(made))]);
  note("a dim of ", old, " becomes ", get(dims, axis, sizeof(uint64_t), dim));
}

// The params of another step.
void MutantBuilder::other_params() {
  Node& steps = kid(some_entry(), fb::Entry::VT_STEPS);
  const size_t size = count(steps, kStep);
  if (size == 0) return;
  const size_t a = dice_.below(size);
  const size_t b = dice_.below(size);
  uint64_t offset = step_field(steps, b, "params_offset");
  if (dice_.chance(1, 3)) offset += 4 + 4 * dice_.below(8);
  set_step_field(steps, a, "params_offset", offset);
  note("step ", a, " with the params at ", offset);
}

void MutantBuilder::swap_roles() {
  Node& entry = some_entry();
  Node& inputs = kid(entry, fb::Entry::VT_INPUTS);
  Node& outputs = kid(entry, fb::Entry::VT_OUTPUTS);
  if (dice_.chance(1, 3)) {
    std::swap(inputs.bytes, outputs.bytes);
  } else {
    Node& from = dice_.chance(1, 2) ? inputs : outputs;
    Node& to = &from == &inputs ? outputs : inputs;
    if (from.bytes.size() < sizeof(uint32_t)) return;
    to.bytes.insert(to.bytes.end(), from.bytes.end() - 4, from.bytes.end());
    if (dice_.chance(1, 2)) from.bytes.resize(from.bytes.size() - 4);
  }
  note("inputs become outputs");
}

// An entry for other targets, or once more for another.
void MutantBuilder::other_targets() {
  std::vector<Node>& list = kid(index_, fb::Plan::VT_ENTRIES).kids;
  if (list.empty()) return;
  const size_t entry = dice_.below(list.size());
  const uint64_t targets = dice_.below(5);
  if (dice_.chance(1, 2)) {
    list.push_back(Node(list[entry]));
    kid(list.back(), fb::Entry::VT_TARGETS).bits = targets;
  }
  kid(list[entry], fb::Entry::VT_TARGETS).bits = targets == 3 ? 3 : 3 - (targets & 3);
  note("entry ", entry, " for other targets");
}

void MutantBuilder::swap_entry_and_init() {
  Node& list = kid(index_, fb::Plan::VT_ENTRIES);
  Node& inits = kid(index_, fb::Plan::VT_INITS);
  if (list.kids.empty()) return;
  inits.kind = NodeKind::Tables;
  const Node entry = list.kids.back();
  if (!inits.kids.empty() && dice_.chance(1, 2)) {
    list.kids.back() = Node(inits.kids.back());
    inits.kids.back() = entry;
  } else {
    inits.kids.push_back(entry);
  }
  note("an entry becomes an init");
}

}  // namespace rlx::test
