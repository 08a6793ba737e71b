// SPDX-License-Identifier: Apache-2.0
// A session as Python sees it: arrays in, a run without the interpreter's lock, arrays out.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/include/rlx.hpp"
#include "tools/python/arrays.h"

namespace rlx::python {

struct SessionSettings {
  uint32_t jobs = 0;
  bool profile = false;
  std::optional<std::string> pipeline_cache;
  uint64_t memory_budget_bytes = 0;
  std::optional<uint64_t> stream;  // a CUstream; none: the default one, which torch uses too
  bool require_tuned = false;
  bool check_indices = false;
  uint32_t max_bindings = 0;
  uint32_t queue_depth = 1;
};

// How often tensors went between host and device, or were copied to be contiguous.
struct CopyCounts {
  uint64_t to_device = 0;
  uint64_t from_device = 0;
  uint64_t on_host = 0;
};

class SessionCore {
 public:
  SessionCore(std::shared_ptr<Plan> plan, std::shared_ptr<Device> device,
              const SessionSettings& settings);

  [[nodiscard]] bool is_open() const { return session_ != nullptr; }
  // Waits for runs that are under way. Later calls throw a ValueError.
  void close();
  [[nodiscard]] const std::string& device_id() const { return place_.device; }
  [[nodiscard]] const rlx_device_info& device_info() const { return device_info_; }
  [[nodiscard]] const CopyCounts& copies() const { return copies_; }

  // Sets the inputs, runs, and gives the outputs of these names, all where `names` is None. What
  // `into` (a dict or None) has for an output is written to. With `bare` an only output comes
  // alone, else a dict by name.
  nb::object run(uint32_t entry, const nb::dict& inputs, nb::handle names, nb::handle into,
                 bool bare);
  // Sets the inputs and starts a run; `into` as above, CUDA tensors only. The run's number.
  uint64_t submit(uint32_t entry, const nb::dict& inputs, nb::handle into);
  // Of a run, or of all. false: the time is over.
  bool wait(std::optional<uint64_t> run, std::optional<double> seconds);
  // Outputs of the last run.
  nb::object read(uint32_t entry, nb::handle names, nb::handle into);
  void set_input(uint32_t entry, const std::string& name, nb::handle value);
  void set_symbol(uint32_t entry, const std::string& name, uint64_t value);
  uint64_t symbol(uint32_t entry, const std::string& name);
  void prepare(uint32_t entry);

  // Ranges as rlx_state_range; `axis` none: all of the state.
  nb::object read_state(const std::string& name, std::optional<uint32_t> axis, uint64_t begin,
                        uint64_t count, nb::handle into);
  void write_state(const std::string& name, std::optional<uint32_t> axis, uint64_t begin,
                   nb::handle value);
  void copy_state(const std::string& name, SessionCore& from);
  // None gives the state back to the session's own memory.
  void bind_state(const std::string& name, nb::handle value);
  void reset_states();
  void set_seed(uint64_t seed, uint32_t step);

  // Rows (step, node, op, kernel, kind, wave, microseconds, bytes, flops, code).
  nb::list profile(uint32_t entry);
  double last_run_microseconds();
  // (steps, waves, arena bytes, lower bound) of an entry.
  nb::tuple program(uint32_t entry);
  // (name, dtype, dims) at the present symbols.
  nb::list present(uint32_t entry, bool outputs);

 private:
  // One thread at a time: others get an error instead of a race.
  class Use;
  struct Dim {
    uint64_t maximum = 0;
    const char* symbol = nullptr;  // the dim is that free symbol
  };
  struct Port {
    std::string name;
    uint32_t dtype = 0;
    std::vector<Dim> dims;
    nb::object bound;  // the caller's tensor that it uses now
    uint64_t address = 0;
    uint64_t address_bytes = 0;
    std::vector<uint64_t> bound_dims;
  };
  // An array for an output, and its memory.
  struct Placed {
    nb::object array;
    ArrayMemory memory;
    bool was_given = false;  // by the caller
  };
  struct Entry {
    std::vector<Port> inputs;
    std::vector<Port> outputs;
    bool has_free_dims = false;
  };

  void describe_entries();
  Entry& entry_at(uint32_t entry);
  Port* find_input(Entry& entry, const std::string& name);
  std::vector<uint32_t> pick_outputs(const Entry& entry, nb::handle names) const;
  void check_into(const Entry& entry, const std::vector<uint32_t>& picked, nb::handle into) const;
  nb::object give(uint32_t entry, const nb::dict& inputs);
  void give_input(uint32_t entry, const std::string& name, nb::handle value);
  void give_host(uint32_t entry, Port* port, const std::string& name, const TensorArgument& tensor);
  void give_cuda(uint32_t entry, Port& port, const TensorArgument& tensor);
  void check_bound_shapes(uint32_t entry);
  // Arrays for these outputs, bound where they lie on the device.
  std::vector<Placed> place_outputs(uint32_t entry, const std::vector<uint32_t>& picked,
                                    nb::handle into, nb::handle like);
  Placed place_output(uint32_t entry, uint32_t number, nb::handle into, nb::handle like);
  static nb::object given_for(const Port& port, nb::handle into);
  ArrayMemory take_output(uint32_t entry, uint32_t output, nb::handle value);
  void bind_output(uint32_t entry, Port& port, const ArrayMemory& array);
  void unbind_output(uint32_t entry, Port& port);
  void read_into(uint32_t entry, const std::vector<uint32_t>& picked,
                 const std::vector<Placed>& placed);
  nb::object collect(const Entry& entry, const std::vector<uint32_t>& picked,
                     const std::vector<Placed>& placed, bool bare) const;
  rlx_tensor_info state_info(const std::string& name) const;

  std::shared_ptr<Plan> plan_;
  std::shared_ptr<Device> device_;
  rlx_device_info device_info_ = {};
  CudaPlace place_;
  std::vector<Entry> entries_;
  std::map<std::string, nb::object> bound_states_;
  std::unique_ptr<Session> session_;
  CopyCounts copies_;
  std::atomic<bool> in_use_ = false;
};

}  // namespace rlx::python
