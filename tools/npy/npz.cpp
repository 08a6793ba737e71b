// SPDX-License-Identifier: Apache-2.0
// .npz files: just as much of the zip format as NumPy and its kin write.
#define ZLIB_CONST
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "tools/npy/file.h"
#include "tools/npy/npy.h"

namespace rlx::npy {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kEnd64LocatorSignature = 0x07064b50;
constexpr uint32_t kCentralSignature = 0x02014b50;
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr size_t kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kEnd64LocatorBytes = 20;
constexpr size_t kCentralBytes = 46;
constexpr size_t kLocalBytes = 30;
constexpr uint64_t kMaxCommentBytes = 65535;
// Deflate packs at most 1032 bytes into one: a larger claim is a lie, found before memory is asked
// for.
constexpr uint64_t kMaxRatio = 1032;

struct Member {
  std::string name;
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t crc = 0;
  uint64_t packed_bytes = 0;
  uint64_t size_bytes = 0;
  uint64_t local_offset = 0;
};

struct Directory {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  uint64_t count = 0;
};

// Little-endian fields of a file; ranges are checked by has() before they are read.
class Fields {
 public:
  explicit Fields(std::span<const std::byte> bytes) : bytes_(bytes) {}
  [[nodiscard]] bool has(uint64_t offset, uint64_t count) const {
    return count <= bytes_.size() && offset <= bytes_.size() - count;
  }
  [[nodiscard]] uint16_t u16(uint64_t offset) const {
    return static_cast<uint16_t>(number(offset, 2));
  }
  [[nodiscard]] uint32_t u32(uint64_t offset) const {
    return static_cast<uint32_t>(number(offset, 4));
  }
  [[nodiscard]] uint64_t u64(uint64_t offset) const { return number(offset, 8); }
  [[nodiscard]] std::span<const std::byte> range(uint64_t offset, uint64_t count) const {
    return bytes_.subspan(offset, count);
  }
  [[nodiscard]] uint64_t size() const { return bytes_.size(); }

 private:
  [[nodiscard]] uint64_t number(uint64_t offset, size_t count) const {
    uint64_t value = 0;
    for (size_t i = 0; i < count; ++i)
      value |= std::to_integer<uint64_t>(bytes_[offset + i]) << (8 * i);
    return value;
  }

