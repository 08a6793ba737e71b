// SPDX-License-Identifier: Apache-2.0
#include "tools/python/session.h"

#include <algorithm>
#include <cstdlib>
#include <span>

namespace rlx::python {
namespace {

// Copies of fewer bytes are over before another thread could use the lock.
constexpr uint64_t kLongCopyBytes = 65536;

std::string quoted(const std::string& name) {
  return "\"" + name + "\"";
}

template <class Numbers>
std::string dims_text(const Numbers& dims) {
  std::string text = "[";
  for (const auto& dim : dims) text += (text.size() > 1 ? "," : "") + std::to_string(dim);
  return text + "]";
}

// A call of librlx that may take long, without the interpreter's lock. The sentence of a failure
// belongs to this thread.
template <class Call>
rlx_status unlocked(Call call) {
  const nb::gil_scoped_release released;
  return call();
}

template <class Call>
rlx_status copying(uint64_t size_bytes, Call call) {
  return size_bytes >= kLongCopyBytes ? unlocked(call) : call();
}

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(RLX_INVALID_ARGUMENT, sentence);
}

// In C the character zero would end the name, which might then be another's.
const std::string& checked_name(const std::string& name) {
  if (name.find('\0') != std::string::npos)
    refuse("the name " + quoted(name.c_str()) + " has the character zero behind it");
  return name;
}

// The name that a key of a caller's is.
std::string name_of(nb::handle key) {
  if (!nb::isinstance<nb::str>(key)) throw nb::type_error("names of inputs and outputs are str");
  return checked_name(nb::cast<std::string>(key));
}

rlx_tensor host_tensor(const TensorArgument& tensor) {
  return make_tensor(tensor.data, tensor.size_bytes, static_cast<rlx_dtype>(tensor.dtype),
                     tensor.dims);
}

std::optional<rlx_state_range> range_of(std::optional<uint32_t> axis, uint64_t begin,
                                        uint64_t count) {
  if (!axis) return std::nullopt;
  auto range = init<rlx_state_range>();
  range.axis = *axis;
  range.begin = begin;
  range.count = count;
  return range;
}

}  // namespace

class SessionCore::Use {
 public:
  explicit Use(SessionCore& core) : core_(core) {
    if (core.in_use_.exchange(true))
      throw Error(RLX_INVALID_STATE,
                  "the session is in use by another thread; a session serves one at a time");
    if (core.session_ != nullptr) return;
    core.in_use_ = false;
    refuse("the session is closed");
  }
  ~Use() { core_.in_use_ = false; }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  rlx_session* operator*() const { return core_.session_->get(); }
  Session* operator->() const { return core_.session_.get(); }

 private:
  SessionCore& core_;
};

SessionCore::SessionCore(std::shared_ptr<Plan> plan, std::shared_ptr<Device> device,
                         const SessionSettings& settings)
    : plan_(std::move(plan)), device_(std::move(device)) {
  device_info_ = device_->info();
  place_.device = device_info_.id;
  place_.is_cuda = place_.device.starts_with("cuda");
  if (place_.is_cuda) place_.ordinal = std::atoi(place_.device.c_str() + sizeof("cuda:") - 1);
  if (settings.stream && !place_.is_cuda)
    refuse("stream is for CUDA devices, the session runs on " + place_.device);
  place_.stream = settings.stream.value_or(0) != 0 ? *settings.stream : 1;  // DLPack's default one
  auto options = init<rlx_session_options>();
  options.jobs = settings.jobs;
  options.profile = settings.profile ? 1 : 0;
  options.pipeline_cache_path =
      settings.pipeline_cache ? settings.pipeline_cache->c_str() : nullptr;
  options.memory_budget_bytes = settings.memory_budget_bytes;
  // CUDA's own number of the default stream is DLPack's: tensors that were made on it are ready.
  if (place_.is_cuda) options.cuda_stream = reinterpret_cast<void*>(place_.stream);
  options.require_tuned = settings.require_tuned ? 1 : 0;
  options.check_indices = settings.check_indices ? 1 : 0;
  options.max_bindings = settings.max_bindings;
  options.queue_depth = settings.queue_depth;
  rlx_session* made = nullptr;
  check(
      unlocked([&] { return rlx_session_create(plan_->get(), device_->get(), &options, &made); }));
  session_ = std::make_unique<Session>(made);
  describe_entries();
}

