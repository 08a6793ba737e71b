// SPDX-License-Identifier: Apache-2.0
// Formatting and collection of diagnostics.
#include "compiler/support/diagnostics.h"

#include <array>
#include <utility>

#include "compiler/support/utf8.h"

namespace rlx {
namespace {

constexpr std::array kCodeTexts = {
#define RLX_DIAG(name, code) std::string_view(code),
#include "compiler/support/diag_codes.def"
#undef RLX_DIAG
};

constexpr std::array kSeverityTexts = {"note", "warning", "error"};

}  // namespace

std::string_view diag_code_text(DiagCode code) {
  return kCodeTexts.at(static_cast<size_t>(code));
}

std::string to_string(const Diagnostic& diagnostic) {
  std::string text;
  if (!diagnostic.place.file.empty()) text += diagnostic.place.file + ":";
  if (!diagnostic.place.position.empty()) text += without_controls(diagnostic.place.position) + ":";
  if (!text.empty()) text += " ";
  text += kSeverityTexts.at(static_cast<size_t>(diagnostic.severity));
  text += ": ";
  if (!diagnostic.op.empty()) text += without_controls(diagnostic.op) + " ";
  if (!diagnostic.node.empty()) text += "\"" + without_controls(diagnostic.node) + "\"";
  if (!diagnostic.op.empty() || !diagnostic.node.empty()) text += ": ";
  // Texts of other compilers have several lines.
  text += without_controls(diagnostic.message, "\n\t");
  text += " [" + std::string(diag_code_text(diagnostic.code)) + "]";
  if (!diagnostic.hint.empty()) text += "\n  hint: " + without_controls(diagnostic.hint, "\n\t");
  return text;
}

void Diagnostics::add(Diagnostic diagnostic) {
  if (diagnostic.severity == Severity::Error) ++error_count_;
  diagnostics_.push_back(std::move(diagnostic));
}

void Diagnostics::error(DiagCode code, SourcePlace place, std::string message, std::string hint) {
  add({.severity = Severity::Error,
       .code = code,
       .place = std::move(place),
       .op = {},
       .node = {},
       .message = std::move(message),
       .hint = std::move(hint)});
}

void Diagnostics::warning(DiagCode code, SourcePlace place, std::string message, std::string hint) {
  add({.severity = Severity::Warning,
       .code = code,
       .place = std::move(place),
       .op = {},
       .node = {},
       .message = std::move(message),
       .hint = std::move(hint)});
}

std::string Diagnostics::text() const {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics_) text += to_string(diagnostic) + "\n";
  return text;
}

}  // namespace rlx
