// SPDX-License-Identifier: Apache-2.0
// The conformance cases with free sizes: every size of a case's inputs becomes a symbol, the plan
// is compiled for larger ones, and at the case's own sizes, at the largest and at 1 it gives what
// the evaluator gives of a graph of those sizes. Ops of which no case runs so are refused by name.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>
#include <thread>

#include "compiler/import/weights.h"
#include "compiler/ops/op_def.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/free_size.h"
#include "runtime/api/session.h"
#include "tests/support/catch.h"
#include "tests/support/harness.h"
#include "tests/support/judge.h"

namespace rlx::test {

#define RLX_OPS(family, ...) std::vector<Case> family##_cases();
#include "compiler/ops/ops.def"
#undef RLX_OPS
std::vector<Case> cooperative_matrix_cases();
std::vector<Case> attention_matrix_cases();
std::vector<Case> conv_window_cases();
std::vector<Case> cooperative_conv_cases();

namespace {

// What plans are made for, and run on.
struct Place {
  Device& device;
  std::string target;
  std::vector<std::string> without = {};  // as --without
};

// How a case went with one set of its sizes free.
enum class Outcome : uint8_t {
  Right,
  Wrong,
  Refused,  // a size was needed as a number
  Fixed,    // the case's attributes or weights hold the sizes, so that no other fit
  Skipped,  // the device lacks what the plan needs
};

struct Tally {
  std::map<Outcome, size_t> counts;
};

using Sizes = std::map<int64_t, int64_t>;  // in place of a size of the case, this one

// The sizes of a case's inputs that could be others, as far as the inputs show.
std::set<int64_t> sizes_of(const Case& test) {
  std::set<int64_t> sizes;
  for (const auto& input : test.inputs) {
    if (!input || input->is_param) continue;
    for (const Dim& size : input->type.shape) {
      if (size > 1) sizes.insert(size.bound());
    }
  }
  return sizes;
}

int64_t largest_of(int64_t size) {
  return size + size / 2 + 3;
}

// With RLX_FREE_TELL set: why a case was not run with free sizes.
void tell(const Case& test, const std::string& why) {
  if (std::getenv("RLX_FREE_TELL") == nullptr) return;
  std::cout << "TELL " << test.op << ": " << test.name << " " << test.attributes << ": " << why
            << "\n";
}

// The least value of a symbol: 1, or where that does not go (a topk takes no fewer than k), the
// size of the case.
enum class Least : uint8_t { One, Own };

// The case's module with symbols for these sizes; nullopt where it cannot be built so.
std::optional<Module> free_module(const Case& test, const std::set<int64_t>& free_sizes,
                                  Least least, Outcome& outcome) {
  Diagnostics diagnostics;
  auto built = build_graph(std::span(&test, 1), diagnostics);
  if (!built) return std::nullopt;
  Module module = std::move(built->module);
  std::map<int64_t, Dim> symbols;
  for (const int64_t size : free_sizes) {
    const std::string name = "s" + std::to_string(size);
    const int64_t minimum = least == Least::One ? 1 : size;
    symbols[size] = Dim::of({.index = static_cast<uint32_t>(module.symbols.size()),
                             .name = name,
                             .minimum = minimum,
                             .maximum = largest_of(size)});
    module.symbols.push_back({.name = name,
                              .minimum = minimum,
                              .maximum = largest_of(size),
                              .bound = largest_of(size),
                              .is_free = true});
  }
  Graph& graph = module.entries[0];
  for (const ValueId id : graph.inputs) {
    Shape shape = graph.value(id).type.shape;
    for (Dim& size : shape) {
      const auto symbol = symbols.find(size.bound());
      if (symbol != symbols.end()) size = symbol->second;
    }
    graph.value(id).type.shape = shape;
    // As importers ask of every input.
    if (const auto fault = type_fault(graph.value(id).type)) {
      tell(test, *fault);
      outcome = Outcome::Refused;
      return std::nullopt;
    }
  }
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  bool fits = true;
  const auto read = free_size_read_by([&] {
    for (const NodeId node : order) fits = fits && check_and_infer(graph, node, diagnostics);
  });
  outcome = read ? Outcome::Refused : Outcome::Fixed;
  if (!fits || read) {
    tell(test, read ? "inference reads " + to_string(*read) : diagnostics.text());
    return std::nullopt;
  }
  return module;
}

CompileOptions options_for(const Place& place) {
  CompileOptions options = test_options(2);
  options.targets = {place.target};
  options.without = place.without;
  return options;
}

// The case with other sizes; nullopt where its inputs or attributes hold the old ones.
std::optional<CaseGraph> resized(const Case& test, const Sizes& sizes) {
  Case other = test;
  for (auto& input : other.inputs) {
    if (!input || input->is_param) continue;
    for (Dim& size : input->type.shape) {
      const auto found = sizes.find(size.bound());
      if (found == sizes.end() || found->second == found->first) continue;
      if (input->fill == FillKind::Values) return std::nullopt;
      size = found->second;
    }
  }
  Diagnostics diagnostics;
  return build_graph(std::span(&other, 1), diagnostics);
}

std::vector<Tensor> run(Session& session, const CaseGraph& graph, std::byte poison) {
  const fb::Entry& record = session.record(0);
  const auto require = [](const Status& status) {
    if (!status.ok()) throw std::runtime_error(status.message());
  };
  for (uint32_t i = 0; i < graph.inputs.size(); ++i) {
    const Tensor& input = graph.inputs[i];
    std::vector<uint64_t> dims;
    for (const Dim& size : input.type.shape) dims.push_back(static_cast<uint64_t>(size.bound()));
    const std::vector<std::byte> bytes = input.to_bytes();
    const std::string name(PlanView::text(PlanView::value(record, record.inputs()->Get(i)).name()));
    require(session.set_input(0, name,
                              {.bytes = bytes,
                               .dtype = PlanView::value(record, record.inputs()->Get(i)).dtype(),
                               .dims = dims}));
  }
  require(session.poison_arena(poison));
  require(session.run(0));
  Session::BoundEntry bound;
  require(session.bound_entry(0, bound));
  std::vector<Tensor> outputs;
  for (const uint32_t number : *bound.record->outputs()) {
    const fb::Value& value = PlanView::value(*bound.record, number);
    TensorType type{dtype_from_number(value.dtype()).value(), {}};
    for (const uint64_t size : *value.dims()) type.shape.push_back(static_cast<int64_t>(size));
    std::vector<std::byte> bytes(value.size_bytes());
    require(session.read_output(0, PlanView::text(value.name()), bytes));
    outputs.push_back(Tensor::from_bytes(type, bytes));
  }
  return outputs;
}

// Whether the case is beyond its tolerance at these sizes in a plan for them alone too: the values
// of its inputs were chosen for its own.
bool fails_fixed(const Place& place, const CaseGraph& graph, const Tensor& wanted, size_t output,
                 Tolerance tolerance) {
  Diagnostics diagnostics;
  const auto plan = compile_plan(graph.module, options_for(place), diagnostics);
  if (!plan) return true;
  TestSession session(place.device, plan);
  const std::vector<Tensor> got = session.run(0, graph.inputs, std::byte{0xA5});
  return !judge(got[output], wanted, tolerance).good;
}

std::string fault_at(const Place& place, Session& session, const Case& test, const Sizes& sizes) {
  const auto graph = resized(test, sizes);
  if (!graph) return {};  // no case of these sizes
  Diagnostics diagnostics;
  StateValues states;
  const auto wanted = evaluate_entry(graph->module, graph->module.entries[0], graph->inputs, states,
                                     {}, diagnostics);
  if (!wanted) return {};
  try {
    const std::vector<Tensor> got = run(session, *graph, std::byte{0xA5});
    for (size_t i = 0; i < got.size(); ++i) {
      if (got[i].type != (*wanted)[i].type)
        return "gives " + to_string(got[i].type) + ", wanted " + to_string((*wanted)[i].type);
      const bool doubles = (*wanted)[i].type.dtype == DType::f64;
      const Tolerance tolerance =
          test.tolerance == Tolerance::Norm && doubles ? Tolerance::NormDouble : test.tolerance;
      const Verdict verdict = judge(got[i], (*wanted)[i], tolerance);
      if (!verdict.good && !fails_fixed(place, *graph, (*wanted)[i], i, tolerance))
        return verdict.fault;
    }
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

// The case's own sizes, the largest, the least, and those between.
std::vector<Sizes> bindings_of(const std::set<int64_t>& free_sizes, Least least) {
  std::vector<Sizes> bindings(4);
  for (const int64_t size : free_sizes) {
    const int64_t minimum = least == Least::One ? 1 : size;
    bindings[0][size] = size;
    bindings[1][size] = largest_of(size);
    bindings[2][size] = minimum;
    bindings[3][size] = least == Least::One ? std::max<int64_t>(size - 1, 1) : size + 1;
  }
  bindings.push_back(bindings[0]);
  return bindings;
}

std::string text_of(const Sizes& sizes) {
  std::string text;
  for (const auto& [from, to] : sizes)
    text += " s" + std::to_string(from) + "=" + std::to_string(to);
  return text;
}

Outcome outcome_of(const Place& place, const Case& test, const std::set<int64_t>& free_sizes,
                   Least least) {
  Outcome outcome = Outcome::Fixed;
  auto module = free_module(test, free_sizes, least, outcome);
  if (!module) return outcome;
  Diagnostics diagnostics;
  const auto plan = compile_plan(std::move(*module), options_for(place), diagnostics);
  if (!plan) {
    const bool refused =
        std::any_of(diagnostics.all().begin(), diagnostics.all().end(),
                    [](const Diagnostic& said) { return said.code == DiagCode::FreeSize; });
    INFO(test.op << ": " << test.name << " " << test.attributes << "\n" << diagnostics.text());
    CHECK(refused);
    tell(test, diagnostics.text());
    return refused ? Outcome::Refused : Outcome::Wrong;
  }
  std::shared_ptr<DevicePlan> loaded;
  std::unique_ptr<Session> session;
  const Status status = place.device.load(*plan, {}, loaded);
  if (status.code() == RLX_UNSUITABLE_DEVICE) return Outcome::Skipped;
  REQUIRE(status.ok());
  REQUIRE(Session::create(plan, loaded, false, {.max_bindings = 2}, session).ok());
  for (const Sizes& sizes : bindings_of(free_sizes, least)) {
    const std::string fault = fault_at(place, *session, test, sizes);
    INFO(test.op << ": " << test.name << " " << test.attributes << " at" << text_of(sizes) << " on "
                 << place.device.info().id << ": " << fault);
    CHECK(fault.empty());
    if (!fault.empty()) return Outcome::Wrong;
  }
  return Outcome::Right;
}

Outcome outcome_of(const Place& place, const Case& test, const std::set<int64_t>& free_sizes) {
  const Outcome from_one = outcome_of(place, test, free_sizes, Least::One);
  return from_one == Outcome::Fixed ? outcome_of(place, test, free_sizes, Least::Own) : from_one;
}

// All sizes at once, or where that does not go, each by itself and then those together of which
// each went.
void check_case(const Place& place, const Case& test, Tally& tally) {
  const std::set<int64_t> sizes = sizes_of(test);
  if (sizes.empty()) return;
  const Outcome all = outcome_of(place, test, sizes);
  if (all == Outcome::Right || all == Outcome::Wrong || sizes.size() == 1) {
    ++tally.counts[all];
    return;
  }
  std::set<int64_t> right;
  for (const int64_t size : sizes) {
    const Outcome one = outcome_of(place, test, {size});
    ++tally.counts[one];
    if (one == Outcome::Right) right.insert(size);
  }
  if (right.size() > 1) ++tally.counts[outcome_of(place, test, right)];
}

// Each size by itself: matrix units take no free depth, and a number may be the depth's too.
void check_each_size(const Place& place, const Case& test, Tally& tally) {
  for (const int64_t size : sizes_of(test)) ++tally.counts[outcome_of(place, test, {size})];
}

// Whether the case with these sizes free has a plan; brings its kernels into the cache.
bool compiles(const Place& place, const Case& test, const std::set<int64_t>& free_sizes) {
  Outcome outcome = Outcome::Fixed;
  Diagnostics diagnostics;
  auto module = free_module(test, free_sizes, Least::One, outcome);
  return module && compile_to_bytes(std::move(*module), options_for(place), diagnostics);
}

void compile_each_size(const Place& place, const Case& test) {
  for (const int64_t size : sizes_of(test)) static_cast<void>(compiles(place, test, {size}));
}

void compile_case(const Place& place, const Case& test) {
  const std::set<int64_t> sizes = sizes_of(test);
  if (!sizes.empty() && !compiles(place, test, sizes)) compile_each_size(place, test);
}

// How the cases of a family are checked, and what of it compiles kernels.
struct Way {
  void (*check)(const Place& place, const Case& test, Tally& tally);
  void (*compile)(const Place& place, const Case& test);
};
constexpr Way kAllSizes{check_case, compile_case};
constexpr Way kEachSize{check_each_size, compile_each_size};

size_t number_from_environment(const char* name, size_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoul(text, nullptr, 10);
}

// Brings the kernels of the cases into the cache, on all cores: a plan of a case has one or two,
// and compiling them takes most of a check's time.
void compile_beforehand(const std::vector<const Case*>& cases, const Place& place, const Way& way) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < cases.size(); i = next.fetch_add(1)) {
      try {
        way.compile(place, *cases[i]);
      } catch (const std::exception&) {
        continue;  // the check meets it again, and tells
      }
    }
  };
  std::vector<std::thread> threads;
  const size_t jobs = number_from_environment("RLX_TEST_JOBS", std::thread::hardware_concurrency());
  for (size_t i = 1; i < jobs; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

// Every RLX_FREE_EVERY-th case from the RLX_FREE_FIRST-th on.
std::vector<const Case*> taken_of(const std::vector<Case>& all_cases) {
  const size_t step = std::max<size_t>(number_from_environment("RLX_FREE_EVERY", 1), 1);
  std::vector<const Case*> taken;
  for (size_t i = number_from_environment("RLX_FREE_FIRST", 0); i < all_cases.size(); i += step)
    taken.push_back(&all_cases[i]);
  return taken;
}

// vulkan_target: null for cases of CUDA alone.
void check_family(const std::vector<Case>& all_cases, const Way& way, const char* vulkan_target,
                  const std::vector<std::string>& without = {}) {
  const std::vector<const Case*> cases = taken_of(all_cases);
  for (const std::shared_ptr<Device>& device : present_devices().devices) {
    const bool is_vulkan = device->info().architecture == 0;
    if (is_vulkan && vulkan_target == nullptr) continue;
    const Place place{*device, is_vulkan ? vulkan_target : "cuda", without};
    std::map<std::string, Tally> tallies;
    for (size_t i = 0; i < cases.size(); ++i) {
      Tally& tally = tallies[cases[i]->op];
      way.check(place, *cases[i], tally);
      if (tally.counts[Outcome::Skipped] > 0) break;  // others lack it too
      if (i == 0) compile_beforehand(cases, place, way);
    }
    for (auto& [op, tally] : tallies) {
      std::cout << "  " << op << " on " << device->info().id << ": " << tally.counts[Outcome::Right]
                << " right, " << tally.counts[Outcome::Wrong] << " wrong, "
                << tally.counts[Outcome::Refused] << " refused, " << tally.counts[Outcome::Fixed]
                << " fixed by the case, " << tally.counts[Outcome::Skipped] << " skipped\n";
    }
  }
  CHECK(validation_messages().empty());
}

}  // namespace

#define RLX_OPS(family, ...)                             \
  TEST_CASE("free sizes of " #family, "[" #family "]") { \
    check_family(family##_cases(), kAllSizes, "vulkan"); \
  }
#include "compiler/ops/ops.def"
#undef RLX_OPS

// Tensor cores and cooperative matrices.
TEST_CASE("free sizes of products on matrix units", "[matrices]") {
  for (const std::vector<Case>& cases : {matmul_cases(), cooperative_matrix_cases()})
    check_family(cases, kEachSize, "vulkan-nvidia");
}

// Products of halves in large tiles, whose lines alone are free, where smaller tiles or the library
// would be taken.
TEST_CASE("free lines of products in large tiles", "[large_tiles]") {
  std::vector<Case> cases = matmul_cases();
  std::erase_if(cases, [](const Case& test) {
    return !test.name.starts_with("large tiles") && !test.name.starts_with("T39 large tiles");
  });
  const CaseTensor x = tensor(DType::bf16, {270, 136});
  const CaseTensor w = tensor(DType::bf16, {208, 136}).param();
  cases.push_back({.name = "a gated pair",
                   .op = "fused_norm_matmul",
                   .inputs = {x, w, w},
                   .attributes = R"({"activation": "silu"})",
                   .tolerance = Tolerance::Sum});
  cases.push_back({.name = "a residual",
                   .op = "fused_matmul_bias_act",
                   .inputs = {x, w, std::nullopt, tensor(DType::bf16, {270, 208})},
                   .attributes = R"({"trans_w": true})",
                   .tolerance = Tolerance::Sum});
  check_family(cases, kEachSize, nullptr, {"matmul_mma", "library", "matvec", "matvec_stream"});
}

// Of which the number of images alone is free there.
TEST_CASE("free numbers and sizes of images by windows in large tiles", "[large_tiles]") {
  check_family(conv_window_cases(), kEachSize, nullptr, {"conv_mma"});
}

TEST_CASE("free sizes of attention on matrix units", "[attention_matrices]") {
  for (const std::vector<Case>& cases : {attention_cases(), attention_matrix_cases()})
    check_family(cases, kEachSize, "vulkan-nvidia");
}

// Of narrow heads, which LLVM compiles in no time.
TEST_CASE("free sizes of attention by lanes", "[lanes]") {
  std::vector<Case> cases = attention_cases();
  const Dim widest = 16;
  std::erase_if(cases,
                [&](const Case& test) { return test.inputs[0]->type.shape.back() > widest; });
  check_family(cases, kAllSizes, "vulkan-cpu");
}

TEST_CASE("free sizes of convolutions on matrix units", "[conv_matrices]") {
  for (const std::vector<Case>& cases : {conv_cases(), cooperative_conv_cases()})
    check_family(cases, kEachSize, "vulkan-nvidia");
}

}  // namespace rlx::test
