// SPDX-License-Identifier: Apache-2.0
// rlx.h for C++20: handles that close themselves, spans and vectors for tensors, and exceptions.
// A header and nothing more; what it adds to the rules of rlx.h:
//
// Errors. What rlx.h returns as another status than RLX_OK is thrown as rlx::Error, which holds the
// status and the library's sentence. Only wait_for and wait tell a timeout by their result.
//
// Sizes. Functions that read return vectors of the right size, or fill a span that must have it.
//
// Everything that rlx.h does and this header does not, works on a handle's get().
#ifndef RLX_HPP
#define RLX_HPP

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlx.h"

namespace rlx {
// Apart from names inside of librlx.a, which a program may link.
inline namespace hpp {

class Error : public std::runtime_error {
 public:
  Error(rlx_status status, const std::string& sentence)
      : std::runtime_error(sentence), status_(status) {}
  [[nodiscard]] rlx_status status() const noexcept { return status_; }

 private:
  rlx_status status_;
};

// Throws what this thread's last call left where its status is no success.
inline void check(rlx_status status) {
  if (status != RLX_OK) throw Error(status, rlx_last_error());
}

// The element type of a C++ type: f16, bf16 and f8 have none, and are passed as rlx_tensor.
template <class T>
constexpr rlx_dtype dtype_of() {
  using Plain = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<Plain, float>)
    return RLX_F32;
  else if constexpr (std::is_same_v<Plain, double>)
    return RLX_F64;
  else if constexpr (std::is_same_v<Plain, int8_t>)
    return RLX_I8;
  else if constexpr (std::is_same_v<Plain, uint8_t>)
    return RLX_U8;
  else if constexpr (std::is_same_v<Plain, int16_t>)
    return RLX_I16;
  else if constexpr (std::is_same_v<Plain, int32_t>)
    return RLX_I32;
  else if constexpr (std::is_same_v<Plain, uint32_t>)
    return RLX_U32;
  else if constexpr (std::is_same_v<Plain, int64_t>)
    return RLX_I64;
  else if constexpr (std::is_same_v<Plain, bool>)
    return RLX_BOOL;
  else {
    static_assert(std::is_same_v<Plain, std::complex<float>>, "no element type of rlx");
    return RLX_C64;
  }
}

// A zeroed struct of rlx.h with its struct_size set.
template <class Struct>
Struct init() {
  return ::rlx_init_struct<Struct>();
}

// A tensor in host memory, dense and row-major; views the elements. Throws Error with
// RLX_INVALID_ARGUMENT where there are more dims than RLX_MAX_RANK; whether they fit the elements
// is asked by the call that takes the tensor.
inline rlx_tensor make_tensor(const void* data, uint64_t size_bytes, rlx_dtype dtype,
                              std::span<const uint64_t> dims) {
  if (dims.size() > RLX_MAX_RANK)
    throw Error(RLX_INVALID_ARGUMENT, "a tensor of rank " + std::to_string(dims.size()) +
                                          "; the largest rank is " + std::to_string(RLX_MAX_RANK));
  auto tensor = init<rlx_tensor>();
  tensor.data = data;
  tensor.size_bytes = size_bytes;
  tensor.dtype = dtype;
  tensor.rank = static_cast<uint32_t>(dims.size());
  for (size_t axis = 0; axis < dims.size(); ++axis) tensor.dims[axis] = dims[axis];
  return tensor;
}
template <class T>
rlx_tensor make_tensor(std::span<const T> elements, std::span<const uint64_t> dims) {
  return make_tensor(elements.data(), elements.size_bytes(), dtype_of<T>(), dims);
}

// A state, input, output or other value: name, element type, dims and bytes.
class TensorInfo {
 public:
  explicit TensorInfo(const rlx_tensor_info& info) : info_(info) {}
  // Lives as long as the plan.
  [[nodiscard]] const char* name() const { return info_.name; }
  [[nodiscard]] uint32_t dtype() const { return info_.dtype; }
  [[nodiscard]] std::span<const uint64_t> dims() const { return {info_.dims, info_.rank}; }
  [[nodiscard]] uint64_t size_bytes() const { return info_.size_bytes; }
  [[nodiscard]] const rlx_tensor_info& raw() const { return info_; }

