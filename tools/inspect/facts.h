// SPDX-License-Identifier: Apache-2.0
// The facts behind the views of a plan, gathered once; text, JSON and SVG only differ in how they
// write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/plan_view.h"

namespace rlx::inspect {

struct ValueFacts {
  uint32_t index = 0;  // in the entry's list of values
  std::string name;
  std::string type;  // "f32[2,3]"
  std::string_view segment;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  uint32_t first_step = 0;
  uint32_t last_step = 0;
  uint32_t first_wave = 0;
  uint32_t last_wave = 0;
  std::optional<std::string> alias_of;
};

struct AccessFacts {
  std::string value;
  std::string type;
  std::string_view segment;
  std::string_view mode;      // "read", "write", "read-write"
  uint64_t offset_bytes = 0;  // in the value
  uint64_t length_bytes = 0;
  uint64_t segment_offset_bytes = 0;
  uint32_t params_position = 0;
};

// A product for the vendor's library.
struct GemmFacts {
  std::string problem;  // runtime/plan/gemm_text.h
  uint64_t workspace_bytes = 0;
  // "12.3 us on NVIDIA H200, driver 13.0, cuBLASLt 13.1.0" where a tuner chose its algorithm
  std::string tuned;
};

// A row of the table of kernels from which a step's was chosen.
struct OfferFacts {
  std::string kernel;       // or who else computes it: "library"
  std::string refusal;      // why it does not take the problem; empty where it does
  double microseconds = 0;  // expected, where it takes the problem
  bool is_bound = false;    // it takes at least that long
  uint8_t rank = 0;  // of those that take the problem, the fastest of the lowest rank computes it
  bool taken = false;

  // "12.3 us expected, taken"
  [[nodiscard]] std::string text() const;
};

struct StepFacts {
  uint32_t position = 0;
  uint32_t wave = 0;
  std::string_view kind;    // "dispatch", "copy", "fill", "library-gemm"
  std::string_view kernel;  // row of kernels.def; empty unless a dispatch
  std::string specialization;
  uint32_t grid[3] = {0, 0, 0};
  uint32_t workgroup[3] = {0, 0, 0};
  uint32_t params_bytes = 0;
  std::vector<AccessFacts> accesses;
  std::vector<uint32_t> edges;
  uint64_t bytes_moved = 0;
  uint64_t flops = 0;
  StepNames names;
  std::vector<OfferFacts> offers;
  std::optional<GemmFacts> gemm;  // library-gemm
  // What a tuner may put in its place: "matmul_wgmma", with both times where they were measured
  std::string alternative;
  // What it becomes where a size is small: "where seq is at most 64: matmul, RLX_TILE_M=16", "where
  // seq is at most 8: skipped"
  std::vector<std::string> forms;
};

// Steps that run as often as the device decides.
struct RegionFacts {
  std::string name;
  uint32_t first_step = 0;
  uint32_t step_count = 0;
  uint32_t most_trips = 1;
  std::string word;  // the value that decides of each trip; empty: all run

  // "loop \"x\": steps 3 to 5, at most 1,000 trips, while \"x.word\""
  [[nodiscard]] std::string text() const;
};

struct EntryFacts {
  std::string name;     // "init" entries are named by the plan too
  std::string targets;  // that run it so: "vulkan", "vulkan, cuda"
  std::string ranges;   // of symbols of which it is for some values only: "seq 1 to 16"
  bool is_init = false;
  uint32_t wave_count = 0;
  uint64_t arena_bytes = 0;
  uint64_t lower_bound_bytes = 0;
  uint64_t unplanned_bytes = 0;  // all arena values, each aligned, without reuse
  std::vector<ValueFacts> values;
  std::vector<StepFacts> steps;
  std::vector<RegionFacts> regions;
  std::vector<uint32_t> inputs;  // values
  std::vector<uint32_t> outputs;

  [[nodiscard]] uint64_t gap_bytes() const {
    return arena_bytes > lower_bound_bytes ? arena_bytes - lower_bound_bytes : 0;
  }
  // Arena bytes over the lower bound; 1 for an empty arena.
  [[nodiscard]] double ratio() const;
};

// A run of bytes of the file, or of a section.
struct Region {
  std::string name;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
};

struct WeightFacts {
  std::string name;
  std::string type;
  uint64_t offset_bytes = 0;  // in the weights segment
  uint64_t size_bytes = 0;
  bool generated = false;  // filled on the device: no bytes in the file
  std::string file;        // beside the plan, with the bytes; empty: the plan has them
};

// A piece of code in the code section; kernels with equal code share it.
struct CodeFacts {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  std::string format;                // "spir-v", "cubin sm_90", "ptx compute_80"
  std::vector<std::string> kernels;  // "matmul (RLX_TILE=16 ...)"
};

struct SizeFacts {
  uint64_t file_bytes = 0;
  std::vector<Region> regions;  // header, sections and padding: every byte of the file, in order
  std::vector<WeightFacts> weights;
  uint64_t weights_padding_bytes = 0;  // of the weights section, between tensors
  std::vector<CodeFacts> code;
  uint64_t code_padding_bytes = 0;
  uint32_t params_blobs = 0;  // different ones
  uint64_t params_blob_bytes = 0;
  uint64_t params_padding_bytes = 0;
};

// Code of a kernel for one target, or for one architecture of it.
struct VariantFacts {
  std::string format;  // as in CodeFacts
  uint64_t size_bytes = 0;
  uint32_t workgroup[3] = {0, 0, 0};
  uint32_t subgroup_size = 0;  // that the code needs; 0: any
  uint32_t shared_bytes = 0;
  uint32_t dynamic_shared_bytes = 0;
  uint32_t cluster_x = 1;
  bool waits_for_predecessors = false;
  bool runs_together = false;
  // Of each thread, as the cubin says: registers, and bytes of local memory.
  std::optional<uint32_t> registers;
  std::optional<uint32_t> local_bytes;
  std::vector<std::string_view> features;
  std::string digest;  // SHA-256 of code and record, by which the code is known again
                       // (runtime/plan/contract.h)
};

struct KernelFacts {
  std::string name;
  std::string specialization;
  uint32_t steps = 0;  // of all entries
  std::vector<VariantFacts> variants;
};

std::vector<KernelFacts> kernel_facts(const PlanView& plan);
// "spir-v", "cubin sm_90", "ptx compute_80"
std::string format_text(const fb::Variant& variant);

// The entries, then init where there is one.
std::vector<EntryFacts> entry_facts(const PlanView& plan);
SizeFacts size_facts(const PlanView& plan);

std::string_view segment_name(fb::Segment segment);
// "index" for SectionKind::Index.
std::string section_name(uint32_t kind);
// Names of the features in a mask, in the order of features.def.
std::vector<std::string_view> feature_names(uint64_t mask);
// "processors" of a profile that is made for them, else "".
std::string_view made_for(const PlanProfile& profile);

}  // namespace rlx::inspect
