// SPDX-License-Identifier: Apache-2.0
// The typed builder of a dispatch: binding a buffer is declaring the access.
#pragma once

#include <cstring>
#include <string>
#include <utility>

#include "compiler/dispatch/program.h"
#include "compiler/support/check.h"

namespace rlx {

// The number, or the text of an expression over words of the params, for a define or a generated
// file: an int, or a 64-bit integer where it may exceed that.
std::string size_text(const Dim& size);
// Puts a word for each free symbol that size_text() named into the params, and the word's name into
// the texts.
void place_sizes(Specialization& specialization, Step& step);

// RLX_CHECKs that one grid axis is in [1, 65535]; lowerings split larger counts (see split_grid).
Dim checked_grid(const Dim& groups);

// Builds one Dispatch step and appends it to the program when it goes out of scope.
//   ctx.dispatch<KernelId::softmax>()
//      .workgroup({256}).define("RLX_COLS", cols)
//      .read(&CopyParams::x, ctx.input(0)).write(&CopyParams::y, ctx.output(0))
//      .grid(rows).reason("row of 128 in one subgroup");
template <typename Params>
class DispatchBuilder {
 public:
  DispatchBuilder(Program& program, KernelId kernel, Step step)
      : program_(&program), step_(std::move(step)) {
    specialization_.kernel = kernel;
    specialization_.defines = program.defines;
  }
  DispatchBuilder(const DispatchBuilder&) = delete;
  DispatchBuilder& operator=(const DispatchBuilder&) = delete;
  ~DispatchBuilder() noexcept(false) {
    step_.params.resize(sizeof(Params));
    std::memcpy(step_.params.data(), &params_, sizeof(Params));
    place_sizes(specialization_, step_);
    step_.kernel = program_->intern(specialization_);
    program_->steps.push_back(std::move(step_));
  }

  DispatchBuilder& define(const std::string& name, const std::string& text) {
    specialization_.defines[name] = text;
    return *this;
  }
  DispatchBuilder& define(const std::string& name, int64_t value) {
    return define(name, std::to_string(value));
  }
  // A number that the kernel's text takes as it comes: fixed, or an expression over words of the
  // params. A free size that is defined as a number instead refuses the kernel (DimWatch).
  DispatchBuilder& size(const std::string& name, const Dim& size) {
    return define(name, size_text(size));
  }
  // Text that the kernel includes as "generated/<name>".
  DispatchBuilder& generated(const std::string& name, const std::string& text) {
    specialization_.generated["generated/" + name] = text;
    return *this;
  }
  DispatchBuilder& workgroup(Extent3 extent) {
    specialization_.workgroup = extent;
    return *this;
  }
  DispatchBuilder& grid(const Dim& x, const Dim& y = 1, const Dim& z = 1) {
    step_.grid = {checked_grid(x), checked_grid(y), checked_grid(z)};
    return *this;
  }
  DispatchBuilder& grid(const Grid& grid) {
    step_.grid = grid;
    return *this;
  }
  DispatchBuilder& read(rlx_ptr Params::*field, const TensorRef& ref,
                        uint32_t alignment_bytes = 0) {
    return bind(position_of(field), ref, AccessMode::Read, alignment_bytes);
  }
  DispatchBuilder& write(rlx_ptr Params::*field, const TensorRef& ref,
                         uint32_t alignment_bytes = 0) {
    return bind(position_of(field), ref, AccessMode::Write, alignment_bytes);
  }
  // Binds by byte position, for array fields. alignment_bytes 0: the element size.
  DispatchBuilder& bind(uint32_t position, const TensorRef& ref, AccessMode mode,
                        uint32_t alignment_bytes = 0);
  // The kernel counts the indices that lie outside in a word of this step's own, where the program
  // counts any.
  DispatchBuilder& count_index_errors() {
    return count_index_errors(position_of(&Params::index_errors));
  }
  // The same by byte position, for array fields.
  DispatchBuilder& count_index_errors(uint32_t position) { return count_errors(position, {}); }
  // The word counts how often something that must hold does not; the text says so of a run.
  DispatchBuilder& count_failures(std::string text) {
    return count_errors(position_of(&Params::index_errors), std::move(text));
  }
  // The kernel's next tensor map, of what `field` is bound to from its pointer on; map.position is
  // set here.
  DispatchBuilder& map(rlx_ptr Params::*field, TensorMap map) {
    map.position = position_of(field);
    specialization_.maps.push_back(std::move(map));
    return define("RLX_MAPS", static_cast<int64_t>(specialization_.maps.size()));
  }
  // A params field that is no pointer.
  DispatchBuilder& set(rlx_uint Params::*field, uint32_t value) {
    params_.*field = value;
    return *this;
  }
  // The only output may take over the bytes of this input (see Step::in_place_input).
  DispatchBuilder& allow_in_place(const TensorRef& input) { return allow_in_place(input.buffer); }
  DispatchBuilder& allow_in_place(BufferId input) {
    step_.in_place_input = input;
    return *this;
  }
  // An output may be the new value of this state (see Step::in_place_states).
  DispatchBuilder& allow_in_place_state(BufferId state) {
    step_.in_place_states.push_back(state);
    return *this;
  }
  DispatchBuilder& work(const Dim& bytes_moved, const Dim& flops) {
    step_.bytes_moved = bytes_moved;
    step_.flops = flops;
    return *this;
  }
  DispatchBuilder& estimate(std::function<double(const DeviceModel&)> microseconds) {
    step_.estimate = std::move(microseconds);
    return *this;
  }
  DispatchBuilder& reason(std::string text) {
    step_.reason = std::move(text);
    return *this;
  }

 private:
  DispatchBuilder& count_errors(uint32_t position, std::string assertion) {
    if (!program_->counts_index_errors) return *this;
    return define("RLX_INDEX_ERRORS", 1)
        .bind(position, program_->add_index_errors(step_.node, std::move(assertion)),
              AccessMode::ReadWrite);
  }
  uint32_t position_of(rlx_ptr Params::*field) const {
    return static_cast<uint32_t>(reinterpret_cast<const char*>(&(params_.*field)) -
                                 reinterpret_cast<const char*>(&params_));
  }

  Program* program_;
  Step step_;
  Specialization specialization_;
  Params params_{};
};

// The access that binding `ref` declares; alignment_bytes 0 means the element size.
Access make_access(uint32_t position, const TensorRef& ref, AccessMode mode,
                   uint32_t alignment_bytes);

template <typename Params>
DispatchBuilder<Params>& DispatchBuilder<Params>::bind(uint32_t position, const TensorRef& ref,
                                                       AccessMode mode, uint32_t alignment_bytes) {
  step_.accesses.push_back(make_access(position, ref, mode, alignment_bytes));
  return *this;
}

// Spreads a linear count of workgroups over x, y and z so that no axis exceeds 65535 (Vulkan's
// guaranteed limit). The kernel numbers its group x + count_x * (y + count_y * z) and returns when
// that is not below the count. Throws TooManyGroups from 2^31 on.
Grid split_grid(const Dim& groups);

// No mistake of ours where lower_node hears it: a model may ask for tensors of which no kernel
// numbers the workgroups.
struct TooManyGroups : InternalError {
  using InternalError::InternalError;
};

}  // namespace rlx
