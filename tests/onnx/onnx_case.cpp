// SPDX-License-Identifier: Apache-2.0
// One backend test of ONNX.
#include "tests/onnx/onnx_case.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "compiler/import/model_files.h"
#include "compiler/import/onnx/onnx_reader.h"
#include "compiler/reference/evaluate.h"
#include "tests/support/harness.h"
#include "tests/support/judge.h"
#ifdef RLX_HAS_ONNX
#include "onnx.pb.h"
#endif

namespace rlx::test {
namespace {

constexpr std::array<std::string_view, 6> kStages = {"data", "import",  "compile",
                                                     "run",  "compare", "right"};

std::optional<GraphBytes> map_bytes(const std::string& path) {
  FileResult file = map_file(path);
  if (std::holds_alternative<FileFault>(file)) return std::nullopt;
  auto mapped = std::get<std::shared_ptr<const MappedFile>>(std::move(file));
  return GraphBytes{.owner = mapped, .bytes = mapped->bytes()};
}

// prefix_0.pb, prefix_1.pb, ...; nullopt in a place whose file is no tensor.
std::vector<std::optional<Tensor>> read_tensors(const std::string& prefix) {
  std::vector<std::optional<Tensor>> tensors;
  for (;;) {
    const std::string path = prefix + "_" + std::to_string(tensors.size()) + ".pb";
    const auto bytes = map_bytes(path);
    if (!bytes) return tensors;
    Diagnostics ignored;  // a test of sequences or strings, which the importer refuses
    tensors.push_back(read_onnx_tensor(*bytes, path, ignored));
  }
}

std::string first_error(const Diagnostics& diagnostics) {
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    if (diagnostic.severity != Severity::Error) continue;
    const std::string node = diagnostic.op.empty() ? "" : diagnostic.op + ": ";
    return node + diagnostic.message;
  }
  return "nothing was reported";
}

// The model with inputs fixed where their values are wanted.
struct Imported {
  OnnxResult result;
  std::vector<std::optional<Tensor>> inputs;  // of the model, in order
};

Imported import_case(const OnnxCase& test, Diagnostics& diagnostics) {
  Imported imported;
  if (!test.inputs.empty()) imported.inputs = read_tensors(test.inputs);
  const auto bytes = map_bytes(test.model);
  if (!bytes) {
    diagnostics.error(DiagCode::FileMissing, {test.model, ""}, "there is no such file");
    return imported;
  }
  OnnxOptions options;
  options.folder = folder_of(test.model);
  for (int attempt = 0; attempt < 8; ++attempt) {
    Diagnostics found;
    imported.result = read_onnx_graph(*bytes, test.model, options, found);
    bool is_new = false;
    const bool has_shapes = imported.result.graph || !imported.result.wanted_inputs.empty();
    for (size_t i = 0; i < std::min(imported.result.inputs.size(), imported.inputs.size()); ++i) {
      const std::string& name = imported.result.inputs[i];
      if (!imported.inputs[i]) continue;
      if (!has_shapes)
        is_new |= options.shapes.emplace(name, imported.inputs[i]->type.shape).second;
      if (imported.result.wanted_inputs.contains(name))
        is_new |= options.fixed_inputs.emplace(name, *imported.inputs[i]).second;
    }
    if (imported.result.graph || !is_new) {
      for (const Diagnostic& diagnostic : found.all()) diagnostics.add(diagnostic);
      return imported;
    }
  }
  return imported;
}

bool is_nan_code(DType dtype, int64_t code) {
  if (dtype == DType::f8e4m3) return (code & 0x7f) == 0x7f;
  return dtype == DType::f8e5m2 && (code & 0x7f) > 0x7c;
}

// numpy.testing.assert_allclose; integers and bools must be equal. The largest error over what is
// allowed, infinite where shapes, types, or special values differ.
// NaN codes of 8-bit floats are equal; bfloat16 may be off by two units in the last place, as in
// ONNX's own runner.
double onnx_ratio(const Tensor& got, const Tensor& wanted, const OnnxCase& test) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (got.type != wanted.type || got.integers.size() != wanted.integers.size()) return kWrong;
  for (size_t i = 0; i < got.integers.size(); ++i) {
    const bool is_nan = is_nan_code(got.type.dtype, got.integers[i]) &&
                        is_nan_code(got.type.dtype, wanted.integers[i]);
    if (got.integers[i] != wanted.integers[i] && !is_nan) return kWrong;
  }
  const double rtol = got.type.dtype == DType::bf16 ? std::max(test.rtol, 0x1p-6) : test.rtol;
  double worst = 0;
  for (size_t i = 0; i < got.floats.size(); ++i) {
    const double a = got.floats[i];
    const double b = wanted.floats[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double ratio = std::fabs(a - b) / (test.atol + rtol * std::fabs(b));
    worst = std::max(worst, std::isnan(ratio) ? kWrong : ratio);
  }
  return worst;
}

std::string first_difference(const Tensor& got, const Tensor& wanted) {
  if (got.type != wanted.type)
    return "got " + to_string(got.type) + ", wanted " + to_string(wanted.type);
  std::ostringstream text;
  double worst = -1;
  for (int64_t i = 0; i < got.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    const double a = got.is_float() ? got.floats[at] : static_cast<double>(got.integers[at]);
    const double b = got.is_float() ? wanted.floats[at] : static_cast<double>(wanted.integers[at]);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double error = std::isnan(a - b) ? 1e300 : std::fabs(a - b);
    if (error <= worst) continue;
    worst = error;
    text.str("");
    text << "element " << i << ": got " << a << ", wanted " << b;
  }
  return text.str();
}

void compare(const OnnxCase& test, const std::string& device, const std::vector<Tensor>& got,
             const std::vector<Tensor>& wanted, const std::vector<Tensor>& reference,
             size_t node_count, OnnxVerdict& verdict) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double ratio = onnx_ratio(got[i], wanted[i], test);
    verdict.onnx_ratio = std::max(verdict.onnx_ratio, ratio);
    const std::string place = "output " + std::to_string(i) + " on " + device + ", ";
    if (ratio > 1 && verdict.reason.empty())
      verdict.reason = place + first_difference(got[i], wanted[i]);
    // The bound is one operator's; 16-bit values between operators are rounded each time.
    const bool is_short = got[i].type.dtype == DType::f16 || got[i].type.dtype == DType::bf16;
    if (reference.empty() || got[i].type != reference[i].type || (is_short && node_count > 1))
      continue;
    const Verdict own = judge(got[i], reference[i], Tolerance::Norm);
    verdict.norm_ratio = std::max(verdict.norm_ratio, own.worst_ratio);
    if (!own.good && verdict.reason.empty())
      verdict.reason = place + "against the evaluator: " + own.fault;
  }
}

