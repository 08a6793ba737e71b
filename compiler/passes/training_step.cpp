// SPDX-License-Identifier: Apache-2.0
// Gradients as outputs, and the entries of a training step.
#include "compiler/passes/training_step.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/ir/constants.h"
#include "compiler/ops/node_builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/differentiate.h"
#include "compiler/passes/pass.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

std::string quoted(const std::string& name) {
  return "\"" + name + "\"";
}

std::optional<ValueId> find_value(const Graph& graph, const std::string& name) {
  std::set<ValueId> known(graph.inputs.begin(), graph.inputs.end());
  for (size_t i = 0; i < graph.value_count(); ++i) {
    const ValueId id{static_cast<uint32_t>(i)};
    if (graph.value(id).name == name) return id;
  }
  return std::nullopt;
}

// A node's result, or what it is called as an output.
std::optional<ValueId> find_loss(const Graph& graph, const std::string& name) {
  const std::optional<ValueId> found = find_value(graph, name);
  if (found && graph.value(*found).origin == ValueOrigin::Node) return found;
  return std::nullopt;
}

// Puts the bodies of an entry in place of their nodes: what they read and train is then the entry's
// own. Its outputs and the loss stay values of their names. False where anything was reported.
bool inline_around(Module& module, Graph& graph, ValueId loss, Diagnostics& diagnostics) {
  const std::vector<ValueId> outputs = graph.outputs();
  graph.add_output(loss);
  const bool good = inline_bodies_of(module, graph, diagnostics);
  graph.set_outputs(outputs);
  return good;
}

bool report_no_loss(const Module& module, const std::string& loss, Diagnostics& diagnostics) {
  std::string outputs;
  for (const Graph& graph : module.entries) {
    for (const ValueId id : graph.outputs())
      outputs += (outputs.empty() ? "" : ", ") + quoted(graph.value(id).name);
  }
  diagnostics.error(DiagCode::BadOption, {},
                    "no entry computes a value " + quoted(loss) + ", the loss",
                    "name one; outputs are " + outputs);
  return false;
}

// What is differentiated by in one entry: by name, in the order of the module's weights, then of
// the inputs.
struct Wanted {
  std::vector<std::string> names;
  std::vector<ValueId> values;
};

bool is_listed(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_trainable(const Weight& weight) {
  return !weight.is_constant && is_float(weight.type.dtype);
}

bool check_wanted(const Module& module, const Graph& graph, const TrainingOptions& options,
                  Diagnostics& diagnostics) {
  const auto is_param = [&](const std::string& name) {
    return std::any_of(module.weights.begin(), module.weights.end(), [&](const Weight& weight) {
      return is_trainable(weight) && weight.name == name;
    });
  };
  const auto is_input = [&](const std::string& name) {
    return std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](ValueId id) {
      return graph.value(id).name == name && is_float(graph.value(id).type.dtype);
    });
  };
  for (const std::string& name : options.wanted) {
    if (is_param(name) || (!options.optimizer && is_input(name))) continue;
    diagnostics.error(DiagCode::BadOption, {},
                      quoted(name) + " is no float param" +
                          (options.optimizer ? std::string() : " or input") + " of entry " +
                          quoted(graph.name),
                      "rlxc convert shows a model's params and inputs");
  }
  for (const std::string& name : options.frozen) {
    if (is_param(name)) continue;
    diagnostics.error(DiagCode::BadOption, {},
                      quoted(name) + " is no float param, so none is frozen");
  }
  return !diagnostics.has_errors();
}

Wanted wanted_of(const Module& module, const Graph& graph, const TrainingOptions& options) {
  Wanted wanted;
  const auto add = [&](ValueId id, const std::string& name) {
    if (is_listed(options.frozen, name)) return;
    if (!options.wanted.empty() && !is_listed(options.wanted, name)) return;
    wanted.names.push_back(name);
    wanted.values.push_back(id);
  };
  std::set<WeightId> seen;
  for (size_t i = 0; i < graph.value_count(); ++i) {
    const ValueId id{static_cast<uint32_t>(i)};
    const Value& value = graph.value(id);
    if (!value.weight || !is_trainable(module.weight(*value.weight))) continue;
    if (seen.insert(*value.weight).second) add(id, module.weight(*value.weight).name);
  }
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    if (!options.wanted.empty() && is_float(value.type.dtype)) add(id, value.name);
  }
  return wanted;
}

