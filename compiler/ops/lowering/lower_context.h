// SPDX-License-Identifier: Apache-2.0
// What a lowering sees: strided views of its inputs, its output buffers, scratch, and the dispatch
// builder.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/dispatch/form_choice.h"
#include "compiler/dispatch/size_words.h"
#include "compiler/dispatch/target.h"
#include "compiler/ops/op_def.h"
#include "schema/kernel_params.h"

namespace rlx {

// Of one thread: the pieces in which kernels load, copy and stage.
inline constexpr uint32_t kWidestAccessBytes = 16;
// Kernels count lines, depths and tiles in 32 bits, and round up to whole tiles.
inline constexpr int64_t kCountLimit = std::numeric_limits<int32_t>::max() - 4096;

// How f32 products may be computed.
enum class ProductPrecision : uint8_t {
  F32,   // f32, or an emulation as accurate
  Tf32,  // operands rounded to tf32
};

struct LowerOptions {
  const Target* target = nullptr;
  ProductPrecision products = ProductPrecision::F32;
  // Names of offers (ops/lowering/offers.h) that are not taken; nullptr: none is left out.
  const std::vector<std::string>* without = nullptr;
  // Names of offers that are taken wherever they fit, before what is faster; nullptr: none.
  const std::vector<std::string>* prefer = nullptr;
  // The forms that a tuner found to be fastest; nullptr: estimates choose alone.
  const FormTable* tuned = nullptr;
  // The program makes weights: it runs once for each load of a plan.
  bool runs_once = false;
  // Sizes are words wherever that costs a run little, for lower/share_kernels.h to choose from.
  bool offers_words = false;
};

// What kernels are chosen by: the target, and how tensors lie.
class OfferContext {
 public:
  // Without a program, as passes ask, every tensor begins where it may be read in the widest
  // pieces.
  explicit OfferContext(const LowerOptions& options, const Program* program = nullptr)
      : options_(options), program_(program) {}

  [[nodiscard]] const Target& target() const { return *options_.target; }
  [[nodiscard]] const DeviceModel& device() const { return target().device; }
  [[nodiscard]] ProductPrecision products() const { return options_.products; }
  // What runs once is compiled for longer than it runs, and a CPU's driver compiles for longest.
  [[nodiscard]] WordUse word_use() const {
    if (options_.runs_once) return WordUse::Always;
    if (options_.offers_words) return WordUse::ForShared;
    return device().is_cpu() ? WordUse::WhereFree : WordUse::Never;
  }
  [[nodiscard]] bool runs_once() const { return options_.runs_once; }
  // What the table of tuned forms says of FormChoice::key(), or nullptr.
  [[nodiscard]] const std::string* tuned_form(const std::string& key) const;
  // True for the name of an offer, and of all forms of a kernel, that the user left out.
  [[nodiscard]] bool is_left_out(std::string_view offer) const;
  // The same of what the user prefers.
  [[nodiscard]] bool is_preferred(std::string_view offer) const;
  [[nodiscard]] Segment segment_of(const TensorRef& ref) const;
  // Largest alignment in bytes (power of two, at most 16) on which a kernel may rely for this view.
  [[nodiscard]] uint32_t alignment(const TensorRef& ref) const;

 private:
  LowerOptions options_;
  const Program* program_;
};

// What stands for a concat that is never made: its parts where they stand, along this axis.
struct JoinedParts {
  size_t axis = 0;
  std::vector<TensorRef> parts;
};

// Where each value of the graph lives; grows as nodes are lowered in order.
class LoweringState {
 public:
  LoweringState(const Module& module, const Graph& graph, const LowerOptions& options,
                Program& program);

  const Module& module;
  const Graph& graph;
  const LowerOptions options;
  Program& program;

