// SPDX-License-Identifier: Apache-2.0
// The reference of the graph fuzzer, step by step.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "compiler/ops/op_def.h"
#include "compiler/support/complex_bits.h"
#include "tests/fuzz/fuzz_graph.h"
#include "tests/support/fill.h"

namespace rlx::test {
namespace {

double half_ulp(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::f64:
      return 0x1p-53;
    default:
      return 0x1p-24;
  }
}

bool is_complex(const Tensor& tensor) {
  return tensor.type.dtype == DType::c64;
}

// What rounds: the elements of floats, both parts of complex ones, nothing of others.
std::vector<double> numbers_of(const Tensor& tensor) {
  if (!is_complex(tensor)) return tensor.floats;
  std::vector<double> parts;
  for (const int64_t bits : tensor.integers) {
    const std::complex<double> z = complex_from_bits(bits);
    parts.insert(parts.end(), {z.real(), z.imag()});
  }
  return parts;
}

void set_numbers(Tensor& tensor, std::vector<double> numbers) {
  if (!is_complex(tensor)) {
    tensor.floats = std::move(numbers);
    return;
  }
  for (size_t i = 0; i < tensor.integers.size(); ++i)
    tensor.integers[i] = complex_to_bits({numbers[2 * i], numbers[2 * i + 1]});
}

double deviation(const KnownValue& value) {
  const std::vector<double> plain = numbers_of(value.plain);
  const std::vector<double> stored = numbers_of(value.stored);
  double most = 0;
  for (size_t i = 0; i < plain.size(); ++i) most = std::max(most, std::fabs(plain[i] - stored[i]));
  return most;
}

// What another device makes of a value: it may round each element to the other side, and where its
// terms, which may be as large as the scale, cancel, a sum in another order moves what is left by
// far more than that. Attention's weights may be rounded before they meet v.
void accumulate_error(KnownValue& value, const std::string& op) {
  const double rounding = half_ulp(value.stored.type.dtype);
  const double terms = op == "attention" ? rounding * largest(value.stored) : 0;
  uint32_t random = 1;
  std::vector<double> numbers = numbers_of(value.stored);
  for (double& number : numbers) {
    random = random * 1664525 + 1013904223;  // up or down
    const double error = std::max(rounding * std::fabs(number), terms) + 0x1p-24 * value.scale;
    number += random >> 31 == 0 ? error : -error;
  }
  set_numbers(value.stored, std::move(numbers));
}

const std::set<std::string>& movements() {
  static const std::set<std::string> kOps = {"identity",
                                             "stop_gradient",
                                             "transpose",
                                             "reshape",
                                             "squeeze",
                                             "unsqueeze",
                                             "flatten",
                                             "slice",
                                             "narrow",
                                             "reverse",
                                             "split",
                                             "concat",
                                             "expand",
                                             "pad",
                                             "gather",
                                             "embedding",
                                             "stack",
                                             "tile",
                                             "roll",
                                             "repeat_interleave",
                                             "trilu",
                                             "diagonal",
                                             "gather_elements",
                                             "gather_nd",
                                             "depth_to_space",
                                             "space_to_depth",
                                             "where",
                                             "masked_fill",
                                             "topk",
                                             "sort",
                                             "reverse_sequence",
                                             "one_hot",
                                             "index_copy",
                                             "im2col",
                                             "resize_nearest_2x",
                                             "relu",
                                             "abs",
                                             "neg",
                                             "complex",
                                             "conjugate",
                                             "real",
                                             "imag",
                                             "max",
                                             "min",
                                             "reduce_max",
                                             "reduce_min"};
  return kOps;
}

std::string compare(const Tensor& got, const KnownValue& wanted) {
  const double bound = wanted.bound();
  const std::vector<double> numbers = numbers_of(got);
  const std::vector<double> plain = numbers_of(wanted.plain);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (std::fabs(numbers[i] - plain[i]) <= bound || numbers[i] == plain[i]) continue;
    return (is_complex(got) ? "part " : "element ") + std::to_string(i) + " is " +
           std::to_string(numbers[i]) + ", wanted " + std::to_string(plain[i]) + " within " +
           std::to_string(bound);
  }
  if (is_complex(got)) return {};
  for (size_t i = 0; i < got.integers.size(); ++i) {
    if (got.integers[i] == wanted.plain.integers[i]) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(got.integers[i]) + ", wanted " +
           std::to_string(wanted.plain.integers[i]);
  }
  return {};
}

}  // namespace

