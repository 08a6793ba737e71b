// SPDX-License-Identifier: Apache-2.0
// Workers: started, watched, and judged by what they left on their boards.
#include "tests/soak/campaign.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

#include "tests/soak/board.h"
#include "tests/soak/seconds_since.h"
#include "tools/rlxrun/errors.h"

namespace rlx::soak {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPollInterval = std::chrono::milliseconds(20);

struct Unmap {
  void operator()(Board* board) const { munmap(board, sizeof(Board)); }
};
using SharedBoard = std::unique_ptr<Board, Unmap>;

SharedBoard make_board() {
  void* memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "mmap of a worker's board");
  return SharedBoard(new (memory) Board{});
}

struct Running {
  pid_t process = 0;
  size_t result = 0;
  SharedBoard board;
  uint64_t seen_replays = 0;
  Phase seen_phase = Phase::Opening;
  Clock::time_point moved = Clock::now();  // when it last got on
  bool stalled = false;                    // and was killed
};

const char* phase_text(Phase phase) {
  switch (phase) {
    case Phase::Opening:
      return "while plan and device were opened";
    case Phase::FirstRun:
      return "in the first run";
    case Phase::Replaying:
      return "while replaying";
    case Phase::Closing:
      return "while closing";
  }
  return "";
}

// What the way in which the process ended says; "": nothing beyond its board.
std::string ending_text(const Running& worker, int wait_status, double stall_seconds) {
  const Board& board = *worker.board;
  const std::string when = std::string(phase_text(board.phase)) + ", after " +
                           std::to_string(board.replays) + " replays";
  if (worker.stalled)
    return "hung for " + std::to_string(static_cast<int>(stall_seconds)) + " s " + when;
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    return "killed by signal " + std::to_string(number) + " (" + strsignal(number) + ") " + when;
  }
  const bool ended_early = WEXITSTATUS(wait_status) != 0 && board.errors == 0;
  if (!ended_early) return {};
  return "ended with exit code " + std::to_string(WEXITSTATUS(wait_status)) + " " + when;
}

class Campaigner {
 public:
  explicit Campaigner(const Options& options) : options_(options) {
    for (const std::string& plan : options.plans) {
      for (const Beside beside : options.beside)
        campaign_.results.push_back({.task = {.plan = plan, .beside = beside}});
    }
  }

  Campaign run() {
    find_device();
    while (next_ < campaign_.results.size() || !running_.empty()) {
      while (next_ < campaign_.results.size() && running_.size() < options_.jobs) start(next_++);
      std::this_thread::sleep_for(kPollInterval);
      for (Running& worker : running_) watch(worker);
      std::erase_if(running_, [](const Running& worker) { return worker.process == 0; });
    }
    compare_first_runs();
    campaign_.seconds = seconds_since(start_);
    return std::move(campaign_);
  }

 private:
  // An even share of what is left of the time; 0: no limit.
  [[nodiscard]] double share(size_t index) const {
    if (options_.seconds == 0) return 0;
    const double left = std::max(options_.seconds - seconds_since(start_), 1e-3);
    const auto waiting = static_cast<double>(campaign_.results.size() - index);
    return left * std::min(1.0, options_.jobs / waiting);
  }

  // In a process of its own too.
  void find_device() {
    const SharedBoard board = make_board();
    const pid_t process = forked([&] { return probe(options_, *board); });
    int wait_status = 0;
    if (waitpid(process, &wait_status, 0) < 0)
      throw std::system_error(errno, std::generic_category(), "waitpid");
    if (!WIFEXITED(wait_status) || board->first_fault().empty()) {
      throw tool::Failure(tool::ExitCode::Internal,
                          "device \"" + options_.device + "\": opening it ended the process");
    }
    if (WEXITSTATUS(wait_status) != 0) {
      throw tool::Failure(static_cast<tool::ExitCode>(WEXITSTATUS(wait_status)),
                          std::string(board->first_fault()));
    }
    campaign_.device = board->first_fault();
  }

