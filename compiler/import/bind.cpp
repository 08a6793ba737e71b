// SPDX-License-Identifier: Apache-2.0
// SourceGraph to Module: symbols, weights, states, then each entry.
#include <algorithm>
#include <set>

#include "compiler/import/bind_entry.h"
#include "compiler/import/import.h"
#include "compiler/import/names.h"
#include "compiler/import/weights.h"
#include "compiler/support/check.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

class ModuleBinder {
 public:
  ModuleBinder(const SourceGraph& source, const DimBindings& dims, const FreeDims& free_dims,
               const std::string& folder, Diagnostics& diagnostics)
      : source_(source),
        diagnostics_(diagnostics),
        symbols_(source, dims, free_dims, diagnostics),
        weights_(folder, diagnostics) {}

  Module bind() {
    module_.name = source_.name;
    module_.producer = source_.producer;
    module_.text = source_.text;
    module_.symbols = symbols_.bound();
    for (const SourceTensor& param : source_.params) bind_weight(param, "param", false);
    for (const SourceTensor& constant : source_.constants) bind_weight(constant, "constant", true);
    for (const SourceTensor& state : source_.states) bind_state(state);
    weights_.finish();
    module_.files = weights_.files();
    for (const SourceEntry& entry : source_.entries) {
      module_.entries.push_back(
          bind_entry(entry, {module_, leaves_, symbols_, source_.auto_promote, diagnostics_}));
    }
    return std::move(module_);
  }

 private:
  // The tensor's type, or nullopt after an error.
  std::optional<TensorType> type_of(const SourceTensor& tensor, const std::string& what) {
    const std::optional<Shape> shape =
        symbols_.resolve(tensor.shape, tensor.place, "shape of " + what);
    if (!shape) return std::nullopt;
    // Its bytes are laid out, and written, when the plan is compiled.
    const auto free = std::ranges::find_if(*shape, [](const Dim& dim) { return dim.is_free(); });
    if (free != shape->end()) {
      report_free_size(diagnostics_, tensor.place, "the size of " + what, *free);
      return std::nullopt;
    }
    TensorType type{tensor.dtype, *shape};
    const std::optional<std::string> fault = type_fault(type);
    if (!fault) return type;
    diagnostics_.error(DiagCode::Limit, tensor.place, what + " " + *fault);
    return std::nullopt;
  }

  void add_leaf(const SourceTensor& tensor, Leaf leaf) {
    const auto [earlier, is_new] = leaves_.emplace(tensor.name, leaf);
    if (is_new) return;
    diagnostics_.error(DiagCode::DuplicateName, tensor.place,
                       "value " + in_quotes(tensor.name) + " is defined twice: as " +
                           std::string(earlier->second.role) + " and as " + std::string(leaf.role));
  }

  void bind_weight(const SourceTensor& tensor, std::string_view role, bool is_constant) {
    const std::string what = std::string(role) + " " + in_quotes(tensor.name);
    Leaf leaf{.role = role, .weight = {}, .state = {}};
    const std::optional<TensorType> type = type_of(tensor, what);
    std::optional<WeightData> data;
    if (type && tensor.data) data = weights_.read(tensor, *type, what);
    if (data) leaf.weight = module_.add_weight({tensor.name, *type, std::move(*data), is_constant});
    add_leaf(tensor, leaf);
  }

  void bind_state(const SourceTensor& tensor) {
    const std::string what = "state " + in_quotes(tensor.name);
    Leaf leaf{.role = "state", .weight = {}, .state = {}};
    if (const std::optional<TensorType> type = type_of(tensor, what)) {
      std::optional<WeightData> data;
      if (tensor.data) data = weights_.read(tensor, *type, what);
      if (data || !tensor.data) leaf.state = add_state(tensor, *type, std::move(data));
    }
    add_leaf(tensor, leaf);
  }

  StateId add_state(const SourceTensor& tensor, const TensorType& type,
                    std::optional<WeightData> data) {
    State state{.name = tensor.name, .type = type, .init = {}};
    if (data)
      state.init = module_.add_weight({init_name(tensor.name), type, std::move(*data), true});
    module_.states.push_back(std::move(state));
    return StateId{static_cast<uint32_t>(module_.states.size() - 1)};
  }

  // A name for a state's first value that no tensor of the file has.
  std::string init_name(const std::string& state) {
    if (tensor_names_.empty()) {
      for (const auto* list : {&source_.params, &source_.constants, &source_.states}) {
        for (const SourceTensor& tensor : *list) tensor_names_.insert(tensor.name);
      }
    }
    std::string name = state + ".init";
    while (!tensor_names_.insert(name).second) name += "_";
    return name;
  }

  const SourceGraph& source_;
  Diagnostics& diagnostics_;
  SymbolTable symbols_;
  WeightReader weights_;
  Module module_;
  Leaves leaves_;
  std::set<std::string> tensor_names_;
};

}  // namespace

std::optional<Module> bind_module(const SourceGraph& source, const DimBindings& dims,
                                  const std::string& folder, Diagnostics& diagnostics,
                                  const FreeDims& free_dims) {
  const size_t errors_before = diagnostics.error_count();
  Module module = ModuleBinder(source, dims, free_dims, folder, diagnostics).bind();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  const std::optional<std::string> fault = find_fault(module);
  RLX_CHECK(!fault, "import of " + source.file + ": " + *fault);
  return module;
}

}  // namespace rlx
