// SPDX-License-Identifier: Apache-2.0
// The flatbuffer form of a graph (.rlxg), bytes to SourceGraph.
#include <cstring>

#include "compiler/import/check_source.h"
#include "compiler/import/import.h"
#include "compiler/import/names.h"
#include "compiler/import/rlxg_verify.h"
#include "schema/graph_generated.h"

namespace rlx {
namespace {

constexpr uint32_t kVersion = 1;
constexpr uint64_t kMaxRlxgBytes = (uint64_t{1} << 31) - 1;  // offsets are signed 32-bit
constexpr size_t kAlignment = 16;

std::string text_of(const flatbuffers::String* text) {
  return text ? text->str() : std::string();
}

// Copies without relying on the alignment of the vector.
template <typename T>
std::vector<T> numbers_of(const flatbuffers::Vector<T>& vector) {
  std::vector<T> numbers(vector.size());
  if (!numbers.empty()) std::memcpy(numbers.data(), vector.Data(), numbers.size() * sizeof(T));
  return numbers;
}

template <typename Vector>
std::vector<std::string> texts_of(const Vector& vector) {
  std::vector<std::string> texts;
  texts.reserve(vector.size());
  for (const flatbuffers::String* text : vector) texts.push_back(text->str());
  return texts;
}

// Reads a verified buffer.
class GraphReader {
 public:
  GraphReader(GraphBytes bytes, const std::string& file, Diagnostics& diagnostics)
      : bytes_(std::move(bytes)), file_(file), diagnostics_(diagnostics) {}

  SourceGraph read() {
    const fb::Graph& source = *fb::GetGraph(bytes_.bytes.data());
    SourceGraph graph;
    graph.file = file_;
    if (source.version() != kVersion) {
      diagnostics_.error(DiagCode::UnsupportedVersion, {file_, "/version"},
                         "the graph has format version " + std::to_string(source.version()) +
                             ", this compiler reads version " + std::to_string(kVersion));
      return graph;
    }
    graph.name = text_of(source.name());
    graph.producer = text_of(source.producer());
    graph.auto_promote = source.auto_promote();
    graph.symbols =
        each<SourceSymbol>(source.symbols(), "/symbols/", [&](const auto& item, auto place) {
          return SourceSymbol{.place = std::move(place),
                              .name = item.name()->str(),
                              .minimum = item.min(),
                              .maximum = item.max(),
                              .multiple_of = item.multiple_of()};
        });
    graph.params = tensors(source.params(), "/params/");
    graph.constants = tensors(source.constants(), "/constants/");
    graph.states = tensors(source.states(), "/states/");
    graph.entries =
        each<SourceEntry>(source.entries(), "/entries/",
                          [&](const auto& item, auto place) { return entry(item, place); });
    if (source.text() != nullptr) {
      const auto text = std::as_bytes(std::span(source.text()->data(), source.text()->size()));
      graph.text.assign(text.begin(), text.end());
    }
    return graph;
  }

 private:
  template <typename Item, typename Vector, typename Read>
  std::vector<Item> each(const Vector* vector, const std::string& base, Read read) {
    std::vector<Item> items;
    if (vector == nullptr) return items;
    items.reserve(vector->size());
    for (uint32_t i = 0; i < vector->size(); ++i) {
      if (diagnostics_.error_count() > kMaxErrors) break;
      items.push_back(read(*vector->Get(i), SourcePlace{file_, base + std::to_string(i)}));
    }
    return items;
  }

  template <typename Vector>
  std::vector<SourceTensor> tensors(const Vector* vector, const std::string& base) {
    return each<SourceTensor>(vector, base,
                              [&](const auto& item, auto place) { return tensor(item, place); });
  }

