// SPDX-License-Identifier: Apache-2.0
// Norms that a model writes out become rms_norm and layer_norm, whose statistics stay in f32: the
// mean of squares over the last axes, eps, an inverse root, and the weights behind it. Casts around
// it go where both ends have one type. As TensorFlow writes a layer_norm, its weights are in the
// factor: x * f + (beta - mean * f). A factor and a summand behind a norm, whatever they vary over
// and whatever computes them, become its gamma and beta: the modulation x * (1 + scale) + shift of
// diffusion transformers, and residuals behind the norm.
#include <algorithm>

#include "compiler/ops/op_id.h"
#include "compiler/passes/chain.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

struct WrittenNorm {
  ValueId x{};
  bool is_centred = false;
  double eps = 0;
  size_t first_axis = 0;
  std::optional<ValueId> gamma;
  std::optional<ValueId> beta;
  ValueId result{};
};

class NormReader {
 public:
  NormReader(const Module& module, const Graph& graph) : module_(module), graph_(graph) {}

  // The norm that a node ends or begins; nullopt where it is none.
  std::optional<WrittenNorm> read(const Node& node) {
    found_.result = node.outputs[0];
    if (node.op == OpId::add) return read_with_weights(node) ? finished() : std::nullopt;
    if (node.op != OpId::mul && node.op != OpId::div) return std::nullopt;
    if (!read_product(node)) return std::nullopt;
    read_centring(node);
    read_tail();
    return finished();
  }

 private:
  [[nodiscard]] const TensorType& type(ValueId id) const { return graph_.value(id).type; }
  [[nodiscard]] const Node* producer(ValueId id) const { return producer_of(graph_, id); }
  // The producer of what has no other reader.
  [[nodiscard]] const Node* inner(ValueId id) const {
    return sole_reader(graph_, id) ? producer(id) : nullptr;
  }

  // ---- statistics ----

  // x of x * x.
  [[nodiscard]] std::optional<ValueId> root_of_square(ValueId id) const {
    const Node* node = inner(id);
    if (node == nullptr) return std::nullopt;
    return power_of(module_, graph_, *node) == 2 ? node->inputs[0] : std::nullopt;
  }

  // The first of the last axes over which a node takes the mean of `*x`.
  [[nodiscard]] std::optional<size_t> mean_axis(const Node* node) const {
    if (node == nullptr || node->op != OpId::reduce_mean) return std::nullopt;
    return reduced_axis(node);
  }

