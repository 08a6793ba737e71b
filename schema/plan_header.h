// SPDX-License-Identifier: Apache-2.0
// The first 4 KiB of a plan file: enough to decide from a remote file whether a device can run it.
// Little-endian.
#pragma once

#include <cstdint>

namespace rlx {

inline constexpr char kPlanMagic[8] = {'R', 'L', 'X', 'P', 'L', 'A', 'N', '\0'};
inline constexpr uint16_t kPlanMajor = 1;
inline constexpr uint16_t kPlanMinor = 7;  // the newest known
// Of plans without profiles that have free symbols or weights in other files, and of those that
// have neither: nothing in them is newer.
inline constexpr uint16_t kPlanMinorFree = 3;
inline constexpr uint16_t kPlanMinorPlain = 2;
inline constexpr uint16_t kPlanMinorProfiles = 4;
inline constexpr uint16_t kPlanMinorTogether = 6;
inline constexpr uint32_t kPlanHeaderBytes = 4096;
inline constexpr uint32_t kPlanMaxSections = 16;
inline constexpr uint32_t kPlanMaxCudaArchitectures = 16;
inline constexpr uint32_t kPlanMaxProfiles = 8;
inline constexpr uint32_t kPlanProfileNameBytes = 32;
inline constexpr uint32_t kMaxParamsBytes = 128;       // Vulkan's guaranteed push-constant size
inline constexpr uint32_t kArenaAlignmentBytes = 256;  // of every value's offset in its segment
inline constexpr uint32_t kIoAlignmentBytes = 16;      // of every io buffer that a caller binds
inline constexpr uint32_t kIndexErrorBytes = 4;        // a step's word of the index_errors segment
inline constexpr uint32_t kMaxAssertionBytes = 1024;   // of its text
inline constexpr uint32_t kMaxRank = 8;
inline constexpr uint32_t kSkipForm = ~uint32_t{0};  // a form's kernel where its step is skipped

// Offset alignment of a section is given in bytes; unknown kinds are skipped unless flagged
// critical. 5 stays free: runtimes of older minors take it for a self-test.
enum class SectionKind : uint32_t {
  Index = 1,    // plan.fbs, 64
  Params = 2,   // params blobs, 16
  Code = 3,     // SPIR-V words, cubin, PTX, 256
  Weights = 4,  // weight bytes as uploaded, 4096
  Debug = 6,    // debug.fbs, 8
  Text = 7,     // text.fbs, 8
};
inline constexpr uint32_t kSectionCritical = 1;

struct PlanSection {
  uint32_t kind;
  uint32_t flags;
  uint64_t offset_bytes;
  uint64_t size_bytes;
  uint64_t checksum;  // XXH3-64 of the section's bytes
};
static_assert(sizeof(PlanSection) == 32);

struct PlanVulkanTarget {
  uint32_t present;
  uint32_t api_version;  // VK_MAKE_API_VERSION
  uint64_t features;     // mask of features.def
  uint32_t max_workgroup_invocations;
  uint32_t max_shared_bytes;
  uint32_t max_params_bytes;
  uint32_t max_grid[3];
};

// What devices a profile was made for; it runs on every one that has what it needs.
enum class DeviceType : uint32_t {
  Any = 0,
  Processor = 1,  // drivers that run kernels on the host's processors, as Mesa's lavapipe
};

// One of several programs that a plan holds for one kind of target. The plan's part for that kind
// (`vulkan`) is then what all of them together need.
struct PlanProfile {
  char name[kPlanProfileNameBytes];  // as in --target of rlxc, zero-padded
  uint32_t target;                   // TargetKind of plan.fbs
  uint32_t device_type;              // DeviceType
  PlanVulkanTarget vulkan;           // what it needs
};

struct PlanCudaTarget {
  uint32_t present;
  uint32_t ptx_architecture;  // 80 for compute_80, 0: no PTX
  uint32_t minimum_driver;    // 12040 for CUDA 12.4
  uint32_t architecture_count;
  uint32_t architectures[kPlanMaxCudaArchitectures];  // 90 for sm_90
};

struct PlanHeader {
  char magic[8];
  uint16_t major;
  uint16_t minor;
  uint32_t header_bytes;
  uint64_t file_bytes;
  uint64_t header_checksum;  // XXH3-64 of the 4 KiB page with this field zero
  uint32_t flags;            // none defined
  uint32_t section_count;
  uint64_t weights_bytes;  // sizes of the segments on the device
  uint64_t state_bytes;
  uint64_t arena_bytes;  // the largest entry's
  uint64_t
      io_bytes;  // the largest entry's inputs and outputs, each rounded up to kArenaAlignmentBytes
  uint64_t host_bytes;  // index, params and code held in host memory while the plan is open
  char producer[32];    // compiler and version, zero-padded
  PlanVulkanTarget vulkan;
  PlanCudaTarget cuda;
  PlanSection sections[kPlanMaxSections];
  uint64_t
      index_error_bytes;  // from minor 1 on: the largest entry's words of index errors; 0 before
  // From minor 4 on. Of a kind of target there are two or more, the most general one first, or
  // none.
  uint32_t profile_count;
  uint32_t reserved;  // 0
  PlanProfile profiles[kPlanMaxProfiles];
};
static_assert(sizeof(PlanHeader) <= kPlanHeaderBytes);

}  // namespace rlx