void SessionCore::describe_entries() {
  const std::vector<rlx_symbol_info> symbols = plan_->symbols();
  const auto describe = [&](uint32_t entry, uint32_t number, const TensorInfo& info,
                            auto* get_dim) {
    Port port{.name = info.name(), .dtype = info.dtype()};
    for (uint32_t axis = 0; axis < info.dims().size(); ++axis) {
      auto dim = init<rlx_dim_info>();
      check(get_dim(plan_->get(), entry, number, axis, &dim));
      entries_[entry].has_free_dims = entries_[entry].has_free_dims || dim.is_free != 0;
      const bool is_symbol = dim.is_free != 0 && dim.symbol != RLX_NO_SYMBOL;
      port.dims.push_back(
          {.maximum = dim.maximum, .symbol = is_symbol ? symbols.at(dim.symbol).name : nullptr});
    }
    return port;
  };
  entries_.resize(plan_->info().entry_count);
  for (uint32_t entry = 0; entry < entries_.size(); ++entry) {
    for (const TensorInfo& info : plan_->inputs(entry))
      entries_[entry].inputs.push_back(
          describe(entry, static_cast<uint32_t>(entries_[entry].inputs.size()), info,
                   rlx_plan_get_input_dim));
    for (const TensorInfo& info : plan_->outputs(entry))
      entries_[entry].outputs.push_back(
          describe(entry, static_cast<uint32_t>(entries_[entry].outputs.size()), info,
                   rlx_plan_get_output_dim));
  }
}

void SessionCore::close() {
  if (in_use_.exchange(true))
    throw Error(RLX_INVALID_STATE, "the session is in use by another thread and cannot be closed");
  {
    const nb::gil_scoped_release released;
    session_.reset();
  }
  plan_.reset();
  entries_.clear();
  bound_states_.clear();
  in_use_ = false;
}

SessionCore::Entry& SessionCore::entry_at(uint32_t entry) {
  return entries_.at(entry);
}

SessionCore::Port* SessionCore::find_input(Entry& entry, const std::string& name) {
  const auto found = std::find_if(entry.inputs.begin(), entry.inputs.end(),
                                  [&](const Port& port) { return port.name == name; });
  return found == entry.inputs.end() ? nullptr : &*found;
}

std::vector<uint32_t> SessionCore::pick_outputs(const Entry& entry, nb::handle names) const {
  std::vector<uint32_t> picked;
  if (names.is_none()) {
    for (uint32_t i = 0; i < entry.outputs.size(); ++i) picked.push_back(i);
    return picked;
  }
  for (const nb::handle each : names) {
    const std::string name = name_of(each);
    const auto found = std::find_if(entry.outputs.begin(), entry.outputs.end(),
                                    [&](const Port& port) { return port.name == name; });
    if (found == entry.outputs.end()) {
      std::string known;
      for (const Port& port : entry.outputs)
        known += (known.empty() ? "" : ", ") + quoted(port.name);
      refuse("there is no output " + quoted(name) + "; the outputs are " + known);
    }
    picked.push_back(static_cast<uint32_t>(found - entry.outputs.begin()));
  }
  return picked;
}

// An array for what is no output of the call would stay as it is.
void SessionCore::check_into(const Entry& entry, const std::vector<uint32_t>& picked,
                             nb::handle into) const {
  if (into.is_none()) return;
  for (const nb::handle key : into) {
    const std::string name = name_of(key);
    const bool is_known = std::any_of(picked.begin(), picked.end(), [&](uint32_t number) {
      return entry.outputs[number].name == name;
    });
    if (!is_known) refuse("an array is given for " + quoted(name) + ", which is no output of this");
  }
}

// ---- inputs

