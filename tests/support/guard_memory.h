// SPDX-License-Identifier: Apache-2.0
// Blocks of host memory between pages that nobody may touch. A touch is noted, with the block that
// lies nearest, and goes on: so one run tells of every fault. For devices whose addresses are host
// pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rlx::test {

// Which end of a block touches a forbidden page.
enum class GuardSide : uint8_t { Begin, End };

enum class GuardAccess : uint8_t { None, Read, Write };

// A forbidden touch of a page; the first of that page since it was last allowed.
struct GuardTouch {
  uint32_t block = 0;
  int64_t offset_bytes = 0;  // from the block's first byte
  bool is_write = false;
};

// One at a time in a process: the signal handler knows only one.
class GuardMemory {
 public:
  GuardMemory();
  ~GuardMemory();
  GuardMemory(const GuardMemory&) = delete;
  GuardMemory& operator=(const GuardMemory&) = delete;

  // Forgets all blocks. New ones, and what lies between them, hold `fill`.
  void reset(GuardSide side, std::byte fill);

  // A block whose address is `residue` modulo `alignment`, a power of 2 up to a page. Its number.
  // Nothing may touch it at first.
  uint32_t add(uint64_t size_bytes, uint64_t alignment, uint64_t residue);
  // False where the blocks would not fit.
  [[nodiscard]] bool has_room(uint64_t size_bytes) const;

  [[nodiscard]] std::byte* data(uint32_t block) const { return blocks_[block].data; }
  // The block with what is left of its pages.
  [[nodiscard]] std::span<std::byte> pages(uint32_t block) const;

  void allow(uint32_t block, GuardAccess access);
  // Forbids again whatever was touched.
  std::vector<GuardTouch> take_touches();

  // Told on standard error where the process ends because more pages are touched than can be noted,
  // or pages that are far from all blocks. Empty: nothing is told.
  void set_label(const std::string& label);
  static constexpr int kEndedByGuard = 77;

 private:
  struct Block {
    std::byte* first_page = nullptr;
    uint64_t page_bytes = 0;
    std::byte* data = nullptr;
    uint64_t size_bytes = 0;
    GuardAccess access = GuardAccess::None;
  };

  std::byte* region_ = nullptr;
  uint64_t used_bytes_ = 0;
  GuardSide side_ = GuardSide::End;
  std::byte fill_{};
  std::vector<Block> blocks_;
};

}  // namespace rlx::test
