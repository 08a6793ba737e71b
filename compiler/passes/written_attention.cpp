// SPDX-License-Identifier: Apache-2.0
// From a softmax up to the product of queries and keys, and down to that with the values.
#include "compiler/passes/written_attention.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/op_id.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"

namespace rlx {
namespace {

constexpr int64_t kMostHeadDim = 512;  // of the op

Dim count_of(const Shape& shape, size_t first, size_t last) {
  return element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(first),
                             shape.begin() + static_cast<std::ptrdiff_t>(last)));
}

// Scores of one shape under another: the last two axes stay.
bool keeps_scores(const Shape& from, const Shape& to) {
  return from.size() >= 3 && to.size() >= 3 && from[from.size() - 1] == to[to.size() - 1] &&
         from[from.size() - 2] == to[to.size() - 2];
}

// True where axis `at` of `merged` is axes `at` and `at` + 1 of `split`, and all others are the
// same.
bool merges_at(const Shape& split, const Shape& merged, size_t at) {
  if (split.size() != merged.size() + 1) return false;
  Shape joined = split;
  joined[at] = split[at] * split[at + 1];
  joined.erase(joined.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  return joined == merged;
}

class AttentionReader {
 public:
  AttentionReader(const Module& module, const Graph& graph, const Node& softmax)
      : module_(module), graph_(graph), softmax_(softmax) {}

  std::optional<WrittenAttention> read() {
    const Shape& shape = shape_of(softmax_.outputs[0]);
    const int64_t axis = node_integer(softmax_, "axis");
    const auto rank = static_cast<int64_t>(shape.size());
    if (rank < 3 || (axis != -1 && axis != rank - 1)) return std::nullopt;
    if (!walk_up(before_sinks(), 1) || !walk_down() || !read_sizes()) return std::nullopt;
    return found_;
  }

 private:
  [[nodiscard]] const Shape& shape_of(ValueId id) const { return graph_.value(id).type.shape; }

  // ---- a column of sinks ----

  // The scores that a column was joined to, or the softmax's input itself.
  ValueId before_sinks() {
    const ValueId input = *softmax_.inputs[0];
    const ValueId joined = before_shift(input);
    const Node* node = producer_of(graph_, joined);
    const Shape& shape = shape_of(joined);
    const bool is_column = node != nullptr && node->op == OpId::concat &&
                           node->inputs.size() == 2 && shape.size() == 4 &&
                           axis_of(*node, shape.size()) == 3 &&
                           (joined != input || sole_reader(graph_, joined));
    if (!is_column) return input;
    const size_t column = shape_of(*node->inputs[0])[3] == 1 ? 0 : 1;
    if (shape_of(*node->inputs[column])[3] != 1) return input;
    found_.sinks = *node->inputs[column];
    while (const Node* copies = producer_of(graph_, *found_.sinks)) {
      if (copies->op != OpId::expand) break;
      found_.sinks = *copies->inputs[0];
    }
    scores_from_ = column == 0 ? 1 : 0;
    return *node->inputs[1 - column];
  }

  // x of x - max(x), which softmax does not tell from x.
  [[nodiscard]] ValueId before_shift(ValueId id) const {
    const Node* shift = sole_reader(graph_, id) ? producer_of(graph_, id) : nullptr;
    if (shift == nullptr || shift->op != OpId::sub) return id;
    const ValueId x = *shift->inputs[0];
    const Node* top = producer_of(graph_, *shift->inputs[1]);
    const bool is_alone = top != nullptr && top->op == OpId::reduce_max && top->inputs[0] == x &&
                          graph_.reader_count(x) == 2 && !graph_.is_output(x) &&
                          sole_reader(graph_, top->outputs[0]) && node_flag(*top, "keep_dims");
    if (!is_alone) return id;
    const auto axes = top->attributes.find("axes");
    if (axes == top->attributes.end()) return id;
    const Ints& tops = std::get<Ints>(axes->second);
    const auto last = static_cast<int64_t>(shape_of(x).size()) - 1;
    return tops == Ints{last} || tops == Ints{-1} ? x : id;
  }

  // Weights without the column of sinks.
  [[nodiscard]] bool drops_sinks(const Node& node) const {
    if (!found_.sinks || drops_sinks_) return false;
    const std::optional<CutStart> cut = cut_start_of(graph_, node);
    const Shape& shape = shape_of(node.outputs[0]);
    return cut && cut->axis == 3 && cut->start == Dim(scores_from_) && shape.size() == 4 &&
           shape[3] == found_.kv_tokens;
  }

  // ---- from the softmax to q and k ----

  // `factor`: of what is at `at` in the softmax's input.
  bool walk_up(ValueId at, double factor) {
    const Node* node = sole_reader(graph_, at) ? producer_of(graph_, at) : nullptr;
    if (node == nullptr) return false;
    if (node->op == OpId::matmul) return read_scores(*node, factor);
    if (const std::optional<Scaled> scaled = scaled_of(module_, graph_, *node))
      return walk_up(scaled->x, factor * scaled->factor);
    if (is_float_cast(graph_, *node)) return walk_up(*node->inputs[0], factor);
    if (is_reshaping(*node) && keeps_scores(shape_of(*node->inputs[0]), shape_of(at))) {
      note_split(shape_of(at));
      return walk_up(*node->inputs[0], factor);
    }
    if (is_capped()) return false;  // masks stand behind the cap
    if (node->op == OpId::tanh && factor > 0) {
      found_.softcap = factor;
      return walk_up(*node->inputs[0], 1);
    }
    return take_sum(*node, factor) || take_where(*node, factor);
  }

  // Scores and what is added to them: they are the operand that comes from a product.
  bool take_sum(const Node& node, double factor) {
    if (node.op != OpId::add) return false;
    const WrittenAttention before = found_;
    const std::optional<Shape> split = split_;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      if (!is_whole(*node.inputs[i], node)) continue;
      found_.masks.push_back(
          {.value = *node.inputs[1 - i], .factor = factor, .scores = shape_of(node.outputs[0])});
      if (walk_up(*node.inputs[i], factor)) return true;
      found_ = before;
      split_ = split;
    }
    return false;
  }

  bool take_where(const Node& node, double factor) {
    if (node.op != OpId::where) return false;
    for (const size_t scores : {size_t{1}, size_t{2}}) {
      const std::optional<double> number = known_number(module_, graph_, *node.inputs[3 - scores]);
      if (!number || !is_whole(*node.inputs[scores], node)) continue;
      found_.masks.push_back({.value = *node.inputs[0],
                              .is_condition = true,
                              .is_inverted = scores == 2,
                              .replacement = *number * factor,
                              .scores = shape_of(node.outputs[0])});
      return walk_up(*node.inputs[scores], factor);
    }
    return false;
  }

  [[nodiscard]] bool is_whole(ValueId id, const Node& node) const {
    return graph_.value(id).type == graph_.value(node.outputs[0]).type;
  }
  [[nodiscard]] bool is_capped() const { return found_.softcap > 0; }

  // Batch and heads, where scores or operands show them apart.
  void note_split(const Shape& shape) {
    if (shape.size() != 4 || split_) return;
    split_ = Shape{shape[0], shape[1]};
  }

  // Both operands have the axes of the result: no matrix is shared by the batch.
  [[nodiscard]] bool multiplies_alike(const Node& product) const {
    const size_t rank = shape_of(product.outputs[0]).size();
    return !node_flag(product, "trans_a") && shape_of(*product.inputs[0]).size() == rank &&
           shape_of(*product.inputs[1]).size() == rank;
  }

  bool read_scores(const Node& product, double factor) {
    const Shape& shape = shape_of(product.outputs[0]);
    if (shape.size() < 3 || shape.size() > 4 || !multiplies_alike(product)) return false;
    if (shape.size() == 4) split_ = Shape{shape[0], shape[1]};
    const bool is_split = shape.size() == 4;
    const std::string k_axes = node_flag(product, "trans_b") ? "sd" : "ds";
    found_.q = {.value = *product.inputs[0], .axes = is_split ? "bhsd" : "nsd"};
    found_.k = {.value = *product.inputs[1], .axes = (is_split ? "bh" : "n") + k_axes};
    found_.scale = is_capped() ? factor * found_.softcap : factor;
    found_.q_tokens = shape[shape.size() - 2];
    found_.kv_tokens = shape[shape.size() - 1];
    trace(found_.q, true);
    trace(found_.k, true);
    return true;
  }

  // Looks through views and, of q and k, factors.
  void trace(WrittenHeads& heads, bool takes_factors) {
    while (const Node* node = producer_of(graph_, heads.value)) {
      if (shape_of(heads.value).size() != heads.axes.size()) return;
      if (node->op == OpId::transpose) {
        const std::vector<size_t> perm = permutation_of(graph_, *node);
        std::string axes = heads.axes;
        for (size_t i = 0; i < perm.size(); ++i) axes[perm[i]] = heads.axes[i];
        heads = {.value = *node->inputs[0], .axes = axes};
        continue;
      }
      const std::optional<Scaled> scaled =
          takes_factors ? scaled_of(module_, graph_, *node) : std::nullopt;
      if (scaled) {
        found_.scale *= scaled->factor;
        heads.value = scaled->x;
        continue;
      }
      if (!is_reshaping(*node) || !trace_reshape(heads, *node)) return;
    }
  }

  // [batch, head, ...] as [batch * head, ...].
  bool trace_reshape(WrittenHeads& heads, const Node& node) {
    const ValueId from = *node.inputs[0];
    const Shape& shape = shape_of(from);
    const size_t axis = heads.axes.find('n');
    if (axis == std::string::npos || !merges_at(shape, shape_of(heads.value), axis)) return false;
    const Shape split = {shape[axis], shape[axis + 1]};
    if (split_.value_or(split) != split) return false;
    split_ = split;
    heads.value = from;
    heads.axes.replace(axis, 1, "bh");
    return true;
  }

  // ---- from the softmax to v ----

  bool walk_down() {
    ValueId at = softmax_.outputs[0];
    while (const Node* node = next_reader(at)) {
      if (node->op == OpId::matmul)
        return found_.sinks.has_value() == drops_sinks_ && read_product(*node, at);
      const ValueId result = node->outputs[0];
      if (drops_sinks(*node)) {
        drops_sinks_ = true;
        at = result;
        continue;
      }
      const bool goes_on = is_float_cast(graph_, *node) || is_guard(*node, at) ||
                           (is_reshaping(*node) && keeps_scores(shape_of(at), shape_of(result)));
      if (!goes_on) return false;
      note_split(shape_of(result));
      at = result;
    }
    return false;
  }

  // Who alone reads a value, but for an is_nan that guards it.
  [[nodiscard]] const Node* next_reader(ValueId id) const {
    if (graph_.is_output(id)) return nullptr;
    const Node* found = nullptr;
    for (const NodeId reader : graph_.readers(id)) {
      const Node& node = graph_.node(reader);
      if (node.op == OpId::is_nan && sole_reader(graph_, node.outputs[0])) continue;
      if (found != nullptr) return nullptr;
      found = &node;
    }
    const bool is_guarded = graph_.reader_count(id) > 1;
    return found != nullptr && (!is_guarded || is_guard(*found, id)) ? found : nullptr;
  }

  // where(is_nan(x), 0, x): the op gives 0 where no key counts.
  [[nodiscard]] bool is_guard(const Node& node, ValueId x) const {
    if (node.op != OpId::where || *node.inputs[2] != x) return false;
    const Node* condition = producer_of(graph_, *node.inputs[0]);
    return condition != nullptr && condition->op == OpId::is_nan && condition->inputs[0] == x &&
           graph_.value(x).type == graph_.value(node.outputs[0]).type &&
           known_number(module_, graph_, *node.inputs[1]) == 0.0;
  }

  bool read_product(const Node& product, ValueId weights) {
    const Shape& shape = shape_of(weights);
    const bool plain = *product.inputs[0] == weights && *product.inputs[1] != weights &&
                       multiplies_alike(product) && (shape.size() == 3 || shape.size() == 4);
    if (!plain) return false;
    const std::string axes = node_flag(product, "trans_b") ? "ds" : "sd";
    found_.v = {.value = *product.inputs[1], .axes = (shape.size() == 4 ? "bh" : "n") + axes};
    if (shape.size() == 4) note_split(shape);
    trace(found_.v, false);
    found_.product = *graph_.value(product.outputs[0]).producer;
    found_.result = product.outputs[0];
    return true;
  }

  // ---- sizes ----

  // What the result's readers make of it: [batch, token, head, dim], where it is only that.
  void read_result() {
    const Shape by_head = {found_.batch, found_.heads, found_.q_tokens, found_.v_head_dim};
    for (;;) {
      const std::optional<NodeId> reader = sole_reader(graph_, found_.result);
      if (!reader) return;
      const Node& node = graph_.node(*reader);
      const Shape& shape = shape_of(found_.result);
      if (is_reshaping(node) && shape.size() == 3 && shape_of(node.outputs[0]) == by_head) {
        found_.result = node.outputs[0];
        continue;
      }
      if (node.op != OpId::transpose) return;
      const std::vector<size_t> perm = permutation_of(graph_, node);
      const bool swaps_split = shape == by_head && perm == std::vector<size_t>{0, 2, 1, 3};
      const bool swaps_heads =
          shape.size() == 3 && found_.batch == 1 && perm == std::vector<size_t>{1, 0, 2};
      if (!swaps_split && !swaps_heads) return;
      found_.result = node.outputs[0];
      found_.is_by_token = true;
      return;
    }
  }

  // The size of an axis, or of what is left of it.
  [[nodiscard]] Dim size_of(const WrittenHeads& heads, char axis) const {
    const size_t at = heads.axes.find(axis);
    return at == std::string::npos ? Dim(-1) : shape_of(heads.value).at(at);
  }

  // Batch and head together are one axis: heads where it is a number, else batch.
  void split_whole() {
    const Dim whole = size_of(found_.q, 'n');
    split_ = whole.is_free() ? Shape{whole, 1} : Shape{1, whole};
  }

  [[nodiscard]] bool fits(const WrittenHeads& heads, const Dim& count, const Dim& tokens,
                          const Dim& dim) const {
    const bool is_whole = heads.axes.find('n') != std::string::npos;
    const bool leads = is_whole
                           ? size_of(heads, 'n') == found_.batch * count
                           : size_of(heads, 'b') == found_.batch && size_of(heads, 'h') == count;
    return leads && size_of(heads, 's') == tokens && size_of(heads, 'd') == dim;
  }

  bool read_sizes() {
    if (!split_) split_whole();
    // What the split was learnt from later.
    trace(found_.q, true);
    trace(found_.k, true);
    trace(found_.v, false);
    const Dim heads = (*split_)[1];
    const Dim dim = size_of(found_.q, 'd');
    const Dim v_dim = size_of(found_.v, 'd');
    const auto is_dim = [](const Dim& d) { return !d.is_free() && d >= 1 && d <= kMostHeadDim; };
    if (heads.is_free() || heads < 1 || !is_dim(dim) || !is_dim(v_dim)) return false;
    found_.batch = (*split_)[0];
    found_.heads = heads;
    found_.kv_heads = found_.heads;
    found_.head_dim = dim;
    found_.v_head_dim = v_dim;
    drop_repeats();
    if (!fits(found_.q, found_.heads, found_.q_tokens, found_.head_dim) ||
        !fits(found_.k, found_.kv_heads, found_.kv_tokens, found_.head_dim) ||
        !fits(found_.v, found_.kv_heads, found_.kv_tokens, found_.v_head_dim))
      return false;
    const DType q = graph_.value(found_.q.value).type.dtype;
    const auto dtype = [this](ValueId id) { return graph_.value(id).type.dtype; };
    if (dtype(found_.k.value) != q || dtype(found_.v.value) != q || dtype(found_.result) != q)
      return false;
    read_result();
    return std::isfinite(found_.scale) && fits_masks();
  }

  // Every mask stands where the scores have leading axes that are batch and heads.
  [[nodiscard]] bool fits_masks() const {
    return std::all_of(found_.masks.begin(), found_.masks.end(), [this](const WrittenMask& mask) {
      const Shape& scores = mask.scores;
      if (scores.size() < 3 || shape_of(mask.value).size() > scores.size()) return false;
      return count_of(scores, 0, scores.size() - 2) == found_.batch * found_.heads;
    });
  }

  // ---- grouped heads ----

  void drop_repeats() {
    const std::optional<RepeatedHeads> k = before_repeats(graph_, found_.k);
    const std::optional<RepeatedHeads> v = before_repeats(graph_, found_.v);
    const bool divides = k && v && k->count == v->count && k->count > 0 &&
                         k->count < found_.heads && found_.heads % k->count == 0;
    if (!divides) return;
    found_.k = k->heads;
    found_.v = v->heads;
    found_.kv_heads = k->count;
    trace(found_.k, true);
    trace(found_.v, false);
  }

  const Module& module_;
  const Graph& graph_;
  const Node& softmax_;
  WrittenAttention found_;
  std::optional<Shape> split_;  // batch, heads
  int64_t scores_from_ = 0;     // beside a column of sinks: where scores begin
  bool drops_sinks_ = false;
};

}  // namespace

