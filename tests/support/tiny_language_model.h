// SPDX-License-Identifier: Apache-2.0
// A decoder of two layers with the entries of a language model, random weights and a token per
// letter: the smallest plan for which the loop, rlxrun and the examples do all that they do for a
// large one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rlx::test {

inline constexpr uint32_t kTinyContext = 96;
inline constexpr uint32_t kTinyVocabulary = 61;
inline constexpr uint32_t kTinyTokens = 60;  // the last row of logits is padding
// Tokens 0 and 1: what begins and ends a message. Each ends a reply. Then "a" to "z", "A" to "Z",
// " ", "\n", ".", "?", "0", "1".
inline constexpr int32_t kTinyLetterA = 2;

// As a JSON graph over the symbol `tokens`: entry "main" gives the logits of one row, "verify" the
// next token behind each.
std::string tiny_language_graph();

// Its text section: a template that puts each message between tokens 0 and 1.
std::vector<std::byte> tiny_text();

enum class TinyText : uint8_t { Without, With };

// The plan for the devices that are present: entry "decode" for 1 token, "prefill_8" for 8, and
// where drafts are to be verified "verify_4" for the token before them and 3 of them.
std::vector<std::byte> tiny_language_plan(std::span<const uint32_t> tokens,
                                          TinyText text = TinyText::Without,
                                          std::optional<uint32_t> verify = {});

}  // namespace rlx::test