double largest(const Tensor& tensor) {
  double most = 0;
  for (const double value : numbers_of(tensor)) most = std::max(most, std::fabs(value));
  return most;
}

bool is_continuous(const std::string& op) {
  static const std::set<std::string> kJumps = {"floor",
                                               "ceil",
                                               "trunc",
                                               "round",
                                               "sign",
                                               "eq",
                                               "ne",
                                               "lt",
                                               "le",
                                               "gt",
                                               "ge",
                                               "argmax",
                                               "argmin",
                                               "topk",
                                               "sort",
                                               "argsort",
                                               "cast_to_integer",
                                               "mod",
                                               "fmod",
                                               "floor_div",
                                               "atan2",
                                               "angle",
                                               "is_nan",
                                               "is_inf",
                                               "cummax",
                                               "cummin",
                                               "nonzero"};
  return !kJumps.contains(op);
}

bool KnownValue::rounds() const {
  return plain.is_float() || is_complex(plain);
}

double KnownValue::bound() const {
  if (exact || !rounds()) return 0;
  constexpr double kRoundings = 16;
  constexpr double kAccumulation = 512 * 0x1p-24;
  return kRoundings * deviation(*this) + 8 * half_ulp(plain.type.dtype) * largest(plain) +
         kAccumulation * scale;
}

namespace {

bool may_be_zero(const KnownValue& value) {
  const std::vector<double> numbers = numbers_of(value.plain);
  const double bound = value.bound();
  return value.rounds() && !value.exact &&
         std::any_of(numbers.begin(), numbers.end(),
                     [bound](double number) { return std::fabs(number) <= bound; });
}

}  // namespace

bool is_wild(const KnownValue& value) {
  constexpr double kLargest = 1000;
  for (const double number : numbers_of(value.plain)) {
    if (!(std::fabs(number) <= kLargest)) return true;
  }
  for (const double number : numbers_of(value.stored)) {
    if (!std::isfinite(number)) return true;
  }
  if (!value.rounds()) return false;
  return value.bound() > 0.25 * std::max(0.1, largest(value.plain));
}

std::optional<std::vector<KnownValue>> evaluate_step(const Node& node,
                                                     const std::vector<const KnownValue*>& inputs,
                                                     const std::vector<TensorType>& types) {
  std::vector<const Tensor*> plain;
  std::vector<const Tensor*> stored;
  bool exact = true;
  double scale = 0;
  for (const KnownValue* input : inputs) {
    plain.push_back(input != nullptr ? &input->plain : nullptr);
    stored.push_back(input != nullptr ? &input->stored : nullptr);
    if (input == nullptr) continue;
    exact = exact && input->exact;
    scale = std::max(scale, input->scale);
  }
  Diagnostics diagnostics;
  auto exactly = evaluate_node(node, plain, types, diagnostics);
  auto rounded = evaluate_node(node, stored, types, diagnostics);
  if (!exactly || !rounded) return std::nullopt;
  const bool is_modulus = node.op == "abs" && is_complex(*plain[0]);
  const bool moves = movements().contains(node.op) && !is_modulus;
  std::vector<KnownValue> values;
  for (size_t i = 0; i < types.size(); ++i) {
    KnownValue value{.plain = std::move((*exactly)[i]),
                     .stored = std::move((*rounded)[i]),
                     .exact = exact,
                     .scale = scale};
    if (value.rounds() && !moves) value.exact = false;
    if (value.rounds()) value.scale = std::max(scale, largest(value.plain));
    if (!value.exact) accumulate_error(value, node.op);
    // Of x / x no error of x tells that it may be 0 / 0.
    if (node.op == "div" && may_be_zero(*inputs[1]))
      value.scale = std::numeric_limits<double>::infinity();
    value.stored.round_to_dtype();
    if (value.exact) value.plain = value.stored;
    values.push_back(std::move(value));
  }
  return values;
}

std::optional<Module> module_of(const GraphText& text, const DimBindings& dims,
                                const FreeDims& free_dims, Diagnostics& diagnostics) {
  const auto source = read_json_graph(text.dump(), "fuzz.json", diagnostics);
  if (!source) return std::nullopt;
  return bind_module(*source, dims, ".", diagnostics, free_dims);
}

