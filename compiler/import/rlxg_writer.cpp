// SPDX-License-Identifier: Apache-2.0
// SourceGraph to the flatbuffer form (.rlxg). Equal graphs give equal bytes.
#include "compiler/import/import.h"
#include "schema/graph_generated.h"

namespace rlx {
namespace {

using flatbuffers::Offset;

// The builder ends the process beyond 2 GiB; writing stops well before.
constexpr uint64_t kMaxWrittenBytes = (uint64_t{1} << 31) - (uint64_t{1} << 27);
constexpr size_t kDataAlignment = 16;

struct UnionValue {
  uint8_t type = 0;
  Offset<void> value;
};

class GraphWriter {
 public:
  std::optional<std::string> write(const SourceGraph& graph) {
    const auto name = optional_text(graph.name);
    const auto producer = optional_text(graph.producer);
    const auto symbols = each<fb::GraphSymbol>(graph.symbols, [&](const SourceSymbol& symbol) {
      return fb::CreateGraphSymbol(builder_, text(symbol.name), symbol.minimum, symbol.maximum,
                                   symbol.multiple_of);
    });
    const auto params = tensors(graph.params);
    const auto constants = tensors(graph.constants);
    const auto states = tensors(graph.states);
    const auto entries =
        each<fb::GraphEntry>(graph.entries, [&](const SourceEntry& item) { return entry(item); });
    const auto text = optional_bytes(graph.text);
    fb::FinishGraphBuffer(
        builder_, fb::CreateGraph(builder_, 1, name, producer, symbols, params, constants, states,
                                  entries, graph.auto_promote, text));
    if (is_too_big_) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(builder_.GetBufferPointer()),
                       builder_.GetSize());
  }

 private:
  // Whether `bytes` more still fit; what does not is left out, and the whole buffer is dropped at
  // the end.
  bool fits(uint64_t bytes) {
    if (builder_.GetSize() + bytes > kMaxWrittenBytes) is_too_big_ = true;
    return !is_too_big_;
  }

  // Tables with real numbers are written in full: the builder leaves out what equals the default 0,
  // and -0 does.
  template <typename Write>
  UnionValue exact(Write write) {
    builder_.ForceDefaults(true);
    const UnionValue value = write();
    builder_.ForceDefaults(false);
    return value;
  }

