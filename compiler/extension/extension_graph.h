// SPDX-License-Identifier: Apache-2.0
// The graph that defines an extension by other ops: a graph file without inputs and symbols, which
// the op's inputs, sizes and attributes complete for each node.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "compiler/extension/extension_files.h"
#include "compiler/import/json_value.h"
#include "compiler/ops/extension/extension.h"

namespace rlx {

enum class GraphUse : uint8_t { Both, Evaluation };

// Sets extension.expand, unless it is for evaluation alone, and extension.evaluate. `file` is the
// graph's path, for messages; `graph` its tree, an object of "constants", "params", "nodes" and
// "outputs" alone. Precondition: the extension stays where it is.
void define_by_graph(Extension& extension, const ExtensionFiles& files, const std::string& file,
                     std::shared_ptr<const JsonValue> graph, GraphUse use);

}  // namespace rlx
