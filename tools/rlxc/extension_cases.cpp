// SPDX-License-Identifier: Apache-2.0
#include "tools/rlxc/extension_cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "compiler/import/import.h"
#include "compiler/import/names.h"
#include "compiler/import/weights.h"
#include "compiler/passes/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "tools/rlxrun/handles.h"

namespace rlx {
namespace {

using Json = nlohmann::ordered_json;

// Of class norm (ops.md 0.5), in units of the largest element.
constexpr double kRtol = 2e-5;
constexpr double kAtol = 1e-5;
constexpr size_t kMostDifferences = 24;  // of an input's elements
constexpr double kStep = 1e-5;
constexpr double kGradientBound = 1e-4;  // relative to the largest gradient

class CaseReader {
 public:
  CaseReader(const ExtensionFamily& family, std::string file, Diagnostics& diagnostics)
      : family_(family), file_(std::move(file)), diagnostics_(diagnostics) {}

  std::vector<ExtensionCase> read(const std::string& text) {
    std::vector<ExtensionCase> cases;
    const Json root = Json::parse(text, nullptr, false);
    if (!root.is_object() || root.size() != 1 || !root.contains("cases") ||
        !root["cases"].is_array()) {
      fail("", "wanted {\"cases\": [...]}");
      return cases;
    }
    for (size_t i = 0; i < root["cases"].size(); ++i) {
      place_ = "/cases/" + std::to_string(i);
      if (auto test = read_case(root["cases"][i])) cases.push_back(std::move(*test));
    }
    return cases;
  }

 private:
  std::nullopt_t fail(const std::string& where, const std::string& message) {
    diagnostics_.error(DiagCode::BadField, {file_, place_ + where}, message);
    return std::nullopt;
  }

  bool knows_fields(const Json& object, std::initializer_list<const char*> known,
                    const std::string& where) {
    if (!object.is_object()) {
      fail(where, "wanted an object");
      return false;
    }
    for (const auto& [key, value] : object.items()) {
      const bool is_known =
          std::ranges::any_of(known, [&wanted = key](const char* name) { return wanted == name; });
      if (is_known) continue;
      fail(where, "field " + in_quotes(key) + " is unknown");
      return false;
    }
    return true;
  }

  std::optional<ExtensionCase> read_case(const Json& json) {
    if (!knows_fields(json,
                      {"name", "op", "attributes", "inputs", "outputs", "rtol", "atol", "gradient",
                       "refused"},
                      ""))
      return std::nullopt;
    ExtensionCase test;
    const Json op = json.value("op", Json());
    for (const Extension* known : family_.ops) {
      const std::string short_name = known->name.substr(known->name.find('.') + 1);
      if (op.is_string() && (op == known->name || op == short_name)) test.op = known;
    }
    if (test.op == nullptr) return fail("/op", "the case is of no op of the extension");
    const Json name = json.value("name", Json());
    if (!name.is_string()) return fail("/name", "wanted a name");
    test.name = name;
    test.attributes = json.value("attributes", Json::object());
    if (json.contains("refused")) {
      if (!json["refused"].is_string()) return fail("/refused", "wanted a part of the error");
      test.refused = json["refused"];
    }
    for (const auto& [key, place] : {std::pair("rtol", &test.rtol), {"atol", &test.atol}}) {
      const Json number = json.value(key, Json(key == std::string("rtol") ? kRtol : kAtol));
      if (!number.is_number()) return fail(std::string("/") + key, "wanted a number");
      *place = number;
    }
    if (json.contains("gradient")) {
      if (!json["gradient"].is_boolean()) return fail("/gradient", "wanted true or false");
      test.gradient = json["gradient"];
    }
    if (!read_inputs(json.value("inputs", Json::object()), test) ||
        !read_golden(json.value("outputs", Json::object()), test))
      return std::nullopt;
    return test;
  }

  bool read_inputs(const Json& json, ExtensionCase& test) {
    std::vector<const char*> names;
    for (const ExtensionOperand& input : test.op->inputs) {
      if (!json.is_object() || !json.contains(input.name)) {
        fail("/inputs", "input " + in_quotes(input.name) + " of " + test.op->name + " is missing");
        return false;
      }
      std::optional<Tensor> tensor = read_input(json[input.name], input, test);
      if (!tensor) return false;
      test.inputs.push_back(std::move(*tensor));
    }
    if (json.size() == test.op->inputs.size()) return true;
    fail("/inputs", "some are no inputs of " + test.op->name);
    return false;
  }

