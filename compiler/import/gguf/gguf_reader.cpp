// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/gguf/gguf_reader.h"

#include <filesystem>
#include <utility>

#include "compiler/import/gguf/architecture.h"
#include "compiler/import/gguf/language_graph.h"
#include "compiler/import/gguf/model_parts.h"
#include "compiler/import/names.h"

namespace rlx {
namespace {

using gguf::File;
using gguf::Keys;
using gguf::TensorTable;

// ---- what the model is ----

// nullptr after an error: no language model, or of an architecture that is not read.
const gguf::Architecture* read_architecture(Keys& keys) {
  const std::string type = keys.text("general.type").value_or("model");
  if (type != "model") {
    keys.fail(DiagCode::UnsupportedOp,
              "the file is no language model: its general.type is " + in_quotes(type));
    return nullptr;
  }
  const auto name = keys.text("general.architecture");
  const auto* architecture = name ? gguf::find_architecture(*name) : nullptr;
  if (architecture != nullptr) return architecture;
  std::vector<std::string_view> known;
  for (const gguf::Architecture& row : gguf::all_architectures()) known.push_back(row.name);
  keys.fail(DiagCode::UnsupportedOp,
            name ? "architecture " + in_quotes(*name) + " is not read"
                 : "key \"general.architecture\" is missing",
            "these are: " + list_names(known));
  return nullptr;
}

}  // namespace

std::optional<SourceGraph> read_gguf_graph(const GraphBytes& bytes, const std::string& file,
                                           const LanguageOptions& options,
                                           Diagnostics& diagnostics) {
  auto parsed = gguf::parse_file(bytes.bytes, file, diagnostics);
  if (!parsed) return std::nullopt;
  const File first = std::move(*parsed);
  const auto parts = gguf::read_parts(first, file, {bytes.owner, bytes.bytes}, diagnostics);
  if (!parts) return std::nullopt;
  Keys keys(first, file, diagnostics);
  const auto* architecture = read_architecture(keys);
  if (architecture == nullptr) return std::nullopt;
  TensorTable tensors;
  for (const gguf::ModelPart& part : *parts)
    tensors.add(part.file, std::filesystem::path(part.path).filename().string(), part.bytes);
  return gguf::build_language_graph(*architecture, options, tensors, keys, first, file,
                                    diagnostics);
}

}  // namespace rlx