std::optional<RepeatedHeads> before_repeats(const Graph& graph, const WrittenHeads& heads) {
  const auto shape_of = [&graph](ValueId id) -> const Shape& { return graph.value(id).type.shape; };
  const size_t axis = heads.axes.find('h');
  if (axis == std::string::npos) return std::nullopt;
  const Shape& shape = shape_of(heads.value);
  // One head that the product itself broadcasts.
  if (shape[axis] == 1) return RepeatedHeads{.heads = heads, .count = 1};
  const Node* node = producer_of(graph, heads.value);
  if (node == nullptr) return std::nullopt;
  if (node->op == OpId::repeat_interleave) {
    const int64_t at = node_integer(*node, "axis");
    const auto rank = static_cast<int64_t>(shape.size());
    const Dim before = shape_of(*node->inputs[0])[axis];
    if ((at < 0 ? at + rank : at) != static_cast<int64_t>(axis) || before.is_free())
      return std::nullopt;
    return RepeatedHeads{.heads = {.value = *node->inputs[0], .axes = heads.axes}, .count = before};
  }
  if (!is_reshaping(*node)) return std::nullopt;
  // The axis of repeats, 'r', behind that of heads; a transpose may stand between.
  ValueId wide = *node->inputs[0];
  if (!merges_at(shape_of(wide), shape, axis)) return std::nullopt;
  std::string axes = heads.axes;
  axes.insert(axis + 1, 1, 'r');
  const Node* copies = producer_of(graph, wide);
  if (copies != nullptr && copies->op == OpId::transpose) {
    const std::vector<size_t> perm = permutation_of(graph, *copies);
    std::string before = axes;
    for (size_t i = 0; i < perm.size(); ++i) before[perm[i]] = axes[i];
    axes = before;
    wide = *copies->inputs[0];
    copies = producer_of(graph, wide);
  }
  if (copies == nullptr || (copies->op != OpId::expand && copies->op != OpId::tile))
    return std::nullopt;
  const size_t repeats = axes.find('r');
  const Shape& narrow = shape_of(*copies->inputs[0]);
  Shape wanted = shape_of(wide);
  wanted[repeats] = 1;
  const Dim count = wanted[axes.find('h')];
  if (narrow != wanted || count.is_free()) return std::nullopt;
  wanted.erase(wanted.begin() + static_cast<std::ptrdiff_t>(repeats));
  axes.erase(repeats, 1);
  const Node* view = producer_of(graph, *copies->inputs[0]);
  if (view == nullptr || !is_reshaping(*view) || shape_of(*view->inputs[0]) != wanted)
    return std::nullopt;
  return RepeatedHeads{.heads = {.value = *view->inputs[0], .axes = axes}, .count = count};
}

std::optional<WrittenAttention> written_attention(const Module& module, const Graph& graph,
                                                  const Node& softmax) {
  return AttentionReader(module, graph, softmax).read();
}

}  // namespace rlx