  static std::optional<double> number(const Json& json) {
    if (json.is_number()) return json.get<double>();
    if (json == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (json == "inf") return std::numeric_limits<double>::infinity();
    if (json == "-inf") return -std::numeric_limits<double>::infinity();
    if (json.is_boolean()) return json.get<bool>() ? 1 : 0;
    return std::nullopt;
  }

  std::optional<Tensor> read_input(const Json& json, const ExtensionOperand& input,
                                   const ExtensionCase& test) {
    const std::string where = "/inputs/" + input.name;
    if (!knows_fields(json, {"shape", "dtype", "values", "uniform", "normal", "integers"}, where))
      return std::nullopt;
    // A type of its own needs no saying, of several the first.
    const auto types = test.op->types.find(input.dtype);
    const std::string usual =
        types != test.op->types.end() ? std::string(name_of(types->second.front())) : input.dtype;
    const Json dtype_name = json.value("dtype", Json(usual));
    const auto dtype =
        dtype_name.is_string() ? dtype_from_name(dtype_name.get<std::string>()) : std::nullopt;
    if (!dtype || block_elements(*dtype) != 1) return fail(where + "/dtype", "no element type");
    TensorType type{.dtype = *dtype, .shape = {}};
    for (const Json& size : json.value("shape", Json::array())) {
      if (!size.is_number_unsigned()) return fail(where + "/shape", "wanted sizes");
      type.shape.emplace_back(size.get<int64_t>());
    }
    if (type_fault(type)) return fail(where + "/shape", *type_fault(type));
    Tensor tensor = Tensor::zeros(type);
    if (!fill(json, where, test.name + "/" + input.name, tensor)) return std::nullopt;
    tensor.round_to_dtype();
    return tensor;
  }

  bool fill(const Json& json, const std::string& where, const std::string& seed, Tensor& tensor) {
    const auto put = [&tensor](size_t i, double value) {
      if (tensor.is_float())
        tensor.floats.at(i) = value;
      else
        tensor.integers.at(i) = static_cast<int64_t>(value);
    };
    const auto count = static_cast<size_t>(tensor.count());
    if (json.contains("values")) {
      const Json& values = json["values"];
      if (!values.is_array() || values.size() != count) {
        fail(where + "/values", "wanted a list of " + std::to_string(count) + " numbers");
        return false;
      }
      for (size_t i = 0; i < count; ++i) {
        const std::optional<double> value = number(values[i]);
        if (!value) {
          fail(where + "/values/" + std::to_string(i), "wanted a number");
          return false;
        }
        put(i, *value);
      }
      return true;
    }
    const char* kind = json.contains("uniform")    ? "uniform"
                       : json.contains("integers") ? "integers"
                       : json.contains("normal")   ? "normal"
                       : tensor.is_float()         ? ""
                                                   : "integers";
    const Json bounds =
        *kind != '\0' && json.contains(kind) ? json[kind] : Json{0, *kind == 'i' ? 8 : 1};
    if (!bounds.is_array() || bounds.size() != 2 || !number(bounds[0]) || !number(bounds[1])) {
      fail(where,
           "wanted \"uniform\": [low, high], \"integers\": [first, last] or \"normal\": "
           "[mean, deviation]");
      return false;
    }
    draw(kind, *number(bounds[0]), *number(bounds[1]), seed, count, put);
    return true;
  }

  template <typename Put>
  static void draw(const std::string& kind, double a, double b, const std::string& seed,
                   size_t count, const Put& put) {
    std::seed_seq seeds(seed.begin(), seed.end());
    std::mt19937_64 bits(seeds);
    const auto unit = [&bits] { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; };
    for (size_t i = 0; i < count; ++i) {
      if (kind == "uniform") {
        put(i, a + (b - a) * unit());
      } else if (kind == "integers") {
        put(i, a + std::floor((b - a + 1) * unit()));
      } else {
        constexpr double kTurn = 6.283185307179586;
        const double radius = std::sqrt(-2 * std::log(unit()));
        put(i, a + b * radius * std::cos(kTurn * unit()));
      }
    }
  }

  bool read_golden(const Json& json, ExtensionCase& test) {
    if (!json.is_object()) {
      fail("/outputs", "wanted an object of outputs");
      return false;
    }
    for (const auto& [name, list] : json.items()) {
      const bool is_output = std::ranges::any_of(
          test.op->outputs,
          [&wanted = name](const ExtensionOperand& output) { return output.name == wanted; });
      if (!is_output || !list.is_array()) {
        fail("/outputs/" + name, "wanted the numbers of an output of " + test.op->name);
        return false;
      }
      for (const Json& item : list) {
        const std::optional<double> value = number(item);
        if (!value) {
          fail("/outputs/" + name, "holds what is no number");
          return false;
        }
        test.golden[name].push_back(*value);
      }
    }
    return true;
  }

  const ExtensionFamily& family_;
  std::string file_;
  std::string place_;
  Diagnostics& diagnostics_;
};

double element(const Tensor& tensor, size_t i) {
  return tensor.is_float() ? tensor.floats.at(i) : static_cast<double>(tensor.integers.at(i));
}

std::vector<double> elements(const Tensor& tensor) {
  std::vector<double> all;
  for (size_t i = 0; i < static_cast<size_t>(tensor.count()); ++i)
    all.push_back(element(tensor, i));
  return all;
}

// Half a unit of the last place, relative.
double half_unit(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0x1p-24;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    default:
      return 0;
  }
}

std::optional<std::string> compare(const std::string& output, const std::vector<double>& got,
                                   const std::vector<double>& wanted, DType dtype,
                                   const ExtensionCase& test) {
  if (got.size() != wanted.size())
    return "output " + output + " has " + std::to_string(got.size()) + " elements, wanted " +
           std::to_string(wanted.size());
  double largest = 0;
  for (const double value : wanted) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == wanted[i] || (std::isnan(got[i]) && std::isnan(wanted[i]))) continue;
    const double bound = is_float(dtype) ? test.atol * largest + 1e-6 * (test.atol > 0 ? 1 : 0) +
                                               (test.rtol + half_unit(dtype)) * std::abs(wanted[i])
                                         : 0;
    if (std::isfinite(wanted[i]) && std::abs(got[i] - wanted[i]) <= bound) continue;
    std::string text = "output " + output + ", element " + std::to_string(i) + ": got ";
    return text + std::to_string(got[i]) + ", wanted " + std::to_string(wanted[i]) + " within " +
           std::to_string(bound);
  }
  return std::nullopt;
}

