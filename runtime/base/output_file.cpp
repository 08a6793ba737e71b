// SPDX-License-Identifier: Apache-2.0
// Output on Linux: paths are walked to a name in an open folder, which is where everything happens,
// so that a folder that is exchanged meanwhile leads nowhere else.
#include "runtime/base/output_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdio>
#include <optional>
#include <vector>

#include "runtime/base/text.h"

namespace rlx {
namespace {

constexpr size_t kMaxWriteBytes = size_t{1} << 30;  // Linux transfers at most 2 GiB at once
constexpr size_t kSendBytes = size_t{1} << 20;
constexpr int kMaxLinks = 40;  // as the kernel's own walk
constexpr int kOpenAttempts = 16;
constexpr mode_t kPermissions = 0777;
constexpr std::string_view kSuffix = ".partial";

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// True when `file` still is what the name stands for: another writer may have renamed or removed it
// meanwhile.
bool is_current(int file, int folder, const std::string& name) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(file, &opened) == 0 &&
         ::fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         is_same_file(opened, named);
}

// False where another process holds the file. A file system without locks is no reason to fail.
bool lock(int file) {
  return ::flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

enum class Leftover : uint8_t {
  Gone,    // now, or already
  InUse,   // another process is writing it
  Foreign  // no file of ours: whoever put it there, it is left alone
};

Leftover remove_leftover(int folder, const std::string& name) {
  const Descriptor file(
      ::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) return errno == ENOENT ? Leftover::Gone : Leftover::Foreign;
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_uid != ::geteuid() ||
      facts.st_nlink > 1) {
    return Leftover::Foreign;
  }
  if (!lock(file.get())) return Leftover::InUse;
  if (!is_current(file.get(), folder, name)) return Leftover::Gone;
  return ::unlinkat(folder, name.c_str(), 0) == 0 ? Leftover::Gone : Leftover::Foreign;
}

// errno of the first write that failed; 0 where all went well.
int write_all(int file, std::optional<uint64_t> offset_bytes, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t part = std::min(bytes.size(), kMaxWriteBytes);
    const ssize_t written =
        offset_bytes ? ::pwrite(file, bytes.data(), part, static_cast<off_t>(*offset_bytes))
                     : ::write(file, bytes.data(), part);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(written));
    if (offset_bytes) *offset_bytes += static_cast<uint64_t>(written);
  }
  return 0;
}

// The rule of the kernel (protected_symlinks), which a walk by hand would pass by: in a folder that
// all may write to, a link leads on only if it is the user's own or the folder's owner's.
bool may_follow(const struct stat& folder, const struct stat& link) {
  const bool is_shared = (folder.st_mode & S_ISVTX) != 0 && (folder.st_mode & S_IWOTH) != 0;
  return !is_shared || link.st_uid == ::geteuid() || link.st_uid == folder.st_uid;
}

// What kind of file is refused whatever it is wanted for; empty: none.
std::string_view refused_kind(mode_t mode) {
  if (S_ISDIR(mode)) return "it is a folder";
  if (S_ISBLK(mode)) return "it is a block device";
  if (S_ISSOCK(mode)) return "it is a socket";
  return {};
}

}  // namespace

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(use_, other.use_);
  std::swap(folder_path_, other.folder_path_);
  std::swap(name_, other.name_);
  std::swap(folder_, other.folder_);
  std::swap(stream_, other.stream_);
  std::swap(file_, other.file_);
  std::swap(partial_name_, other.partial_name_);
  std::swap(replaces_, other.replaces_);
  std::swap(mode_, other.mode_);
  std::swap(owner_, other.owner_);
  std::swap(group_, other.group_);
  return *this;
}

OutputFile::~OutputFile() {
  discard();
}

void OutputFile::discard() {
  if (!partial_name_.empty() && folder_.is_open())
    ::unlinkat(folder_.get(), partial_name_.c_str(), 0);
  partial_name_.clear();
}

Status OutputFile::fault(const std::string& why) const {
  return {RLX_IO_ERROR, text_of("cannot write ", quoted(path_), ": ", why)};
}

