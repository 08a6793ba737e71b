// SPDX-License-Identifier: Apache-2.0
// Bands of positions. An element of a mask is followed from its place [.., i, j] up to what it is
// made of: at each value it stands at a place whose coordinates are sums of multiples of i and j,
// and numbers on the way are such sums too. What compares two of them compares j - i with a number,
// or holds always or never because of what i and j can be.
#include "compiler/passes/position_bands.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "compiler/ops/op_id.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

constexpr int kMostSteps = 2048;  // from a mask up to what it is made of, each way by itself
constexpr int64_t kMostPlaces = int64_t{1} << 24;  // of known elements that are looked at
constexpr int64_t kLargestNumber = int64_t{1} << 40;
constexpr int64_t kLargestFactor = int64_t{1} << 20;

// offset + sum(factor * coordinate) over the coordinates of an element of the mask.
struct Linear {
  std::vector<int64_t> factors;
  Dim offset = 0;

  [[nodiscard]] bool is_number() const {
    return std::ranges::all_of(factors, [](int64_t factor) { return factor == 0; });
  }
  // A number of fixed size that others may be multiplied by.
  [[nodiscard]] bool is_factor() const {
    return is_number() && !offset.is_free() && std::abs(offset.bound()) <= kLargestFactor;
  }
};

// Where an element stands, per axis of its tensor.
using Place = std::vector<Linear>;

struct Source {
  ValueId value{};
  Place place;
};

PositionBand both(PositionBand a, const PositionBand& b) {
  a.is_empty = a.is_empty || b.is_empty;
  if (b.least) a.least = a.least ? max(*a.least, *b.least) : *b.least;
  if (b.most) a.most = a.most ? min(*a.most, *b.most) : *b.most;
  return a;
}

// Whole numbers up to which a type holds each.
DimRange exact_range(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {.least = -kLargestNumber, .most = kLargestNumber};
    case DType::f32:
      return {.least = -(1 << 24), .most = 1 << 24};
    case DType::f16:
      return {.least = -(1 << 11), .most = 1 << 11};
    case DType::bf16:
      return {.least = -(1 << 8), .most = 1 << 8};
    default:
      break;
  }
  if (!is_integer(dtype) && dtype != DType::bool_) return {};
  const IntegerRange range = integer_range(dtype);
  return {.least = std::max(range.lowest, -kLargestNumber),
          .most = std::min(range.highest, kLargestNumber)};
}

class BandReader {
 public:
  // Of masks of one shape, which broadcasts to [.., queries, keys].
  BandReader(const Shape& shape, const Dim& queries, const Dim& keys) : sizes_(shape) {
    sizes_.insert(sizes_.begin(), 2 - std::min<size_t>(shape.size(), 2), 1);
    query_ = sizes_.size() - 2;
    key_ = sizes_.size() - 1;
    sizes_[query_] = queries;
    sizes_[key_] = keys;
  }