  // The first of the last axes that a node reduces to 1.
  [[nodiscard]] std::optional<size_t> reduced_axis(const Node* node) const {
    if (!node_flag(*node, "keep_dims")) return std::nullopt;
    const auto axes = node->attributes.find("axes");
    if (axes == node->attributes.end()) return std::nullopt;
    const size_t rank = type(*node->inputs[0]).shape.size();
    std::vector<size_t> sorted;
    for (const int64_t axis : std::get<Ints>(axes->second))
      sorted.push_back(static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis));
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != rank - sorted.size() + i) return std::nullopt;
    }
    return sorted.empty() ? std::nullopt : std::optional(sorted.front());
  }

  // sqrt(mean(x * x) + eps) or its inverse: notes eps, which may be missing, and the axes, gives x.
  // Of a variance, which is the mean of squares of what x is centred to, x as well.
  std::optional<ValueId> read_variance(ValueId id) {
    const Node* node = inner(id);
    const Shifted sum = (node ? shifted_of(module_, graph_, *node) : std::nullopt)
                            .value_or(Shifted{.x = id, .shift = 0});
    if (!(sum.shift >= 0)) return std::nullopt;
    const Node* mean = inner(sum.x);
    is_of_centred_ =
        mean != nullptr && mean->op == OpId::variance && node_integer(*mean, "correction") == 0;
    const std::optional<size_t> axis = is_of_centred_ ? reduced_axis(mean) : mean_axis(mean);
    if (!axis) return std::nullopt;
    found_.eps = sum.shift;
    found_.first_axis = *axis;
    return is_of_centred_ ? mean->inputs[0] : root_of_square(*mean->inputs[0]);
  }

  std::optional<ValueId> read_root(ValueId id) {
    const Node* node = inner(id);
    if (node == nullptr || node->op != OpId::sqrt) return std::nullopt;
    return read_variance(*node->inputs[0]);
  }

  // `node` makes 1 / sqrt(mean(x * x) + eps); gives x.
  std::optional<ValueId> read_inverse(const Node& node) {
    if (node.op == OpId::rsqrt) return read_variance(*node.inputs[0]);
    if (node.op == OpId::reciprocal) return read_root(*node.inputs[0]);
    if (node.op == OpId::div && known_number(module_, graph_, *node.inputs[0]) == 1.0)
      return read_root(*node.inputs[1]);
    if (power_of(module_, graph_, node) == -0.5) return read_variance(*node.inputs[0]);
    return std::nullopt;
  }

  // The inverse root, or its product with gamma; gives x.
  std::optional<ValueId> read_factor(const Node& node) {
    if (const auto x = read_inverse(node)) return x;
    if (node.op != OpId::mul) return std::nullopt;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const Node* inverse = inner(*node.inputs[i]);
      const auto x = inverse ? read_inverse(*inverse) : std::nullopt;
      if (!x || !is_affine(*node.inputs[1 - i], type(*x).shape)) continue;
      found_.gamma = node.inputs[1 - i];
      return x;
    }
    return std::nullopt;
  }

  // x / sqrt(..), or x * 1 / sqrt(..).
  bool read_product(const Node& node) {
    if (node.op == OpId::div) {
      const auto x = read_root(*node.inputs[1]);
      found_.x = *node.inputs[0];
      return x && is_scaled_by(*x);
    }
    for (const size_t i : {size_t{1}, size_t{0}}) {
      const Node* factor = inner(*node.inputs[i]);
      const auto x = factor ? read_factor(*factor) : std::nullopt;
      found_.x = *node.inputs[1 - i];
      if (x && is_scaled_by(*x)) return true;
      found_.gamma = std::nullopt;
    }
    return false;
  }

  // Whether found_.x is what the statistics are of: x, or its difference from its mean, which then
  // is what the norm centres.
  bool is_scaled_by(ValueId x) {
    if (!is_of_centred_) return found_.x == x;
    const Node* difference = producer(found_.x);
    if (difference == nullptr || difference->op != OpId::sub || difference->inputs[0] != x)
      return false;
    const Node* mean = producer(*difference->inputs[1]);
    if (mean_axis(mean) != found_.first_axis || mean->inputs[0] != x) return false;
    found_.x = x;
    found_.is_centred = true;
    return true;
  }

  // Where x is x0 - mean(x0), for the norm alone: that of x0 is a layer_norm.
  void read_centring(const Node& node) {
    if (found_.is_centred) return;
    const Node* difference = producer(found_.x);
    if (difference == nullptr || difference->op != OpId::sub || graph_.is_output(found_.x)) return;
    const Node* mean = inner(*difference->inputs[1]);
    const bool is_mean = mean != nullptr && mean_axis(mean) == found_.first_axis &&
                         mean->inputs[0] == difference->inputs[0];
    if (!is_mean || type(*difference->inputs[0]) != type(found_.x)) return;
    for (const NodeId reader : graph_.readers(found_.x)) {
      const Node& other = graph_.node(reader);
      if (&other != &node && power_of(module_, graph_, other) != 2) return;
    }
    found_.x = *difference->inputs[0];
    found_.is_centred = true;
  }

  // ---- weights ----

  // What varies over the normalised axes alone.
  [[nodiscard]] bool is_affine(ValueId id, const Shape& x) const {
    const Shape& shape = type(id).shape;
    const Shape axes(x.begin() + static_cast<std::ptrdiff_t>(found_.first_axis), x.end());
    size_t ones = 0;
    while (shape.size() - ones > axes.size() && shape[ones] == 1) ++ones;
    if (shape.size() - ones > axes.size()) return false;
    if (ones > 0 && weight_of(module_, graph_, id) == nullptr) return false;
    const Shape rest(shape.begin() + static_cast<std::ptrdiff_t>(ones), shape.end());
    return broadcast_shapes(rest, axes) == axes;
  }

  // Casts, gamma and beta behind the norm.
  void read_tail() {
    while (const std::optional<NodeId> id = sole_reader(graph_, found_.result)) {
      const Node& node = graph_.node(*id);
      const ValueId result = node.outputs[0];
      if (is_float_cast(graph_, node)) {
        if (!ends_cast(type(result).dtype)) return;
        found_.result = result;
        continue;
      }
      const bool scales = node.op == OpId::mul && !found_.gamma && !found_.beta;
      const bool shifts = node.op == OpId::add && !found_.beta;
      if (!scales && !shifts) return;
      const ValueId other = *node.inputs[node.inputs[0] == found_.result ? 1 : 0];
      if (other == found_.result || type(result) != type(found_.result) ||
          !is_affine(other, type(result).shape))
        return;
      (scales ? found_.gamma : found_.beta) = other;
      found_.result = result;
    }
  }

  // A cast back to what x was cast from: the op takes x as it was.
  bool ends_cast(DType to) {
    const Node* cast = producer(found_.x);
    if (cast == nullptr || !is_float_cast(graph_, *cast) || type(*cast->inputs[0]).dtype != to)
      return false;
    found_.x = *cast->inputs[0];
    return true;
  }

  // ---- the weights in the factor ----

  // mul(x, f) + (beta - mul(mean, f))
  bool read_with_weights(const Node& node) {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const Node* scaled = inner(*node.inputs[i]);
      const Node* shift = inner(*node.inputs[1 - i]);
      if (scaled == nullptr || shift == nullptr || scaled->op != OpId::mul ||
          shift->op != OpId::sub)
        continue;
      const Node* moved = inner(*shift->inputs[1]);
      if (moved == nullptr || moved->op != OpId::mul) continue;
      for (const size_t k : {size_t{0}, size_t{1}}) {
        if (read_parts(*scaled->inputs[1 - k], *scaled->inputs[k], *moved, *shift->inputs[0]))
          return true;
      }
    }
    return false;
  }

  // factor = gamma / sqrt(mean((x - mean)^2) + eps), read here and by moved = mean * factor.
  bool read_parts(ValueId x, ValueId factor, const Node& moved, ValueId beta) {
    const size_t by = moved.inputs[0] == factor ? 1 : 0;
    if (moved.inputs[1 - by] != factor || graph_.reader_count(factor) != 2 ||
        graph_.is_output(factor) || producer(factor) == nullptr)
      return false;
    const ValueId mean = *moved.inputs[by];
    found_.gamma = std::nullopt;
    const auto difference = read_factor(*producer(factor));
    if (is_of_centred_) return false;
    const Node* centred = difference ? producer(*difference) : nullptr;
    const bool fits = centred != nullptr && centred->op == OpId::sub && centred->inputs[0] == x &&
                      centred->inputs[1] == mean &&
                      mean_axis(producer(mean)) == found_.first_axis &&
                      producer(mean)->inputs[0] == x && graph_.reader_count(mean) == 2 &&
                      !graph_.is_output(mean) && !graph_.is_output(*difference);
    if (!fits || !is_affine(beta, type(x).shape)) return false;
    found_.x = x;
    found_.is_centred = true;
    found_.beta = beta;
    return true;
  }

  std::optional<WrittenNorm> finished() const {
    const Shape& shape = type(found_.x).shape;
    const bool is_fixed =
        std::none_of(shape.begin() + static_cast<std::ptrdiff_t>(found_.first_axis), shape.end(),
                     [](const Dim& dim) { return dim.is_free(); });
    const bool fits =
        is_fixed && is_float(type(found_.x).dtype) && type(found_.x) == type(found_.result);
    return fits ? std::optional(found_) : std::nullopt;
  }

  const Module& module_;
  const Graph& graph_;
  WrittenNorm found_;
  bool is_of_centred_ = false;  // the statistics that were read are a variance
};

