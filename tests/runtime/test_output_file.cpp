// SPDX-License-Identifier: Apache-2.0
// Laws of output: what is asked for appears whole, and what is no regular file is never replaced.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "runtime/base/output_file.h"
#include "tests/support/catch.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "rlx-output-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    fs::permissions(path_, fs::perms::owner_all, ignored);
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string at(const std::string& name) const { return (path_ / name).string(); }
  std::string put(const std::string& name, const std::string& text) const {
    std::ofstream(at(name), std::ios::binary) << text;
    return at(name);
  }
  [[nodiscard]] size_t count() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path_), {}));
  }

 private:
  fs::path path_;
};

std::string text_at(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

Status write(const std::string& path, const std::string& text, OutputUse use = OutputUse::Result) {
  return write_file(path, std::as_bytes(std::span(text)), use);
}

struct stat facts_of(const std::string& path) {
  struct stat facts {};
  REQUIRE(::lstat(path.c_str(), &facts) == 0);
  return facts;
}

void check_refused(const Status& status, const std::string& path, const std::string& why) {
  INFO(status.message());
  CHECK(status.code() == RLX_IO_ERROR);
  CHECK(status.message().find(path) != std::string::npos);
  CHECK(status.message().find(why) != std::string::npos);
}

// The umask while the object lives.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  ~Umask() { ::umask(before_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  mode_t before_;
};

bool is_root() {
  return ::geteuid() == 0;
}

}  // namespace

TEST_CASE("output_is_whole_and_alone_in_its_folder") {
  const Folder folder;
  REQUIRE(write(folder.at("new"), "first").ok());
  CHECK(text_at(folder.at("new")) == "first");
  REQUIRE(write(folder.at("new"), "").ok());
  CHECK(text_at(folder.at("new")).empty());
  CHECK(folder.count() == 1);
}

TEST_CASE("output_that_is_not_committed_leaves_the_old_file_and_nothing_else") {
  const Folder folder;
  const std::string path = folder.put("x", "old");
  {
    OutputFile file;
    REQUIRE(OutputFile::create(path, OutputUse::Result, file).ok());
    REQUIRE(file.write_at(0, std::as_bytes(std::span("new!", 4))).ok());
    CHECK(text_at(file.readable_path()) == "new!");
    OutputFile second;
    check_refused(OutputFile::create(path, OutputUse::Result, second), path, "another process");
    CHECK(text_at(path) == "old");
  }
  CHECK(text_at(path) == "old");
  CHECK(folder.count() == 1);
}

TEST_CASE("output_gaps_are_zero_and_its_length_is_as_committed") {
  const Folder folder;
  OutputFile file;
  REQUIRE(OutputFile::create(folder.at("x"), OutputUse::Result, file).ok());
  REQUIRE(file.write_at(4, std::as_bytes(std::span("b", 1))).ok());
  REQUIRE(file.write_at(0, std::as_bytes(std::span("a", 1))).ok());
  REQUIRE(file.resize(6).ok());
  REQUIRE(file.commit().ok());
  CHECK(text_at(folder.at("x")) == std::string("a\0\0\0b\0", 6));
}

TEST_CASE("output_keeps_the_mode_of_an_old_file_and_obeys_the_umask_for_a_new_one") {
  const Folder folder;
  const Umask umask(027);
  REQUIRE(write(folder.at("new"), "n").ok());
  CHECK((facts_of(folder.at("new")).st_mode & 0777) == 0640);
  for (const mode_t mode : {0600u, 0666u, 0755u, 0444u}) {
    const std::string path = folder.put("old", "o");
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    REQUIRE(write(path, "n").ok());
    CHECK((facts_of(path).st_mode & 0777) == mode);
    fs::remove(path);
  }
  if (!is_root()) return;
  const std::string path = folder.put("theirs", "o");
  REQUIRE(::chown(path.c_str(), 12345, 54321) == 0);
  REQUIRE(write(path, "n").ok());
  CHECK(facts_of(path).st_uid == 12345);
  CHECK(facts_of(path).st_gid == 54321);
}

TEST_CASE("output_goes_to_the_file_behind_links_which_stay") {
  const Folder folder;
  fs::create_directory(folder.at("below"));
  folder.put("below/file", "old");
  fs::create_symlink("below/file", folder.at("relative"));
  fs::create_symlink(folder.at("relative"), folder.at("absolute"));
  fs::create_symlink("below", folder.at("folder"));
  int number = 0;
  for (const char* name : {"relative", "absolute", "folder/file"}) {
    const std::string text = std::to_string(++number);
    REQUIRE(write(folder.at(name), text).ok());
    CHECK(text_at(folder.at("below/file")) == text);
    CHECK(S_ISREG(facts_of(folder.at("below/file")).st_mode));
  }
  CHECK(fs::read_symlink(folder.at("relative")) == "below/file");
  CHECK(fs::is_symlink(folder.at("absolute")));
  CHECK(folder.count() == 4);
}