  // The place of an element in its mask; nullopt where the shape does not broadcast.
  [[nodiscard]] std::optional<Place> place_in(const Shape& shape) const {
    Place place;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const size_t coordinate = axis + sizes_.size() - shape.size();
      if (shape[axis] == 1) {
        place.push_back(number(0));
      } else if (shape[axis] == sizes_[coordinate]) {
        place.push_back(number(0));
        place.back().factors[coordinate] = 1;
      } else {
        return std::nullopt;
      }
    }
    return place;
  }

  [[nodiscard]] Linear number(const Dim& value) const {
    return {.factors = std::vector<int64_t>(sizes_.size()), .offset = value};
  }

  // a + factor * b.
  static Linear sum(Linear a, const Linear& b, int64_t factor = 1) {
    for (size_t i = 0; i < a.factors.size(); ++i) a.factors[i] += factor * b.factors[i];
    a.offset += b.offset * factor;
    return a;
  }

  [[nodiscard]] Dim lowest(const Linear& x) const { return extreme(x, true); }
  [[nodiscard]] Dim highest(const Linear& x) const { return extreme(x, false); }

  [[nodiscard]] bool lies_inside(const Linear& x, const Dim& size) const {
    return is_always_at_least(lowest(x), 0) && is_always_at_least(size - 1, highest(x));
  }
  // Whether a type holds it exactly, whatever the coordinates are.
  [[nodiscard]] bool fits(const Linear& x, DType dtype) const {
    const DimRange exact = exact_range(dtype);
    const auto is_small = [](int64_t factor) { return std::abs(factor) <= kLargestNumber; };
    return std::ranges::all_of(x.factors, is_small) && lowest(x).range().least >= exact.least &&
           highest(x).range().most <= exact.most;
  }

  // The band in which x is 0 or more.
  [[nodiscard]] std::optional<PositionBand> where_not_negative(const Linear& x) const {
    if (is_always_at_least(lowest(x), 0)) return PositionBand{};
    if (is_always_at_least(-1, highest(x))) return PositionBand{.is_empty = true};
    for (size_t i = 0; i < query_; ++i) {
      if (x.factors[i] != 0) return std::nullopt;
    }
    // Of one query or key the coordinate is 0, whatever its factor.
    int64_t of_key = x.factors[key_];
    int64_t of_query = x.factors[query_];
    if (sizes_[key_] == 1 && of_key == 0) of_key = -of_query;
    if (sizes_[query_] == 1 && of_query == 0) of_query = -of_key;
    if (of_query != -of_key || std::abs(of_key) != 1) return std::nullopt;
    if (of_key == 1) return PositionBand{.least = Dim(0) - x.offset};
    return PositionBand{.most = x.offset};
  }

  // Of known elements at a place: as a band where each counts that lies in it and no other.
  [[nodiscard]] std::optional<PositionBand> of_elements(
      const Shape& shape, const Place& place, const std::function<bool(size_t)>& counts) const;

  // The number that known elements are at a place.
  [[nodiscard]] std::optional<Linear> of_numbers(const Tensor& tensor, const Place& place) const;

 private:
  [[nodiscard]] Dim extreme(const Linear& x, bool is_lowest) const {
    Dim value = x.offset;
    for (size_t i = 0; i < x.factors.size(); ++i) {
      if ((x.factors[i] < 0) == is_lowest && x.factors[i] != 0)
        value += (sizes_[i] - 1) * x.factors[i];
    }
    return value;
  }

  // Calls visit(coordinates, element) for all coordinates that a place depends on, at the largest
  // sizes: at smaller ones the elements are some of them. False where one lies outside.
  bool for_each_element(
      const Shape& shape, const Place& place,
      const std::function<void(const std::vector<int64_t>&, size_t)>& visit) const;

  Shape sizes_;  // of the coordinates
  size_t query_ = 0;
  size_t key_ = 0;
};

bool BandReader::for_each_element(
    const Shape& shape, const Place& place,
    const std::function<void(const std::vector<int64_t>&, size_t)>& visit) const {
  std::vector<int64_t> counts(sizes_.size(), 1);
  int64_t total = 1;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const bool is_used =
        std::ranges::any_of(place, [i](const Linear& x) { return x.factors[i] != 0; });
    if (is_used) counts[i] = sizes_[i].bound();
    if (counts[i] <= 0 || counts[i] > kMostPlaces / total) return false;
    total *= counts[i];
  }
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis].is_free() || place[axis].offset.is_free()) return false;
    if (!lies_inside(place[axis], shape[axis])) return false;
  }
  std::vector<int64_t> at(sizes_.size(), 0);
  for (int64_t done = 0; done < total; ++done) {
    int64_t element = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      int64_t coordinate = place[axis].offset.bound();
      for (size_t i = 0; i < at.size(); ++i) coordinate += place[axis].factors[i] * at[i];
      element = element * shape[axis].bound() + coordinate;
    }
    visit(at, static_cast<size_t>(element));
    for (size_t i = at.size(); i-- > 0 && ++at[i] == counts[i];) at[i] = 0;
  }
  return true;
}

