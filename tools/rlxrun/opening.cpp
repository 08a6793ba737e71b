// SPDX-License-Identifier: Apache-2.0
// Opening what a run needs.
#include "tools/rlxrun/opening.h"

#include <algorithm>

#include "runtime/base/input_file.h"
#include "runtime/base/text.h"
#include "tools/program/cache_folder.h"
#include "tools/rlxrun/device.h"
#include "tools/rlxrun/errors.h"
#include "tools/rlxrun/load_progress.h"

namespace rlx::tool {
namespace {

DeviceFacts device_facts(const rlx_device_info& info) {
  return {.id = info.id,
          .name = info.name,
          .driver = info.driver,
          .api_version = info.api_version,
          .architecture = info.architecture,
          .memory_bytes = info.memory_bytes,
          .available_bytes = info.available_bytes,
          .unified_memory = info.unified_memory != 0};
}

// Where what drivers compile is kept unless a file for it is named; empty: nowhere.
std::string pipeline_cache_folder(const Options& options) {
  if (options.no_pipeline_cache || !options.pipeline_cache_path.empty()) return {};
  const std::string folder = default_cache_folder();
  return folder.empty() ? folder : folder + "/pipelines";
}

std::string pick_device(rlx_plan* plan) {
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  check(rlx_plan_get_info(plan, &info));
  std::string note;
  const std::vector<DeviceFacts> devices = list_devices(note);
  const auto present = [&](const std::string& kind) {
    return std::any_of(devices.begin(), devices.end(),
                       [&](const DeviceFacts& device) { return device.id.starts_with(kind); });
  };
  if (info.cuda_architecture_count != 0 && present("cuda")) return "cuda";
  if (info.vulkan_api_version != 0 && present("vulkan")) return "vulkan";
  std::string message = "the plan has code for ";
  if (info.vulkan_api_version != 0) message += "Vulkan";
  if (info.vulkan_api_version != 0 && info.cuda_architecture_count != 0) message += " and ";
  if (info.cuda_architecture_count != 0) message += "CUDA";
  message += "; this machine has ";
  for (const DeviceFacts& device : devices)
    message += device.id + " (" + device.name + ")" + (&device == &devices.back() ? "" : ", ");
  message += devices.empty() ? "no device" : "";
  throw Failure(ExitCode::DeviceUnsuitable, note.empty() ? message : message + "; " + note);
}

}  // namespace

PlanFacts facts_of(const rlx_plan* plan) {
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  check(rlx_plan_get_info(plan, &info));
  return {.name = info.name,
          .producer = info.producer,
          .file_bytes = info.file_bytes,
          .weights_bytes = info.weights_bytes,
          .state_bytes = info.state_bytes,
          .arena_bytes = info.arena_bytes,
          .io_bytes = info.io_bytes};
}

namespace {

// A file that a policy names, as the library takes it.
std::string policy_text(const std::string& path) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 28;
  std::vector<std::byte> bytes;
  check(read_file(path, kMostBytes, bytes));
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.find('\0') != std::string::npos)
    throw Failure(ExitCode::InputRefused, quoted(path) + " is no text: it holds a zero byte");
  return text;
}

}  // namespace

PlanHandle open_plan(const Options& options) {
  rlx_plan_options plan_options = RLX_INIT(rlx_plan_options);
  plan_options.check_weights = options.check_weights ? 1 : 0;
  if (!options.weights_folder.empty()) plan_options.weights_folder = options.weights_folder.c_str();
  plan_options.trust = options.trust;
  std::string text;
  if (options.trust == RLX_TRUST_SIGNED) {
    text = policy_text(options.key_path);
    plan_options.public_keys = text.c_str();
  } else if (options.trust == RLX_TRUST_KNOWN) {
    text = policy_text(options.known_path);
    plan_options.known_code = text.c_str();
  }
  rlx_plan* opened = nullptr;
  check(rlx_plan_open_file(options.plan_path.c_str(), &plan_options, &opened));
  return PlanHandle(opened);
}

DeviceHandle open_wanted_device(const Options& options, rlx_plan* plan, DeviceFacts& facts) {
  const std::string id = options.device == "auto" ? pick_device(plan) : options.device;
  DeviceHandle device = open_device(id, options.validate);
  rlx_device_info info = RLX_INIT(rlx_device_info);
  check(rlx_device_get_info(device.get(), &info));
  facts = device_facts(info);
  return device;
}

bool wants_device_times(const Options& options) {
  return options.profile || !options.trace_path.empty() || options.repeat > 1;
}

SessionHandle create_session(rlx_plan* plan, rlx_device* device, const Options& options,
                             uint32_t queue_depth) {
  rlx_session_options session_options = RLX_INIT(rlx_session_options);
  session_options.jobs = options.jobs;
  session_options.profile = wants_device_times(options) ? 1 : 0;
  const std::string cache_folder = pipeline_cache_folder(options);
  session_options.pipeline_cache_path =
      options.pipeline_cache_path.empty() ? nullptr : options.pipeline_cache_path.c_str();
  session_options.pipeline_cache_folder = cache_folder.empty() ? nullptr : cache_folder.c_str();
  session_options.memory_budget_bytes = options.memory_budget_bytes;
  session_options.require_tuned = options.tune == TuneMode::Locked ? 1 : 0;
  session_options.check_indices = options.check_indices.value_or(queue_depth == 1) ? 1 : 0;
  session_options.queue_depth = queue_depth;
  if (!options.target.empty()) session_options.target = options.target.c_str();
  const PlanFacts facts = facts_of(plan);
  const LoadProgress progress("loading " + (facts.name.empty() ? "the plan" : facts.name) + ": " +
                              bytes_text(facts.weights_bytes) + " of weights, kernels");
  rlx_session* session = nullptr;
  check(rlx_session_create(plan, device, &session_options, &session));
  return SessionHandle(session);
}

std::string program_of(const rlx_plan* plan, const rlx_session* session, uint32_t entry) {
  rlx_program_info program = RLX_INIT(rlx_program_info);
  check(rlx_session_get_program(session, entry, &program));
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  check(rlx_plan_get_info(plan, &info));
  uint32_t programs = 0;
  for (uint32_t i = 0; i < info.target_count; ++i) {
    rlx_target_info target = RLX_INIT(rlx_target_info);
    check(rlx_plan_get_target(plan, i, &target));
    programs += target.target == program.target ? 1 : 0;
  }
  return programs > 1 ? program.name : "";
}

std::vector<DeviceFacts> list_devices(std::string& note) {
  rlx_device_list* opened = nullptr;
  check(rlx_device_list_create(&opened));
  const DeviceListHandle list(opened);
  std::vector<DeviceFacts> devices;
  for (uint32_t i = 0; i < rlx_device_list_count(list.get()); ++i) {
    rlx_device_info info = RLX_INIT(rlx_device_info);
    check(rlx_device_list_get(list.get(), i, &info));
    devices.push_back(device_facts(info));
  }
  note = rlx_device_list_note(list.get());
  return devices;
}

}  // namespace rlx::tool
