// SPDX-License-Identifier: Apache-2.0
// Operators of com.microsoft: what becomes of them, and what is refused.
#ifdef RLX_HAS_ONNX
#include "schema/rounding.h"
#include "tests/import/onnx_support.h"

namespace rlx::test {
namespace {

struct FusedInput {
  Shape shape;                        // empty: left out
  std::optional<int64_t> value = {};  // a constant of i32 with this element
};

// One node with inputs i0, i1 ..; its outputs are o0, o1 ..
onnx::ModelProto fused_model(const std::string& op, const std::vector<FusedInput>& inputs,
                             const std::vector<std::pair<std::string, int64_t>>& attributes = {},
                             size_t output_count = 1, const std::string& domain = "com.microsoft") {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::OperatorSetIdProto& opset = *model.add_opset_import();
  opset.set_domain("com.microsoft");
  opset.set_version(1);
  onnx::GraphProto& graph = *model.mutable_graph();
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_domain(domain);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = "i" + std::to_string(i);
    const FusedInput& input = inputs[i];
    node.add_input(input.shape.empty() && !input.value ? "" : name);
    if (input.value) {
      onnx::TensorProto& tensor = *graph.add_initializer();
      tensor.set_name(name);
      tensor.set_data_type(onnx::TensorProto::INT32);
      tensor.add_int32_data(static_cast<int32_t>(*input.value));
      continue;
    }
    if (input.shape.empty()) continue;
    onnx::ValueInfoProto& added = *graph.add_input();
    added.set_name(name);
    auto& tensor = *added.mutable_type()->mutable_tensor_type();
    // Counts, masks and positions have few axes and no even size here.
    tensor.set_elem_type(input.shape.back() % 2 == 1 && input.shape.size() < 3
                             ? onnx::TensorProto::INT32
                             : onnx::TensorProto::FLOAT);
    for (const int64_t dim : input.shape) tensor.mutable_shape()->add_dim()->set_dim_value(dim);
  }
  for (const auto& [name, value] : attributes) add_integer(node, name, value);
  for (size_t i = 0; i < output_count; ++i) {
    node.add_output("o" + std::to_string(i));
    graph.add_output()->set_name("o" + std::to_string(i));
  }
  return model;
}

const SourceNode& fused_node(const SourceGraph& graph, const std::string& op) {
  for (const SourceNode& node : graph.entries.front().nodes) {
    if (node.op == op) return node;
  }
  FAIL("no " + op + " in " + ops_of(graph));
  return graph.entries.front().nodes.front();
}

bool reads(const SourceNode& node, size_t i) {
  return i < node.inputs.size() && node.inputs[i].has_value();
}

template <typename T>
T attribute_in(const SourceNode& node, const std::string& name) {
  return std::get<T>(node.attributes.at(name));
}

std::string refusal_of(const onnx::ModelProto& model) {
  return read_bad(model).text();
}

// One past of 4 keys for each of 3 sequences, 4 heads that share 2, and so many keys in all.
std::vector<FusedInput> grouped(int64_t tokens, int64_t total) {
  return {{{3, tokens, 32}}, {{3, tokens, 16}}, {{3, tokens, 16}},
          {{3, 2, 4, 8}},    {{3, 2, 4, 8}},    {{3}},
          {{}, total},       {{10, 4}},         {{10, 4}}};
}
const std::vector<std::pair<std::string, int64_t>> kGroupedHeads = {
    {"num_heads", 4}, {"kv_num_heads", 2}, {"do_rotary", 1}};

}  // namespace

TEST_CASE("activations with a bias and norms with a skip of com.microsoft are what they compute") {
  CHECK(ops_of(read_good(fused_model("FastGelu", {{{2, 8}}, {{8}}}))) == "add gelu_tanh");
  CHECK(ops_of(read_good(fused_model("BiasGelu", {{{2, 8}}, {{8}}}))) == "add gelu");
  CHECK(ops_of(read_good(fused_model("QuickGelu", {{{2, 8}}}))) == "swish");
  const SourceGraph skip =
      read_good(fused_model("SkipLayerNormalization", {{{2, 8}}, {{2, 8}}, {{8}}, {{8}}, {{8}}}));
  CHECK(ops_of(skip) == "add add layer_norm");
  CHECK(attribute_in<double>(fused_node(skip, "layer_norm"), "eps") == 1e-12);
  CHECK(ops_of(read_good(fused_model("SkipSimplifiedLayerNormalization",
                                     {{{2, 8}}, {{2, 8}}, {{8}}}))) == "add rms_norm");
  // onnxruntime leaves the domain out.
  CHECK(ops_of(read_good(fused_model("SimplifiedLayerNormalization", {{{2, 8}}, {{8}}}, {}, 1,
                                     ""))) == "rms_norm");
  CHECK(refusal_of(fused_model("SkipLayerNormalization", {{{2, 8}}, {{2, 8}}, {{8}}}, {}, 2))
            .find("for training") != std::string::npos);
  CHECK(refusal_of(fused_model("Frobnicate", {{{2, 8}}})).find("com.microsoft") !=
        std::string::npos);
}