 private:
  rlx_tensor_info info_;
};

namespace detail {
struct Closer {
  void operator()(rlx_plan* plan) const noexcept { rlx_plan_close(plan); }
  void operator()(rlx_device* device) const noexcept { rlx_device_close(device); }
  void operator()(rlx_device_list* list) const noexcept { rlx_device_list_close(list); }
  void operator()(rlx_session* session) const noexcept { rlx_session_close(session); }
};
template <class Handle>
using Owned = std::unique_ptr<Handle, Closer>;

// Calls `function` with `arguments` and a struct to fill.
template <class Struct, class Function, class... Arguments>
Struct get(Function function, Arguments... arguments) {
  auto filled = init<Struct>();
  check(function(arguments..., &filled));
  return filled;
}
}  // namespace detail

class Plan {
 public:
  // Opens and verifies a plan file.
  explicit Plan(const std::string& path, const rlx_plan_options* options = nullptr) {
    rlx_plan* opened = nullptr;
    check(rlx_plan_open_file(path.c_str(), options, &opened));
    handle_.reset(opened);
  }
  // From memory that stays unchanged while the plan and sessions on it are open, unless
  // options->copy_memory is 1.
  explicit Plan(std::span<const std::byte> bytes, const rlx_plan_options* options = nullptr) {
    rlx_plan* opened = nullptr;
    check(rlx_plan_open_memory(bytes.data(), bytes.size(), options, &opened));
    handle_.reset(opened);
  }
  // Takes over a handle, which is closed with the plan.
  explicit Plan(rlx_plan* handle) : handle_(handle) {}

  [[nodiscard]] rlx_plan* get() const noexcept { return handle_.get(); }
  [[nodiscard]] rlx_plan_info info() const {
    return detail::get<rlx_plan_info>(rlx_plan_get_info, get());
  }
  [[nodiscard]] rlx_entry_info entry(uint32_t entry) const {
    return detail::get<rlx_entry_info>(rlx_plan_get_entry, get(), entry);
  }
  [[nodiscard]] uint32_t find_entry(const std::string& name) const {
    uint32_t entry = 0;
    check(rlx_plan_find_entry(get(), name.c_str(), &entry));
    return entry;
  }
  // Free dims at their maximum.
  [[nodiscard]] std::vector<TensorInfo> inputs(uint32_t entry = 0) const {
    std::vector<TensorInfo> all;
    for (uint32_t i = 0; i < this->entry(entry).input_count; ++i)
      all.emplace_back(detail::get<rlx_tensor_info>(rlx_plan_get_input, get(), entry, i));
    return all;
  }
  [[nodiscard]] std::vector<TensorInfo> outputs(uint32_t entry = 0) const {
    std::vector<TensorInfo> all;
    for (uint32_t i = 0; i < this->entry(entry).output_count; ++i)
      all.emplace_back(detail::get<rlx_tensor_info>(rlx_plan_get_output, get(), entry, i));
    return all;
  }
  [[nodiscard]] std::vector<TensorInfo> states() const {
    std::vector<TensorInfo> all;
    for (uint32_t i = 0; i < rlx_plan_state_count(get()); ++i)
      all.emplace_back(detail::get<rlx_tensor_info>(rlx_plan_get_state, get(), i));
    return all;
  }
  [[nodiscard]] std::vector<rlx_symbol_info> symbols() const {
    std::vector<rlx_symbol_info> all;
    for (uint32_t i = 0; i < rlx_plan_symbol_count(get()); ++i)
      all.push_back(detail::get<rlx_symbol_info>(rlx_plan_get_symbol, get(), i));
    return all;
  }