// Sets all of them. The first that is no NumPy array, by whose kind outputs are made; else null.
nb::object SessionCore::give(uint32_t entry, const nb::dict& inputs) {
  nb::object like;
  for (const auto [key, value] : inputs) {
    const std::string name = name_of(key);
    Port* const port = find_input(entry_at(entry), name);
    const TensorArgument tensor = take_array(value, "input " + quoted(name), place_);
    copies_.on_host += tensor.was_copied ? 1 : 0;
    if (!tensor.is_numpy && !like.is_valid()) like = tensor.source;
    if (tensor.on_cuda && port != nullptr) {
      give_cuda(entry, *port, tensor);
    } else {
      give_host(entry, port, name, tensor);
    }
  }
  check_bound_shapes(entry);
  return like;
}

// An unknown name, where there is no port, is the library's to refuse.
void SessionCore::give_host(uint32_t entry, Port* port, const std::string& name,
                            const TensorArgument& tensor) {
  if (tensor.on_cuda) {
    const rlx_status status = rlx_session_bind_input(session_->get(), entry, name.c_str(), 0, 0);
    check(status);
    return;
  }
  if (port != nullptr && port->address_bytes != 0) {
    session_->bind_input(name, 0, 0, entry);
    port->bound.reset();
    port->address_bytes = 0;
  }
  const rlx_tensor given = host_tensor(tensor);
  const rlx_status status = copying(tensor.size_bytes, [&] {
    return rlx_session_set_input(session_->get(), entry, name.c_str(), &given);
  });
  if (status == RLX_INVALID_ARGUMENT && port != nullptr && port->dtype != tensor.dtype)
    throw DtypeError(status, rlx_last_error());
  check(status);
  ++copies_.to_device;
}

void SessionCore::give_cuda(uint32_t entry, Port& port, const TensorArgument& tensor) {
  const std::vector<uint64_t>& dims = tensor.dims;
  if (tensor.dtype != port.dtype)
    throw DtypeError(RLX_INVALID_ARGUMENT, "input " + quoted(port.name) + " got " +
                                               rlx_dtype_name(tensor.dtype) + ", wanted " +
                                               rlx_dtype_name(port.dtype));
  if (dims.size() != port.dims.size())
    refuse("input " + quoted(port.name) + " got rank " + std::to_string(dims.size()) + ", wanted " +
           std::to_string(port.dims.size()));
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (port.dims[axis].symbol != nullptr)
      session_->set_symbol(port.dims[axis].symbol, dims[axis], entry);
  }
  const auto address = reinterpret_cast<uint64_t>(tensor.data);
  if (port.address != address || port.address_bytes != tensor.size_bytes) {
    session_->bind_input(port.name, address, tensor.size_bytes, entry);
    port.address = address;
    port.address_bytes = tensor.size_bytes;
  }
  port.bound_dims = dims;
  port.bound = tensor.source;
}

// Device memory has no shape that the library could judge.
void SessionCore::check_bound_shapes(uint32_t entry) {
  std::vector<Port>& inputs = entry_at(entry).inputs;
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].address_bytes == 0) continue;
    const TensorInfo wanted = session_->input(i, entry);
    const std::vector<uint64_t>& dims = inputs[i].bound_dims;
    if (std::equal(dims.begin(), dims.end(), wanted.dims().begin(), wanted.dims().end())) continue;
    refuse("input " + quoted(inputs[i].name) + " got " + dims_text(dims) + ", wanted " +
           dims_text(wanted.dims()));
  }
}

void SessionCore::set_input(uint32_t entry, const std::string& name, nb::handle value) {
  const Use use(*this);
  nb::dict inputs;
  inputs[checked_name(name).c_str()] = value;
  give(entry, inputs);
}

void SessionCore::set_symbol(uint32_t entry, const std::string& name, uint64_t value) {
  Use(*this)->set_symbol(checked_name(name), value, entry);
}

uint64_t SessionCore::symbol(uint32_t entry, const std::string& name) {
  return Use(*this)->symbol(checked_name(name), entry);
}

// ---- outputs

// The memory of an array for an output, which has its dtype and present dims.
ArrayMemory SessionCore::take_output(uint32_t entry, uint32_t output, nb::handle value) {
  const std::string what = "output " + quoted(entry_at(entry).outputs[output].name);
  ArrayMemory array = take_writable(value, what, place_);
  const TensorInfo info = session_->output(output, entry);
  if (array.dtype != info.dtype())
    throw DtypeError(RLX_INVALID_ARGUMENT, what + " is " + rlx_dtype_name(info.dtype()) +
                                               ", the given array is " +
                                               rlx_dtype_name(array.dtype));
  if (!std::equal(info.dims().begin(), info.dims().end(), array.dims.begin(), array.dims.end()))
    refuse(what + " is " + dims_text(info.dims()) + ", the given array " + dims_text(array.dims));
  return array;
}

