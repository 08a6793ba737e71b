// SPDX-License-Identifier: Apache-2.0
// rlx._core: plans, devices and sessions for the package rlx, which gives them their faces.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <vector>

#include "runtime/include/rlx.hpp"
#include "tools/python/arrays.h"
#include "tools/python/session.h"
#include "tools/python/translate.h"

namespace rlx::python {
namespace {

nb::tuple dims_tuple(std::span<const uint64_t> dims) {
  nb::list list;
  for (const uint64_t dim : dims) list.append(dim);
  return nb::tuple(list);
}

// A plan, and the devices on which there are sessions of it: these share the weights there.
class PlanCore {
 public:
  using Text = std::optional<std::string>;
  // public_keys and known_code: texts, which choose the policy by being there.
  static std::unique_ptr<PlanCore> from_file(const std::string& path, const Text& weights_folder,
                                             bool check_weights, const Text& public_keys,
                                             const Text& known_code) {
    const rlx_plan_options options =
        make_options(weights_folder, check_weights, public_keys, known_code);
    if (path.find('\0') != std::string::npos)
      throw Error(RLX_INVALID_ARGUMENT, "the plan's path has the character zero in it");
    const nb::gil_scoped_release released;
    return std::make_unique<PlanCore>(std::make_shared<Plan>(path, &options));
  }
  static std::unique_ptr<PlanCore> from_bytes(const nb::bytes& bytes, const Text& weights_folder,
                                              bool check_weights, const Text& public_keys,
                                              const Text& known_code) {
    rlx_plan_options options = make_options(weights_folder, check_weights, public_keys, known_code);
    options.copy_memory = 1;
    const std::span data(static_cast<const std::byte*>(bytes.data()), bytes.size());
    return std::make_unique<PlanCore>(std::make_shared<Plan>(data, &options));
  }
  explicit PlanCore(std::shared_ptr<Plan> plan) : plan_(std::move(plan)) {}

  void close() { plan_.reset(); }
  [[nodiscard]] bool is_open() const { return plan_ != nullptr; }
  [[nodiscard]] const std::shared_ptr<Plan>& plan() const {
    if (plan_ == nullptr) throw Error(RLX_INVALID_ARGUMENT, "the plan is closed");
    return plan_;
  }
  [[nodiscard]] std::shared_ptr<Device> device(const std::string& id) {
    std::shared_ptr<Device> device = devices_[id].lock();
    if (device != nullptr) return device;
    device = std::make_shared<Device>(id);
    std::weak_ptr<Device>& same = devices_[device->info().id];  // "vulkan:0" for "vulkan"
    if (same.expired()) same = device;
    devices_[id] = same;
    return same.lock();
  }
  [[nodiscard]] nb::dict info() const {
    const rlx_plan_info info = plan()->info();
    nb::dict told;
    told["name"] = info.name;
    told["producer"] = info.producer;
    told["precision"] = info.precision;
    told["format"] = nb::make_tuple(info.format_major, info.format_minor);
    told["file_bytes"] = info.file_bytes;
    told["weights_bytes"] = info.weights_bytes;
    told["state_bytes"] = info.state_bytes;
    told["arena_bytes"] = info.arena_bytes;
    told["io_bytes"] = info.io_bytes;
    told["index_errors_bytes"] = info.index_error_bytes;
    told["host_bytes"] = info.host_bytes;
    told["has_vulkan"] = info.vulkan_api_version != 0;
    told["has_cuda"] = info.cuda_architecture_count != 0;
    return told;
  }
  // (name, inputs, outputs), each port (name, dtype, dims, bytes); a dim is a number, the name of a
  // free symbol, or None: computed from symbols.
  [[nodiscard]] nb::list entries() const {
    nb::list rows;
    for (uint32_t entry = 0; entry < plan()->info().entry_count; ++entry) {
      rows.append(nb::make_tuple(plan()->entry(entry).name,
                                 ports(entry, plan()->inputs(entry), rlx_plan_get_input_dim),
                                 ports(entry, plan()->outputs(entry), rlx_plan_get_output_dim)));
    }
    return rows;
  }
  // (name, minimum, maximum, multiple_of, is_free).
  [[nodiscard]] nb::list symbols() const {
    nb::list rows;
    for (const rlx_symbol_info& symbol : plan()->symbols())
      rows.append(nb::make_tuple(symbol.name, symbol.minimum, symbol.maximum, symbol.multiple_of,
                                 symbol.is_free != 0));
    return rows;
  }
  [[nodiscard]] nb::list states() const {
    nb::list rows;
    for (const TensorInfo& state : plan()->states())
      rows.append(nb::make_tuple(state.name(), rlx_dtype_name(state.dtype()),
                                 dims_tuple(state.dims()), state.size_bytes(),
                                 dims_tuple(state.dims())));
    return rows;
  }

