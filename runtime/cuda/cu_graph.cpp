// SPDX-License-Identifier: Apache-2.0
// Building graphs. A plan was verified before it came here, so its indices, ranges and sizes are
// used as they are.
#include "runtime/cuda/cu_graph.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "runtime/base/text.h"
#include "schema/rounding.h"

namespace rlx::cuda {
namespace {

// Nodes of trips that all run: as many stand there one behind the other, and of more as many in one
// round of a conditional node, which takes as long as a few short kernels.
constexpr uint32_t kMostStraightNodes = 4096;
constexpr uint32_t kCopiedNodes = 64;

// The code of a dispatch; null for other steps.
const fb::Variant* variant_of(const StepCode& code, const fb::Step& step) {
  return step.kind() == fb::StepKind::Dispatch ? code.modules.at(step.kernel()).variant : nullptr;
}

using StepEdges = std::vector<std::vector<uint32_t>>;

StepEdges reduce(const StepEdges& all) {
  const auto step_count = static_cast<uint32_t>(all.size());
  const size_t words = ceil_div(size_t{step_count}, size_t{64});
  // Bit p of row s: step s runs after step p.
  std::vector<uint64_t> after(words * step_count, 0);
  const auto row = [&](uint32_t step) { return after.data() + words * step; };
  const auto holds = [&](const uint64_t* bits, uint32_t step) {
    return (bits[step / 64] >> (step % 64) & 1) != 0;
  };
  StepEdges kept(step_count);
  for (uint32_t s = 0; s < step_count; ++s) {
    std::vector<uint32_t> nearest_first = all[s];
    std::sort(nearest_first.begin(), nearest_first.end(), std::greater<>());
    // An edge that another implies comes after it in this order: it leads further back.
    for (const uint32_t before : nearest_first) {
      if (holds(row(s), before)) continue;
      kept[s].push_back(before);
      for (size_t w = 0; w < words; ++w) row(s)[w] |= row(before)[w];
      row(s)[before / 64] |= uint64_t{1} << (before % 64);
    }
  }
  return kept;
}

// What takes no longer than a kernel's launch.
bool is_small(const fb::Step& step) {
  constexpr uint64_t kMostBytes = uint64_t{4} << 20;
  constexpr uint64_t kMostFlops = uint64_t{1} << 25;
  return step.kind() == fb::StepKind::Dispatch && step.bytes_moved() <= kMostBytes &&
         step.flops() <= kMostFlops;
}

// Without a node: what waits for the step waits for what it would wait for.
bool is_passed_over(const fb::Entry& entry, uint32_t step) {
  return PlanView::steps(entry)[step].kind() == fb::StepKind::Skip &&
         PlanView::region_of(entry, step) == nullptr;
}

}  // namespace

StepEdges reduced_edges(const fb::Entry& entry, uint32_t step_count) {
  StepEdges all;
  for (const fb::Step& step : PlanView::steps(entry).first(step_count)) {
    std::vector<uint32_t> own;
    for (const uint32_t before : PlanView::edges(entry, step)) {
      if (is_passed_over(entry, before)) {
        own.insert(own.end(), all[before].begin(), all[before].end());
      } else {
        own.push_back(before);
      }
    }
    // Each once: behind many skipped steps the same ones are met again and again.
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    all.push_back(std::move(own));
  }
  return reduce(all);
}

StepEdges chained_edges(const fb::Entry& entry, uint32_t step_count) {
  StepEdges edges = reduced_edges(entry, step_count);
  StepEdges after(step_count);
  for (uint32_t s = 0; s < step_count; ++s) {
    if (is_passed_over(entry, s)) continue;
    for (const uint32_t before : edges[s]) after[before].push_back(s);
  }
  const std::span<const fb::Step> steps = PlanView::steps(entry);
  for (uint32_t fork = 0; fork < step_count; ++fork) {
    const std::vector<uint32_t>& pair = after[fork];
    if (pair.size() != 2 || !is_small(steps[fork])) continue;
    const uint32_t first = pair[0];
    const uint32_t second = pair[1];
    const bool meet = edges[first].size() == 1 && edges[second].size() == 1 &&
                      after[first].size() == 1 && after[first] == after[second];
    const bool is_one_small = is_small(steps[first]) || is_small(steps[second]);
    const bool is_in_region = PlanView::region_of(entry, first) != nullptr ||
                              PlanView::region_of(entry, second) != nullptr;
    if (meet && is_one_small && !is_in_region) edges[second] = {first};
  }
  return reduce(edges);
}

class GraphBuilder {
 public:
  GraphBuilder(const StepCode& code, const LinkedEntry& linked, CUstream capture, EntryGraph& made)
      : code_(code),
        context_(code.context),
        api_(code.context.api),
        linked_(linked),
        capture_(capture),
        made_(made) {}

