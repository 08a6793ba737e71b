// SPDX-License-Identifier: Apache-2.0
// Text form of a program.
#include <array>

#include "compiler/dispatch/program.h"

namespace rlx {
namespace {

constexpr std::array kSegmentNames = {"weights", "state", "arena", "io", "index_errors"};
constexpr std::array kEpilogueNames = {"none",      "bias",      "relu",
                                       "bias-relu", "gelu-tanh", "bias-gelu-tanh"};
constexpr std::array kModeNames = {"none", "read", "write", "read-write"};

std::string extent_text(const Extent3& extent) {
  return std::to_string(extent.x) + "x" + std::to_string(extent.y) + "x" + std::to_string(extent.z);
}

std::string gemm_text(const LibraryGemm& gemm) {
  std::string text =
      "library-gemm " + to_string(gemm.m) + "x" + to_string(gemm.n) + "x" + to_string(gemm.k);
  if (gemm.batch > 1) text += " batch " + to_string(gemm.batch);
  return text + " " + std::string(name_of(gemm.a_dtype)) + (gemm.a_transposed ? " at" : " a") +
         (gemm.b_transposed ? " bt" : " b") + " epilogue " +
         kEpilogueNames.at(static_cast<size_t>(gemm.epilogue)) +
         (gemm.has_residual ? " residual" : "");
}

std::string grid_text(const Grid& grid) {
  return to_string(grid.x) + "x" + to_string(grid.y) + "x" + to_string(grid.z);
}

std::string step_text(const Program& program, const Step& step) {
  std::string text;
  if (step.kind == StepKind::LibraryGemm) {
    text = gemm_text(step.gemm.value());
  } else if (step.kind == StepKind::Dispatch) {
    const Specialization& kernel = program.kernels.at(index_of(*step.kernel));
    text = std::string(kernel_row(kernel.kernel).name) + "#" +
           std::to_string(index_of(*step.kernel)) + " grid " + grid_text(step.grid);
  } else {
    text = step.kind == StepKind::Copy ? "copy" : "fill " + std::to_string(step.fill_pattern);
  }
  text += " for " + step.op + " \"" + step.node + "\"";
  for (const Access& access : step.accesses) {
    text += std::string("\n    ") + kModeNames.at(static_cast<size_t>(access.mode)) + " " +
            program.buffer(access.buffer).name + "+" + to_string(access.range_offset_bytes) + ":" +
            to_string(access.range_bytes);
  }
  text += "\n";
  if (step.served) {
    text += "    runs where " + to_string(step.served->size) + " is";
    if (step.served->above) text += " above " + std::to_string(*step.served->above);
    if (step.served->most) text += " at most " + std::to_string(*step.served->most);
    text += "\n";
  }
  for (const StepForm& form : step.forms) {
    text += "    where " + to_string(form.size) + " is at most " + std::to_string(form.most) +
            ": #" + std::to_string(index_of(form.kernel)) + " grid " + grid_text(form.grid) + "\n";
  }
  for (const Step& other : step.alternatives) text += "   or " + step_text(program, other);
  return text;
}

}  // namespace

std::string print(const Program& program) {
  std::string text = "program " + program.entry + "\n";
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    text += "  buffer " + std::to_string(i) + " " + buffer.name + " " +
            kSegmentNames.at(static_cast<size_t>(buffer.segment)) + " " +
            to_string(buffer.size_bytes) + " bytes\n";
  }
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    const Specialization& kernel = program.kernels[i];
    text += "  kernel " + std::to_string(i) + " " + std::string(kernel_row(kernel.kernel).name) +
            " workgroup " + extent_text(kernel.workgroup);
    for (const auto& [name, value] : kernel.defines) text += " " + name + "=" + value;
    text += "\n";
    for (const auto& [name, body] : kernel.generated) text += "    " + name + ":\n" + body + "\n";
  }
  for (size_t i = 0; i < program.steps.size(); ++i) {
    text += "  step " + std::to_string(i) + " " + step_text(program, program.steps[i]);
  }
  return text;
}

}  // namespace rlx
