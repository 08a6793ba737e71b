// SPDX-License-Identifier: Apache-2.0
// A worker: one session under test, and its neighbours on threads of their own.
#include "tests/soak/worker.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "tests/soak/replayer.h"
#include "tests/soak/seconds_since.h"
#include "tools/rlxrun/device.h"
#include "tools/rlxrun/errors.h"

namespace rlx::soak {
namespace {

constexpr uint64_t kLeastReplays = 2;
// Growth is judged over the replays after the first quarter, and only where there are so many.
constexpr double kWarmShare = 0.25;
constexpr uint64_t kLeastJudged = 64;
// What the arena holds before the first two runs, whose outputs must be equal.
constexpr uint8_t kPoison = 0xFF;
constexpr uint8_t kOtherPoison = 0x00;

tool::PlanHandle open_plan(const std::string& path) {
  rlx_plan* plan = nullptr;
  tool::check(rlx_plan_open_file(path.c_str(), nullptr, &plan));
  return tool::PlanHandle(plan);
}

// The tell-tale bytes of each mismatch, of as few as one looks at.
class Keeper {
 public:
  Keeper(const std::string& folder, const std::string& plan)
      : prefix_(folder.empty() ? "" : folder + "/" + std::filesystem::path(plan).stem().string()) {}

  void keep(const std::vector<Mismatch>& mismatches) {
    if (prefix_.empty()) return;
    for (const Mismatch& mismatch : mismatches) {
      const int number = kept_++;
      if (number >= kMostKept) return;
      const std::string name = prefix_ + "." + mismatch.output + "." + std::to_string(number);
      write(name + ".got", mismatch.got);
      write(name + ".wanted", *mismatch.wanted);
    }
  }

 private:
  static constexpr int kMostKept = 16;
  static void write(const std::string& path, const std::vector<std::byte>& bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

  std::string prefix_;
  std::atomic<int> kept_ = 0;
};

void tell(Board& board, Keeper& keeper, const std::string& where,
          const std::vector<Mismatch>& mismatches) {
  if (mismatches.empty()) return;
  keeper.keep(mismatches);
  const Mismatch& first = mismatches.front();
  board.tell_fault(where + ": output \"" + first.output + "\" differs from the first run in " +
                   std::to_string(first.bytes_differing) + " bytes, the first at " +
                   std::to_string(first.first_byte) +
                   (mismatches.size() == 1
                        ? ""
                        : "; so do " + std::to_string(mismatches.size() - 1) + " other outputs"));
  board.mismatches += mismatches.size();
}

// Runs `body` and puts what it throws on the board.
template <class Body>
bool guarded(Board& board, const std::string& who, const Body& body) {
  std::string what;
  try {
    body();
    return true;
  } catch (const std::exception& error) {
    what = error.what();
  }
  board.tell_fault(board.phase == Phase::Replaying
                       ? who + "replay " + std::to_string(board.replays) + ": " + what
                       : what);
  ++board.errors;
  return false;
}

// A session that replays on a thread of its own until it is stopped, or fails.
class Neighbour {
 public:
  Neighbour(std::string who, Replayer& replayer, const FirstRun& first, uint64_t compare_bytes,
            Board& board, Keeper& keeper)
      : who_(std::move(who)),
        replayer_(replayer),
        first_(first),
        compare_bytes_(compare_bytes),
        board_(board),
        keeper_(keeper),
        thread_([this] { run(); }) {}
  ~Neighbour() {
    stops_ = true;
    thread_.join();
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  [[nodiscard]] bool failed() const { return failed_; }

 private:
  void run() {
    failed_ = !guarded(board_, who_ + " beside ", [this] {
      std::vector<Mismatch> mismatches;
      while (!stops_) {
        replayer_.replay(first_, compare_bytes_, mismatches);
        ++board_.neighbour_replays;
        tell(board_, keeper_, who_ + " beside replay " + std::to_string(board_.replays),
             mismatches);
        mismatches.clear();
      }
    });
  }

  std::string who_;
  Replayer& replayer_;
  const FirstRun& first_;
  uint64_t compare_bytes_;
  Board& board_;
  Keeper& keeper_;
  std::atomic<bool> stops_ = false;
  std::atomic<bool> failed_ = false;
  std::thread thread_;  // last: it uses the others
};

struct Marks {
  uint64_t warm_replays = 0;  // before the first
  size_t taken = 0;
};

// The sessions of one task. Members are closed in the reverse of their order.
class Worker {
 public:
  Worker(const Task& task, const Options& options, Board& board)
      : options_(options),
        board_(board),
        keeper_(options.keep_folder, task.plan),
        plan_(open_plan(task.plan)),
        device_(tool::open_device(options.device, false)),
        seeds_{.seed = options.seed, .seeded_max = options.seeded_max},
        replayer_(plan_.get(), device_.get(), seeds_) {
    if (task.beside == Beside::Self || task.beside == Beside::All)
      twin_.emplace(plan_.get(), device_.get(), seeds_);
    if (task.beside == Beside::Copy || task.beside == Beside::All) open_copy();
  }

