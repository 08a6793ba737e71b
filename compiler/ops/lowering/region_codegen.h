// SPDX-License-Identifier: Apache-2.0
// Generated elementwise code: chains of scalar steps as text valid in GLSL and CUDA C++.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/attributes.h"
#include "compiler/ir/graph.h"
#include "compiler/support/dtype.h"

namespace rlx {

// Type of a local that holds one element of `dtype` while computing, by its name in both languages:
// "rlx_f32", "rlx_f64", "rlx_i32" (i8, u8, i16 and i32; the codes of 8-bit floats), "rlx_u32",
// "rlx_i64" (and the bits of c64), "rlx_bool"; it also converts, as in "rlx_f32(x)". Block types
// have none (internal error).
std::string_view compute_type(DType dtype);

// A literal of dtype's compute type that has exactly the value `value` rounded to the compute type:
// "0.1f", "(-3)", "true".
std::string literal(DType dtype, double value);
std::string integer_literal(DType dtype, int64_t value);

// `x`, of dtype's compute type, as a condition: x != 0, NaN is true.
std::string truth_expression(DType dtype, const std::string& x);

// `expression`, of dtype's compute type, brought back into the range of a narrow integer dtype
// (two's complement wrap); any other dtype: unchanged.
std::string wrapped(DType dtype, const std::string& expression);

// The local, of compute type i64, that holds an element's coordinate along an axis counted from the
// end of the result's shape: "at1" for the last axis.
std::string coordinate_name(uint32_t axis_from_end);

// One elementwise op as an expression over `operands` (texts of the operands' compute types),
// wrapped to `result`. `coordinates` receives the axes whose coordinate_name() the text reads;
// without it the op must not be positional. Precondition: the op has a scalar form (RLX_CHECK).
std::string scalar_expression(std::string_view op, const Attributes& attributes,
                              std::vector<std::string> operands, std::vector<DType> operand_dtypes,
                              DType result, std::set<uint32_t>* coordinates = nullptr);

// Straight-line statements of a chain of region steps.
struct GeneratedChain {
  std::string text;    // one "type name = expression;" line per step
  std::string result;  // the local that holds the last step
  DType dtype = DType::f32;
  std::set<uint32_t> coordinates;  // axes from the end whose coordinate_name() the text reads
};

// `inputs` are the texts of the chain's inputs (locals of the inputs' compute types); locals are
// named `prefix`0, `prefix`1...
GeneratedChain generate_chain(std::span<const RegionStep> steps,
                              const std::vector<std::string>& inputs,
                              const std::vector<DType>& input_dtypes,
                              const std::string& prefix = "t");

// An activation (any unary float op of 2.1, "none" or "identity": the variable itself) as an
// expression over a float variable. For the epilogues of matmul, conv and norms: `attributes` are
// the op's own attributes (alpha, beta ...).
std::string activation_expression(const std::string& op, const Attributes& attributes,
                                  const std::string& variable);
// True where activation_expression takes this name.
bool is_activation(std::string_view op);

}  // namespace rlx
