// SPDX-License-Identifier: Apache-2.0
// The format of a cache entry: magic, checksum of the rest, then the fields of KernelCode.
#include "compiler/emit/code_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "compiler/support/checked.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "RLXKERN2";  // the digit is the format's version

void append(std::string& bytes, uint64_t value) {
  std::array<char, sizeof(value)> raw{};
  std::memcpy(raw.data(), &value, sizeof(value));
  bytes.append(raw.data(), raw.size());
}

std::string encode(const KernelCode& code) {
  std::string body;
  append(body, static_cast<uint64_t>(code.format));
  append(body, code.architecture);
  append(body, code.workgroup.x);
  append(body, code.workgroup.y);
  append(body, code.workgroup.z);
  append(body, code.shared_bytes);
  append(body, code.dynamic_shared_bytes);
  append(body, code.cluster_x);
  append(body, code.waits_for_predecessors ? 1 : 0);
  append(body, code.features);
  append(body, code.entry_point.size());
  body += code.entry_point;
  append(body, code.bytes.size());
  body.append(reinterpret_cast<const char*>(code.bytes.data()), code.bytes.size());
  std::string entry(kMagic);
  append(entry, XXH3_64bits(body.data(), body.size()));
  return entry + body;
}

// Takes fields off the front of an entry; `good` turns false at the first one that does not fit.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : bytes_(bytes) {}
  std::string_view take(uint64_t size) {
    if (size > bytes_.size()) good_ = false;
    const std::string_view field = bytes_.substr(0, good_ ? size : 0);
    bytes_.remove_prefix(field.size());
    return field;
  }
  uint64_t number() {
    uint64_t value = 0;
    const std::string_view field = take(sizeof(value));
    if (good_) std::memcpy(&value, field.data(), sizeof(value));
    return value;
  }
  uint32_t number32() { return static_cast<uint32_t>(number()); }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
  bool good_ = true;
};

std::optional<KernelCode> decode(std::string_view entry) {
  FieldReader reader(entry);
  if (reader.take(kMagic.size()) != kMagic) return std::nullopt;
  const uint64_t checksum = reader.number();
  if (!reader.good() || XXH3_64bits(reader.rest().data(), reader.rest().size()) != checksum) {
    return std::nullopt;
  }
  KernelCode code;
  code.format = static_cast<CodeFormat>(reader.number());
  code.architecture = reader.number32();
  code.workgroup = {.x = reader.number32(), .y = reader.number32(), .z = reader.number32()};
  code.shared_bytes = reader.number32();
  code.dynamic_shared_bytes = reader.number32();
  code.cluster_x = reader.number32();
  code.waits_for_predecessors = reader.number() != 0;
  code.features = reader.number();
  code.entry_point = std::string(reader.take(reader.number()));
  const std::string_view bytes = reader.take(reader.number());
  if (!reader.good() || !reader.rest().empty()) return std::nullopt;
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  code.bytes.assign(first, first + bytes.size());
  return code;
}

}  // namespace

CodeCache::CodeCache(std::string folder) : folder_(std::move(folder)) {
  std::error_code ignored;  // see the class comment
  fs::create_directories(folder_, ignored);
}

std::string CodeCache::key_of(std::string_view inputs) {
  const XXH128_hash_t hash = XXH3_128bits(inputs.data(), inputs.size());
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text.data();
}

std::string CodeCache::path_of(const std::string& key) const {
  return (fs::path(folder_) / (key + ".rlxk")).string();
}

std::optional<KernelCode> CodeCache::load(const std::string& key) const {
  std::ifstream stream(path_of(key), std::ios::binary);
  if (!stream) return std::nullopt;
  const std::string entry{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  return decode(entry);
}

void CodeCache::store(const std::string& key, const KernelCode& code) const {
  static std::atomic<uint32_t> counter{
      0};  // tells the threads of this process apart; no result depends on it
  const std::string temporary = path_of(key) + ".tmp-" + std::to_string(getpid()) + "-" +
                                std::to_string(counter.fetch_add(1));
  const std::string entry = encode(code);
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return;
  const ssize_t written = write(file, entry.data(), entry.size());
  const bool closed = close(file) == 0;
  const bool whole = closed && std::cmp_equal(written, entry.size());
  if (!whole || std::rename(temporary.c_str(), path_of(key).c_str()) != 0)
    unlink(temporary.c_str());
}

}  // namespace rlx
