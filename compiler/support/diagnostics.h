// SPDX-License-Identifier: Apache-2.0
// Diagnostics: what is wrong with the user's model, collected so that all of it is told at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rlx {

enum class DiagCode {
#define RLX_DIAG(name, code) name,
#include "compiler/support/diag_codes.def"
#undef RLX_DIAG
};

enum class Severity { Note, Warning, Error };

// The stable text of a code, e.g. "bad-axis".
std::string_view diag_code_text(DiagCode code);

// A place in the user's files: the file as named by the user and a position in it, a JSON pointer
// ("/nodes/17"), "line:column" or "byte 123". Either may be empty.
struct SourcePlace {
  std::string file;
  std::string position;
};

struct Diagnostic {
  Severity severity = Severity::Error;
  DiagCode code = DiagCode::Syntax;
  SourcePlace place;
  std::string op;       // empty where no node is concerned
  std::string node;     // name of the node
  std::string message;  // what, which, got, wanted
  std::string hint;     // what to do; may be empty
};

// `model.json:/nodes/17: error: softmax "enc.0.probs": axis 4 is out of range for rank 3
// [bad-axis]`, and the hint on its own line as `  hint: ...`.
std::string to_string(const Diagnostic& diagnostic);

// Collects diagnostics in order. Not thread-safe.
class Diagnostics {
 public:
  void add(Diagnostic diagnostic);
  void error(DiagCode code, SourcePlace place, std::string message, std::string hint = {});
  void warning(DiagCode code, SourcePlace place, std::string message, std::string hint = {});

  [[nodiscard]] bool has_errors() const { return error_count_ > 0; }
  [[nodiscard]] size_t error_count() const { return error_count_; }
  [[nodiscard]] const std::vector<Diagnostic>& all() const { return diagnostics_; }
  // All of them, one after another, each ending in a newline.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<Diagnostic> diagnostics_;
  size_t error_count_ = 0;
};

}  // namespace rlx
