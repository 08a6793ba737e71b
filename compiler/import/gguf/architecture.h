// SPDX-License-Identifier: Apache-2.0
// What tells one architecture of language models from another: a row each, over one builder.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace rlx::gguf {

// Which elements of a head rotate together: 2i with 2i + 1, or i with i + half. Files of the first
// kind hold rows of q and k that their converter put into that order.
enum class RopePairs : uint8_t { Neighbours, Halves };
// rms_norm of q and k before they rotate: of each head, or of whole rows.
enum class QkNorm : uint8_t { None, Heads, Rows };
// Where the norms of a block stand: before it, or behind it before the residual, or both.
enum class NormPlaces : uint8_t { Before, BeforeAndAfter, After };
// Of the gate, which the other projection multiplies. ClampedSilu: both are clamped, silu's slope
// is another, and 1 is added to the other projection (gpt-oss).
enum class Activation : uint8_t { Silu, GeluTanh, ClampedSilu };
// Layers whose queries see a window of keys alone: none; or in periods, of which the last layer
// sees all. A file that gives a window to an architecture of None is taken without.
enum class Windows : uint8_t { None, Periods };

struct Architecture {
  std::string_view name;  // general.architecture
  RopePairs pairs = RopePairs::Halves;
  QkNorm qk_norm = QkNorm::None;
  NormPlaces norms = NormPlaces::Before;
  Activation activation = Activation::Silu;
  bool is_packed = false;                  // q, k, v in one tensor; gate and up in another
  bool may_have_experts = false;           // softmax over all, the best k of them, renormalised
  std::string_view ffn_norm = "ffn_norm";  // the norm before the second block
  double norm_offset = 0;                  // added to gammas that do not hold it already
  bool has_sinks = false;                  // each head's softmax has one score more
  bool scales_embedding = false;           // by the root of its width
  bool has_scales = false;                 // embedding_scale, residual_scale and logit_scale
  bool has_temperature = false;            // q grows with the logarithm of its position
  Windows windows = Windows::None;
  int64_t window_period = 0;   // where the file gives none
  int64_t default_window = 0;  // where the file gives none; 0: no window then
  double local_rope_base = 0;  // of layers with windows, where the file gives none; 0: as the rest
  bool scales_local_rope = false;  // layers with windows take the file's scaling too
  int64_t rope_free_period = 0;    // the last layer of each period has no rope; 0: all have
  double attention_softcap = 0;    // where the file gives none; 0: none
  double logit_softcap = 0;
  int64_t wide_scale_layers = 0;  // a model of so many layers scales by 1/sqrt(width / heads)
};

std::span<const Architecture> all_architectures();
// nullptr where there is none of that name.
const Architecture* find_architecture(std::string_view name);

}  // namespace rlx::gguf
