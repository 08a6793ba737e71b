// SPDX-License-Identifier: Apache-2.0
// The compiler as one call: module in, plan out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/dispatch/device_model.h"
#include "compiler/dispatch/form_choice.h"
#include "compiler/ir/graph.h"
#include "compiler/passes/control_flow.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

// What the model's f32 tensors become. Tf32: they stay f32, and products round their operands to
// tf32. Mixed: they stay f32 but where products multiply them with weights of fewer bits.
enum class Precision : uint8_t { F32, F16, Bf16, Tf32, Mixed };

// The model that estimates of a target reckon with, instead of its own.
struct ModelForTarget {
  std::string target;
  std::string name;  // of the profile, for messages and the plan's notes
  DeviceModel model;
};

// What a tuner measured for a target.
struct TunedTarget {
  std::string target;
  std::string device;  // as the driver says it
  std::string driver;
  FormTable forms;
};

struct CompileOptions {
  std::vector<std::string> targets = {"vulkan"};  // names of targets
  std::vector<ModelForTarget> device_models;      // at most one of a target
  std::vector<TunedTarget> tuned;                 // at most one of a target
  int optimisation = 2;                           // 0: no fusion; 1: clean-ups; 2: everything
  Precision precision = Precision::F32;
  uint32_t jobs = 0;                    // threads; 0: one per core
  std::string cache_dir;                // kernel code cache; empty: none
  bool trust_cache = false;             // take it even where others may write to it
  std::vector<uint32_t> architectures;  // of CUDA code: 90 for sm_90a; empty: the default ones
  std::string nvrtc;                    // library file; empty: found as emit/nvrtc.h says
  std::string
      kernels_dir;  // kernel sources from here instead of the embedded ones; empty: embedded
  std::vector<std::string> disabled_passes;
  std::vector<std::string> without;             // kernels that are not taken (lower/offer_names.h)
  std::vector<std::string> prefer;              // kernels that are taken wherever they fit
  ControlFlow control = ControlFlow::Unrolled;  // of loops and branches
  // Cheap results that would wait over the arena's peak are computed again behind it: less memory,
  // more time.
  bool recompute = false;
  // Steps run one kernel, to which sizes are parameters, where else each shape would have its own.
  bool share_kernels = true;
  bool in_place = true;  // results may take over the bytes of inputs that die
  bool serial = false;   // a barrier behind each step
  bool debug_section = true;
  // Weights that are bytes of the model's files stay there: the plan refers to them.
  bool external_weights = false;
  // Called with the module's text after the pass of this name.
  std::string dump_after;
  std::function<void(const std::string& text)> dump;
  // Called with the name of each phase or pass and its seconds.
  std::function<void(const std::string& phase, double seconds)> timing;
};

// A step as it would be run, and what it is expected to take, with free sizes at their largest.
struct StepEstimate {
  std::string entry;
  std::string kernel;          // "library" of the vendor's products, "copy" and "fill"
  std::string specialization;  // of the kernel, in the words of the plan; empty of the others
  std::string node;
  uint64_t flops = 0;
  uint64_t bytes = 0;  // least traffic of the device's memory
  std::function<double(const DeviceModel&)> microseconds;
};

// What the one-line summary and `--json` of rlxc tell.
struct CompileSummary {
  size_t steps = 0;
  size_t kernels = 0;
  uint64_t arena_bytes = 0;
  uint64_t arena_lower_bound_bytes = 0;
  uint64_t weights_bytes = 0;
  uint64_t plan_bytes = 0;
  std::vector<StepEstimate> estimates;   // of the steps of all targets and entries
  std::vector<FormChoice> form_choices;  // of all targets and entries
};

// The arena of one entry on one target.
struct ArenaSummary {
  std::string target;
  std::string entry;
  size_t steps = 0;
  uint32_t waves = 0;
  uint64_t arena_bytes = 0;
  uint64_t lower_bound_bytes = 0;
  uint64_t unplanned_bytes = 0;  // without reuse
  std::string packer;
  std::string wave_choice;
  double seconds = 0;  // ordering, waves, lifetimes and packing
};

// Compiles as far as the arenas: no kernel code, no plan. Entries in the module's order, for each
// target in the order of all_targets(). nullopt where anything was reported.
std::optional<std::vector<ArenaSummary>> plan_arenas(Module module, const CompileOptions& options,
                                                     Diagnostics& diagnostics);

// Compiles for the only target of the options as far as the steps: what they would be chosen to be
// with the models of the options, and what each is expected to take on any device. nullopt where
// anything was reported.
std::optional<std::vector<StepEstimate>> estimate_steps(Module module,
                                                        const CompileOptions& options,
                                                        Diagnostics& diagnostics);

// Compiles to plan bytes in memory (tests, small models). nullopt where anything was reported.
std::optional<std::vector<std::byte>> compile_to_bytes(Module module, const CompileOptions& options,
                                                       Diagnostics& diagnostics,
                                                       CompileSummary* summary = nullptr);

// Compiles to a file, atomically: `path` holds the old plan, the new one, or none. Weights stream
// to the file.
bool compile_to_file(Module module, const CompileOptions& options, const std::string& path,
                     Diagnostics& diagnostics, CompileSummary* summary = nullptr);

}  // namespace rlx