  Status create_graph() {
    CUgraph handle = nullptr;
    RLX_RETURN_IF_ERROR(context_.check(api_.cuGraphCreate(&handle, 0), "cuGraphCreate"));
    made_.graph_ = OwnedGraph(context_, handle);
    graph_ = handle;
    return {};
  }

  Status add_steps(uint32_t step_count) {
    const std::vector<std::vector<uint32_t>> edges = chained_edges(*linked_.entry, step_count);
    made_.nodes_.resize(step_count);
    for (uint32_t s = 0; s < step_count;) {
      if (const fb::Region* region = PlanView::region_of(*linked_.entry, s)) {
        const uint32_t count = std::min(region->step_count(), step_count - s);
        RLX_RETURN_IF_ERROR(add_region(*region, count, edges, nodes_before(edges, s, count)));
        s += count;
        continue;
      }
      RLX_RETURN_IF_ERROR(add_step(s, nodes_before(edges, s, 1)));
      ++s;
    }
    return {};
  }

  // All trips of a region are its first step's.
  Status add_timed_steps(uint32_t step_count, std::span<const CUevent> events) {
    CUgraphNode last = nullptr;
    for (uint32_t i = 0; i < kCalibrationEvents; ++i)
      RLX_RETURN_IF_ERROR(add_event(events[i], last));
    const std::vector<std::vector<uint32_t>> edges = reduced_edges(*linked_.entry, step_count);
    made_.nodes_.resize(step_count);
    for (uint32_t s = 0; s < step_count;) {
      const fb::Region* region = PlanView::region_of(*linked_.entry, s);
      RLX_RETURN_IF_ERROR(region != nullptr
                              ? add_region(*region, region->step_count(), edges, {last})
                              : add_step(s, {&last, 1}));
      if (made_.nodes_[s] != nullptr) last = made_.nodes_[s];
      const uint32_t end = s + (region != nullptr ? region->step_count() : 1);
      for (; s < end; ++s) RLX_RETURN_IF_ERROR(add_event(events[kCalibrationEvents + s], last));
    }
    return {};
  }

  Status instantiate() {
    RLX_RETURN_IF_ERROR(add_early_edges());
    CUgraphExec exec = nullptr;
    RLX_RETURN_IF_ERROR(context_.check(api_.cuGraphInstantiateWithFlags(&exec, graph_, 0),
                                       "cuGraphInstantiateWithFlags"));
    made_.exec_ = OwnedGraphExec(context_, exec);
    return {};
  }

 private:
  // `last` becomes the event's node.
  Status add_event(CUevent event, CUgraphNode& last) {
    CUgraphNode node = nullptr;
    RLX_RETURN_IF_ERROR(context_.check(
        api_.cuGraphAddEventRecordNode(&node, graph_, &last, last == nullptr ? 0 : 1, event),
        "cuGraphAddEventRecordNode"));
    last = node;
    return {};
  }

  // What a step waits for, each once; of a region what any of its steps does outside of it.
  [[nodiscard]] std::vector<CUgraphNode> nodes_before(
      const std::vector<std::vector<uint32_t>>& edges, uint32_t first, uint32_t count) const {
    std::vector<CUgraphNode> before;
    for (uint32_t s = first; s < first + count; ++s) {
      for (const uint32_t edge : edges[s]) {
        if (edge < first) before.push_back(made_.nodes_[edge]);
      }
    }
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    return before;
  }

