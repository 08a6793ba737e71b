// SPDX-License-Identifier: Apache-2.0
// Processes that judge mutants, and the parent that watches them through shared memory.
#include "tests/fuzz/plans/campaign.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <new>
#include <stdexcept>
#include <thread>

#include "runtime/base/text.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace rlx::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kBatch = 1000;
constexpr uint32_t kMaxJobs = 256;
constexpr uint32_t kMaxBad = 4096;
constexpr int kLeaked = 78;  // exit status: the batch leaks
constexpr uint64_t kNone = UINT64_MAX;

// Of one process: what it does now, and what it has left to do.
struct Slot {
  std::atomic<uint64_t> now{kNone};
  std::atomic<int64_t> began_ns{0};
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> end{0};
  std::atomic<uint64_t> batch_begin{0};
  std::atomic<bool> one_by_one{false};  // look for leaks after each mutant
  std::atomic<bool> leak_named{false};
};

struct Bad {
  std::atomic<bool> written{false};
  uint64_t number = 0;
  char what[400] = {};
};

struct Shared {
  std::atomic<uint64_t> next{0};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> executed{0};
  std::atomic<uint64_t> accepted{0};
  std::atomic<uint64_t> ran{0};
  std::atomic<uint64_t> guarded{0};
  std::atomic<uint64_t> bad{0};
  std::array<std::atomic<uint64_t>, 256> refused{};
  std::array<Bad, kMaxBad> list;
  std::array<Slot, kMaxJobs> slots;

  void add_bad(uint64_t number, const std::string& what) {
    const uint64_t place = bad.fetch_add(1);
    if (place >= kMaxBad) return;
    list[place].number = number;
    std::strncpy(list[place].what, what.c_str(), sizeof list[place].what - 1);
    list[place].written = true;
  }
};

int64_t now_ns() {
  return Clock::now().time_since_epoch().count();
}

bool leaks() {
#if defined(__SANITIZE_ADDRESS__)
  return __lsan_do_recoverable_leak_check() != 0;
#else
  return false;
#endif
}

void count(Shared& shared, const Judgement& verdict, uint64_t number) {
  ++shared.executed;
  if (verdict.refused_by.has_value()) {
    ++shared.refused[static_cast<size_t>(*verdict.refused_by)];
  } else {
    ++shared.accepted;
  }
  if (verdict.ran) ++shared.ran;
  if (verdict.guarded) ++shared.guarded;
  if (!verdict.bad.empty()) shared.add_bad(number, verdict.bad);
}

// In the process: takes batches until none is left. Its exit status.
int work(Shared& shared, Slot& slot, uint64_t end, const MakeJudge& make_judge) {
  const MutantJudge judge = make_judge();
  while (true) {
    if (slot.next >= slot.end) {
      if (shared.stop) return 0;
      const uint64_t begin = shared.next.fetch_add(kBatch);
      if (begin >= end) return 0;
      slot.batch_begin = begin;
      slot.next = begin;
      slot.end = std::min(begin + kBatch, end);
    }
    while (slot.next < slot.end) {
      const uint64_t number = slot.next;
      slot.began_ns = now_ns();
      slot.now = number;
      slot.next = number + 1;
      const Judgement verdict = judge(number);
      // One by one they were counted before.
      if (!slot.one_by_one) count(shared, verdict, number);
      if (!slot.one_by_one || !leaks()) continue;
      shared.add_bad(number, "leaks");
      slot.leak_named = true;
      return kLeaked;
    }
    slot.now = kNone;
    if (!slot.one_by_one && leaks()) return kLeaked;
    if (slot.one_by_one && !slot.leak_named)
      shared.add_bad(slot.batch_begin, "the batch that begins here leaks, no mutant by itself");
    slot.one_by_one = slot.leak_named = false;
  }
}

class Campaign {
 public:
  Campaign(const CampaignOptions& options, const MakeJudge& make_judge)
      : options_(options), make_judge_(make_judge), end_(options.first + options.count) {
    void* memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no shared memory");
    shared_ = new (memory) Shared;
    shared_->next = options.first;
    processes_.assign(std::clamp(options.jobs, 1u, kMaxJobs), 0);
  }
  ~Campaign() { munmap(shared_, sizeof(Shared)); }
  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;

