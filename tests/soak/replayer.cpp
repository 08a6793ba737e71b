// SPDX-License-Identifier: Apache-2.0
// Runs and comparisons over the C API.
#define XXH_INLINE_ALL
#include "tests/soak/replayer.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "tools/rlxrun/errors.h"
#include "tools/rlxrun/inputs.h"

namespace rlx::soak {
namespace {

using tool::check;

// Types that no file of arrays holds are weights in blocks. Bytes as of seeded 8-bit floats leave
// their scales finite.
npy::Array seeded(const tool::Tensor& tensor, const Seeds& seeds) {
  if (npy::element_for(tensor.dtype))
    return tool::seeded_array(tensor, seeds.seed, seeds.seeded_max);
  const tool::Tensor bytes{.name = tensor.name,
                           .dtype = RLX_F8E4M3,
                           .dims = {tensor.size_bytes},
                           .size_bytes = tensor.size_bytes};
  return tool::seeded_array(bytes, seeds.seed, seeds.seeded_max);
}

Mismatch difference(const std::string& name, const std::vector<std::byte>& got,
                    const std::vector<std::byte>& wanted) {
  Mismatch mismatch{.output = name, .got = got, .wanted = &wanted};
  for (size_t i = got.size(); i-- > 0;) {
    if (got[i] == wanted[i]) continue;
    ++mismatch.bytes_differing;
    mismatch.first_byte = i;
  }
  return mismatch;
}

}  // namespace

uint64_t FirstRun::hash() const {
  uint64_t hash = 0;
  for (const auto& entry : wanted) {
    for (const std::vector<std::byte>& output : entry)
      hash = XXH3_64bits_withSeed(output.data(), output.size(), hash);
  }
  return hash;
}

Replayer::Replayer(rlx_plan* plan, rlx_device* device, const Seeds& seeds) {
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  check(rlx_plan_get_info(plan, &info));
  has_states_ = info.state_bytes != 0;
  rlx_session* session = nullptr;
  check(rlx_session_create(plan, device, nullptr, &session));
  session_.reset(session);
  for (uint32_t i = 0; i < info.entry_count; ++i) {
    rlx_entry_info named = RLX_INIT(rlx_entry_info);
    check(rlx_plan_get_entry(plan, i, &named));
    Entry entry{.view = tool::describe_entry(plan, named.name)};
    for (const tool::Tensor& input : entry.view.inputs)
      entry.inputs.push_back(seeded(input, seeds));
    for (const tool::Tensor& output : entry.view.outputs)
      entry.largest_bytes = std::max(entry.largest_bytes, output.size_bytes);
    // Resident from here on, whenever the largest output has its turn.
    scratch_.resize(std::max<size_t>(scratch_.size(), entry.largest_bytes));
    entries_.push_back(std::move(entry));
  }
  if (entries_.size() == 1) set_inputs(entries_[0]);
}

void Replayer::set_inputs(const Entry& entry) {
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    const tool::Tensor& wanted = entry.view.inputs[i];
    rlx_tensor tensor = RLX_INIT(rlx_tensor);
    tensor.data = entry.inputs[i].data.data();
    tensor.size_bytes = wanted.size_bytes;
    tensor.dtype = wanted.dtype;
    tensor.rank = static_cast<uint32_t>(wanted.dims.size());
    std::copy(wanted.dims.begin(), wanted.dims.end(), tensor.dims);
    check(rlx_session_set_input(session_.get(), entry.view.index, wanted.name.c_str(), &tensor));
  }
}

// Entries share the memory of their inputs, so each needs its own again.
void Replayer::run(const Entry& entry) {
  if (entries_.size() > 1) set_inputs(entry);
  if (has_states_) check(rlx_session_reset_states(session_.get()));
  check(rlx_session_run(session_.get(), entry.view.index));
}

void Replayer::read(const Entry& entry, size_t output, std::vector<std::byte>& bytes) {
  const tool::Tensor& tensor = entry.view.outputs[output];
  bytes.resize(tensor.size_bytes);
  check(rlx_session_read_output(session_.get(), entry.view.index, tensor.name.c_str(), bytes.data(),
                                bytes.size()));
}

FirstRun Replayer::first_run(uint8_t poison) {
  check(rlx_session_poison_arena(session_.get(), poison));
  FirstRun first;
  for (const Entry& entry : entries_) {
    run(entry);
    auto& outputs = first.wanted.emplace_back(entry.view.outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) read(entry, i, outputs[i]);
  }
  return first;
}

void Replayer::replay(const FirstRun& first, uint64_t compare_bytes,
                      std::vector<Mismatch>& mismatches) {
  const size_t turn = next_entry_;
  next_entry_ = (turn + 1) % entries_.size();
  Entry& entry = entries_[turn];
  run(entry);
  // Never more credit than a turn needs: what small plans leave over is not for later.
  credit_bytes_ =
      std::min(credit_bytes_ + compare_bytes, std::max(compare_bytes, entry.largest_bytes));
  for (size_t i = 0; i < entry.view.outputs.size(); ++i) {
    const size_t output = entry.next_output;
    const tool::Tensor& tensor = entry.view.outputs[output];
    if (tensor.size_bytes > credit_bytes_) return;
    credit_bytes_ -= tensor.size_bytes;
    entry.next_output = (output + 1) % entry.view.outputs.size();
    read(entry, output, scratch_);
    ++outputs_compared_;
    const std::vector<std::byte>& wanted = first.wanted[turn][output];
    if (scratch_ != wanted) mismatches.push_back(difference(tensor.name, scratch_, wanted));
  }
}

uint32_t Replayer::output_count() const {
  size_t count = 0;
  for (const Entry& entry : entries_) count += entry.view.outputs.size();
  return static_cast<uint32_t>(count);
}

}  // namespace rlx::soak
