// SPDX-License-Identifier: Apache-2.0
// Functions of an ONNX model: what they are called by, and what their attributes are where a call
// does not say.
#pragma once

#include <onnx.pb.h>

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rlx::onnx_import {

// "ai.onnx" is the default domain's other name, which is "" here.
std::string domain_of(const std::string& domain);

struct FunctionName {
  std::string domain;
  std::string name;
  std::string overload;  // of several of one name; "" is one too

  static FunctionName of(const onnx::FunctionProto& function);
  static FunctionName called_by(const onnx::NodeProto& node);
  friend auto operator<=>(const FunctionName&, const FunctionName&) = default;
};

using Functions = std::map<FunctionName, const onnx::FunctionProto*>;

// The attributes that have a default, with it. nullopt where the file has no attribute there.
std::optional<std::vector<onnx::AttributeProto>> defaults_of(const onnx::FunctionProto& function);

}  // namespace rlx::onnx_import
