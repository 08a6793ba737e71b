// SPDX-License-Identifier: Apache-2.0
// Fields that are younger than the oldest onnx.proto that rlx is built with, of 1.12, are read
// whether its messages know them or not.
#include "compiler/import/onnx/functions.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

namespace rlx::onnx_import {
namespace {

using google::protobuf::internal::WireFormatLite;

// Numbers of fields in onnx.proto.
constexpr int kFunctionDefaults = 11;  // attribute_proto, since 1.13
constexpr int kFunctionOverload = 13;  // since 1.16
constexpr int kNodeOverload = 8;       // since 1.16

// What a field of texts or messages holds, among those that a message kept without knowing them.
// Where onnx.proto is young enough nobody asks.
[[maybe_unused]] std::vector<std::string> texts_among(const std::string& unknown_fields,
                                                      int number) {
  const uint32_t wanted =
      WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(unknown_fields.data()),
                                            static_cast<int>(unknown_fields.size()));
  std::vector<std::string> found;
  for (uint32_t tag = in.ReadTag(); tag != 0; tag = in.ReadTag()) {
    uint32_t length = 0;
    const bool is_read = tag != wanted
                             ? WireFormatLite::SkipField(&in, tag)
                             : in.ReadVarint32(&length) &&
                                   in.ReadString(&found.emplace_back(), static_cast<int>(length));
    if (!is_read) break;
  }
  return found;
}

template <typename Message>
std::string overload_of(const Message& message, int number) {
  if constexpr (requires { message.overload(); }) {
    return message.overload();
  } else {
    const std::vector<std::string> found = texts_among(message.unknown_fields(), number);
    return found.empty() ? std::string() : found.back();
  }
}

template <typename Function>
std::optional<std::vector<onnx::AttributeProto>> read_defaults(const Function& function) {
  std::vector<onnx::AttributeProto> defaults;
  if constexpr (requires { function.attribute_proto(); }) {
    defaults.assign(function.attribute_proto().begin(), function.attribute_proto().end());
  } else {
    for (const std::string& bytes : texts_among(function.unknown_fields(), kFunctionDefaults)) {
      if (!defaults.emplace_back().ParseFromString(bytes)) return std::nullopt;
    }
  }
  return defaults;
}

}  // namespace

std::string domain_of(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

FunctionName FunctionName::of(const onnx::FunctionProto& function) {
  return {.domain = domain_of(function.domain()),
          .name = function.name(),
          .overload = overload_of(function, kFunctionOverload)};
}

FunctionName FunctionName::called_by(const onnx::NodeProto& node) {
  return {.domain = domain_of(node.domain()),
          .name = node.op_type(),
          .overload = overload_of(node, kNodeOverload)};
}

std::optional<std::vector<onnx::AttributeProto>> defaults_of(const onnx::FunctionProto& function) {
  return read_defaults(function);
}

}  // namespace rlx::onnx_import
