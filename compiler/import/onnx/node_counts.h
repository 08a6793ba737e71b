// SPDX-License-Identifier: Apache-2.0
// How many nodes the nodes of an ONNX model stand for once functions and branches are in place.
#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace rlx::onnx_import {

// Functions of a model by domain and name; the default domain is "".
using Functions = std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*>;

// Counted from the inside out, each function once, so that a few lines that stand for 2^40 nodes
// take no longer than others. A function that calls itself counts as nothing where it does.
class NodeCounts {
 public:
  explicit NodeCounts(const Functions& functions);
  // The node, and what stands in its place: the body of a function, the larger branch of an If. At
  // most kMany.
  [[nodiscard]] uint64_t of(const onnx::NodeProto& node) const;

  static constexpr uint64_t kMany = std::numeric_limits<uint64_t>::max() / 2;

 private:
  [[nodiscard]] const onnx::FunctionProto* find(const onnx::NodeProto& node) const;
  template <typename Nodes>
  [[nodiscard]] uint64_t of_all(const Nodes& nodes) const;
  // Counts a function behind those that it calls.
  void count(const onnx::FunctionProto& function);

  const Functions& functions_;
  std::map<const onnx::FunctionProto*, uint64_t>
      counts_;  // 0 while those that it calls are counted
};

}  // namespace rlx::onnx_import
