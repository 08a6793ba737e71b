// SPDX-License-Identifier: Apache-2.0
// .npz files: just as much of the zip format as NumPy and its kin write.
#include <algorithm>

#include "tools/npy/bytes.h"
#include "tools/npy/inflate.h"
#include "tools/npy/npy_reader.h"

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
constexpr std::string_view kSuffix = ".npy";
// Deflate packs at most 1032 bytes into one: a larger claim is a lie, found before memory is asked
// for.
constexpr uint64_t kMaxRatio = 1032;
// A record takes 46 bytes and its name: room for more arrays than any model has inputs.
constexpr uint64_t kMaxDirectoryBytes = uint64_t{16} << 20;

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

Status read_range(const ByteSource& file, uint64_t offset_bytes, uint64_t count,
                  std::vector<std::byte>& bytes) {
  bytes.resize(count);
  return file.read(offset_bytes, bytes);
}

// The directory of an archive too large for the fields of its end record; the locator is the last
// thing in `tail`.
Status find_directory64(const ByteSource& file, const Fields& tail, std::string_view name,
                        Directory& directory) {
  const uint64_t at = tail.size() - std::min<uint64_t>(tail.size(), kEnd64LocatorBytes);
  std::vector<std::byte> record;
  if (!tail.has(at, kEnd64LocatorBytes) || tail.u32(at) != kEnd64LocatorSignature ||
      !file.has(tail.u64(at + 8), kEnd64Bytes)) {
    return fault(name, "the zip64 end record is missing");
  }
  RLX_RETURN_IF_ERROR(read_range(file, tail.u64(at + 8), kEnd64Bytes, record));
  const Fields end64(record);
  if (end64.u32(0) != kEnd64Signature) return fault(name, "the zip64 end record is missing");
  directory = {.offset = end64.u64(48), .size_bytes = end64.u64(40), .count = end64.u64(32)};
  return {};
}

