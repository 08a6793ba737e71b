// SPDX-License-Identifier: Apache-2.0
// rlx_soak_plans: writes the conformance cases as plans, many cases in each, so that their kernels
// lie beside each other on the device. No device is needed.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>

#include "compiler/emit/cuda_architecture.h"
#include "compiler/support/dtype.h"
#include "tests/support/harness.h"

namespace rlx::test {

#define RLX_OPS(family, ...) std::vector<Case> family##_cases();
#include "compiler/ops/ops.def"
#undef RLX_OPS
std::vector<Case> cooperative_matrix_cases();
std::vector<Case> attention_matrix_cases();
std::vector<Case> cooperative_conv_cases();

namespace {

struct Family {
  const char* name;
  std::vector<Case> (*cases)();
};
constexpr Family kFamilies[] = {
#define RLX_OPS(family, ...) {#family, family##_cases},
#include "compiler/ops/ops.def"
#undef RLX_OPS
    {"cooperative_matrix", cooperative_matrix_cases},
    {"attention_matrix", attention_matrix_cases},
    {"cooperative_conv", cooperative_conv_cases},
};

struct Options {
  std::string folder;
  std::string target = "vulkan";
  std::vector<std::string> architectures;
  std::vector<std::string> families;       // empty: all
  std::vector<std::string> without_types;  // of inputs: cases with such are left out
  size_t batch = 48;
  uint64_t most_bytes = uint64_t{256} << 20;
  uint32_t jobs = 0;
  int optimisation = 0;
  std::string cache;
};

struct Tally {
  size_t cases = 0;
  size_t left_out = 0;
  size_t equal = 0;  // to an earlier case but for what its inputs hold
  size_t large = 0;
  size_t plans = 0;
};

// What a case is compiled from, but for the elements of its weights: rlx_soak makes its own inputs.
std::string code_key(const Case& test) {
  std::string key = test.op + " " + test.attributes + " " + std::to_string(test.outputs);
  for (const auto& input : test.inputs) {
    key += "; ";
    if (!input) continue;
    key += to_string(input->type);
    if (!input->is_param) continue;
    key += " param";
    for (const double value : input->values) key += " " + std::to_string(value);
    for (const int64_t value : input->integers) key += " " + std::to_string(value);
  }
  for (const RegionStep& step : test.region) {
    key += "; " + step.op + " " + std::to_string(static_cast<int>(step.dtype));
    for (const auto& [name, value] : step.attributes) key += " " + name + "=" + to_string(value);
    for (const uint32_t operand : step.operands) key += " " + std::to_string(operand);
  }
  return key;
}

uint64_t input_bytes(const Case& test) {
  uint64_t bytes = 0;
  for (const auto& input : test.inputs) {
    if (input) bytes += static_cast<uint64_t>(element_count(input->type.shape)) * 8;
  }
  return bytes;
}

bool is_left_out(const Case& test, const Options& options) {
  return std::ranges::any_of(test.inputs, [&](const std::optional<CaseTensor>& input) {
    return input && std::ranges::count(options.without_types, name_of(input->type.dtype)) > 0;
  });
}

std::vector<Case> cases_to_write(const Family& family, const Options& options, Tally& tally) {
  std::vector<Case> cases;
  std::set<std::string> keys;
  for (Case& test : family.cases()) {
    ++tally.cases;
    if (is_left_out(test, options)) {
      ++tally.left_out;
    } else if (!keys.insert(code_key(test)).second) {
      ++tally.equal;
    } else if (input_bytes(test) > options.most_bytes) {
      ++tally.large;
    } else {
      cases.push_back(std::move(test));
    }
  }
  return cases;
}

CompileOptions compile_options(const Options& options) {
  CompileOptions compile;
  compile.targets = {options.target};
  compile.optimisation = options.optimisation;
  compile.jobs = options.jobs;
  compile.cache_dir = options.cache;
  for (const std::string& name : options.architectures)
    compile.architectures.push_back(find_cuda_architecture(name)->number);
  return compile;
}

// Large random weights are made on the device instead of taken along: plans travel.
void make_weights_small(Module& module) {
  constexpr size_t kSmall = 4096;
  for (uint32_t i = 0; i < module.weights.size(); ++i) {
    Weight& weight = module.weights[i];
    const auto* host = std::get_if<HostBytes>(&weight.data);
    const DType dtype = weight.type.dtype;
    const bool is_filled = dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
    if (host == nullptr || host->bytes.size() <= kSmall || !is_filled) continue;
    weight.data = RandomData{.distribution = RandomData::Distribution::Normal, .stream = i};
  }
}

// False, and says why on standard error, where the cases do not compile together.
bool write_plan(std::span<const Case> cases, const Options& options, const std::string& name,
                std::ofstream& index, Tally& tally) {
  Diagnostics diagnostics;
  auto built = build_graph(cases, diagnostics);
  const std::string path = options.folder + "/" + name + ".plan";
  if (built) make_weights_small(built->module);
  if (!built ||
      !compile_to_file(std::move(built->module), compile_options(options), path, diagnostics)) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), diagnostics.text().c_str());
    return false;
  }
  ++tally.plans;
  for (size_t i = 0; i < cases.size(); ++i) {
    index << name << ".plan\tc" << i << "\t" << cases[i].op << "\t" << cases[i].name << "\t"
          << cases[i].attributes << "\n";
  }
  return true;
}

