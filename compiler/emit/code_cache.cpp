// SPDX-License-Identifier: Apache-2.0
// The format of a cache entry: magic, checksum of the rest, the key, then the fields of KernelCode.
#include "compiler/emit/code_cache.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "compiler/version.h"
#include "runtime/base/cache_folder.h"
#include "runtime/base/input_file.h"
#include "runtime/base/output_file.h"
#include "runtime/base/sha256.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "RLXKERN5";  // the digit is the format's version
// The largest kernel takes some 200 KB; what is larger is no entry.
constexpr uint64_t kMaxEntryBytes = uint64_t{64} << 20;

void append(std::string& bytes, uint64_t value) {
  std::array<char, sizeof(value)> raw{};
  std::memcpy(raw.data(), &value, sizeof(value));
  bytes.append(raw.data(), raw.size());
}

std::string encode(const std::string& key, const KernelCode& code) {
  std::string body = key;
  append(body, static_cast<uint64_t>(code.format));
  append(body, code.architecture);
  append(body, code.workgroup.x);
  append(body, code.workgroup.y);
  append(body, code.workgroup.z);
  append(body, code.shared_bytes);
  append(body, code.dynamic_shared_bytes);
  append(body, code.cluster_x);
  append(body, code.waits_for_predecessors ? 1 : 0);
  append(body, code.runs_together ? 1 : 0);
  append(body, code.features);
  append(body, code.subgroup_size);
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

std::optional<KernelCode> decode(std::string_view entry, std::string_view key) {
  FieldReader reader(entry);
  if (reader.take(kMagic.size()) != kMagic) return std::nullopt;
  const uint64_t checksum = reader.number();
  if (!reader.good() || XXH3_64bits(reader.rest().data(), reader.rest().size()) != checksum ||
      reader.take(key.size()) != key) {
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
  code.runs_together = reader.number() != 0;
  code.features = reader.number();
  code.subgroup_size = reader.number32();
  code.entry_point = std::string(reader.take(reader.number()));
  const std::string_view bytes = reader.take(reader.number());
  if (!reader.good() || !reader.rest().empty()) return std::nullopt;
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  code.bytes.assign(first, first + bytes.size());
  return code;
}

}  // namespace

std::optional<CodeCache> CodeCache::open(const std::string& folder, CacheTrust trust,
                                         Diagnostics& diagnostics) {
  const FolderOwner owner = make_cache_folder(
      folder, trust == CacheTrust::OnlyOwn ? FolderAccess::OwnerAlone : FolderAccess::AsUsual);
  if (owner == FolderOwner::None) return std::nullopt;
  if (trust == CacheTrust::Anyone || owner == FolderOwner::Own) return CodeCache(folder, trust);
  diagnostics.warning(
      DiagCode::FileWrite, {.file = folder, .position = {}},
      "the kernel cache is not used: others may write to its folder, and so to what plans run",
      "chmod go-w it where it is yours, or name it with --cache if you trust them");
  return std::nullopt;
}

std::string CodeCache::key_of(std::string_view inputs) {
  Sha256 hash;
  const std::string version = std::string(kProducer) + "\n";
  hash.update(std::as_bytes(std::span(version)));
  hash.update(std::as_bytes(std::span(inputs)));
  return hex_text(hash.finish());
}

std::string CodeCache::path_of(const std::string& key) const {
  return (fs::path(folder_) / (key + ".rlxk")).string();
}

std::optional<KernelCode> CodeCache::load(const std::string& key) const {
  InputFile file;
  const InputOptions options{.follow_links = false, .only_own = trust_ == CacheTrust::OnlyOwn};
  if (!InputFile::open(path_of(key), options, file).ok() || file.size_bytes() > kMaxEntryBytes)
    return std::nullopt;
  std::string entry(file.size_bytes(), '\0');
  if (!file.read(0, std::as_writable_bytes(std::span(entry))).ok()) return std::nullopt;
  return decode(entry, key);
}

void CodeCache::store(const std::string& key, const KernelCode& code) const {
  const std::string entry = encode(key, code);
  // An entry that another process is writing is as good as ours.
  static_cast<void>(write_file(path_of(key), std::as_bytes(std::span(entry)), OutputUse::Cache));
}

}  // namespace rlx