void replace(Graph& graph, const WrittenNorm& norm) {
  NodeEmitter emitter(graph, *graph.value(norm.result).producer);
  const Shape x = emitter.type(norm.x).shape;
  // Of the normalised axes alone.
  const auto weight = [&](const std::optional<ValueId>& value) {
    if (!value) return value;
    const Shape shape = emitter.type(*value).shape;
    const size_t most = x.size() - norm.first_axis;
    const size_t ones = shape.size() > most ? shape.size() - most : 0;
    return std::optional(emitter.reshape(
        *value, Shape(shape.begin() + static_cast<std::ptrdiff_t>(ones), shape.end())));
  };
  std::vector<std::optional<ValueId>> inputs = {norm.x, weight(norm.gamma), weight(norm.beta)};
  while (!inputs.back()) inputs.pop_back();
  const ValueId y = emitter.emit(
      norm.is_centred ? "layer_norm" : "rms_norm", std::move(inputs),
      {{"axis", static_cast<int64_t>(norm.first_axis) - static_cast<int64_t>(x.size())},
       {"eps", norm.eps}});
  graph.replace_uses(norm.result, y);
}

// A factor or summand that a norm takes in.
struct Modulation {
  enum Input : size_t { kX, kGamma, kBeta };
  NodeId reader{};  // the mul or add
  Input input = kGamma;
  ValueId value{};
  double offset = 0;  // the factor is value + offset
};