TEST_CASE("output_through_a_dangling_link_makes_the_file_that_it_names") {
  const Folder folder;
  fs::create_symlink("not yet", folder.at("link"));
  REQUIRE(write(folder.at("link"), "made").ok());
  CHECK(fs::is_symlink(folder.at("link")));
  CHECK(text_at(folder.at("not yet")) == "made");
  fs::create_symlink("no folder/file", folder.at("lost"));
  check_refused(write(folder.at("lost"), "x"), folder.at("lost"), "No such file");
  fs::create_symlink("circle", folder.at("circle"));
  check_refused(write(folder.at("circle"), "x"), folder.at("circle"), "symbolic links");
  CHECK(fs::is_symlink(folder.at("lost")));
  CHECK(fs::is_symlink(folder.at("circle")));
}

TEST_CASE("output_follows_no_link_of_a_stranger_in_a_folder_for_all") {
  if (!is_root()) {
    std::printf("SKIPPED: only root can make another user's link\n");
    return;
  }
  const Folder folder;
  fs::create_directory(folder.at("shared"));
  REQUIRE(::chmod(folder.at("shared").c_str(), 01777) == 0);
  folder.put("precious", "old");
  fs::create_symlink(folder.at("precious"), folder.at("shared/x"));
  REQUIRE(write(folder.at("shared/x"), "mine").ok());  // root's own link leads on
  REQUIRE(::lchown(folder.at("shared/x").c_str(), 12345, 12345) == 0);
  check_refused(write(folder.at("shared/x"), "evil"), folder.at("shared/x"), "another user's");
  CHECK(text_at(folder.at("precious")) == "mine");
}

