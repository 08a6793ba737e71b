// SPDX-License-Identifier: Apache-2.0
// A count as the value of an attribute of AttrType::Int.
#pragma once

#include "compiler/ir/attributes.h"

namespace rlx {

// A number, or a list of one size where the run gives it; AttributeReader::integers() reads both.
inline AttributeValue count_attribute(const Dim& count) {
  return count.is_free() ? AttributeValue(Ints{count}) : AttributeValue(count.bound());
}

}  // namespace rlx