std::optional<PositionBand> BandReader::of_elements(
    const Shape& shape, const Place& place, const std::function<bool(size_t)>& counts) const {
  const auto apart = [this](const std::vector<int64_t>& at) { return at[key_] - at[query_]; };
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = std::numeric_limits<int64_t>::min();
  int64_t outermost[2] = {0, 0};
  bool all = true;
  const bool is_inside = for_each_element(shape, place, [&](const auto& at, size_t element) {
    outermost[0] = std::min(outermost[0], apart(at));
    outermost[1] = std::max(outermost[1], apart(at));
    if (!counts(element)) {
      all = false;
      return;
    }
    least = std::min(least, apart(at));
    most = std::max(most, apart(at));
  });
  if (!is_inside) return std::nullopt;
  if (all) return PositionBand{};
  if (least > most) return PositionBand{.is_empty = true};
  bool is_band = true;
  for_each_element(shape, place, [&](const auto& at, size_t element) {
    is_band = is_band && counts(element) == (apart(at) >= least && apart(at) <= most);
  });
  const bool has_both = std::ranges::all_of(std::array{query_, key_}, [&](size_t coordinate) {
    return sizes_[coordinate] == 1 ||
           std::ranges::any_of(place, [&](const Linear& x) { return x.factors[coordinate] != 0; });
  });
  if (!is_band || !has_both) return std::nullopt;
  PositionBand band;
  if (least > outermost[0]) band.least = least;
  if (most < outermost[1]) band.most = most;
  return band;
}

std::optional<Linear> BandReader::of_numbers(const Tensor& tensor, const Place& place) const {
  // Each coordinate's factor from its first two elements, and then all of them.
  Linear found = number(0);
  std::vector<std::optional<double>> seconds(sizes_.size());
  std::optional<double> first;
  const auto visit_firsts = [&](const std::vector<int64_t>& at, size_t element) {
    const int64_t distance =
        std::accumulate(at.begin(), at.end(), int64_t{0}, std::plus<int64_t>());
    if (distance == 0) first = number_at(tensor, element);
    if (distance == 1)
      seconds[static_cast<size_t>(std::ranges::find(at, 1) - at.begin())] =
          number_at(tensor, element);
  };
  if (!for_each_element(tensor.type.shape, place, visit_firsts) || !first) return std::nullopt;
  const auto is_whole = [](double x) {
    return std::abs(x) <= static_cast<double>(kLargestNumber) && std::trunc(x) == x;
  };
  if (!is_whole(*first)) return std::nullopt;
  found.offset = static_cast<int64_t>(*first);
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (seconds[i] && !is_whole(*seconds[i])) return std::nullopt;
    if (seconds[i]) found.factors[i] = static_cast<int64_t>(*seconds[i] - *first);
  }
  bool is_linear = true;
  for_each_element(tensor.type.shape, place, [&](const auto& at, size_t element) {
    double wanted = *first;
    for (size_t i = 0; i < at.size(); ++i)
      wanted += static_cast<double>(found.factors[i]) * static_cast<double>(at[i]);
    is_linear = is_linear && number_at(tensor, element) == wanted;
  });
  return is_linear ? std::optional(found) : std::nullopt;
}

// Reads nodes from their results up.
class NodeReader {
 public:
  NodeReader(const Graph& graph, KnownTensors& tensors, const BandReader& bands)
      : graph_(graph), tensors_(tensors), bands_(bands) {}

  // Where an element is not 0, or inverted where it is.
  std::optional<PositionBand> condition(ValueId id, const Place& place, bool holds);

 private:
  // An element as a number that all types on the way hold exactly.
  std::optional<Linear> linear(ValueId id, const Place& place);
  std::optional<Linear> linear_node(const Node& node, const Place& place);

  // What a node that only moves elements gives at a place.
  std::optional<Source> source_of(const Node& node, const Place& place);
  [[nodiscard]] std::optional<Source> reshaped(const Node& node, const Place& place) const;
  [[nodiscard]] std::optional<Source> cut(const Node& node, Place place) const;
  std::optional<Source> gathered(const Node& node, const Place& place);
  std::optional<Source> gathered_nd(const Node& node, const Place& place);