Json graph_of(const ExtensionCase& test) {
  Json inputs = Json::array();
  Json node = {{"op", test.op->name}, {"inputs", Json::array()}, {"outputs", Json::array()}};
  node["attributes"] = test.attributes;
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    Json shape = Json::array();
    for (const Dim& size : test.inputs[i].type.shape) shape.push_back(size.bound());
    inputs.push_back({{"name", test.op->inputs[i].name},
                      {"dtype", name_of(test.inputs[i].type.dtype)},
                      {"shape", shape}});
    node["inputs"].push_back(test.op->inputs[i].name);
  }
  for (const ExtensionOperand& output : test.op->outputs) node["outputs"].push_back(output.name);
  return {{"rlx_graph", 1},
          {"inputs", inputs},
          {"nodes", Json::array({node})},
          {"outputs", node["outputs"]}};
}

}  // namespace

std::optional<std::vector<ExtensionCase>> read_extension_cases(const ExtensionFamily& family,
                                                               Diagnostics& diagnostics) {
  if (family.cases.empty()) return std::vector<ExtensionCase>();
  const std::string file = family.files.place(family.cases);
  const std::optional<std::string> text = family.files.read(family.cases);
  if (!text) {
    diagnostics.error(DiagCode::FileMissing, {file, ""}, "the table of cases cannot be read");
    return std::nullopt;
  }
  std::vector<ExtensionCase> cases = CaseReader(family, file, diagnostics).read(*text);
  if (diagnostics.has_errors()) return std::nullopt;
  return cases;
}

std::optional<Module> module_of_case(const ExtensionCase& test, Diagnostics& diagnostics) {
  const std::optional<SourceGraph> graph =
      read_json_graph(graph_of(test).dump(), "case", diagnostics);
  return graph ? bind_module(*graph, {}, ".", diagnostics) : std::nullopt;
}

std::optional<std::string> check_on_evaluator(const ExtensionCase& test,
                                              std::optional<std::vector<Tensor>>& outputs) {
  Diagnostics diagnostics;
  const std::optional<Module> module = module_of_case(test, diagnostics);
  if (module && test.op->evaluate) {
    StateValues states;
    outputs =
        evaluate_entry(*module, module->entries.front(), test.inputs, states, {}, diagnostics);
  }
  const std::string errors = diagnostics.text();
  if (!test.refused.empty()) {
    if (errors.find(test.refused) != std::string::npos) return std::nullopt;
    return diagnostics.has_errors() ? "refused otherwise than wanted: " + errors
                                    : "taken, but should be refused: " + test.refused;
  }
  if (diagnostics.has_errors()) return errors;
  if (!outputs) return std::nullopt;
  for (size_t i = 0; i < outputs->size(); ++i) {
    const auto golden = test.golden.find(test.op->outputs[i].name);
    if (golden == test.golden.end()) continue;
    const Tensor& got = (*outputs)[i];
    if (auto fault = compare(golden->first, elements(got), golden->second, got.type.dtype, test))
      return "the evaluator: " + *fault;
  }
  return std::nullopt;
}

