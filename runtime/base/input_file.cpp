// SPDX-License-Identifier: Apache-2.0
// A file opened read-only, read by position.
#include "runtime/base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "runtime/base/text.h"

namespace rlx {
namespace {

constexpr uint64_t kBlockBytes = 512;  // of st_blocks, whatever the file system's own are

// Why a file of these facts is refused; empty: it is not.
std::string_view refusal_of(const struct stat& facts, const InputOptions& options) {
  if (S_ISDIR(facts.st_mode)) return "it is a directory";
  if (!S_ISREG(facts.st_mode)) return "it is no regular file";
  if (options.only_own && facts.st_uid != ::geteuid()) return "another user owns it";
  if (options.only_own && (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return "others may write to it";
  return {};
}

}  // namespace

Status InputFile::open(const std::string& path, const InputOptions& options, InputFile& file) {
  InputFile opened;
  opened.path_ = path;
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it is refused below as no regular file.
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  opened.descriptor_ =
      Descriptor(::open(path.c_str(), options.follow_links ? flags : flags | O_NOFOLLOW));
  if (!opened.descriptor_.is_open())
    return {RLX_IO_ERROR, text_of("cannot open ", quoted(path), ": ", system_reason(errno))};
  struct stat facts {};
  if (::fstat(opened.descriptor_.get(), &facts) != 0) {
    return {RLX_IO_ERROR, text_of("cannot examine ", quoted(path), ": ", system_reason(errno))};
  }
  if (const std::string_view why = refusal_of(facts, options); !why.empty())
    return {RLX_IO_ERROR, text_of("cannot open ", quoted(path), ": ", why)};
  opened.size_bytes_ = static_cast<uint64_t>(facts.st_size);
  opened.held_bytes_ = static_cast<uint64_t>(facts.st_blocks) * kBlockBytes;
  file = std::move(opened);
  return {};
}

Status InputFile::read(uint64_t offset_bytes, std::span<std::byte> destination) const {
  if (destination.size() > size_bytes_ || offset_bytes > size_bytes_ - destination.size()) {
    return {RLX_IO_ERROR, text_of(quoted(path_), ": bytes ", offset_bytes, " to ",
                                  offset_bytes + destination.size(), " lie past the file's ",
                                  size_bytes_, " bytes")};
  }
  size_t done = 0;
  while (done < destination.size()) {
    const ssize_t count =
        ::pread(descriptor_.get(), destination.data() + done, destination.size() - done,
                static_cast<off_t>(offset_bytes + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return {RLX_IO_ERROR, text_of("cannot read ", quoted(path_), " at byte ", offset_bytes + done,
                                    ": ", system_reason(errno))};
    }
    if (count == 0) {
      return {RLX_IO_ERROR, text_of(quoted(path_), " was shortened while it was open: it had ",
                                    size_bytes_, " bytes, it ends at ", offset_bytes + done)};
    }
    done += static_cast<size_t>(count);
  }
  return {};
}

Status read_file(const std::string& path, uint64_t most_bytes, std::vector<std::byte>& bytes) {
  InputFile file;
  RLX_RETURN_IF_ERROR(InputFile::open(path, file));
  if (file.size_bytes() > most_bytes) {
    return {RLX_IO_ERROR, text_of(quoted(path), " has ", file.size_bytes(), " bytes; at most ",
                                  most_bytes, " are read")};
  }
  std::vector<std::byte> read(file.size_bytes());
  RLX_RETURN_IF_ERROR(file.read(0, read));
  bytes = std::move(read);
  return {};
}

}  // namespace rlx
