// SPDX-License-Identifier: Apache-2.0
// Kernel table, buffers and views of a program, and its text form.
#include "compiler/dispatch/program.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "compiler/dispatch/builder.h"
#include "compiler/support/check.h"
#include "compiler/support/checked.h"
#include "schema/plan_header.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

enum class Determinism : uint8_t { BitExact, OrderDependent };

// The sets of targets as kernels.def names them.
struct KernelTargets {
  using enum TargetSet;
  static constexpr std::array kRows = {
#define RLX_KERNEL(name, params, determinism, targets, needs)                        \
  KernelRow{#name,          #params,                                                 \
            sizeof(params), Determinism::determinism == Determinism::OrderDependent, \
            targets,        TargetFeature::needs},
#include "schema/kernels.def"
#undef RLX_KERNEL
  };
};

constexpr ParamsWord kParamsWords[] = {
#define RLX_PARAMS_COUNT(params, field, words, pointer, unit) \
  ParamsWord{#params, offsetof(params, field), words,         \
             ParamsWord::Bound{offsetof(params, pointer), ParamsWord::Unit::unit}},
#define RLX_PARAMS_VALUE(params, field) ParamsWord{#params, offsetof(params, field), 1, {}},
#include "schema/params_words.def"
#undef RLX_PARAMS_COUNT
#undef RLX_PARAMS_VALUE
};

// Of the parts in which instances of one kernel differ most.
size_t hash_of(const Specialization& specialization) {
  size_t hash = static_cast<size_t>(specialization.kernel);
  const auto add = [&hash](const std::string& text) {
    hash = hash * 31 + std::hash<std::string>()(text);
  };
  for (const auto& [name, text] : specialization.defines) add(text);
  for (const auto& [name, text] : specialization.generated) add(text);
  return hash;
}

constexpr int64_t kMaxGridAxis = 65535;  // guaranteed maxComputeWorkGroupCount of Vulkan

}  // namespace

const KernelRow& kernel_row(KernelId id) {
  return KernelTargets::kRows.at(static_cast<size_t>(id));
}

std::span<const ParamsWord> all_params_words() {
  return kParamsWords;
}

uint32_t TensorRef::alignment_bytes(Segment segment) const {
  uint64_t base = kArenaAlignmentBytes;
  if (segment == Segment::Io) base = kIoAlignmentBytes;
  if (segment == Segment::IndexErrors) base = kIndexErrorBytes;
  const auto factor = static_cast<uint64_t>(offset_bytes.known_factor());
  return static_cast<uint32_t>(std::gcd(base, factor == 0 ? base : factor));
}

TensorRef::ByteRange TensorRef::byte_range() const {
  if (element_count(type.shape) == 0) return {offset_bytes, 0};
  if (block_elements(type.dtype) != 1) {
    RLX_CHECK(dense(), "strided view of a block type " + to_string(type));
    return {offset_bytes, byte_size(type)};
  }
  Dim lowest = 0;
  Dim highest = 0;
  for (size_t i = 0; i < type.shape.size(); ++i) {
    const Dim reach = (type.shape[i] - 1) * strides[i];
    (strides[i] < 0 ? lowest : highest) += reach;
  }
  const int64_t size = element_bytes(type.dtype);
  const Dim first = offset_bytes + lowest * size;
  RLX_CHECK(first >= 0, "view before its buffer");
  return {first, (highest - lowest + 1) * size};
}

BufferId Program::add_buffer(Buffer buffer) {
  buffers.push_back(std::move(buffer));
  return BufferId{narrow<uint32_t>(buffers.size() - 1)};
}

TensorRef Program::add_index_errors(const std::string& node) {
  const TensorType word{.dtype = DType::u32, .shape = {1}};
  const BufferId buffer = add_buffer({.name = node + ".index_errors",
                                      .type = word,
                                      .size_bytes = kIndexErrorBytes,
                                      .segment = Segment::IndexErrors});
  return {.buffer = buffer, .type = word, .strides = {1}};
}

KernelInstanceId Program::intern(const Specialization& specialization) {
  std::vector<KernelInstanceId>& known = kernels_by_hash[hash_of(specialization)];
  for (const KernelInstanceId id : known) {
    if (kernels[index_of(id)] == specialization) return id;
  }
  known.push_back(KernelInstanceId{narrow<uint32_t>(kernels.size())});
  kernels.push_back(specialization);
  return known.back();
}

Access make_access(uint32_t position, const TensorRef& ref, AccessMode mode,
                   uint32_t alignment_bytes) {
  const TensorRef::ByteRange range = ref.byte_range();
  const bool plain = block_elements(ref.dtype()) == 1;
  return {.position = position,
          .buffer = ref.buffer,
          .offset_bytes = ref.offset_bytes,
          .range_offset_bytes = range.offset_bytes,
          .range_bytes = range.length_bytes,
          .alignment_bytes =
              alignment_bytes != 0 ? alignment_bytes : (plain ? element_bytes(ref.dtype()) : 2),
          .element_bytes = plain ? element_bytes(ref.dtype()) : 1,
          .mode = mode};
}

Dim checked_grid(const Dim& groups) {
  RLX_CHECK(groups >= 1 && groups <= kMaxGridAxis,
            "grid axis of " + to_string(groups) + " workgroups (use split_grid)");
  return groups;
}

Grid split_grid(const Dim& groups) {
  // Kernels number their groups in 32 bits, and the grid may overshoot the count.
  RLX_CHECK(groups >= 1 && groups < (uint64_t{1} << 31),
            "grid of " + to_string(groups) + " workgroups");
  const Dim x = min(groups, kMaxGridAxis);
  if (groups <= kMaxGridAxis) return {.x = x};
  const Dim y = min(ceil_div(groups, kMaxGridAxis), kMaxGridAxis);
  return {.x = x, .y = y, .z = ceil_div(groups, x * y)};
}

}  // namespace rlx
