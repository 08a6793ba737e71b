// SPDX-License-Identifier: Apache-2.0
// What the runtime knows about each kind of target, in one row: its names, what its code is, and
// what of a plan's header is its own. What depends on the kind and stands in no row is a switch
// over it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/plan_generated.h"
#include "schema/plan_header.h"

namespace rlx {

// The largest launch that every device bears on which the plan may run.
struct TargetLimits {
  std::array<uint32_t, 3> grid;
  std::array<uint32_t, 3> block;
  uint32_t threads;
  uint32_t shared_bytes;
  uint32_t params_bytes;
};

// One piece of code per kernel that a plan holds for a target.
struct TargetCode {
  fb::CodeFormat format;
  uint32_t architecture;  // 0 where the format has none
};

struct TargetRow {
  fb::TargetKind kind{};
  std::string_view flag;  // "cuda": of rlxc --target, and what ids of devices begin with
  std::string_view name;  // "CUDA": in messages
  std::span<const fb::CodeFormat> formats;
  bool has_architectures = false;   // code is for one architecture, or for those from one on
  bool has_library = false;         // LibraryGemm steps
  bool has_dynamic_shared = false;  // a launch may ask for shared memory
  bool has_tensor_maps = false;     // fb::Kernel::maps
  // The first architecture with clusters, and with grids that begin before those that they follow
  // have ended.
  std::optional<uint32_t> first_with_clusters = std::nullopt;

  bool (*is_in)(const PlanHeader& header) = nullptr;
  // Of a header that names the target: what is wrong with its part, as "the Vulkan target has a
  // limit of 0"; empty where nothing is.
  std::string (*fault)(const PlanHeader& header) = nullptr;
  TargetLimits (*limits)(const PlanHeader& header) = nullptr;
  // What the header says that every kernel has code for.
  std::vector<TargetCode> (*code)(const PlanHeader& header) = nullptr;

  [[nodiscard]] uint32_t mask() const { return 1u << static_cast<uint32_t>(kind); }
  [[nodiscard]] bool has_clusters(uint32_t architecture) const {
    return first_with_clusters.has_value() && architecture >= *first_with_clusters;
  }
};

// By kind.
std::span<const TargetRow> target_rows();
const TargetRow& target_row(fb::TargetKind kind);

// Whose code has the format.
fb::TargetKind target_of(fb::CodeFormat format);

// The targets of a plan: mask of 1 << TargetKind.
uint32_t targets_of(const PlanHeader& header);

// "SPIR-V", "cubin", "PTX"
std::string_view format_text(fb::CodeFormat format);
// "Vulkan", "CUDA sm_90", "PTX for compute_80"
std::string code_text(fb::TargetKind target, fb::CodeFormat format, uint32_t architecture);

}  // namespace rlx