  std::optional<Linear> joined(const Node& node, const Place& place);
  std::optional<Linear> summed(const Node& node, const Place& place);
  std::optional<PositionBand> compared(const Node& node, const Place& place, bool holds);
  std::optional<PositionBand> at_most(const Linear& a, const Linear& b, int64_t margin) const {
    return bands_.where_not_negative(
        BandReader::sum(BandReader::sum(b, bands_.number(margin)), a, -1));
  }
  std::optional<PositionBand> triangle(const Node& node, const Place& place, bool holds);
  std::optional<PositionBand> joint(const Node& node, const Place& place, bool holds);
  std::optional<PositionBand> chosen(const Node& node, const Place& place, bool holds);
  // True where no element changes between 0 and another number when it is cast.
  bool has_units(ValueId id);

  [[nodiscard]] const TensorType& type(ValueId id) const { return graph_.value(id).type; }
  [[nodiscard]] const TensorType& result_type(const Node& node) const {
    return type(node.outputs[0]);
  }
  // The place in an operand that broadcasts.
  [[nodiscard]] Place place_in_operand(ValueId operand, const Place& place) const;

  const Graph& graph_;
  KnownTensors& tensors_;
  const BandReader& bands_;
  int steps_ = 0;
};

Place NodeReader::place_in_operand(ValueId operand, const Place& place) const {
  const Shape& shape = type(operand).shape;
  Place result(place.end() - static_cast<std::ptrdiff_t>(shape.size()), place.end());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) result[axis] = bands_.number(0);
  }
  return result;
}

std::optional<Source> NodeReader::source_of(const Node& node, const Place& place) {
  if (node.outputs.size() != 1) return std::nullopt;
  if (is_reshaping(node)) return reshaped(node, place);
  if (node.op == OpId::expand)
    return Source{.value = *node.inputs[0], .place = place_in_operand(*node.inputs[0], place)};
  if (node.op == OpId::slice || node.op == OpId::narrow) return cut(node, place);
  if (node.op == OpId::gather) return gathered(node, place);
  if (node.op == OpId::gather_nd) return gathered_nd(node, place);
  if (node.op != OpId::transpose) return std::nullopt;
  Source source{.value = *node.inputs[0], .place = place};
  const std::vector<size_t> axes = permutation_of(graph_, node);
  for (size_t i = 0; i < axes.size(); ++i) source.place[axes[i]] = place[i];
  return source;
}

// Axes of 1 that come or go.
std::optional<Source> NodeReader::reshaped(const Node& node, const Place& place) const {
  const Shape& from = type(*node.inputs[0]).shape;
  const Shape& to = result_type(node).shape;
  Source source{.value = *node.inputs[0], .place = Place(from.size(), bands_.number(0))};
  size_t at = 0;
  const auto skip_ones = [&] {
    while (at < to.size() && to[at] == 1) ++at;
  };
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] == 1) continue;
    skip_ones();
    if (at == to.size() || to[at] != from[axis]) return std::nullopt;
    source.place[axis] = place[at++];
  }
  skip_ones();
  return at == to.size() ? std::optional(source) : std::nullopt;
}

std::optional<Source> NodeReader::cut(const Node& node, Place place) const {
  if (node.inputs.size() != 1) return std::nullopt;
  const Shape& from = type(*node.inputs[0]).shape;
  const auto list = [&node](const char* name) -> Ints {
    const auto found = node.attributes.find(name);
    if (found == node.attributes.end()) return {};
    if (const auto* number = std::get_if<int64_t>(&found->second)) return {*number};
    return std::get<Ints>(found->second);
  };
  const bool is_narrow = node.op == OpId::narrow;
  const Ints starts = list(is_narrow ? "start" : "starts");
  const Ints axes = list(is_narrow ? "axis" : "axes");
  const Ints steps = list("steps");
  if (!std::ranges::all_of(steps, [](const Dim& step) { return step == 1; })) return std::nullopt;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t written = axes.empty() ? static_cast<int64_t>(i) : axes[i].bound();
    const auto axis =
        static_cast<size_t>(written < 0 ? written + static_cast<int64_t>(from.size()) : written);
    const Dim start = is_always_at_least(-1, starts[i]) ? from[axis] + starts[i] : starts[i];
    if (!is_always_at_least(start, 0) || !is_always_at_least(from[axis], start))
      return std::nullopt;
    place[axis].offset += start;
  }
  return Source{.value = *node.inputs[0], .place = std::move(place)};
}

