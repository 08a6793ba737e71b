// SPDX-License-Identifier: Apache-2.0
// What turns a fixture plan into another.
#include "tests/runtime/verify_fixture.h"
#include "tests/support/cubin.h"

namespace rlx::test {

void add_cuda(PlanSpec& spec) {
  spec.cuda = {
      .present = 1, .ptx_architecture = 80, .minimum_driver = 12000, .architecture_count = 1};
  spec.cuda.architectures[0] = 90;
  for (SpecKernel& kernel : spec.kernels) {
    kernel.variants.push_back({.target = fb::TargetKind::Cuda,
                               .format = fb::CodeFormat::Cubin,
                               .architecture = 90,
                               .code = make_cubin({.params_bytes = kernel.params_bytes})});
    kernel.variants.push_back({.target = fb::TargetKind::Cuda,
                               .format = fb::CodeFormat::Ptx,
                               .architecture = 80,
                               .code = make_ptx("sm_80", "main")});
  }
}

}  // namespace rlx::test