 private:
  detail::Owned<rlx_plan> handle_;
};

class Device {
 public:
  // "vulkan:0", "vulkan" (the first), "cuda:0", "cuda", or "null".
  explicit Device(const std::string& id) {
    rlx_device* opened = nullptr;
    check(rlx_device_open(id.c_str(), &opened));
    handle_.reset(opened);
  }
  // Takes over a handle, of rlx_device_adopt_vulkan for instance.
  explicit Device(rlx_device* handle) : handle_(handle) {}

  [[nodiscard]] rlx_device* get() const noexcept { return handle_.get(); }
  // Strings live as long as the device.
  [[nodiscard]] rlx_device_info info() const {
    return detail::get<rlx_device_info>(rlx_device_get_info, get());
  }

 private:
  detail::Owned<rlx_device> handle_;
};

// The devices of this machine.
class DeviceList {
 public:
  DeviceList() {
    rlx_device_list* made = nullptr;
    check(rlx_device_list_create(&made));
    handle_.reset(made);
  }
  // Strings live as long as the list.
  [[nodiscard]] std::vector<rlx_device_info> all() const {
    std::vector<rlx_device_info> infos;
    for (uint32_t i = 0; i < rlx_device_list_count(handle_.get()); ++i)
      infos.push_back(detail::get<rlx_device_info>(rlx_device_list_get, handle_.get(), i));
    return infos;
  }
  // Why a kind of device is missing; "" if none is.
  [[nodiscard]] std::string note() const { return rlx_device_list_note(handle_.get()); }

 private:
  detail::Owned<rlx_device_list> handle_;
};

// A plan loaded on a device. One thread at a time. `entry` is an index of Plan::entry.
class Session {
 public:
  Session(const Plan& plan, const Device& device, const rlx_session_options* options = nullptr) {
    rlx_session* made = nullptr;
    check(rlx_session_create(plan.get(), device.get(), options, &made));
    handle_.reset(made);
  }
  // Takes over a handle.
  explicit Session(rlx_session* handle) : handle_(handle) {}

  [[nodiscard]] rlx_session* get() const noexcept { return handle_.get(); }

  void set_symbol(const std::string& name, uint64_t value, uint32_t entry = 0) {
    check(rlx_session_set_symbol(get(), entry, name.c_str(), value));
  }
  [[nodiscard]] uint64_t symbol(const std::string& name, uint32_t entry = 0) const {
    uint64_t value = 0;
    check(rlx_session_get_symbol(get(), entry, name.c_str(), &value));
    return value;
  }
  // With the dims that they have at the present values of free symbols.
  [[nodiscard]] TensorInfo input(uint32_t input, uint32_t entry = 0) const {
    return TensorInfo(detail::get<rlx_tensor_info>(rlx_session_get_input, get(), entry, input));
  }
  [[nodiscard]] TensorInfo output(uint32_t output, uint32_t entry = 0) const {
    return TensorInfo(detail::get<rlx_tensor_info>(rlx_session_get_output, get(), entry, output));
  }

  // Copies a tensor to an input, where it stays for later runs.
  void set_input(const std::string& name, const rlx_tensor& tensor, uint32_t entry = 0) {
    check(rlx_session_set_input(get(), entry, name.c_str(), &tensor));
  }
  template <class T>
  void set_input(const std::string& name, std::span<const T> elements,
                 std::span<const uint64_t> dims, uint32_t entry = 0) {
    set_input(name, make_tensor(elements, dims), entry);
  }
  // The caller's device memory instead of the session's own; size 0 gives the latter back.
  void bind_input(const std::string& name, uint64_t address, uint64_t size_bytes,
                  uint32_t entry = 0) {
    check(rlx_session_bind_input(get(), entry, name.c_str(), address, size_bytes));
  }
  void bind_output(const std::string& name, uint64_t address, uint64_t size_bytes,
                   uint32_t entry = 0) {
    check(rlx_session_bind_output(get(), entry, name.c_str(), address, size_bytes));
  }