std::optional<Source> NodeReader::gathered(const Node& node, const Place& place) {
  const Shape& from = type(*node.inputs[0]).shape;
  const size_t axis = axis_of(node, from.size());
  const auto begin = place.begin() + static_cast<std::ptrdiff_t>(axis);
  const auto end = begin + static_cast<std::ptrdiff_t>(type(*node.inputs[1]).shape.size());
  const std::optional<Linear> index = linear(*node.inputs[1], Place(begin, end));
  if (!index || !bands_.lies_inside(*index, from[axis])) return std::nullopt;
  Source source{.value = *node.inputs[0], .place = Place(place.begin(), begin)};
  source.place.push_back(*index);
  source.place.insert(source.place.end(), end, place.end());
  return source;
}

std::optional<Source> NodeReader::gathered_nd(const Node& node, const Place& place) {
  const Shape& from = type(*node.inputs[0]).shape;
  const Shape& indices = type(*node.inputs[1]).shape;
  if (node_integer(node, "batch_dims") != 0) return std::nullopt;
  const auto rest = place.begin() + static_cast<std::ptrdiff_t>(indices.size() - 1);
  Source source{.value = *node.inputs[0]};
  for (int64_t i = 0; i < indices.back().bound(); ++i) {
    Place at(place.begin(), rest);
    at.push_back(bands_.number(i));
    const std::optional<Linear> index = linear(*node.inputs[1], at);
    if (!index || !bands_.lies_inside(*index, from[static_cast<size_t>(i)])) return std::nullopt;
    source.place.push_back(*index);
  }
  source.place.insert(source.place.end(), rest, place.end());
  return source;
}

std::optional<Linear> NodeReader::linear(ValueId id, const Place& place) {
  if (++steps_ > kMostSteps) return std::nullopt;
  std::optional<Linear> found;
  if (const Tensor* const tensor = tensors_.of(id)) {
    found = bands_.of_numbers(*tensor, place);
  } else if (const Node* node = producer_of(graph_, id)) {
    found = linear_node(*node, place);
  }
  return found && bands_.fits(*found, type(id).dtype) ? found : std::nullopt;
}

std::optional<Linear> NodeReader::linear_node(const Node& node, const Place& place) {
  if (node.outputs.size() != 1) return std::nullopt;
  if (const std::optional<Source> source = source_of(node, place))
    return linear(source->value, source->place);
  if (result_type(node).dtype == DType::bool_) {
    const std::optional<PositionBand> band = condition(node.outputs[0], place, true);
    if (!band || (!band->is_open() && !band->is_empty)) return std::nullopt;
    return bands_.number(band->is_open() ? 1 : 0);
  }
  const auto operand = [&](size_t i) {
    return linear(*node.inputs[i], place_in_operand(*node.inputs[i], place));
  };
  if (node.op == OpId::cast) return operand(0);
  if (node.op == OpId::concat) return joined(node, place);
  if (node.op == OpId::cumsum) return summed(node, place);
  if (node.op == OpId::ramp) {
    const auto scalar = [&](size_t i) {
      return linear(*node.inputs[i], Place(type(*node.inputs[i]).shape.size(), bands_.number(0)));
    };
    const std::optional<Linear> start = scalar(0);
    const std::optional<Linear> step = scalar(1);
    if (!start || !step || !step->is_factor()) return std::nullopt;
    return BandReader::sum(*start, place[0], step->offset.bound());
  }
  if (node.op == OpId::affine) {
    const double factor = node_real(node, "mul");
    const double offset = node_real(node, "add");
    const auto is_whole = [](double x) {
      return std::trunc(x) == x && std::abs(x) <= static_cast<double>(kLargestFactor);
    };
    const std::optional<Linear> x = operand(0);
    if (!x || !is_whole(factor) || !is_whole(offset)) return std::nullopt;
    return BandReader::sum(bands_.number(static_cast<int64_t>(offset)), *x,
                           static_cast<int64_t>(factor));
  }
  if (node.op == OpId::neg) {
    const std::optional<Linear> x = operand(0);
    return x ? std::optional(BandReader::sum(bands_.number(0), *x, -1)) : std::nullopt;
  }
  const bool is_sum = node.op == OpId::add || node.op == OpId::sub;
  if (!is_sum && node.op != OpId::mul && node.op != OpId::floor_div) return std::nullopt;
  const std::optional<Linear> a = operand(0);
  const std::optional<Linear> b = a ? operand(1) : std::nullopt;
  if (!a || !b) return std::nullopt;
  if (node.op == OpId::floor_div) {
    // All positions in the first of the parts into which it takes them.
    const bool is_first = b->is_number() && bands_.lies_inside(*a, b->offset);
    return is_first ? std::optional(bands_.number(0)) : std::nullopt;
  }
  if (node.op == OpId::add) return BandReader::sum(*a, *b);
  if (node.op == OpId::sub) return BandReader::sum(*a, *b, -1);
  if (a->is_factor()) return BandReader::sum(bands_.number(0), *b, a->offset.bound());
  if (b->is_factor()) return BandReader::sum(bands_.number(0), *a, b->offset.bound());
  return std::nullopt;
}