Status OutputFile::create(const std::string& path, OutputUse use, OutputFile& file) {
  OutputFile made;
  made.path_ = path;
  made.use_ = use;
  RLX_RETURN_IF_ERROR(made.open_target(path, use));
  if (!made.stream_.is_open()) {
    RLX_RETURN_IF_ERROR(made.open_partial());
  } else {
    made.file_ = Descriptor(::memfd_create("rlx-output", MFD_CLOEXEC));
    if (!made.file_.is_open()) return made.fault(errno);
  }
  file = std::move(made);
  return {};
}

// Finds what the path leads to: folder_ and name_ without links, or stream_.
Status OutputFile::open_target(const std::string& path, OutputUse use) {
  std::string at = path;
  for (int links = 0; links <= kMaxLinks; ++links) {
    const size_t slash = at.rfind('/');
    folder_path_ = slash == std::string::npos ? "" : at.substr(0, slash + 1);
    name_ = at.substr(folder_path_.size());
    folder_ = Descriptor(::open(folder_path_.empty() ? "." : folder_path_.c_str(),
                                O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder_.is_open()) return fault(errno);
    if (name_.empty()) return fault(path.empty() ? "the path is empty" : "it names a folder");
    struct stat facts {};
    if (::fstatat(folder_.get(), name_.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0)
      return errno == ENOENT ? Status{} : fault(errno);
    if (S_ISREG(facts.st_mode)) {
      replaces_ = true;
      mode_ = facts.st_mode & kPermissions;
      owner_ = facts.st_uid;
      group_ = facts.st_gid;
      return {};
    }
    if (const std::string_view kind = refused_kind(facts.st_mode); !kind.empty())
      return fault(std::string(kind));
    if (use == OutputUse::Cache) return fault("a cache is kept in regular files, and this is none");
    if (!S_ISLNK(facts.st_mode)) return open_stream(facts.st_mode & S_IFMT);
    struct statfs system {};
    if (::fstatfs(folder_.get(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC)
      return open_descriptor_link();
    struct stat folder {};
    if (::fstat(folder_.get(), &folder) != 0) return fault(errno);
    if (!may_follow(folder, facts))
      return fault("it is another user's symbolic link in a folder that all may write to");
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlinkat(folder_.get(), name_.c_str(), target.data(), target.size());
    if (length < 0) return fault(errno);
    const std::string_view text(target.data(), static_cast<size_t>(length));
    at = text.starts_with('/') ? std::string(text) : folder_path_ + std::string(text);
  }
  return fault(ELOOP);
}

// A link of /proc, as /dev/stdout leads to: an open file of this process, which is written where it
// stands. Opening it anew would lose its position, and replacing it would miss it.
Status OutputFile::open_descriptor_link() {
  int number = -1;
  const char* end = name_.data() + name_.size();
  const auto [rest, error] = std::from_chars(name_.data(), end, number);
  struct stat meant {};
  struct stat own {};
  if (error != std::errc{} || rest != end ||
      ::fstatat(folder_.get(), name_.c_str(), &meant, 0) != 0 || ::fstat(number, &own) != 0 ||
      !is_same_file(meant, own)) {
    return fault("it is a link of /proc that is no open file of this process");
  }
  if (S_ISDIR(own.st_mode) || S_ISBLK(own.st_mode))
    return fault(std::string(refused_kind(own.st_mode)));
  stream_ = Descriptor(::fcntl(number, F_DUPFD_CLOEXEC, 0));
  return stream_.is_open() ? Status{} : fault(errno);
}

Status OutputFile::open_stream(uint32_t kind) {
  // O_NONBLOCK: a FIFO that nobody reads is refused, not waited for.
  stream_ = Descriptor(::openat(folder_.get(), name_.c_str(),
                                O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK));
  if (!stream_.is_open()) {
    return errno == ENXIO && kind == S_IFIFO ? fault("it is a FIFO that no process reads")
                                             : fault(errno);
  }
  struct stat facts {};
  if (::fstat(stream_.get(), &facts) != 0) return fault(errno);
  if ((facts.st_mode & S_IFMT) != kind) return fault("it was exchanged while it was opened");
  const int flags = ::fcntl(stream_.get(), F_GETFL);
  if (flags < 0 || ::fcntl(stream_.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) return fault(errno);
  return {};
}

Status OutputFile::open_partial() {
  const std::string stem = name_.substr(0, NAME_MAX - kSuffix.size() - 3);  // room for a number
  std::string name = stem + std::string(kSuffix);
  const mode_t mode = use_ == OutputUse::Cache ? 0644 : replaces_ ? mode_ : 0666;
  int foreign = 0;
  for (int attempt = 0; attempt < kOpenAttempts; ++attempt) {
    Descriptor file(::openat(folder_.get(), name.c_str(),
                             O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
    if (file.is_open()) {
      // Between both calls another writer may have taken it for a leftover.
      if (!lock(file.get()) || !is_current(file.get(), folder_.get(), name)) continue;
      file_ = std::move(file);
      partial_name_ = name;
      if (!replaces_ || use_ == OutputUse::Cache) return {};
      // Who may not give files away keeps the new one, as editors do.
      static_cast<void>(!::fchown(file_.get(), owner_, group_));  // glibc wants it looked at
      return ::fchmod(file_.get(), mode_) == 0 ? Status{} : fault(errno);
    }
    if (errno != EEXIST) return fault(folder_path_ + name + ": " + system_reason(errno));
    const Leftover leftover = remove_leftover(folder_.get(), name);
    if (leftover == Leftover::InUse) return fault("another process is writing it");
    if (leftover == Leftover::Foreign)
      name = stem + std::string(kSuffix) + "-" + std::to_string(++foreign);
  }
  return fault("other processes keep replacing " + folder_path_ + name);
}

Status OutputFile::write_at(uint64_t offset_bytes, std::span<const std::byte> bytes) {
  const int error = write_all(file_.get(), offset_bytes, bytes);
  return error == 0 ? Status{} : fault(error);
}

std::string OutputFile::readable_path() const {
  return stream_.is_open() ? "/proc/self/fd/" + std::to_string(file_.get())
                           : folder_path_ + partial_name_;
}

Status OutputFile::send() const {
  struct stat facts {};
  if (::fstat(file_.get(), &facts) != 0) return fault(errno);
  const auto size_bytes = static_cast<uint64_t>(facts.st_size);
  std::vector<std::byte> chunk(std::min<uint64_t>(size_bytes, kSendBytes));
  for (uint64_t done = 0; done < size_bytes;) {
    const size_t wanted = std::min<uint64_t>(chunk.size(), size_bytes - done);
    const ssize_t got = ::pread(file_.get(), chunk.data(), wanted, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fault(got < 0 ? errno : EIO);
    const auto part = std::span(chunk).first(static_cast<size_t>(got));
    if (const int error = write_all(stream_.get(), std::nullopt, part); error != 0)
      return fault(error);
    done += part.size();
  }
  return {};
}

Status OutputFile::put_in_place() {
  const bool durable = use_ == OutputUse::Result;
  if (durable && ::fsync(file_.get()) != 0) return fault(errno);
  if (::renameat(folder_.get(), partial_name_.c_str(), folder_.get(), name_.c_str()) != 0)
    return fault(errno);
  partial_name_.clear();
  if (!durable) return {};
  // The entry of the folder, so that the rename survives a power cut. Some folders may not be read
  // and some file systems refuse; the file is whole anyway.
  const Descriptor folder(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.is_open()) static_cast<void>(::fsync(folder.get()));
  return {};
}

Status OutputFile::resize(uint64_t size_bytes) {
  return ::ftruncate(file_.get(), static_cast<off_t>(size_bytes)) == 0 ? Status{} : fault(errno);
}

Status OutputFile::commit() {
  return stream_.is_open() ? send() : put_in_place();
}

Status write_file(const std::string& path, std::span<const std::byte> bytes, OutputUse use) {
  OutputFile file;
  RLX_RETURN_IF_ERROR(OutputFile::create(path, use, file));
  RLX_RETURN_IF_ERROR(file.write_at(0, bytes));
  return file.commit();
}

}  // namespace rlx