namespace {

// The case's node and the sum of its float outputs, each element times a number of its own.
struct Loss {
  Module module;
  ValueId value{};
};

std::optional<Loss> add_loss(Module module) {
  Loss loss{.module = std::move(module)};
  Graph& graph = loss.module.entries.front();
  NodeBuilder builder(loss.module, graph, {.stem = "loss"});
  std::optional<ValueId> sum;
  for (const ValueId output : std::vector<ValueId>(graph.outputs())) {
    const TensorType type = graph.value(output).type;
    if (!is_float(type.dtype) || element_count(type.shape) == 0) continue;
    Tensor weights = Tensor::zeros(type);
    for (size_t i = 0; i < weights.floats.size(); ++i)
      weights.floats[i] = 0.5 + static_cast<double>(i * 7 % 11) / 8;
    const ValueId weighted = builder.emit("mul", {output, builder.constant("weights", weights)});
    const ValueId part = builder.reduce("reduce_sum", weighted, axes_from(0, type.shape.size()),
                                        NodeBuilder::Axes::Drop);
    sum = sum ? builder.emit("add", {*sum, part}) : part;
  }
  if (!sum) return std::nullopt;
  loss.value = *sum;
  return loss;
}

std::optional<double> evaluate_loss(const Loss& loss, const std::vector<Tensor>& inputs) {
  Graph graph = loss.module.entries.front();
  graph.set_outputs({loss.value});
  StateValues states;
  Diagnostics diagnostics;
  const auto outputs = evaluate_entry(loss.module, graph, inputs, states, {}, diagnostics);
  if (!outputs) return std::nullopt;
  return element(outputs->front(), 0);
}

}  // namespace

std::optional<std::string> check_gradient_of(const ExtensionCase& test) {
  if (!test.gradient || !test.refused.empty() || !test.op->gradient || !test.op->evaluate)
    return std::nullopt;
  Diagnostics diagnostics;
  std::optional<Module> module = module_of_case(test, diagnostics);
  if (!module) return diagnostics.text();
  std::optional<Loss> loss = add_loss(std::move(*module));
  if (!loss) return std::nullopt;
  Loss differentiated = *loss;
  Graph& graph = differentiated.module.entries.front();
  std::vector<ValueId> wanted;
  for (const std::string& name : test.op->gradient->gives) {
    for (size_t i = 0; i < test.op->inputs.size(); ++i) {
      if (test.op->inputs[i].name == name) wanted.push_back(graph.inputs[i]);
    }
  }
  const auto gradients =
      differentiate(differentiated.module, graph, differentiated.value, wanted, diagnostics);
  if (!gradients) return "the gradient: " + diagnostics.text();
  std::vector<ValueId> results;
  for (const auto& gradient : *gradients) {
    if (!gradient) return "the gradient gives none of an input that it lists";
    results.push_back(*gradient);
  }
  graph.set_outputs(results);
  StateValues states;
  const auto values =
      evaluate_entry(differentiated.module, graph, test.inputs, states, {}, diagnostics);
  if (!values) return "the gradient: " + diagnostics.text();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto found = std::ranges::find(loss->module.entries.front().inputs, wanted[i]);
    const auto input = static_cast<size_t>(found - loss->module.entries.front().inputs.begin());
    const std::vector<double> got = elements((*values)[i]);
    double largest = 0;
    for (const double value : got) largest = std::max(largest, std::abs(value));
    const size_t stride = std::max<size_t>(got.size() / kMostDifferences, 1);
    for (size_t at = 0; at < got.size(); at += stride) {
      std::vector<Tensor> moved = test.inputs;
      double& place = moved[input].floats.at(at);
      const double centre = place;
      if (!std::isfinite(centre)) continue;
      const double step = kStep * std::max(1.0, std::abs(centre));
      place = centre + step;
      const auto above = evaluate_loss(*loss, moved);
      place = centre - step;
      const auto below = evaluate_loss(*loss, moved);
      if (!above || !below) return "the evaluator gives no value beside the case";
      const double difference = (*above - *below) / (2 * step);
      if (std::abs(got[at] - difference) <= kGradientBound * (largest + 1e-3)) continue;
      return "the gradient of " + test.op->gradient->gives[i] + ", element " + std::to_string(at) +
             ": got " + std::to_string(got[at]) + ", the evaluator's difference is " +
             std::to_string(difference);
    }
  }
  return std::nullopt;
}

