// SPDX-License-Identifier: Apache-2.0
// Files beside a plan that hold the bytes of some of its weights.
#include "runtime/plan/weight_files.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/plan/plan_view.h"

namespace rlx {
namespace {

constexpr uint64_t kReadChunkBytes = uint64_t{4} << 20;

// Gives the first `bytes` of a file to `take`, in order.
template <class Take>
Status for_each_chunk(const InputFile& file, uint64_t bytes, const Take& take) {
  std::vector<std::byte> chunk(std::min(bytes, kReadChunkBytes));
  for (uint64_t done = 0; done < bytes;) {
    const std::span<std::byte> part(chunk.data(), std::min<uint64_t>(chunk.size(), bytes - done));
    RLX_RETURN_IF_ERROR(file.read(done, part));
    take(part);
    done += part.size();
  }
  return {};
}

Status checksum_of(const InputFile& file, uint64_t bytes, uint64_t& checksum) {
  // XXH3_state_t wants 64-byte alignment, which this type asks for itself.
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  RLX_RETURN_IF_ERROR(for_each_chunk(file, bytes, [&state](std::span<const std::byte> part) {
    XXH3_64bits_update(&state, part.data(), part.size());
  }));
  checksum = XXH3_64bits_digest(&state);
  return {};
}

Status other_file(const InputFile& file, std::string_view how) {
  return {RLX_INVALID_PLAN,
          text_of("file ", quoted(file.path()), ", which holds weights of the plan, ", how,
                  ": it is not the file that the plan was compiled from, or was altered since")};
}

}  // namespace

bool is_weight_file_name(std::string_view name) {
  while (true) {
    const size_t end = name.find('/');
    const std::string_view part = name.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == std::string_view::npos) return true;
    name.remove_prefix(end + 1);
  }
}

WeightFiles::WeightFiles(const fb::Plan& plan, std::string folder)
    : plan_(plan), folder_(std::move(folder)) {
  for (const fb::Weight* weight : *plan.weights()) {
    if (weight->kind() != fb::WeightKind::External || weight->size_bytes() == 0) continue;
    pieces_.push_back({.offset_bytes = weight->offset_bytes(),
                       .size_bytes = weight->size_bytes(),
                       .file = weight->file(),
                       .file_offset_bytes = weight->file_offset()});
  }
  std::sort(pieces_.begin(), pieces_.end(),
            [](const Piece& a, const Piece& b) { return a.offset_bytes < b.offset_bytes; });
}

Status WeightFiles::open_file(const fb::WeightFile& record, InputFile& file) const {
  const std::string_view name = PlanView::text(record.name());
  if (folder_.empty()) {
    return {RLX_INVALID_STATE,
            text_of("the plan's weights are in file ", quoted(name),
                    ", and a plan in memory has no folder where it would lie: give weights_folder "
                    "when the plan is opened")};
  }
  InputFile opened;
  if (Status status = InputFile::open(folder_ + "/" + std::string(name), opened); !status.ok()) {
    return {status.code(), text_of(status.message(), "; weights of the plan are in that file: put ",
                                   "it there, or name its folder (--weights-folder)")};
  }
  if (opened.size_bytes() != record.size_bytes()) {
    return other_file(opened,
                      text_of("has ", opened.size_bytes(), " bytes, wanted ", record.size_bytes()));
  }
  uint64_t checksum = 0;
  const uint64_t start_bytes = std::min(record.size_bytes(), kWeightFileStartBytes);
  RLX_RETURN_IF_ERROR(checksum_of(opened, start_bytes, checksum));
  if (checksum != record.start_checksum()) return other_file(opened, "begins with other bytes");
  file = std::move(opened);
  return {};
}

Status WeightFiles::open() {
  const std::lock_guard lock(mutex_);
  if (!files_.empty()) return {};
  std::vector<InputFile> files(plan_.weight_files()->size());
  for (uint32_t i = 0; i < files.size(); ++i)
    RLX_RETURN_IF_ERROR(open_file(*plan_.weight_files()->Get(i), files[i]));
  files_ = std::move(files);
  return {};
}

Status WeightFiles::read(uint64_t offset_bytes, std::span<std::byte> destination) {
  const uint64_t end = offset_bytes + destination.size();
  // Pieces may overlap only where they are equal, so their ends ascend too.
  auto piece = std::partition_point(pieces_.begin(), pieces_.end(), [&](const Piece& candidate) {
    return candidate.offset_bytes + candidate.size_bytes <= offset_bytes;
  });
  if (piece == pieces_.end() || piece->offset_bytes >= end) return {};
  RLX_RETURN_IF_ERROR(open());
  for (; piece != pieces_.end() && piece->offset_bytes < end; ++piece) {
    const uint64_t from = std::max(piece->offset_bytes, offset_bytes);
    const uint64_t to = std::min(piece->offset_bytes + piece->size_bytes, end);
    RLX_RETURN_IF_ERROR(
        files_[piece->file].read(piece->file_offset_bytes + (from - piece->offset_bytes),
                                 destination.subspan(from - offset_bytes, to - from)));
  }
  return {};
}

Status WeightFiles::check() {
  if (empty()) return {};
  RLX_RETURN_IF_ERROR(open());
  for (uint32_t i = 0; i < files_.size(); ++i) {
    const fb::WeightFile& record = *plan_.weight_files()->Get(i);
    uint64_t checksum = 0;
    RLX_RETURN_IF_ERROR(checksum_of(files_[i], record.size_bytes(), checksum));
    if (checksum != record.checksum())
      return other_file(files_[i], "has another checksum than recorded");
  }
  return {};
}

Status WeightFiles::digests(const LibCrypto& library, std::vector<Sha256Digest>& digests) {
  digests.clear();
  if (empty()) return {};
  RLX_RETURN_IF_ERROR(open());
  for (const InputFile& file : files_) {
    FastSha256 hash(library);
    RLX_RETURN_IF_ERROR(for_each_chunk(
        file, file.size_bytes(), [&hash](std::span<const std::byte> part) { hash.update(part); }));
    RLX_RETURN_IF_ERROR(hash.finish(digests.emplace_back()));
  }
  return {};
}

Status WeightFiles::check_signed(const LibCrypto& library, std::span<const Sha256Digest> wanted) {
  std::vector<Sha256Digest> found;
  RLX_RETURN_IF_ERROR(digests(library, found));
  if (found.size() != wanted.size()) {
    return {RLX_UNTRUSTED_PLAN,
            text_of("the plan's weights are in ", found.size(), " files, signed were ",
                    wanted.size(), ": sign it again with rlxc sign")};
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == wanted[i]) continue;
    return {RLX_UNTRUSTED_PLAN, text_of("file ", quoted(files_[i].path()),
                                        ", which holds weights of the plan, is not as it was when "
                                        "the plan was signed: its SHA-256 is ",
                                        hex_text(found[i]), ", signed was ", hex_text(wanted[i]))};
  }
  return {};
}

}  // namespace rlx
