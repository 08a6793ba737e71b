// SPDX-License-Identifier: Apache-2.0
// Chains of views, by the factors of the source's dims.
#include "compiler/passes/view_chain.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

#include "compiler/ops/op_id.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"
#include "compiler/support/check.h"
#include "schema/plan_header.h"

namespace rlx {
namespace {

// Chains are merged from their beginning on, so that few nodes stand between two others.
constexpr size_t kMostNodes = 12;

// a / b where that leaves nothing over at every size.
std::optional<Dim> quotient(const Dim& a, const Dim& b) {
  if (a == b) return Dim(1);
  if (b.range().least < 1) return std::nullopt;
  const Dim result = a / b;
  return result * b == a ? std::optional(result) : std::nullopt;
}

// What a node takes of one axis, for its output.
struct Part {
  size_t axis;
  Dim start;
  Dim count;
};

std::optional<Part> part_of(const Graph& graph, const Node& node, ValueId result) {
  if (!is_chained_view(node)) return std::nullopt;
  const bool is_narrow = node.op == OpId::narrow;
  const Shape& shape = graph.value(*node.inputs[0]).type.shape;
  const int64_t written = node_integer(node, "axis");
  const auto axis =
      static_cast<size_t>(written < 0 ? written + static_cast<int64_t>(shape.size()) : written);
  Part part{.axis = axis, .start = 0, .count = graph.value(result).type.shape[axis]};
  if (is_narrow) {
    const int64_t start = node_integer(node, "start");
    part.start = start < 0 ? start + shape[axis] : Dim(start);
    return part;
  }
  for (const ValueId output : node.outputs) {
    if (output == result) break;
    part.start += graph.value(output).type.shape[axis];
  }
  return part;
}

}  // namespace

bool is_chained_view(const Node& node) {
  const auto is_number = [&node](const char* name) {
    const auto found = node.attributes.find(name);
    return found != node.attributes.end() && std::holds_alternative<int64_t>(found->second);
  };
  return is_reshaping(node) || node.op == OpId::transpose || node.op == OpId::split ||
         (node.op == OpId::narrow && is_number("start") && is_number("len"));
}

std::optional<ViewChain> ViewChain::of(const TensorType& source) {
  if (block_elements(source.dtype) != 1) return std::nullopt;
  ViewChain chain;
  chain.shape_ = source.shape;
  for (size_t i = 0; i < source.shape.size(); ++i) {
    const Dim& size = source.shape[i];
    if (size.range().least < 1) return std::nullopt;
    std::vector<size_t> group;
    if (size != 1) {
      group.push_back(chain.factors_.size());
      chain.factors_.push_back({.dim = i, .size = size});
    }
    chain.groups_.push_back(std::move(group));
  }
  return chain;
}

bool ViewChain::append(const Graph& graph, const Node& node, ValueId result) {
  if (is_reshaping(node)) return append_reshape(graph.value(result).type.shape);
  if (node.op == OpId::transpose) {
    turn(permutation_of(graph, node));
    return true;
  }
  const std::optional<Part> part = part_of(graph, node, result);
  return part && append_cut(part->axis, part->start, part->count);
}

void ViewChain::turn(const std::vector<size_t>& perm) {
  std::vector<std::vector<size_t>> groups;
  for (const size_t axis : perm) groups.push_back(groups_.at(axis));
  groups_ = std::move(groups);
}

// Factor i becomes factors i and i + 1.
void ViewChain::split(size_t factor, const Dim& outer, const Dim& inner) {
  factors_[factor].size = outer;
  factors_.insert(factors_.begin() + static_cast<std::ptrdiff_t>(factor) + 1,
                  {.dim = factors_[factor].dim, .size = inner});
  for (std::vector<size_t>& group : groups_) {
    for (size_t& i : group) i += i > factor ? 1 : 0;
    const auto at = std::find(group.begin(), group.end(), factor);
    if (at != group.end()) group.insert(at + 1, factor + 1);
  }
}

bool ViewChain::append_reshape(const Shape& target) {
  groups_ = {order()};  // one dim, from which the new ones take
  for (const Dim& size : target) {
    std::vector<size_t> group;
    Dim wanted = size;
    while (wanted != 1) {
      if (groups_[0].empty()) return false;
      const size_t first = groups_[0].front();
      const Dim there = factors_[first].size;
      const std::optional<Dim> more = quotient(wanted, there);
      if (!more) {
        const std::optional<Dim> rest = quotient(there, wanted);
        if (!rest) return false;
        for (size_t& i : group) i += i > first ? 1 : 0;
        split(first, wanted, *rest);
      }
      groups_[0].erase(groups_[0].begin());
      group.push_back(first);
      wanted = more.value_or(1);
    }
    groups_.push_back(std::move(group));
  }
  const bool is_whole = groups_[0].empty();
  groups_.erase(groups_.begin());
  return is_whole && factors_.size() <= kMaxRank;
}

// The elements of the source's dim that stand together for one step of the factor.
Dim ViewChain::elements_inside(size_t factor) const {
  Dim count = 1;
  for (size_t i = factor + 1; i < factors_.size() && factors_[i].dim == factors_[factor].dim; ++i)
    count *= factors_[i].size;
  return count;
}

// A part of a dim is a part of the source where it is the outermost factor of one of its dims.
bool ViewChain::append_cut(size_t axis, const Dim& start, const Dim& count) {
  if (groups_[axis].empty()) return count == 1;  // all of one
  if (groups_[axis].size() != 1 || cost() == Cost::Copy) return false;
  const size_t factor = groups_[axis][0];
  const size_t dim = factors_[factor].dim;
  if (factors_[factor].size == count) return true;
  if (factor > 0 && factors_[factor - 1].dim == dim) return false;
  const Dim inside = elements_inside(factor);
  const Dim first = start * inside;
  const Dim elements = count * inside;
  if (first.is_free() || elements.is_free() || count.range().least < 1) return false;
  if (!cuts_.empty() && cuts_.back().dim == dim) {
    cuts_.back() = {
        .dim = dim, .start = cuts_.back().start + first.bound(), .count = elements.bound()};
  } else {
    cuts_.push_back({.dim = dim, .start = first.bound(), .count = elements.bound()});
  }
  shape_[dim] = elements;
  factors_[factor].size = count;
  if (count != 1) return true;
  factors_.erase(factors_.begin() + static_cast<std::ptrdiff_t>(factor));
  groups_[axis].clear();
  for (std::vector<size_t>& group : groups_)
    for (size_t& i : group) i -= i > factor ? 1 : 0;
  return true;
}

std::vector<size_t> ViewChain::order() const {
  std::vector<size_t> order;
  for (const std::vector<size_t>& group : groups_)
    order.insert(order.end(), group.begin(), group.end());
  return order;
}

ViewChain::Cost ViewChain::cost() const {
  for (const std::vector<size_t>& group : groups_) {
    for (size_t i = 1; i < group.size(); ++i)
      if (group[i] != group[i - 1] + 1) return Cost::Copy;
  }
  const std::vector<size_t> all = order();
  return std::is_sorted(all.begin(), all.end()) ? Cost::None : Cost::Strides;
}

bool ViewChain::keeps_last_dim() const {
  if (shape_.empty() || groups_.empty() || factors_.empty()) return false;
  const std::vector<size_t> last = {factors_.size() - 1};
  return groups_.back() == last && factors_.back().dim + 1 == shape_.size() &&
         factors_.back().size == shape_.back() &&
         std::none_of(cuts_.begin(), cuts_.end(),
                      [&](const Cut& cut) { return cut.dim + 1 == shape_.size(); });
}

ViewChain ViewChain::with_last_dim(const Dim& size) const {
  ViewChain other = *this;
  other.shape_.back() = size;
  other.factors_.back().size = size;
  return other;
}

// Factors that were parted, and stand beside each other as before, as one.
ViewChain ViewChain::joined() const {
  ViewChain result = *this;
  for (size_t i = factors_.size(); i-- > 1;) {
    if (factors_[i].dim != factors_[i - 1].dim) continue;
    for (std::vector<size_t>& group : result.groups_) {
      const auto at = std::find(group.begin(), group.end(), i);
      if (at == group.end() || at == group.begin() || *(at - 1) != i - 1) continue;
      group.erase(at);
      result.factors_[i - 1].size *= result.factors_[i].size;
      result.factors_.erase(result.factors_.begin() + static_cast<std::ptrdiff_t>(i));
      for (std::vector<size_t>& other : result.groups_)
        for (size_t& factor : other) factor -= factor > i ? 1 : 0;
      break;
    }
  }
  return result;
}

std::optional<ViewChain::Straight> ViewChain::straight() const {
  const ViewChain all = joined();
  if (all.groups_.size() < 2) return std::nullopt;
  const std::vector<size_t> columns = all.groups_.back();
  std::vector<size_t> lines = all.order();
  lines.resize(lines.size() - columns.size());
  if (std::is_sorted(lines.begin(), lines.end()) || lines.size() + 1 > kMaxRank)
    return std::nullopt;
  std::sort(lines.begin(), lines.end());

  ViewChain chain = all;
  ViewChain undo;
  chain.groups_.clear();
  for (const size_t factor : lines) {
    chain.groups_.push_back({factor});
    undo.factors_.push_back({.dim = undo.shape_.size(), .size = all.factors_[factor].size});
    undo.shape_.push_back(all.factors_[factor].size);
  }
  chain.groups_.push_back(columns);
  for (size_t axis = 0; axis + 1 < all.groups_.size(); ++axis) {
    std::vector<size_t> group;
    for (const size_t factor : all.groups_[axis])
      group.push_back(
          static_cast<size_t>(std::find(lines.begin(), lines.end(), factor) - lines.begin()));
    undo.groups_.push_back(std::move(group));
  }
  undo.groups_.push_back({lines.size()});
  undo.factors_.push_back({.dim = lines.size(), .size = 0});
  undo.shape_.emplace_back(0);
  return Straight{.chain = std::move(chain), .undo = std::move(undo)};
}

Shape ViewChain::result_shape() const {
  Shape shape;
  for (const std::vector<size_t>& group : groups_) {
    Dim size = 1;
    for (const size_t factor : group) size *= factors_[factor].size;
    shape.push_back(size);
  }
  return shape;
}

// reshape to factors, transpose, reshape to dims of several: the outer two where they change
// anything. Sizes of 1 stand in the middle where they save one of these.
void ViewChain::add_turn(std::vector<Step>& steps) const {
  const Shape result = result_shape();
  const auto count_of_ones = [](const Shape& shape) {
    return static_cast<size_t>(std::count(shape.begin(), shape.end(), Dim(1)));
  };
  const bool merges = std::any_of(groups_.begin(), groups_.end(),
                                  [](const auto& group) { return group.size() > 1; });
  const bool splits = factors_.size() + count_of_ones(shape_) != shape_.size();
  const bool reads_source = !splits && (merges || count_of_ones(shape_) == count_of_ones(result));

  std::vector<size_t> place_of(factors_.size());
  std::vector<size_t> ones;
  Shape middle;
  for (const Factor& factor : factors_) middle.push_back(factor.size);
  std::iota(place_of.begin(), place_of.end(), size_t{0});
  if (reads_source || !merges) {
    const Shape& places = reads_source ? shape_ : result;
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] != 1) continue;
      ones.push_back(i);
      middle.insert(middle.begin() + static_cast<std::ptrdiff_t>(i), Dim(1));
      for (size_t& place : place_of) place += place >= i ? 1 : 0;
    }
  }
  std::vector<size_t> perm;
  if (merges) perm = ones;
  size_t next_one = 0;
  for (const std::vector<size_t>& group : groups_) {
    if (group.empty() && !merges) perm.push_back(ones[next_one++]);
    for (const size_t factor : group) perm.push_back(place_of[factor]);
  }

  if (middle != shape_) steps.push_back({.op = "reshape", .attributes = {{"shape", Ints(middle)}}});
  Shape turned;
  for (const size_t axis : perm) turned.push_back(middle[axis]);
  steps.push_back({.op = "transpose", .attributes = {{"perm", Ints(perm.begin(), perm.end())}}});
  if (turned != result) steps.push_back({.op = "reshape", .attributes = {{"shape", Ints(result)}}});
}

