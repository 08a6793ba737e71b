// SPDX-License-Identifier: Apache-2.0
// The pipeline: order, verification, dumps and times.
#include "compiler/passes/pass.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

constexpr Pass kPasses[] = {
    {"inline-bodies", "branches and loops as data flow, or as regions", 0, PassStage::Neutral,
     inline_bodies},
    {"seed-random", "seed and step of a run for random numbers", 0, PassStage::Neutral,
     seed_random},
    {"canonicalise", "drop no-ops, merge views, fold shapes", 0, PassStage::Neutral, canonicalise},
    {"fold-batch-norm", "batch_norm into the conv before it", 2, PassStage::Neutral,
     fold_batch_norm},
    {"see-groups", "norms of groups of channels as one", 2, PassStage::Neutral, see_groups},
    {"decompose", "ops without kernels as simpler ops", 0, PassStage::Neutral, decompose},
    {"fold-pads", "zeros around what conv and pools read into their pads", 1, PassStage::Neutral,
     fold_pads},
    {"scale-channels", "convolutions of one element per channel as products of elements", 2,
     PassStage::Neutral, scale_channels},
    {"fold-weights", "evaluate what is known, in the model's precision", 1, PassStage::Neutral,
     fold_constants},
    {"cut-joined", "parts of joined values as they were before", 2, PassStage::Neutral, cut_joined},
    {"channel-products",
     "products between a transpose and its inverse as convolutions of one element", 2,
     PassStage::Neutral, channel_products},
    {"straighten-products", "products of lines as they stand, views behind them", 2,
     PassStage::Neutral, straighten_products},
    {"see-rope", "halves that change places, and tables, as rope", 2, PassStage::Neutral, see_rope},
    {"see-attention", "products, masks and softmax as attention", 2, PassStage::Neutral,
     see_attention},
    {"turn-attention", "heads and tokens of attention as they stand, repeated heads once", 2,
     PassStage::Neutral, turn_attention},
    {"see-rolls", "an axis cut and joined the other way round as rolled", 2, PassStage::Neutral,
     see_rolls},
    {"see-masks", "masks of attention that are open, triangles or bands as attributes", 2,
     PassStage::Neutral, see_masks},
    {"see-append", "rows copied to an index as appended to a cache", 2, PassStage::Neutral,
     see_append},
    {"see-norms", "means, roots and products as norms", 2, PassStage::Neutral, see_norms},
    {"see-activations", "curves of several ops as one", 2, PassStage::Neutral, see_activations},
    {"add-parts", "reductions over few elements that stand apart as elementwise nodes", 2,
     PassStage::Neutral, add_parts},
    {"lower-precision",
     "f32 between inputs and outputs as f16 or bf16, or operands of products alone", 0,
     PassStage::Neutral, lower_precision},
    {"fold-constants", "evaluate what is known", 1, PassStage::Neutral, fold_constants},
    {"merge-common", "compute equal things once", 1, PassStage::Neutral, merge_common},
    {"remove-dead", "drop what nobody reads", 0, PassStage::Neutral, remove_dead},
    {"phases-of-transposes", "phases of transposed convolutions as one conv", 2,
     PassStage::PerTarget, phases_of_transposes},
    {"fuse-epilogues", "bias, activation and residual into matmul", 2, PassStage::PerTarget,
     fuse_epilogues},
    {"fuse-conv", "activation and residual into conv", 2, PassStage::PerTarget, fuse_conv},
    {"turn-weights", "weights as rows where products behind a norm stream them", 2,
     PassStage::PerTarget, turn_weights},
    {"fuse-gated", "gated pairs of products as one", 2, PassStage::PerTarget, fuse_gated},
    {"merge-matmuls", "matmuls of one input as one", 2, PassStage::PerTarget, merge_matmuls},
    {"fuse-norm", "rms_norm into the products after it", 2, PassStage::PerTarget, fuse_norm},
    {"round-operands", "f16 rows of products with weights in blocks, in precision mixed", 0,
     PassStage::PerTarget, round_operands},
    {"round-weights", "weights in blocks as halves before many rows, in precision mixed", 2,
     PassStage::PerTarget, round_weights},
    {"fuse-rope", "rope of queries and keys, and the append of keys and values, as one", 2,
     PassStage::PerTarget, fuse_rope},
    {"round-attention", "halves beside caches of halves on matrix units, in precision mixed", 0,
     PassStage::PerTarget, round_attention},
    {"round-norms", "norms whose results are rounded in the type that is read", 2,
     PassStage::PerTarget, round_norms},
    {"pad-heads", "heads filled up to what matrix units take", 2, PassStage::PerTarget, pad_heads},
    {"pad-channels", "images of few channels filled up to what matrix units take", 2,
     PassStage::PerTarget, pad_channels},
    {"fold-joined", "evaluate what merging made constant", 2, PassStage::PerTarget, fold_constants},
    {"sink-transposes", "elementwise nodes around a transpose beside each other", 2,
     PassStage::PerTarget, sink_transposes},
    {"turn-columns", "weights as rows where a kernel of rows alone is faster", 2,
     PassStage::PerTarget, turn_columns},
    {"lay-out-copies", "images that views copy as the conv behind them reads", 2,
     PassStage::PerTarget, lay_out_copies},
    {"lay-out-filters", "weights of conv as their kernels read them", 1, PassStage::PerTarget,
     lay_out_filters},
    {"repeat-elementwise", "cheap scalar ops again where several nodes read them", 2,
     PassStage::PerTarget, repeat_elementwise},
    {"fuse-elementwise", "chains of scalar ops as one kernel", 2, PassStage::PerTarget,
     fuse_elementwise},
    {"fuse-reductions", "chains of scalar ops into the reduction after them", 2,
     PassStage::PerTarget, fuse_reductions},
    {"join-outputs", "what goes to states beside what is computed of it", 2, PassStage::PerTarget,
     join_outputs},
    {"join-reductions", "sums over the same rows as one", 2, PassStage::PerTarget, join_reductions},
    {"sweep", "drop what fusion left", 0, PassStage::PerTarget, remove_dead},
};