namespace {

std::optional<std::string> last_error(rlx_status status) {
  if (status == RLX_OK) return std::nullopt;
  return std::string(rlx_last_error());
}

// The outputs of one run; `fault` where there are none.
std::optional<std::vector<Tensor>> run_case(const ExtensionCase& test, const Graph& graph,
                                            const std::vector<std::byte>& bytes,
                                            const std::string& device_id, std::string& fault) {
  rlx_plan* plan = nullptr;
  rlx_device* device = nullptr;
  rlx_session* session = nullptr;
  const auto fails = [&fault](rlx_status status) {
    if (const auto error = last_error(status)) fault = *error;
    return status != RLX_OK;
  };
  if (fails(rlx_plan_open_memory(bytes.data(), bytes.size(), nullptr, &plan))) return std::nullopt;
  const tool::PlanHandle own_plan(plan);
  if (fails(rlx_device_open(device_id.c_str(), &device))) return std::nullopt;
  const tool::DeviceHandle own_device(device);
  auto options = RLX_INIT(rlx_session_options);
  options.check_indices = 1;
  if (fails(rlx_session_create(plan, device, &options, &session))) return std::nullopt;
  const tool::SessionHandle own_session(session);
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    const std::vector<std::byte> data = test.inputs[i].to_bytes();
    auto tensor = RLX_INIT(rlx_tensor);
    tensor.data = const_cast<std::byte*>(data.data());
    tensor.size_bytes = data.size();
    tensor.dtype = static_cast<uint32_t>(test.inputs[i].type.dtype);
    tensor.rank = static_cast<uint32_t>(test.inputs[i].type.shape.size());
    for (size_t axis = 0; axis < tensor.rank; ++axis)
      tensor.dims[axis] = static_cast<uint64_t>(test.inputs[i].type.shape[axis]);
    if (fails(rlx_session_set_input(session, 0, test.op->inputs[i].name.c_str(), &tensor)))
      return std::nullopt;
  }
  const rlx_status ran = rlx_session_run(session, 0);
  if (ran == RLX_INDEX_OUT_OF_RANGE)
    fault =
        "the kernel reads or writes outside its operands: its shape rule and its text do not "
        "agree (" +
        std::string(rlx_last_error()) + ")";
  if (ran != RLX_OK && (ran == RLX_INDEX_OUT_OF_RANGE || fails(ran))) return std::nullopt;
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const TensorType& type = graph.value(graph.outputs()[i]).type;
    std::vector<std::byte> data(static_cast<size_t>(byte_size(type)));
    const std::string& name = test.op->outputs[i].name;
    if (fails(rlx_session_read_output(session, 0, name.c_str(), data.data(), data.size())))
      return std::nullopt;
    outputs.push_back(Tensor::from_bytes(type, data));
  }
  return outputs;
}

}  // namespace

std::optional<std::string> check_on_device(const ExtensionCase& test, const std::string& device,
                                           const CompileOptions& options,
                                           const std::optional<std::vector<Tensor>>& outputs) {
  if (!test.refused.empty()) return std::nullopt;
  Diagnostics diagnostics;
  std::optional<Module> module = module_of_case(test, diagnostics);
  if (!module) return diagnostics.text();
  const Graph graph = module->entries.front();
  const auto bytes = compile_to_bytes(std::move(*module), options, diagnostics);
  if (!bytes) return diagnostics.text();
  std::string fault;
  const auto got = run_case(test, graph, *bytes, device, fault);
  if (!got) return device + ": " + fault;
  for (size_t i = 0; i < got->size(); ++i) {
    const std::string& name = test.op->outputs[i].name;
    const auto golden = test.golden.find(name);
    if (!outputs && golden == test.golden.end()) continue;
    Tensor reference = outputs ? (*outputs)[i] : Tensor::zeros((*got)[i].type);
    const std::vector<double> wanted = outputs ? elements(reference) : golden->second;
    if (auto wrong = compare(name, elements((*got)[i]), wanted, (*got)[i].type.dtype, test))
      return device + ": " + *wrong;
  }
  return std::nullopt;
}

}  // namespace rlx