  // The view that stands for a value; leaves get their buffer on first use. RLX_CHECKs that results
  // were lowered.
  const TensorRef& ref(ValueId id);
  void set_ref(ValueId id, TensorRef ref);
  // Where the value must be written: a fresh arena buffer, the graph output's Io buffer, or a
  // sub-slot given by place(). Dense, but for such slots and for fresh buffers after
  // store_channels_last() or store_as().
  TensorRef allocate(ValueId id);
  // A fresh buffer of this value is to be channels last.
  void store_channels_last(ValueId id) { channels_last_.at(index_of(id)) = true; }
  [[nodiscard]] bool stores_channels_last(ValueId id) const {
    return channels_last_.at(index_of(id));
  }
  // Reserves a place for a value that its producer will write later (a concat's sub-slot).
  void place(ValueId id, TensorRef ref);
  // A dense copy of a strided view; made once per view.
  TensorRef materialize(const TensorRef& ref, const Step& origin);
  // The same with these strides, which leave no gaps; `layout` names them in the reason.
  TensorRef materialize_as(const TensorRef& ref, const Strides& strides, const std::string& layout,
                           const Step& origin);
  // The steps that make these copies, which any later step may read.
  [[nodiscard]] const std::set<size_t>& layout_copies() const { return layout_copies_; }
  TensorRef scratch(const TensorType& type, const std::string& name);
  // The same with strides that leave no gaps. The buffer has the dims as they lie in memory.
  TensorRef stored_as(const TensorType& type, const Strides& strides, const std::string& name);
  // The place reserved for a value, or nullptr.
  [[nodiscard]] const TensorRef* place_of(ValueId id) const {
    const std::optional<TensorRef>& place = places_.at(index_of(id));
    return place ? &*place : nullptr;
  }
  // Why the value was given no place in the concat that it is part of; for the reason of its copy.
  void refuse_place(ValueId id, std::string why) { refused_[id] = std::move(why); }
  [[nodiscard]] std::string place_refusal(ValueId id) const {
    const auto found = refused_.find(id);
    return found == refused_.end() ? std::string() : found->second;
  }
  // A fresh buffer of this value is to have these strides, which leave no gaps.
  void store_as(ValueId id, Strides strides) { strides_[id] = std::move(strides); }
  // The strides that a fresh buffer of this value is to have.
  [[nodiscard]] Strides fresh_strides(ValueId id) const;
  // A concat is not to be made: all that reads it are elementwise nodes, which read its parts.
  void leave_apart(ValueId id) { apart_.insert(id); }
  [[nodiscard]] bool is_left_apart(ValueId id) const { return apart_.contains(id); }
  void join(ValueId id, JoinedParts parts);
  // The parts that stand for a value; nullptr where it stands as one.
  [[nodiscard]] const JoinedParts* joined(ValueId id) const {
    const auto found = joined_.find(id);
    return found == joined_.end() ? nullptr : &found->second;
  }
  // True where allocate() would put the value into a given place instead of a fresh buffer.
  [[nodiscard]] bool has_place(ValueId id) const { return places_.at(index_of(id)).has_value(); }
  // The values lowered so far whose views lie in the buffer.
  [[nodiscard]] std::vector<ValueId> values_in(BufferId buffer) const;
  // The buffer's contents are about to change: copies made of views of it are not used again.
  void forget_copies_of(BufferId buffer);
  // Copies the value to `place` where it does not live there already.
  void copy_into(const TensorRef& place, ValueId id, Step step);
  // The state takes the value of `from` at the end of the run, after every read of the state. False
  // where the state has been given a value before.
  bool write_state_at_end(StateId state, TensorRef from, Step origin);
  // Emits the pending state writes and the copies into outputs that are views, inputs, weights or
  // repetitions.
  void finish();

