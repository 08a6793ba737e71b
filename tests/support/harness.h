// SPDX-License-Identifier: Apache-2.0
// Compiles graphs and runs them on every device present, for conformance and end-to-end tests.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/ir/tensor.h"
#include "runtime/device/device.h"
#include "runtime/plan/plan_view.h"
#include "tests/support/case.h"

namespace rlx::test {

// Devices that compute, or those of them that the environment's RLX_TEST_DEVICES names (as
// vulkan:0,cuda:0), with validation where the layer is installed. Opened once. `note` says what is
// missing.
struct Devices {
  std::vector<std::shared_ptr<Device>> devices;
  std::string note;
};
const Devices& present_devices();

// Messages of validation layers on any device so far; must stay empty.
std::vector<std::string> validation_messages();

// A one-node graph per case, all in one entry named "main": inputs "<prefix>i<k>", outputs
// "<prefix>o<k>". nullopt where the compiler refuses one; `diagnostics` says why.
struct CaseGraph {
  Module module;
  std::vector<Tensor> inputs;        // of the entry, in order
  std::vector<size_t> first_output;  // per case
};
std::optional<CaseGraph> build_graph(std::span<const Case> cases, Diagnostics& diagnostics);

// Compiles and opens the verified plan.
std::shared_ptr<const PlanView> compile_plan(Module module, const CompileOptions& options,
                                             Diagnostics& diagnostics);
// An optimisation level for the devices that are present, with the kernel cache of the build
// folder. The environment's RLX_TEST_VULKAN names another target of Vulkan than `vulkan`,
// RLX_TEST_PREFER kernels to take wherever they fit (as matmul_mma,matmul_coop), and RLX_TEST_JOBS
// says how many threads compile kernels: 1 where a process runs on each core.
CompileOptions test_options(int optimisation);

// One run on a fresh session: inputs in the order of the entry's inputs, arena filled with `poison`
// before. Throws std::runtime_error with the status' sentence where the runtime refuses anything.
class TestSession {
 public:
  TestSession(Device& device, std::shared_ptr<const PlanView> plan);
  std::vector<Tensor> run(uint32_t entry, const std::vector<Tensor>& inputs, std::byte poison);
  DeviceSession& session() { return *session_; }

 private:
  std::shared_ptr<const PlanView> plan_;
  std::shared_ptr<DevicePlan> loaded_;
  std::unique_ptr<DeviceSession> session_;
};

// Result of a table of cases, for the printed summary.
struct Tally {
  size_t cases = 0;
  size_t failed = 0;
  size_t skipped = 0;  // the device lacks what the target's code needs, and refused the plan
  double worst_ratio = 0;
};
// "op dtype", the dtype being that of the first input, "-" where there is none.
std::string tally_key(const Case& test);
// How cases are compiled.
struct CaseOptions {
  int optimisation = 0;                   // 2: passes join what cases have apart
  std::string target = {};                // as --target; empty: those of test_options
  std::vector<std::string> without = {};  // as --without
  std::string device_model = {};  // as --device-model, a built-in one; empty: the target's own
};
// Checks every case on the evaluator (against its golden values) and on every device, three times
// with different arena poison for equal bits. A named target that no device runs is only compiled.
// Reports failures through Catch2. Keys: "op dtype device".
void check_cases(std::span<const Case> cases, std::map<std::string, Tally>& tallies,
                 const CaseOptions& options = {});

}  // namespace rlx::test
