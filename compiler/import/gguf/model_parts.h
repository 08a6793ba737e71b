// SPDX-License-Identifier: Apache-2.0
// The files of a model: one, or several whose names count them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/import/gguf/gguf_file.h"
#include "compiler/ir/graph.h"
#include "compiler/support/diagnostics.h"

namespace rlx::gguf {

struct ModelPart {
  std::string path;
  File file;
  HostBytes bytes;  // that the file's views lie in
};

// parse, with its fault as an error about `path`.
std::optional<File> parse_file(std::span<const std::byte> bytes, const std::string& path,
                               Diagnostics& diagnostics);

// Keys that say which of a model's files one is.
inline constexpr std::string_view kPartKeys[] = {"split.count", "split.no", "split.tensors.count"};

// The first file, which is open, and those beside it that it speaks of: no two tensors of one name.
// nullopt after an error.
std::optional<std::vector<ModelPart>> read_parts(const File& first, const std::string& path,
                                                 const HostBytes& bytes, Diagnostics& diagnostics);

}  // namespace rlx::gguf
