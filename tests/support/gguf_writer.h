// SPDX-License-Identifier: Apache-2.0
// GGUF files by hand, good ones and others.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace rlx::test {

// A number's bytes as they stand in a file.
template <typename T>
std::string raw_value(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}
inline std::string gguf_text(const std::string& text) {
  return raw_value<uint64_t>(text.size()) + text;
}

class GgufWriter {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;  // of what is written; a key may say otherwise

  // A key of that type number, with the bytes of its value.
  GgufWriter& raw_key(const std::string& name, uint32_t type, const std::string& value) {
    keys_ += gguf_text(name) + raw_value(type) + value;
    ++key_count_;
    return *this;
  }
  GgufWriter& key(const std::string& name, uint32_t value) {
    return raw_key(name, 4, raw_value(value));
  }
  GgufWriter& key(const std::string& name, float value) {
    return raw_key(name, 6, raw_value(value));
  }
  GgufWriter& key(const std::string& name, const std::string& value) {
    return raw_key(name, 8, gguf_text(value));
  }
  GgufWriter& key(const std::string& name, const std::vector<std::string>& items) {
    std::string value = raw_value<uint32_t>(8) + raw_value<uint64_t>(items.size());
    for (const std::string& item : items) value += gguf_text(item);
    return raw_key(name, 9, value);
  }

  // A record alone: dims as the file has them, the innermost first.
  GgufWriter& record(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                     uint64_t offset) {
    records_ += gguf_text(name) + raw_value(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) records_ += raw_value(dim);
    records_ += raw_value(type) + raw_value(offset);
    ++tensor_count_;
    return *this;
  }
  // A tensor with its bytes behind those before it.
  GgufWriter& tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                     const std::string& bytes) {
    pad(data_);
    record(name, dims, type, data_.size());
    data_ += bytes;
    return *this;
  }
  // f32 zeros.
  GgufWriter& zeros(const std::string& name, const std::vector<uint64_t>& dims) {
    size_t count = 4;
    for (const uint64_t dim : dims) count *= dim;
    return tensor(name, dims, 0, std::string(count, '\0'));
  }

  [[nodiscard]] std::string bytes() const {
    std::string out = "GGUF" + raw_value(version) + raw_value(tensor_count_) +
                      raw_value(key_count_) + keys_ + records_;
    if (tensor_count_ > 0) pad(out);
    return out + data_;
  }

 private:
  void pad(std::string& bytes) const {
    bytes.append((alignment - bytes.size() % alignment) % alignment, '\0');
  }

  std::string keys_;
  std::string records_;
  std::string data_;
  uint64_t key_count_ = 0;
  uint64_t tensor_count_ = 0;
};

// A llama of one layer: 8 wide, two heads, 12 tokens, all zeros but what a test adds.
inline void add_small_llama_keys(GgufWriter& writer, const std::string& architecture = "llama") {
  writer.key("general.architecture", architecture);
  const auto own = [&](const std::string& name) { return architecture + "." + name; };
  writer.key(own("block_count"), 1u)
      .key(own("embedding_length"), 8u)
      .key(own("attention.head_count"), 2u)
      .key(own("context_length"), 64u)
      .key(own("attention.layer_norm_rms_epsilon"), 1e-5f);
}
inline void add_small_llama_tensors(GgufWriter& writer) {
  writer.zeros("token_embd.weight", {8, 12}).zeros("output_norm.weight", {8});
  for (const char* name : {"attn_norm", "ffn_norm"})
    writer.zeros(std::string("blk.0.") + name + ".weight", {8});
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
    writer.zeros(std::string("blk.0.") + name + ".weight", {8, 8});
  writer.zeros("blk.0.ffn_gate.weight", {8, 16})
      .zeros("blk.0.ffn_up.weight", {8, 16})
      .zeros("blk.0.ffn_down.weight", {16, 8});
}
inline GgufWriter small_llama() {
  GgufWriter writer;
  add_small_llama_keys(writer);
  add_small_llama_tensors(writer);
  return writer;
}

}  // namespace rlx::test
