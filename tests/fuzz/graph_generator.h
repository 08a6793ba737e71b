// SPDX-License-Identifier: Apache-2.0
// The generator of the graph fuzzer: what its nodes are made from.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <random>

#include "compiler/ops/op_def.h"
#include "tests/fuzz/fuzz_graph.h"
#include "tests/support/dim_json.h"
#include "tests/support/fill.h"

namespace rlx::test {

inline constexpr int64_t kLargestTensor = 6000;  // elements

// With the bound in place of what graph files cannot write.
Shape written(Shape shape);
// With every symbol at its largest value.
Shape at_bound(Shape shape);

// Makes one graph, node by node; a node that is refused, or whose values say nothing, is dropped.
class Generator {
 public:
  Generator(uint64_t seed, bool symbols) : random_(seed) {
    if (symbols) declare_symbols();
  }
  GraphText run(int max_nodes);

 private:
  struct Entry {
    std::string name;
    ValueId id{};
    KnownValue known;  // where every symbol has its largest value
    Shape sizes;
    int readers = 0;
    [[nodiscard]] const Shape& shape() const { return sizes; }
    [[nodiscard]] DType dtype() const { return known.plain.type.dtype; }
  };
  using Json = nlohmann::ordered_json;
  using Index = size_t;  // into entries_
  using Filter = std::function<bool(const Entry&)>;

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <typename T>
  T choose(std::initializer_list<T> from) {
    return from.begin()[below(static_cast<int64_t>(from.size()))];
  }

  void declare_symbols();
  // Of images.
  Dim extent() { return chance_of_symbol(50) ? symbol() : Dim(3 + below(9)); }
  [[nodiscard]] std::optional<Dim> find_symbol(const std::string& name) const {
    const auto found = symbols_.find(name);
    return found == symbols_.end() ? std::nullopt : std::optional(found->second);
  }
  Dim symbol() {
    return std::next(symbols_.begin(), below(static_cast<int64_t>(symbols_.size())))->second;
  }
  bool chance_of_symbol(int percent) { return !symbols_.empty() && chance(percent); }
  Dim dim() {
    if (chance_of_symbol(45)) return symbol();
    return choose<int64_t>({1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33, 64, 65});
  }
  Shape shape(int lowest_rank, int highest_rank) {
    Shape made;
    const int64_t rank = lowest_rank + below(highest_rank - lowest_rank + 1);
    int64_t count = 1;
    for (int64_t i = 0; i < rank; ++i) {
      Dim size = chance(2) ? 0 : dim();
      if (count * size > kLargestTensor) size = 1;
      count *= std::max<int64_t>(size.bound(), 1);
      made.push_back(size);
    }
    return made;
  }
  DType float_dtype() {
    return choose({DType::f32, DType::f32, DType::f32, DType::f16, DType::bf16});
  }

  Index input(DType dtype, Shape dims) {
    const std::string name = "x" + std::to_string(entries_.size());
    dims = written(dims);
    Value value;
    value.name = name;
    value.type = {dtype, dims};
    value.origin = ValueOrigin::Input;
    const ValueId id = graph_.add_value(std::move(value));
    graph_.inputs.push_back(id);
    text_["inputs"].push_back(
        {{"name", name}, {"dtype", std::string(name_of(dtype))}, {"shape", dims}});
    KnownValue known;
    known.plain = fill(tensor(dtype, at_bound(dims)), name);
    known.stored = known.plain;
    known.scale = largest(known.plain);
    entries_.push_back({.name = name, .id = id, .known = std::move(known), .sizes = dims});
    return entries_.size() - 1;
  }

  // A value that fits, late ones rather than early ones; nullopt where there is none.
  std::optional<Index> find(const Filter& fits) {
    std::vector<Index> found;
    for (Index i = 0; i < entries_.size(); ++i) {
      if (fits(entries_[i])) found.push_back(i);
    }
    if (found.empty()) return std::nullopt;
    const auto back = std::min<int64_t>(static_cast<int64_t>(found.size()), chance(70) ? 4 : 99);
    return found[found.size() - 1 - static_cast<size_t>(below(back))];
  }
  Index any_float(size_t lowest_rank = 0) {
    const auto found = find([&](const Entry& e) {
      return e.known.plain.is_float() && e.shape().size() >= lowest_rank;
    });
    return found && !chance(8) ? *found
                               : input(float_dtype(), shape(static_cast<int>(lowest_rank), 4));
  }
  Index any_exact(bool float_only) {
    const auto found = find([&](const Entry& e) {
      return e.known.exact && (!float_only || e.known.plain.is_float()) && !e.shape().empty();
    });
    return found && !chance(30) ? *found : input(float_dtype(), shape(1, 3));
  }
  // Another value of the dtype that broadcasts with `with`.
  Index partner(Index with) {
    const DType dtype = entries_[with].dtype();
    const Shape target = entries_[with].shape();
    const auto found = find([&](const Entry& e) {
      const auto both = broadcast_shapes(e.shape(), target);
      return e.dtype() == dtype && both && element_count(*both) <= kLargestTensor;
    });
    if (found && chance(70)) return *found;
    Shape dims = target;
    for (Dim& size : dims) size = chance(30) ? 1 : size;
    dims.erase(dims.begin(), dims.begin() + below(static_cast<int64_t>(dims.size()) + 1));
    return input(dtype, std::move(dims));
  }

  bool add(const std::string& op, const std::vector<std::optional<Index>>& inputs,
           const Json& attributes = Json::object(), size_t outputs = 1);

  void unary();
  void binary();
  void compare();
  void integers();
  void product();
  void row_op();
  void reduction();
  void ordering();
  void signal();
  void complex_numbers();
  void movement();
  void resizing(Index x);
  void joining();
  void indexing();
  void scatter();
  void vision();
  void attention();
  void norm_of_channels();
  void rare_elementwise();
  void rare_movement();
  void rows_by_index();
  void gated();
  void recurrent();
  void image_layer();
  void gradient();
  void step();

  Json axis_of(const Entry& entry) {
    const auto rank = static_cast<int64_t>(entry.shape().size());
    return below(rank) - (chance(50) ? rank : 0);
  }

  std::mt19937_64 random_;
  // The generator's own numbers are those at the bound.
  DimWatch reads_bounds_{[](const Dim&) {}};
  std::map<std::string, Dim> symbols_;
  Graph graph_;
  GraphText text_ = {{"rlx_graph", 1},
                     {"name", "fuzz"},
                     {"inputs", Json::array()},
                     {"nodes", Json::array()},
                     {"outputs", Json::array()}};
  std::vector<Entry> entries_;
};

}  // namespace rlx::test
