// SPDX-License-Identifier: Apache-2.0
// Element types of ONNX that rlx does not have, behind the tensors that hold them: what the results
// of a node stand for whose inputs stand for such types.
#pragma once

#include <vector>

#include "compiler/import/onnx/builder.h"
#include "compiler/import/onnx/proto_tensor.h"

namespace rlx::onnx_import {

// Whether numbers of a type are cast as their bits are.
inline bool has_bits(DType dtype) {
  return is_integer(dtype) || dtype == DType::bool_;
}

// By result; nullptr: it stands for its own type. A node that moves elements, or takes the larger
// or smaller ones, gives what it reads; one that reads them as numbers gives numbers. Throws
// Refusal of any other: what does not fit the type would not be cut off.
std::vector<const StandIn*> stand_ins_of_results(Builder& builder, std::string_view op,
                                                 const Inputs& inputs, const Attributes& attributes,
                                                 size_t output_count);

// What two values stand for that become one; throws Refusal where that is not the same.
const StandIn* common_stand_in(const Builder& builder, ValueId a, ValueId b);

// Where only the type of a value counts, none may stand for it: throws Refusal.
void refuse_stand_in(const Builder& builder, ValueId id, const std::string& what);

}  // namespace rlx::onnx_import
