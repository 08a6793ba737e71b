// SPDX-License-Identifier: Apache-2.0
// Verifier, rule group 9: code agrees with the records that describe it.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <map>

#include "runtime/plan/contract.h"
#include "runtime/plan/cuda_code.h"
#include "runtime/plan/spirv_facts.h"
#include "runtime/plan/target_row.h"
#include "runtime/verify/verify_context.h"
#include "schema/spirv_capabilities.h"

namespace rlx {
namespace {

// Newest SPIR-V that a Vulkan version reads (Vulkan specification, appendix A).
constexpr uint32_t spirv_version_of(uint32_t vulkan_api_version) {
  const uint32_t minor = vulkan_api_version >> 12 & 0x3FF;
  if (minor >= 3) return 0x00010600;
  if (minor == 2) return 0x00010500;
  return minor == 1 ? 0x00010300 : 0x00010000;
}

// The largest cluster that every device with clusters runs (CUDA C++ Programming Guide, thread
// block clusters).
constexpr uint32_t kMaxCluster = 16;

// The code may make clusters, and wait itself for the grids before it.
bool has_clusters(const fb::Variant& variant) {
  return target_row(variant.target()).has_clusters(variant.architecture());
}

// What a variant adds to its contract, in whole blocks of SHA-256.
constexpr uint64_t kVariantContractBytes = 128;

std::string extent_text(const std::array<uint32_t, 3>& extent) {
  return text_of(extent[0], " x ", extent[1], " x ", extent[2]);
}

class CodeVerifier {
 public:
  CodeVerifier(const PlanParts& parts, Faults& faults) : parts_(parts), faults_(faults) {}

  void verify(uint32_t k, const fb::Variant& variant) {
    if (k != kernel_ || !contract_.has_value()) {
      contract_.emplace(*parts_.plan.kernels()->Get(k));
      faults_.charge(kWorkPerHashedByte * contract_->size_bytes());
    }
    kernel_ = k;
    const CodeFacts& facts = facts_of(variant);
    if (facts.hash != variant.code_hash()) {
      return fault(VerifyRule::CodeHash, "code has hash ", facts.hash, ", recorded is ",
                   variant.code_hash());
    }
    if (!format_fits(variant)) {
      return fault(VerifyRule::CodeFormat, "target ", target_row(variant.target()).name,
                   " has code of format ", fb::EnumNameCodeFormat(variant.format()),
                   " and architecture ", variant.architecture());
    }
    verify_launch(variant);
    switch (variant.format()) {
      case fb::CodeFormat::SpirV:
        return verify_spirv(variant, facts);
      case fb::CodeFormat::Ptx:
      case fb::CodeFormat::Cubin:
        return verify_cuda(variant, facts);
    }
  }

 private:
  // What a range of the code section says, read once, however many kernels use it: they agree in
  // format, architecture and entry point (rule CodeShared).
  struct CodeFacts {
    uint64_t hash = 0;
    SpirvReading spirv;
    uint64_t features = 0;                       // that its capabilities want
    std::optional<uint32_t> unknown_capability;  // one that plans may not use
    std::string cuda_error;                      // of PTX or cubin
    std::optional<CubinFacts> cubin;
    std::optional<Sha256Digest> ptx_contract;
  };

  template <class... Pieces>
  void fault(VerifyRule rule, const Pieces&... pieces) {
    if (faults_.full()) return;
    faults_.add(rule, kernel_name(parts_.plan, kernel_), ": ", pieces...);
  }

  static bool format_fits(const fb::Variant& variant) {
    const TargetRow& target = target_row(variant.target());
    return std::ranges::find(target.formats, variant.format()) != target.formats.end() &&
           (variant.architecture() != 0) == target.has_architectures;
  }