  std::span<const std::byte> bytes_;
};

Status fault(std::string_view name, const std::string& what) {
  return {RLX_INVALID_ARGUMENT, std::string(name) + ": " + what};
}

Status find_directory(const Fields& file, std::string_view name, Directory& directory) {
  if (!file.has(0, kEndBytes))
    return fault(name, "this is no .npz file: too short for a zip archive");
  const uint64_t last = file.size() - kEndBytes;
  const uint64_t first = last > kMaxCommentBytes ? last - kMaxCommentBytes : 0;
  for (uint64_t at = last + 1; at-- > first;) {
    if (file.u32(at) != kEndSignature || file.u16(at + 20) != last - at) continue;
    directory = {
        .offset = file.u32(at + 16), .size_bytes = file.u32(at + 12), .count = file.u16(at + 10)};
    const bool large = directory.offset == UINT32_MAX || directory.size_bytes == UINT32_MAX ||
                       directory.count == UINT16_MAX;
    if (!large) return {};
    if (at < kEnd64LocatorBytes || file.u32(at - kEnd64LocatorBytes) != kEnd64LocatorSignature) {
      return fault(name, "the zip64 end record is missing");
    }
    const uint64_t end64 = file.u64(at - kEnd64LocatorBytes + 8);
    if (!file.has(end64, kEnd64Bytes) || file.u32(end64) != kEnd64Signature) {
      return fault(name, "the zip64 end record is missing");
    }
    directory = {.offset = file.u64(end64 + 48),
                 .size_bytes = file.u64(end64 + 40),
                 .count = file.u64(end64 + 32)};
    return {};
  }
  return fault(name, "this is no whole .npz file: the zip archive's end record is missing");
}

// The 64-bit sizes that stand in for fields of all ones, in the order of the format.
bool apply_zip64(const Fields& extra, Member& member) {
  uint64_t at = 0;
  while (extra.has(at, 4)) {
    const uint16_t id = extra.u16(at);
    const uint16_t length = extra.u16(at + 2);
    at += 4;
    if (!extra.has(at, length)) return false;
    if (id != 1) {
      at += length;
      continue;
    }
    const uint64_t end = at + length;
    for (uint64_t* field : {&member.size_bytes, &member.packed_bytes, &member.local_offset}) {
      if (*field != UINT32_MAX) continue;
      if (end - at < 8) return false;
      *field = extra.u64(at);
      at += 8;
    }
    return true;
  }
  return true;
}

Status read_member(const Fields& file, std::string_view name, uint64_t& at, Member& member) {
  if (!file.has(at, kCentralBytes) || file.u32(at) != kCentralSignature) {
    return fault(name, "the zip directory is damaged at byte " + std::to_string(at));
  }
  const uint64_t name_bytes = file.u16(at + 28);
  const uint64_t extra_bytes = file.u16(at + 30);
  const uint64_t comment_bytes = file.u16(at + 32);
  if (!file.has(at + kCentralBytes, name_bytes + extra_bytes + comment_bytes)) {
    return fault(name, "the zip directory is damaged at byte " + std::to_string(at));
  }
  const std::span<const std::byte> text = file.range(at + kCentralBytes, name_bytes);
  member = {.name = std::string(reinterpret_cast<const char*>(text.data()), text.size()),
            .flags = file.u16(at + 8),
            .method = file.u16(at + 10),
            .crc = file.u32(at + 16),
            .packed_bytes = file.u32(at + 20),
            .size_bytes = file.u32(at + 24),
            .local_offset = file.u32(at + 42)};
  if (!apply_zip64(Fields(file.range(at + kCentralBytes + name_bytes, extra_bytes)), member)) {
    return fault(name, "member \"" + member.name + "\" has a damaged zip64 record");
  }
  at += kCentralBytes + name_bytes + extra_bytes + comment_bytes;
  return {};
}

bool inflate_all(std::span<const std::byte> packed, std::span<std::byte> unpacked) {
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
  int result = Z_OK;
  // zlib counts in 32 bits; both sides are handed over in pieces.
  constexpr size_t kPiece = size_t{1} << 30;
  size_t read = 0;
  size_t written = 0;
  while (result == Z_OK) {
    const size_t in = std::min(packed.size() - read, kPiece);
    const size_t out = std::min(unpacked.size() - written, kPiece);
    stream.next_in = reinterpret_cast<const Bytef*>(packed.data() + read);
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(unpacked.data() + written);
    stream.avail_out = static_cast<uInt>(out);
    result = inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += out - stream.avail_out;
    if (result == Z_OK && in == stream.avail_in && out == stream.avail_out) break;
  }
  inflateEnd(&stream);
  return result == Z_STREAM_END && written == unpacked.size();
}

Status unpack(const Fields& file, std::string_view label, const Member& member,
              std::vector<std::byte>& bytes) {
  if ((member.flags & 1) != 0) return fault(label, "the member is encrypted");
  if (!file.has(member.local_offset, kLocalBytes) ||
      file.u32(member.local_offset) != kLocalSignature) {
    return fault(label, "its local header is missing");
  }
  // Extra fields may differ from the directory's, so only these lengths count.
  const uint64_t skip =
      kLocalBytes + file.u16(member.local_offset + 26) + file.u16(member.local_offset + 28);
  if (!file.has(member.local_offset, skip) ||
      !file.has(member.local_offset + skip, member.packed_bytes)) {
    return fault(label, "its data reach past the end of the file");
  }
  const std::span<const std::byte> packed =
      file.range(member.local_offset + skip, member.packed_bytes);
  if (member.method == 0) {
    if (member.packed_bytes != member.size_bytes)
      return fault(label, "a stored member has two different sizes");
    bytes.assign(packed.begin(), packed.end());
  } else if (member.method == 8) {
    if (member.size_bytes / kMaxRatio > member.packed_bytes)
      return fault(label, "its claimed size cannot be right");
    bytes.resize(member.size_bytes);
    if (!inflate_all(packed, bytes)) return fault(label, "its compressed data are damaged");
  } else {
    return fault(label,
                 "compression method " + std::to_string(member.method) +
                     " is unknown; numpy.savez and numpy.savez_compressed write what is read here");
  }
  const uLong crc =
      crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (crc != member.crc) return fault(label, "its checksum is wrong");
  return {};
}

}  // namespace

Status parse_npz(std::span<const std::byte> bytes, std::string_view name,
                 std::vector<NamedArray>& arrays) {
  const Fields file(bytes);
  Directory directory;
  RLX_RETURN_IF_ERROR(find_directory(file, name, directory));
  if (!file.has(directory.offset, directory.size_bytes) ||
      directory.count > directory.size_bytes / kCentralBytes) {
    return fault(name, "the zip directory reaches past the end of the file");
  }
  std::vector<NamedArray> made;
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.count; ++i) {
    Member member;
    RLX_RETURN_IF_ERROR(read_member(file, name, at, member));
    constexpr std::string_view kSuffix = ".npy";
    const size_t stem = member.name.size() - std::min(member.name.size(), kSuffix.size());
    if (member.name.substr(stem) != kSuffix)
      return fault(name, "member \"" + member.name + "\" is no .npy array");
    const std::string label = std::string(name) + ": member \"" + member.name + "\"";
    member.name.resize(stem);
    std::vector<std::byte> content;
    RLX_RETURN_IF_ERROR(unpack(file, label, member, content));
    NamedArray& added = made.emplace_back();
    added.name = member.name;
    RLX_RETURN_IF_ERROR(parse(content, label, added.array));
  }
  std::vector<std::string_view> names;
  for (const NamedArray& each : made) names.push_back(each.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    return fault(name, "two members are named \"" + std::string(*twice) + "\"");
  }
  arrays = std::move(made);
  return {};
}

Status read_npz(const std::string& path, std::vector<NamedArray>& arrays) {
  std::vector<std::byte> bytes;
  RLX_RETURN_IF_ERROR(read_file(path, bytes));
  return parse_npz(bytes, path, arrays);
}

}  // namespace rlx::npy
