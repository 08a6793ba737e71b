// SPDX-License-Identifier: Apache-2.0
// Mapping and confined opening of files.
#include "compiler/import/model_files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace rlx {
namespace {

// O_NONBLOCK: opening a pipe that somebody put there must not wait for a writer.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(Descriptor&& other) noexcept : value_(other.value_) { other.value_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  [[nodiscard]] int get() const { return value_; }
  [[nodiscard]] bool is_open() const { return value_ >= 0; }

 private:
  int value_;
};

std::string system_text(int error) {
  return std::strerror(error);
}

// What a checkout without Git LFS has in the place of a large file.
bool is_lfs_pointer(std::span<const std::byte> bytes) {
  constexpr std::string_view kBegin = "version https://git-lfs.github.com/spec/";
  return bytes.size() > kBegin.size() &&
         std::memcmp(bytes.data(), kBegin.data(), kBegin.size()) == 0;
}

FileResult map_descriptor(const Descriptor& file, bool is_confined) {
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0)
    return FileFault{DiagCode::FileMissing, "cannot be read: " + system_text(errno)};
  if (!S_ISREG(status.st_mode)) {
    return FileFault{is_confined ? DiagCode::FileOutside : DiagCode::FileMissing,
                     "is not a regular file"};
  }
  if (is_confined && status.st_nlink != 1) {
    return FileFault{DiagCode::FileOutside,
                     "has " + std::to_string(status.st_nlink) +
                         " hard links, wanted 1: it may be a file from elsewhere"};
  }
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return std::make_shared<const MappedFile>(nullptr, 0);
  const void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED)
    return FileFault{DiagCode::FileMissing, "cannot be mapped: " + system_text(errno)};
  auto mapped = std::make_shared<const MappedFile>(address, size);
  if (is_lfs_pointer(mapped->bytes()))
    return FileFault{DiagCode::FileFormat,
                     "is a pointer of Git LFS, which stands for the file: fetch that with `git lfs "
                     "pull`"};
  return mapped;
}

FileFault open_fault(int error) {
  if (error == ENOENT || error == ENOTDIR) return {DiagCode::FileMissing, "does not exist"};
  if (error == ELOOP) return {DiagCode::FileOutside, "is, or lies behind, a symbolic link"};
  if (error == EXDEV) return {DiagCode::FileOutside, "leaves the model's folder"};
  return {DiagCode::FileMissing, "cannot be opened: " + system_text(error)};
}

std::vector<std::string> components_of(const std::string& path) {
  std::vector<std::string> components;
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (end > start) components.push_back(path.substr(start, end - start));
    start = end + 1;
  }
  return components;
}

// What the text of a reference alone shows to be wrong.
std::optional<FileFault> path_fault(const std::string& path) {
  if (path.empty()) return FileFault{DiagCode::FileMissing, "is an empty path"};
  if (path.find('\0') != std::string::npos)
    return FileFault{DiagCode::FileOutside, "holds a zero byte"};
  if (path.front() == '/') return FileFault{DiagCode::FileOutside, "is an absolute path"};
  for (const std::string& component : components_of(path)) {
    if (component == "..") return FileFault{DiagCode::FileOutside, "goes through \"..\""};
  }
  return std::nullopt;
}

// For kernels without openat2: one component at a time, following no link. errno is set where the
// result is not open.
Descriptor open_by_components(int folder, const std::string& path) {
  const std::vector<std::string> components = components_of(path);
  Descriptor current(-1);
  for (size_t i = 0; i < components.size(); ++i) {
    const int from = current.is_open() ? current.get() : folder;
    const bool is_last = i + 1 == components.size();
    const int flags = is_last ? kReadFlags | O_NOFOLLOW : O_PATH | O_CLOEXEC | O_NOFOLLOW;
    Descriptor next(::openat(from, components[i].c_str(), flags));
    struct stat status = {};
    if (next.is_open() && !is_last && ::fstat(next.get(), &status) == 0 &&
        S_ISLNK(status.st_mode)) {
      errno = ELOOP;
      return Descriptor(-1);
    }
    if (!next.is_open()) return next;
    current = std::move(next);
  }
  return current;
}

Descriptor open_beneath(int folder, const std::string& path) {
  struct open_how how = {};
  how.flags = kReadFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const long file = ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof(how));
  if (file >= 0) return Descriptor(static_cast<int>(file));
  // Old kernels answer ENOSYS, sandboxes that do not know the call EPERM.
  if (errno == ENOSYS || errno == EPERM) return open_by_components(folder, path);
  return Descriptor(-1);
}

}  // namespace

MappedFile::~MappedFile() {
  if (address_ != nullptr) ::munmap(const_cast<void*>(address_), size_bytes_);
}

FileResult map_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), kReadFlags));
  if (!file.is_open()) {
    const FileFault fault = open_fault(errno);
    return FileFault{DiagCode::FileMissing, fault.message};
  }
  return map_descriptor(file, false);
}

ModelFolder::ModelFolder(const std::string& path, Options options)
    : path_(path),
      options_(options),
      descriptor_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

ModelFolder::~ModelFolder() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

FileResult ModelFolder::map(const std::string& relative_path) const {
  if (const auto fault = path_fault(relative_path)) return *fault;
  if (descriptor_ < 0)
    return FileFault{DiagCode::FileMissing,
                     "lies in folder \"" + path_ + "\", which cannot be opened"};
  const Descriptor file = options_.use_openat2 ? open_beneath(descriptor_, relative_path)
                                               : open_by_components(descriptor_, relative_path);
  if (!file.is_open()) return open_fault(errno);
  return map_descriptor(file, true);
}

std::string model_file(const std::string& path) {
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed))
    return (std::filesystem::path(path) / "config.json").string();
  const std::string name = std::filesystem::path(path).filename().string();
  if (name != "model.safetensors" && name != "model.safetensors.index.json") return path;
  return folder_of(path) + "/config.json";
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace rlx