  // A process that does `body` and ends with the exit code that it gives, or with this process.
  template <class Body>
  static pid_t forked(const Body& body) {
    const pid_t parent = getpid();
    std::fflush(nullptr);
    const pid_t process = fork();
    if (process < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (process != 0) return process;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    _exit(body());
  }

  void start(size_t index) {
    Running worker{.result = index, .board = make_board()};
    const Task& task = campaign_.results[index].task;
    const double seconds = share(index);
    worker.process = forked([&] { return work(task, options_, seconds, *worker.board); });
    running_.push_back(std::move(worker));
  }

  void watch(Running& worker) {
    int wait_status = 0;
    const pid_t ended = waitpid(worker.process, &wait_status, WNOHANG);
    if (ended < 0) throw std::system_error(errno, std::generic_category(), "waitpid");
    if (ended == 0) {
      kill_if_stalled(worker);
      return;
    }
    judge(worker, wait_status);
    worker.process = 0;
  }

  void kill_if_stalled(Running& worker) const {
    const uint64_t replays = worker.board->replays;
    const Phase phase = worker.board->phase;
    if (replays != worker.seen_replays || phase != worker.seen_phase) {
      worker.seen_replays = replays;
      worker.seen_phase = phase;
      worker.moved = Clock::now();
    } else if (!worker.stalled && seconds_since(worker.moved) > options_.stall_seconds) {
      worker.stalled = true;
      kill(worker.process, SIGKILL);
    }
  }

  void judge(const Running& worker, int wait_status) {
    Result& result = campaign_.results[worker.result];
    const Board& board = *worker.board;
    result.replays = board.replays;
    result.neighbour_replays = board.neighbour_replays;
    result.output_count = board.output_count;
    result.outputs_compared = board.outputs_compared;
    result.mismatches = board.mismatches;
    result.errors = board.errors;
    if (board.phase > Phase::FirstRun) result.first_outputs_hash = board.first_outputs_hash.load();
    result.judges_growth = board.judges_growth != 0;
    result.grown_bytes = steady_growth(board.resident_marks);
    result.grown_objects =
        static_cast<int64_t>(board.end.objects()) - static_cast<int64_t>(board.warm.objects());
    result.replay_seconds = board.replay_seconds;
    result.fault = board.first_fault();
    const std::string ending = ending_text(worker, wait_status, options_.stall_seconds);
    if (!ending.empty()) {
      ++result.errors;
      result.fault += (result.fault.empty() ? "" : "; ") + ending;
    }
    const bool unsuitable =
        WIFEXITED(wait_status) && board.phase == Phase::Opening &&
        WEXITSTATUS(wait_status) == static_cast<int>(tool::ExitCode::DeviceUnsuitable);
    if (unsuitable) {
      result.errors = 0;
      std::swap(result.refused, result.fault);
    }
    judge_growth(result);
    tell(result);
  }

  void judge_growth(Result& result) const {
    if (!result.judges_growth || !result.fault.empty()) return;
    if (result.grown_bytes > static_cast<int64_t>(options_.growth_bytes))
      result.fault = "resident memory grew by " + std::to_string(result.grown_bytes) + " bytes";
    else if (result.grown_objects > 0)
      result.fault = std::to_string(result.grown_objects) + " objects more than before";
  }

  // A plan gives one answer, whatever runs beside it.
  void compare_first_runs() {
    std::map<std::string, uint64_t> hashes;
    for (Result& result : campaign_.results) {
      if (!result.first_outputs_hash) continue;
      const auto [known, is_new] = hashes.emplace(result.task.plan, *result.first_outputs_hash);
      if (is_new || known->second == *result.first_outputs_hash) continue;
      ++result.mismatches;
      if (!result.fault.empty()) continue;
      result.fault = "the first run gave other bits than in another process";
      tell(result);
    }
  }

  static void tell(const Result& result) {
    if (result.fault.empty()) return;
    std::fprintf(stderr, "rlx_soak: fault: %s beside %s: %s\n", result.task.plan.c_str(),
                 name_of(result.task.beside), result.fault.c_str());
  }

  const Options& options_;
  Campaign campaign_;
  std::vector<Running> running_;
  size_t next_ = 0;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

double Result::replays_per_second() const {
  return replay_seconds > 0 ? static_cast<double>(replays) / replay_seconds : 0;
}

double Result::compared_share() const {
  const double all = static_cast<double>(replays) * output_count;
  return all > 0 ? static_cast<double>(outputs_compared) / all : 1;
}

size_t Campaign::fault_count() const {
  return static_cast<size_t>(std::count_if(
      results.begin(), results.end(), [](const Result& result) { return !result.fault.empty(); }));
}

size_t Campaign::refused_count() const {
  return static_cast<size_t>(
      std::count_if(results.begin(), results.end(),
                    [](const Result& result) { return !result.refused.empty(); }));
}

Campaign soak(const Options& options) {
  return Campaigner(options).run();
}

}  // namespace rlx::soak