  // Trips that all run stand there as often as they run, while these are not too many. Otherwise a
  // conditional node holds a trip, or several where all run, and beside them the kernel that
  // decides of the next one; it stands before the node as well. For all else one node stands for
  // the steps.
  Status add_region(const fb::Region& region, uint32_t step_count,
                    const std::vector<std::vector<uint32_t>>& edges,
                    std::vector<CUgraphNode> before) {
    const Trips trips{.first_step = region.first_step(), .step_count = step_count, .edges = edges};
    const uint32_t count = step_count < region.step_count() ? 1 : region.most_trips();
    if (region.word().has_value()) return add_conditional(region, trips, 1, count, before);
    const bool is_short = uint64_t{count} * step_count <= kMostStraightNodes;
    const uint32_t copies = is_short ? count : std::max(kCopiedNodes / step_count, 1u);
    RLX_RETURN_IF_ERROR(add_trips(trips, is_short ? count : count % copies, before));
    if (is_short) return join(trips, before);
    return add_conditional(region, trips, copies, count / copies, before);
  }

  // The steps of a trip.
  struct Trips {
    uint32_t first_step = 0;
    uint32_t step_count = 0;
    const std::vector<std::vector<uint32_t>>& edges;
  };

  // One trip behind the other, the first behind `before`; this becomes what follows waits for.
  Status add_trips(const Trips& trips, uint32_t count, std::vector<CUgraphNode>& before) {
    const uint32_t end = trips.first_step + trips.step_count;
    for (uint32_t trip = 0; trip < count; ++trip) {
      std::vector<bool> is_waited_for(trips.step_count, false);
      for (uint32_t s = trips.first_step; s < end; ++s) {
        std::vector<CUgraphNode> own;
        for (const uint32_t edge : trips.edges[s]) {
          if (edge < trips.first_step) continue;
          own.push_back(made_.nodes_[edge]);
          is_waited_for[edge - trips.first_step] = true;
        }
        RLX_RETURN_IF_ERROR(add_step(s, own.empty() ? before : own));
      }
      before.clear();
      for (uint32_t s = trips.first_step; s < end; ++s)
        if (!is_waited_for[s - trips.first_step]) before.push_back(made_.nodes_[s]);
    }
    return {};
  }

  // One node that stands for the steps.
  Status join(const Trips& trips, std::span<const CUgraphNode> last) {
    CUgraphNode node = last.front();
    if (last.size() > 1) {
      note_successor(last);
      RLX_RETURN_IF_ERROR(add_empty(last, node));
    }
    stand_for(trips, node);
    return {};
  }
  void stand_for(const Trips& trips, CUgraphNode node) {
    const auto first = made_.nodes_.begin() + trips.first_step;
    std::fill(first, first + trips.step_count, node);
  }

  Status add_conditional(const fb::Region& region, const Trips& trips, uint32_t copies,
                         uint32_t most_trips, std::span<const CUgraphNode> before) {
    RegionKernel::Params decide{
        .counter = linked_.addresses[region.counter()], .most_trips = most_trips, .is_first = 1};
    if (region.word().has_value()) decide.word = linked_.addresses[*region.word()];
    RLX_RETURN_IF_ERROR(context_.check(
        api_.cuGraphConditionalHandleCreate(&decide.condition, graph_, context_.handle, 0, 0),
        "cuGraphConditionalHandleCreate"));
    CUgraphNode decided = nullptr;
    note_successor(before);
    RLX_RETURN_IF_ERROR(code_.region_kernel.add(context_, graph_, before, decide, decided));
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional = {.handle = decide.condition,
                          .type = most_trips > 1 ? CU_GRAPH_COND_TYPE_WHILE : CU_GRAPH_COND_TYPE_IF,
                          .size = 1,
                          .phGraph_out = nullptr,
                          .ctx = context_.handle};
    CUgraphNode node = nullptr;
    RLX_RETURN_IF_ERROR(context_.check(
        api_.cuGraphAddNode_v2(&node, graph_, &decided, nullptr, 1, &params),
        text_of("a loop or branch on the device, ", quoted(PlanView::text(region.name())))));
    const CUgraph outer = std::exchange(graph_, params.conditional.phGraph_out[0]);
    decide.is_first = 0;
    const Status body = add_body(region, trips, copies, decide);
    graph_ = outer;
    RLX_RETURN_IF_ERROR(body);
    stand_for(trips, node);
    return {};
  }