class ModulationReader {
 public:
  ModulationReader(const Module& module, const Graph& graph) : module_(module), graph_(graph) {}

  // What stands behind a norm and reads it alone.
  [[nodiscard]] std::optional<Modulation> read(const Node& norm) const {
    const ValueId y = norm.outputs[0];
    const std::optional<NodeId> id = sole_reader(graph_, y);
    if (norm.outputs.size() != 1 || !id || input_at(norm, Modulation::kBeta)) return std::nullopt;
    const Node& reader = graph_.node(*id);
    const bool scales = reader.op == OpId::mul && !input_at(norm, Modulation::kGamma) &&
                        node_real(norm, "gamma_offset") == 0;
    if (!scales && reader.op != OpId::add) return std::nullopt;
    const ValueId other = *reader.inputs[reader.inputs[0] == y ? 1 : 0];
    if (other == y || graph_.value(reader.outputs[0]).type != graph_.value(y).type)
      return std::nullopt;
    Modulation found{
        .reader = *id, .input = scales ? Modulation::kGamma : Modulation::kBeta, .value = other};
    if (scales) read_offset(found);
    const Shape& x = graph_.value(*norm.inputs[Modulation::kX]).type.shape;
    const bool fits = broadcast_shapes(graph_.value(found.value).type.shape, x) == x &&
                      is_there_anyway(found.value);
    return fits ? std::optional(found) : std::nullopt;
  }

 private:
  void read_offset(Modulation& found) const {
    const Node* sum = sole_reader(graph_, found.value) ? producer_of(graph_, found.value) : nullptr;
    const std::optional<Shifted> shifted = sum ? shifted_of(module_, graph_, *sum) : std::nullopt;
    if (!shifted) return;
    found.value = shifted->x;
    found.offset = shifted->shift;
  }

  // Behind views, what the step that takes the factor or summand would not compute itself.
  [[nodiscard]] bool is_there_anyway(ValueId id) const {
    for (const Node* node = producer_of(graph_, id); node != nullptr;
         node = producer_of(graph_, *node->inputs[0])) {
      if (!sole_reader(graph_, node->outputs[0])) return true;
      if (is_reshaping(*node) || node->op == OpId::slice || node->op == OpId::expand) continue;
      return !is_elementwise(*node);
    }
    return true;
  }

  const Module& module_;
  const Graph& graph_;
};

