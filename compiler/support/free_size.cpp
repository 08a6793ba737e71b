// SPDX-License-Identifier: Apache-2.0
// Refusals of free sizes.
#include "compiler/support/free_size.h"

#include <utility>

namespace rlx {
namespace {

Diagnostic refusal(const std::string& what, const Dim& size) {
  return {.code = DiagCode::FreeSize,
          .message = "the size " + to_string(size) + " is free, and " + what + " needs a number",
          .hint =
              "give its symbols values with --dim NAME=N; --entry compiles one entry for each "
              "of several values"};
}

}  // namespace

void report_free_size(Diagnostics& diagnostics, const SourcePlace& place, const std::string& what,
                      const Dim& size) {
  Diagnostic diagnostic = refusal(what, size);
  diagnostic.place = place;
  diagnostics.add(std::move(diagnostic));
}

void report_free_size(Diagnostics& diagnostics, const std::string& op, const std::string& node,
                      const std::string& what, const Dim& size) {
  Diagnostic diagnostic = refusal(what, size);
  diagnostic.op = op;
  diagnostic.node = node;
  diagnostics.add(std::move(diagnostic));
}

}  // namespace rlx