namespace {

// a [3, K] times 6 rows of K numbers in blocks of 32, as bytes that the model has.
onnx::ModelProto packed_model(int64_t columns, int64_t bits, int64_t code_bytes, bool has_zeros) {
  onnx::ModelProto model =
      fused_model("MatMulNBits", {{{1, 3, columns}}},
                  {{"K", columns}, {"N", 6}, {"bits", bits}, {"block_size", 32}});
  onnx::GraphProto& graph = *model.mutable_graph();
  onnx::NodeProto& node = *graph.mutable_node(0);
  const int64_t blocks = ceil_div(columns, 32);
  const auto add = [&](const char* name, onnx::TensorProto::DataType type, int64_t count,
                       size_t bytes) {
    node.add_input(name);
    onnx::TensorProto& tensor = *graph.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    tensor.add_dims(count);
    tensor.set_raw_data(std::string(static_cast<size_t>(count) * bytes, '\1'));
  };
  add("codes", onnx::TensorProto::UINT8, code_bytes, 1);
  add("scales", onnx::TensorProto::FLOAT, 6 * blocks, 4);
  if (has_zeros) add("zeros", onnx::TensorProto::UINT8, 6 * ceil_div(blocks * bits, 8), 1);
  return model;
}

}  // namespace

TEST_CASE("products of com.microsoft take turned operands, a factor and packed weights") {
  const SourceGraph turned = read_good(
      fused_model("FusedMatMul", {{{2, 8, 4}}, {{2, 6, 8}}}, {{"transA", 1}, {"transB", 1}}));
  CHECK(ops_of(turned) == "matmul");
  CHECK(attribute_in<bool>(fused_node(turned, "matmul"), "trans_a"));
  CHECK(attribute_in<bool>(fused_node(turned, "matmul"), "trans_b"));
  const SourceGraph whole = read_good(packed_model(64, 4, 6 * 2 * 16, false));
  CHECK(whole.entries.front().outputs.size() == 1);
  CHECK(attribute_in<bool>(fused_node(whole, "matmul"), "trans_b"));
  read_good(packed_model(80, 4, 6 * 3 * 16, true));
  read_good(packed_model(80, 8, 6 * 3 * 32, true));
  CHECK(refusal_of(packed_model(64, 4, 6 * 2 * 15, false)).find("wanted u8") != std::string::npos);
  CHECK(refusal_of(packed_model(64, 3, 6 * 2 * 12, false)).find("wanted 2, 4 or 8") !=
        std::string::npos);
}

TEST_CASE(
    "a multi-head attention of com.microsoft keeps its layouts, and takes both kinds of mask") {
  const std::vector<FusedInput> apart = {{{1, 2, 16}}, {{1, 5, 16}}, {{1, 5, 16}}};
  const auto with_mask = [&apart](const Shape& mask) {
    std::vector<FusedInput> inputs = apart;
    inputs.push_back({});
    inputs.push_back({mask});
    return read_good(fused_model("MultiHeadAttention", inputs, {{"num_heads", 2}}));
  };
  const SourceGraph counts = with_mask({1});
  CHECK(ops_of(counts) == "attention");
  CHECK(reads(fused_node(counts, "attention"), 5));
  CHECK(attribute_in<std::string>(fused_node(counts, "attention"), "kv_layout") == "bsd");
  const SourceGraph keys = with_mask({1, 5});
  CHECK(reads(fused_node(keys, "attention"), 3));
  CHECK_FALSE(reads(fused_node(keys, "attention"), 5));
  const SourceGraph cross = read_good(fused_model(
      "MultiHeadAttention", {{{1, 2, 16}}, {{1, 2, 5, 8}}, {{1, 2, 5, 8}}}, {{"num_heads", 2}}));
  CHECK(attribute_in<std::string>(fused_node(cross, "attention"), "kv_layout") == "bhsd");
  std::vector<FusedInput> wrong = apart;
  wrong.push_back({});
  wrong.push_back({{1, 3}});
  CHECK(refusal_of(fused_model("MultiHeadAttention", wrong, {{"num_heads", 2}}))
            .find("wanted counts of keys") != std::string::npos);
  CHECK(refusal_of(
            fused_model("MultiHeadAttention", apart, {{"num_heads", 2}, {"unidirectional", 1}}))
            .find("no past says where they stand") != std::string::npos);
  CHECK(refusal_of(fused_model("MultiHeadAttention", apart, {{"num_heads", 3}}))
            .find("does not fall into 3 heads") != std::string::npos);
}

