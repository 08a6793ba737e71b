// SPDX-License-Identifier: Apache-2.0
// Text sections for tests.
#include "tests/support/text_fixture.h"

namespace rlx::test {

uint32_t TextSpec::add(std::string_view bytes, fb::TokenKind token_kind, float score) {
  tokens.push_back({.bytes = std::string(bytes), .kind = token_kind, .score = score});
  return static_cast<uint32_t>(tokens.size() - 1);
}

uint32_t TextSpec::merge(uint32_t left, uint32_t right) {
  const uint32_t joined = add(tokens[left].bytes + tokens[right].bytes);
  merges.emplace_back(left, right, joined);
  return joined;
}

TextSpec byte_text() {
  TextSpec spec;
  for (int byte = 0; byte < 256; ++byte) spec.add(std::string(1, static_cast<char>(byte)));
  return spec;
}

TextSpec small_text() {
  TextSpec spec = byte_text();
  spec.begin = static_cast<int32_t>(spec.add("<|begin|>", fb::TokenKind::Control));
  spec.end = static_cast<int32_t>(spec.add("<|end|>", fb::TokenKind::Control));
  spec.add("<tool>", fb::TokenKind::UserDefined);
  const uint32_t th = spec.merge('t', 'h');
  const uint32_t the = spec.merge(th, 'e');
  spec.merge(' ', the);
  spec.stop_ids = {static_cast<uint32_t>(spec.end)};
  spec.context_tokens = 64;
  return spec;
}

std::vector<std::byte> serialise(const TextSpec& spec) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<uint8_t> bytes;
  std::vector<uint32_t> ends;
  std::vector<fb::TokenKind> kinds;
  std::vector<float> scores;
  const bool has_scores = spec.kind == fb::TokenizerKind::Unigram ||
                          (spec.kind == fb::TokenizerKind::Scores && spec.merges.empty());
  for (const SpecToken& token : spec.tokens) {
    bytes.insert(bytes.end(), token.bytes.begin(), token.bytes.end());
    ends.push_back(static_cast<uint32_t>(bytes.size()));
    kinds.push_back(token.kind);
    if (has_scores) scores.push_back(token.score);
  }
  std::vector<flatbuffers::Offset<fb::ChatTemplate>> templates;
  for (const SpecTemplate& text : spec.templates)
    templates.push_back(
        fb::CreateChatTemplateDirect(builder, text.name.c_str(), text.source.c_str()));
  const std::vector<uint8_t> charsmap(spec.charsmap.begin(), spec.charsmap.end());
  builder.Finish(fb::CreateTextDirect(
      builder, spec.kind, spec.split, &bytes, &ends, &kinds, &scores, &spec.merges, &charsmap,
      spec.ignore_merges, spec.nfc, spec.add_space_prefix, spec.remove_extra_spaces, spec.add_begin,
      spec.add_end, spec.begin, spec.end, spec.unknown, &spec.stop_ids, &templates,
      spec.context_tokens, spec.space_prefix_once, spec.space_prefix_at_start,
      spec.white_space_is_space, &spec.strips_left, &spec.strips_right, spec.cleans_text,
      spec.separates_ideographs, spec.strips_accents, spec.lower_case, spec.most_word_characters,
      spec.joins_punctuation));
  const auto* begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {begin, begin + builder.GetSize()};
}

}  // namespace rlx::test
