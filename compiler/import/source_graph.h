// SPDX-License-Identifier: Apache-2.0
// A graph file as written: the fields of schema/graph.fbs, before symbols are bound and names are
// resolved.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "compiler/ir/attributes.h"
#include "compiler/ir/graph.h"
#include "compiler/support/diagnostics.h"
#include "compiler/support/dtype.h"
#include "schema/plan_header.h"  // kMaxRank

namespace rlx {

// Limits of every graph format (schema/README.md). Readers refuse what lies beyond them.
inline constexpr size_t kMaxNameBytes = 256;
inline constexpr size_t kMaxNoteBytes = 4096;        // source notes, paths
inline constexpr size_t kMaxStringBytes = 1u << 16;  // string attributes
inline constexpr size_t kMaxListItems = 1u << 20;    // items of one list attribute
inline constexpr size_t kMaxNodes = 1u << 20;        // nodes of a file; tensors of a file
inline constexpr size_t kMaxEntries = 1024;
inline constexpr size_t kMaxBodyDepth = 8;  // of bodies inside each other
inline constexpr int64_t kMaxDim = (int64_t{1} << 40) - 1;
inline constexpr uint64_t kMaxTensorBytes = (uint64_t{1} << 48) - 1;

struct SourceSymbol {
  SourcePlace place;
  std::string name;
  int64_t minimum = 1;
  int64_t maximum = 1;
  int64_t multiple_of = 1;
};

// A number, or a symbol or an expression of symbols (dim_expression.h).
using SourceDim = std::variant<int64_t, std::string>;

// Paths are relative to the folder of the graph file and stay inside it.
struct NpyFile {
  std::string path;
};
struct SafetensorsFile {
  std::string path;
  std::string tensor;
};
struct RawFile {
  std::string path;
  uint64_t offset_bytes = 0;
  // The same bytes, of a reader that has the file open: taken as they are, `path` is for writers.
  std::optional<HostBytes> mapped = std::nullopt;
  // All of that file, where the bytes may stay there.
  std::span<const std::byte> file = {};
};
// HostBytes: inline, little-endian, row-major.
using SourceData =
    std::variant<HostBytes, NpyFile, SafetensorsFile, RawFile, SplatData, RandomData>;

// An input of an entry (no data), a param, a constant, or a state (no data: zeros).
struct SourceTensor {
  SourcePlace place;
  std::string name;
  DType dtype = DType::f32;
  std::vector<SourceDim> shape;
  std::optional<SourceData> data;
};

using SourceDims = std::vector<SourceDim>;
// Alternatives in the order of the union AttributeValue of graph.fbs.
using SourceAttribute =
    std::variant<int64_t, double, bool, std::string, Ints, Floats, Strings, SourceDims>;

struct SourceNode;

// A sub-graph of a node. Its inputs get their types from the node; names of the graph around it are
// known in it.
struct SourceBody {
  SourcePlace place;
  std::string name;  // its role, as the op calls it: "then"
  std::vector<std::string> inputs;
  std::vector<SourceNode> nodes;
  std::vector<std::string> outputs;
};

struct SourceNode {
  SourcePlace place;
  std::string name;
  std::string op;
  std::vector<std::optional<std::string>> inputs;  // nullopt: a missing optional input
  std::vector<std::string> outputs;
  std::map<std::string, SourceAttribute> attributes;
  std::string source;  // the author's note; may be empty
  std::vector<SourceBody> bodies = {};
};

struct SourceEntry {
  SourcePlace place;
  std::string name;
  std::vector<SourceTensor> inputs;
  std::vector<SourceNode> nodes;
  std::vector<std::string> outputs;
};

struct SourceGraph {
  std::string file;  // as named by the user; every place carries it
  std::string name;
  std::string producer;
  bool auto_promote = false;  // operands of elementwise ops are cast to a common dtype (promote.h)
  std::vector<SourceSymbol> symbols;
  std::vector<SourceTensor> params;
  std::vector<SourceTensor> constants;
  std::vector<SourceTensor> states;
  std::vector<SourceEntry> entries;
  std::vector<std::byte>
      text;  // tokenizer and chat templates (schema/text.fbs), of a language model
};

}  // namespace rlx
