// SPDX-License-Identifier: Apache-2.0
// What only the run knows how many rows of count: along one axis a value is padded to the most
// that there may be. Operators of rlx leave such rows where they are, are given rows that change
// nothing in their place, or are refused.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "compiler/import/onnx/builder.h"

namespace rlx::onnx_import {

// Rows of x that do not count hold `fill`, of a padded x; the result counts as a tensor of its own,
// without padding.
ValueId filled_rows(Builder& builder, ValueId x, double fill);
// The same rows, whatever they hold: the result counts as a tensor without padding.
ValueId bare_rows(Builder& builder, ValueId x);
// The least or largest value of the type: what changes no maximum or minimum.
enum class Extreme : uint8_t { Least, Largest };
double extreme_of(DType dtype, Extreme extreme);
// A count as a number of rlx: an i64 scalar.
ValueId count_scalar(Builder& builder, int64_t value);
// The smaller count.
ValueId smaller_count(Builder& builder, ValueId a, ValueId b);

// An operator of which inputs are padded, before it is emitted: where it would read rows that do
// not count, it is emitted here on others. nullopt: it may be emitted as it stands.
std::optional<std::vector<ValueId>> emit_on_filled_rows(Builder& builder, std::string_view op,
                                                        const Inputs& inputs,
                                                        const Attributes& attributes,
                                                        size_t output_count);
// By what the results of a node are padded whose inputs are. Throws Refusal where it would read
// rows that do not count.
std::optional<Padding> padding_of_results(Builder& builder, const Node& node);

}  // namespace rlx::onnx_import
