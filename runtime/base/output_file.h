// SPDX-License-Identifier: Apache-2.0
// The one way in which the runtime, the compiler and the tools write a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/descriptor.h"
#include "runtime/base/status.h"

namespace rlx {

// What a file is for decides what its path may lead to.
enum class OutputUse : uint8_t {
  Result,  // that somebody asked for
  Cache,   // that can be made again: links are not followed, streams refused, the disk not awaited
};

// A file that appears whole or not at all. What its path leads to decides how:
//  - nothing, or a regular file: the bytes go to a new file beside it, which takes its name once
//    they have reached the disk. An old file's mode (and owner, where that is allowed) stays.
//  - a symbolic link: it stays, and the file that it leads to is meant, whether or not it exists.
//  - a character device, a FIFO that somebody reads, or an open file of this process (/dev/stdout,
//    /dev/fd/N): it gets the bytes once they are whole; until then they are kept in memory.
//  - a folder, a block device, a socket, a FIFO without a reader: refused.
// No device node, FIFO, socket or link is ever replaced. Messages name the path as it was given.
class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(OutputFile&& other) noexcept = default;
  OutputFile& operator=(OutputFile&& other) noexcept;
  // Removes the new file unless it was committed.
  ~OutputFile();

  // The new file has the ending ".partial" and is locked, so two writers of one path do not mix:
  // the second is refused. What a killed writer left under that name is removed.
  static Status create(const std::string& path, OutputUse use, OutputFile& file);

  // In any order; what is never written is zero.
  Status write_at(uint64_t offset_bytes, std::span<const std::byte> bytes);
  // A path under which what was written can be read until it is committed.
  [[nodiscard]] std::string readable_path() const;
  // Makes the file this long; without, it ends behind the last byte written.
  Status resize(uint64_t size_bytes);
  // Puts the file in its place. Nothing may follow.
  Status commit();

 private:
  Status open_target(const std::string& path, OutputUse use);
  Status open_descriptor_link();
  Status open_stream(uint32_t kind);
  Status open_partial();
  Status put_in_place();
  Status send() const;
  void discard();
  [[nodiscard]] Status fault(const std::string& why) const;
  [[nodiscard]] Status fault(int error) const { return fault(system_reason(error)); }

  std::string path_;  // as given
  OutputUse use_ = OutputUse::Result;
  std::string folder_path_;  // with the slash behind it; empty: the working folder
  std::string name_;         // in the folder, no link
  Descriptor folder_;
  Descriptor stream_;         // open: the bytes go there in the end
  Descriptor file_;           // takes the bytes: the new file, or memory for a stream
  std::string partial_name_;  // of the new file in the folder; empty: there is none
  bool replaces_ = false;     // a file of this mode and owner
  uint32_t mode_ = 0;
  uint32_t owner_ = 0;
  uint32_t group_ = 0;
};

// A whole file at once.
Status write_file(const std::string& path, std::span<const std::byte> bytes,
                  OutputUse use = OutputUse::Result);

}  // namespace rlx