 private:
  static rlx_plan_options make_options(const Text& weights_folder, bool check_weights,
                                       const Text& public_keys, const Text& known_code) {
    auto options = init<rlx_plan_options>();
    options.weights_folder = weights_folder ? weights_folder->c_str() : nullptr;
    options.check_weights = check_weights ? 1 : 0;
    options.public_keys = public_keys ? public_keys->c_str() : nullptr;
    options.known_code = known_code ? known_code->c_str() : nullptr;
    options.trust = public_keys ? RLX_TRUST_SIGNED : known_code ? RLX_TRUST_KNOWN : RLX_TRUST_ANY;
    return options;
  }
  template <class GetDim>
  [[nodiscard]] nb::list ports(uint32_t entry, const std::vector<TensorInfo>& tensors,
                               GetDim* get_dim) const {
    const std::vector<rlx_symbol_info> symbols = plan()->symbols();
    nb::list rows;
    for (uint32_t i = 0; i < tensors.size(); ++i) {
      nb::list dims;
      for (uint32_t axis = 0; axis < tensors[i].dims().size(); ++axis) {
        auto dim = init<rlx_dim_info>();
        check(get_dim(plan()->get(), entry, i, axis, &dim));
        if (dim.is_free == 0) {
          dims.append(dim.maximum);
        } else if (dim.symbol != RLX_NO_SYMBOL) {
          dims.append(symbols.at(dim.symbol).name);
        } else {
          dims.append(nb::none());
        }
      }
      rows.append(nb::make_tuple(tensors[i].name(), rlx_dtype_name(tensors[i].dtype()),
                                 nb::tuple(dims), tensors[i].size_bytes(),
                                 dims_tuple(tensors[i].dims())));
    }
    return rows;
  }