// A result that ends early as long as its count says, along the axis on which it is longer than
// what is wanted.
Tensor cut_to_count(const Tensor& tensor, int64_t count, const Shape& wanted) {
  const Shape& shape = tensor.type.shape;
  size_t axis = 0;
  while (axis < shape.size() && axis < wanted.size() && shape[axis] == wanted[axis]) ++axis;
  if (axis == shape.size() || shape.size() != wanted.size()) return tensor;
  Shape cut = shape;
  cut[axis] = count;
  Tensor result = Tensor::zeros({tensor.type.dtype, cut});
  const Strides strides = dense_strides(cut);
  const Strides longer = dense_strides(shape);
  for (int64_t i = 0; i < result.count(); ++i) {
    int64_t from = 0;
    for (size_t d = 0; d < cut.size(); ++d)
      from += i / static_cast<int64_t>(strides[d]) % static_cast<int64_t>(cut[d]) *
              static_cast<int64_t>(longer[d]);
    const auto to = static_cast<size_t>(i);
    if (tensor.is_float()) result.floats[to] = tensor.floats[static_cast<size_t>(from)];
    if (!tensor.is_float()) result.integers[to] = tensor.integers[static_cast<size_t>(from)];
  }
  return result;
}

// The first outputs, as many as are wanted, each cut where it ends early.
std::vector<Tensor> cut_to_counts(const Graph& graph, const std::vector<Tensor>& tensors,
                                  const std::vector<Tensor>& wanted) {
  std::vector<Tensor> results;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::string count = graph.value(graph.outputs()[i]).name + ".count";
    results.push_back(tensors[i]);
    for (size_t k = wanted.size(); k < tensors.size(); ++k) {
      if (graph.value(graph.outputs()[k]).name == count)
        results.back() = cut_to_count(tensors[i], tensors[k].integers[0], wanted[i].type.shape);
    }
  }
  return results;
}

Tensor ramp(const TensorType& type) {
  Tensor tensor = Tensor::zeros(type);
  for (size_t i = 0; i < tensor.floats.size(); ++i)
    tensor.floats[i] = static_cast<double>(i) / static_cast<double>(tensor.floats.size());
  tensor.round_to_dtype();
  return tensor;
}

