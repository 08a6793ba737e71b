// SPDX-License-Identifier: Apache-2.0
// Guard pages, and the signal handler that notes who touched them.
#include "tests/support/guard_memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <stdexcept>

#include "schema/rounding.h"

namespace rlx::test {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kRegionBytes = uint64_t{1} << 36;
// Between two blocks, at least: wide enough for a stray workgroup.
constexpr uint64_t kGapBytes = uint64_t{1} << 20;
constexpr uint32_t kMaxTouches = 64;

struct Touch {
  std::atomic<uintptr_t> address{0};
  std::atomic<bool> is_write{false};
};

// What the handler reads and writes; nothing of it may allocate.
struct HandlerState {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<uint32_t> touches{0};
  std::array<Touch, kMaxTouches> list;
  std::array<char, 256> label{};
  struct sigaction before {};
};
HandlerState g_state;

void tell(const char* what) {
  if (g_state.label[0] == '\0') return;
  (void)!write(STDERR_FILENO, g_state.label.data(), strnlen(g_state.label.data(), 256));
  (void)!write(STDERR_FILENO, what, std::strlen(what));
}

bool wrote(const void* context) {
#if defined(__x86_64__)
  const auto* machine = static_cast<const ucontext_t*>(context);
  return (machine->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  return context == nullptr;
#endif
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (address < g_state.begin || address >= g_state.end) {
    // Not ours: whoever handled it before does, when the instruction runs again.
    tell(": touches forbidden memory that is nobody's\n");
    sigaction(signal, &g_state.before, nullptr);
    return;
  }
  const uint32_t number = g_state.touches.fetch_add(1);
  if (number >= kMaxTouches) {
    tell(": touches more forbidden pages than can be told\n");
    _exit(GuardMemory::kEndedByGuard);
  }
  g_state.list[number].is_write = wrote(context);
  g_state.list[number].address = address;
  mprotect(reinterpret_cast<void*>(address / kPage * kPage), kPage, PROT_READ | PROT_WRITE);
}

void protect(std::byte* begin, uint64_t bytes, int how) {
  if (bytes == 0) return;
  if (mprotect(begin, bytes, how) != 0) throw std::runtime_error("mprotect refuses");
}

int protection(GuardAccess access) {
  if (access == GuardAccess::None) return PROT_NONE;
  return access == GuardAccess::Read ? PROT_READ : PROT_READ | PROT_WRITE;
}

// Test frameworks and sanitizers take the signal too, some anew for each test.
void take_signal() {
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault) return;
  g_state.before = now;
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace

GuardMemory::GuardMemory() {
  if (g_state.begin != 0) throw std::logic_error("a second guard memory");
  void* region =
      mmap(nullptr, kRegionBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) throw std::runtime_error("no address space for guarded memory");
  region_ = static_cast<std::byte*>(region);
  g_state.begin = reinterpret_cast<uintptr_t>(region_);
  g_state.end = g_state.begin + kRegionBytes;
  take_signal();
}

GuardMemory::~GuardMemory() {
  sigaction(SIGSEGV, &g_state.before, nullptr);
  g_state.begin = g_state.end = 0;
  munmap(region_, kRegionBytes);
}

void GuardMemory::reset(GuardSide side, std::byte fill) {
  take_signal();
  if (used_bytes_ > 0) {
    void* again = mmap(region_, used_bytes_, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (again == MAP_FAILED) throw std::runtime_error("no address space for guarded memory");
  }
  used_bytes_ = kGapBytes;
  side_ = side;
  fill_ = fill;
  blocks_.clear();
  g_state.touches = 0;
}

bool GuardMemory::has_room(uint64_t size_bytes) const {
  return size_bytes < kRegionBytes / 4 &&
         used_bytes_ + 2 * size_bytes + 4 * kGapBytes < kRegionBytes;
}

uint32_t GuardMemory::add(uint64_t size_bytes, uint64_t alignment, uint64_t residue) {
  residue %= alignment;
  Block block{.first_page = region_ + used_bytes_, .size_bytes = size_bytes};
  block.page_bytes = round_up(size_bytes + residue, kPage);
  if (side_ == GuardSide::Begin) {
    block.data = block.first_page + residue;
  } else {
    // The last place that ends within the pages; one page more where none begins in them.
    const auto place = [&] {
      const uint64_t last = block.page_bytes - size_bytes;
      return last < residue ? UINT64_MAX : (last - residue) / alignment * alignment + residue;
    };
    if (place() == UINT64_MAX) block.page_bytes += kPage;
    block.data = block.first_page + place();
  }
  if (size_bytes == 0) block.page_bytes = 0;
  used_bytes_ += block.page_bytes + std::max(kGapBytes, round_up(size_bytes, kPage));
  blocks_.push_back(block);
  const auto number = static_cast<uint32_t>(blocks_.size() - 1);
  allow(number, GuardAccess::Write);
  const std::span<std::byte> bytes = pages(number);
  std::fill(bytes.begin(), bytes.end(), fill_);
  allow(number, GuardAccess::None);
  return number;
}

std::span<std::byte> GuardMemory::pages(uint32_t block) const {
  return {blocks_[block].first_page, blocks_[block].page_bytes};
}

void GuardMemory::allow(uint32_t block, GuardAccess access) {
  Block& known = blocks_[block];
  if (known.access == access) return;
  protect(known.first_page, known.page_bytes, protection(access));
  known.access = access;
}

std::vector<GuardTouch> GuardMemory::take_touches() {
  std::vector<GuardTouch> touches;
  const uint32_t count = std::min(g_state.touches.load(), kMaxTouches);
  for (uint32_t i = 0; i < count; ++i) {
    const auto* address = reinterpret_cast<const std::byte*>(g_state.list[i].address.load());
    GuardTouch touch{.is_write = g_state.list[i].is_write};
    int64_t nearest = INT64_MAX;
    for (uint32_t b = 0; b < blocks_.size(); ++b) {
      const int64_t offset = address - blocks_[b].data;
      const auto end = static_cast<int64_t>(blocks_[b].size_bytes);
      const int64_t distance = offset < 0 ? -offset : std::max<int64_t>(offset - end + 1, 0);
      if (distance >= nearest) continue;
      nearest = distance;
      touch.block = b;
      touch.offset_bytes = offset;
    }
    touches.push_back(touch);
    auto* page = const_cast<std::byte*>(address) - reinterpret_cast<uintptr_t>(address) % kPage;
    const auto owner = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) {
      return page >= block.first_page && page < block.first_page + block.page_bytes;
    });
    protect(page, kPage, owner == blocks_.end() ? PROT_NONE : protection(owner->access));
  }
  g_state.touches = 0;
  return touches;
}

void GuardMemory::set_label(const std::string& label) {
  std::strncpy(g_state.label.data(), label.c_str(), g_state.label.size() - 1);
}

}  // namespace rlx::test