  CampaignResult run() {
    const Clock::time_point begin = Clock::now();
    for (uint32_t job = 0; job < processes_.size(); ++job) start(job);
    while (std::any_of(processes_.begin(), processes_.end(), [](pid_t pid) { return pid != 0; })) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const std::chrono::duration<double> passed = Clock::now() - begin;
      if (options_.seconds > 0 && passed.count() > options_.seconds) shared_->stop = true;
      for (uint32_t job = 0; job < processes_.size(); ++job) watch(job);
    }
    CampaignResult result{.executed = shared_->executed,
                          .accepted = shared_->accepted,
                          .ran = shared_->ran,
                          .guarded = shared_->guarded,
                          .bad = shared_->bad};
    for (const std::atomic<uint64_t>& refused : shared_->refused) result.refused.push_back(refused);
    for (const Bad& bad : shared_->list) {
      if (bad.written) result.list.push_back({.number = bad.number, .what = bad.what});
    }
    std::sort(result.list.begin(), result.list.end(),
              [](const BadMutant& a, const BadMutant& b) { return a.number < b.number; });
    result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return result;
  }

 private:
  [[nodiscard]] std::string log_path(uint32_t job) const {
    return text_of(options_.log_folder, "/process", job, ".log");
  }

  void start(uint32_t job) {
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error("fork refuses");
    if (pid > 0) {
      processes_[job] = pid;
      return;
    }
    const int log = open(log_path(job).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (log >= 0) dup2(log, STDERR_FILENO);
    int status = 1;
    try {
      status = work(*shared_, shared_->slots[job], end_, make_judge_);
    } catch (const std::exception& error) {
      (void)!write(STDERR_FILENO, error.what(), std::strlen(error.what()));
    }
    _exit(status);
  }

  void watch(uint32_t job) {
    if (processes_[job] == 0) return;
    Slot& slot = shared_->slots[job];
    const bool hangs =
        slot.now != kNone &&
        now_ns() - slot.began_ns > static_cast<int64_t>(options_.seconds_per_mutant * 1e9);
    if (hangs) kill(processes_[job], SIGKILL);
    int status = 0;
    if (waitpid(processes_[job], &status, hangs ? 0 : WNOHANG) == 0) return;
    processes_[job] = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kLeaked) {
      // The batch once more, to learn which of them; one by one it ends behind the first.
      if (!slot.one_by_one) slot.next = slot.batch_begin.load();
      slot.one_by_one = true;
    } else {
      const uint64_t number = slot.now;
      ++shared_->executed;
      if (number == kNone)
        throw std::runtime_error("a process ended by itself: " + last_words(job));
      shared_->add_bad(number, (hangs ? std::string("hangs") : death(status)) + last_words(job));
    }
    slot.now = kNone;
    start(job);
  }

  static std::string death(int status) {
    return WIFSIGNALED(status) ? text_of("dies by signal ", WTERMSIG(status), " ")
                               : text_of("ends with status ", WEXITSTATUS(status), " ");
  }

  // What a sanitizer said, in one line.
  [[nodiscard]] std::string last_words(uint32_t job) const {
    std::ifstream log(log_path(job));
    std::string words;
    for (std::string line; std::getline(log, line);) {
      const bool tells = line.find("ERROR") != std::string::npos ||
                         line.find("runtime error") != std::string::npos ||
                         line.find("forbidden") != std::string::npos ||
                         line.find("SUMMARY") != std::string::npos;
      if (tells) words += line + " ";
    }
    return words;
  }

  const CampaignOptions options_;
  const MakeJudge make_judge_;
  const uint64_t end_;
  Shared* shared_ = nullptr;
  std::vector<pid_t> processes_;
};

}  // namespace

CampaignResult run_campaign(const CampaignOptions& options, const MakeJudge& make_judge) {
  return Campaign(options, make_judge).run();
}

}  // namespace rlx::test
