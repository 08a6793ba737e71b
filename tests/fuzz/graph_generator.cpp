// SPDX-License-Identifier: Apache-2.0
// Random graphs over the catalogue: shapes biased to edges, values shared by several readers,
// several outputs, dead code, views of views.
#include "tests/fuzz/graph_generator.h"

#include <algorithm>

#include "compiler/support/dim_expression.h"
#include "compiler/support/free_size.h"

namespace rlx::test {
namespace {

using Json = nlohmann::ordered_json;

// None where a size is one that a file cannot name.
std::optional<Ints> ints_of(const Json& list, const SymbolLookup& lookup) {
  Ints ints;
  for (const Json& item : list) {
    if (item.is_string()) {
      const auto size = evaluate_dim(item.get<std::string>(), lookup);
      if (!std::holds_alternative<Dim>(size)) return std::nullopt;
      ints.push_back(std::get<Dim>(size));
    } else {
      ints.push_back(item.get<int64_t>());
    }
  }
  return ints;
}

std::optional<Attributes> attributes_of(const Json& object, const SymbolLookup& lookup) {
  Attributes attributes;
  for (const auto& [name, value] : object.items()) {
    if (value.is_boolean()) {
      attributes[name] = value.get<bool>();
    } else if (value.is_number_integer()) {
      attributes[name] = value.get<int64_t>();
    } else if (value.is_number()) {
      attributes[name] = value.get<double>();
    } else if (value.is_string()) {
      attributes[name] = value.get<std::string>();
    } else {
      std::optional<Ints> ints = ints_of(value, lookup);
      if (!ints) return std::nullopt;
      attributes[name] = std::move(*ints);
    }
  }
  return attributes;
}

// The node as it is where every symbol has its largest value.
Node bound_node(Node node) {
  for (auto& [name, value] : node.attributes) {
    if (auto* ints = std::get_if<Ints>(&value)) *ints = at_bound(*ints);
  }
  return node;
}

}  // namespace

Shape written(Shape shape) {
  for (Dim& size : shape) {
    const std::string text = to_string(size);
    if (text.find_first_of("%,") != std::string::npos) size = size.bound();
  }
  return shape;
}

Shape at_bound(Shape shape) {
  for (Dim& size : shape) size = size.bound();
  return shape;
}

void Generator::declare_symbols() {
  text_["symbols"] = Json::array();
  const auto count = static_cast<uint32_t>(1 + below(3));
  for (uint32_t i = 0; i < count; ++i) {
    const int64_t step = choose<int64_t>({1, 1, 1, 1, 2, 3, 4, 8});
    const int64_t minimum = step * choose<int64_t>({1, 1, 1, 2, 3});
    const int64_t maximum = minimum + step * (1 + below(chance(50) ? 5 : 65 / step + 1));
    const FreeSymbol symbol{.index = i,
                            .name = "s" + std::to_string(i),
                            .minimum = minimum,
                            .maximum = maximum,
                            .multiple_of = step};
    symbols_[symbol.name] = Dim::of(symbol);
    text_["symbols"].push_back(
        {{"name", symbol.name}, {"min", minimum}, {"max", maximum}, {"multiple_of", step}});
  }
}

bool Generator::add(const std::string& op, const std::vector<std::optional<Index>>& inputs,
                    const Json& attributes, size_t outputs) {
  if (find_op(op) == nullptr) return false;
  for (const auto& i : inputs) {
    if (i && !entries_[*i].known.exact && !is_continuous(op)) return false;
  }
  std::optional<Attributes> read =
      attributes_of(attributes, [this](const std::string& name) { return find_symbol(name); });
  if (!read) return false;
  const Graph before = graph_;
  const std::string name = "n" + std::to_string(text_["nodes"].size());
  Node node;
  node.name = name;
  node.op = op;
  node.attributes = std::move(*read);
  Json input_names = Json::array();
  std::vector<const KnownValue*> known;
  for (const auto& i : inputs) {
    node.inputs.push_back(i ? std::optional(entries_[*i].id) : std::nullopt);
    input_names.push_back(i ? Json(entries_[*i].name) : Json());
    known.push_back(i ? &entries_[*i].known : nullptr);
  }
  Json output_names = Json::array();
  for (size_t i = 0; i < outputs; ++i) {
    Value value;
    value.name = outputs == 1 ? name : name + "." + std::to_string(i);
    output_names.push_back(value.name);
    node.outputs.push_back(graph_.add_value(std::move(value)));
  }
  const NodeId id = graph_.add_node(node);
  Diagnostics diagnostics;
  bool good = false;
  const auto read_by = free_size_read_by([&] { good = check_and_infer(graph_, id, diagnostics); });
  good = good && !read_by;
  std::vector<TensorType> types;
  std::vector<Shape> shapes;
  for (const ValueId output : node.outputs) {
    const TensorType& type = graph_.value(output).type;
    shapes.push_back(type.shape);
    types.push_back({type.dtype, at_bound(type.shape)});
    good = good && element_count(types.back().shape) <= kLargestTensor;
  }
  std::optional<std::vector<KnownValue>> values;
  if (good) values = evaluate_step(bound_node(node), known, types);
  good = values && std::none_of(values->begin(), values->end(), is_wild);
  if (!good) {
    graph_ = before;
    return false;
  }
  for (const auto& i : inputs) {
    if (i) ++entries_[*i].readers;
  }
  for (size_t i = 0; i < outputs; ++i) {
    entries_.push_back({.name = output_names[i],
                        .id = node.outputs[i],
                        .known = std::move((*values)[i]),
                        .sizes = std::move(shapes[i])});
  }
  Json text = {{"name", name}, {"op", op}, {"inputs", input_names}, {"outputs", output_names}};
  if (!attributes.empty()) text["attributes"] = attributes;
  text_["nodes"].push_back(std::move(text));
  return true;
}

void Generator::step() {
  using Maker = void (Generator::*)();
  struct Choice {
    int weight;
    Maker make;
  };
  static constexpr Choice kChoices[] = {{18, &Generator::unary},
                                        {18, &Generator::binary},
                                        {7, &Generator::compare},
                                        {5, &Generator::integers},
                                        {9, &Generator::product},
                                        {7, &Generator::row_op},
                                        {7, &Generator::reduction},
                                        {5, &Generator::ordering},
                                        {20, &Generator::movement},
                                        {6, &Generator::joining},
                                        {6, &Generator::indexing},
                                        {4, &Generator::scatter},
                                        {7, &Generator::vision},
                                        {3, &Generator::attention},
                                        {2, &Generator::norm_of_channels},
                                        {3, &Generator::signal},
                                        {5, &Generator::complex_numbers},
                                        {6, &Generator::rare_elementwise},
                                        {6, &Generator::rare_movement},
                                        {5, &Generator::rows_by_index},
                                        {5, &Generator::gated},
                                        {3, &Generator::recurrent},
                                        {5, &Generator::image_layer},
                                        {4, &Generator::gradient}};
  int total = 0;
  for (const Choice& choice : kChoices) total += choice.weight;
  auto pick = static_cast<int>(below(total));
  for (const Choice& choice : kChoices) {
    pick -= choice.weight;
    if (pick < 0) return (this->*choice.make)();
  }
}

GraphText Generator::run(int max_nodes) {
  const auto nodes = static_cast<size_t>(1 + below(max_nodes));
  input(float_dtype(), shape(0, 4));
  for (int tries = 0; text_["nodes"].size() < nodes && tries < 400; ++tries) step();
  // What nobody reads is a result, but for some that stay dead code; other values join now and
  // then.
  for (size_t i = 0; i < entries_.size(); ++i) {
    const bool is_input = entries_[i].name.front() == 'x';
    const bool last = i + 1 == entries_.size();
    const bool unread = entries_[i].readers == 0 && !is_input;
    if (last || (unread && !chance(15)) || chance(is_input ? 2 : 6)) {
      text_["outputs"].push_back(entries_[i].name);
    }
  }
  return text_;
}

GraphText generate_graph(uint64_t seed, int max_nodes, bool symbols) {
  return Generator(seed, symbols).run(max_nodes);
}

}  // namespace rlx::test