  std::shared_ptr<Plan> plan_;
  std::map<std::string, std::weak_ptr<Device>> devices_;
};

nb::dict device_row(const rlx_device_info& info) {
  nb::dict row;
  row["id"] = info.id;
  row["name"] = info.name;
  row["driver"] = info.driver;
  row["memory_bytes"] = info.memory_bytes;
  row["available_bytes"] = info.available_bytes;
  row["architecture"] = info.architecture;
  return row;
}

// The devices, and why a kind of device is missing.
nb::tuple list_devices() {
  const DeviceList devices;
  nb::list rows;
  for (const rlx_device_info& info : devices.all()) rows.append(device_row(info));
  return nb::make_tuple(rows, devices.note());
}

std::unique_ptr<SessionCore> make_session(PlanCore& plan, const std::string& device, uint32_t jobs,
                                          bool profile,
                                          const std::optional<std::string>& pipeline_cache,
                                          uint64_t memory_budget_bytes,
                                          std::optional<uint64_t> stream, bool require_tuned,
                                          bool check_indices, uint32_t max_bindings,
                                          uint32_t queue_depth) {
  return std::make_unique<SessionCore>(plan.plan(), plan.device(device),
                                       SessionSettings{.jobs = jobs,
                                                       .profile = profile,
                                                       .pipeline_cache = pipeline_cache,
                                                       .memory_budget_bytes = memory_budget_bytes,
                                                       .stream = stream,
                                                       .require_tuned = require_tuned,
                                                       .check_indices = check_indices,
                                                       .max_bindings = max_bindings,
                                                       .queue_depth = queue_depth});
}

void define_plan(nb::module_& module) {
  nb::class_<PlanCore>(module, "Plan")
      .def_static("from_file", &PlanCore::from_file, nb::arg("path"),
                  nb::arg("weights_folder").none(), nb::arg("check_weights"),
                  nb::arg("public_keys").none(), nb::arg("known_code").none())
      .def_static("from_bytes", &PlanCore::from_bytes, nb::arg("data"),
                  nb::arg("weights_folder").none(), nb::arg("check_weights"),
                  nb::arg("public_keys").none(), nb::arg("known_code").none())
      .def("close", &PlanCore::close)
      .def_prop_ro("is_open", &PlanCore::is_open)
      .def("info", &PlanCore::info)
      .def("entries", &PlanCore::entries)
      .def("symbols", &PlanCore::symbols)
      .def("states", &PlanCore::states);
}

void define_session(nb::module_& module) {
  nb::class_<SessionCore>(module, "Session")
      .def_static("create", &make_session, nb::arg("plan"), nb::arg("device"), nb::kw_only(),
                  nb::arg("jobs"), nb::arg("profile"), nb::arg("pipeline_cache").none(),
                  nb::arg("memory_budget_bytes"), nb::arg("stream").none(),
                  nb::arg("require_tuned"), nb::arg("check_indices"), nb::arg("max_bindings"),
                  nb::arg("queue_depth"))
      .def("close", &SessionCore::close)
      .def_prop_ro("is_open", &SessionCore::is_open)
      .def_prop_ro("device",
                   [](const SessionCore& session) { return device_row(session.device_info()); })
      .def_prop_ro("copies",
                   [](const SessionCore& session) {
                     const CopyCounts& copies = session.copies();
                     return nb::make_tuple(copies.to_device, copies.from_device, copies.on_host);
                   })
      .def("run", &SessionCore::run, nb::arg("entry"), nb::arg("inputs"), nb::arg("outputs").none(),
           nb::arg("out").none(), nb::arg("bare"))
      .def("submit", &SessionCore::submit, nb::arg("entry"), nb::arg("inputs"),
           nb::arg("out").none())
      .def("wait", &SessionCore::wait, nb::arg("run").none(), nb::arg("seconds").none())
      .def("read", &SessionCore::read, nb::arg("entry"), nb::arg("outputs").none(),
           nb::arg("out").none())
      .def("set_input", &SessionCore::set_input, nb::arg("entry"), nb::arg("name"),
           nb::arg("value"))
      .def("set_symbol", &SessionCore::set_symbol, nb::arg("entry"), nb::arg("name"),
           nb::arg("value"))
      .def("symbol", &SessionCore::symbol, nb::arg("entry"), nb::arg("name"))
      .def("prepare", &SessionCore::prepare, nb::arg("entry"))
      .def("read_state", &SessionCore::read_state, nb::arg("name"), nb::arg("axis").none(),
           nb::arg("begin"), nb::arg("count"), nb::arg("out").none())
      .def("write_state", &SessionCore::write_state, nb::arg("name"), nb::arg("axis").none(),
           nb::arg("begin"), nb::arg("value"))
      .def("copy_state", &SessionCore::copy_state, nb::arg("name"), nb::arg("source"))
      .def("bind_state", &SessionCore::bind_state, nb::arg("name"), nb::arg("value").none())
      .def("reset_states", &SessionCore::reset_states)
      .def("set_seed", &SessionCore::set_seed, nb::arg("seed"), nb::arg("step"))
      .def("profile", &SessionCore::profile, nb::arg("entry"))
      .def("last_run_microseconds", &SessionCore::last_run_microseconds)
      .def("program", &SessionCore::program, nb::arg("entry"))
      .def("present", &SessionCore::present, nb::arg("entry"), nb::arg("outputs"));
}

}  // namespace
}  // namespace rlx::python

NB_MODULE(_core, module) {
  module.doc() = "librlx for the package rlx; use that.";
  nanobind::register_exception_translator(rlx::python::translate);
  module.def("version", rlx_version);
  module.def("devices", rlx::python::list_devices);
  module.def("wrap_memory", rlx::python::wrap_memory, nanobind::arg("address"),
             nanobind::arg("dims"), nanobind::arg("dtype"), nanobind::arg("cuda_ordinal").none(),
             nanobind::arg("owner") = nanobind::none());
  rlx::python::define_plan(module);
  rlx::python::define_session(module);
}