std::vector<ViewChain::Step> ViewChain::steps() const {
  std::vector<Step> steps;
  for (const Cut& cut : cuts_) {
    steps.push_back(
        {.op = "narrow",
         .attributes = {
             {"axis", static_cast<int64_t>(cut.dim)}, {"start", cut.start}, {"len", cut.count}}});
  }
  const ViewChain all = joined();
  const std::vector<size_t> order = all.order();
  const Shape result = result_shape();
  if (!std::is_sorted(order.begin(), order.end())) {
    all.add_turn(steps);
  } else if (result != shape_) {
    steps.push_back({.op = "reshape", .attributes = {{"shape", Ints(result)}}});
  }
  return steps;
}

std::vector<std::string_view> ViewChain::ops() const {
  std::vector<std::string_view> ops;
  for (const Step& step : steps()) ops.emplace_back(step.op);
  return ops;
}

ValueId ViewChain::build(Graph& graph, NodeId position, ValueId source) const {
  NodeEmitter emitter(graph, position);
  for (Step& step : steps()) source = emitter.emit(step.op, {source}, std::move(step.attributes));
  return source;
}

void ViewChain::build_in_place(Graph& graph, NodeId last, ValueId source) const {
  std::vector<Step> all = steps();
  if (all.empty()) {
    graph.replace_uses(graph.node(last).outputs[0], source);
    return;
  }
  NodeEmitter emitter(graph, last);
  for (size_t i = 0; i + 1 < all.size(); ++i)
    source = emitter.emit(all[i].op, {source}, std::move(all[i].attributes));
  graph.change_node(last, [&](Node& node) {
    node.op = all.back().op;
    node.inputs = {source};
    node.attributes = std::move(all.back().attributes);
  });
}