// Parts one behind the other whose numbers go on as those of the longest do.
std::optional<Linear> NodeReader::joined(const Node& node, const Place& place) {
  const size_t axis = axis_of(node, place.size());
  const Linear& at = place[axis];
  const auto coordinate = std::ranges::find_if(at.factors, [](int64_t f) { return f != 0; });
  const bool is_plain =
      at.is_number() || (*coordinate == 1 && std::all_of(coordinate + 1, at.factors.end(),
                                                         [](int64_t f) { return f == 0; }));
  if (!is_plain) return std::nullopt;
  // A part's element at a place of the whole.
  const auto in_part = [&](ValueId part, const Linear& local) {
    Place inside = place;
    inside[axis] = local;
    return linear(part, inside);
  };
  struct Single {
    ValueId value{};
    Dim start;
  };
  std::vector<Single> singles;
  std::optional<Linear> found;
  Dim start = 0;
  for (const std::optional<ValueId>& part : node.inputs) {
    const Dim& size = type(*part).shape[axis];
    const Linear local = BandReader::sum(at, bands_.number(start), -1);
    if (at.is_number()) {
      if (bands_.lies_inside(local, size)) return in_part(*part, local);
    } else if (size == 1) {
      singles.push_back({.value = *part, .start = start});
    } else {
      if (found) return std::nullopt;
      found = in_part(*part, local);
      if (!found) return std::nullopt;
    }
    start += size;
  }
  if (at.is_number() || !found) return std::nullopt;
  for (const Single& single : singles) {
    const std::optional<Linear> element = in_part(single.value, bands_.number(0));
    if (!element) return std::nullopt;
    // The whole's number where the coordinate is the single part's.
    Linear there = *found;
    int64_t& factor = there.factors[static_cast<size_t>(coordinate - at.factors.begin())];
    there.offset += (single.start - at.offset) * factor;
    factor = 0;
    if (there.factors != element->factors || there.offset != element->offset) return std::nullopt;
  }
  return found;
}

// Of one number as often as the place says: along a coordinate of its own from 0 on, so that all
// elements that are added are among those that were looked at.
std::optional<Linear> NodeReader::summed(const Node& node, const Place& place) {
  const bool is_plain = !node_flag(node, "exclusive") && !node_flag(node, "reverse");
  const Linear& at = place[axis_of(node, place.size())];
  const auto coordinate = std::ranges::find(at.factors, 1) - at.factors.begin();
  Linear rest = at;
  if (!is_plain || std::cmp_equal(coordinate, at.factors.size())) return std::nullopt;
  rest.factors[static_cast<size_t>(coordinate)] = 0;
  const auto users = std::ranges::count_if(place, [coordinate](const Linear& x) {
    return x.factors[static_cast<size_t>(coordinate)] != 0;
  });
  if (!rest.is_number() || at.offset != 0 || users != 1) return std::nullopt;
  const std::optional<Linear> each = linear(*node.inputs[0], place);
  if (!each || !each->is_factor()) return std::nullopt;
  return BandReader::sum(*each, at, each->offset.bound());
}