  template <typename Vector>
  SourceDims dims(const Vector& vector, const SourcePlace& place) {
    SourceDims dims;
    dims.reserve(vector.size());
    for (const fb::Dim* dim : vector) {
      if (dim->symbol() == nullptr) {
        dims.emplace_back(dim->size());
        continue;
      }
      if (dim->size() != 0) {
        diagnostics_.error(DiagCode::BadField, place,
                           "a dim has both size " + std::to_string(dim->size()) + " and symbol " +
                               in_quotes(dim->symbol()->str()));
      }
      dims.emplace_back(dim->symbol()->str());
    }
    return dims;
  }

  SourceTensor tensor(const fb::Tensor& item, const SourcePlace& place) {
    SourceTensor tensor{.place = place, .name = item.name()->str()};
    const std::optional<DType> dtype = dtype_from_name(item.dtype()->str());
    if (!dtype) {
      diagnostics_.error(DiagCode::UnknownDtype, place,
                         "tensor " + in_quotes(tensor.name) + " has unknown dtype " +
                             in_quotes(item.dtype()->str()));
    }
    tensor.dtype = dtype.value_or(DType::f32);
    tensor.shape = dims(*item.shape(), place);
    tensor.data = data(item, place);
    return tensor;
  }

  std::optional<SourceData> data(const fb::Tensor& item, const SourcePlace& place) {
    switch (item.data_type()) {
      case fb::Data::NONE:
        return std::nullopt;
      case fb::Data::Bytes: {
        const auto& bytes = *item.data_as_Bytes()->data();
        return HostBytes{.owner = bytes_.owner,
                         .bytes = std::as_bytes(std::span(bytes.Data(), bytes.size()))};
      }
      case fb::Data::NpyFile:
        return NpyFile{item.data_as_NpyFile()->path()->str()};
      case fb::Data::SafetensorsFile: {
        const fb::SafetensorsFile& file = *item.data_as_SafetensorsFile();
        return SafetensorsFile{.path = file.path()->str(), .tensor = file.tensor()->str()};
      }
      case fb::Data::RawFile: {
        const fb::RawFile& file = *item.data_as_RawFile();
        return RawFile{.path = file.path()->str(), .offset_bytes = file.offset()};
      }
      case fb::Data::Splat:
        return SplatData{item.data_as_Splat()->value()};
      case fb::Data::Random:
        return random(*item.data_as_Random(), item.name()->str(), place);
    }
    return std::nullopt;
  }

  RandomData random(const fb::Random& item, const std::string& name, const SourcePlace& place) {
    const std::string distribution = item.distribution()->str();
    if (distribution != "uniform" && distribution != "normal") {
      diagnostics_.error(DiagCode::BadField, place,
                         "data of " + in_quotes(name) + " has unknown distribution " +
                             in_quotes(distribution) + ", wanted \"uniform\" or \"normal\"");
    }
    return {.distribution = distribution == "normal" ? RandomData::Distribution::Normal
                                                     : RandomData::Distribution::Uniform,
            .a = item.a(),
            .b = item.b(),
            .seed = item.seed(),
            .stream = item.stream()};
  }

  SourceAttribute attribute(const fb::Attribute& item, const SourcePlace& place) {
    switch (item.value_type()) {
      case fb::AttributeValue::NONE:
        break;  // refused by the verifier
      case fb::AttributeValue::IntValue:
        return item.value_as_IntValue()->value();
      case fb::AttributeValue::FloatValue:
        return item.value_as_FloatValue()->value();
      case fb::AttributeValue::BoolValue:
        return item.value_as_BoolValue()->value();
      case fb::AttributeValue::StringValue:
        return item.value_as_StringValue()->value()->str();
      case fb::AttributeValue::IntsValue: {
        const std::vector<int64_t> numbers = numbers_of(*item.value_as_IntsValue()->value());
        return Ints(numbers.begin(), numbers.end());
      }
      case fb::AttributeValue::FloatsValue:
        return numbers_of(*item.value_as_FloatsValue()->value());
      case fb::AttributeValue::StringsValue:
        return texts_of(*item.value_as_StringsValue()->value());
      case fb::AttributeValue::DimsValue:
        return dims(*item.value_as_DimsValue()->value(), place);
    }
    return int64_t{0};
  }

