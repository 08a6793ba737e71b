// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/impossible_branch.h"

#include <algorithm>
#include <limits>

#include "compiler/import/names.h"
#include "compiler/support/check.h"
#include "compiler/support/utf8.h"

namespace rlx {
namespace {

constexpr size_t kMostReasonBytes = 384;

bool is_of_shapes(DiagCode code) {
  return code == DiagCode::BadShape || code == DiagCode::BadRank || code == DiagCode::BadAxis;
}

const Diagnostic* first_error(const Diagnostics& faults) {
  const auto found = std::ranges::find(faults.all(), Severity::Error, &Diagnostic::severity);
  return found == faults.all().end() ? nullptr : &*found;
}

// The text, or its begin at a whole character.
std::string clipped(const std::string& text) {
  if (text.size() <= kMostReasonBytes) return text;
  size_t kept = 0;
  while (true) {
    const size_t bytes = utf8_character_bytes(std::string_view(text).substr(kept));
    if (bytes == 0 || kept + bytes > kMostReasonBytes) return text.substr(0, kept) + "...";
    kept += bytes;
  }
}

}  // namespace

bool is_of_shapes(const Diagnostics& faults) {
  return std::ranges::all_of(faults.all(), [](const Diagnostic& fault) {
    return fault.severity != Severity::Error || is_of_shapes(fault.code);
  });
}

std::string leave_out(const ImpossibleBranch& branch, const Diagnostics& faults,
                      Diagnostics& diagnostics) {
  const Diagnostic* first = first_error(faults);
  RLX_CHECK(first != nullptr, "a branch that can be is left out");
  std::string why = first->op;
  if (!first->node.empty()) why += " " + in_quotes(first->node);
  const std::string what = branch.has_free_sizes ? "shapes do not fit" : first->message;
  why = without_controls(clipped(why + (why.empty() ? "" : ": ") + what));
  diagnostics.add({.severity = Severity::Warning,
                   .code = first->code,
                   .place = branch.place,
                   .op = branch.op,
                   .node = branch.node,
                   .message = "branch " + in_quotes(branch.name) +
                              " cannot be at these sizes and is left out: " + why,
                   .hint = "a run that takes it fails, and says so"});
  return branch.op + " " + in_quotes(branch.node) + " takes branch " + in_quotes(branch.name) +
         ", which cannot be at these sizes: " + why;
}

Tensor impossible_element(DType dtype) {
  Tensor element = Tensor::zeros({dtype, {}});
  if (element.is_float()) element.floats = {std::numeric_limits<double>::quiet_NaN()};
  return element;
}

}  // namespace rlx