std::optional<FoundChain> chain_before(const Graph& graph, ValueId end) {
  // From the end to the source.
  std::vector<ValueId> values = {end};
  while (values.size() <= kMostNodes) {
    const Node* node = producer_of(graph, values.back());
    if (node == nullptr || !is_chained_view(*node)) break;
    values.push_back(*node->inputs[0]);
  }
  for (size_t length = values.size() - 1; length > 0; --length) {
    std::optional<ViewChain> chain = ViewChain::of(graph.value(values[length]).type);
    FoundChain found{.chain = {}, .source = values[length], .ops = {}};
    for (size_t i = length; chain && i-- > 0;) {
      const Node& node = *producer_of(graph, values[i]);
      if (!chain->append(graph, node, values[i])) chain.reset();
      found.ops.emplace_back(is_reshaping(node) ? "reshape" : std::string_view(node.op));
      found.is_shared = found.is_shared || (i > 0 && !sole_reader(graph, values[i]));
    }
    if (!chain) continue;
    found.chain = std::move(*chain);
    return found;
  }
  return std::nullopt;
}

namespace {

// An axis of one element that a reshape inserts to be repeated stays where those who know repeated
// heads look for it: in front of the repetition.
bool inserts_repeated_axis(const Graph& graph, const Node& node) {
  if (!is_reshaping(node)) return false;
  const std::vector<NodeId> readers = graph.readers(node.outputs[0]);
  return std::any_of(readers.begin(), readers.end(), [&graph](NodeId id) {
    const Node& reader = graph.node(id);
    return reader.op == OpId::expand || reader.op == OpId::tile;
  });
}

}  // namespace

bool merge_views(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!is_reshaping(node) && node.op != OpId::transpose) return false;
  if (inserts_repeated_axis(graph, node)) return false;
  const std::optional<FoundChain> found = chain_before(graph, node.outputs[0]);
  if (!found) return false;
  const std::vector<std::string_view> ops = found->chain.ops();
  const bool is_fewer = ops.size() < found->ops.size();
  // Of a reshape and a transpose those that change places.
  const bool is_in_order = found->ops.size() != 2 || ops == found->ops || found->is_shared;
  if (!is_fewer && (is_in_order || ops.size() > 2)) return false;
  // What is copied once for several readers would be copied for each of them.
  if (found->is_shared && found->chain.cost() == ViewChain::Cost::Copy) return false;
  found->chain.build_in_place(graph, id, found->source);
  return true;
}

}  // namespace rlx