// Gradients of what the loss depends on; what was asked for by name must be among it.
struct Gradients {
  Wanted of;
  std::vector<ValueId> values;
};

std::optional<Gradients> gradients_of(Module& module, Graph& graph, ValueId loss,
                                      const TrainingOptions& options, Diagnostics& diagnostics) {
  const Wanted wanted = wanted_of(module, graph, options);
  const auto found = differentiate(module, graph, loss, wanted.values, diagnostics);
  if (!found) return std::nullopt;
  Gradients gradients;
  for (size_t i = 0; i < wanted.names.size(); ++i) {
    if ((*found)[i]) {
      gradients.of.names.push_back(wanted.names[i]);
      gradients.of.values.push_back(wanted.values[i]);
      gradients.values.push_back(*(*found)[i]);
    } else if (!options.wanted.empty()) {
      diagnostics.error(
          DiagCode::BadOption, {},
          "the loss " + quoted(options.loss) + " does not depend on " + quoted(wanted.names[i]));
    }
  }
  if (diagnostics.has_errors()) return std::nullopt;
  if (!gradients.values.empty()) return gradients;
  diagnostics.error(DiagCode::BadOption, {},
                    "the loss " + quoted(options.loss) + " depends on no float param",
                    "weights that shall be trained are params of the graph, no constants");
  return std::nullopt;
}

// The value under a name of its own, as an output wants it.
ValueId named(Graph& graph, ValueId value, const std::string& name) {
  const TensorType type = graph.value(value).type;
  const ValueId result = graph.add_value(
      {.name = graph.fresh_name(name), .type = type, .weight = {}, .state = {}, .producer = {}});
  graph.add_node({.name = graph.value(result).name,
                  .op = "identity",
                  .inputs = {value},
                  .outputs = {result},
                  .attributes = {},
                  .region = {},
                  .place = {},
                  .source = {}});
  return result;
}

// ---- a training step ----

class StateTable {
 public:
  StateTable(Module& module, Diagnostics& diagnostics)
      : module_(module), diagnostics_(diagnostics) {}

  StateId add(const std::string& name, const TensorType& type, std::optional<WeightId> init = {}) {
    const auto taken = std::any_of(module_.states.begin(), module_.states.end(),
                                   [&](const State& state) { return state.name == name; });
    if (taken) {
      diagnostics_.error(DiagCode::BadOption, {},
                         "the training step wants a state " + quoted(name) +
                             ", and the model has one of that name",
                         "rename the model's");
    }
    module_.states.push_back({.name = name, .type = type, .init = init});
    return StateId{static_cast<uint32_t>(module_.states.size() - 1)};
  }
  // The state's value at the start of a run.
  ValueId value(Graph& graph, StateId id) const {
    for (size_t i = 0; i < graph.value_count(); ++i) {
      const ValueId known{static_cast<uint32_t>(i)};
      if (graph.value(known).state == id) return known;
    }
    const State& state = module_.state(id);
    return graph.add_value({.name = graph.fresh_name(state.name + ".state"),
                            .type = state.type,
                            .origin = ValueOrigin::State,
                            .weight = {},
                            .state = id,
                            .producer = {}});
  }

 private:
  Module& module_;
  Diagnostics& diagnostics_;
};

TensorType moment_type(const TensorType& type) {
  return {type.dtype == DType::f64 ? DType::f64 : DType::f32, type.shape};
}

class StepMaker {
 public:
  StepMaker(Module& module, const TrainingOptions& options, Diagnostics& diagnostics)
      : module_(module),
        options_(options),
        diagnostics_(diagnostics),
        states_(module, diagnostics) {}

  // `graph` is an entry of the module; the loss is a value of it.
  bool make(Graph& graph, bool updates) {
    const std::optional<ValueId> loss = find_loss(graph, options_.loss);
    RLX_CHECK(loss.has_value(), "an entry without its loss");
    if (!inline_around(module_, graph, *loss, diagnostics_)) return false;
    carry_statistics(graph, updates);
    graph.set_outputs({*loss});
    const auto gradients = gradients_of(module_, graph, *loss, options_, diagnostics_);
    if (!gradients) return false;
    declare_states(gradients->of, graph);
    if (diagnostics_.has_errors()) return false;
    NodeBuilder builder(module_, graph, {.stem = "optimizer"});
    std::vector<ValueId> sums = summed(builder, gradients->of, gradients->values, updates);
    if (updates) update(builder, gradients->of, std::move(sums));
    return !diagnostics_.has_errors();
  }

