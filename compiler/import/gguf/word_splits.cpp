// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/gguf/word_splits.h"

#include <algorithm>

namespace rlx::gguf {
namespace {

using Split = fb::WordSplit;

// Names and what they stand for: llama.cpp's (2026-10); form C: Hugging Face's tokenizers.
constexpr WordSplitter kSplitters[] = {
    {.name = "gpt-2", .split = Split::Gpt2},
    {.name = "phi-2", .split = Split::Gpt2},
    {.name = "mpt", .split = Split::Gpt2},
    {.name = "olmo", .split = Split::Gpt2},
    {.name = "exaone4", .split = Split::Gpt2},
    {.name = "modern-bert", .split = Split::Gpt2},
    {.name = "smollm", .split = Split::DigitsGpt2},
    {.name = "starcoder", .split = Split::DigitsGpt2},
    {.name = "refact", .split = Split::DigitsGpt2},
    {.name = "command-r", .split = Split::DigitsGpt2},
    {.name = "codeshell", .split = Split::DigitsGpt2},
    {.name = "exaone", .split = Split::DigitsGpt2},
    {.name = "minerva-7b", .split = Split::DigitsGpt2},
    {.name = "llama-bpe", .split = Split::Llama3, .ignores_merges = true, .adds_begin = true},
    {.name = "llama3", .split = Split::Llama3, .ignores_merges = true, .adds_begin = true},
    {.name = "llama-v3", .split = Split::Llama3, .ignores_merges = true, .adds_begin = true},
    {.name = "falcon3", .split = Split::Llama3, .ignores_merges = true, .adds_begin = true},
    {.name = "pixtral", .split = Split::Llama3, .ignores_merges = true, .adds_begin = true},
    {.name = "dbrx", .split = Split::Llama3},
    {.name = "smaug-bpe", .split = Split::Llama3},
    {.name = "glm4", .split = Split::Llama3},
    {.name = "chatglm-bpe", .split = Split::Llama3},
    {.name = "qwen2", .split = Split::Qwen2, .composes = true},
    {.name = "deepseek-r1-qwen", .split = Split::Qwen2},
    {.name = "stablelm2", .split = Split::Qwen2},
    {.name = "hunyuan", .split = Split::Qwen2},
    {.name = "gpt-4o", .split = Split::Gpt4o},
    {.name = "llama4", .split = Split::Gpt4o},
    {.name = "tekken", .split = Split::Tekken, .ignores_merges = true, .adds_begin = true},
    {.name = "deepseek-v3", .split = Split::DeepSeek3},
    {.name = "hunyuan-dense", .split = Split::DeepSeek3},
    {.name = "default", .split = Split::Default},
};

}  // namespace

const WordSplitter* find_word_splitter(std::string_view name) {
  const auto found = std::ranges::find(kSplitters, name, &WordSplitter::name);
  return found == std::end(kSplitters) ? nullptr : &*found;
}

}  // namespace rlx::gguf