  Status add_body(const fb::Region& region, const Trips& trips, uint32_t copies,
                  const RegionKernel::Params& decide) {
    std::vector<CUgraphNode> last;
    RLX_RETURN_IF_ERROR(add_trips(trips, copies, last));
    // After the only trip nothing is left to decide.
    if (decide.most_trips == 1) return {};
    CUgraphNode decided = nullptr;
    const std::vector<CUgraphNode> writers = word_writers(region, trips);
    note_successor(writers);
    return code_.region_kernel.add(context_, graph_, writers, decide, decided);
  }

  // Of the last trip added. What decides of the next one waits for nothing else: a body is over
  // when all of its nodes are.
  [[nodiscard]] std::vector<CUgraphNode> word_writers(const fb::Region& region,
                                                      const Trips& trips) const {
    std::vector<CUgraphNode> writers;
    if (!region.word().has_value()) return writers;
    const std::span<const fb::Step> steps = PlanView::steps(*linked_.entry);
    for (uint32_t s = trips.first_step; s < trips.first_step + trips.step_count; ++s) {
      const auto accesses = PlanView::relocations(*linked_.entry, steps[s]);
      const bool writes =
          std::any_of(accesses.begin(), accesses.end(), [&region](const fb::Relocation& access) {
            return access.value() == *region.word() && access.mode() != fb::AccessMode::Read;
          });
      if (writes) writers.push_back(made_.nodes_[s]);
    }
    return writers;
  }

  // What successors of the step wait for goes to nodes_.
  Status add_step(uint32_t index, std::span<const CUgraphNode> before) {
    if (is_passed_over(*linked_.entry, index)) return {};
    const fb::Step& step = PlanView::steps(*linked_.entry)[index];
    note_successor(before);
    CUgraphNode node = nullptr;
    Status status;
    switch (step.kind()) {
      case fb::StepKind::Dispatch:
        status = add_kernel(step, before, node);
        break;
      case fb::StepKind::Copy:
        status = add_copy(step, before, node);
        break;
      case fb::StepKind::Fill:
        status = add_fill(step, before, node);
        break;
      case fb::StepKind::LibraryGemm:
        status = add_gemm(index, before, node);
        break;
      case fb::StepKind::Skip:
        status = add_empty(before, node);
        break;
    }
    if (!status.ok()) {
      return {status.code(),
              text_of(code_.plan.describe_step(*linked_.entry, index), ": ", status.message())};
    }
    made_.nodes_[index] = node;
    return {};
  }

