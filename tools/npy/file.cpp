// SPDX-License-Identifier: Apache-2.0
// Whole files through the system's calls, so that every failure has its reason.
#include "tools/npy/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace rlx::npy {
namespace {

Status io_error(const std::string& path, const char* doing) {
  return {RLX_IO_ERROR, path + ": cannot " + doing + ": " + std::strerror(errno)};
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  [[nodiscard]] int get() const { return value_; }

 private:
  int value_;
};

bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

Status read_file(const std::string& path, std::vector<std::byte>& bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return io_error(path, "open");
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return io_error(path, "read its size");
  if (!S_ISREG(info.st_mode)) return {RLX_IO_ERROR, path + ": this is no regular file"};
  bytes.resize(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error(path, "read");
    if (got == 0) return {RLX_IO_ERROR, path + ": the file became shorter while it was read"};
    done += static_cast<size_t>(got);
  }
  return {};
}

Status write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::string temporary = path + ".XXXXXX";
  const Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return io_error(path, "write");
  if (write_all(file.get(), bytes) && ::fchmod(file.get(), 0644) == 0 && ::fsync(file.get()) == 0 &&
      ::rename(temporary.c_str(), path.c_str()) == 0) {
    return {};
  }
  Status status = io_error(path, "write");
  ::unlink(temporary.c_str());
  return status;
}

}  // namespace rlx::npy
