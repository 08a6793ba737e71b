// SPDX-License-Identifier: Apache-2.0
// Atomic file output on POSIX.
#include "compiler/emit/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace rlx {
namespace {

constexpr size_t kMaxWriteBytes = size_t{1} << 30;  // Linux transfers at most 2 GiB at once
constexpr int kOpenAttempts = 16;

std::string reason(int error) {
  return std::generic_category().message(error);
}

void report(const std::string& path, const std::string& what, Diagnostics& diagnostics) {
  diagnostics.error(DiagCode::FileWrite, {.file = path, .position = {}},
                    "cannot write the file: " + what);
}

// True when `descriptor` still is the file that the path names (another writer may have renamed or
// removed it meanwhile).
bool is_current(int descriptor, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return fstat(descriptor, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// The entry of the folder, so that the rename survives a power cut. Some file systems refuse; the
// file is whole anyway.
void sync_folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  static_cast<void>(fsync(descriptor));
  close(descriptor);
}

}  // namespace

OutputFile::OutputFile(std::string path, std::string partial_path, int descriptor)
    : path_(std::move(path)), partial_path_(std::move(partial_path)), descriptor_(descriptor) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_path_(std::move(other.partial_path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      error_(other.error_) {}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  unlink(partial_path_.c_str());
  close(descriptor_);
}

std::optional<OutputFile> OutputFile::create(const std::string& path, Diagnostics& diagnostics) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    report(path, "it is a folder", diagnostics);
    return std::nullopt;
  }
  const std::string partial = path + ".partial";
  for (int attempt = 0; attempt < kOpenAttempts; ++attempt) {
    const int descriptor = open(partial.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor < 0) {
      report(path, partial + ": " + reason(errno), diagnostics);
      return std::nullopt;
    }
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      close(descriptor);
      report(path, "another process is writing it", diagnostics);
      return std::nullopt;
    }
    if (is_current(descriptor, partial) && ftruncate(descriptor, 0) == 0) {
      return OutputFile(path, partial, descriptor);
    }
    close(descriptor);
  }
  report(path, "other processes keep replacing " + partial, diagnostics);
  return std::nullopt;
}

void OutputFile::write_at(uint64_t offset_bytes, std::span<const std::byte> bytes) {
  while (error_ == 0 && !bytes.empty()) {
    const ssize_t written =
        pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kMaxWriteBytes),
               static_cast<off_t>(offset_bytes));
    if (written < 0) {
      if (errno != EINTR) error_ = errno;
      continue;
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset_bytes += static_cast<uint64_t>(written);
  }
}

bool OutputFile::commit(uint64_t size_bytes, Diagnostics& diagnostics) {
  if (error_ == 0 && ftruncate(descriptor_, static_cast<off_t>(size_bytes)) != 0) error_ = errno;
  if (error_ == 0 && fsync(descriptor_) != 0) error_ = errno;
  if (error_ == 0 && std::rename(partial_path_.c_str(), path_.c_str()) != 0) error_ = errno;
  if (error_ != 0) {
    report(path_, reason(error_), diagnostics);
    return false;
  }
  close(std::exchange(descriptor_, -1));
  sync_folder_of(path_);
  return true;
}

}  // namespace rlx
