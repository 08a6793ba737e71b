// SPDX-License-Identifier: Apache-2.0
// Plans for tests: a plain description that a test edits, and the bytes that it stands for. No
// compiler needed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schema/plan_generated.h"
#include "schema/plan_header.h"

namespace rlx::test {

struct SpecRelocation {
  uint32_t value = 0;
  uint32_t position = 0;
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  fb::AccessMode mode = fb::AccessMode::Read;
};

struct SpecStep {
  fb::StepKind kind = fb::StepKind::Dispatch;
  uint32_t kernel = 0;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  uint32_t wave = 0;
  uint64_t params_offset = 0;
  uint32_t params_bytes = 0;
  std::vector<SpecRelocation> relocations;
  std::vector<uint32_t> edges;
  uint32_t fill_pattern = 0;
  std::optional<uint32_t> relocation_first;  // instead of where serialise() placed them
  std::optional<uint32_t> relocation_count;  // instead of how many there are
};

struct SpecValue {
  std::string name;
  uint8_t dtype = 0;
  std::vector<uint64_t> dims;
  fb::Segment segment = fb::Segment::Arena;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  uint32_t first_step = 0;
  uint32_t last_step = 0;
  std::optional<uint32_t> alias_of;
};

struct SpecVariant {
  fb::TargetKind target = fb::TargetKind::Vulkan;
  fb::CodeFormat format = fb::CodeFormat::SpirV;
  uint32_t architecture = 0;
  std::vector<std::byte> code;          // placed in the code section by serialise()
  std::optional<uint64_t> code_offset;  // instead of where serialise() placed the code
  std::optional<uint64_t> code_bytes;   // instead of the code's own
  std::optional<uint64_t> code_hash;    // instead of the right one
  std::string entry_point = "main";
  std::array<uint32_t, 3> workgroup = {64, 1, 1};
  uint32_t shared_bytes = 0;
  uint64_t features = 0;
  uint32_t dynamic_shared_bytes = 0;
  uint32_t cluster_x = 1;
  bool waits_for_predecessors = false;
  bool runs_together = false;
  bool names_contract = true;  // serialise() puts the digest of the record into the code
};

struct SpecAccess {
  uint32_t position = 0;
  uint32_t alignment = 16;
  uint64_t min_bytes = 0;
  fb::AccessMode mode = fb::AccessMode::Read;
};

struct SpecKernel {
  std::string name;
  uint32_t params_bytes = 0;
  std::vector<SpecAccess> accesses;
  std::vector<SpecVariant> variants;
  std::vector<fb::TensorMapT> maps = {};
  std::vector<fb::ParamsCount> counts = {};
  std::vector<fb::PointerAddend> addends = {};
  std::vector<uint32_t> plain_words = {};
  std::vector<fb::SizeTerm> sizes = {};
  std::vector<fb::KernelReach> reaches = {};
};

struct SpecWeight {
  std::string name;
  uint8_t dtype = 0;
  std::vector<uint64_t> dims;
  fb::WeightKind kind = fb::WeightKind::Inline;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  uint32_t file = 0;
  uint64_t file_offset = 0;
};

struct SpecWeightFile {
  std::string name;
  uint64_t size_bytes = 0;
  uint64_t checksum = 0;
  uint64_t start_checksum = 0;
};

struct SpecState {
  std::string name;
  uint8_t dtype = 0;
  std::vector<uint64_t> dims;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  fb::StateInit init = fb::StateInit::Zeros;
  std::optional<uint32_t> init_weight;
};

struct SpecSymbol {
  std::string name;
  uint64_t minimum = 1;
  uint64_t maximum = 1;
  uint64_t multiple_of = 1;
  std::optional<uint64_t> bound;
};

struct SpecAlternative {
  uint32_t step = 0;
  SpecStep other;  // wave and edges too
};

struct SpecRegion {
  std::string name = "loop";
  uint32_t first_step = 0;
  uint32_t step_count = 0;
  uint32_t most_trips = 1;
  std::optional<uint32_t> word = std::nullopt;
  uint32_t counter = 0;
};

struct SpecAssertion {
  uint32_t word = 0;  // value
  std::string text;
};

struct SpecEntry {
  std::string name;
  std::optional<uint32_t> targets;  // instead of all that the plan is for
  std::vector<uint32_t> inputs;
  std::vector<uint32_t> outputs;
  std::vector<SpecValue> values;
  std::vector<SpecStep> steps;
  std::optional<uint32_t> wave_count;  // instead of what the steps have
  uint64_t arena_bytes = 0;
  uint64_t arena_lower_bound = 0;
  std::vector<fb::LibraryGemmT> gemms = {};
  std::vector<SpecAlternative> alternatives = {};
  std::vector<fb::SizeTerm> sizes = {};
  std::vector<fb::Patch> patches = {};
  std::vector<fb::SymbolRange> ranges = {};
  std::optional<uint32_t> profile = std::nullopt;
  std::vector<SpecRegion> regions = {};
  std::string tuned_device = {};
  std::string tuned_driver = {};
  std::vector<SpecAssertion> assertions = {};
  std::vector<fb::StepForm> forms = {};
};

struct SpecOffer {
  std::string kernel;
  std::string refusal;
  double microseconds = 0;
  bool is_bound = false;
  uint8_t rank = 0;
  bool taken = false;
};

struct PlanSpec {
  std::string name = "fixture";
  std::vector<SpecSymbol> symbols;
  std::vector<SpecWeight> weights;
  std::vector<SpecWeightFile> weight_files;
  std::vector<SpecState> states;
  std::vector<SpecKernel> kernels;
  std::vector<SpecEntry> entries;
  std::optional<SpecEntry> init;
  std::vector<SpecEntry> more_inits;  // behind it
  std::vector<std::byte> params;
  std::vector<std::byte> weight_bytes;  // the weights section
  std::vector<std::byte> text;          // the text section; none where it is empty
  uint64_t weights_bytes = 0;           // of the segment
  uint64_t state_bytes = 0;
  bool stores_defaults = false;  // the index stores fields that hold their default
  bool debug_notes = true;
  std::string note_reason = "only one";  // of every step
  std::vector<SpecOffer> offers;  // among which every step's kernel was chosen; none: no choice
  uint32_t choice = 0;            // of every step, where there are offers
  PlanVulkanTarget vulkan{};
  PlanCudaTarget cuda{};
  std::vector<PlanProfile> profiles;
  std::function<void(PlanHeader&)> edit_header;  // last word before the checksums
};

// A valid plan of two entries. "main": x f32[64] -> y f32[64], z f32[4], through two kernels, with
// an inline and a generated weight and a state that keeps what the last run gave to y. "echo": x
// f32[64] -> y f32[64], a copy.
PlanSpec small_plan();
// The same, but "echo" gives what the state held and keeps x.
PlanSpec keeping_plan();

// small_plan() with two programs for Vulkan, equal but for their names: "vulkan", and "vulkan-cpu",
// made for processors.
PlanSpec profiled_plan();

// A valid plan of one entry "main" with `steps` chained dispatches over a small arena, x f32[64] ->
// y f32[64].
PlanSpec chain_plan(uint32_t steps);

// chain_plan() in which every step counts indices that lie outside in a word of its own: the last
// values of the entry, "word0", "word1", ..., at byte 24 of the params.
PlanSpec index_plan(uint32_t steps);

// chain_plan() with a loop: a fill of 1 to "word", x to "kept"; at most 9 trips of "kept" to
// "inside" and back, steps 2 and 3, while the word is not 0; "kept" to y. Values 3 to 6 are kept,
// inside, word and counter.
PlanSpec region_plan();

// Gives a plan a second target, CUDA: of each kernel a cubin for sm_90 and PTX for compute_80.
void add_cuda(PlanSpec& spec);

// A valid plan for CUDA of one entry "main": y f16[16,32] = a f16[16,8] * b f16[8,32] + bias
// f16[32]
// + residual f16[16,32], a library product with 512 bytes of workspace.
PlanSpec gemm_plan();

// The code of a kernel's variant as it stands in a plan: with the digest of its record, where it
// has a place for it.
std::vector<std::byte> code_in_plan(const SpecKernel& kernel, size_t variant);

// The bytes of a plan, with right sizes and checksums.
std::vector<std::byte> serialise(const PlanSpec& spec);
// The codes of a kernel's variants as serialise() places them: with the digests of their records.
std::vector<std::vector<std::byte>> codes_in_plan(const SpecKernel& kernel);

// Makes all checksums right again after an edit of the bytes.
void reseal(std::vector<std::byte>& plan);

PlanHeader header_of(std::span<const std::byte> plan);
void set_header(std::vector<std::byte>& plan, const PlanHeader& header);

struct SpirvOptions {
  std::string entry_point = "main";
  std::array<uint32_t, 3> local_size = {64, 1, 1};
  uint32_t push_constant_words64 = 3;            // a block of so many 64-bit integers
  std::vector<uint32_t> capabilities = {1, 11};  // Shader, Int64
  uint32_t version = 0x00010300;
};

// A complete SPIR-V module whose kernel does nothing.
std::vector<std::byte> empty_kernel(const SpirvOptions& options = {});

}  // namespace rlx::test
