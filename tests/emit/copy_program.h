// SPDX-License-Identifier: Apache-2.0
// A program of one conversion kernel, as small as a whole plan can be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/dispatch/builder.h"
#include "compiler/emit/plan_writer.h"
#include "compiler/lower/schedule.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"
#include "tests/emit/kernel_folder.h"

namespace rlx::test {

// Everything that a PlanContent points to.
struct SmallPlan {
  Module module;
  std::vector<Program> programs;
  std::vector<Schedule> schedules;
  KernelSet kernels;
  CompiledKernels compiled;
  PlanContent content;

  // Compiles the programs with shaders/pad.kernel = `kernel` and points the content at all of it.
  void finish(const std::string& kernel) {
    const TemporaryFolder folder;
    folder.write("shaders/pad.kernel", kernel);
    const Target* target = find_target("vulkan");
    std::vector<TargetProgram> pointers;
    for (const Program& program : programs) pointers.push_back({&program, target});
    kernels = gather_kernels(pointers);
    Diagnostics diagnostics;
    const CompileKernelsOptions options{
        .jobs = 1, .cache_folder = {}, .kernels_folder = folder.path()};
    auto codes = compile_kernels(kernels, options, diagnostics);
    RLX_CHECK(codes.has_value(), diagnostics.text());
    compiled = std::move(*codes);
    for (const Program& program : programs) schedules.push_back(schedule(program));
    for (size_t i = 0; i < programs.size(); ++i) {
      const PlanEntry entry{.program = &programs[i], .schedule = &schedules[i], .target = target};
      if (programs[i].entry == "init")
        content.inits.push_back(entry);
      else
        content.entries.push_back(entry);
    }
    content.module = &module;
    content.kernels = &kernels;
    content.compiled = &compiled;
    content.producer = "rlxc test";
    content.precision = "f32";
  }
};

inline TensorRef add_buffer(Program& program, const std::string& name, const TensorType& type,
                            Segment segment, std::optional<WeightId> weight = {}) {
  const BufferId id = program.add_buffer({.name = name,
                                          .type = type,
                                          .size_bytes = byte_size(type),
                                          .segment = segment,
                                          .weight = weight});
  return {.buffer = id, .offset_bytes = 0, .type = type, .strides = dense_strides(type.shape)};
}

// y = x converted from one storage type to another, with the kernel of convert_body().
inline void add_conversion(Program& program, const TensorRef& x, const TensorRef& y,
                           const std::string& node) {
  const int64_t count = element_count(x.type.shape);
  DispatchBuilder<CopyParams>(program, KernelId::pad, Step{.node = node, .op = "cast"})
      .workgroup({.x = 64, .y = 1, .z = 1})
      .define("RLX_X", std::string(name_of(x.dtype())))
      .define("RLX_Y", std::string(name_of(y.dtype())))
      .define("RLX_COUNT", count)
      .read(&CopyParams::x, x)
      .write(&CopyParams::y, y)
      .grid(split_grid(static_cast<uint64_t>(ceil_div(count, 64))))
      .work(byte_size(x.type) + byte_size(y.type), 0)
      .reason("test");
}

// input "x" -> output "y".
inline Program conversion_program(const TensorType& from, const TensorType& to) {
  Program program;
  program.entry = "main";
  const TensorRef x = add_buffer(program, "x", from, Segment::Io);
  const TensorRef y = add_buffer(program, "y", to, Segment::Io);
  program.buffers[0].input_index = 0;
  program.buffers[1].output_index = 0;
  program.inputs = {x.buffer};
  program.outputs = {y.buffer};
  add_conversion(program, x, y, "convert");
  return program;
}

}  // namespace rlx::test
