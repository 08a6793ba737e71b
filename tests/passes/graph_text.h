// SPDX-License-Identifier: Apache-2.0
// Pieces of graph files as text, and what tests of patterns ask of modules.
#pragma once

#include "tests/passes/pass_support.h"

namespace rlx::test {

inline std::string input_text(const std::string& name, const std::string& shape,
                              const std::string& dtype = "f32") {
  return R"({"name": ")" + name + R"(", "dtype": ")" + dtype + R"(", "shape": )" + shape + "}";
}

inline std::string op_text(const std::string& op, const std::string& inputs,
                           const std::string& output, const std::string& attributes = "") {
  return R"({"op": ")" + op + R"(", "inputs": [)" + inputs + R"(], "outputs": [")" + output +
         R"("], "attributes": {)" + attributes + "}}";
}

inline std::string constant_text(const std::string& name, const std::string& shape,
                                 const std::string& values, const std::string& dtype = "f32") {
  return R"({"name": ")" + name + R"(", "dtype": ")" + dtype + R"(", "shape": )" + shape +
         R"(, "data": {"values": )" + values + "}}";
}

template <typename T>
T attribute_of(const Node& node, const char* name) {
  return std::get<T>(node.attributes.at(name));
}

// A pass leaves the module as it is.
inline void check_stays(PassFunction pass, Module module) {
  const std::string before = print(module);
  CHECK(apply(pass, module) == 0);
  CHECK(print(module) == before);
}

}  // namespace rlx::test
