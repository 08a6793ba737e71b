// SPDX-License-Identifier: Apache-2.0
// A file opened read-only, read by position.
#include "runtime/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/text.h"

namespace rlx {
namespace {

constexpr uint64_t kBlockBytes = 512;  // of st_blocks, whatever the file system's own are

std::string system_reason(int error) {
  char buffer[256] = {};
  // The GNU form of strerror_r may return a static text instead of filling the buffer.
  return strerror_r(error, buffer, sizeof buffer);
}

}  // namespace

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      held_bytes_(std::exchange(other.held_bytes_, 0)),
      path_(std::move(other.path_)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(held_bytes_, other.held_bytes_);
  std::swap(path_, other.path_);
  return *this;
}

Status InputFile::open(const std::string& path, InputFile& file) {
  InputFile opened;
  opened.path_ = path;
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it is refused below as no regular file.
  opened.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened.descriptor_ < 0)
    return {RLX_IO_ERROR, text_of("cannot open ", quoted(path), ": ", system_reason(errno))};
  struct stat facts {};
  if (::fstat(opened.descriptor_, &facts) != 0) {
    return {RLX_IO_ERROR, text_of("cannot examine ", quoted(path), ": ", system_reason(errno))};
  }
  if (!S_ISREG(facts.st_mode)) {
    const std::string_view kind = S_ISDIR(facts.st_mode) ? "a directory" : "no regular file";
    return {RLX_IO_ERROR, text_of("cannot open ", quoted(path), ": it is ", kind)};
  }
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
    const ssize_t count = ::pread(descriptor_, destination.data() + done, destination.size() - done,
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

}  // namespace rlx