std::vector<SessionCore::Placed> SessionCore::place_outputs(uint32_t entry,
                                                            const std::vector<uint32_t>& picked,
                                                            nb::handle into, nb::handle like) {
  std::vector<Placed> placed;
  Entry& ports = entry_at(entry);
  check_into(ports, picked, into);
  // What nobody asks for must not go where an earlier call wanted it, whose size it may not have.
  for (uint32_t number = 0; number < ports.outputs.size(); ++number) {
    const bool is_picked = std::find(picked.begin(), picked.end(), number) != picked.end();
    if (!is_picked && ports.outputs[number].address_bytes != 0)
      unbind_output(entry, ports.outputs[number]);
  }
  for (const uint32_t number : picked) {
    Port& port = ports.outputs[number];
    Placed output = place_output(entry, number, into, like);
    if (output.memory.on_cuda) {
      bind_output(entry, port, output.memory);
    } else if (port.address_bytes != 0) {
      unbind_output(entry, port);
    }
    placed.push_back(std::move(output));
  }
  return placed;
}

SessionCore::Placed SessionCore::place_output(uint32_t entry, uint32_t number, nb::handle into,
                                              nb::handle like) {
  const Port& port = entry_at(entry).outputs[number];
  nb::object array = given_for(port, into);
  const bool was_given = array.is_valid();
  if (!was_given) array = make_array(session_->output(number, entry).dims(), port.dtype, like);
  ArrayMemory memory = take_output(entry, number, array);
  return {.array = std::move(array), .memory = std::move(memory), .was_given = was_given};
}

// Not valid where `into` has none.
nb::object SessionCore::given_for(const Port& port, nb::handle into) {
  const bool is_given = !into.is_none() && nb::cast<bool>(into.attr("__contains__")(port.name));
  return is_given ? nb::object(into[port.name.c_str()]) : nb::object();
}

void SessionCore::bind_output(uint32_t entry, Port& port, const ArrayMemory& array) {
  const auto address = reinterpret_cast<uint64_t>(array.data);
  if (port.address != address || port.address_bytes != array.size_bytes) {
    session_->bind_output(port.name, address, array.size_bytes, entry);
    port.address = address;
    port.address_bytes = array.size_bytes;
  }
  port.bound = array.source;
}

void SessionCore::unbind_output(uint32_t entry, Port& port) {
  session_->bind_output(port.name, 0, 0, entry);
  port.bound.reset();
  port.address_bytes = 0;
}

void SessionCore::read_into(uint32_t entry, const std::vector<uint32_t>& picked,
                            const std::vector<Placed>& placed) {
  for (size_t i = 0; i < picked.size(); ++i) {
    const Port& port = entry_at(entry).outputs[picked[i]];
    if (port.address_bytes != 0) continue;
    const ArrayMemory& memory = placed[i].memory;
    check(copying(memory.size_bytes, [&] {
      return rlx_session_read_output(session_->get(), entry, port.name.c_str(), memory.data,
                                     memory.size_bytes);
    }));
    ++copies_.from_device;
  }
}

nb::object SessionCore::collect(const Entry& entry, const std::vector<uint32_t>& picked,
                                const std::vector<Placed>& placed, bool bare) const {
  if (bare && picked.size() == 1) return placed[0].array;
  nb::dict outputs;
  for (size_t i = 0; i < picked.size(); ++i)
    outputs[entry.outputs[picked[i]].name.c_str()] = placed[i].array;
  return outputs;
}

// ---- runs

nb::object SessionCore::run(uint32_t entry, const nb::dict& inputs, nb::handle names,
                            nb::handle into, bool bare) {
  const Use use(*this);
  const std::vector<uint32_t> picked = pick_outputs(entry_at(entry), names);
  const nb::object like = give(entry, inputs);
  std::vector<Placed> placed = place_outputs(entry, picked, into, like);
  check(unlocked([&] { return rlx_session_run(*use, entry); }));
  read_into(entry, picked, placed);
  for (Placed& output : placed)
    if (!output.was_given) output.array = delivered(std::move(output.array), like);
  return collect(entry_at(entry), picked, placed, bare);
}

