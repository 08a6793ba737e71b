// SPDX-License-Identifier: Apache-2.0
// The table of architectures. Facts are llama.cpp's (2026-10) unless said.
#include "compiler/import/gguf/architecture.h"

#include <algorithm>

namespace rlx::gguf {
namespace {

constexpr Architecture kArchitectures[] = {
    {.name = "llama", .pairs = RopePairs::Neighbours, .may_have_experts = true},
    {.name = "qwen2"},
    {.name = "qwen3", .qk_norm = QkNorm::Heads},
    {.name = "qwen3moe", .qk_norm = QkNorm::Heads, .may_have_experts = true},
    // Gemma's norms multiply by 1 + gamma, which the file's gammas hold already.
    {.name = "gemma2",
     .norms = NormPlaces::BeforeAndAfter,
     .activation = Activation::GeluTanh,
     .scales_embedding = true,
     .windows = Windows::Periods,
     .window_period = 2,
     .default_window = 4096,
     .scales_local_rope = true,
     .attention_softcap = 50,
     .logit_softcap = 30,
     .wide_scale_layers = 46},
    {.name = "gemma3",
     .qk_norm = QkNorm::Heads,
     .norms = NormPlaces::BeforeAndAfter,
     .activation = Activation::GeluTanh,
     .scales_embedding = true,
     .windows = Windows::Periods,
     .window_period = 6,
     .local_rope_base = 10000,
     .wide_scale_layers = 62},
    // Files give a window; llama.cpp sees all keys, as does this.
    {.name = "phi3", .is_packed = true},
    {.name = "smollm3", .pairs = RopePairs::Neighbours, .rope_free_period = 4},
    {.name = "mistral3",
     .pairs = RopePairs::Neighbours,
     .may_have_experts = true,
     .has_temperature = true},
    {.name = "olmo2",
     .qk_norm = QkNorm::Rows,
     .norms = NormPlaces::After,
     .windows = Windows::Periods,
     .window_period = 4},
    {.name = "granite", .pairs = RopePairs::Neighbours, .has_scales = true},
    {.name = "gpt-oss",
     .activation = Activation::ClampedSilu,
     .may_have_experts = true,
     .ffn_norm = "post_attention_norm",
     .has_sinks = true,
     .windows = Windows::Periods,
     .window_period = 2,
     .scales_local_rope = true},
};

}  // namespace

std::span<const Architecture> all_architectures() {
  return kArchitectures;
}

const Architecture* find_architecture(std::string_view name) {
  const auto found = std::ranges::find(kArchitectures, name, &Architecture::name);
  return found == std::end(kArchitectures) ? nullptr : &*found;
}

}  // namespace rlx::gguf