  const CodeFacts& facts_of(const fb::Variant& variant) {
    faults_.charge(work_of_search(codes_.size()));
    auto [it, inserted] = codes_.try_emplace(variant.code_offset());
    if (!inserted) return it->second;
    faults_.charge(kWorkPerCodeByte / 2 * variant.code_bytes());
    it->second = read_code(variant);
    return it->second;
  }

  CodeFacts read_code(const fb::Variant& variant) const {
    const std::span<const std::byte> code = parts_.code_of(variant);
    CodeFacts facts{.hash = XXH3_64bits(code.data(), code.size())};
    if (facts.hash != variant.code_hash() || !format_fits(variant)) return facts;
    const std::string_view entry_point = PlanView::text(variant.entry_point());
    switch (variant.format()) {
      case fb::CodeFormat::SpirV:
        read_spirv_facts(variant, code, facts);
        break;
      case fb::CodeFormat::Ptx:
        facts.cuda_error = check_ptx(code, entry_point, variant.architecture());
        facts.ptx_contract = read_ptx_contract(code);
        break;
      case fb::CodeFormat::Cubin:
        facts.cuda_error = check_cubin(code, variant.architecture());
        if (facts.cuda_error.empty())
          facts.cubin = read_cubin(code, entry_point, variant.architecture());
        break;
    }
    return facts;
  }

  static void read_spirv_facts(const fb::Variant& variant, std::span<const std::byte> code,
                               CodeFacts& facts) {
    if (variant.code_offset() % sizeof(uint32_t) != 0 || code.size() % sizeof(uint32_t) != 0) {
      facts.spirv.error = "it is not made of 32-bit words";
      return;
    }
    facts.spirv =
        read_spirv({reinterpret_cast<const uint32_t*>(code.data()), code.size() / sizeof(uint32_t)},
                   PlanView::text(variant.entry_point()));
    if (!facts.spirv.facts.has_value()) return;
    for (const uint32_t capability : facts.spirv.facts->capabilities) {
      const SpirvCapability* row = find_spirv_capability(capability);
      if (row == nullptr) facts.unknown_capability = capability;
      if (row != nullptr) facts.features |= row->features;
    }
  }

  void verify_spirv(const fb::Variant& variant, const CodeFacts& code) {
    if ((variant.features() & ~parts_.header.vulkan.features) != 0) {
      return fault(VerifyRule::CodeFeatures, "needs features ", variant.features(),
                   ", the header declares ", parts_.header.vulkan.features);
    }
    if (!code.spirv.facts.has_value())
      return fault(VerifyRule::SpirvForm, "SPIR-V is malformed: ", code.spirv.error);
    const SpirvFacts& facts = *code.spirv.facts;
    const uint32_t newest = spirv_version_of(parts_.header.vulkan.api_version);
    if (facts.version > newest || facts.version < 0x00010000) {
      fault(VerifyRule::SpirvForm, "SPIR-V has version ", facts.version >> 16, ".",
            facts.version >> 8 & 0xFF, ", the target reads up to 1.", newest >> 8 & 0xFF);
    }
    verify_entry_point(variant, facts);
    const uint32_t params_bytes = parts_.plan.kernels()->Get(kernel_)->params_bytes();
    if (facts.push_constant_bytes > params_bytes) {
      fault(VerifyRule::SpirvParams, "SPIR-V has ", facts.push_constant_bytes,
            " bytes of push constants, the kernel takes ", params_bytes, " bytes of params");
    }
    verify_capabilities(variant, code);
    verify_contract(variant, facts.contract);
  }

  // `held`: the digest in the code; nullopt where it has none.
  void verify_contract(const fb::Variant& variant, const std::optional<Sha256Digest>& held) {
    faults_.charge(kWorkPerHashedByte * kVariantContractBytes);
    const Sha256Digest wanted = contract_->of(variant);
    if (held == wanted) return;
    const std::string_view format = format_text(variant.format());
    if (!held.has_value()) {
      return fault(VerifyRule::CodeContract, format,
                   " does not say for which record it was compiled (none does before plan format "
                   "1.2); compile the plan again");
    }
    fault(VerifyRule::CodeContract, format,
          " was compiled for another record: it holds the digest ", hex_text(*held),
          ", the plan's record has ", hex_text(wanted),
          "; the plan was altered or put together from others, compile it again");
  }