  Status add_kernel(const fb::Step& step, std::span<const CUgraphNode> before, CUgraphNode& node) {
    KernelLaunch launch(code_.modules.at(step.kernel()));
    RLX_RETURN_IF_ERROR(launch.link(code_, linked_, step));
    bool is_early = false;
    RLX_RETURN_IF_ERROR(starts_early(launch, before, is_early));
    if (is_early) launch.spread(context_);
    RLX_RETURN_IF_ERROR(
        context_.check(api_.cuGraphAddKernelNode_v2(&node, graph_, nullptr, 0, &launch.node()),
                       "cuGraphAddKernelNode"));
    if (const uint32_t cluster = launch.cluster(context_); cluster > 1) {
      CUlaunchAttributeValue value{};
      value.clusterDim = {.x = cluster, .y = 1, .z = 1};
      RLX_RETURN_IF_ERROR(context_.check(
          api_.cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value),
          text_of("a cluster of ", value.clusterDim.x, " workgroups")));
    }
    if (launch.runs_together()) {
      CUlaunchAttributeValue value{};
      value.cooperative = 1;
      RLX_RETURN_IF_ERROR(context_.check(
          api_.cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value),
          "a grid whose workgroups run at once"));
    }
    if (!is_early) return add_edges(before, node, {}, graph_);
    early_starts_.push_back({.graph = graph_, .before = before.front(), .node = node});
    return {};
  }

  void note_successor(std::span<const CUgraphNode> before) {
    for (const CUgraphNode node : before) ++successors_[node];
  }

  Status starts_early(const KernelLaunch& launch, std::span<const CUgraphNode> before,
                      bool& is_early) {
    is_early = may_start_early(context_, launch) && before.size() == 1;
    if (!is_early) return {};
    int type = 0;
    RLX_RETURN_IF_ERROR(
        context_.check(api_.cuGraphNodeGetType(before.front(), &type), "cuGraphNodeGetType"));
    is_early = type == CU_GRAPH_NODE_TYPE_KERNEL;
    return {};
  }

  // Edges of kernels that start early, once it is known what else waits for their predecessors: a
  // predecessor has no other successor. Where either node has further edges, of whichever kind,
  // drivers lose count of them now and then (580.159 on an H200: runs that never end, or Xid 13,
  // SKEDCHECK36_DEPENDENCE_COUNTER_UNDERFLOW).
  Status add_early_edges() {
    for (const EarlyStart& start : early_starts_) {
      CUgraphEdgeData data{};
      if (successors_[start.before] == 1) {
        data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
        data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
      }
      RLX_RETURN_IF_ERROR(add_edges({&start.before, 1}, start.node, data, start.graph));
    }
    return {};
  }

  Status add_edges(std::span<const CUgraphNode> before, CUgraphNode node,
                   const CUgraphEdgeData& data, CUgraph graph) {
    if (before.empty()) return {};
    const std::vector<CUgraphNode> to(before.size(), node);
    const std::vector<CUgraphEdgeData> edges(before.size(), data);
    return context_.check(api_.cuGraphAddDependencies_v2(graph, before.data(), to.data(),
                                                         edges.data(), before.size()),
                          "cuGraphAddDependencies");
  }

  Status add_empty(std::span<const CUgraphNode> before, CUgraphNode& node) {
    return context_.check(api_.cuGraphAddEmptyNode(&node, graph_, before.data(), before.size()),
                          "cuGraphAddEmptyNode");
  }

  Status add_copy(const fb::Step& step, std::span<const CUgraphNode> before, CUgraphNode& node) {
    if (is_empty(linked_, step)) return add_empty(before, node);
    const CUDA_MEMCPY3D copy = copy_of(linked_, step);
    return context_.check(api_.cuGraphAddMemcpyNode(&node, graph_, before.data(), before.size(),
                                                    &copy, context_.handle),
                          "cuGraphAddMemcpyNode");
  }

  Status add_fill(const fb::Step& step, std::span<const CUgraphNode> before, CUgraphNode& node) {
    if (is_empty(linked_, step)) return add_empty(before, node);
    const CUDA_MEMSET_NODE_PARAMS fill = fill_of(linked_, step);
    return context_.check(api_.cuGraphAddMemsetNode(&node, graph_, before.data(), before.size(),
                                                    &fill, context_.handle),
                          "cuGraphAddMemsetNode");
  }

  // The library launches its kernels on a capturing stream, which makes them nodes after `before`.
  Status add_gemm(uint32_t index, std::span<const CUgraphNode> before, CUgraphNode& node) {
    const std::vector<CUgraphEdgeData> full(before.size(), CUgraphEdgeData{});
    RLX_RETURN_IF_ERROR(context_.check(
        api_.cuStreamBeginCaptureToGraph(capture_, graph_, before.data(), full.data(),
                                         before.size(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "cuStreamBeginCaptureToGraph"));
    Status status = code_.gemms.launch(linked_, index, capture_);
    std::vector<CUgraphNode> last;
    if (status.ok()) status = captured_nodes(last);
    CUgraph graph = nullptr;
    const Status ended =
        context_.check(api_.cuStreamEndCapture(capture_, &graph), "cuStreamEndCapture");
    RLX_RETURN_IF_ERROR(status);
    RLX_RETURN_IF_ERROR(ended);
    if (last.size() != 1) return add_empty(last, node);
    node = last.front();
    return {};
  }

  // What a further operation on the capturing stream would wait for.
  Status captured_nodes(std::vector<CUgraphNode>& nodes) {
    int capturing = 0;
    uint64_t id = 0;
    CUgraph graph = nullptr;
    const CUgraphNode* list = nullptr;
    const CUgraphEdgeData* edges = nullptr;
    size_t count = 0;
    RLX_RETURN_IF_ERROR(context_.check(
        api_.cuStreamGetCaptureInfo_v3(capture_, &capturing, &id, &graph, &list, &edges, &count),
        "cuStreamGetCaptureInfo"));
    nodes.assign(list, list + count);
    return {};
  }

  struct EarlyStart {
    CUgraph graph;
    CUgraphNode before;
    CUgraphNode node;
  };

  const StepCode& code_;
  Context& context_;
  const Api& api_;
  const LinkedEntry& linked_;
  CUstream capture_;
  CUgraph graph_ = nullptr;  // to which nodes are added: the entry's, or a body
  std::unordered_map<CUgraphNode, uint32_t> successors_;  // how many nodes wait for the node
  std::vector<EarlyStart> early_starts_;
  EntryGraph& made_;
};

Status EntryGraph::create(const StepCode& code, const LinkedEntry& linked,
                          const GraphOptions& options, CUstream capture, EntryGraph& graph) {
  EntryGraph made;
  GraphBuilder builder(code, linked, capture, made);
  RLX_RETURN_IF_ERROR(builder.create_graph());
  RLX_RETURN_IF_ERROR(options.events.empty()
                          ? builder.add_steps(options.step_count)
                          : builder.add_timed_steps(options.step_count, options.events));
  RLX_RETURN_IF_ERROR(builder.instantiate());
  const std::span<const fb::Step> steps = PlanView::steps(*linked.entry).first(options.step_count);
  for (const fb::Step& step : steps) {
    made.kinds_.push_back(step.kind());
    made.variants_.push_back(variant_of(code, step));
  }
  made.serves_bindings_ = made.can_relink_all(code, *linked.entry);
  graph = std::move(made);
  return {};
}

bool EntryGraph::can_relink(const StepCode& code, const fb::Entry& entry, uint32_t step) const {
  const fb::Step& record = PlanView::steps(entry)[step];
  if (record.kind() != kinds_[step] || record.kind() == fb::StepKind::LibraryGemm ||
      PlanView::region_of(entry, step) != nullptr)
    return false;
  const fb::Variant* own = variants_[step];
  const fb::Variant* wanted = variant_of(code, record);
  if (wanted == nullptr) return true;
  return !wanted->runs_together() && !own->runs_together() &&
         wanted->cluster_x() == own->cluster_x() &&
         wanted->waits_for_predecessors() == own->waits_for_predecessors();
}

bool EntryGraph::can_relink_all(const StepCode& code, const fb::Entry& entry) const {
  for (uint32_t step = 0; step < kinds_.size(); ++step) {
    if (!can_relink(code, entry, step)) return false;
  }
  return true;
}

Status EntryGraph::relink(const StepCode& code, const LinkedEntry& linked, uint32_t step) {
  const fb::Step& record = PlanView::steps(*linked.entry)[step];
  Context& context = code.context;
  switch (record.kind()) {
    case fb::StepKind::Dispatch: {
      KernelLaunch launch(code.modules.at(record.kernel()));
      RLX_RETURN_IF_ERROR(launch.link(code, linked, record));
      variants_[step] = &launch.variant();
      return context.check(
          context.api.cuGraphExecKernelNodeSetParams_v2(exec_.get(), nodes_[step], &launch.node()),
          "cuGraphExecKernelNodeSetParams");
    }
    case fb::StepKind::Copy: {
      const CUDA_MEMCPY3D copy = copy_of(linked, record);
      if (is_empty(linked, record)) break;
      return context.check(context.api.cuGraphExecMemcpyNodeSetParams(exec_.get(), nodes_[step],
                                                                      &copy, context.handle),
                           "cuGraphExecMemcpyNodeSetParams");
    }
    case fb::StepKind::Fill: {
      const CUDA_MEMSET_NODE_PARAMS fill = fill_of(linked, record);
      if (is_empty(linked, record)) break;
      return context.check(context.api.cuGraphExecMemsetNodeSetParams(exec_.get(), nodes_[step],
                                                                      &fill, context.handle),
                           "cuGraphExecMemsetNodeSetParams");
    }
    case fb::StepKind::LibraryGemm:
    case fb::StepKind::Skip:
      break;  // Has no params.
  }
  return {};
}

}  // namespace rlx::cuda