uint64_t SessionCore::submit(uint32_t entry, const nb::dict& inputs, nb::handle into) {
  const Use use(*this);
  give(entry, inputs);
  if (!into.is_none()) {
    check_into(entry_at(entry), pick_outputs(entry_at(entry), nb::none()), into);
    std::vector<Port>& outputs = entry_at(entry).outputs;
    for (uint32_t number = 0; number < outputs.size(); ++number) {
      Port& port = outputs[number];
      const nb::object given = given_for(port, into);
      if (!given.is_valid()) continue;
      const ArrayMemory array = take_output(entry, number, given);
      if (!array.on_cuda)
        refuse("output " + quoted(port.name) +
               " of a run that is not waited for cannot be written to host memory; read it after "
               "wait");
      bind_output(entry, port, array);
    }
  }
  return use->submit(entry);
}

bool SessionCore::wait(std::optional<uint64_t> run, std::optional<double> seconds) {
  const Use use(*this);
  const uint64_t nanoseconds =
      seconds ? static_cast<uint64_t>(std::max(0.0, *seconds) * 1e9) : RLX_NO_TIMEOUT;
  const rlx_status status = unlocked([&] {
    return run ? rlx_session_wait_for(*use, *run, nanoseconds)
               : rlx_session_wait(*use, nanoseconds);
  });
  if (status == RLX_TIMEOUT) return false;
  check(status);
  return true;
}

nb::object SessionCore::read(uint32_t entry, nb::handle names, nb::handle into) {
  const Use use(*this);
  Entry& ports = entry_at(entry);
  const std::vector<uint32_t> picked = pick_outputs(ports, names);
  check_into(ports, picked, into);
  std::vector<Placed> placed;
  for (const uint32_t number : picked) {
    const Port& port = ports.outputs[number];
    placed.push_back(port.address_bytes != 0 ? Placed{.array = port.bound, .memory = {}}
                                             : place_output(entry, number, into, nb::handle()));
  }
  read_into(entry, picked, placed);
  return collect(ports, picked, placed, false);
}

void SessionCore::prepare(uint32_t entry) {
  const Use use(*this);
  check(unlocked([&] { return rlx_session_prepare(*use, entry); }));
}

// ---- states

rlx_tensor_info SessionCore::state_info(const std::string& name) const {
  std::string known;
  for (const TensorInfo& state : plan_->states()) {
    if (name == state.name()) return state.raw();
    known += (known.empty() ? "" : ", ") + quoted(state.name());
  }
  refuse("there is no state " + quoted(name) + "; " +
         (known.empty() ? "the plan has none" : "the states are " + known));
}

nb::object SessionCore::read_state(const std::string& name, std::optional<uint32_t> axis,
                                   uint64_t begin, uint64_t count, nb::handle into) {
  const Use use(*this);
  const rlx_tensor_info info = state_info(checked_name(name));
  std::vector<uint64_t> dims(info.dims, info.dims + info.rank);
  if (axis && *axis < dims.size()) {
    const uint64_t size = dims[*axis];
    if (begin > size || count > size - begin)  // before an array of so many is made
      refuse("state " + quoted(name) + " has " + std::to_string(size) + " at axis " +
             std::to_string(*axis) + ", wanted are " + std::to_string(count) + " from " +
             std::to_string(begin) + " on");
    dims[*axis] = count;
  }
  const auto range = range_of(axis, begin, count);
  const nb::object array =
      into.is_none() ? make_array(dims, info.dtype, nb::handle()) : nb::borrow(into);
  const ArrayMemory memory = take_writable(array, "state " + quoted(name), place_);
  if (memory.on_cuda) refuse("states are read to host memory; bind_state shares device memory");
  check(unlocked([&] {
    return rlx_session_read_state(*use, name.c_str(), range ? &*range : nullptr, memory.data,
                                  memory.size_bytes);
  }));
  return array;
}

