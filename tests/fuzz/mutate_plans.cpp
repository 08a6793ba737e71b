// SPDX-License-Identifier: Apache-2.0
// The mutator of plans: hostile files from good ones, re-sealed, each refused by name or replayed
// without harm. Without arguments it judges what a commit needs.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <thread>

#include "tests/fuzz/plans/campaign.h"
#include "tests/fuzz/plans/plan_mutator.h"
#include "tests/runtime/verify_fixture.h"
#include "tests/support/cubin.h"

using namespace rlx;
using namespace rlx::test;

namespace {

struct Options {
  std::vector<std::string> seeds;  // files and folders
  uint64_t first = 0;
  uint64_t count = 100000;
  uint64_t seed = 1;
  uint32_t jobs = std::max(1u, std::thread::hardware_concurrency());
  double seconds = 0;
  double hang_seconds = 20;
  std::string keep = "bad-mutants";  // folder of those
  std::string explain;               // a mutant's number: its edits, its file and the verdict
  uint64_t most_bytes = 256 << 10;   // of a seed
  bool vulkan = false;
  bool list_fields = false;
};

PlanSpec with_cuda(PlanSpec spec) {
  add_cuda(spec);
  return spec;
}

// Workgroups in clusters of two.
PlanSpec with_clusters(PlanSpec spec) {
  add_cuda(spec);
  spec.vulkan = {};
  spec.cuda.ptx_architecture = 0;
  for (SpecKernel& kernel : spec.kernels) {
    SpecVariant cubin = kernel.variants[1];
    cubin.cluster_x = 2;
    cubin.code = make_cubin({.params_bytes = kernel.params_bytes, .cluster_x = 2});
    kernel.variants = {cubin};
  }
  for (SpecStep& step : spec.entries[0].steps) step.grid = {2, 1, 1};
  return spec;
}

std::vector<SeedPlan> fixture_seeds() {
  return {{"small_plan", serialise(small_plan())},
          {"free_plan", serialise(free_plan())},
          {"formed_plan", serialise(formed_plan())},
          {"alternates_plan", serialise(alternates_plan())},
          {"free_copies_plan", serialise(free_copies_plan())},
          {"ranged_copies_plan", serialise(ranged_copies_plan())},
          {"free_gemm_plan", serialise(free_gemm_plan())},
          {"chain_plan", serialise(chain_plan(5))},
          {"index_plan", serialise(index_plan(3))},
          {"both_targets", serialise(with_cuda(small_plan()))},
          {"clusters", serialise(with_clusters(chain_plan(3)))},
          {"gemm_plan", serialise(gemm_plan())},
          {"map_plan", serialise(map_plan())},
          {"window_plan", serialise(window_plan())},
          {"sized_map_plan", serialise(sized_map_plan())},
          {"alternative_plan", serialise(alternative_plan())},
          {"region_plan", serialise(region_plan())}};
}

// Seeds are good plans, and small.
void add_seed(SeedPlan seed, uint64_t most_bytes, std::vector<SeedPlan>& seeds) {
  const std::vector<VerifyFault> faults = verify_plan(seed.bytes, {.check_weights = true});
  if (!faults.empty()) {
    throw std::runtime_error("seed " + seed.name + " is refused: " + faults[0].message);
  }
  if (seed.bytes.size() <= most_bytes) return seeds.push_back(std::move(seed));
  std::cout << "seed " << seed.name << " has " << seed.bytes.size() << " bytes, and is left out\n";
}

SeedPlan read_seed(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("seed " + path.string() + " cannot be read");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {.name = path.filename().string(), .bytes = {bytes, bytes + text.size()}};
}

std::vector<SeedPlan> all_seeds(const Options& options) {
  std::vector<SeedPlan> seeds;
  for (SeedPlan& seed : fixture_seeds()) add_seed(std::move(seed), options.most_bytes, seeds);
  for (const std::string& place : options.seeds) {
    std::vector<std::filesystem::path> files;
    if (std::filesystem::is_directory(place)) {
      for (const auto& file : std::filesystem::directory_iterator(place)) {
        if (file.path().extension() == ".plan") files.push_back(file.path());
      }
    } else {
      files.emplace_back(place);
    }
    // A mutant's number means the same whatever the order of the folder.
    std::sort(files.begin(), files.end());
    for (const std::filesystem::path& file : files)
      add_seed(read_seed(file), options.most_bytes, seeds);
  }
  return seeds;
}

void write_file(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

void print_table(const CampaignResult& result) {
  const auto rules = all_verify_rules();
  std::cout << "\nrefused by rule\n";
  for (size_t i = 0; i < rules.size(); ++i) {
    if (result.refused[i] == 0) continue;
    std::cout << "  " << std::left << std::setw(7) << rules[i].code << std::setw(22)
              << rules[i].name << std::right << std::setw(10) << result.refused[i] << "\n";
  }
  std::cout << "rules that refused none:";
  for (size_t i = 0; i < rules.size(); ++i) {
    if (result.refused[i] == 0) std::cout << " " << rules[i].code;
  }
  const auto row = [](const char* what, uint64_t number) {
    std::cout << std::left << std::setw(10) << what << std::right << std::setw(12) << number
              << "\n";
  };
  std::cout << "\n\n";
  row("executed", result.executed);
  row("refused", result.executed - result.accepted);
  row("accepted", result.accepted);
  row("run", result.ran);
  row("guarded", result.guarded);
  row("bad", result.bad);
  std::cout << std::fixed << std::setprecision(1) << result.seconds << " s, "
            << static_cast<double>(result.executed) / std::max(result.seconds, 1e-3)
            << " mutants per second\n";
}

void keep_bad(const Options& options, const PlanMutator& mutator, const CampaignResult& result) {
  constexpr size_t kMostTold = 40;
  for (size_t i = 0; i < result.list.size(); ++i) {
    const BadMutant& bad = result.list[i];
    const Mutant mutant = mutator.make(options.seed, bad.number, true);
    const std::string name = options.keep + "/" + std::to_string(options.seed) + "-" +
                             std::to_string(bad.number) + ".plan";
    write_file(name, mutant.bytes);
    if (i >= kMostTold) continue;
    std::cout << "BAD: mutant " << bad.number << ", kept as " << name << ": " << bad.what << "\n";
    for (const std::string& edit : mutant.edits) std::cout << "       " << edit << "\n";
  }
}

MakeJudge judge_maker(const Options& options, const PlanMutator& mutator,
                      const std::vector<SeedPlan>& seeds) {
  return [&options, &mutator, &seeds]() -> MutantJudge {
    auto judge = std::make_shared<PlanJudge>(JudgeOptions{.guards = options.vulkan});
    for (const SeedPlan& seed : seeds) judge->trust(seed.bytes);
    return [judge, &options, &mutator](uint64_t number) {
      return judge->judge(mutator.make(options.seed, number).bytes, number);
    };
  };
}

int explain(const Options& options, const PlanMutator& mutator,
            const std::vector<SeedPlan>& seeds) {
  const uint64_t number = std::stoull(options.explain);
  const Mutant mutant = mutator.make(options.seed, number, true);
  const std::string name = "mutant-" + options.explain + ".plan";
  write_file(name, mutant.bytes);
  for (const std::string& edit : mutant.edits) std::cout << edit << "\n";
  std::cout << "written to " << name << std::endl;
  for (const VerifyFault& fault :
       verify_plan(mutant.bytes, {.max_faults = 8, .check_weights = true}))
    std::cout << fault.message << "\n";
  PlanJudge judge({.guards = options.vulkan});
  for (const SeedPlan& seed : seeds) judge.trust(seed.bytes);
  const Judgement verdict = judge.judge(mutant.bytes, number);
  std::cout << (verdict.refused_by ? "refused" : "accepted") << (verdict.ran ? ", run" : "")
            << (verdict.guarded ? ", guarded" : "")
            << (verdict.bad.empty() ? "" : ", BAD: " + verdict.bad) << "\n";
  return verdict.bad.empty() ? 0 : 1;
}

// Says why there are none. Asked in a process of its own: a driver's threads do not survive the
// forks that follow.
bool has_guards() {
  const pid_t pid = fork();
  if (pid == 0) {
    const PlanJudge probe({.guards = true});
    if (!probe.no_guards().empty())
      std::cout << "SKIPPED: no guarded runs: " << probe.no_guards() << "; 0 failed" << std::endl;
    _exit(probe.no_guards().empty() ? 0 : 1);
  }
  int status = 1;
  return waitpid(pid, &status, 0) == pid && status == 0;
}

int campaign(const Options& options, const PlanMutator& mutator,
             const std::vector<SeedPlan>& seeds) {
  if (options.vulkan && !has_guards()) return 0;
  std::filesystem::create_directories(options.keep);
  const CampaignResult result = run_campaign({.first = options.first,
                                              .count = options.count,
                                              .jobs = options.jobs,
                                              .seconds_per_mutant = options.hang_seconds,
                                              .seconds = options.seconds,
                                              .log_folder = options.keep},
                                             judge_maker(options, mutator, seeds));
  keep_bad(options, mutator, result);
  print_table(result);
  return result.bad == 0 ? 0 : 1;
}

int run(const Options& options) {
  const std::vector<SeedPlan> seeds = all_seeds(options);
  const PlanMutator mutator(seeds);
  if (options.list_fields) {
    for (const std::string& name : mutator.field_names()) std::cout << name << "\n";
    return 0;
  }
  std::cout << seeds.size() << " seeds" << std::endl;
  if (!options.explain.empty()) return explain(options, mutator, seeds);
  return campaign(options, mutator, seeds);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Mutates plans: each mutant is refused by name, or replayed without harm");
  app.add_option("seeds", options.seeds, "plan files, or folders of them, besides built-in ones");
  app.add_option("--first", options.first, "number of the first mutant");
  app.add_option("--count", options.count, "how many");
  app.add_option("--seed", options.seed, "a mutant is known by seed and number");
  app.add_option("--jobs", options.jobs, "processes");
  app.add_option("--seconds", options.seconds, "end after so long; 0: no limit");
  app.add_option("--hang", options.hang_seconds, "seconds after which a mutant hangs");
  app.add_option("--keep", options.keep, "folder for bad mutants and logs");
  app.add_option("--most-bytes", options.most_bytes, "larger seeds are left out");
  app.add_option("--explain", options.explain, "number of one mutant to write, explain and judge");
  app.add_flag("--vulkan", options.vulkan, "run what is accepted on lavapipe, guarded, too");
  app.add_flag("--list-fields", options.list_fields, "print the fields that are edited");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::cout << "FAILED: " << error.what() << "\n";
    return 1;
  }
}
