// SPDX-License-Identifier: Apache-2.0
// Rotary embeddings that a model writes out become rope: x * cos + rotated(x) * sin with halves or
// pairs that change places, or the halves by themselves. Tables have a row for each token; where
// they are as wide as a head, what they repeat is read once.
#include <algorithm>

#include "compiler/ops/op_id.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

constexpr int kMostTableNodes = 32;  // from a table up to where it repeats itself

enum class RopeStyle : uint8_t { Halves, Pairs };

struct WrittenRope {
  ValueId x{};  // [batch, heads, tokens, dim], or tokens before heads
  ValueId cos{};
  ValueId sin{};
  RopeStyle style = RopeStyle::Halves;
  bool is_whole = false;     // tables as wide as a head
  bool is_by_token = false;  // tokens before heads
  int64_t head_dim = 0;
  int64_t rotated = 0;  // dims, from the first on
  ValueId result{};
};

// Elements first, first + step, .. of the last axis.
struct LastAxisPart {
  ValueId x{};
  int64_t first = 0;
  int64_t step = 1;
  int64_t count = 0;
};

class RopeReader {
 public:
  RopeReader(const Module& module, const Graph& graph) : module_(module), graph_(graph) {}

  std::optional<WrittenRope> read(const Node& node) {
    const bool is_seen = node.op == OpId::add      ? read_rotation(node)
                         : node.op == OpId::concat ? read_halves(node)
                                                   : false;
    if (!is_seen || !fits()) return std::nullopt;
    read_rest();
    return found_;
  }

 private:
  [[nodiscard]] const Shape& shape_of(ValueId id) const { return graph_.value(id).type.shape; }
  [[nodiscard]] const Node* inner(ValueId id) const {
    return sole_reader(graph_, id) ? producer_of(graph_, id) : nullptr;
  }

  // ---- parts of x ----

  [[nodiscard]] std::optional<LastAxisPart> part_of(ValueId id) const {
    const Node* node = producer_of(graph_, id);
    if (node == nullptr) return std::nullopt;
    const Shape& from = shape_of(*node->inputs[0]);
    const Shape& to = shape_of(id);
    if (from.empty() || from.size() != to.size() || from.back().is_free() || to.back().is_free() ||
        !std::equal(from.begin(), from.end() - 1, to.begin()))
      return std::nullopt;
    LastAxisPart part{.x = *node->inputs[0], .first = 0, .step = 1, .count = to.back()};
    if (node->op == OpId::split) {
      for (uint32_t i = 0; node->outputs[i] != id; ++i)
        part.first += shape_of(node->outputs[i]).back();
      return part;
    }
    if (node->op != OpId::slice && node->op != OpId::narrow) return std::nullopt;
    if (node->inputs.size() != 1) return std::nullopt;
    const int64_t size = from.back();
    if (node->op == OpId::narrow) {
      // A start that the run gives is no part of a fixed form.
      if (std::holds_alternative<Ints>(node->attributes.at("start"))) return std::nullopt;
      part.first = node_integer(*node, "start");
    } else {
      const std::optional<size_t> at = index_of_last_axis(*node, from.size());
      if (!at || !goes_forward(*node, *at)) return std::nullopt;
      part.first = list_item(*node, "starts", *at, 0);
      part.step = list_item(*node, "steps", *at, 1);
    }
    if (part.first < 0) part.first += size;
    const bool lies_inside =
        part.step > 0 && part.first >= 0 && part.first + (part.count - 1) * part.step < size;
    return lies_inside ? std::optional(part) : std::nullopt;
  }