OnnxVerdict check(const OnnxCase& test) {
  OnnxVerdict verdict;
  std::vector<Tensor> wanted;
  for (std::optional<Tensor>& tensor : read_tensors(test.outputs)) {
    if (tensor) wanted.push_back(std::move(*tensor));
  }
  const size_t output_files = read_tensors(test.outputs).size();
  verdict.stage = OnnxStage::Import;
  verdict.refused = true;
  Diagnostics diagnostics;
  Imported imported = import_case(test, diagnostics);
  verdict.reason = first_error(diagnostics);
  if (!imported.result.graph) return verdict;
  const auto module = bind_module(*imported.result.graph, {}, folder_of(test.model), diagnostics);
  if (!module) {
    verdict.reason = "bind: " + first_error(diagnostics);
    verdict.refused = false;  // the importer should have known
    return verdict;
  }
  verdict.stage = OnnxStage::Compile;
  const std::shared_ptr<const PlanView> plan = compile_plan(*module, test_options(2), diagnostics);
  if (!plan) {
    verdict.reason = first_error(diagnostics);
    return verdict;
  }
  verdict.refused = false;
  verdict.stage = OnnxStage::Run;
  std::vector<Tensor> inputs;
  const Graph& graph = module->entries.front();
  for (const ValueId id : graph.inputs) {
    if (test.inputs.empty()) {
      inputs.push_back(ramp(graph.value(id).type));
      continue;
    }
    const auto& names = imported.result.inputs;
    const auto at = std::find(names.begin(), names.end(), graph.value(id).name) - names.begin();
    if (static_cast<size_t>(at) >= imported.inputs.size() || !imported.inputs[at]) {
      verdict.reason = "the data set has no input " + graph.value(id).name;
      return verdict;
    }
    inputs.push_back(*imported.inputs[at]);
    if (inputs.back().type != graph.value(id).type) {
      verdict.stage = OnnxStage::Data;
      verdict.reason = "the data set's input " + graph.value(id).name + " is " +
                       to_string(inputs.back().type) + ", the model's " +
                       to_string(graph.value(id).type);
      verdict.refused = true;
      return verdict;
    }
  }
  std::vector<Tensor> reference;
  if (!test.is_network) {
    StateValues states;
    auto evaluated = evaluate_entry(*module, graph, inputs, states, {}, diagnostics);
    if (!evaluated) {
      verdict.reason = "evaluator: " + first_error(diagnostics);
      return verdict;
    }
    reference = std::move(*evaluated);
  }
  verdict.reason.clear();
  if (wanted.size() != output_files || wanted.empty() || wanted.size() > graph.outputs().size()) {
    verdict.reason = "the data set has " + std::to_string(wanted.size()) + " outputs, the model " +
                     std::to_string(graph.outputs().size());
    return verdict;
  }
  if (!reference.empty()) reference = cut_to_counts(graph, reference, wanted);
  for (const std::shared_ptr<Device>& device : present_devices().devices) {
    const bool is_vulkan = device->info().architecture == 0;
    if (!plan->is_for(is_vulkan ? fb::TargetKind::Vulkan : fb::TargetKind::Cuda)) continue;
    if (is_vulkan && (plan->header().vulkan.features & ~device->info().features) != 0) continue;
    verdict.stage = OnnxStage::Run;
    TestSession session(*device, plan);
    const std::vector<Tensor> got =
        cut_to_counts(graph, session.run(0, inputs, std::byte{0xA5}), wanted);
    verdict.stage = OnnxStage::Compare;
    compare(test, device->info().id, got, wanted, reference, graph.order().size(), verdict);
    if (!verdict.reason.empty()) return verdict;
  }
  if (verdict.stage == OnnxStage::Compare) verdict.stage = OnnxStage::Right;
  return verdict;
}

}  // namespace

std::string_view name_of(OnnxStage stage) {
  return kStages.at(static_cast<size_t>(stage));
}

int64_t newest_opset(const std::vector<OnnxCase>& tests) {
  int64_t newest = 0;
#ifdef RLX_HAS_ONNX
  for (const OnnxCase& test : tests) {
    const auto bytes = map_bytes(test.model);
    onnx::ModelProto model;
    if (!bytes || !model.ParseFromArray(bytes->bytes.data(), static_cast<int>(bytes->bytes.size())))
      continue;
    for (const auto& import : model.opset_import()) {
      if (import.domain().empty()) newest = std::max<int64_t>(newest, import.version());
    }
  }
#endif
  return newest;
}

OnnxVerdict check_onnx_case(const OnnxCase& test) {
  const auto start = std::chrono::steady_clock::now();
  OnnxVerdict verdict;
  try {
    verdict = check(test);
  } catch (const std::exception& error) {
    verdict.stage = OnnxStage::Run;
    verdict.reason = std::string("exception: ") + error.what();
  }
  verdict.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return verdict;
}

}  // namespace rlx::test