  // Every entry reads the states instead of the weights.
  void read_states() {
    for (Graph& graph : module_.entries) {
      for (const auto& [weight, state] : parameters_) {
        const std::optional<ValueId> old = weight_value(graph, weight);
        if (old) graph.replace_uses(*old, states_.value(graph, state));
      }
    }
  }

 private:
  static std::optional<ValueId> weight_value(const Graph& graph, WeightId weight) {
    for (size_t i = 0; i < graph.value_count(); ++i) {
      const ValueId id{static_cast<uint32_t>(i)};
      if (graph.value(id).weight == weight) return id;
    }
    return std::nullopt;
  }

  void declare_states(const Wanted& of, const Graph& graph) {
    if (!parameters_.empty() || diagnostics_.has_errors()) return;
    const bool adam = options_.optimizer != Optimizer::Sgd;
    for (const ValueId value : of.values) {
      const WeightId weight = *graph.value(value).weight;
      const std::string name = module_.weight(weight).name;
      const TensorType type = module_.weight(weight).type;
      parameters_.emplace(weight, states_.add(name, type, weight));
      if (adam) first_.emplace(weight, states_.add(name + ".m", moment_type(type)));
      if (adam) second_.emplace(weight, states_.add(name + ".v", moment_type(type)));
      if (!adam && options_.momentum > 0)
        first_.emplace(weight, states_.add(name + ".momentum", moment_type(type)));
      if (options_.accumulate > 1)
        sums_.emplace(weight, states_.add(name + ".grad", moment_type(type)));
    }
    step_ = states_.add("optimizer.step", {DType::i32, {}});
  }

  void write(NodeBuilder& builder, StateId state, ValueId value) {
    builder.emit("state_write", {states_.value(builder.graph(), state), value});
  }

  // With what earlier runs have added up; a run that does not update writes it back.
  std::vector<ValueId> summed(NodeBuilder& builder, const Wanted& of,
                              std::vector<ValueId> gradients, bool updates) {
    if (options_.accumulate == 1) return gradients;
    for (size_t i = 0; i < gradients.size(); ++i) {
      const StateId state = sums_.at(*builder.graph().value(of.values[i]).weight);
      const ValueId old = states_.value(builder.graph(), state);
      const ValueId share = builder.affine(builder.cast(gradients[i], builder.dtype(old)),
                                           1.0 / static_cast<double>(options_.accumulate));
      gradients[i] = builder.emit("add", {old, share});
      write(builder, state, updates ? builder.filled(builder.type(old), 0) : gradients[i]);
    }
    return gradients;
  }

  [[nodiscard]] Attributes hyper_parameters() const {
    Attributes attributes = {{"weight_decay", options_.weight_decay}};
    if (!options_.lr_is_input) attributes["lr"] = options_.lr;
    if (options_.optimizer == Optimizer::Sgd) {
      attributes["momentum"] = options_.momentum;
      attributes["dampening"] = options_.dampening;
      attributes["nesterov"] = options_.nesterov;
    } else {
      attributes["beta1"] = options_.beta1;
      attributes["beta2"] = options_.beta2;
      attributes["eps"] = options_.eps;
      attributes["decoupled"] = options_.optimizer == Optimizer::AdamW;
    }
    return attributes;
  }

  std::optional<ValueId> rate_input(Graph& graph) {
    if (!options_.lr_is_input) return std::nullopt;
    if (find_value(graph, "lr")) {
      diagnostics_.error(DiagCode::BadOption, {},
                         "the training step wants an input \"lr\", and the model has a value of "
                         "that name",
                         "rename the model's, or give --lr a number");
      return std::nullopt;
    }
    const ValueId rate = graph.add_value({.name = "lr",
                                          .type = {DType::f32, {}},
                                          .origin = ValueOrigin::Input,
                                          .weight = {},
                                          .state = {},
                                          .producer = {}});
    graph.inputs.push_back(rate);
    return rate;
  }