  [[nodiscard]] static std::optional<size_t> index_of_last_axis(const Node& node, size_t rank) {
    const auto axes = node.attributes.find("axes");
    if (axes == node.attributes.end()) return rank - 1;
    const Ints& list = std::get<Ints>(axes->second);
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i] == -1 || list[i] == static_cast<int64_t>(rank) - 1) return i;
    }
    return std::nullopt;
  }
  // No other axis than that is reversed.
  [[nodiscard]] static bool goes_forward(const Node& node, size_t last_axis) {
    const auto found = node.attributes.find("steps");
    if (found == node.attributes.end()) return true;
    const Ints& steps = std::get<Ints>(found->second);
    for (size_t i = 0; i < steps.size(); ++i) {
      if (i != last_axis && steps[i] != 1) return false;
    }
    return true;
  }
  [[nodiscard]] static int64_t list_item(const Node& node, const char* name, size_t i,
                                         int64_t absent) {
    const auto found = node.attributes.find(name);
    if (found == node.attributes.end()) return absent;
    return std::get<Ints>(found->second).at(i);
  }

  // True for a concat of two parts along the last axis.
  [[nodiscard]] static bool joins_two(const Graph& graph, const Node& node) {
    if (node.op != OpId::concat || node.inputs.size() != 2) return false;
    const auto rank = static_cast<int64_t>(graph.value(node.outputs[0]).type.shape.size());
    const int64_t axis = node_integer(node, "axis");
    return axis == -1 || axis == rank - 1;
  }

  // The two halves of x in the order in which a node joins them, or its even and odd elements.
  // Interleaved parts stand side by side on an axis of their own.
  struct JoinedParts {
    ValueId first{};
    ValueId second{};
    RopeStyle style = RopeStyle::Halves;
  };
  [[nodiscard]] std::optional<JoinedParts> parts_of(const Node& node) const {
    const Node* join = &node;
    if (is_reshaping(node)) join = inner(*node.inputs[0]);
    if (join == nullptr || !joins_two(graph_, *join)) return std::nullopt;
    JoinedParts parts{.first = *join->inputs[0], .second = *join->inputs[1]};
    if (join == &node) return parts;
    const Shape& whole = shape_of(node.outputs[0]);
    Shape pairs = whole;
    pairs.back() = pairs.back() / 2;
    pairs.push_back(2);
    if (shape_of(join->outputs[0]) != pairs) return std::nullopt;
    parts.style = RopeStyle::Pairs;
    for (ValueId* part : {&parts.first, &parts.second}) {
      const Node* view = inner(*part);
      if (view == nullptr || !is_reshaping(*view)) return std::nullopt;
      *part = *view->inputs[0];
      if (shape_of(*part).back() != pairs[pairs.size() - 2]) return std::nullopt;
    }
    return parts;
  }

  // True where `a` and `b` are the halves of one tensor, or its even and odd elements; gives it.
  [[nodiscard]] std::optional<ValueId> whole_of(ValueId a, ValueId b, RopeStyle style) const {
    const std::optional<LastAxisPart> first = part_of(a);
    const std::optional<LastAxisPart> second = part_of(b);
    if (!first || !second || first->x != second->x) return std::nullopt;
    const int64_t half = first->count;
    const bool halves = style == RopeStyle::Halves;
    const bool fits = second->count == half && shape_of(first->x).back() == 2 * half &&
                      first->first == 0 && second->first == (halves ? half : 1) &&
                      first->step == (halves ? 1 : 2) && second->step == first->step;
    return fits ? std::optional(first->x) : std::nullopt;
  }

  // ---- x * cos + rotated * sin ----

  // `node` joins -x2 and x1; gives x.
  [[nodiscard]] std::optional<ValueId> unrotated(const Node& node, RopeStyle& style) const {
    const std::optional<JoinedParts> parts = parts_of(node);
    const Node* negated = parts ? inner(parts->first) : nullptr;
    if (negated == nullptr) return std::nullopt;
    const std::optional<Scaled> scaled = scaled_of(module_, graph_, *negated);
    std::optional<ValueId> second;
    if (negated->op == OpId::neg) second = negated->inputs[0];
    if (scaled && scaled->factor == -1) second = scaled->x;
    style = parts->style;
    return second ? whole_of(parts->second, *second, style) : std::nullopt;
  }

  bool read_rotation(const Node& node) {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const Node* by_cos = inner(*node.inputs[i]);
      const Node* by_sin = inner(*node.inputs[1 - i]);
      if (by_cos == nullptr || by_sin == nullptr || by_cos->op != OpId::mul ||
          by_sin->op != OpId::mul)
        continue;
      for (const size_t k : {size_t{0}, size_t{1}}) {
        const Node* rotated = inner(*by_sin->inputs[k]);
        const auto x = rotated ? unrotated(*rotated, found_.style) : std::nullopt;
        if (!x || (by_cos->inputs[0] != *x && by_cos->inputs[1] != *x)) continue;
        found_.x = *x;
        found_.sin = *by_sin->inputs[1 - k];
        found_.cos = *by_cos->inputs[by_cos->inputs[0] == *x ? 1 : 0];
        found_.is_whole = true;
        found_.result = node.outputs[0];
        return repeats(found_.cos) && repeats(found_.sin);
      }
    }
    return false;
  }

  // ---- halves by themselves ----

  // a and b of node = mul(a, b), in this order or the other.
  struct Product {
    ValueId a{};
    ValueId b{};
  };
  [[nodiscard]] std::optional<Product> product_read_once(ValueId id) const {
    const Node* node = inner(id);
    if (node == nullptr || node->op != OpId::mul) return std::nullopt;
    return Product{.a = *node->inputs[0], .b = *node->inputs[1]};
  }

  // concat(x1 * cos - x2 * sin, x2 * cos + x1 * sin)
  bool read_halves(const Node& node) {
    const std::optional<JoinedParts> parts = parts_of(node);
    const Node* difference = parts ? inner(parts->first) : nullptr;
    const Node* sum = parts ? inner(parts->second) : nullptr;
    if (difference == nullptr || sum == nullptr || difference->op != OpId::sub ||
        sum->op != OpId::add)
      return false;
    const auto x1_cos = product_read_once(*difference->inputs[0]);
    const auto x2_sin = product_read_once(*difference->inputs[1]);
    if (!x1_cos || !x2_sin) return false;
    for (const bool swaps_first : {false, true}) {
      for (const bool swaps_second : {false, true}) {
        const ValueId x1 = swaps_first ? x1_cos->b : x1_cos->a;
        const ValueId cos = swaps_first ? x1_cos->a : x1_cos->b;
        const ValueId x2 = swaps_second ? x2_sin->b : x2_sin->a;
        const ValueId sin = swaps_second ? x2_sin->a : x2_sin->b;
        const auto x = whole_of(x1, x2, parts->style);
        if (!x || !is_sum_of(*sum, {x2, cos}, {x1, sin})) continue;
        found_.x = *x;
        found_.cos = cos;
        found_.sin = sin;
        found_.style = parts->style;
        found_.result = node.outputs[0];
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] bool is_sum_of(const Node& sum, const Product& p, const Product& q) const {
    const auto first = product_read_once(*sum.inputs[0]);
    const auto second = product_read_once(*sum.inputs[1]);
    if (!first || !second) return false;
    const auto same = [](const Product& a, const Product& b) {
      return (a.a == b.a && a.b == b.b) || (a.a == b.b && a.b == b.a);
    };
    return (same(*first, p) && same(*second, q)) || (same(*first, q) && same(*second, p));
  }

  // ---- tables ----

  // Entries of a table as wide as a head: the second half as the first, or each twice.
  [[nodiscard]] bool repeats(ValueId id) const {
    const bool halves = found_.style == RopeStyle::Halves;
    for (int i = 0; i < kMostTableNodes; ++i) {
      const Node* node = producer_of(graph_, id);
      if (node == nullptr) break;
      const Shape& shape = shape_of(id);
      if (halves && joins_two(graph_, *node) && node->inputs[0] == node->inputs[1]) return true;
      if (!halves && repeats_each(*node)) return true;
      const std::optional<Scaled> scaled = scaled_of(module_, graph_, *node);
      const ValueId from = scaled ? scaled->x : *node->inputs[0];
      const bool goes_on = scaled || node->op == OpId::cos || node->op == OpId::sin ||
                           node->op == OpId::cast || is_reshaping(*node) ||
                           node->op == OpId::expand || takes_rows(*node);
      if (!goes_on || shape_of(from).empty() || shape_of(from).back() != shape.back()) return false;
      id = from;
    }
    return repeats_in_constant(id);
  }

  // Rows of a table of two axes, as they are.
  [[nodiscard]] bool takes_rows(const Node& node) const {
    if (node.op == OpId::slice || node.op == OpId::narrow) {
      return node.inputs.size() == 1 &&
             shape_of(*node.inputs[0]).back() == shape_of(node.outputs[0]).back() &&
             !part_with_steps(node);
    }
    return node.op == OpId::gather && node_integer(node, "axis") == 0 &&
           shape_of(*node.inputs[0]).size() == 2;
  }
  [[nodiscard]] static bool part_with_steps(const Node& node) {
    return node.attributes.contains("steps");
  }

  [[nodiscard]] bool repeats_each(const Node& node) const {
    const auto rank = static_cast<int64_t>(shape_of(node.outputs[0]).size());
    if (node.op == OpId::repeat_interleave) {
      const int64_t axis = node_integer(node, "axis");
      return (axis == -1 || axis == rank - 1) && node_integer(node, "repeats") == 2;
    }
    const Node* copies = is_reshaping(node) ? producer_of(graph_, *node.inputs[0]) : nullptr;
    if (copies == nullptr) return false;
    Shape pairs = shape_of(node.outputs[0]);
    pairs.back() = pairs.back() / 2;
    pairs.push_back(2);
    if (shape_of(copies->outputs[0]) != pairs) return false;
    if (joins_two(graph_, *copies)) return copies->inputs[0] == copies->inputs[1];
    return (copies->op == OpId::expand || copies->op == OpId::tile) &&
           shape_of(*copies->inputs[0]).back() == 1;
  }

  [[nodiscard]] bool repeats_in_constant(ValueId id) const {
    const Weight* weight = weight_of(module_, graph_, id);
    if (weight == nullptr || !is_known(*weight) || !is_float(weight->type.dtype) ||
        weight->type.shape.empty())
      return false;
    const Tensor table = weight_tensor(module_, *weight);
    const auto width = static_cast<size_t>(weight->type.shape.back().bound());
    const bool halves = found_.style == RopeStyle::Halves;
    for (size_t i = 0; i < table.floats.size(); ++i) {
      const size_t column = i % width;
      const size_t twin = halves ? i - column + column % (width / 2) : i - column % 2;
      if (table.floats[i] != table.floats[twin]) return false;
    }
    return width % 2 == 0 && !table.floats.empty();
  }

  // ---- sizes ----

  // The table lies along tokens, whatever the head.
  [[nodiscard]] bool lies_along(ValueId table, size_t tokens, size_t heads) const {
    Shape shape = shape_of(table);
    if (shape.empty() || shape.size() > 4) return false;
    shape.insert(shape.begin(), 4 - shape.size(), 1);
    const Shape& x = shape_of(found_.x);
    const Dim width = found_.is_whole ? Dim(found_.rotated) : Dim(found_.rotated / 2);
    // A table by position has a row at every size.
    const bool has_rows = shape[0] != 1 || x[tokens].range().least > 0;
    return has_rows && shape[heads] == 1 && shape[tokens] == x[tokens] &&
           (shape[0] == 1 || shape[0] == x[0]) && shape[3] == width;
  }

  bool fits() {
    const TensorType& x = graph_.value(found_.x).type;
    if (x.shape.size() != 4 || x != graph_.value(found_.result).type || x.dtype == DType::f64)
      return false;
    if (x.shape[3].is_free() || x.shape[3] % 2 != 0) return false;
    found_.head_dim = found_.rotated = x.shape[3];
    if (graph_.value(found_.cos).type != graph_.value(found_.sin).type) return false;
    for (const bool by_token : {false, true}) {
      const size_t tokens = by_token ? 1 : 2;
      if (!lies_along(found_.cos, tokens, 3 - tokens)) continue;
      found_.is_by_token = by_token;
      return true;
    }
    return false;
  }

  // concat(rope(x0[.. n]), x0[n ..]): the dims behind the rotated ones stay.
  void read_rest() {
    const std::optional<NodeId> reader = sole_reader(graph_, found_.result);
    const std::optional<LastAxisPart> first = part_of(found_.x);
    if (!reader || !first || first->first != 0 || first->step != 1) return;
    const Node& join = graph_.node(*reader);
    if (!joins_two(graph_, join) || join.inputs[0] != found_.result) return;
    const std::optional<LastAxisPart> rest = part_of(*join.inputs[1]);
    const Dim dim = shape_of(join.outputs[0]).back();
    if (!rest || rest->x != first->x || rest->first != found_.rotated || rest->step != 1 ||
        shape_of(first->x).back() != dim || dim.is_free())
      return;
    found_.x = first->x;
    found_.head_dim = dim;
    found_.result = join.outputs[0];
  }

  const Module& module_;
  const Graph& graph_;
  WrittenRope found_;
};

class RopeBuilder {
 public:
  RopeBuilder(Graph& graph, const WrittenRope& rope)
      : graph_(graph), rope_(rope), emitter_(graph, *graph.value(rope.result).producer) {}

  void build() {
    ValueId x = rope_.x;
    bool by_token = rope_.is_by_token;
    // As the heads were made: their other order is a view of it.
    const Node* turn = producer_of(graph_, x);
    const bool turns = turn != nullptr && turn->op == OpId::transpose &&
                       permutation_of(graph_, *turn) == std::vector<size_t>{0, 2, 1, 3};
    if (turns) {
      x = *turn->inputs[0];
      by_token = !by_token;
    }
    Attributes attributes = {
        {"head_dim", rope_.head_dim},
        {"style", std::string(rope_.style == RopeStyle::Halves ? "neox" : "gptj")},
        {"layout", std::string(by_token ? "bshd" : "bhsd")}};
    if (rope_.rotated != rope_.head_dim) attributes["n_rot"] = rope_.rotated;
    ValueId y =
        emitter_.emit("rope", {x, table(rope_.cos), table(rope_.sin)}, std::move(attributes));
    if (turns) y = emitter_.emit("transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}});
    graph_.replace_uses(rope_.result, y);
  }

 private:
  // A row for each token: [tokens, width] for all of the batch, or [batch, tokens, width].
  ValueId table(ValueId value) {
    const Shape& x = emitter_.type(rope_.x).shape;
    const Dim tokens = x[rope_.is_by_token ? 1 : 2];
    const Shape from = emitter_.type(value).shape;
    const bool for_all = from.size() < 4 || from[0] == 1;
    Shape shape = {tokens, from.back()};
    if (!for_all) shape.insert(shape.begin(), x[0]);
    value = emitter_.reshape(value, shape);
    if (!rope_.is_whole || rope_.style == RopeStyle::Halves) return value;
    return emitter_.emit("slice", {value},
                         {{"axes", Ints{-1}},
                          {"starts", Ints{0}},
                          {"ends", Ints{rope_.rotated}},
                          {"steps", Ints{2}}});
  }

  Graph& graph_;
  const WrittenRope& rope_;
  NodeEmitter emitter_;
};

}  // namespace

size_t see_rope(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      const std::optional<WrittenRope> rope =
          decided_at_all_sizes([&] { return RopeReader(module, graph).read(graph.node(id)); });
      if (!rope) continue;
      RopeBuilder(graph, *rope).build();
      ++changed;
    }
  }
  // What was seen reads no more: it would stand between other patterns and their values.
  if (changed > 0) remove_dead(module, options, diagnostics);
  return changed;
}

}  // namespace rlx