namespace {

// One in so many nodes stands in a branch.
constexpr size_t kBranchEvery = 5;
const char* const kTaken = "taken";

// The node as a body, whose outputs are negated where they are floats and the body is not to be
// taken.
GraphText body_of(const GraphText& node, const Graph& graph, const Node& known, const char* prefix,
                  bool is_taken) {
  GraphText inner = node;
  GraphText outputs = GraphText::array();
  GraphText nodes = GraphText::array();
  inner["name"] = prefix + node["name"].get<std::string>();
  for (size_t i = 0; i < node["outputs"].size(); ++i) {
    const std::string name = prefix + node["outputs"][i].get<std::string>();
    inner["outputs"][i] = name;
    const bool negates = !is_taken && is_float(graph.value(known.outputs[i]).type.dtype);
    outputs.push_back(negates ? name + ".neg" : name);
    if (negates) nodes.push_back({{"op", "neg"}, {"inputs", {name}}, {"outputs", {name + ".neg"}}});
  }
  nodes.insert(nodes.begin(), inner);
  return {{"inputs", GraphText::array()}, {"nodes", nodes}, {"outputs", outputs}};
}

// The same graph with some nodes in branches that the run decides on, so that bodies and what takes
// their place are tried on whatever the generator makes.
GraphText with_branches(const GraphText& text, const Graph& graph) {
  GraphText result = text;
  bool has_branch = false;
  size_t at = 0;
  std::map<std::string, NodeId> nodes;
  for (const NodeId id : graph.order()) nodes[graph.node(id).name] = id;
  for (GraphText& node : result["nodes"]) {
    const std::string name = node["name"].get<std::string>();
    if (++at % kBranchEvery != 0) continue;
    const Node& known = graph.node(nodes.at(name));
    has_branch = true;
    node = {{"name", name},
            {"op", "if"},
            {"inputs", {kTaken}},
            {"outputs", node["outputs"]},
            {"bodies",
             {{"then", body_of(node, graph, known, "then.", true)},
              {"else", body_of(node, graph, known, "else.", false)}}}};
  }
  if (has_branch)
    result["inputs"].push_back(
        {{"name", kTaken}, {"dtype", "bool"}, {"shape", GraphText::array()}});
  return result;
}

}  // namespace

std::optional<Prepared> prepare(const GraphText& text, const DimBindings& dims,
                                Diagnostics& diagnostics) {
  auto module = module_of(text, dims, {}, diagnostics);
  if (!module) return std::nullopt;
  Prepared prepared{.module = std::move(*module), .inputs = {}, .wanted = {}};
  const Graph& graph = prepared.module.entries[0];
  std::map<ValueId, KnownValue> known;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    KnownValue& entry = known[id];
    entry.plain = fill(tensor(value.type.dtype, value.type.shape), value.name);
    entry.stored = entry.plain;
    entry.scale = largest(entry.plain);
    prepared.inputs.push_back(entry.plain);
  }
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<const KnownValue*> inputs;
    for (const auto& input : node.inputs) {
      inputs.push_back(input ? &known.at(*input) : nullptr);
      if (input && !known.at(*input).exact && !is_continuous(node.op)) return std::nullopt;
    }
    std::vector<TensorType> types;
    for (const ValueId output : node.outputs) types.push_back(graph.value(output).type);
    auto values = evaluate_step(node, inputs, types);
    if (!values) return std::nullopt;
    for (size_t i = 0; i < values->size(); ++i) {
      if (is_wild((*values)[i])) return std::nullopt;
      known[node.outputs[i]] = std::move((*values)[i]);
    }
  }
  for (const ValueId id : graph.outputs()) prepared.wanted.push_back(known.at(id));
  return prepared;
}

std::optional<Prepared> in_branches(const GraphText& text, Prepared prepared,
                                    Diagnostics& diagnostics) {
  auto module = module_of(with_branches(text, prepared.module.entries[0]), {}, {}, diagnostics);
  if (!module) return std::nullopt;
  prepared.module = std::move(*module);
  if (prepared.module.entries[0].inputs.size() > prepared.inputs.size()) {
    prepared.inputs.push_back(Tensor::zeros({DType::bool_, {}}));
    prepared.inputs.back().integers.front() = 1;
  }
  return prepared;
}

std::string check_run(const Prepared& prepared, const std::vector<Tensor>& got,
                      const std::string& way) {
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string fault = compare(got[i], prepared.wanted[i]);
    if (!fault.empty()) return way + ": output " + std::to_string(i) + ": " + fault;
  }
  return {};
}

}  // namespace rlx::test