TEST_CASE("output_to_a_device_node_is_written_into_it") {
  const struct stat before = facts_of("/dev/null");
  REQUIRE(write("/dev/null", "gone").ok());
  const struct stat after = facts_of("/dev/null");
  CHECK(S_ISCHR(after.st_mode));
  CHECK(after.st_ino == before.st_ino);
  CHECK(after.st_mode == before.st_mode);
  check_refused(write("/dev/full", "x"), "/dev/full", "No space left");
  CHECK(S_ISCHR(facts_of("/dev/full").st_mode));

  const Folder folder;
  const std::string node = folder.at("null");
  if (::mknod(node.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0 ||
      ::close(::open(node.c_str(), O_WRONLY)) != 0) {
    std::printf("SKIPPED: no device node can be made here: %s\n", std::strerror(errno));
    return;
  }
  REQUIRE(write(node, "gone").ok());
  CHECK(S_ISCHR(facts_of(node).st_mode));
  CHECK(facts_of(node).st_rdev == makedev(1, 3));
  fs::create_symlink("null", folder.at("link"));
  REQUIRE(write(folder.at("link"), "gone").ok());
  CHECK(S_ISCHR(facts_of(node).st_mode));
  check_refused(write(node, "x", OutputUse::Cache), node, "regular files");
  const std::string disk = folder.at("disk");
  REQUIRE(::mknod(disk.c_str(), S_IFBLK | 0600, makedev(240, 77)) == 0);
  check_refused(write(disk, "x"), disk, "block device");
  CHECK(S_ISBLK(facts_of(disk).st_mode));
}

TEST_CASE("output_to_a_fifo_reaches_its_reader_and_waits_for_none") {
  const Folder folder;
  const std::string fifo = folder.at("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  check_refused(write(fifo, "x"), fifo, "no process reads");
  check_refused(write(fifo, "x", OutputUse::Cache), fifo, "regular files");
  const std::string sent(300000, 'z');  // more than a FIFO holds
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  REQUIRE(::fcntl(reader, F_SETFL, 0) == 0);
  Status status;
  std::string got;
  std::thread thread([&] { status = write(fifo, sent); });
  char part[4096];
  while (got.size() < sent.size()) {
    const ssize_t count = ::read(reader, part, sizeof part);
    if (count > 0) got.append(part, static_cast<size_t>(count));
    if (count < 0) break;
  }
  thread.join();
  ::close(reader);
  CHECK(status.ok());
  CHECK(got == sent);
  CHECK(S_ISFIFO(facts_of(fifo).st_mode));
  CHECK(folder.count() == 1);
}

TEST_CASE("output_to_an_open_file_of_the_process_goes_on_where_that_stands") {
  const Folder folder;
  const int file = ::open(folder.at("log").c_str(), O_WRONLY | O_CREAT, 0600);
  REQUIRE(file >= 0);
  REQUIRE(::write(file, "before,", 7) == 7);
  REQUIRE(write("/dev/fd/" + std::to_string(file), "between,").ok());
  REQUIRE(::write(file, "after", 5) == 5);
  CHECK(text_at(folder.at("log")) == "before,between,after");
  ::close(file);
  check_refused(write("/proc/self/exe", "x"), "/proc/self/exe", "no open file of this process");
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  REQUIRE(write("/proc/self/fd/" + std::to_string(ends[0]), "hello").ok());
  char got[5];
  CHECK(::read(ends[1], got, 5) == 5);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("output_to_folders_and_sockets_is_refused_by_name") {
  const Folder folder;
  fs::create_directory(folder.at("folder"));
  check_refused(write(folder.at("folder"), "x"), folder.at("folder"), "it is a folder");
  check_refused(write(folder.at("folder/"), "x"), folder.at("folder/"), "it names a folder");
  check_refused(write(folder.at("folder/."), "x"), folder.at("folder/."), "it is a folder");
  check_refused(write("", "x"), "", "the path is empty");
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::strncpy(address.sun_path, folder.at("socket").c_str(), sizeof address.sun_path - 1);
  REQUIRE(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  check_refused(write(folder.at("socket"), "x"), folder.at("socket"), "it is a socket");
  CHECK(S_ISSOCK(facts_of(folder.at("socket")).st_mode));
  ::close(socket);
}

TEST_CASE("output_takes_over_what_a_killed_writer_left_and_nothing_else") {
  const Folder folder;
  const std::string partial = folder.put("x.partial", "what a killed writer left");
  REQUIRE(write(folder.at("x"), "whole").ok());
  CHECK_FALSE(fs::exists(partial));

  // Planted: a link to a file that must stay, a device, a file with another name.
  folder.put("precious", "old");
  fs::create_symlink("precious", partial);
  REQUIRE(write(folder.at("x"), "1").ok());
  CHECK(fs::is_symlink(partial));
  fs::remove(partial);
  fs::create_hard_link(folder.at("precious"), partial);
  REQUIRE(write(folder.at("x"), "2").ok());
  fs::remove(partial);
  REQUIRE(::mkfifo(partial.c_str(), 0600) == 0);
  REQUIRE(write(folder.at("x"), "3").ok());
  CHECK(S_ISFIFO(facts_of(partial).st_mode));
  CHECK(text_at(folder.at("precious")) == "old");
  CHECK(text_at(folder.at("x")) == "3");
  CHECK(folder.count() == 3);
}

TEST_CASE("output_of_the_longest_name_works") {
  const Folder folder;
  const std::string path = folder.at(std::string(255, 'n'));
  REQUIRE(write(path, "x").ok());
  REQUIRE(write(path, "y").ok());
  CHECK(text_at(path) == "y");
}

TEST_CASE("output_to_a_full_disk_leaves_the_old_file_alone") {
  const Folder folder;
  const std::string path = folder.put("x", "old");
  const pid_t child = ::fork();
  if (child == 0) {  // a limit on the size of files: the system's other way of saying "full"
    const rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    std::signal(SIGXFSZ, SIG_IGN);
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(2);
    ::_exit(write(path, std::string(5000, 'n')).code() == RLX_IO_ERROR ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(text_at(path) == "old");
  CHECK(folder.count() == 1);
}

TEST_CASE("output_to_a_folder_that_may_not_be_written_is_refused") {
  const Folder folder;
  fs::create_directory(folder.at("locked"));
  folder.put("locked/x", "old");
  REQUIRE(::chmod(folder.at("locked").c_str(), 0555) == 0);
  if (!is_root()) {
    check_refused(write(folder.at("locked/x"), "new"), folder.at("locked/x"), "Permission denied");
    CHECK(text_at(folder.at("locked/x")) == "old");
  }
  check_refused(write("/proc/self/new", "x"), "/proc/self/new", "");
  check_refused(write(folder.at("locked/x/y"), "x"), folder.at("locked/x/y"), "Not a directory");
  REQUIRE(::chmod(folder.at("locked").c_str(), 0755) == 0);
}

TEST_CASE("output_of_caches_follows_no_link") {
  const Folder folder;
  folder.put("precious", "old");
  fs::create_symlink("precious", folder.at("link"));
  check_refused(write(folder.at("link"), "x", OutputUse::Cache), folder.at("link"),
                "regular files");
  CHECK(text_at(folder.at("precious")) == "old");
  const Umask umask(0);
  REQUIRE(write(folder.at("entry"), "x", OutputUse::Cache).ok());
  CHECK((facts_of(folder.at("entry")).st_mode & 0777) == 0644);
}

}  // namespace rlx
