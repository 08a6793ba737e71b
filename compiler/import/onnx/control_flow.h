// SPDX-License-Identifier: Apache-2.0
// Nodes with graphs. If, Loop and Scan: what is known when the model is imported is put in place (a
// branch, the trips of a loop), what is not becomes a node with bodies. SequenceMap: its graph is
// put for each element. FlexAttention: its graphs are put between its products.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compiler/import/onnx/node_reader.h"
#include "compiler/support/diagnostics.h"

namespace rlx::onnx_import {

// What the importer lends.
struct ControlFlow {
  // Puts the nodes of a graph behind those made so far, its inputs being these values; its outputs.
  std::function<std::vector<ValueId>(const onnx::GraphProto& graph,
                                     const std::vector<ValueId>& inputs)>
      put;
  // What is wrong with what `make` puts, where all of it is that shapes do not fit: then it has
  // made nothing. nullopt: it has put all. Anything else is thrown on.
  std::function<std::optional<Diagnostics>(const std::function<void()>& make)> faults_of_shapes;
  Diagnostics& diagnostics;
  bool has_free_sizes = false;  // what is put is put again for other sizes, and must be the same
  // Of loops whose end only the run knows.
  std::optional<int64_t> max_iterations;
  // How many rows count of results that are padded to the most trips.
  std::vector<ValueId>& counts;
};

inline constexpr std::string_view kPreview = "ai.onnx.preview";

inline bool has_graphs(std::string_view domain, std::string_view op) {
  return domain.empty() ? op == "If" || op == "Loop" || op == "Scan" || op == "SequenceMap"
                        : domain == kPreview && op == "FlexAttention";
}

// Precondition: has_graphs. Sets the reader's outputs.
void import_with_graphs(NodeReader& reader, const ControlFlow& control);

}  // namespace rlx::onnx_import
