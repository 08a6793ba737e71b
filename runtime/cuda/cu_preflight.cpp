// SPDX-License-Identifier: Apache-2.0
// What a plan's header asks of a CUDA device.
#include "runtime/cuda/cu_preflight.h"

#include <algorithm>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/device/device_names.h"
#include "runtime/plan/target_row.h"

namespace rlx::cuda {
namespace {

bool has_code_for(const PlanHeader& header, uint32_t architecture) {
  const std::vector<TargetCode> codes = target_row(fb::TargetKind::Cuda).code(header);
  return std::ranges::any_of(codes, [&](const TargetCode& code) {
    return runs_on(code.format, code.architecture, architecture);
  });
}

}  // namespace

Status check_target(const PlanHeader& header, const DeviceInfo& device) {
  const PlanCudaTarget& needs = header.cuda;
  if (!has_code_for(header, device.architecture)) {
    return unsuitable(text_of("the plan has code for ", architectures_text(needs), "; ",
                              device_text(device), " is sm_", device.architecture,
                              "; compile the model with --arch sm_", device.architecture));
  }
  if (needs.minimum_driver > device.api_version) {
    return unsuitable(text_of("the plan needs a driver for CUDA ", needs.minimum_driver / 1000, ".",
                              needs.minimum_driver % 1000 / 10, ", ", device_text(device), " has ",
                              device.driver));
  }
  return {};
}

bool runs_on(fb::CodeFormat format, uint32_t code_architecture, uint32_t architecture) {
  if (code_architecture > architecture) return false;
  if (format == fb::CodeFormat::Ptx) return true;
  return format == fb::CodeFormat::Cubin && code_architecture / 10 == architecture / 10;
}

std::string architectures_text(const PlanCudaTarget& needs) {
  std::string list;
  for (uint32_t i = 0; i < needs.architecture_count; ++i)
    list += text_of(list.empty() ? "" : ", ", "sm_", needs.architectures[i]);
  if (needs.ptx_architecture != 0)
    list += text_of(list.empty() ? "" : ", ", "PTX for sm_", needs.ptx_architecture);
  return list;
}

}  // namespace rlx::cuda
