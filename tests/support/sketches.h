// SPDX-License-Identifier: Apache-2.0
// Sketches that several suites run: what a device must get right, in a few f32 vectors.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "schema/rounding.h"
#include "tests/support/plan_sketch.h"

namespace rlx::test {

inline constexpr fb::AccessMode kRead = fb::AccessMode::Read;
inline constexpr fb::AccessMode kWrite = fb::AccessMode::Write;
inline constexpr fb::AccessMode kReadWrite = fb::AccessMode::ReadWrite;
inline constexpr fb::Segment kIo = fb::Segment::Io;
inline constexpr uint32_t kCount = 1000;  // no multiple of the workgroup
inline constexpr uint32_t kGrid = ceil_div(kCount, kSketchWorkgroup);

inline SketchKernel double_plus_one() {
  return {.name = "region",
          .body = "if (i < 1000) F32(p.b).v[i] = F32(p.a).v[i] * 2.0 + 1.0;",
          .pointers = {kRead, kWrite},
          .ptx = "fma.rn.f32 %b, %a, 0f40000000, 0f3f800000;",
          .elements = kCount};
}

inline SketchKernel add_kernel() {
  return {.name = "transpose",
          .body = "if (i < 1000) F32(p.c).v[i] = F32(p.a).v[i] + F32(p.b).v[i];",
          .pointers = {kRead, kRead, kWrite},
          .ptx = "add.f32 %c, %a, %b;",
          .elements = kCount};
}

inline SketchStep dispatch(uint32_t kernel, uint32_t wave, std::vector<SketchPointer> pointers) {
  return {.kernel = kernel, .grid = kGrid, .wave = wave, .pointers = std::move(pointers)};
}

// y = 2 * x + 1
inline PlanSketch affine_sketch() {
  return {.kernels = {double_plus_one()},
          .entries = {
              {.name = "main",
               .values = {{.name = "x", .segment = kIo, .elements = kCount, .role = Role::Input},
                          {.name = "y", .segment = kIo, .elements = kCount, .role = Role::Output}},
               .steps = {dispatch(0, 0, {{0, kRead}, {1, kWrite}})}}}};
}

// What a kernel that found x indices outside does: adds the word x, an integer, to its word of
// index errors. y is x.
inline PlanSketch index_errors_sketch() {
  return {.kernels = {{.name = "gather",
                       .body = "if (i < 1) F32(p.b).v[i] = uintBitsToFloat("
                               "floatBitsToUint(F32(p.a).v[i]) + floatBitsToUint(F32(p.b).v[i]));",
                       .pointers = {kRead, kReadWrite},
                       .ptx = "{ .reg .b32 x, y; mov.b32 x, %a; mov.b32 y, %b; add.u32 y, y, x; "
                              "mov.b32 %b, y; }",
                       .elements = 1}},
          .entries = {
              {.name = "main",
               .values = {{.name = "x", .segment = kIo, .elements = 1, .role = Role::Input},
                          {.name = "y", .segment = kIo, .elements = 1, .role = Role::Output},
                          {.name = "errors", .segment = fb::Segment::IndexErrors, .elements = 1}},
               .steps = {{.grid = 1, .pointers = {{0, kRead}, {2, kReadWrite}}},
                         {.kind = fb::StepKind::Copy, .pointers = {{0, kRead}, {1, kWrite}}}}}}};
}

// x -> eight times 2 * h + 1 through two arena values in turn -> y: every step waits for the one
// before.
inline PlanSketch chain_sketch() {
  PlanSketch sketch{.kernels = {double_plus_one()}};
  SketchEntry entry{
      .name = "main",
      .values = {{.name = "x", .segment = kIo, .elements = kCount, .role = Role::Input},
                 {.name = "y", .segment = kIo, .elements = kCount, .role = Role::Output}}};
  for (uint32_t i = 0; i < 7; ++i) {
    entry.values.push_back(
        {.name = "h" + std::to_string(i), .elements = kCount, .offset_bytes = i % 2 * 4096u});
  }
  for (uint32_t i = 0; i < 8; ++i) {
    entry.steps.push_back(
        dispatch(0, i, {{i == 0 ? 0 : i + 1, kRead}, {i == 7 ? 1 : i + 2, kWrite}}));
  }
  sketch.entries.push_back(std::move(entry));
  return sketch;
}

// x -> `width` chains of `depth` affine steps side by side -> their sums, through kernels that wait
// for their predecessors themselves.
inline PlanSketch wide_sketch(uint32_t width, uint32_t depth) {
  PlanSketch sketch{.kernels = {double_plus_one(), add_kernel()}, .cuda_architecture = 90};
  SketchEntry entry{
      .name = "main",
      .values = {{.name = "x", .segment = kIo, .elements = kCount, .role = Role::Input},
                 {.name = "y", .segment = kIo, .elements = kCount, .role = Role::Output}}};
  const auto add_value = [&] {
    const auto index = static_cast<uint32_t>(entry.values.size());
    entry.values.push_back({.name = "h" + std::to_string(index),
                            .elements = kCount,
                            .offset_bytes = (index - 2) * uint64_t{4096}});
    return index;
  };
  std::vector<uint32_t> ends(width, 0);
  for (uint32_t d = 0; d < depth; ++d) {
    for (uint32_t& end : ends) {
      const uint32_t next = add_value();
      entry.steps.push_back(dispatch(0, d, {{end, kRead}, {next, kWrite}}));
      end = next;
    }
  }
  uint32_t sum = ends[0];
  for (uint32_t w = 1; w < width; ++w) {
    const uint32_t next = w + 1 == width ? 1 : add_value();
    entry.steps.push_back(
        dispatch(1, depth + w - 1, {{sum, kRead}, {ends[w], kRead}, {next, kWrite}}));
    sum = next;
  }
  sketch.entries.push_back(std::move(entry));
  return sketch;
}

// y = x + w for a weight of the file, and a weight g that init fills with 3 * w.
inline PlanSketch weights_sketch() {
  std::vector<float> data(kCount);
  std::iota(data.begin(), data.end(), 0.0f);
  return {.weights = {{.name = "w", .offset_bytes = 0, .data = data},
                      {.name = "g",
                       .offset_bytes = 4096,
                       .data = std::vector<float>(kCount),
                       .generated = true}},
          .kernels = {add_kernel(),
                      {.name = "pad",
                       .body = "if (i < 1000) F32(p.b).v[i] = F32(p.a).v[i] * 3.0;",
                       .pointers = {kRead, kWrite},
                       .ptx = "mul.f32 %b, %a, 0f40400000;",
                       .elements = kCount}},
          .entries =
              {{.name = "main",
                .values = {{.name = "x", .segment = kIo, .elements = kCount, .role = Role::Input},
                           {.name = "w", .segment = fb::Segment::Weights, .elements = kCount},
                           {.name = "g",
                            .segment = fb::Segment::Weights,
                            .elements = kCount,
                            .offset_bytes = 4096},
                           {.name = "h", .elements = kCount},
                           {.name = "y", .segment = kIo, .elements = kCount, .role = Role::Output}},
                .steps = {dispatch(0, 0, {{0, kRead}, {1, kRead}, {3, kWrite}}),
                          dispatch(0, 1, {{3, kRead}, {2, kRead}, {4, kWrite}})}}},
          .init = {{.name = "init",
                    .values = {{.name = "w", .segment = fb::Segment::Weights, .elements = kCount},
                               {.name = "g",
                                .segment = fb::Segment::Weights,
                                .elements = kCount,
                                .offset_bytes = 4096}},
                    .steps = {dispatch(1, 0, {{0, kRead}, {1, kWrite}})}}}};
}

// Counts runs in a state: s += 1, y = s. Further states begin as weights and are copied out.
inline PlanSketch state_sketch() {
  return {
      .weights = {{.name = "w", .data = std::vector<float>(kCount, 7.5f)},
                  {.name = "v", .offset_bytes = 4096, .data = std::vector<float>(kCount, 1.0f)}},
      .states = {{.name = "s", .offset_bytes = 0, .elements = kCount},
                 {.name = "ones",
                  .offset_bytes = 4096,
                  .elements = kCount,
                  .init = fb::StateInit::Weight,
                  .init_weight = 1},
                 {.name = "copy",
                  .offset_bytes = 8192,
                  .elements = kCount,
                  .init = fb::StateInit::Weight}},
      .kernels = {{.name = "region",
                   .body = "if (i < 1000) { F32(p.a).v[i] += 1.0; F32(p.b).v[i] = F32(p.a).v[i]; }",
                   .pointers = {kReadWrite, kWrite},
                   .ptx = "add.f32 %a, %a, 0f3f800000; mov.f32 %b, %a;",
                   .elements = kCount}},
      .entries = {
          {.name = "main",
           .values =
               {{.name = "s", .segment = fb::Segment::State, .elements = kCount},
                {.name = "ones",
                 .segment = fb::Segment::State,
                 .elements = kCount,
                 .offset_bytes = 4096},
                {.name = "copy",
                 .segment = fb::Segment::State,
                 .elements = kCount,
                 .offset_bytes = 8192},
                {.name = "y", .segment = kIo, .elements = kCount, .role = Role::Output},
                {.name = "one_out", .segment = kIo, .elements = kCount, .role = Role::Output},
                {.name = "copy_out", .segment = kIo, .elements = kCount, .role = Role::Output}},
           .steps = {dispatch(0, 0, {{0, kReadWrite}, {3, kWrite}}),
                     {.kind = fb::StepKind::Copy, .pointers = {{1, kRead}, {4, kWrite}}},
                     {.kind = fb::StepKind::Copy, .pointers = {{2, kRead}, {5, kWrite}}}}}}};
}

// x f32[n] -> y = 2 * h + 1, z = 1 for h = 2 * x + 1 and a free symbol n of 0 to 1000; z f32[n] by
// a fill and a copy. Both kernels share params, which hold n.
inline PlanSpec free_sketch_spec() {
  SketchKernel kernel = double_plus_one();
  kernel.body = "if (i < p.count) F32(p.b).v[i] = F32(p.a).v[i] * 2.0 + 1.0;";
  kernel.counted = true;
  PlanSpec spec = to_spec(
      {.kernels = {kernel},
       .entries = {
           {.name = "main",
            .values = {{.name = "x", .segment = kIo, .elements = kCount, .role = Role::Input},
                       {.name = "y", .segment = kIo, .elements = kCount, .role = Role::Output},
                       {.name = "z", .segment = kIo, .elements = kCount, .role = Role::Output},
                       {.name = "h", .elements = kCount},
                       {.name = "one", .elements = kCount, .offset_bytes = 4096}},
            .steps = {
                dispatch(0, 0, {{0, kRead}, {3, kWrite}}),
                {.kind = fb::StepKind::Fill, .pointers = {{4, kWrite}}, .fill_pattern = 0x3f800000},
                dispatch(0, 1, {{3, kRead}, {1, kWrite}}),
                {.kind = fb::StepKind::Copy, .wave = 1, .pointers = {{4, kRead}, {2, kWrite}}}}}}});
  spec.symbols = {{.name = "n", .minimum = 0, .maximum = kCount}};
  SpecEntry& main = spec.entries[0];
  using fb::PatchField;
  main.sizes = {{0, 0, 0, fb::SizeOp::Symbol},
                {4, 0, 0, fb::SizeOp::Constant},
                {0, 0, 1, fb::SizeOp::Multiply},
                {kSketchWorkgroup, 0, 0, fb::SizeOp::Constant},
                {0, 0, 3, fb::SizeOp::CeilDivide}};
  for (uint32_t v = 0; v < 5; ++v) main.patches.emplace_back(v, 0, 0, PatchField::ValueDim);
  for (uint32_t v = 0; v < 5; ++v) main.patches.emplace_back(v, 0, 2, PatchField::ValueBytes);
  for (uint32_t r = 0; r < 7; ++r) main.patches.emplace_back(r, 0, 2, PatchField::RelocationLength);
  for (const uint32_t s : {0, 2}) main.patches.emplace_back(s, 0, 4, PatchField::Grid);
  for (const uint32_t s : {0, 2}) main.patches.emplace_back(s, 16, 0, PatchField::ParamsWord);
  return spec;
}

inline std::vector<float> ramp(float start) {
  std::vector<float> x(kCount);
  std::iota(x.begin(), x.end(), start);
  return x;
}

}  // namespace rlx::test
