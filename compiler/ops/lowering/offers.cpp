// SPDX-License-Identifier: Apache-2.0
// What all tables of offers share.
#include "compiler/ops/lowering/offers.h"

#include <algorithm>
#include <iterator>

namespace rlx {
namespace {

bool is_of(const Program& program, const Step& step, const std::optional<KernelId>& kernel) {
  return kernel && step.kernel && program.kernels.at(index_of(*step.kernel)).kernel == *kernel;
}

}  // namespace

double bound_microseconds(const DeviceModel& device, const StepWork& work, double products) {
  const double computing = static_cast<double>(work.flops) / 2 / products / device.multiprocessors;
  const double moving = static_cast<double>(work.bytes) / device.memory_gigabytes_per_second * 1e-3;
  return std::max(computing, moving) + device.step_microseconds;
}

double thread_bound_microseconds(const DeviceModel& device, const StepWork& work) {
  return bound_microseconds(device, work, device.thread_tiles.products);
}

double copy_microseconds(const DeviceModel& device, const TensorType& from, const TensorType& to) {
  const auto bytes = static_cast<uint64_t>((byte_size(from) + byte_size(to)).bound());
  return device.step_microseconds + thread_bound_microseconds(device, {.bytes = bytes, .flops = 0});
}

std::string offer_name(const std::optional<KernelId>& kernel, std::string_view form) {
  std::string name;
  if (kernel) name = kernel_row(*kernel).name;
  if (kernel && !form.empty()) name += ' ';
  return name.append(form);
}

std::string offer_exclusion(const OfferContext& at, const std::optional<KernelId>& kernel,
                            std::string_view form) {
  if (kernel && !at.target().offers(*kernel)) return "the target has no such kernel";
  return at.is_left_out(offer_name(kernel, form)) ? "left out by --without" : "";
}

bool fail_for_offers(LowerContext& ctx, const std::vector<OfferNote>& notes) {
  std::string text = "no kernel takes it";
  const char* separator = ": ";
  bool is_for_size = false;
  for (const OfferNote& note : notes) {
    text += separator + note.kernel + " (" + note.refusal + ")";
    separator = ", ";
    is_for_size = is_for_size || note.refusal == kFreeSizeRefusal;
  }
  if (!is_for_size) return ctx.fail(DiagCode::UnsupportedOp, text);
  return ctx.fail(DiagCode::FreeSize, text,
                  "fix the size, as in --dim size=VALUE, or make an entry for each");
}

void note_offers(Program& program, size_t first_step, const std::optional<KernelId>& kernel,
                 std::vector<OfferNote> notes) {
  const auto begin = program.steps.begin() + static_cast<std::ptrdiff_t>(first_step);
  if (begin == program.steps.end()) return;
  auto step = std::find_if(begin, program.steps.end(),
                           [&](const Step& each) { return is_of(program, each, kernel); });
  // The choice that another table made for this one stands behind it.
  if (step == program.steps.end()) {
    step = std::find_if(begin, program.steps.end(),
                        [](const Step& each) { return !each.offers.empty(); });
  }
  if (step == program.steps.end()) step = begin;
  step->offers.insert(step->offers.begin(), std::make_move_iterator(notes.begin()),
                      std::make_move_iterator(notes.end()));
}

}  // namespace rlx