void SessionCore::write_state(const std::string& name, std::optional<uint32_t> axis, uint64_t begin,
                              nb::handle value) {
  const Use use(*this);
  const TensorArgument tensor = take_array(value, "state " + quoted(checked_name(name)), place_);
  if (tensor.on_cuda)
    refuse("states are written from host memory; bind_state shares device memory");
  const uint64_t count = axis && *axis < tensor.dims.size() ? tensor.dims[*axis] : 0;
  const auto range = range_of(axis, begin, count);
  const rlx_tensor given = host_tensor(tensor);
  const rlx_status status = unlocked([&] {
    return rlx_session_write_state(*use, name.c_str(), range ? &*range : nullptr, &given);
  });
  if (status == RLX_INVALID_ARGUMENT) {
    const std::string sentence = rlx_last_error();
    if (state_info(name).dtype != tensor.dtype) throw DtypeError(status, sentence);
    throw Error(status, sentence);
  }
  check(status);
}

void SessionCore::copy_state(const std::string& name, SessionCore& from) {
  if (&from == this) refuse("a state is copied from another session");
  const Use use(*this);
  const Use other(from);
  check(rlx_session_copy_state(*use, checked_name(name).c_str(), *other));
}

void SessionCore::bind_state(const std::string& name, nb::handle value) {
  checked_name(name);
  const Use use(*this);
  if (value.is_none()) {
    check(rlx_session_bind_state(*use, name.c_str(), 0, 0));
    bound_states_.erase(name);
    return;
  }
  const ArrayMemory array = take_writable(value, "state " + quoted(name), place_);
  if (!array.on_cuda) refuse("state " + quoted(name) + " got a tensor in host memory");
  const rlx_tensor_info info = state_info(name);
  if (array.dtype != info.dtype)
    throw DtypeError(RLX_INVALID_ARGUMENT, "state " + quoted(name) + " got " +
                                               rlx_dtype_name(array.dtype) + ", wanted " +
                                               rlx_dtype_name(info.dtype));
  check(rlx_session_bind_state(*use, name.c_str(), reinterpret_cast<uint64_t>(array.data),
                               array.size_bytes));
  bound_states_.insert_or_assign(name, array.source);
}

void SessionCore::reset_states() {
  const Use use(*this);
  check(unlocked([&] { return rlx_session_reset_states(*use); }));
}

void SessionCore::set_seed(uint64_t seed, uint32_t step) {
  Use(*this)->set_seed(seed, step);
}

// ---- what a session tells

nb::list SessionCore::profile(uint32_t entry) {
  const Use use(*this);
  std::vector<rlx_step_time> times(use->program(entry).step_count);
  uint32_t count = 0;
  check(unlocked([&] {
    return rlx_session_profile(*use, entry, times.data(), static_cast<uint32_t>(times.size()),
                               &count);
  }));
  nb::list rows;
  for (const rlx_step_time& time : std::span(times).first(count)) {
    const rlx_step_info step = use->step(time.step, entry);
    rows.append(nb::make_tuple(time.step, step.node, step.op, step.kernel, step.wave,
                               time.microseconds, step.bytes_moved, step.flops, step.code));
  }
  return rows;
}

double SessionCore::last_run_microseconds() {
  const Use use(*this);
  double microseconds = 0;
  check(rlx_session_last_run_microseconds(*use, &microseconds));
  return microseconds;
}

nb::tuple SessionCore::program(uint32_t entry) {
  const rlx_program_info info = Use(*this)->program(entry);
  return nb::make_tuple(info.step_count, info.wave_count, info.arena_bytes, info.arena_lower_bound);
}

nb::list SessionCore::present(uint32_t entry, bool outputs) {
  const Use use(*this);
  const std::vector<Port>& ports = outputs ? entry_at(entry).outputs : entry_at(entry).inputs;
  nb::list rows;
  for (uint32_t i = 0; i < ports.size(); ++i) {
    const TensorInfo info = outputs ? use->output(i, entry) : use->input(i, entry);
    nb::list dims;
    for (const uint64_t dim : info.dims()) dims.append(dim);
    rows.append(nb::make_tuple(ports[i].name, rlx_dtype_name(info.dtype()), nb::tuple(dims)));
  }
  return rows;
}

}  // namespace rlx::python
