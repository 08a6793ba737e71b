// SPDX-License-Identifier: Apache-2.0
// Refusals of free sizes where a number is needed.
#pragma once

#include <optional>
#include <string>
#include <type_traits>

#include "compiler/support/check.h"
#include "compiler/support/diagnostics.h"
#include "compiler/support/dim.h"

namespace rlx {

// "the size seq * 4 is free, and WHAT needs a number", and what to do about it.
void report_free_size(Diagnostics& diagnostics, const SourcePlace& place, const std::string& what,
                      const Dim& size);
// The same of a node, by an op and name as Diagnostic has them.
void report_free_size(Diagnostics& diagnostics, const std::string& op, const std::string& node,
                      const std::string& what, const Dim& size);

// Does work() and gives the first free size that it read as a number: what it made holds for the
// largest value of the symbols alone. Such a number beside the size itself is a contradiction on
// which a check may fail; that is no mistake of ours then.
template <typename Work>
std::optional<Dim> free_size_read_by(const Work& work) {
  std::optional<Dim> heard;
  const DimWatch watch([&heard](const Dim& size) {
    if (!heard) heard = size;
  });
  try {
    work();
  } catch (const InternalError&) {
    if (!heard) throw;
  }
  return heard;
}

// What decide() answers, or none (false, nullopt) where it needed a number of a free size: it would
// hold for the largest value of the symbols alone.
template <typename Decide>
std::invoke_result_t<Decide> decided_at_all_sizes(const Decide& decide) {
  std::invoke_result_t<Decide> answer{};
  if (free_size_read_by([&] { answer = decide(); })) return {};
  return answer;
}

}  // namespace rlx