  void prepare(uint32_t entry = 0) { check(rlx_session_prepare(get(), entry)); }
  // Runs and waits.
  void run(uint32_t entry = 0) { check(rlx_session_run(get(), entry)); }
  // Starts a run and gives its number.
  uint64_t submit(uint32_t entry = 0) {
    uint64_t run = 0;
    check(rlx_session_enqueue(get(), entry, &run));
    return run;
  }
  // false: the time is over and the run is still under way.
  bool wait_for(uint64_t run, uint64_t timeout_nanoseconds = RLX_NO_TIMEOUT) {
    return ended(rlx_session_wait_for(get(), run, timeout_nanoseconds));
  }
  // The same for all runs.
  bool wait(uint64_t timeout_nanoseconds = RLX_NO_TIMEOUT) {
    return ended(rlx_session_wait(get(), timeout_nanoseconds));
  }

  // Fills `elements`, which has exactly the output's bytes. T is not asked to be the output's type.
  template <class T>
  void read_output(const std::string& name, std::span<T> elements, uint32_t entry = 0) {
    static_assert(!std::is_const_v<T> && std::is_trivially_copyable_v<T>);
    check(rlx_session_read_output(get(), entry, name.c_str(), elements.data(),
                                  elements.size_bytes()));
  }
  // All elements of the output of that index, of type T. Error with RLX_INVALID_ARGUMENT where the
  // output has another element type.
  template <class T>
  [[nodiscard]] std::vector<T> read_output(uint32_t output, uint32_t entry = 0) {
    static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no elements in memory");
    const TensorInfo info = this->output(output, entry);
    if (info.dtype() != dtype_of<T>())
      throw Error(RLX_INVALID_ARGUMENT, "output \"" + std::string(info.name()) + "\" is " +
                                            rlx_dtype_name(info.dtype()) + ", read as " +
                                            rlx_dtype_name(dtype_of<T>()));
    std::vector<T> elements(info.size_bytes() / sizeof(T));
    read_output(info.name(), std::span<T>(elements), entry);
    return elements;
  }

  // States: `range` NULL means all of it.
  template <class T>
  void read_state(const std::string& name, std::span<T> elements,
                  const rlx_state_range* range = nullptr) {
    static_assert(!std::is_const_v<T> && std::is_trivially_copyable_v<T>);
    check(
        rlx_session_read_state(get(), name.c_str(), range, elements.data(), elements.size_bytes()));
  }
  void write_state(const std::string& name, const rlx_tensor& tensor,
                   const rlx_state_range* range = nullptr) {
    check(rlx_session_write_state(get(), name.c_str(), range, &tensor));
  }
  void copy_state(const std::string& name, Session& from) {
    check(rlx_session_copy_state(get(), name.c_str(), from.get()));
  }
  void reset_states() { check(rlx_session_reset_states(get())); }
  void set_seed(uint64_t seed, uint32_t step = 0) {
    check(rlx_session_set_seed(get(), seed, step));
  }

  [[nodiscard]] rlx_program_info program(uint32_t entry = 0) const {
    return detail::get<rlx_program_info>(rlx_session_get_program, get(), entry);
  }
  [[nodiscard]] rlx_step_info step(uint32_t step, uint32_t entry = 0) const {
    return detail::get<rlx_step_info>(rlx_session_get_step, get(), entry, step);
  }
  // Device time of each step, run one after another. Needs the option profile.
  [[nodiscard]] std::vector<rlx_step_time> profile(uint32_t entry = 0) {
    std::vector<rlx_step_time> times(program(entry).step_count);
    uint32_t count = 0;
    check(rlx_session_profile(get(), entry, times.data(), static_cast<uint32_t>(times.size()),
                              &count));
    times.resize(count);
    return times;
  }

 private:
  static bool ended(rlx_status status) {
    if (status == RLX_TIMEOUT) return false;
    check(status);
    return true;
  }

  detail::Owned<rlx_session> handle_;
};

}  // namespace hpp
}  // namespace rlx

#endif