bool write_family(const Family& family, const Options& options, std::ofstream& index,
                  Tally& tally) {
  const std::vector<Case> cases = cases_to_write(family, options, tally);
  bool good = true;
  for (size_t first = 0; first < cases.size(); first += options.batch) {
    const size_t count = std::min(options.batch, cases.size() - first);
    char name[128];
    std::snprintf(name, sizeof name, "%s-%04zu", family.name, first);
    good = write_plan(std::span(cases).subspan(first, count), options, name, index, tally) && good;
  }
  return good;
}

bool write_all(const Options& options) {
  std::filesystem::create_directories(options.folder);
  std::ofstream index(options.folder + "/cases.tsv");
  Tally tally;
  bool good = true;
  for (const Family& family : kFamilies) {
    const bool wanted = options.families.empty() ||
                        std::find(options.families.begin(), options.families.end(), family.name) !=
                            options.families.end();
    if (wanted) good = write_family(family, options, index, tally) && good;
  }
  index.close();
  std::printf(
      "%zu cases: %zu left out by type, %zu compile to the code of others, %zu are too large, %zu "
      "plans\n",
      tally.cases, tally.left_out, tally.equal, tally.large, tally.plans);
  return good && index.good();
}

bool is_family(const std::string& name) {
  return std::any_of(std::begin(kFamilies), std::end(kFamilies),
                     [&](const Family& family) { return name == family.name; });
}

void add_flags(CLI::App& app, Options& options) {
  app.add_option("folder", options.folder,
                 "Where the plans go, with cases.tsv: what each output is")
      ->required();
  app.add_option("--target", options.target, "vulkan or a profile of it, or cuda")
      ->capture_default_str();
  app.add_option("--arch", options.architectures, "CUDA architectures, as sm_80,sm_90a")
      ->delimiter(',')
      ->check([](const std::string& name) {
        return find_cuda_architecture(name) != nullptr ? "" : "there is no such architecture";
      });
  app.add_option("--family", options.families, "Families of operators; all unless given")
      ->delimiter(',')
      ->check([](const std::string& name) {
        return is_family(name)
                   ? ""
                   : "there is no such family in compiler/ops/ops.def, nor of cooperative matrices";
      });
  app.add_option("--without-types", options.without_types,
                 "Leave out cases with inputs of these types, as bf16, which a device may lack")
      ->delimiter(',')
      ->check([](const std::string& name) {
        return dtype_from_name(name) ? "" : "there is no such type";
      });
  app.add_option("--batch", options.batch, "Cases in a plan")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--most-bytes", options.most_bytes, "Cases with larger inputs are left out")
      ->capture_default_str();
  app.add_option("-O", options.optimisation, "0: as the conformance tests compile them")
      ->check(CLI::Range(0, 2))
      ->capture_default_str();
  app.add_option("-j,--jobs", options.jobs, "Threads; 0: one per core")->capture_default_str();
  app.add_option("--cache", options.cache, "Kernel code cache")->type_name("DIR");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("rlx_soak_plans: writes the conformance cases as plans for rlx_soak",
               "rlx_soak_plans");
  Options options;
  add_flags(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  return write_all(options) ? 0 : 2;
}

}  // namespace rlx::test

int main(int argc, char** argv) {
  return rlx::test::main(argc, argv);
}
