// SPDX-License-Identifier: Apache-2.0
// Small plans written by hand, for Vulkan and CUDA alike: f32 vectors, kernels from GLSL and PTX,
// everything derivable derived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/plan/plan_view.h"
#include "tests/support/plan_fixture.h"

namespace rlx::test {

enum class Role : uint8_t { None, Input, Output };

struct SketchValue {
  std::string name;
  fb::Segment segment = fb::Segment::Arena;
  uint32_t elements = 0;
  uint64_t offset_bytes = 0;
  Role role = Role::None;
};

struct SketchPointer {
  uint32_t value = 0;
  fb::AccessMode mode = fb::AccessMode::Read;
  uint64_t first_element = 0;
  uint64_t elements = 0;  // 0: all of the value
};

struct SketchStep {
  fb::StepKind kind = fb::StepKind::Dispatch;
  uint32_t kernel = 0;
  uint32_t grid = 1;
  uint32_t wave = 0;
  std::vector<SketchPointer> pointers;  // in the order of the kernel's params
  uint32_t fill_pattern = 0;
};

struct SketchEntry {
  std::string name;
  std::vector<SketchValue> values;
  std::vector<SketchStep> steps;
};

// Body of main(); p.a, p.b, ... are the pointers, F32(p.a).v[i] an element, i the invocation.
// The PTX body computes with the registers %a, %b, ..., of which those of pointers that are read
// hold element i of them, and those of pointers that are written are stored there, for i below
// `elements`. A kernel without PTX makes the plan one for Vulkan alone.
struct SketchKernel {
  std::string name;
  std::string body;
  std::vector<fb::AccessMode> pointers;
  std::string ptx;
  uint32_t elements = 0;
  // The number of elements is a count in the params, behind the pointers: p.count. All steps of
  // such kernels share their params.
  bool counted = false;
};

struct SketchWeight {
  std::string name;
  uint64_t offset_bytes = 0;
  std::vector<float> data;
  bool generated = false;
};

struct SketchState {
  std::string name;
  uint64_t offset_bytes = 0;
  uint32_t elements = 0;
  fb::StateInit init = fb::StateInit::Zeros;
  uint32_t init_weight = 0;
};

struct PlanSketch {
  std::string name = "sketch";
  std::vector<SketchWeight> weights;
  std::vector<SketchState> states;
  std::vector<SketchKernel> kernels;
  std::vector<SketchEntry> entries;
  std::vector<SketchEntry> init;  // none or one
  // The header's requirements on the device.
  uint64_t extra_features = 0;
  uint32_t max_shared_bytes = 16384;
  // Of the PTX. From 90 on kernels wait for their predecessors themselves.
  uint32_t cuda_architecture = 80;
};

// Each kernel has workgroups of 64 along x and invocation i = gl_GlobalInvocationID.x.
inline constexpr uint32_t kSketchWorkgroup = 64;

PlanSpec to_spec(const PlanSketch& sketch);
// Verified; a plan that is refused fails the test with the verifier's message.
std::shared_ptr<const PlanView> open_plan(const PlanSketch& sketch);
std::shared_ptr<const PlanView> open_spec(const PlanSpec& spec);

}  // namespace rlx::test
