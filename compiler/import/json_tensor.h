// SPDX-License-Identifier: Apache-2.0
// Tensors of the JSON form: inputs, params, constants, states.
#pragma once

#include <string>
#include <string_view>

#include "compiler/import/json_fields.h"
#include "compiler/import/source_graph.h"

namespace rlx {

enum class TensorRole : uint8_t { Input, Param, Constant, State };

// Reads one tensor; faults go to `errors`.
SourceTensor read_json_tensor(JsonErrors& errors, const JsonValue& value,
                              const std::string& pointer, TensorRole role);
// Numbers and symbol names; anything else is reported as a fault of `fields`.
SourceDims read_json_dims(JsonFields& fields, const JsonArray& items, const std::string& what);

// FNV-1a-32 of a name: the default stream of random data (ops.md 0.8).
uint32_t default_stream(std::string_view name);

}  // namespace rlx
