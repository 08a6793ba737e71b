// SPDX-License-Identifier: Apache-2.0
// What a kernel's record says about its params: its pointers, and its words that are none.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "compiler/dispatch/program.h"
#include "compiler/emit/plan_content.h"
#include "schema/plan_generated.h"

namespace rlx {

// What a kernel does with one pointer, over all steps that run it.
struct KernelPointer {
  uint32_t alignment_bytes = 1;
  uint64_t min_bytes = std::numeric_limits<uint64_t>::max();
  uint32_t element_bytes = 1;
  uint64_t addend_bytes = 0;  // behind the begin of its range
  AccessMode mode = AccessMode::Read;
};
using KernelPointers = std::map<uint32_t, KernelPointer>;  // by position in the params

// Of one step. All steps that run the kernel use a pointer in one way.
void add_access(KernelPointers& pointers, const Step& step, const Access& access);

// What a kernel's record says about the words of its params that are no pointers.
struct KernelWords {
  std::vector<fb::ParamsCount> counts;
  std::vector<uint32_t> plain;
};

// A count whose pointers the instance does not have bounds nothing. Where one bounds a pointer, it
// alone says how many bytes the kernel needs: that differs from step to step.
KernelWords words_of(const KernelRow& row, KernelPointers& pointers);

// The words of free sizes are plain ones; how far the kernel goes by them, its reaches say.
void add_size_words(const Specialization& specialization, KernelWords& words);

}  // namespace rlx