  void verify_entry_point(const fb::Variant& variant, const SpirvFacts& facts) {
    if (!facts.has_entry_point) {
      return fault(VerifyRule::SpirvEntry, "SPIR-V has no compute entry point named ",
                   quoted(PlanView::text(variant.entry_point())));
    }
    const std::array<uint32_t, 3> wanted = {variant.workgroup_x(), variant.workgroup_y(),
                                            variant.workgroup_z()};
    const std::optional<std::array<uint32_t, 3>>& got = facts.workgroup_size;
    if (got == wanted) return;
    fault(VerifyRule::SpirvWorkgroup, "SPIR-V has ",
          got.has_value() ? text_of("a workgroup of ", extent_text(*got)) : "no workgroup size",
          ", recorded is ", extent_text(wanted));
  }

  void verify_capabilities(const fb::Variant& variant, const CodeFacts& code) {
    if (code.unknown_capability.has_value()) {
      return fault(VerifyRule::SpirvCapability, "SPIR-V needs capability ",
                   *code.unknown_capability, ", which plans may not use");
    }
    if ((code.features & ~variant.features()) == 0) return;
    for (const uint32_t capability : code.spirv.facts->capabilities) {
      const SpirvCapability* row = find_spirv_capability(capability);
      if ((row->features & ~variant.features()) == 0) continue;
      fault(VerifyRule::SpirvCapability, "SPIR-V needs capability ", row->name,
            ", which is not among the recorded features ", variant.features());
    }
  }

  // What launches of some targets ask for beyond grid and workgroup.
  void verify_launch(const fb::Variant& variant) {
    const TargetRow& target = target_row(variant.target());
    const bool is_late = has_clusters(variant);
    const bool late_fields = variant.cluster_x() != 1 || variant.waits_for_predecessors();
    const bool cluster_fits = variant.cluster_x() >= 1 && variant.cluster_x() <= kMaxCluster;
    const bool shared_fits = variant.dynamic_shared_bytes() <= variant.shared_bytes() &&
                             (target.has_dynamic_shared || variant.dynamic_shared_bytes() == 0);
    const bool together_fits = variant.target() == fb::TargetKind::Cuda || !variant.runs_together();
    if ((is_late || !late_fields) && cluster_fits && shared_fits && together_fits) return;
    fault(VerifyRule::LaunchFields, target.name, " code for architecture ", variant.architecture(),
          " has clusters of ", variant.cluster_x(), " workgroups, ",
          variant.waits_for_predecessors() ? "waits" : "does not wait",
          " for its predecessors, runs ", variant.runs_together() ? "together" : "in any order",
          ", and has ", variant.dynamic_shared_bytes(), " bytes of dynamic shared memory of ",
          variant.shared_bytes(), " in all");
  }

  void verify_cuda(const fb::Variant& variant, const CodeFacts& code) {
    const bool is_ptx = variant.format() == fb::CodeFormat::Ptx;
    if (!code.cuda_error.empty()) {
      return fault(is_ptx ? VerifyRule::PtxForm : VerifyRule::CubinForm, is_ptx ? "PTX " : "cubin ",
                   code.cuda_error);
    }
    if (is_ptx) return verify_contract(variant, code.ptx_contract);
    if (!code.cubin.has_value()) {
      return fault(VerifyRule::CubinEntry, "cubin does not describe a function named ",
                   quoted(PlanView::text(variant.entry_point())));
    }
    verify_cubin(variant, *code.cubin);
  }

