// SPDX-License-Identifier: Apache-2.0
// A conformance case: one op on given inputs, checked on the f64 evaluator and on every device
// present by ops.md 0.5.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/shape.h"

namespace rlx::test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr std::array kShortFloats = {DType::f32, DType::f16, DType::bf16};

// How a case's input is filled; all generators are seeded by case name and input position.
enum class FillKind : uint8_t { Normal, Uniform, Integers, Edges, Values };

struct CaseTensor {
  TensorType type;
  FillKind fill = FillKind::Normal;
  double low = 0;  // Uniform, Integers: inclusive bounds
  double high = 1;
  std::vector<double> values = {};  // Values: row-major; i64 beyond 2^53 through `integers`; the
                                    // codes of 8-bit floats, the bytes of block types, the two
                                    // parts of each c64
  std::vector<int64_t> integers = {};
  bool is_param = false;  // a weight of the graph instead of a run-time input

  CaseTensor uniform(double lowest, double highest) const;
  CaseTensor range(int64_t lowest, int64_t highest) const;  // random integers
  // Zeros of both signs, ones, subnormals, largest and smallest finite, infinities, NaN, and random
  // values between; of 8-bit floats every code, of c64 any two of those.
  CaseTensor edges() const;
  CaseTensor of(std::vector<double> row_major) const;
  CaseTensor of_integers(std::vector<int64_t> row_major) const;
  CaseTensor param() const;
};

// Normal(0, 1) for floats, random codes under moderate scales for block types, integers in [-10,
// 10] (unsigned: [0, 20], bool: [0, 1]).
CaseTensor tensor(DType dtype, Shape shape);

// Classes of ops.md 0.5. Sum uses the evaluator's magnitudes and term count. NormDouble: Norm in
// units of f64, which Norm means where all of a case's floats are f64. Codes of 8-bit floats are
// exact in every class, but for the sign of NaN where the class is not Exact.
enum class Tolerance : uint8_t {
  Exact,
  Arith,
  ArithDiv,
  Transc,
  TranscOfTerms,  // relative to the sizes of the terms that it is the sum of
  Pow,
  Sum,
  Norm,
  NormDouble,
  AttentionHalf
};

struct Case {
  std::string
      name;  // the law, with its trap number where there is one: "T95 softmax over a middle axis"
  std::string op;
  std::vector<std::optional<CaseTensor>> inputs;
  std::string attributes = "{}";  // JSON object
  Tolerance tolerance = Tolerance::Exact;
  size_t outputs = 1;
  // Golden values of each output from ops.md 17, NumPy or PyTorch, given to about 7 digits, both
  // parts of each c64; empty: none.
  std::vector<std::vector<double>> golden = {};
  double golden_tolerance = 2e-6;       // relative to max(1, |value|)
  std::vector<RegionStep> region = {};  // the chain of an ew_region
};

}  // namespace rlx::test