std::optional<PositionBand> NodeReader::condition(ValueId id, const Place& place, bool holds) {
  if (++steps_ > kMostSteps) return std::nullopt;
  if (const Tensor* const tensor = tensors_.of(id)) {
    return bands_.of_elements(tensor->type.shape, place,
                              [&](size_t i) { return (number_at(*tensor, i) != 0) == holds; });
  }
  const Node* const node = producer_of(graph_, id);
  if (node == nullptr || node->outputs.size() != 1) return std::nullopt;
  if (const std::optional<Source> source = source_of(*node, place))
    return condition(source->value, source->place, holds);
  if (node->op == OpId::logical_not) return condition(*node->inputs[0], place, !holds);
  if (node->op == OpId::cast) {
    const bool keeps = type(*node->inputs[0]).dtype == DType::bool_ ||
                       type(id).dtype == DType::bool_ || has_units(*node->inputs[0]);
    return keeps ? condition(*node->inputs[0], place, holds) : std::nullopt;
  }
  if (node->op == OpId::trilu) return triangle(*node, place, holds);
  if (node->op == OpId::logical_and || node->op == OpId::logical_or)
    return joint(*node, place, holds);
  if (node->op == OpId::where) return chosen(*node, place, holds);
  return compared(*node, place, holds);
}

bool NodeReader::has_units(ValueId id) {
  for (int i = 0; i < kMostSteps; ++i) {
    if (type(id).dtype == DType::bool_) return true;
    if (const Tensor* const tensor = tensors_.of(id)) {
      for (size_t at = 0; at < static_cast<size_t>(tensor->count()); ++at) {
        const double x = std::abs(number_at(*tensor, at));
        if (x != 0 && x != 1) return false;
      }
      return true;
    }
    const Node* const node = producer_of(graph_, id);
    const bool passes = node != nullptr && (is_reshaping(*node) || node->op == OpId::expand ||
                                            node->op == OpId::slice || node->op == OpId::trilu ||
                                            node->op == OpId::transpose || node->op == OpId::cast);
    if (!passes) return false;
    id = *node->inputs[0];
  }
  return false;
}

// Elements of the triangle are those of x, others 0.
std::optional<PositionBand> NodeReader::triangle(const Node& node, const Place& place, bool holds) {
  if (node.inputs.size() != 1) return std::nullopt;
  const std::optional<PositionBand> x = condition(*node.inputs[0], place, true);
  if (!x) return std::nullopt;
  const Linear k = bands_.number(node_integer(node, "k"));
  const Linear row = BandReader::sum(place[place.size() - 2], k);
  const Linear& column = place.back();
  const bool is_upper = node_flag(node, "upper");
  if (holds) {
    const auto inside = is_upper ? at_most(row, column, 0) : at_most(column, row, 0);
    return inside ? std::optional(both(*inside, *x)) : std::nullopt;
  }
  if (!x->is_open()) return std::nullopt;
  return is_upper ? at_most(column, row, -1) : at_most(row, column, -1);
}

// Conditions that must all hold, or of which one must.
std::optional<PositionBand> NodeReader::joint(const Node& node, const Place& place, bool holds) {
  const bool needs_both = (node.op == OpId::logical_and) == holds;
  std::optional<PositionBand> parts[2];
  for (size_t i = 0; i < 2; ++i) {
    const ValueId part = *node.inputs[i];
    parts[i] = condition(part, place_in_operand(part, place), holds);
    if (!parts[i]) return std::nullopt;
  }
  if (needs_both) return both(*parts[0], *parts[1]);
  for (size_t i = 0; i < 2; ++i) {
    if (parts[i]->is_open()) return parts[i];
    if (parts[i]->is_empty) return parts[1 - i];
  }
  return std::nullopt;
}