// Loops that become regions (ops/control/region_form.h): while passes run, their bodies stand
// behind the entries as graphs of the module.
class LiftedBodies {
 public:
  explicit LiftedBodies(Module& module) : module_(module), entry_count_(module.entries.size()) {}

  void lift() {
    for (size_t entry = 0; entry < entry_count_; ++entry) {
      const std::vector<NodeId> order = module_.entries[entry].order();
      for (const NodeId id : order) {
        const std::vector<std::shared_ptr<const Graph>> bodies =
            module_.entries[entry].node(id).bodies;
        if (bodies.empty()) continue;
        module_.entries.push_back(*bodies.front());
        places_.push_back({.entry = entry, .node = id});
      }
    }
  }

  void put_back() {
    for (size_t i = 0; i < places_.size(); ++i) {
      Graph& graph = module_.entries[places_[i].entry];
      if (!graph.contains(places_[i].node)) continue;
      auto body = std::make_shared<const Graph>(std::move(module_.entries[entry_count_ + i]));
      graph.change_node(places_[i].node, [&](Node& node) { node.bodies = {std::move(body)}; });
    }
    module_.entries.erase(module_.entries.begin() + static_cast<ptrdiff_t>(entry_count_),
                          module_.entries.end());
    places_.clear();
  }

 private:
  struct Site {
    size_t entry = 0;
    NodeId node{};
  };
  Module& module_;
  size_t entry_count_;
  std::vector<Site> places_;  // of the bodies, in their order
};

bool enabled(const Pass& pass, const PassOptions& options) {
  const bool disabled = std::find(options.disabled.begin(), options.disabled.end(), pass.name) !=
                        options.disabled.end();
  return pass.level <= options.optimisation && (pass.level == 0 || !disabled);
}

}  // namespace

std::span<const Pass> all_passes() {
  return kPasses;
}

bool run_passes(Module& module, PassStage stage, const PassOptions& options,
                Diagnostics& diagnostics, std::vector<std::string>& log) {
  LiftedBodies bodies(module);
  if (stage == PassStage::PerTarget) bodies.lift();
  for (const Pass& pass : kPasses) {
    if (pass.stage != stage || !enabled(pass, options)) continue;
    const auto start = std::chrono::steady_clock::now();
    size_t changed = 0;
    const std::optional<Dim> read =
        free_size_read_by([&] { changed = pass.run(module, options, diagnostics); });
    if (read) report_free_size(diagnostics, {}, "pass " + std::string(pass.name), *read);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    const std::string name(pass.name);
    if (diagnostics.has_errors()) return false;
    const std::optional<std::string> fault = find_fault(module);
    RLX_CHECK(!fault, "after pass " + name + ": " + fault.value_or(""));
    if (changed > 0) log.push_back(name + ": " + std::to_string(changed) + " nodes changed");
    if (options.timing) options.timing(name, elapsed.count());
    if (options.dump && options.dump_after == name) options.dump(print(module));
    if (pass.run == inline_bodies) bodies.lift();
  }
  bodies.put_back();
  return true;
}

}  // namespace rlx