  void verify_cubin(const fb::Variant& variant, const CubinFacts& facts) {
    const fb::Kernel& kernel = *parts_.plan.kernels()->Get(kernel_);
    const uint32_t params_bytes = kernel.params_bytes();
    const uint32_t maps = kernel.maps() == nullptr ? 0 : kernel.maps()->size();
    if (!takes_arguments(facts, params_bytes, maps)) {
      fault(VerifyRule::CubinParams, "cubin takes ", facts.params_bytes,
            " bytes of params, the kernel has ", params_bytes, " and ", maps, " tensor maps");
    }
    const uint64_t threads =
        uint64_t{variant.workgroup_x()} * variant.workgroup_y() * variant.workgroup_z();
    if (threads > facts.max_threads) {
      fault(VerifyRule::CubinWorkgroup, "cubin allows ", facts.max_threads,
            " threads, the recorded workgroup has ", threads);
    }
    const uint64_t shared_bytes = uint64_t{facts.static_shared_bytes} + facts.dynamic_shared_bytes;
    if (shared_bytes != variant.shared_bytes() ||
        facts.dynamic_shared_bytes != variant.dynamic_shared_bytes()) {
      fault(VerifyRule::CubinShared, "cubin uses ", facts.static_shared_bytes,
            " bytes of static and ", facts.dynamic_shared_bytes,
            " of dynamic shared memory, recorded are ", variant.shared_bytes(), " in all, ",
            variant.dynamic_shared_bytes(), " of them dynamic");
    }
    const uint32_t cluster = has_clusters(variant) ? facts.cluster_x : 1;
    if (cluster != variant.cluster_x()) {
      fault(VerifyRule::CubinCluster, "cubin has clusters of ", cluster, ", recorded are ",
            variant.cluster_x());
    }
    if (facts.runs_together != variant.runs_together()) {
      fault(VerifyRule::CubinTogether, "workgroups of the cubin ",
            facts.runs_together ? "wait" : "do not wait", " for each other, recorded is that they ",
            variant.runs_together() ? "do" : "do not");
    }
    verify_contract(variant, facts.contract);
  }

  const PlanParts& parts_;
  Faults& faults_;
  uint32_t kernel_ = 0;
  std::optional<KernelContract> contract_;  // of that kernel
  std::map<uint64_t, CodeFacts> codes_;     // by offset in the code section
};

}  // namespace

void verify_cluster_grids(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  const bool may_cluster = std::ranges::any_of(target_rows(), [&](const TargetRow& row) {
    return row.first_with_clusters.has_value() && entry.serves(row.kind);
  });
  if (!may_cluster) return;
  for (const StepPlace& place : all_places(entry)) {
    const fb::Step& step = place.step;
    if (step.kind() != fb::StepKind::Dispatch) continue;
    faults.charge(kWorkPerRecord *
                  (1 + uint64_t{parts.plan.kernels()->Get(step.kernel())->variants()->size()}));
    if (faults.full()) return;
    for (const fb::Variant* variant : *parts.plan.kernels()->Get(step.kernel())->variants()) {
      if (variant->cluster_x() <= 1 || step.grid_x() % variant->cluster_x() == 0) continue;
      faults.add(VerifyRule::ClusterGrid, place.name(), " has a grid of ", step.grid_x(),
                 " workgroups along x, the code for sm_", variant->architecture(),
                 " has clusters of ", variant->cluster_x());
      break;
    }
  }
}

void verify_code(const PlanParts& parts, Faults& faults) {
  CodeVerifier verifier(parts, faults);
  for (uint32_t k = 0; k < parts.plan.kernels()->size() && !faults.full(); ++k) {
    for (const fb::Variant* variant : *parts.plan.kernels()->Get(k)->variants()) {
      if (!faults.full()) verifier.verify(k, *variant);
    }
  }
  if (!faults.empty()) return;
  for (const EntryParts& entry : parts.entries) verify_cluster_grids(parts, entry, faults);
}

}  // namespace rlx
