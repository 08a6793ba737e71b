// SPDX-License-Identifier: Apache-2.0
// One backend test of ONNX: a model with the inputs and outputs that belong to it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/tensor.h"

namespace rlx::test {

// How far a test came. Right: the outputs agree on every device.
enum class OnnxStage : uint8_t { Data, Import, Compile, Run, Compare, Right };
std::string_view name_of(OnnxStage stage);

struct OnnxVerdict {
  OnnxStage stage = OnnxStage::Data;
  std::string reason;  // empty where it is right
  // Largest error of a float output over what ONNX's rule allows, and over ops.md 0.5's bound of
  // class norm.
  double onnx_ratio = 0;
  double norm_ratio = 0;
  double seconds = 0;
  bool refused = false;  // stopped with diagnostics, as a test that is not supported should
};

// A model and its data set: files <inputs>_0.pb ... and <outputs>_0.pb ...; without `inputs`, which
// ONNX leaves out for its light networks, element i of n of an input is i / n.
struct OnnxCase {
  std::string name;  // "node/test_abs"
  std::string model;
  std::string inputs;
  std::string outputs;
  double rtol = 1e-3;  // of ONNX's rule
  double atol = 1e-7;
  bool is_network = false;  // too deep for the bound of one op
};

// The newest opset of the default domain that a model of these imports: that of ONNX's version that
// made them. 0: none, or built without ONNX.
int64_t newest_opset(const std::vector<OnnxCase>& tests);

// Imports with inputs fixed where the importer asks for their values, compiles, runs on every
// device present and compares.
OnnxVerdict check_onnx_case(const OnnxCase& test);

}  // namespace rlx::test