Status find_directory(const ByteSource& file, std::string_view name, Directory& directory) {
  if (!file.has(0, kEndBytes))
    return fault(name, "this is no .npz file: too short for a zip archive");
  const uint64_t tail_bytes =
      std::min(file.size_bytes(), kEnd64LocatorBytes + kEndBytes + kMaxCommentBytes);
  std::vector<std::byte> bytes;
  RLX_RETURN_IF_ERROR(read_range(file, file.size_bytes() - tail_bytes, tail_bytes, bytes));
  const Fields tail(bytes);
  const uint64_t last = tail_bytes - kEndBytes;
  const uint64_t first = last > kMaxCommentBytes ? last - kMaxCommentBytes : 0;
  for (uint64_t at = last + 1; at-- > first;) {
    if (tail.u32(at) != kEndSignature || tail.u16(at + 20) != last - at) continue;
    directory = {
        .offset = tail.u32(at + 16), .size_bytes = tail.u32(at + 12), .count = tail.u16(at + 10)};
    const bool large = directory.offset == UINT32_MAX || directory.size_bytes == UINT32_MAX ||
                       directory.count == UINT16_MAX;
    return large ? find_directory64(file, Fields(tail.range(0, at)), name, directory) : Status{};
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
    return fault(name, "the zip directory is damaged at its byte " + std::to_string(at));
  }
  const uint64_t name_bytes = file.u16(at + 28);
  const uint64_t extra_bytes = file.u16(at + 30);
  const uint64_t comment_bytes = file.u16(at + 32);
  if (!file.has(at + kCentralBytes, name_bytes + extra_bytes + comment_bytes)) {
    return fault(name, "the zip directory is damaged at its byte " + std::to_string(at));
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

// Where the member's packed bytes lie.
Status find_packed(const ByteSource& file, std::string_view label, const Member& member,
                   uint64_t& offset_bytes) {
  if ((member.flags & 1) != 0) return fault(label, "the member is encrypted");
  std::vector<std::byte> local;
  if (!file.has(member.local_offset, kLocalBytes))
    return fault(label, "its local header is missing");
  RLX_RETURN_IF_ERROR(read_range(file, member.local_offset, kLocalBytes, local));
  const Fields fields(local);
  if (fields.u32(0) != kLocalSignature) return fault(label, "its local header is missing");
  // Extra fields may differ from the directory's, so only these lengths count.
  const uint64_t skip = kLocalBytes + fields.u16(26) + fields.u16(28);
  if (!file.has(member.local_offset, skip) ||
      !file.has(member.local_offset + skip, member.packed_bytes)) {
    return fault(label, "its data reach past the end of the file");
  }
  offset_bytes = member.local_offset + skip;
  return {};
}

Status check_sum(const ChecksumReader& summed, std::string_view label, const Member& member) {
  return summed.crc32() == member.crc ? Status{} : fault(label, "its checksum is wrong");
}

Status unpack(const ByteSource& file, std::string_view label, const Member& member,
              const Wanted& wanted, Array& array) {
  uint64_t offset_bytes = 0;
  RLX_RETURN_IF_ERROR(find_packed(file, label, member, offset_bytes));
  RangeReader packed(file, offset_bytes, member.packed_bytes);
  if (member.method == 0) {
    if (member.packed_bytes != member.size_bytes)
      return fault(label, "a stored member has two different sizes");
    ChecksumReader summed(packed);
    RLX_RETURN_IF_ERROR(read_array(summed, label, member.name, wanted, array));
    return check_sum(summed, label, member);
  }
  if (member.method != 8) {
    return fault(label,
                 "compression method " + std::to_string(member.method) +
                     " is unknown; numpy.savez and numpy.savez_compressed write what is read here");
  }
  if (member.size_bytes / kMaxRatio > member.packed_bytes)
    return fault(label, "its claimed size cannot be right");
  InflateReader unpacked(packed, member.size_bytes, label);
  ChecksumReader summed(unpacked);
  RLX_RETURN_IF_ERROR(read_array(summed, label, member.name, wanted, array));
  RLX_RETURN_IF_ERROR(unpacked.check_end());
  return check_sum(summed, label, member);
}

// All records of the directory; names are without ".npy", each once.
Status read_members(const ByteSource& file, std::string_view name, std::vector<Member>& members) {
  Directory directory;
  RLX_RETURN_IF_ERROR(find_directory(file, name, directory));
  if (!file.has(directory.offset, directory.size_bytes) ||
      directory.count > directory.size_bytes / kCentralBytes) {
    return fault(name, "the zip directory reaches past the end of the file");
  }
  if (directory.size_bytes > kMaxDirectoryBytes) {
    return fault(name, "its zip directory takes " + std::to_string(directory.size_bytes) +
                           " bytes; at most " + std::to_string(kMaxDirectoryBytes) + " are read");
  }
  std::vector<std::byte> bytes;
  RLX_RETURN_IF_ERROR(read_range(file, directory.offset, directory.size_bytes, bytes));
  uint64_t at = 0;
  for (uint64_t i = 0; i < directory.count; ++i) {
    Member& member = members.emplace_back();
    RLX_RETURN_IF_ERROR(read_member(Fields(bytes), name, at, member));
    if (!member.name.ends_with(kSuffix))
      return fault(name, "member \"" + member.name + "\" is no .npy array");
    member.name.resize(member.name.size() - kSuffix.size());
  }
  std::vector<std::string_view> names;
  for (const Member& each : members) names.push_back(each.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    return fault(name, "two members are named \"" + std::string(*twice) + "\"");
  return {};
}

// `name` of the file is for messages.
Status read_archive(const ByteSource& file, std::string_view name, const Wanted& wanted,
                    std::vector<NamedArray>& arrays) {
  std::vector<Member> members;
  RLX_RETURN_IF_ERROR(read_members(file, name, members));
  std::vector<NamedArray> made;
  for (const Member& member : members) {
    const std::string label = std::string(name) + ": member \"" + member.name + ".npy\"";
    NamedArray& added = made.emplace_back();
    added.name = member.name;
    RLX_RETURN_IF_ERROR(unpack(file, label, member, wanted, added.array));
  }
  arrays = std::move(made);
  return {};
}

}  // namespace

Status parse_npz(std::span<const std::byte> file, std::string_view name, const Wanted& wanted,
                 std::vector<NamedArray>& arrays) {
  return read_archive(MemorySource(file), name, wanted, arrays);
}

Status read_npz(const std::string& path, const Wanted& wanted, std::vector<NamedArray>& arrays) {
  FileSource file;
  RLX_RETURN_IF_ERROR(file.open(path));
  return read_archive(file, path, wanted, arrays);
}

Status read_npz(const std::string& path, std::vector<NamedArray>& arrays) {
  return read_npz(path, {}, arrays);
}

}  // namespace rlx::npy
