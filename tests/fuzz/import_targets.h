// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of the importer: one function per format, from the bytes of a file to the neutral
// passes; a plan's text section, from its bytes to tokens and back; and chat templates, from their
// text to what they render. Each ends the process where
// the importer breaks one of its promises, and returns otherwise, be the file good or refused.
#pragma once

#include <span>
#include <string_view>

#include "compiler/import/import.h"

namespace rlx::fuzz {

void fuzz_json(const GraphBytes& input);
void fuzz_rlxg(const GraphBytes& input);
void fuzz_onnx(const GraphBytes& input);
void fuzz_gguf(const GraphBytes& input);
void fuzz_safetensors(const GraphBytes& input);
void fuzz_npy(const GraphBytes& input);
void fuzz_text(const GraphBytes& input);
void fuzz_template(const GraphBytes& input);

struct Target {
  std::string_view format;
  void (*run)(const GraphBytes&);
};
std::span<const Target> all_targets();

// Runs `target` on a copy of exactly these bytes, so that a read behind them is seen.
void run_on_copy(void (*target)(const GraphBytes&), std::span<const std::byte> bytes);

}  // namespace rlx::fuzz
