// SPDX-License-Identifier: Apache-2.0
// ONNX models whose symbolic dims stay symbols of the graph.
#include "compiler/import/onnx/open_symbols.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/import/impossible_branch.h"
#include "compiler/import/names.h"
#include "compiler/import/onnx/fit_dims.h"
#include "compiler/import/onnx/input_dims.h"
#include "compiler/support/dim_expression.h"

namespace rlx::onnx_import {
namespace {

constexpr size_t kMostSymbols = 6;
constexpr size_t kMostNodes = 1u << 15;  // of the graph: it is made some hundred times
constexpr int kRandomBindings = 40;
constexpr size_t kFewestValues = 4;  // of a symbol that count as a range

// Values of symbols are multiples of these: 32 for images that a network halves five times.
constexpr std::array<int64_t, 2> kUnits = {1, 32};
// In units. Unequal, so that one symbol is not taken for another or for a dim of the model.
constexpr std::array<int64_t, kMostSymbols> kFirst = {5, 7, 11, 13, 17, 19};
// Tried in this order up from a symbol's first value until the model refuses one.
constexpr std::array<int64_t, 37> kSteps = {
    6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,  17,  18,  19,  20,   21,   22,      23,     24,
    31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 127, 128, 255, 512, 1024, 4096, 1 << 16, 1 << 20};
constexpr int64_t kSmallest = 64;  // random values stay below, in units

// What two imports of one model must agree in, item by item, and the integers that may differ.
struct Sample {
  std::vector<std::string> fixed;
  std::vector<int64_t> numbers;
};

// Calls visit(node) for the nodes of a list and of bodies inside them, in order.
template <typename Nodes, typename Visitor>
void visit_nodes(Nodes& nodes, const Visitor& visit) {
  for (auto& node : nodes) {
    visit(node);
    for (auto& body : node.bodies) visit_nodes(body.nodes, visit);
  }
}

// Calls `number` for each integer in attributes of the graph's nodes, in order.
template <typename Graph, typename Visitor>
void visit_numbers(Graph& graph, Visitor number) {
  for (auto& entry : graph.entries) {
    visit_nodes(entry.nodes, [&](auto& node) {
      for (auto& [name, value] : node.attributes) number(node, name, value);
    });
  }
}

std::string text_of(const SourceAttribute& value) {
  const std::string kind = std::to_string(value.index()) + ":";
  if (const auto* real = std::get_if<double>(&value))
    return kind + std::to_string(std::bit_cast<uint64_t>(*real));
  if (const auto* flag = std::get_if<bool>(&value)) return kind + (*flag ? "1" : "0");
  if (const auto* text = std::get_if<std::string>(&value)) return kind + *text;
  if (const auto* ints = std::get_if<Ints>(&value)) return kind + std::to_string(ints->size());
  std::string text = kind;
  if (const auto* reals = std::get_if<Floats>(&value)) {
    for (const double real : *reals) text += std::to_string(std::bit_cast<uint64_t>(real)) + ",";
  }
  if (const auto* words = std::get_if<Strings>(&value)) {
    for (const std::string& word : *words) text += word + ",";
  }
  return text;
}

std::string text_of(const SourceTensor& tensor, bool with_data) {
  std::string text = "tensor " + in_quotes(tensor.name) + " " + std::string(name_of(tensor.dtype));
  for (const SourceDim& dim : tensor.shape) text += " " + std::to_string(std::get<int64_t>(dim));
  const HostBytes* data = tensor.data ? std::get_if<HostBytes>(&*tensor.data) : nullptr;
  if (with_data && data != nullptr)
    text.append(reinterpret_cast<const char*>(data->bytes.data()), data->bytes.size());
  return text;
}

Sample sample_of(const SourceGraph& graph) {
  Sample sample;
  // Params are the model's initializers, whatever the symbols are.
  for (const SourceTensor& param : graph.params) sample.fixed.push_back(text_of(param, false));
  for (const SourceTensor& constant : graph.constants)
    sample.fixed.push_back(text_of(constant, true));
  for (const SourceEntry& entry : graph.entries) {
    visit_nodes(entry.nodes, [&sample](const SourceNode& node) {
      std::string text = "node " + in_quotes(node.name) + " " + node.op;
      for (const auto& input : node.inputs) text += "\n" + input.value_or("");
      for (const std::string& output : node.outputs) text += "\n" + output;
      for (const auto& [name, value] : node.attributes) text += "\n" + name + text_of(value);
      for (const SourceBody& body : node.bodies) {
        text += "\nbody " + body.name + " of " + std::to_string(body.nodes.size());
        for (const std::string& input : body.inputs) text += "\n" + input;
        for (const std::string& output : body.outputs) text += "\n" + output;
      }
      sample.fixed.push_back(std::move(text));
    });
  }
  visit_numbers(graph, [&](const SourceNode&, const std::string&, const SourceAttribute& value) {
    if (const auto* integer = std::get_if<int64_t>(&value)) sample.numbers.push_back(*integer);
    if (const auto* ints = std::get_if<Ints>(&value))
      sample.numbers.insert(sample.numbers.end(), ints->begin(), ints->end());
  });
  return sample;
}

struct OpenSymbol {
  std::string name;
  std::string in_expression;
  int64_t unit = 1;
  std::vector<int64_t> values;  // at which the model imports, in units
};

class OpenImporter {
 public:
  OpenImporter(const std::shared_ptr<const onnx::ModelProto>& model, const std::string& file,
               const OnnxOptions& options, Diagnostics& diagnostics)
      : model_(model), file_(file), options_(options), diagnostics_(diagnostics) {}