 private:
  TensorRef leaf_ref(const Value& value);
  struct StateWrite {
    StateId state;
    TensorRef from;
    Step origin;
  };
  std::vector<StateWrite> state_writes_;
  std::set<StateId> written_states_;
  struct LayoutCopy {
    TensorRef from;
    TensorRef to;
  };
  std::vector<std::optional<TensorRef>> refs_;
  std::vector<std::optional<TensorRef>> places_;
  std::map<BufferId, std::vector<LayoutCopy>> copies_;  // by the buffer of `from`
  std::set<size_t> layout_copies_;
  std::map<BufferId, std::vector<ValueId>> values_in_;  // those that lie in it, or once did
  std::vector<bool> channels_last_;
  std::map<ValueId, Strides> strides_;
  std::set<ValueId> apart_;
  std::map<ValueId, JoinedParts> joined_;
  std::map<ValueId, std::string> refused_;
};

class LowerContext : public NodeContext, public OfferContext {
 public:
  LowerContext(const OpDef& op, LoweringState& state, const Node& node, Diagnostics& diagnostics);

  [[nodiscard]] const TensorType& input_type(size_t i) const;
  [[nodiscard]] const TensorType& output_type(size_t i) const;
  [[nodiscard]] bool has_output(size_t i) const { return i < node().outputs.size(); }
  // Whether anybody reads an output that there is.
  [[nodiscard]] bool is_read(size_t i) const;
  // The input as it stands: any strides (0 for broadcast dims, negative for reversed ones), any
  // offset.
  [[nodiscard]] TensorRef input(size_t i) const;
  // The input as a dense row-major tensor; strided views are copied once.
  TensorRef dense_input(size_t i) { return dense(input(i)); }
  TensorRef dense(const TensorRef& ref);
  // The output's buffer, the same one on every call; dense, but channels last where that was chosen
  // for the value (vision/layouts.h: convolutions, pools, concats and elementwise nodes alone), and
  // of any strides that OpDef::place_refusal did not refuse.
  TensorRef output(size_t i);
  // The output is a view of existing bytes: no code runs. Graph outputs are copied out by the
  // driver.
  void alias_output(size_t i, TensorRef view);
  TensorRef scratch(const TensorType& type, const std::string& name);
  // A channels-last form of the view, aligned to 16 bytes: itself, or a copy made once.
  TensorRef channels_last(const TensorRef& ref);

  template <KernelId kernel>
  DispatchBuilder<typename KernelTraits<kernel>::Params> dispatch() {
    return DispatchBuilder<typename KernelTraits<kernel>::Params>(program(), kernel, new_step());
  }
  // A byte copy between views of equal type; `why` goes before its reason.
  void copy(const TensorRef& from, const TensorRef& to, const std::string& why = {});
  // The same of several views side by side.
  void copy(const JoinedParts& from, const TensorRef& to, const std::string& why = {});

  Program& program() { return state_->program; }
  LoweringState& state() { return *state_; }
  // A step carrying this node's name, op and source.
  [[nodiscard]] Step new_step() const;

 private:
  // Puts `why` before the reasons of the steps from `first_step` on.
  void tell_why(size_t first_step, const std::string& why);
  LoweringState* state_;
};

// A dense tensor at the buffer's begin.
TensorRef dense_ref(BufferId buffer, const TensorType& type);

// Emits a strided copy: y[i] = x[i] for two views of one type and shape, bit by bit. Uses the
// region kernel, or transpose where that coalesces.
void emit_strided_copy(const LowerOptions& options, Program& program, const Step& origin,
                       const TensorRef& from, const TensorRef& to);
// Whether such a copy goes through tiles, as the elements' order differs.
bool turns_elements(const TensorRef& from, const TensorRef& to);
// Emits one copy of views that lie side by side in `to` along an axis, at most
// kMostJoinedCopies.
inline constexpr size_t kMostJoinedCopies = RLX_REGION_BUFFERS - 1;
void emit_joined_copy(const LowerOptions& options, Program& program, const Step& origin,
                      const JoinedParts& from, const TensorRef& to);
// What may be left out of the table of its kernels: not the region, which takes every copy.
std::vector<std::string> copy_offer_names();

// OpDef::place_refusal of ops that write any strides.
std::string no_place_refusal(const LoweringState& state, const Node& node, const TensorRef& place);

// Lowers an elementwise node or an ew_region to one region dispatch.
bool lower_elementwise(LowerContext& ctx);

}  // namespace rlx
