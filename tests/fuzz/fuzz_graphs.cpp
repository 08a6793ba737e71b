// SPDX-License-Identifier: Apache-2.0
// The graph fuzzer: random graphs on every device present, compiled in several ways, against the
// evaluator. Without arguments it checks what a commit needs; a campaign names its seeds.
#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "compiler/emit/nvrtc.h"
#include "compiler/emit/vulkan_code.h"
#include "tests/fuzz/fuzz_graph.h"
#include "tests/support/harness.h"

using namespace rlx;
using namespace rlx::test;

namespace {

struct Options {
  uint64_t first = 1;
  uint64_t count = 300;
  int nodes = 24;
  int repeats = 1;
  std::string save;    // folder of shrunk failures
  std::string replay;  // folder of earlier ones
  double seconds = 0;  // 0: no limit
  bool print = false;
  bool symbols = false;
};

void report(const std::string& what, const GraphText& graph, const std::string& fault) {
  std::cout << what << ": " << fault << "\n" << graph.dump(1) << std::endl;
}

// Checks the graphs that failed once: check(graph, seed).
template <typename Check>
size_t replay(const Options& options, size_t& checked, const Check& check) {
  size_t failed = 0;
  if (!std::filesystem::is_directory(options.replay)) return 0;
  for (const auto& file : std::filesystem::directory_iterator(options.replay)) {
    if (file.path().extension() != ".json") continue;
    std::ifstream stream(file.path());
    const GraphText graph = GraphText::parse(stream);
    ++checked;
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const std::string fault = check(graph, seed);
      if (fault.empty()) continue;
      report(file.path().string(), graph, fault);
      ++failed;
      break;
    }
  }
  return failed;
}

// Shows a failing graph, made small, and keeps it.
template <typename Check>
void report_small(const Options& options, uint64_t seed, const GraphText& graph,
                  const std::string& fault, const Check& check) {
  std::cout << "seed " << seed << ": " << fault << std::endl;
  const GraphText small = shrink_graph(graph, [&](const GraphText& candidate) {
    return !candidate["nodes"].empty() && !check(candidate).empty();
  });
  report("seed " + std::to_string(seed) + " made small", small, check(small));
  if (options.save.empty()) return;
  std::filesystem::create_directories(options.save);
  std::ofstream(options.save + "/seed-" + std::to_string(seed) + ".json") << small.dump(1) << "\n";
}

// Plans whose sizes a run chooses.
size_t free_campaign(const Options& options, size_t& checked) {
  FreeTally tally;
  size_t failed = replay(options, checked, [&tally](const GraphText& graph, uint64_t seed) {
    return check_free_graph(graph, seed, tally);
  });
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t seed = options.first; seed < options.first + options.count; ++seed) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (options.seconds > 0 && passed.count() > options.seconds) break;
    ++checked;
    const GraphText graph = generate_graph(seed, options.nodes, true);
    if (options.print) std::cout << graph.dump(1) << std::endl;
    const std::string fault = check_free_graph(graph, seed, tally);
    if (fault.empty()) continue;
    ++failed;
    report_small(options, seed, graph, fault, [seed](const GraphText& candidate) {
      FreeTally none;
      return check_free_graph(candidate, seed, none);
    });
  }
  std::cout << "free sizes: " << tally.plans << " plans, right at " << tally.bindings
            << " bindings, refused at " << tally.refused_bindings << ", not judged at "
            << tally.silent << ", without " << tally.refusals
            << " nodes that want numbers; the same bits as " << tally.same_kernels
            << " plans of one size with the same kernels\n";
  return failed;
}

size_t campaign(const Options& options, size_t& checked) {
  size_t failed = replay(options, checked, [&options](const GraphText& graph, uint64_t seed) {
    return check_graph(graph, seed, options.repeats);
  });
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t seed = options.first; seed < options.first + options.count; ++seed) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (options.seconds > 0 && passed.count() > options.seconds) break;
    ++checked;
    const GraphText graph = generate_graph(seed, options.nodes);
    if (options.print) std::cout << graph.dump(1) << std::endl;
    bool says_nothing = false;
    std::string fault = check_graph(graph, seed, options.repeats, &says_nothing);
    if (says_nothing) fault = "the reference does not judge what the generator made";
    if (fault.empty()) continue;
    ++failed;
    report_small(options, seed, graph, fault, [&](const GraphText& candidate) {
      return check_graph(candidate, seed, options.repeats);
    });
  }
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Random graphs on every device present, against the evaluator.\nMost of the time goes into "
      "compiling kernels: on many cores run as many of these as there are, each with seeds of its "
      "own and RLX_TEST_JOBS=1. RLX_TEST_VULKAN=vulkan-nvidia and RLX_TEST_PREFER=matmul_coop,... "
      "reach kernels that graphs this small are not given.");
  app.add_option("--first", options.first, "First seed")->capture_default_str();
  app.add_option("--count", options.count, "Number of graphs")->capture_default_str();
  app.add_option("--seconds", options.seconds, "Start no graph after this time; 0: no limit")
      ->capture_default_str();
  app.add_option("--nodes", options.nodes, "Most nodes of a graph")->capture_default_str();
  app.add_option("--repeats", options.repeats, "Runs of every plan, all with the same bits")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--save", options.save, "Folder that takes the failing graphs, made small");
  app.add_option("--replay", options.replay,
                 "Folder of graphs to check first; without: those of tests/fuzz");
  app.add_flag("--symbols", options.symbols,
               "Graphs with symbols, one plan for all of their values each");
  app.add_flag("--print", options.print, "Print every graph");
  CLI11_PARSE(app, argc, argv);
  // What compilers make ready once stays ready between graphs.
  const SharedDeclarations declarations;
  Diagnostics without_cuda;
  const auto nvrtc = Nvrtc::open({}, without_cuda);
  size_t checked = 0;
  if (options.replay.empty())
    options.replay = options.symbols ? "tests/fuzz/free_graphs" : "tests/fuzz/graphs";
  const size_t failed =
      options.symbols ? free_campaign(options, checked) : campaign(options, checked);
  const std::vector<std::string> said = validation_messages();
  if (!said.empty()) std::cout << said.size() << " validation messages: " << said[0] << "\n";
  std::cout << "fuzz: " << checked << " graphs on " << present_devices().devices.size()
            << " devices, " << failed << " failed\n";
  return failed == 0 && said.empty() ? 0 : 1;
}