  void update(NodeBuilder& builder, const Wanted& of, std::vector<ValueId> gradients) {
    Graph& graph = builder.graph();
    const std::optional<ValueId> rate = rate_input(graph);
    if (options_.clip_norm > 0) {
      NodeBuilder::Inputs all(gradients.begin(), gradients.end());
      gradients = builder.emit_all("clip_grad_norm", std::move(all),
                                   {{"max_norm", options_.clip_norm}}, gradients.size() + 1);
      graph.add_output(named(graph, gradients.back(), "grad_norm"));
      gradients.pop_back();
    }
    Tensor one = Tensor::zeros({DType::i32, {}});
    one.integers[0] = 1;
    const ValueId step =
        builder.emit("add", {states_.value(graph, step_), builder.constant("one", one)});
    write(builder, step_, step);
    for (size_t i = 0; i < gradients.size(); ++i) {
      const WeightId weight = *graph.value(of.values[i]).weight;
      const ValueId p = states_.value(graph, parameters_.at(weight));
      update_one(builder, weight, p, gradients[i], step, rate);
    }
  }

  void update_one(NodeBuilder& builder, WeightId weight, ValueId p, ValueId gradient, ValueId step,
                  std::optional<ValueId> rate) {
    Graph& graph = builder.graph();
    const auto state = [&](const std::map<WeightId, StateId>& table) -> std::optional<ValueId> {
      const auto found = table.find(weight);
      if (found == table.end()) return std::nullopt;
      return states_.value(graph, found->second);
    };
    std::vector<ValueId> results;
    if (options_.optimizer == Optimizer::Sgd) {
      const size_t outputs = options_.momentum > 0 ? 2 : 1;
      results = builder.emit_all("sgd", {p, gradient, state(first_), rate, step},
                                 hyper_parameters(), outputs);
    } else {
      results = builder.emit_all("adam", {p, gradient, state(first_), state(second_), step, rate},
                                 hyper_parameters(), 3);
    }
    write(builder, parameters_.at(weight), results[0]);
    if (results.size() > 1) write(builder, first_.at(weight), results[1]);
    if (results.size() > 2) write(builder, second_.at(weight), results[2]);
  }

  // The running statistics of batch_norm that trains become states; one that updates writes them.
  void carry_statistics(Graph& graph, bool updates) {
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      const Node& node = graph.node(id);
      if (node.op != OpId::batch_norm || !trains(node)) continue;
      while (graph.node(id).outputs.size() < 3) {
        const size_t input = graph.node(id).outputs.size() + 2;
        const ValueId statistic = *graph.node(id).inputs.at(input);
        const ValueId made =
            graph.add_value({.name = graph.fresh_name(graph.node(id).name + ".new"),
                             .type = graph.value(statistic).type,
                             .weight = {},
                             .state = {},
                             .producer = id,
                             .output_index = static_cast<uint32_t>(input - 2)});
        graph.change_node(id, [made](Node& changed) { changed.outputs.push_back(made); });
      }
      NodeBuilder builder(module_, graph, {.stem = graph.node(id).name + ".statistics"});
      for (const size_t input : {3, 4}) {
        const ValueId statistic = *graph.node(id).inputs.at(input);
        const std::optional<WeightId> weight = graph.value(statistic).weight;
        if (!weight || module_.weight(*weight).is_constant) continue;
        if (!parameters_.contains(*weight) && !statistics_.contains(*weight)) {
          statistics_.emplace(*weight, states_.add(module_.weight(*weight).name,
                                                   module_.weight(*weight).type, *weight));
        }
        if (updates) write(builder, statistics_.at(*weight), graph.node(id).outputs[input - 2]);
      }
    }
  }

 public:
  static bool trains(const Node& node) {
    const auto found = node.attributes.find("training");
    return found != node.attributes.end() && std::get<bool>(found->second);
  }
  void read_statistics() { parameters_.insert(statistics_.begin(), statistics_.end()); }

 private:
  Module& module_;
  const TrainingOptions& options_;
  Diagnostics& diagnostics_;
  StateTable states_;
  // By the weight that a state begins with.
  std::map<WeightId, StateId> parameters_;
  std::map<WeightId, StateId> first_;
  std::map<WeightId, StateId> second_;
  std::map<WeightId, StateId> sums_;
  std::map<WeightId, StateId> statistics_;
  StateId step_{};
};

