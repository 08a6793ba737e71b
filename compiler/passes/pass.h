// SPDX-License-Identifier: Apache-2.0
// Graph passes and their pipeline. Each pass is one function that keeps the module valid: it is
// verified after every pass.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/dispatch/target.h"
#include "compiler/ir/graph.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/passes/control_flow.h"

namespace rlx {

struct PassOptions {
  const Target* target = nullptr;     // PerTarget: a pass may ask what the target offers
  int optimisation = 2;               // passes of a higher level do not run
  std::string precision = "f32";      // "f32", "tf32", "f16", "bf16" or "mixed"
  std::vector<std::string> disabled;  // names; levels 0 cannot be disabled
  std::vector<std::string> without;   // offers of kernels that are not taken
  std::vector<std::string> prefer;    // and those that are taken wherever they fit
  ControlFlow control = ControlFlow::Auto;
  std::string dump_after;
  std::function<void(const std::string& text)> dump;
  std::function<void(const std::string& pass, double seconds)> timing;
};

// What tables of kernels are asked with. Precondition: there is a target.
inline OfferContext offer_context(const PassOptions& options) {
  return OfferContext(
      {.target = options.target,
       .products = options.precision == "tf32" ? ProductPrecision::Tf32 : ProductPrecision::F32,
       .without = &options.without,
       .prefer = &options.prefer});
}

// Returns how many nodes it changed. Throws InternalError on our own mistakes; models are refused
// before passes run, except for what only rewriting finds out, which goes to Diagnostics.
using PassFunction = size_t (*)(Module&, const PassOptions&, Diagnostics&);

// Neutral passes run once for all targets, the later ones once per target, on its own copy of the
// module.
enum class PassStage : uint8_t { Neutral, PerTarget };

struct Pass {
  std::string_view name;
  std::string_view summary;
  int level;  // runs from this optimisation level on
  PassStage stage;
  PassFunction run;
};

// In the order in which they run.
std::span<const Pass> all_passes();

// Runs the passes of a stage; `log` receives "name: n nodes changed" for each that changed
// something. False where an error was reported.
bool run_passes(Module& module, PassStage stage, const PassOptions& options,
                Diagnostics& diagnostics, std::vector<std::string>& log);

// Puts the bodies of control flow in place of their nodes: calls, branches that are known or
// computed both ways, loops unrolled. Refuses what would stand for too many nodes. What
// stays (options.control) becomes a loop as ops/control/region_form.h says.
size_t inline_bodies(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// In one entry, none of whose bodies stays; false where anything was reported.
bool inline_bodies_of(Module& module, Graph& graph, Diagnostics& diagnostics);
// Gives ops that draw random numbers the session's seed and step, two states of the module, where
// the model has none of its own.
size_t seed_random(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Removes identity and stop_gradient, casts and reshapes that change nothing, merges chains of
// views, and replaces ops that depend on shapes alone by constants.
size_t canonicalise(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Replaces a node whose op has a decomposition, or leaves it where the op has a kernel for it;
// false after a diagnostic.
bool decompose_node(Module& module, Graph& graph, NodeId id, Diagnostics& diagnostics);
// Replaces every op that has a decomposition and no lowering by simpler ops.
size_t decompose(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Makes zeros around what only conv, means and sums of windows read pads of these.
size_t fold_pads(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Computes linear layers between a transpose that brings an axis to the end and its inverse as
// convolutions of one element over the axis where it stands.
size_t channel_products(Module& module, const PassOptions& options, Diagnostics& diagnostics);
size_t scale_channels(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Makes sums, means and extremes of two to four elements that stand apart those of parts.
size_t add_parts(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Folds batch_norm of constants into the weights of the conv before it.
size_t fold_batch_norm(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Makes one conv of all phases of a transposed convolution where the target then takes less time.
size_t phases_of_transposes(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Evaluates nodes whose inputs are constants. Nodes over weights that are large or made on the
// device become weights that the init entry computes once; casts of random weights move into the
// generator.
size_t fold_constants(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Computes products of lines that are turned before them as they stand and turns their results,
// where no reader of these then needs a copy or strides that it did not need before. Moves
// activations that read views of products and convolutions before the views.
size_t straighten_products(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Joins rotary embeddings that are written out into rope.
size_t see_rope(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Joins group norms that are written out as instance norms of reshaped channels.
size_t see_groups(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Reads parts of joined values where they came from, through elementwise nodes.
size_t cut_joined(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Makes roll of an axis whose first part is joined behind the rest.
size_t see_rolls(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Joins the products, scales, masks and softmax of attention that is written out into attention.
size_t see_attention(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Takes the views around attention that stands as one node into it: repeated heads, and exchanged
// axes of heads and tokens.
size_t turn_attention(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Takes masks of attention nodes that are known to be open, triangles or bands into attributes.
size_t see_masks(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Makes kv_append of copies of one row to an index.
size_t see_append(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Joins norms that are written out into rms_norm and layer_norm.
size_t see_norms(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Joins activations that are written out into gelu, gelu_tanh, silu and swish.
size_t see_activations(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Turns f32 tensors between the entry's inputs and outputs into f16 or bf16 (options.precision);
// weights once. Mixed: only those that products multiply with weights of fewer bits.
size_t lower_precision(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Merges nodes that compute the same.
size_t merge_common(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Joins products of one input with weights, up to 64 of them, into one product whose outputs are
// slices.
size_t merge_matmuls(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Turns weights that stand as columns into rows, where the target streams all products behind a
// norm.
size_t turn_weights(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Joins act(x * w) * (x * w2) into fused_norm_matmul where the target streams such pairs.
size_t fuse_gated(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Pulls rms_norm into the products that read it, where the target streams all of them; some take
// its rows rounded to f16 (round_x of fused_dequant_matmul), which such products' rows are apart
// too.
size_t fuse_norm(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Precision mixed: f16 rows of products with weights in blocks, where tensor cores want them or
// such a product makes them.
size_t round_operands(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Precision mixed: weights in blocks rounded to halves, once a run, where many rows of halves
// multiply them and matrix units are faster by more than that costs.
size_t round_weights(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Fills heads up with zeros to a size that matrix units take, where that is faster than attention
// of heads as they are.
size_t pad_heads(Module& module, const PassOptions& options, Diagnostics& diagnostics);
size_t pad_channels(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Joins the ropes of an attention's q and k, and the kv_append of its k and v, into rope_append.
size_t fuse_rope(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Precision mixed: halves as queries and results of attention over caches of halves, where matrix
// units then compute it.
size_t round_attention(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Makes a norm's result the halves that a cast makes of it, where nothing else reads it.
size_t round_norms(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Pulls bias, activation and residual into matmul.
size_t fuse_epilogues(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Pulls the activation into conv, and the residual before it where the conv runs on tensor cores.
size_t fuse_conv(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Moves transposes between elementwise nodes in front of them, so that the nodes meet.
size_t sink_transposes(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Turns weights that stand as columns into rows where the target has a kernel of rows alone that is
// expected to be faster.
size_t turn_columns(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Transposes the weights of convolutions on tensor cores to [Co, H, W, C], and of depthwise ones
// that stand channels last to [H, W, 1, C]; the conv reads them through a view.
size_t lay_out_filters(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Copies images that views make once, channels last, where all that reads them are convolutions
// whose kernels read them so.
size_t lay_out_copies(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Repeats cheap elementwise nodes in front of readers that compute them themselves, where that
// moves fewer bytes than their results.
size_t repeat_elementwise(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Joins chains of elementwise nodes of one shape into ew_region nodes.
size_t fuse_elementwise(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Pulls an elementwise node or region that only a reduction reads into that reduction.
size_t fuse_reductions(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Joins chains whose results go to states into the chains that read them besides, as further
// results.
size_t join_outputs(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Joins sums over the same rows that read the same tensors into one reduction with several results.
size_t join_reductions(Module& module, const PassOptions& options, Diagnostics& diagnostics);
// Removes nodes whose results nobody reads.
size_t remove_dead(Module& module, const PassOptions& options, Diagnostics& diagnostics);

}  // namespace rlx