  Offset<flatbuffers::String> text(const std::string& text) {
    return builder_.CreateString(fits(text.size()) ? text : std::string());
  }
  Offset<flatbuffers::String> optional_text(const std::string& written) {
    return written.empty() ? Offset<flatbuffers::String>() : text(written);
  }
  Offset<flatbuffers::Vector<uint8_t>> optional_bytes(const std::vector<std::byte>& bytes) {
    if (bytes.empty() || !fits(bytes.size())) return {};
    return builder_.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
  Offset<flatbuffers::Vector<Offset<flatbuffers::String>>> texts(
      const std::vector<std::string>& texts) {
    std::vector<Offset<flatbuffers::String>> offsets;
    for (const std::string& item : texts) offsets.push_back(text(item));
    return builder_.CreateVector(offsets);
  }

  template <typename Table, typename Item, typename Write>
  Offset<flatbuffers::Vector<Offset<Table>>> each(const std::vector<Item>& items, Write write) {
    std::vector<Offset<Table>> offsets;
    offsets.reserve(items.size());
    for (const Item& item : items) {
      if (!fits(0)) break;
      offsets.push_back(write(item));
    }
    return builder_.CreateVector(offsets);
  }

  Offset<flatbuffers::Vector<Offset<fb::Dim>>> dims(const SourceDims& dims) {
    return each<fb::Dim>(dims, [&](const SourceDim& dim) {
      if (const auto* size = std::get_if<int64_t>(&dim)) return fb::CreateDim(builder_, *size);
      return fb::CreateDim(builder_, 0, text(std::get<std::string>(dim)));
    });
  }

  UnionValue data(const HostBytes& data) {
    const size_t size = fits(data.bytes.size()) ? data.bytes.size() : 0;
    builder_.ForceVectorAlignment(size, 1, kDataAlignment);
    const auto bytes =
        builder_.CreateVector(reinterpret_cast<const uint8_t*>(data.bytes.data()), size);
    return {uint8_t(fb::Data::Bytes), fb::CreateBytes(builder_, bytes).Union()};
  }
  UnionValue data(const NpyFile& file) {
    return {uint8_t(fb::Data::NpyFile), fb::CreateNpyFile(builder_, text(file.path)).Union()};
  }
  UnionValue data(const SafetensorsFile& file) {
    const auto path = text(file.path);
    const auto tensor = text(file.tensor);
    return {uint8_t(fb::Data::SafetensorsFile),
            fb::CreateSafetensorsFile(builder_, path, tensor).Union()};
  }
  UnionValue data(const RawFile& file) {
    return {uint8_t(fb::Data::RawFile),
            fb::CreateRawFile(builder_, text(file.path), file.offset_bytes).Union()};
  }
  UnionValue data(const SplatData& splat) {
    return exact([&] {
      return UnionValue{uint8_t(fb::Data::Splat), fb::CreateSplat(builder_, splat.value).Union()};
    });
  }
  UnionValue data(const RandomData& random) {
    const bool is_normal = random.distribution == RandomData::Distribution::Normal;
    const auto distribution = builder_.CreateString(is_normal ? "normal" : "uniform");
    return exact([&] {
      return UnionValue{
          uint8_t(fb::Data::Random),
          fb::CreateRandom(builder_, distribution, random.a, random.b, random.seed, random.stream)
              .Union()};
    });
  }

  Offset<flatbuffers::Vector<Offset<fb::Tensor>>> tensors(
      const std::vector<SourceTensor>& tensors) {
    return each<fb::Tensor>(tensors, [&](const SourceTensor& tensor) {
      UnionValue value;
      if (tensor.data)
        value = std::visit([&](const auto& written) { return data(written); }, *tensor.data);
      const auto name = text(tensor.name);
      const auto dtype = builder_.CreateSharedString(std::string(name_of(tensor.dtype)));
      const auto shape = dims(tensor.shape);
      return fb::CreateTensor(builder_, name, dtype, shape, static_cast<fb::Data>(value.type),
                              value.value);
    });
  }

  UnionValue attribute(int64_t value) {
    return {uint8_t(fb::AttributeValue::IntValue), fb::CreateIntValue(builder_, value).Union()};
  }
  UnionValue attribute(double value) {
    return exact([&] {
      return UnionValue{uint8_t(fb::AttributeValue::FloatValue),
                        fb::CreateFloatValue(builder_, value).Union()};
    });
  }
  UnionValue attribute(bool value) {
    return {uint8_t(fb::AttributeValue::BoolValue), fb::CreateBoolValue(builder_, value).Union()};
  }
  UnionValue attribute(const std::string& value) {
    return {uint8_t(fb::AttributeValue::StringValue),
            fb::CreateStringValue(builder_, text(value)).Union()};
  }
  UnionValue attribute(const Ints& value) {
    const auto ints =
        builder_.CreateVector(fits(value.size() * 8) ? numbers_of(value) : std::vector<int64_t>());
    return {uint8_t(fb::AttributeValue::IntsValue), fb::CreateIntsValue(builder_, ints).Union()};
  }
  UnionValue attribute(const Floats& value) {
    const auto floats = builder_.CreateVector(fits(value.size() * 8) ? value : Floats());
    return {uint8_t(fb::AttributeValue::FloatsValue),
            fb::CreateFloatsValue(builder_, floats).Union()};
  }
  UnionValue attribute(const Strings& value) {
    return {uint8_t(fb::AttributeValue::StringsValue),
            fb::CreateStringsValue(builder_, texts(value)).Union()};
  }
  UnionValue attribute(const SourceDims& value) {
    return {uint8_t(fb::AttributeValue::DimsValue),
            fb::CreateDimsValue(builder_, dims(value)).Union()};
  }

  Offset<fb::Node> node(const SourceNode& node) {
    std::vector<Offset<fb::Attribute>> attributes;
    for (const auto& [name, value] : node.attributes) {
      const auto key = text(name);
      const UnionValue written =
          std::visit([&](const auto& typed) { return attribute(typed); }, value);
      attributes.push_back(fb::CreateAttribute(
          builder_, key, static_cast<fb::AttributeValue>(written.type), written.value));
    }
    std::vector<std::string> input_names;
    for (const auto& input : node.inputs) input_names.push_back(input.value_or(std::string()));
    const auto name = text(node.name);
    const auto op = builder_.CreateSharedString(fits(node.op.size()) ? node.op : std::string());
    const auto inputs = texts(input_names);
    const auto outputs = texts(node.outputs);
    const auto source = optional_text(node.source);
    const auto list = attributes.empty() ? 0 : builder_.CreateVector(attributes);
    const auto bodies =
        node.bodies.empty()
            ? 0
            : each<fb::Body>(node.bodies, [&](const SourceBody& item) { return body(item); });
    return fb::CreateNode(builder_, name, op, inputs, outputs, list, source, bodies);
  }

  Offset<fb::Body> body(const SourceBody& body) {
    const auto name = text(body.name);
    const auto inputs = texts(body.inputs);
    const auto nodes =
        each<fb::Node>(body.nodes, [&](const SourceNode& item) { return node(item); });
    const auto outputs = texts(body.outputs);
    return fb::CreateBody(builder_, name, inputs, nodes, outputs);
  }

  Offset<fb::GraphEntry> entry(const SourceEntry& entry) {
    const auto name = text(entry.name);
    const auto inputs = tensors(entry.inputs);
    const auto nodes =
        each<fb::Node>(entry.nodes, [&](const SourceNode& item) { return node(item); });
    const auto outputs = texts(entry.outputs);
    return fb::CreateGraphEntry(builder_, name, inputs, nodes, outputs);
  }

  flatbuffers::FlatBufferBuilder builder_{1 << 16};
  bool is_too_big_ = false;
};

}  // namespace

std::optional<std::string> write_rlxg_graph(const SourceGraph& graph, Diagnostics& diagnostics) {
  std::optional<std::string> bytes = GraphWriter().write(graph);
  if (!bytes) {
    diagnostics.error(DiagCode::Limit, {graph.file, ""},
                      "the graph with its inline weights is too big for one flatbuffer of 2 GiB",
                      "keep the weights in .safetensors or .npy files");
  }
  return bytes;
}

}  // namespace rlx
