// SPDX-License-Identifier: Apache-2.0
// Attributes of a node as written in the graph file, after symbols are bound.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/support/dim.h"

namespace rlx {

using Ints = std::vector<Dim>;  // numbers, or sizes that depend on the run
using Floats = std::vector<double>;
using Strings = std::vector<std::string>;

// Alternatives in the order of AttrType. A dtype name is a String. An empty list from a file is
// Ints.
using AttributeValue = std::variant<int64_t, double, bool, std::string, Ints, Floats, Strings>;

enum class AttrType : uint8_t {
  Int,
  Float,
  Bool,
  String,
  IntList,
  FloatList,
  StringList,
  DTypeName
};

std::string_view name_of(AttrType type);

// Value as in JSON, for messages and the text form.
std::string to_string(const AttributeValue& value);

// Sorted by name, so every walk over it is deterministic.
using Attributes = std::map<std::string, AttributeValue, std::less<>>;

}  // namespace rlx
