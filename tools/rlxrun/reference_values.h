// SPDX-License-Identifier: Apache-2.0
// Every value of a model as the f64 evaluator has it: by `rlxc reference`, since rlxrun holds no
// compiler.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/npy/npy.h"
#include "tools/rlxrun/options.h"

namespace rlx::tool {

// A temporary folder that goes away with the object.
class ReferenceFolder {
 public:
  ReferenceFolder() = default;
  ReferenceFolder(const ReferenceFolder&) = delete;
  ReferenceFolder& operator=(const ReferenceFolder&) = delete;
  ~ReferenceFolder();

  // Runs the rlxc that lies beside this program, else the one on the PATH, on the model with these
  // inputs and sizes; a Failure where it is missing or refuses. What it says goes to standard
  // error.
  void evaluate(const std::string& model, const std::string& entry,
                const std::vector<SymbolValue>& symbols,
                const std::vector<std::pair<std::string, npy::Array>>& inputs);
  // Holds a NAME.npy for each value of the model, once evaluate() has returned.
  [[nodiscard]] const std::string& path() const { return values_; }

 private:
  std::string folder_;
  std::string values_;
};

}  // namespace rlx::tool
