// SPDX-License-Identifier: Apache-2.0
// rlx._compiler: the compiler for the package rlx, which gives it its face.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/compile.h"
#include "compiler/support/check.h"
#include "tools/program/cache_folder.h"
#include "tools/python/onnx_ports.h"
#include "tools/request/request.h"

namespace rlx::python {
namespace {

namespace nb = nanobind;

constexpr std::array kPrecisions = {
    std::pair("f32", Precision::F32), std::pair("tf32", Precision::Tf32),
    std::pair("f16", Precision::F16), std::pair("bf16", Precision::Bf16),
    std::pair("mixed", Precision::Mixed)};

// A field of the dict that rlx._compile makes.
template <class T>
T field(const nb::dict& request, const char* name) {
  return nb::cast<T>(nb::object(request[name]));
}

constexpr std::array kControls = {std::pair("unrolled", ControlFlow::Unrolled),
                                  std::pair("auto", ControlFlow::Auto),
                                  std::pair("regions", ControlFlow::Regions)};

// The value of a word, which the field may leave out.
template <class Value, size_t count>
std::optional<Value> choice(const nb::dict& request, const char* name,
                            const std::array<std::pair<const char*, Value>, count>& choices) {
  const auto word = field<std::optional<std::string>>(request, name);
  if (!word) return std::nullopt;
  std::string known;
  for (const auto& [each, value] : choices) {
    if (*word == each) return value;
    known += (known.empty() ? "" : ", ") + std::string(each);
  }
  throw nb::value_error((std::string(name) + " \"" + *word + "\" is none of " + known).c_str());
}

void take_dims(const nb::dict& request, ImportOptions& options) {
  using Ranges = std::vector<std::tuple<int64_t, int64_t, int64_t>>;
  for (const auto& [name, ranges] : field<std::map<std::string, Ranges>>(request, "dims")) {
    std::vector<SymbolRange> made;
    for (const auto& [minimum, maximum, multiple_of] : ranges)
      made.push_back({.minimum = minimum, .maximum = maximum, .multiple_of = multiple_of});
    if (made.size() > 1) {
      options.ranged_dims.emplace(name, std::move(made));
    } else if (made.front().minimum == made.front().maximum) {
      options.dims.emplace(name, made.front().minimum);
    } else {
      options.free_dims.emplace(name, made.front());
    }
  }
}

ImportOptions import_options(const nb::dict& request) {
  ImportOptions options;
  take_dims(request, options);
  for (const auto& [name, dims] :
       field<std::map<std::string, std::vector<int64_t>>>(request, "input_shapes"))
    options.input_shapes.emplace(name, Shape(dims.begin(), dims.end()));
  options.constants = field<std::map<std::string, std::string>>(request, "constants");
  options.states = field<std::map<std::string, std::string>>(request, "states");
  options.max_iterations = field<std::optional<int64_t>>(request, "max_iterations");
  for (const auto& [name, most] : field<std::map<std::string, int64_t>>(request, "max_counts"))
    options.max_counts.emplace(name, most);
  options.auto_promote = field<bool>(request, "auto_promote");
  options.language.context = field<std::optional<int64_t>>(request, "context");
  options.language.chunks = field<std::vector<int64_t>>(request, "chunks");
  return options;
}

void take_cache(const nb::dict& request, CompileOptions& options) {
  const nb::object cache = request["cache"];
  if (nb::isinstance<nb::bool_>(cache)) {
    if (nb::cast<bool>(cache)) options.cache_dir = tool::default_cache_folder();
    return;
  }
  options.cache_dir = nb::cast<std::string>(cache);
  options.trust_cache = true;
}

CompileOptions compile_options(const nb::dict& request) {
  CompileOptions options;
  options.targets = field<std::vector<std::string>>(request, "targets");
  options.optimisation = field<int>(request, "optimisation");
  if (options.optimisation < 0 || options.optimisation > 2)
    throw nb::value_error("optimisation is 0, 1 or 2");
  options.jobs = field<uint32_t>(request, "jobs");
  options.nvrtc = field<std::string>(request, "nvrtc");
  options.kernels_dir = field<std::string>(request, "kernels");
  options.without = field<std::vector<std::string>>(request, "without");
  options.prefer = field<std::vector<std::string>>(request, "prefer");
  options.control = choice(request, "control", kControls).value_or(options.control);
  options.recompute = field<bool>(request, "recompute");
  options.serial = field<bool>(request, "serial");
  options.disabled_passes = field<std::vector<std::string>>(request, "disabled_passes");
  options.external_weights = field<bool>(request, "external_weights");
  options.debug_section = field<bool>(request, "debug");
  take_cache(request, options);
  return options;
}

CompileRequest make_request(const nb::dict& request) {
  CompileRequest made{.model = field<std::string>(request, "model"),
                      .import = import_options(request),
                      .tokenizer = field<std::string>(request, "tokenizer"),
                      .kept = {.names = field<std::vector<std::string>>(request, "keep"),
                               .all = field<bool>(request, "keep_all")},
                      .precision = choice(request, "precision", kPrecisions),
                      .architectures = field<std::vector<std::string>>(request, "architectures"),
                      .options = compile_options(request)};
  using Entry = std::tuple<std::string, std::string, std::map<std::string, int64_t>>;
  for (const auto& [name, source, dims] : field<std::vector<Entry>>(request, "entries"))
    made.entries.push_back({.name = name, .source = source, .dims = dims});
  return made;
}

nb::list rows_of(const Diagnostics& diagnostics) {
  nb::list rows;
  for (const Diagnostic& each : diagnostics.all()) {
    const char* severity = each.severity == Severity::Error     ? "error"
                           : each.severity == Severity::Warning ? "warning"
                                                                : "note";
    const std::string_view code = diag_code_text(each.code);
    rows.append(nb::make_tuple(severity, nb::str(code.data(), code.size()), each.place.file,
                               each.place.position, each.op, each.node, each.message, each.hint,
                               to_string(each)));
  }
  return rows;
}

// Compiles, to the file or to bytes: (True or the bytes, or None where it was refused; rows of
// diagnostics). `step` is called with the name of each phase and its seconds, unless None.
nb::tuple compile(const nb::dict& asked, const std::optional<std::string>& output,
                  const nb::object& step) {
  CompileRequest request = make_request(asked);
  if (const auto misuse = find_misuse(request)) throw nb::value_error(misuse->c_str());
  if (!step.is_none()) {
    request.options.timing = [&step](const std::string& phase, double seconds) {
      const nb::gil_scoped_acquire held;
      step(phase, seconds);
    };
  }
  Diagnostics diagnostics;
  std::optional<std::vector<std::byte>> bytes;
  bool is_written = false;
  {
    const nb::gil_scoped_release released;
    std::optional<Module> module = load_request(request, diagnostics);
    if (module && output) {
      is_written = compile_to_file(std::move(*module), request.options, *output, diagnostics);
    } else if (module) {
      bytes = compile_to_bytes(std::move(*module), request.options, diagnostics);
    }
  }
  nb::object done = nb::none();
  if (is_written) done = nb::bool_(true);
  if (bytes) done = nb::bytes(bytes->data(), bytes->size());
  return nb::make_tuple(done, rows_of(diagnostics));
}

// Text of a file, which may be no UTF-8.
nb::object text_of_file(const std::string& text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::dict dict_of(const OnnxMetadata& metadata) {
  nb::dict custom;
  for (const auto& [key, value] : metadata.custom) custom[text_of_file(key)] = text_of_file(value);
  nb::dict fields;
  fields["custom_metadata_map"] = custom;
  fields["description"] = text_of_file(metadata.description);
  fields["domain"] = text_of_file(metadata.domain);
  fields["graph_description"] = text_of_file(metadata.graph_description);
  fields["graph_name"] = text_of_file(metadata.graph_name);
  fields["producer_name"] = text_of_file(metadata.producer_name);
  fields["version"] = metadata.version;
  return fields;
}

// (inputs, outputs, metadata): rows (name, number of the element type, dims) and a dict; None for
// what is no ONNX model.
nb::object ports_of(const nb::bytes& model) {
  const auto ports = onnx_ports({static_cast<const char*>(model.data()), model.size()});
  if (!ports) return nb::none();
  const auto rows_of_ports = [](const std::vector<OnnxPort>& side) {
    nb::list rows;
    for (const OnnxPort& port : side) {
      nb::list dims;
      for (const OnnxDim& dim : port.dims) {
        if (const auto* number = std::get_if<int64_t>(&dim)) {
          dims.append(*number);
        } else if (const auto* name = std::get_if<std::string>(&dim)) {
          dims.append(*name);
        } else {
          dims.append(nb::none());
        }
      }
      rows.append(nb::make_tuple(port.name, port.element_type, dims));
    }
    return rows;
  };
  return nb::make_tuple(rows_of_ports(ports->inputs), rows_of_ports(ports->outputs),
                        dict_of(ports->metadata));
}

}  // namespace
}  // namespace rlx::python

NB_MODULE(_compiler, module) {
  module.doc() = "The compiler for the package rlx; use rlx.compile.";
  module.def("compile", rlx::python::compile, nanobind::arg("request"),
             nanobind::arg("output").none(), nanobind::arg("step").none());
  module.def("onnx_ports", rlx::python::ports_of, nanobind::arg("model"));
}