// where() with a result that never counts: the other, and what chooses it.
std::optional<PositionBand> NodeReader::chosen(const Node& node, const Place& place, bool holds) {
  const auto part = [&](size_t i, bool part_holds) {
    const ValueId value = *node.inputs[i];
    return condition(value, place_in_operand(value, place), part_holds);
  };
  for (const size_t other : {size_t{2}, size_t{1}}) {
    const std::optional<PositionBand> never = part(other, holds);
    if (!never || !never->is_empty) continue;
    const std::optional<PositionBand> result = part(3 - other, holds);
    const std::optional<PositionBand> choice = part(0, other == 2);
    if (result && choice) return both(*result, *choice);
  }
  return std::nullopt;
}

std::optional<PositionBand> NodeReader::compared(const Node& node, const Place& place, bool holds) {
  const bool is_equality = node.op == OpId::eq || node.op == OpId::ne;
  const bool is_less = node.op == OpId::lt || node.op == OpId::le;
  if (!is_equality && !is_less && node.op != OpId::gt && node.op != OpId::ge) return std::nullopt;
  const auto value = [&](size_t i) { return *node.inputs[i]; };
  const auto operand = [&](size_t i) {
    return linear(value(i), place_in_operand(value(i), place));
  };
  if (is_equality) {
    const bool is_equal = (node.op == OpId::eq) == holds;
    const std::optional<Linear> b = operand(1);
    if (!b) return std::nullopt;
    const std::optional<Linear> a = operand(0);
    const bool is_zero = b->is_number() && b->offset == 0;
    if (!a && is_zero) return condition(value(0), place_in_operand(value(0), place), !is_equal);
    if (!a) return std::nullopt;
    const std::optional<PositionBand> below = at_most(*a, *b, 0);
    const std::optional<PositionBand> above = at_most(*b, *a, 0);
    if (!below || !above) return std::nullopt;
    const PositionBand equal = both(*below, *above);
    if (is_equal) return equal;
    if (equal.is_open()) return PositionBand{.is_empty = true};
    return equal.is_empty ? std::optional(PositionBand{}) : std::nullopt;
  }
  // As smaller <= larger + margin.
  const bool turns = is_less != holds;
  const bool is_strict = (node.op == OpId::lt || node.op == OpId::gt) == holds;
  const size_t smaller = turns ? 1 : 0;
  const int64_t margin = is_strict ? -1 : 0;
  const std::optional<Linear> larger = operand(1 - smaller);
  if (!larger) return std::nullopt;
  const Node* const made = producer_of(graph_, value(smaller));
  if (made == nullptr || made->op != OpId::abs) {
    const std::optional<Linear> x = operand(smaller);
    return x ? at_most(*x, *larger, margin) : std::nullopt;
  }
  const Place at = place_in_operand(*made->inputs[0], place_in_operand(value(smaller), place));
  const std::optional<Linear> x = linear(*made->inputs[0], at);
  if (!x) return std::nullopt;
  const Linear negative = BandReader::sum(bands_.number(0), *x, -1);
  if (!bands_.fits(negative, result_type(*made).dtype)) return std::nullopt;
  const auto right = at_most(*x, *larger, margin);
  const auto left = at_most(negative, *larger, margin);
  return left && right ? std::optional(both(*left, *right)) : std::nullopt;
}

}  // namespace

bool is_always_at_least(const Dim& a, const Dim& b) {
  if ((a - b).range().least >= 0) return true;
  return decided_at_all_sizes([&] {
    const DecidedOrders orders;
    return a >= b;
  });
}

std::optional<PositionBand> band_of_condition(const Graph& graph, KnownTensors& tensors,
                                              ValueId condition, bool is_inverted,
                                              const Dim& queries, const Dim& keys) {
  const Shape& shape = graph.value(condition).type.shape;
  const BandReader bands(shape, queries, keys);
  const std::optional<Place> place = bands.place_in(shape);
  if (!place) return std::nullopt;
  return NodeReader(graph, tensors, bands).condition(condition, *place, !is_inverted);
}

std::optional<PositionBand> band_of_elements(const Shape& shape,
                                             const std::function<bool(size_t)>& counts,
                                             const Dim& queries, const Dim& keys) {
  const BandReader bands(shape, queries, keys);
  const std::optional<Place> place = bands.place_in(shape);
  return place ? bands.of_elements(shape, *place, counts) : std::nullopt;
}

}  // namespace rlx