// Entries under "train", one for each range of free sizes; a lone entry is split into "train" and
// "eval". Empty after a report.
std::vector<size_t> training_entries(Module& module, const TrainingOptions& options,
                                     Diagnostics& diagnostics) {
  std::set<std::string> names;
  for (const Graph& graph : module.entries) names.insert(graph.name);
  std::string source = "train";
  if (!names.contains(source)) {
    std::set<std::string> with_loss;
    for (const Graph& graph : module.entries) {
      if (find_loss(graph, options.loss)) with_loss.insert(graph.name);
    }
    if (with_loss.size() != 1) {
      if (with_loss.empty()) {
        report_no_loss(module, options.loss, diagnostics);
      } else {
        diagnostics.error(
            DiagCode::BadOption, {},
            "several entries compute " + quoted(options.loss) + ", and none is called \"train\"",
            "say which one trains: --entry train=NAME");
      }
      return {};
    }
    source = *with_loss.begin();
  }
  std::vector<size_t> found;
  const size_t count = module.entries.size();
  for (size_t i = 0; i < count; ++i) {
    if (module.entries[i].name != source) continue;
    if (!find_loss(module.entries[i], options.loss)) {
      report_no_loss(module, options.loss, diagnostics);
      return {};
    }
    if (source == "train") {
      found.push_back(i);
      continue;
    }
    found.push_back(module.entries.size());
    module.entries.push_back(module.entries[i]);
    module.entries.back().name = "train";
    if (names.size() == 1) module.entries[i].name = "eval";
  }
  return found;
}

void stop_training(Graph& graph) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const bool may_train = node.op == OpId::dropout || node.op == OpId::batch_norm;
    if (!may_train || !StepMaker::trains(node)) continue;
    graph.change_node(id, [](Node& changed) { changed.attributes["training"] = false; });
  }
}

}  // namespace

bool add_gradients(Module& module, const TrainingOptions& options, Diagnostics& diagnostics) {
  bool any = false;
  for (size_t i = 0; i < module.entries.size(); ++i) {
    Graph& graph = module.entries[i];
    const std::optional<ValueId> loss = find_loss(graph, options.loss);
    if (!loss) continue;
    any = true;
    if (!check_wanted(module, graph, options, diagnostics)) return false;
    if (!inline_around(module, graph, *loss, diagnostics)) return false;
    const auto gradients = gradients_of(module, graph, *loss, options, diagnostics);
    if (!gradients) return false;
    for (size_t k = 0; k < gradients->values.size(); ++k)
      graph.add_output(named(graph, gradients->values[k], "grad." + gradients->of.names[k]));
  }
  return any || report_no_loss(module, options.loss, diagnostics);
}

bool make_training_step(Module& module, const TrainingOptions& options, Diagnostics& diagnostics) {
  RLX_CHECK(options.optimizer.has_value(), "a training step without an optimizer");
  const std::vector<size_t> entries = training_entries(module, options, diagnostics);
  if (entries.empty()) return false;
  std::vector<size_t> accumulating;
  for (const size_t i : entries) {
    if (!check_wanted(module, module.entries[i], options, diagnostics)) return false;
    if (options.accumulate == 1) continue;
    accumulating.push_back(module.entries.size());
    module.entries.push_back(module.entries[i]);
    module.entries.back().name = "accumulate";
  }
  StepMaker maker(module, options, diagnostics);
  for (const size_t i : entries) {
    if (!maker.make(module.entries[i], true)) return false;
  }
  for (const size_t i : accumulating) {
    if (!maker.make(module.entries[i], false)) return false;
  }
  for (size_t i = 0; i < module.entries.size(); ++i) {
    const std::string& name = module.entries[i].name;
    if (name == "train" || name == "accumulate") continue;
    if (!inline_bodies_of(module, module.entries[i], diagnostics)) return false;
    stop_training(module.entries[i]);
  }
  maker.read_statistics();
  maker.read_states();
  return true;
}

}  // namespace rlx
