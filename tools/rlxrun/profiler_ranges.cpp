// SPDX-License-Identifier: Apache-2.0
// The part of NVTX 3 that ranges need: a profiler's library is handed tables of our function
// pointers and fills in its own. Numbers and types are those of nvtxDetail/nvtxTypes.h.
#include "tools/rlxrun/profiler_ranges.h"

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdlib>

#include "tools/rlxrun/errors.h"

namespace rlx::tool {
namespace {

constexpr const char* kLibrary = "libnvToolsExt.so.1";
constexpr const char* kInjection = "NVTX_INJECTION64_PATH";

constexpr uint32_t kCallbacksTable = 1;
constexpr uint32_t kVersionTable = 3;
constexpr uint32_t kCoreModule = 1;
constexpr size_t kRangePushA = 9;
constexpr size_t kRangePop = 11;
constexpr size_t kCoreFunctions = 16;

using Function = void (*)();
using ExportTable = const void* (*)(uint32_t table);
using Initialize = int (*)(ExportTable table);

struct Callbacks {
  size_t struct_bytes;
  int (*function_table)(uint32_t module, Function*** table, unsigned* size);
};
struct VersionInfo {
  size_t struct_bytes;
  uint32_t version;
  uint32_t reserved;
  void (*set_version)(uint32_t version);
};

// A profiler calls back without saying for whom: there is one table in a process.
std::array<Function, kCoreFunctions>& core_functions() {
  static std::array<Function, kCoreFunctions> functions{};
  return functions;
}

int function_table(uint32_t module, Function*** table, unsigned* size) {
  // Function 0 has no place; behind the last one stands a null.
  static std::array<Function*, kCoreFunctions + 1> places{};
  if (module != kCoreModule) return 0;
  for (size_t i = 1; i < kCoreFunctions; ++i) places[i] = &core_functions()[i];
  if (table != nullptr) *table = places.data();
  if (size != nullptr) *size = kCoreFunctions;
  return 1;
}

const void* export_table(uint32_t table) {
  static const Callbacks callbacks{.struct_bytes = sizeof(Callbacks),
                                   .function_table = function_table};
  static const VersionInfo version{.struct_bytes = sizeof(VersionInfo),
                                   .version = 3,
                                   .reserved = 0,
                                   .set_version = [](uint32_t) {}};
  if (table == kCallbacksTable) return &callbacks;
  return table == kVersionTable ? &version : nullptr;
}

template <typename Wanted>
Wanted find(void* library, const char* name) {
  return reinterpret_cast<Wanted>(::dlsym(library, name));
}

[[noreturn]] void fail(const std::string& why) {
  throw Failure(ExitCode::Usage,
                "--nvtx: " + why + "; run rlxrun under a profiler, as in nsys profile rlxrun ...");
}

}  // namespace

ProfilerRanges ProfilerRanges::open() {
  ProfilerRanges ranges;
  if (const char* path = std::getenv(kInjection); path != nullptr && *path != '\0') {
    void* library = ::dlopen(path, RTLD_NOW);
    if (library == nullptr)
      fail(std::string(kInjection) + " names a library that cannot be loaded: " + ::dlerror());
    const auto initialize = find<Initialize>(library, "InitializeInjectionNvtx2");
    if (initialize == nullptr || initialize(export_table) != 1)
      fail("the library \"" + std::string(path) + "\", which " + kInjection +
           " names, takes no ranges");
    ranges.push_ = reinterpret_cast<Push>(core_functions()[kRangePushA]);
    ranges.pop_ = reinterpret_cast<Pop>(core_functions()[kRangePop]);
  } else if (void* library = ::dlopen(kLibrary, RTLD_NOW)) {
    ranges.push_ = find<Push>(library, "nvtxRangePushA");
    ranges.pop_ = find<Pop>(library, "nvtxRangePop");
  } else {
    fail("nobody takes ranges: " + std::string(kInjection) + " is not set, and there is no " +
         kLibrary);
  }
  if (ranges.push_ == nullptr || ranges.pop_ == nullptr)
    fail("the profiler's library takes no ranges that lie inside each other");
  return ranges;
}

ProfilerRanges::Range::Range(const ProfilerRanges& ranges, const std::string& name)
    : ranges_(ranges) {
  if (ranges_.push_ != nullptr) ranges_.push_(name.c_str());
}

ProfilerRanges::Range::~Range() {
  if (ranges_.pop_ != nullptr) ranges_.pop_();
}

}  // namespace rlx::tool