  SourceNode node(const fb::Node& item, const SourcePlace& place) {
    SourceNode node{.place = place, .name = item.name()->str(), .op = item.op()->str()};
    for (const flatbuffers::String* input : *item.inputs()) {
      node.inputs.push_back(input->size() == 0 ? std::nullopt : std::optional(input->str()));
    }
    node.outputs = texts_of(*item.outputs());
    node.source = text_of(item.source());
    node.bodies =
        each<SourceBody>(item.bodies(), place.position + "/bodies/",
                         [&](const auto& inner, auto where) { return body(inner, where); });
    if (item.attributes() == nullptr) return node;
    for (const fb::Attribute* written : *item.attributes()) {
      const std::string name = written->name()->str();
      if (node.attributes.emplace(name, attribute(*written, place)).second) continue;
      diagnostics_.error(
          DiagCode::DuplicateName, place,
          "attribute " + in_quotes(name) + " of node " + in_quotes(node.name) + " is given twice");
    }
    return node;
  }

  SourceBody body(const fb::Body& item, const SourcePlace& place) {
    return {.place = place,
            .name = item.name()->str(),
            .inputs = texts_of(*item.inputs()),
            .nodes =
                each<SourceNode>(item.nodes(), place.position + "/nodes/",
                                 [&](const auto& inner, auto where) { return node(inner, where); }),
            .outputs = texts_of(*item.outputs())};
  }

  SourceEntry entry(const fb::GraphEntry& item, const SourcePlace& place) {
    SourceEntry entry{.place = place, .name = item.name()->str()};
    entry.inputs = tensors(item.inputs(), place.position + "/inputs/");
    entry.nodes =
        each<SourceNode>(item.nodes(), place.position + "/nodes/",
                         [&](const auto& inner, auto where) { return node(inner, where); });
    entry.outputs = texts_of(*item.outputs());
    return entry;
  }

  GraphBytes bytes_;
  const std::string& file_;
  Diagnostics& diagnostics_;
};

// The same bytes at an address that flatbuffers can read from; mapped files already are.
GraphBytes aligned(const GraphBytes& bytes) {
  if (reinterpret_cast<uintptr_t>(bytes.bytes.data()) % kAlignment == 0) return bytes;
  auto owner = std::make_shared<std::vector<std::byte>>(bytes.bytes.begin(), bytes.bytes.end());
  const std::span<const std::byte> view(*owner);
  return {.owner = std::move(owner), .bytes = view};
}

}  // namespace

std::optional<SourceGraph> read_rlxg_graph(const GraphBytes& bytes, const std::string& file,
                                           Diagnostics& diagnostics) {
  if (bytes.bytes.size() > kMaxRlxgBytes) {
    diagnostics.error(DiagCode::Limit, {file, ""},
                      "the flatbuffer has " + std::to_string(bytes.bytes.size()) +
                          " bytes, at most " + std::to_string(kMaxRlxgBytes) + " are read",
                      "keep the weights in .safetensors or .npy files");
    return std::nullopt;
  }
  if (detect_format(bytes.bytes) != GraphFormat::Rlxg) {
    diagnostics.error(DiagCode::Syntax, {file, ""},
                      "these bytes are no graph flatbuffer: byte 4 does not begin \"RLXG\"");
    return std::nullopt;
  }
  const GraphBytes readable = aligned(bytes);
  if (const std::optional<std::string> fault = find_rlxg_fault(readable.bytes)) {
    diagnostics.error(DiagCode::Syntax, {file, "/" + *fault},
                      "malformed flatbuffer: an offset, length or union there is out of bounds");
    return std::nullopt;
  }
  const size_t errors_before = diagnostics.error_count();
  SourceGraph graph = GraphReader(readable, file, diagnostics).read();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  if (!check_source(graph, diagnostics)) return std::nullopt;
  return graph;
}

}  // namespace rlx
