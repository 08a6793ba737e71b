// SPDX-License-Identifier: Apache-2.0
// extension.json as written, every field checked by itself.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/extension/extension_files.h"
#include "compiler/import/json_value.h"
#include "compiler/ops/extension/extension.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

// A graph's file.
struct DescribedGraph {
  std::string path;                       // in the extension's folder
  std::string file;                       // as messages name it
  std::shared_ptr<const JsonValue> tree;  // absent: there is none, or it was reported
};

// An op with what stands in files of its own.
struct DescribedOp {
  std::unique_ptr<Extension> extension;
  DescribedGraph graph;
  DescribedGraph reference;  // what the evaluator goes by instead
  std::string pointer;       // of the op in the description
};

struct Description {
  std::vector<DescribedOp> ops;
  std::string cases;
};

// nullopt after at least one error.
std::optional<Description> read_description(const ExtensionFiles& files, Diagnostics& diagnostics);

}  // namespace rlx
