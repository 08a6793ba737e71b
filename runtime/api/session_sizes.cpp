// SPDX-License-Identifier: Apache-2.0
// A session's free sizes: symbols, and the bindings to their values.
#include <algorithm>

#include "runtime/api/session.h"
#include "runtime/base/text.h"
#include "runtime/plan/free_sizes.h"

namespace rlx {

void Session::forget_outputs(uint32_t entry, bool sizes_changed) {
  entries_[entry].outputs_valid = entries_[entry].outputs_valid && !sizes_changed;
}

Status Session::set_symbol(uint32_t entry, std::string_view name, uint64_t value) {
  RLX_RETURN_IF_ERROR(check_entry(entry));
  RLX_RETURN_IF_ERROR(check_idle());
  bool changed = false;
  RLX_RETURN_IF_ERROR(entries_[entry].sizes.set_symbol(name, value, changed));
  forget_outputs(entry, changed && has_free_sizes(entry));
  return {};
}

Status Session::get_symbol(uint32_t entry, std::string_view name, uint64_t& value) const {
  RLX_RETURN_IF_ERROR(check_entry(entry));
  return entries_[entry].sizes.get_symbol(name, value);
}

Status Session::shape_of(uint32_t entry, EntrySizes::Ports ports, uint32_t number,
                         TensorDims& shape) {
  RLX_RETURN_IF_ERROR(check_entry(entry));
  return entries_[entry].sizes.shape(ports, number, shape);
}

Status Session::bind_sizes(uint32_t entry) {
  EntrySizes& sizes = entries_[entry].sizes;
  if (!sizes.is_free() || device_session_->use_binding(entry, sizes.symbols())) {
    sizes.keep();
    return {};
  }
  std::shared_ptr<const PlanView> bound;
  Status status = sizes.check_record();
  if (status.ok()) {
    const auto image = std::ranges::find(entries_[entry].images, sizes.record(),
                                         [](const RecordImage& i) { return i.record; });
    status = PlanView::bind(*plan_, {&*image, 1}, sizes.symbols(), bound);
  }
  if (status.ok()) status = device_session_->add_binding(entry, sizes.symbols(), std::move(bound));
  if (status.ok()) {
    sizes.keep();
  } else {
    sizes.restore();
  }
  return status;
}

Status Session::bind_agreed_sizes(uint32_t entry) {
  if (!has_free_sizes(entry)) return {};
  RLX_RETURN_IF_ERROR(entries_[entry].sizes.check_agreement());
  return bind_sizes(entry);
}

Status Session::bound_entry(uint32_t entry, BoundEntry& bound) {
  RLX_RETURN_IF_ERROR(check_entry(entry));
  RLX_RETURN_IF_ERROR(bind_sizes(entry));
  bound = {.plan = &device_session_->bound_view(entry),
           .record = &device_session_->bound_record(entry)};
  return {};
}

Status Session::check_buffers(uint32_t entry) const {
  if (!has_free_sizes(entry)) return {};
  const Ports& ports = entries_[entry];
  const fb::Entry& bound = device_session_->bound_record(entry);
  const auto check_list = [&](const std::vector<Port>& list,
                              const flatbuffers::Vector<uint32_t>& values) -> Status {
    for (uint32_t i = 0; i < list.size(); ++i) {
      const fb::Value& value = PlanView::value(bound, values.Get(i));
      const std::optional<ExternalBuffer>& memory = list[i].bound;
      if (!memory.has_value() || memory->size_bytes >= value.size_bytes()) continue;
      return {RLX_INVALID_ARGUMENT,
              text_of("the memory for ", quoted(PlanView::text(value.name())), " of ",
                      entry_text(entry), " has ", memory->size_bytes, " bytes, at ",
                      ports.sizes.text(), " it must have ", value.size_bytes())};
    }
    return {};
  };
  RLX_RETURN_IF_ERROR(check_list(ports.inputs, *bound.inputs()));
  return check_list(ports.outputs, *bound.outputs());
}

}  // namespace rlx
