// SPDX-License-Identifier: Apache-2.0
// Inline tensor data of the JSON form: lists of values, and base64.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/import/json_value.h"
#include "compiler/import/source_graph.h"

namespace rlx {

// Little-endian bytes, or why there are none (a sentence without the tensor's name).
using InlineBytes = std::variant<std::vector<std::byte>, std::string>;

// RFC 4648 with padding; no white space, unused bits zero.
InlineBytes decode_base64(std::string_view text);
std::string encode_base64(std::span<const std::byte> bytes);

// Encodes "values": a flat list, or lists nested as `shape` is. Floats are rounded to the dtype;
// what does not fit is a fault.
InlineBytes encode_values(const JsonArray& values, DType dtype, const SourceDims& shape);
// The flat list that encode_values turns into exactly these bytes, or nullopt where there is none
// (NaN payloads, storage types, a count that is not whole).
std::optional<std::string> values_text(DType dtype, std::span<const std::byte> bytes);

// Shortest decimal that reads back as the same number and is a real in JSON ("1.0", "-0.0"). Finite
// values only.
std::string real_text(double value);
// As JSON: real_text, or "nan", "inf", "-inf" in quotes.
std::string any_real_json(double value);
// A number, or one of the strings "nan", "inf", "-inf"; nullopt for anything else and for integers
// that f64 cannot hold.
std::optional<double> real_from_json(const JsonValue& value);

}  // namespace rlx