  OnnxResult import() {
    list_symbols();
    if (symbols_.empty()) return import_model(model_, file_, options_, diagnostics_);
    OnnxResult result = import_first();
    if (!result.graph || !check_count(*result.graph)) return refused(std::move(result));
    for (size_t i = 0; i < symbols_.size(); ++i) {
      if (!find_range(i)) return refused(std::move(result));
    }
    if (!try_random_bindings()) return refused(std::move(result));
    leave_out_ones();
    if (!write_expressions(*result.graph)) return refused(std::move(result));
    write_symbols(*result.graph);
    return result;
  }

 private:
  static OnnxResult refused(OnnxResult result) {
    result.graph.reset();
    return result;
  }

  void error(const std::string& message) {
    diagnostics_.error(DiagCode::UnboundSymbol, {file_, ""}, message,
                       "bind it with --dim " + symbols_.front().name + "=N");
  }

  // The names of dims of inputs that neither the model nor the options give a value.
  template <typename Visitor>
  void visit_open_dims(Visitor visit) const {
    std::set<std::string_view> initialized;
    for (const auto& tensor : model_->graph().initializer()) initialized.insert(tensor.name());
    for (const auto& input : model_->graph().input()) {
      if (initialized.contains(input.name()) || options_.shapes.contains(input.name()) ||
          options_.fixed_inputs.contains(input.name()))
        continue;
      const auto& shape = input.type().tensor_type().shape();
      for (int axis = 0; axis < shape.dim_size(); ++axis) {
        const std::string name = symbol_of_dim(input.name(), shape.dim(axis), axis);
        if (is_open_dim(shape.dim(axis)) && !options_.dims.contains(name))
          visit(input.name(), axis, name);
      }
    }
  }

  void list_symbols() {
    visit_open_dims([&](const std::string&, int, const std::string& name) {
      const bool is_known = std::any_of(symbols_.begin(), symbols_.end(),
                                        [&](const OpenSymbol& s) { return s.name == name; });
      if (is_known || symbols_.size() > kMostSymbols) return;
      symbols_.push_back({.name = name,
                          .in_expression = symbol_in_expression(name).value_or(""),
                          .unit = 1,
                          .values = {}});
    });
  }

  [[nodiscard]] Binding first_binding() const {
    Binding binding;
    for (size_t i = 0; i < symbols_.size(); ++i) binding.push_back(kFirst.at(i) * symbols_[i].unit);
    return binding;
  }

  OnnxResult import_at(const Binding& binding, Diagnostics& diagnostics) const {
    OnnxOptions options = options_;
    for (size_t i = 0; i < symbols_.size(); ++i) options.dims[symbols_[i].name] = binding[i];
    return import_model(model_, file_, options, diagnostics);
  }

  [[nodiscard]] std::string text_of_binding(const Binding& binding) const {
    std::string text;
    for (size_t i = 0; i < symbols_.size(); ++i) {
      text +=
          (i == 0 ? "" : ", ") + in_quotes(symbols_[i].name) + " = " + std::to_string(binding[i]);
    }
    return text;
  }

