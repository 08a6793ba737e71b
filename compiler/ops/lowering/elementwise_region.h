// SPDX-License-Identifier: Apache-2.0
// One dispatch of the region kernel: strided operands, outputs, and the code of one element.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/dispatch/program.h"
#include "compiler/dispatch/size_words.h"
#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

// How an element lies in memory and is held while computing.
struct ElementStorage {
  std::string name;     // of the load and store functions: "f32", "u16", "bool"; "u8" for codes of
                        // 8-bit floats, "i64" for the bits of c64
  std::string compute;  // type of the local: "rlx_f32"
  uint32_t bytes = 4;
};
ElementStorage element_storage(DType dtype);
// Unsigned storage of the same size, for copies that keep every bit.
ElementStorage raw_storage(uint32_t bytes);

// A part of an operand that stands in several: where it begins along an axis of the output, counted
// from its end. Its view has the part's size there.
struct JoinedAt {
  uint32_t axis_from_end = 1;
  int64_t begin = 0;
};

struct RegionOperand {
  TensorRef view;  // broadcasts to the output's shape
  ElementStorage storage;
  // Parts stand one behind the other in the list; the first, which begins at 0, gives the operand
  // its name.
  std::optional<JoinedAt> joined = {};

  [[nodiscard]] bool continues() const { return joined && joined->begin > 0; }
};
// The operand whose parts these are.
void append_joined(std::vector<RegionOperand>& operands, const JoinedParts& parts,
                   const ElementStorage& storage);

struct Region {
  TensorRef output;  // any strides
  ElementStorage output_storage;
  // Seen as x1, x2, ... in order; an operand in parts by the number of the first.
  std::vector<RegionOperand> operands;
  std::string
      element_text;  // statements over x1, x2, ...; ends in "return <output's compute type>;"
  // Outputs behind the first, of its shape: the statements set r1, r2, ... in order. With the
  // operands at most kMaxRegionOperands.
  std::vector<RegionOperand> more_outputs = {};
  // Axes of the output, counted from its end, whose coordinates the statements read as
  // coordinate_name() says.
  std::set<uint32_t> coordinates = {};
  // The statements count indices outside in a local, as reads_index() says; there is one operand
  // less.
  bool counts_outside = false;
  uint64_t operations = 0;  // arithmetic operations per element
  uint64_t cost = 0;        // instructions per element, see scalar_cost.h
  std::string subject;      // for the reason: "region of 5 ops"
  // What element_text calls functions of: lib/math64, lib/float8_elements, lib/complex,
  // lib/philox.
  bool double_functions = false;
  bool float8_functions = false;
  bool complex_functions = false;
  bool random_functions = false;
  WordUse words = WordUse::Never;
};
constexpr size_t kMaxRegionOperands = RLX_REGION_BUFFERS - 1;

// Emits the dispatch; nothing where the output is empty.
void emit_region(Program& program, const Step& origin, const Region& region);

}  // namespace rlx
