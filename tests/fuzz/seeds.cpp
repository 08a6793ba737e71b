// SPDX-License-Identifier: Apache-2.0
// Writes seeds and dictionaries for the fuzz targets of the importer: ONNX's own small models, what
// they become as graph files, the graphs of the examples, and weight files of every element type.
//   rlx_fuzz_seeds OUT [FOLDER...]    folders are searched for .onnx and .json files
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "compiler/import/import.h"
#include "compiler/import/model_files.h"
#include "compiler/import/onnx/onnx_reader.h"
#include "compiler/ops/op_def.h"

using namespace rlx;

namespace {

constexpr size_t kMostBytes = 8192;  // of a seed: small ones are mutated to more effect

struct Seeds {
  std::filesystem::path folder;
  size_t count = 0;

  void add(const std::string& format, const std::string& name, std::string_view bytes) {
    if (bytes.size() > kMostBytes) return;
    std::filesystem::create_directories(folder / format);
    std::ofstream file(folder / format / name, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    ++count;
  }

  // A graph in each form that a graph file has.
  void add_graph(const std::string& name, const SourceGraph& graph) {
    Diagnostics ignored;
    add("json", name + ".json", write_json_graph(graph));
    if (const auto bytes = write_rlxg_graph(graph, ignored)) add("rlxg", name + ".rlxg", *bytes);
  }
};

std::string name_of(const std::filesystem::path& path) {
  return path.parent_path().filename().string() + "_" + path.stem().string();
}

void add_model(Seeds& seeds, const std::filesystem::path& path) {
  FileResult file = map_file(path.string());
  const auto* mapped = std::get_if<std::shared_ptr<const MappedFile>>(&file);
  if (mapped == nullptr) return;
  const auto bytes = (*mapped)->bytes();
  if (path.extension() == ".onnx") {
    seeds.add("onnx", name_of(path) + ".onnx",
              {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  Diagnostics ignored;
  if (const auto graph =
          read_graph({*mapped, bytes}, path.string(), ignored, {.keep_symbols = true}))
    seeds.add_graph(name_of(path), *graph);
}

void add_npy(Seeds& seeds) {
  constexpr std::array kTypes = {"<f4", "<f2", "<f8", ">f4", "|i1", "|u1", "<i2",
                                 ">i2", "<i4", "<u4", "<i8", "|b1", "<c8"};
  constexpr std::array kVersions = {1, 2, 3};
  for (size_t i = 0; i < kTypes.size(); ++i) {
    const int version = kVersions.at(i % 3);
    const bool fortran = i % 2 == 1;
    std::string header = std::string("{'descr': '") + kTypes.at(i) +
                         "', 'fortran_order': " + (fortran ? "True" : "False") +
                         ", 'shape': (2, 3), }";
    const size_t prefix = version == 1 ? 10 : 12;
    while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
    header += '\n';
    std::string bytes = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
    const auto length = static_cast<uint32_t>(header.size());
    bytes.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
    bytes += header;
    bytes.append(6 * static_cast<size_t>(kTypes.at(i)[2] - '0'), '\1');
    seeds.add(version == 1 ? "npy" : "npy_long", "seed_" + std::to_string(i) + ".npy", bytes);
  }
}

void add_safetensors(Seeds& seeds) {
  struct Row {
    const char* type;
    size_t bytes;
  };
  constexpr std::array kRows = {Row{"F32", 4}, Row{"F16", 2}, Row{"BF16", 2}, Row{"F64", 8},
                                Row{"I8", 1},  Row{"U8", 1},  Row{"I16", 2},  Row{"I32", 4},
                                Row{"U32", 4}, Row{"I64", 8}, Row{"BOOL", 1}, Row{"F8_E4M3", 1},
                                Row{"U64", 8}};
  std::string all = R"({"__metadata__":{"format":"pt"})";
  size_t offset = 0;
  for (const Row& row : kRows) {
    const std::string entry = std::string("\"t") + row.type + R"(":{"dtype":")" + row.type +
                              R"(","shape":[2,3],"data_offsets":[)";
    const auto with_header = [&](const std::string& header, size_t size) {
      const uint64_t length = header.size();
      std::string bytes(reinterpret_cast<const char*>(&length), 8);
      return bytes + header + std::string(size, '\1');
    };
    const size_t size = 6 * row.bytes;
    seeds.add("safetensors", std::string(row.type) + ".safetensors",
              with_header("{" + entry + "0," + std::to_string(size) + "]}}", size));
    all += "," + entry + std::to_string(offset) + "," + std::to_string(offset + size) + "]}";
    offset += size;
    seeds.add("safetensors", std::string("all_to_") + row.type + ".safetensors",
              with_header(all + "}", offset));
  }
}

// Words of each format, in libFuzzer's form: one quoted string a line.
void write_dictionaries(const Seeds& seeds) {
  std::set<std::string> graph_words;
  for (const OpDef* op : all_ops()) {
    graph_words.emplace(op->name);
    for (const AttrSpec& attribute : op->attrs) graph_words.emplace(attribute.name);
  }
  std::ofstream graphs(seeds.folder / "json.dict");
  for (const std::string& word : graph_words) graphs << "\"\\\"" << word << "\\\"\"\n";
  for (const char* word : {"symbols",
                           "params",
                           "constants",
                           "states",
                           "entries",
                           "inputs",
                           "nodes",
                           "outputs",
                           "shape",
                           "dtype",
                           "data",
                           "op",
                           "attributes",
                           "name",
                           "min",
                           "max",
                           "multiple_of",
                           "auto_promote",
                           "null",
                           "true",
                           "false",
                           "inf",
                           "1099511627775",
                           "281474976710655",
                           "9223372036854775807",
                           "1e308"})
    graphs << "\"" << word << "\"\n";
  std::ofstream binary(seeds.folder / "rlxg.dict");
  for (const std::string& word : graph_words) binary << "\"" << word << "\"\n";
  std::ofstream models(seeds.folder / "onnx.dict");
  for (const OnnxOperator& op : onnx_operators()) models << "\"" << op.name << "\"\n";
  std::ofstream arrays(seeds.folder / "npy.dict");
  for (const char* word : {"'descr'", "'fortran_order'", "'shape'", "True", "False", "'<f4'",
                           "'|O'", "(1099511627775,)", "()", "(0, 4611686018427387904)", "'>c8'"})
    arrays << "\"" << word << "\"\n";
  std::ofstream tensors(seeds.folder / "safetensors.dict");
  for (const char* word : {"dtype", "shape", "data_offsets", "__metadata__", "F32", "BF16", "I64",
                           "F8_E5M2", "18446744073709551615", "[0,0]", "1099511627776"})
    tensors << "\"" << word << "\"\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::puts("usage: rlx_fuzz_seeds OUT [FOLDER...]");
    return 1;
  }
  Seeds seeds{.folder = argv[1]};
  std::filesystem::create_directories(seeds.folder);
  for (int i = 2; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      const auto extension = entry.path().extension();
      if (extension == ".onnx" || extension == ".json") add_model(seeds, entry.path());
    }
  }
  add_npy(seeds);
  add_safetensors(seeds);
  write_dictionaries(seeds);
  std::printf("%zu seeds in %s\n", seeds.count, argv[1]);
  return 0;
}