  // The graph at the first binding that imports; the errors of the very first where none does.
  OnnxResult import_first() {
    if (symbols_.size() > kMostSymbols) {
      error("the model has more than " + std::to_string(kMostSymbols) +
            " symbols, which is as many as can be kept");
      return {};
    }
    for (const OpenSymbol& symbol : symbols_) {
      if (!symbol.in_expression.empty() && !name_fault(symbol.name)) continue;
      error("symbol " + in_quotes(symbol.name) + " cannot be kept: its name is no legal one");
      return {};
    }
    OnnxResult first;
    Diagnostics first_errors;
    for (const int64_t unit : kUnits) {
      for (OpenSymbol& symbol : symbols_) symbol.unit = unit;
      Diagnostics errors;
      OnnxResult result = import_at(first_binding(), errors);
      if (result.graph) {
        loosen_units(result);
        return result;
      }
      if (unit != kUnits.front()) continue;
      first = std::move(result);
      first_errors = std::move(errors);
    }
    for (const Diagnostic& diagnostic : first_errors.all()) diagnostics_.add(diagnostic);
    // Anything else is wrong at other values too.
    if (!is_of_shapes(first_errors)) return first;
    for (OpenSymbol& symbol : symbols_) symbol.unit = kUnits.front();
    error("symbols cannot be kept: the model does not import with " +
          text_of_binding(first_binding()));
    return first;
  }

  // Not every symbol has to be a multiple of what some must be.
  void loosen_units(OnnxResult& result) {
    for (OpenSymbol& symbol : symbols_) {
      const int64_t unit = symbol.unit;
      if (unit == kUnits.front()) continue;
      symbol.unit = kUnits.front();
      Diagnostics errors;
      OnnxResult loose = import_at(first_binding(), errors);
      if (!loose.graph) symbol.unit = unit;
      if (loose.graph) result = std::move(loose);
    }
  }

  bool check_count(const SourceGraph& graph) {
    size_t nodes = 0;
    for (const SourceEntry& entry : graph.entries)
      visit_nodes(entry.nodes, [&nodes](const SourceNode&) { ++nodes; });
    if (nodes > kMostNodes) {
      error("symbols of a model with more than 2^15 nodes cannot be kept");
      return false;
    }
    bindings_.push_back(first_binding());
    samples_.push_back(sample_of(graph));
    return true;
  }

  // Imports at one more binding; what differs from the first in more than integers is no success.
  bool try_binding(const Binding& binding) {
    if (std::find(bindings_.begin(), bindings_.end(), binding) != bindings_.end()) return true;
    Diagnostics errors;
    const OnnxResult result = import_at(binding, errors);
    difference_.clear();
    if (!result.graph) {
      difference_ = "there the model is refused";
      for (const Diagnostic& diagnostic : errors.all()) {
        if (diagnostic.severity != Severity::Error) continue;
        difference_ += ": ";
        if (!diagnostic.node.empty()) difference_ += "node " + in_quotes(diagnostic.node) + ": ";
        difference_ += diagnostic.message;
        break;
      }
      return false;
    }
    Sample sample = sample_of(*result.graph);
    const std::vector<std::string>& wanted = samples_.front().fixed;
    for (size_t i = 0; i < std::max(wanted.size(), sample.fixed.size()); ++i) {
      if (i < wanted.size() && i < sample.fixed.size() && sample.fixed[i] == wanted[i]) continue;
      const std::string& item = i < wanted.size() ? wanted[i] : sample.fixed[i];
      const size_t name_end = item.find('"', item.find('"') + 1) + 1;
      difference_ = "there " + item.substr(0, name_end) + " becomes another one";
      return false;
    }
    bindings_.push_back(binding);
    samples_.push_back({.fixed = {}, .numbers = std::move(sample.numbers)});
    return true;
  }

  bool try_value(size_t i, int64_t value) {
    Binding binding = first_binding();
    binding[i] = value * symbols_[i].unit;
    if (!try_binding(binding)) return false;
    symbols_[i].values.push_back(value);
    return true;
  }

  // Up and down from the first value until the model refuses one; then where exactly it does.
  bool find_range(size_t i) {
    const int64_t first = kFirst.at(i);
    symbols_[i].values = {first};
    for (int64_t value = first - 1; value >= 1 && try_value(i, value); --value) {
    }
    int64_t good = first;
    for (const int64_t value : kSteps) {
      if (value <= first) continue;
      if (!try_value(i, value)) {
        for (int64_t bad = value; bad - good > 1;) {
          const int64_t middle = good + (bad - good) / 2;
          (try_value(i, middle) ? good : bad) = middle;
        }
        break;
      }
      good = value;
    }
    std::sort(symbols_[i].values.begin(), symbols_[i].values.end());
    if (symbols_[i].values.size() >= kFewestValues) return true;
    error("symbol " + in_quotes(symbols_[i].name) + " cannot be kept: beside " +
          text_of_binding(first_binding()) + " few values of it import; " + difference_);
    return false;
  }