  void run(double seconds) {
    const auto start = std::chrono::steady_clock::now();
    footprint_now();  // its own pages are resident from here on
    first_runs();
    start_neighbours();
    board_.phase = Phase::Replaying;
    const auto begun = std::chrono::steady_clock::now();
    const double left = seconds - seconds_since(start);
    std::vector<Mismatch> mismatches;
    Marks marks;
    for (uint64_t replays = 0; replays < options_.replays; ++replays) {
      const double passed = seconds_since(begun);
      if (seconds > 0 && replays >= kLeastReplays && passed > left) break;
      mark_footprint(marks, replays, share_done(replays, passed, seconds > 0 ? left : 0));
      replayer_.replay(first_, options_.compare_bytes, mismatches);
      tell(board_, keeper_, "replay " + std::to_string(replays), mismatches);
      mismatches.clear();
      ++board_.replays;
      board_.outputs_compared = replayer_.outputs_compared();
      if (neighbours_failed()) break;
    }
    board_.replay_seconds = seconds_since(begun);
    board_.end = footprint_now();
    while (marks.taken < board_.resident_marks.size())
      board_.resident_marks[marks.taken++] = board_.end.resident_bytes;
    board_.judges_growth =
        marks.warm_replays != 0 && board_.replays >= marks.warm_replays + kLeastJudged ? 1 : 0;
  }

 private:
  // A device handle of its own: a queue of its own on Vulkan, and the same context on CUDA.
  void open_copy() {
    copy_plan_ = open_plan(options_.copy_plan);
    copy_device_ = tool::open_device(options_.device, false);
    copy_.emplace(copy_plan_.get(), copy_device_.get(), seeds_);
  }

  // Alone on the device, so that these are right where only neighbours do harm.
  void first_runs() {
    board_.phase = Phase::FirstRun;
    board_.output_count = replayer_.output_count();
    first_ = replayer_.first_run(kPoison);
    board_.first_outputs_hash = first_.hash();
    if (replayer_.first_run(kOtherPoison).hash() != first_.hash()) {
      board_.tell_fault("the second run, over an arena of other bytes, gave other outputs");
      ++board_.mismatches;
    }
    if (copy_) copy_first_ = copy_->first_run(kPoison);
  }

  void start_neighbours() {
    const auto start = [this](const char* who, std::optional<Replayer>& replayer,
                              const FirstRun& first) {
      if (!replayer) return;
      neighbours_.push_back(std::make_unique<Neighbour>(who, *replayer, first,
                                                        options_.compare_bytes, board_, keeper_));
    };
    start("the second session", twin_, first_);
    start("the plan of --copy", copy_, copy_first_);
  }

  // Of the replays or the time that the run may take; limit 0: of the replays.
  [[nodiscard]] double share_done(uint64_t replays, double passed, double limit) const {
    const double of_replays = static_cast<double>(replays) / static_cast<double>(options_.replays);
    return std::max(of_replays, limit > 0 ? passed / limit : 0);
  }

  // Looks at the footprint where the next span begins.
  void mark_footprint(Marks& marks, uint64_t replays, double share) {
    if (marks.taken == kSpans || replays == 0) return;
    const double begin = kWarmShare + (1 - kWarmShare) * static_cast<double>(marks.taken) /
                                          static_cast<double>(kSpans);
    if (share < begin) return;
    const Footprint now = footprint_now();
    if (marks.taken == 0) {
      board_.warm = now;
      marks.warm_replays = replays;
    }
    board_.resident_marks[marks.taken++] = now.resident_bytes;
  }

  [[nodiscard]] bool neighbours_failed() const {
    for (const auto& neighbour : neighbours_) {
      if (neighbour->failed()) return true;
    }
    return false;
  }

  const Options& options_;
  Board& board_;
  Keeper keeper_;
  tool::PlanHandle plan_;
  tool::PlanHandle copy_plan_;
  tool::DeviceHandle device_;
  tool::DeviceHandle copy_device_;
  Seeds seeds_;
  Replayer replayer_;
  std::optional<Replayer> twin_;
  std::optional<Replayer> copy_;
  FirstRun first_;
  FirstRun copy_first_;
  std::vector<std::unique_ptr<Neighbour>> neighbours_;
};

}  // namespace

int probe(const Options& options, Board& board) {
  try {
    const tool::DeviceHandle device = tool::open_device(options.device, false);
    rlx_device_info info = RLX_INIT(rlx_device_info);
    tool::check(rlx_device_get_info(device.get(), &info));
    board.tell_fault(std::string(info.id) + " \"" + info.name + "\", driver " + info.driver);
    return static_cast<int>(tool::ExitCode::Ok);
  } catch (const tool::Failure& failure) {
    board.tell_fault(failure.what());
    return static_cast<int>(failure.code());
  }
}

int work(const Task& task, const Options& options, double seconds, Board& board) {
  tool::ExitCode code = tool::ExitCode::Ok;
  const bool good = guarded(board, "", [&] {
    try {
      Worker worker(task, options, board);
      worker.run(seconds);
      board.phase = Phase::Closing;
    } catch (const tool::Failure& failure) {
      code = failure.code();
      throw;
    }
  });
  if (good) return static_cast<int>(tool::ExitCode::Ok);
  return static_cast<int>(code == tool::ExitCode::Ok ? tool::ExitCode::Internal : code);
}

}  // namespace rlx::soak