TEST_CASE("an attention of com.microsoft is a product whose columns are q, k and v") {
  const std::vector<FusedInput> inputs = {{{1, 2, 6}}, {{6, 24}}, {{24}}};
  const SourceGraph graph =
      read_good(fused_model("Attention", inputs, {{"num_heads", 2}, {"unidirectional", 1}}));
  CHECK(ops_of(graph) == "matmul add slice slice slice attention");
  CHECK(attribute_in<bool>(fused_node(graph, "attention"), "causal"));
  CHECK(attribute_in<int64_t>(fused_node(graph, "attention"), "head_dim") == 4);
  CHECK(refusal_of(fused_model("Attention", inputs, {{"num_heads", 3}}))
            .find("24 columns are not q, k and v of 3 heads") != std::string::npos);
  // Ends of keys, then begins.
  std::vector<FusedInput> bounded = {{{3, 2, 6}}, {{6, 24}}, {{24}}, {{6}}};
  const auto masked = [&](const Shape& mask) {
    bounded.back().shape = mask;
    onnx::ModelProto model = fused_model("Attention", bounded, {{"num_heads", 2}});
    model.mutable_graph()->mutable_input(3)->mutable_type()->mutable_tensor_type()->set_elem_type(
        onnx::TensorProto::INT32);
    return model;
  };
  const SourceGraph ends = read_good(masked({6}));
  CHECK(reads(fused_node(ends, "attention"), 3));
  CHECK_FALSE(reads(fused_node(ends, "attention"), 5));
  CHECK(ops_of(ends).find("lt") != std::string::npos);
  CHECK(refusal_of(masked({9})).find("the mask is [9]") != std::string::npos);
  const onnx::ModelProto alone = masked({3});
  CHECK(reads(fused_node(read_good(alone), "attention"), 5));
}

TEST_CASE("a grouped attention of com.microsoft appends behind each sequence's own past") {
  // The first tokens: no past, positions from 0 on.
  const SourceGraph first =
      read_good(fused_model("GroupQueryAttention", grouped(4, 4), kGroupedHeads));
  const SourceNode& prompt = fused_node(first, "attention");
  CHECK(attribute_in<std::string>(prompt, "causal_align") == "start");
  CHECK(reads(prompt, 5));
  CHECK_FALSE(reads(fused_node(first, "rope"), 3));
  CHECK(ops_of(first).find("kv_append") == std::string::npos);
  // One more, for which the cache has no room.
  const SourceGraph next =
      read_good(fused_model("GroupQueryAttention", grouped(1, 5), kGroupedHeads, 3));
  CHECK(ops_of(next).find("concat kv_append") != std::string::npos);
  CHECK_FALSE(fused_node(next, "attention").attributes.contains("causal_align"));
  CHECK(reads(fused_node(next, "rope"), 3));
  // One more, for which it has.
  const SourceGraph shared =
      read_good(fused_model("GroupQueryAttention", grouped(1, 3), kGroupedHeads, 3));
  CHECK(ops_of(shared).find("concat") == std::string::npos);
  CHECK(ops_of(shared).find("kv_append") != std::string::npos);
  // A window counts the token itself.
  std::vector<std::pair<std::string, int64_t>> windowed = kGroupedHeads;
  windowed.emplace_back("local_window_size", 3);
  const SourceGraph window = read_good(fused_model("GroupQueryAttention", grouped(4, 4), windowed));
  CHECK(attribute_in<int64_t>(fused_node(window, "attention"), "window_left") == 2);
  // Sinks beside the keys: given, or of score 0.
  std::vector<FusedInput> with_sinks = grouped(4, 4);
  with_sinks.insert(with_sinks.end(), {{}, {}, {{4}}});
  std::vector<std::pair<std::string, int64_t>> smooth = kGroupedHeads;
  smooth.emplace_back("smooth_softmax", 1);
  CHECK_FALSE(reads(prompt, 7));
  for (const auto& model : {fused_model("GroupQueryAttention", with_sinks, kGroupedHeads),
                            fused_model("GroupQueryAttention", grouped(4, 4), smooth)})
    CHECK(reads(fused_node(read_good(model), "attention"), 7));
  std::vector<FusedInput> unknown = grouped(1, 5);
  unknown[6] = {{1}};
  CHECK(refusal_of(fused_model("GroupQueryAttention", unknown, kGroupedHeads))
            .find("total_sequence_length") != std::string::npos);
}

}  // namespace rlx::test
#endif