  bool try_random_bindings() {
    std::mt19937 random(1);
    for (int count = 0; count < kRandomBindings; ++count) {
      Binding binding;
      for (const OpenSymbol& symbol : symbols_) {
        const int64_t least = symbol.values.front();
        const int64_t most = std::max(least, std::min(symbol.values.back(), kSmallest));
        const auto range = static_cast<uint64_t>(most - least + 1);
        binding.push_back((least + static_cast<int64_t>(random() % range)) * symbol.unit);
      }
      if (try_binding(binding)) continue;
      error("symbols cannot be kept: with " + text_of_binding(binding) + " " + difference_);
      return false;
    }
    return true;
  }

  // The expression of a number of the graph; nullopt where there is none. The first sample's
  // itself where it is the same everywhere.
  std::optional<SourceDim> expression_of(size_t at) {
    std::vector<int64_t> values;
    for (const Sample& sample : samples_) values.push_back(sample.numbers[at]);
    if (std::ranges::all_of(values, [&](int64_t v) { return v == values.front(); }))
      return values.front();
    const auto found = found_.find(values);
    if (found != found_.end()) return found->second;
    std::vector<std::string> symbols;
    for (const OpenSymbol& symbol : symbols_) symbols.push_back(symbol.in_expression);
    std::optional<SourceDim> expression;
    if (auto text = fit_dim(symbols, bindings_, values)) expression = std::move(*text);
    return found_.emplace(std::move(values), std::move(expression)).first->second;
  }

  bool has_all_expressions() {
    for (size_t at = 0; at < samples_.front().numbers.size(); ++at) {
      if (!expression_of(at)) return false;
    }
    return true;
  }

  // What a model makes of an axis of one element (a remainder, a pair of neighbours) need not
  // follow from what it makes of longer ones: such a symbol has two at least.
  void leave_out_ones() {
    if (has_all_expressions()) return;
    const auto all = std::tuple(symbols_, bindings_, samples_);
    const auto restore = [&] {
      std::tie(symbols_, bindings_, samples_) = all;
      found_.clear();
    };
    for (size_t i = 0; i < symbols_.size(); ++i) {
      leave_out_one(i);
      if (has_all_expressions()) return;
      restore();
    }
    for (size_t i = 0; i < symbols_.size(); ++i) leave_out_one(i);
    if (!has_all_expressions()) restore();
  }

