// SPDX-License-Identifier: Apache-2.0
// How many nodes the nodes of an ONNX model stand for once functions, branches and trips are in
// place.
#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/import/onnx/functions.h"

namespace rlx::onnx_import {

// A loop of more trips is a node with a body.
constexpr int64_t kMostTripsInPlace = 4096;

// Counted from the inside out, each function once, so that a few lines that stand for 2^40 nodes
// take no longer than others. A function that calls itself counts as nothing where it does.
class NodeCounts {
 public:
  NodeCounts(const Functions& functions, const onnx::GraphProto& graph);
  // A node of the graph, and what stands in its place: the body of a function, the larger branch of
  // an If, the trips of a Loop that takes as many as a constant says. At most kMany.
  [[nodiscard]] uint64_t of(const onnx::NodeProto& node) const { return of(node, graph_); }

  static constexpr uint64_t kMany = std::numeric_limits<uint64_t>::max() / 2;

 private:
  // Numbers that the constants of a graph are, and of those around it.
  struct Scope {
    const Scope* outer = nullptr;
    std::map<std::string_view, int64_t> numbers;

    template <typename Body>
    static Scope of(const Body& body, const Scope* outer);
    [[nodiscard]] std::optional<int64_t> find(const std::string& name) const;
  };

  [[nodiscard]] const onnx::FunctionProto* find(const onnx::NodeProto& node) const;
  [[nodiscard]] uint64_t of(const onnx::NodeProto& node, const Scope& scope) const;
  template <typename Nodes>
  [[nodiscard]] uint64_t of_all(const Nodes& nodes, const Scope& scope) const;
  // 1 where the run may decide it.
  static uint64_t trips_of(const onnx::NodeProto& loop, const onnx::GraphProto& body,
                           const Scope& around, const Scope& inside);
  // Counts a function behind those that it calls.
  void count(const onnx::FunctionProto& function);

  const Functions& functions_;
  Scope graph_;
  std::map<const onnx::FunctionProto*, uint64_t>
      counts_;  // 0 while those that it calls are counted
};

}  // namespace rlx::onnx_import
