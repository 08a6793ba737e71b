// SPDX-License-Identifier: Apache-2.0
// Folders of kernel sources and programs of one kernel, for the tests of emit.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/dispatch/program.h"
#include "compiler/emit/compile_kernels.h"
#include "tests/support/temporary_folder.h"

namespace rlx::test {

// A kernel of either language that uses CopyParams (p.x, p.y) around `body`.
inline std::string kernel_text(const std::string& body, const std::string& globals = "") {
  return "#include \"lib/prelude.inc\"\n"
         "#include \"lib/storage.inc\"\n"
         "RLX_PARAMS(CopyParams);\n" +
         globals + "\nRLX_MAIN {\n" + body + "\n}\n";
}

// y[i] = convert(x[i]) for RLX_COUNT elements, with storage types RLX_X and RLX_Y.
inline std::string convert_body() {
  return "  const rlx_u64 i = rlx_linear_group * RLX_BLOCK_SIZE + rlx_local_index;\n"
         "  if (i >= RLX_COUNT) return;\n"
         "  RLX_CAT(rlx_store_, RLX_Y)(p.y, rlx_i64(i),\n"
         "      RLX_CAT(rlx_t_, RLX_Y)(RLX_CAT(rlx_load_, RLX_X)(p.x, rlx_i64(i))));";
}

inline Specialization specialization(std::map<std::string, std::string> defines = {}) {
  return {.kernel = KernelId::pad,
          .defines = std::move(defines),
          .generated = {},
          .workgroup = {.x = 64, .y = 1, .z = 1}};
}

// Kernels for some targets.
inline KernelSet kernel_set(const std::vector<Specialization>& specializations,
                            TargetSet targets = TargetSet::Vulkan) {
  KernelSet set;
  set.targets = targets;
  for (const Specialization& each : specializations) {
    set.kernels.push_back({.specialization = each,
                           .nodes = {"pad \"n" + std::to_string(set.kernels.size()) + "\""},
                           .targets = targets});
  }
  return set;
}

}  // namespace rlx::test