  void leave_out_one(size_t i) {
    std::vector<int64_t>& values = symbols_[i].values;
    if (values.front() != 1 || values.size() <= kFewestValues) return;
    values.erase(values.begin());
    for (size_t at = bindings_.size(); at-- > 1;) {
      if (bindings_[at][i] != symbols_[i].unit) continue;
      bindings_.erase(bindings_.begin() + static_cast<std::ptrdiff_t>(at));
      samples_.erase(samples_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    found_.clear();
  }

  // Replaces each integer that is not the same everywhere by its expression.
  bool write_expressions(SourceGraph& graph) {
    bool is_good = true;
    size_t at = 0;
    const auto fitted = [&](const SourceNode& node, const std::string& name,
                            int64_t number) -> SourceDim {
      if (std::optional<SourceDim> dim = expression_of(at++)) return std::move(*dim);
      is_good = false;
      diagnostics_.add({.severity = Severity::Error,
                        .code = DiagCode::UnboundSymbol,
                        .place = node.place,
                        .op = node.op,
                        .node = node.name,
                        .message = "attribute " + in_quotes(name) + " is " +
                                   std::to_string(number) + " with " +
                                   text_of_binding(bindings_.front()) +
                                   " and follows from them by no expression that rlx finds",
                        .hint = "bind them with --dim"});
      return number;
    };
    visit_numbers(graph, [&](SourceNode& node, const std::string& name, SourceAttribute& value) {
      if (const auto* integer = std::get_if<int64_t>(&value)) {
        const SourceDim dim = fitted(node, name, *integer);
        if (const auto* text = std::get_if<std::string>(&dim)) value = *text;
        if (std::holds_alternative<std::string>(dim)) expressions_.insert({&node, name});
        return;
      }
      const auto* ints = std::get_if<Ints>(&value);
      if (ints == nullptr) return;
      SourceDims dims;
      for (const int64_t number : *ints) dims.push_back(fitted(node, name, number));
      const bool is_symbolic = std::any_of(dims.begin(), dims.end(), [](const SourceDim& dim) {
        return std::holds_alternative<std::string>(dim);
      });
      if (is_symbolic) value = std::move(dims);
    });
    return is_good;
  }

  // Whether the expressions that were found are right where the symbol is 0, too, which none of
  // them was made from: a model may want none of what it takes any number of.
  bool holds_at_zero(const SourceGraph& graph, size_t symbol) const {
    if (symbols_[symbol].values.front() != 1) return false;
    Binding binding = first_binding();
    binding[symbol] = 0;
    Diagnostics errors;
    const OnnxResult result = import_at(binding, errors);
    if (!result.graph) return false;
    const Sample sample = sample_of(*result.graph);
    return sample.fixed == samples_.front().fixed &&
           sample.numbers == written_numbers(graph, binding);
  }

  // What the expressions in the graph are at a binding.
  std::vector<int64_t> written_numbers(const SourceGraph& graph, const Binding& binding) const {
    const SymbolLookup lookup = [&](const std::string& name) -> std::optional<Dim> {
      for (size_t i = 0; i < symbols_.size(); ++i) {
        if (symbols_[i].name == name) return Dim(binding[i]);
      }
      return std::nullopt;
    };
    std::vector<int64_t> numbers;
    const auto add = [&](const std::string& text) {
      const auto size = evaluate_dim(text, lookup);
      if (const auto* number = std::get_if<Dim>(&size)) numbers.push_back(number->bound());
    };
    visit_numbers(
        graph, [&](const SourceNode& node, const std::string& name, const SourceAttribute& value) {
          if (const auto* integer = std::get_if<int64_t>(&value)) numbers.push_back(*integer);
          if (const auto* ints = std::get_if<Ints>(&value))
            numbers.insert(numbers.end(), ints->begin(), ints->end());
          const auto* text = std::get_if<std::string>(&value);
          if (text != nullptr && expressions_.contains({&node, name})) add(*text);
          const auto* dims = std::get_if<SourceDims>(&value);
          for (size_t i = 0; dims != nullptr && i < dims->size(); ++i) {
            if (const auto* number = std::get_if<int64_t>(&(*dims)[i])) numbers.push_back(*number);
            if (const auto* size = std::get_if<std::string>(&(*dims)[i])) add(*size);
          }
        });
    return numbers;
  }

  void write_symbols(SourceGraph& graph) const {
    std::vector<bool> may_be_zero;
    for (size_t i = 0; i < symbols_.size(); ++i) may_be_zero.push_back(holds_at_zero(graph, i));
    for (size_t i = 0; i < symbols_.size(); ++i) {
      const OpenSymbol& symbol = symbols_[i];
      graph.symbols.push_back({.place = {file_, ""},
                               .name = symbol.name,
                               .minimum = may_be_zero[i] ? 0 : symbol.values.front() * symbol.unit,
                               .maximum = symbol.values.back() * symbol.unit,
                               .multiple_of = symbol.unit});
    }
    visit_open_dims([&](const std::string& input, int axis, const std::string& name) {
      for (SourceTensor& tensor : graph.entries.front().inputs) {
        if (tensor.name == input) tensor.shape.at(static_cast<size_t>(axis)) = name;
      }
    });
  }

  const std::shared_ptr<const onnx::ModelProto>& model_;
  const std::string& file_;
  const OnnxOptions& options_;
  Diagnostics& diagnostics_;
  std::vector<OpenSymbol> symbols_;
  std::vector<Binding> bindings_;  // at which the model imports, the first one first
  std::vector<Sample> samples_;    // one for each of them; only the first has its fixed part
  std::string difference_;         // of the last binding that did not
  // Of the values of a number at all bindings.
  std::map<std::vector<int64_t>, std::optional<SourceDim>> found_;
  // Attributes, of one integer each, that became expressions.
  std::set<std::pair<const SourceNode*, std::string>> expressions_;
};

}  // namespace

OnnxResult import_open_model(const std::shared_ptr<const onnx::ModelProto>& model,
                             const std::string& file, const OnnxOptions& options,
                             Diagnostics& diagnostics) {
  return OpenImporter(model, file, options, diagnostics).import();
}

}  // namespace rlx::onnx_import