// The norm stands where the node was that it takes in: what that node reads is computed by then.
NodeId take_in(Graph& graph, NodeId norm, const Modulation& found) {
  const Node old = graph.node(norm);
  const ValueId result = graph.node(found.reader).outputs[0];
  std::vector<std::optional<ValueId>> inputs = old.inputs;
  inputs.resize(std::max<size_t>(inputs.size(), found.input + 1));
  inputs[found.input] = found.value;
  Attributes attributes = old.attributes;
  if (found.offset != 0) attributes["gamma_offset"] = found.offset;
  const ValueId y = NodeEmitter(graph, found.reader).emit(old.op.c_str(), inputs, attributes);
  graph.replace_uses(result, y);
  graph.remove_node(found.reader);
  graph.remove_node(norm);
  return *graph.value(y).producer;
}

// x - mean(x) that is written twice, for its square and for the norm, is one value.
class DifferenceJoiner {
 public:
  DifferenceJoiner(const Module& module, Graph& graph) : module_(module), graph_(graph) {}

  void join() {
    std::vector<NodeId> seen;
    for (const NodeId id : std::vector<NodeId>(graph_.order())) {
      if (!is_difference(graph_.node(id))) continue;
      const auto twin = std::find_if(seen.begin(), seen.end(),
                                     [&](NodeId other) { return are_halves(other, id); });
      if (twin == seen.end()) {
        seen.push_back(id);
        continue;
      }
      const ValueId mean = *graph_.node(id).inputs[1];
      graph_.replace_uses(graph_.node(id).outputs[0], graph_.node(*twin).outputs[0]);
      graph_.remove_node(id);
      if (graph_.reader_count(mean) == 0 && !graph_.is_output(mean))
        graph_.remove_node(*graph_.value(mean).producer);
    }
  }

 private:
  [[nodiscard]] bool is_difference(const Node& node) const {
    if (node.op != OpId::sub || graph_.is_output(node.outputs[0])) return false;
    const Node* mean = producer_of(graph_, *node.inputs[1]);
    return mean != nullptr && mean->op == OpId::reduce_mean && mean->inputs[0] == node.inputs[0];
  }

  // Of those that read a difference, how many square it.
  [[nodiscard]] size_t squares_of(const Node& node) const {
    const std::vector<NodeId> readers = graph_.readers(node.outputs[0]);
    return static_cast<size_t>(std::count_if(readers.begin(), readers.end(), [this](NodeId id) {
      return power_of(module_, graph_, graph_.node(id)) == 2;
    }));
  }

  // Equal differences, of which one is squared alone and the other not at all.
  [[nodiscard]] bool are_halves(NodeId first, NodeId second) const {
    const Node& one = graph_.node(first);
    const Node& other = graph_.node(second);
    const Node& mean = *producer_of(graph_, *one.inputs[1]);
    const Node& other_mean = *producer_of(graph_, *other.inputs[1]);
    if (one.inputs[0] != other.inputs[0] || mean.attributes != other_mean.attributes) return false;
    const auto is_square_alone = [this](const Node& node) {
      return squares_of(node) == graph_.readers(node.outputs[0]).size();
    };
    return (is_square_alone(one) && squares_of(other) == 0) ||
           (is_square_alone(other) && squares_of(one) == 0);
  }

  const Module& module_;
  Graph& graph_;
};

}  // namespace

size_t see_norms(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    DifferenceJoiner(module, graph).join();
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      const std::optional<WrittenNorm> norm =
          decided_at_all_sizes([&] { return NormReader(module, graph).read(graph.node(id)); });
      if (!norm) continue;
      replace(graph, *norm);
      ++changed;
    }
    for (NodeId id : std::vector<NodeId>(graph.order())) {
      if (graph.node(id).op != OpId::layer_norm && graph.node(id).op != OpId::rms_norm) continue;
      const auto read = [&] { return ModulationReader(module, graph).read(graph.node(id)); };
      for (auto found = decided_at_all_sizes(read); found; found = decided_at_all_sizes(read)) {
        id = take_in(graph, id, *found);
        ++changed;
      }
    }
  }
  // What was seen reads no more: it would stand between other patterns and their values.
  if (changed > 0) remove_dead(module, options, diagnostics);
  return changed;
}

}  // namespace rlx
