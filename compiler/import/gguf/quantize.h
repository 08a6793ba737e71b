// SPDX-License-Identifier: Apache-2.0
// GGUF models with their matrices in other types, mostly smaller ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/gguf/model_parts.h"
#include "compiler/import/import.h"
#include "compiler/support/diagnostics.h"
#include "compiler/support/dtype.h"

namespace rlx::gguf {

// Which type a matrix gets: of the first rule in `named` whose part its name contains, else, and
// where that type's blocks do not divide its rows, the first of `types` whose blocks do.
struct QuantizeRules {
  struct Named {
    std::string part;
    DType type = DType::f32;
  };
  std::vector<DType> types;  // one at least
  std::vector<Named> named;
};
// "q4_k,q8_0,output=q6_k,ffn_down=q5_k": types in order, and PART=TYPE. Wrong ones are reported.
std::optional<QuantizeRules> parse_quantize_rules(std::string_view text, Diagnostics& diagnostics);

// What becomes of a tensor.
struct PlannedTensor {
  const Tensor* from = nullptr;
  DType type = DType::f32;    // what it gets
  std::string_view why_kept;  // empty: it is written in `type`
  uint64_t offset_bytes = 0;  // in the new file
  uint64_t size_bytes = 0;
};

// A model that is to be written anew, all of its files as one. Tensors keep their order, keys stay
// as they are but those about types and files.
class Quantization {
 public:
  Quantization(Quantization&&) = default;  // a copy's tensors would point into the original
  Quantization& operator=(Quantization&&) = default;
  Quantization(const Quantization&) = delete;
  Quantization& operator=(const Quantization&) = delete;
  ~Quantization() = default;

  // nullopt after an error: no GGUF file, a rule that no tensor obeys, or nothing to do.
  static std::optional<Quantization> plan(const GraphBytes& bytes, const std::string& path,
                                          const QuantizeRules& rules, Diagnostics& diagnostics);

  [[nodiscard]] std::span<const PlannedTensor> tensors() const { return tensors_; }
  // Everything in front of the tensors.
  [[nodiscard]] const std::string& header() const { return header_; }
  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }

  // Takes bytes at their offset in the new file; false stops.
  using Sink = std::function<bool(uint64_t offset_bytes, std::span<const std::byte> bytes)>;
  // Gives all tensors' bytes, in order, made by `threads` threads: the bytes are the same for any
  // number. False after an error (numbers that are not finite, or too large for the type's scales)
  // or when the sink stopped.
  bool write(const Sink& sink, uint32_t threads, Diagnostics& diagnostics) const;

 private:
  Quantization() = default;
  void lay_out(const QuantizeRules& rules);

  std::vector<ModelPart> parts_;
  std::vector<PlannedTensor> tensors_;
  std::string header_;
  uint64_t size_bytes_ = 0;
};

}  // namespace rlx::gguf
