// SPDX-License-Identifier: Apache-2.0
// Names of the reference IR: each alias beside what the catalogue calls the same.
#include <cmath>
#include <set>
#include <sstream>

#include "compiler/extension/load_extension.h"
#include "compiler/import/reference_ir/alias.h"
#include "compiler/reference/evaluate.h"
#include "tests/import/import_support.h"

namespace rlx::test {
namespace {

// A node as a line: "op in in - out; attributes", "-" a missing input, the outputs behind "->".
// Bodies stand in the attributes' place as `bodies {...}`.
std::string node_of(const std::string& line) {
  const size_t semicolon = line.find(';');
  std::istringstream words(line.substr(0, semicolon));
  std::string op;
  words >> op;
  std::string inputs;
  std::string outputs;
  bool is_behind = false;
  for (std::string word; words >> word;) {
    if (word == "->") {
      is_behind = true;
      continue;
    }
    std::string& list = is_behind ? outputs : inputs;
    list += (list.empty() ? "" : ", ") + (word == "-" ? "null" : "\"" + word + "\"");
  }
  std::string rest = semicolon == std::string::npos ? "" : line.substr(semicolon + 1);
  std::string fields;
  const size_t bodies = rest.find("bodies ");
  if (bodies != std::string::npos) {
    fields = ", \"bodies\": {" + rest.substr(bodies + 7) + "}";
    rest = rest.substr(0, bodies);
  }
  return R"({"op": ")" + op + R"(", "inputs": [)" + inputs + R"(], "outputs": [)" + outputs +
         R"(], "attributes": {)" + rest + "}" + fields + "}";
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, by);) {
    if (part.find_first_not_of(" \n") != std::string::npos) parts.push_back(part);
  }
  return parts;
}

// Inputs as "x 2,3  k:i32 4": f32 unless a type is named. Names that begin with W are params of
// bytes: blocks of q8_0 of scale 1.
std::string graph_of(const std::string& inputs, const std::string& nodes) {
  std::string declared;
  std::string params;
  std::istringstream words(inputs);
  for (std::string name, shape; words >> name >> shape;) {
    const size_t colon = name.find(':');
    const std::string dtype = colon == std::string::npos ? "f32" : name.substr(colon + 1);
    name = name.substr(0, colon);
    if (shape == "-") shape.clear();
    std::string tensor =
        R"({"name": ")" + name + R"(", "dtype": ")" + dtype + R"(", "shape": [)" + shape + "]";
    if (name.front() != 'W') {
      declared += (declared.empty() ? "" : ", ") + tensor + "}";
      continue;
    }
    std::string values;
    for (int i = 0; i < std::stoi(shape); ++i) {
      const int at = i % 34;
      values += (i == 0 ? "" : ", ") + std::to_string(at == 0 ? 0 : at == 1 ? 60 : (i * 37) % 256);
    }
    params += (params.empty() ? "" : ", ") + tensor + R"(, "data": {"values": [)" + values + "]}}";
  }
  std::string list;
  for (const std::string& line : split(nodes, '\n'))
    list += (list.empty() ? "" : ", ") + node_of(line);
  return R"({"rlx_graph": 1, "params": [)" + params + R"(], "inputs": [)" + declared +
         R"(], "nodes": [)" + list + R"(], "outputs": ["y"]})";
}

// Names that begin with i hold small indices, with p positive numbers, with m ones and zeros.
Tensor input_for(const Value& value, size_t seed) {
  Tensor tensor = Tensor::zeros(value.type);
  const char kind = value.name.front();
  for (size_t i = 0; i < tensor.floats.size(); ++i) {
    const double wave = std::sin(1.7 * static_cast<double>(i) + 0.9 * static_cast<double>(seed));
    tensor.floats[i] = kind == 'i'   ? static_cast<double>((i * 5 + 1) % 2)
                       : kind == 'm' ? static_cast<double>(i % 3 != 1)
                       : kind == 'p' ? 0.6 + 0.4 * wave
                                     : wave;
  }
  for (size_t i = 0; i < tensor.integers.size(); ++i)
    tensor.integers[i] = kind == 'i' || kind == 'm' ? static_cast<int64_t>((i * 5 + 1) % 2)
                                                    : static_cast<int64_t>(i * 7 % 11) - 5;
  tensor.round_to_dtype();
  return tensor;
}

Tensor evaluated(const std::string& json) {
  INFO(json);
  const Module module = bind_good(json);
  const Graph& graph = module.entries.at(0);
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs) inputs.push_back(input_for(graph.value(id), inputs.size()));
  StateValues states;
  Diagnostics diagnostics;
  auto outputs = evaluate_entry(module, graph, inputs, states, {}, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(outputs.has_value());
  return outputs->at(0);
}

struct Case {
  std::string inputs;
  std::string alias;      // one line, its result y
  std::string catalogue;  // lines, the last result y
};

const std::string kScene = "pos 9  scales 9  turns 12  pop 3  pcolors 9  sh 0  meta 23 ";
const std::string kShaped =
    "reshape pos -> pos2; \"shape\": [3, 3]\nreshape scales -> scales2; \"shape\": [3, 3]\n"
    "reshape turns -> turns2; \"shape\": [3, 4]\nreshape pcolors -> colors2; \"shape\": [3, 3]\n"
    "reshape sh -> sh2; \"shape\": [3, 0, 3]\n";
const std::string kSplats =
    R"("width": 6, "height": 5, "tile_size": 4, "radius_scale": 1.6, "alpha_cutoff": 0.004, )"
    R"("transmittance_threshold": 0.01, "max_list_entries": 32)";

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"x 2,3", R"(Activation x -> y; "kind": "GeluApprox")", "gelu_tanh x -> y"},
      {"x 2,3", R"(Activation x -> y; "kind": "HardSigmoid")",
       "hard_sigmoid x -> y; \"alpha\": 0.16666666666666666"},
      {"px 2,3", R"(Activation px -> y; "kind": "Recip")", "reciprocal px -> y"},
      {"a 2,3  b 3", R"(Binary a b -> y; "kind": "Max")", "max a b -> y"},
      {"a 2,3  pb 3", R"(Binary a pb -> y; "kind": "Mod")", "fmod a pb -> y"},
      {"ia 4  mb 4", R"(Binary ia mb -> y; "kind": "BitXor")",
       "cast ia -> a; \"to\": \"i32\"\ncast mb -> b; \"to\": \"i32\"\nbitwise_xor a b -> c\ncast c "
       "-> y; \"to\": \"f32\""},
      {"a 2,3  b 3", R"(Compare a b -> y; "kind": "Lt")", "lt a b -> y"},
      {"a 2,3  b 3", R"(Compare a b -> y; "kind": "Ge", "dtype": "f32")",
       "ge a b -> c\ncast c -> y; \"to\": \"f32\""},
      {"m 4  a 4  b 4", "Where m a b -> y", "where m a b -> y"},
      {"a 4  b 4  c 4", "Fma a b c -> y", "fma a b c -> y"},
      {"a 4", R"(Cast a -> y; "to": "f16")", "cast a -> y; \"to\": \"f16\""},
      {"a 4", "StopGradient a -> y", "identity a -> y"},
      {"a 4", R"(Clamp a -> y; "min": -0.5, "max": 0.25)",
       "clamp a -> y; \"min\": -0.5, \"max\": 0.25"},
      {"a 2,4  b 4",
       R"x(ElementwiseRegion a b -> y; "chain": ["add(0, 1)", "relu(2)"], "num_inputs": 2, "scalar_input_mask": 0, "input_modulus": [0, 4, 0, 0])x",
       "add a b -> s\nrelu s -> y"},
      {"a 1,2,2,2",
       R"x(ElementwiseRegion a -> y; "chain": ["neg(0)"], "prologue": "ResizeNearest2x", "prologue_input": 0)x",
       "resize_nearest_2x a -> s\nneg s -> y"},
      {"a 1,3  b 1,3",
       R"x(BatchElementwiseRegion a b -> y; "chain": ["tanh(0)"], "num_batch_inputs": 2)x",
       "concat a b -> s; \"axis\": 0\ntanh s -> y"},
      {"a 1,2,2,2", R"(TransformRegion a -> y; "steps": ["ResizeNearest2x"], "num_inputs": 1)",
       "resize_nearest_2x a -> y"},
      // Quantisation.
      {"a 2,3",
       R"(Quantize a -> y; "axis": 1, "scales": [0.1, 0.2, 0.3], "zero_points": [0, 1, 2])",
       R"(quantize a -> y; "axis": 1, "scales": [0.1, 0.2, 0.3], "zero_points": [0, 1, 2], "to": "i8")"},
      {"a:i8 2,3", R"(Dequantize a -> y; "scales": [0.5], "zero_points": [3])",
       R"(dequantize a -> y; "scales": [0.5], "zero_points": [3])"},
      {"a 2,3",
       R"(FakeQuantize a -> y; "bits": 4, "axis": 1, "ste": "Tanh", "scale_mode": "PerBatch")",
       R"(fake_quantize a -> y; "bits": 4, "axis": 1)"},
      {"a 2,3  ps 3",
       R"(FakeQuantize a ps -> y next; "bits": 8, "axis": 1, "scale_mode": "EMA", "decay": 0.9)",
       R"(fake_quantize a ps -> y next; "bits": 8, "axis": 1, "scale_mode": "ema", "decay": 0.9)"},
      {"a 2,3  ps 3", R"(FakeQuantizeLSQ a ps -> y; "bits": 2, "axis": 1)",
       R"(fake_quantize_lsq a ps -> y; "bits": 2, "axis": 1)"},
      {"a 2,3  dy 2,3", R"(FakeQuantizeBackward a dy -> y; "bits": 8, "ste": "Identity")",
       "identity dy -> y"},
      // |x| never passes the largest of the batch, so all of it is inside.
      {"a 2,3  dy 2,3",
       R"(FakeQuantizeBackward a dy -> y; "bits": 8, "axis": 1, "ste": "ClippedIdentity")",
       "identity dy -> y"},
      {"a 2,3  dy 2,3",
       R"(FakeQuantizeBackward a dy -> y; "bits": 4, "axis": 0, "ste": "HardTanh")",
       "abs a -> s\nreduce_max s -> m; \"axes\": [1], \"keep_dims\": true\ndiv s m -> r\naffine r "
       "-> q; \"mul\": -1, \"add\": 1\nmul q dy -> y"},
      {"a 2,3  ps 3  dy 2,3", R"(FakeQuantizeLSQBackwardX a ps dy -> y; "bits": 8, "axis": 1)",
       "identity dy -> y"},
      {"a 2,3  ps 3  dy 2,3", R"(FakeQuantizeLSQBackwardScale a ps dy -> y; "bits": 8, "axis": 1)",
       "div a ps -> z\nround z -> r\nsub r z -> d\nmul d dy -> e\nreduce_sum e -> y; \"axes\": "
       "[0]"},
      {"a:i8 2,3  b:i8 3,4", R"(QMatMul a b -> y; "x_zp": 1, "w_zp": 2, "out_zp": 3, "mult": 0.05)",
       R"(qmatmul a b -> y; "x_zp": 1, "w_zp": 2, "out_zp": 3, "mult": 0.05)"},
      {"x 2,4  q:i8 4,3  ps 2,3  z 2,3",
       R"(DequantMatMul x q ps z -> y; "scheme": "Int8Block", "block_size": 2)",
       R"(dequant_matmul x q ps -> y; "scheme": "int8_block", "block_size": 2)"},
      {"x 2,4  q:i8 4,3  ps 2,3  z 2,3",
       R"(DequantMatMul x q ps z -> y; "scheme": "Int8BlockAsym", "block_size": 2)",
       R"(dequant_matmul x q ps z -> y; "scheme": "int8_block_asym", "block_size": 2)"},
      // Products.
      {"a 2,3  b 3,4", "MatMul a b -> y", "matmul a b -> y"},
      {"a 2,3,4  b 4,2,5",
       R"(DotGeneral a b -> y; "lhs_contracting": [2], "rhs_contracting": [0], "lhs_batch": [0], "rhs_batch": [1])",
       R"(dot_general a b -> y; "lhs_contracting": [2], "rhs_contracting": [0], "lhs_batch": [0], "rhs_batch": [1])"},
      {"a 3,3  b 3", "DenseSolve a b -> y", "dense_solve a b -> y"},
      {"a 2,3,3  b 2,3", "BatchedDenseSolve a b -> y", "batched_dense_solve a b -> y"},
      {"x 2,3  w 3,4  a 3,2  b 2,4", R"(LoraMatMul x w a b -> y; "scale": 0.5)",
       R"(lora_matmul x w a b -> y; "scale": 0.5)"},
      {"x 4,3  w 2,3,5  i 4", "GroupedMatMul x w i -> y",
       "cast i -> k; \"to\": \"i32\"\ngrouped_matmul x w k -> y"},
      {"x 2,3  w 3,4  b 4", R"(FusedMatMulBiasAct x w b -> y; "activation": "Silu")",
       "matmul x w -> h\nadd h b -> s\nsilu s -> y"},
      // Rows.
      {"x 2,3,4  g 4  b 4", R"(LayerNorm x g b -> y; "axis": -1, "eps": 1e-5)",
       R"(layer_norm x g b -> y; "eps": 1e-5)"},
      {"x 2,3,4  g 3  b 3", R"(LayerNorm x g b -> y; "axis": 1, "eps": 1e-5)",
       "transpose x -> t; \"perm\": [0, 2, 1]\nlayer_norm t g b -> n; \"eps\": 1e-5\ntranspose n "
       "-> y; \"perm\": [0, 2, 1]"},
      {"x 2,4  g 4  b 4", R"(RmsNorm x g b -> y; "axis": -1, "eps": 1e-6)",
       R"(rms_norm x g b -> y; "eps": 1e-6)"},
      {"x 2,4,3  g 4  b 4", R"(GroupNorm x g b -> y; "num_groups": 2, "eps": 1e-5)",
       R"(group_norm x g b -> y; "num_groups": 2, "eps": 1e-5)"},
      {"x 2,4,2,2  g 4  b 4", R"(LayerNorm2d x g b -> y; "eps": 1e-5)",
       R"(layer_norm2d x g b -> y; "eps": 1e-5)"},
      {"x 2,4  g 4  b 4  m 4  pv 4", R"(BatchNormInference x g b m pv -> y; "eps": 1e-5)",
       R"(batch_norm x g b m pv -> y; "axis": 1, "eps": 1e-5)"},
      {"x 2,3,4  s 2,1,4  b 2,1,4", R"(AdaLayerNorm x s b -> y; "norm": "RmsNorm", "eps": 1e-5)",
       "rms_norm x -> n; \"eps\": 1e-5\nmul n s -> t\nadd n t -> u\nadd u b -> y"},
      {"x 2,3,4  v 2,3,4  g 2,1,4", "GatedResidual x v g -> y", "mul g v -> t\nadd x t -> y"},
      {"x 2,4  r 2,4  b 4  g 4  c 4",
       R"(FusedResidualLN x r b g c -> y; "has_bias": true, "eps": 1e-5)",
       "add x r -> s\nadd s b -> t\nlayer_norm t g c -> y; \"eps\": 1e-5"},
      {"x 2,4  r 2,4  g 4  c 4",
       R"(FusedResidualRmsNorm x r g c -> y; "has_bias": false, "eps": 1e-5)",
       "add x r -> s\nrms_norm s g c -> y; \"eps\": 1e-5"},
      {"x 2,3,4",
       R"(Reduce x -> y; "op": "Prod", "axes": [1], "keep_dim": true, "shape": [2, 1, 4])",
       R"(reduce_prod x -> y; "axes": [1], "keep_dims": true)"},
      {"x 2,3", R"(Softmax x -> y; "axis": 0)", R"(softmax x -> y; "axis": 0)"},
      {"x 2,3", R"(Cumsum x -> y; "axis": 1, "exclusive": true)",
       R"(cumsum x -> y; "axis": 1, "exclusive": true)"},
      {"x 2,3", R"(CumProd x -> y; "axis": 1)", R"(cumprod x -> y; "axis": 1)"},
      {"x 2,3", R"(CumMax x -> y; "axis": 1)", R"(cummax x -> y; "axis": 1)"},
      {"x 2,3", R"(ArgMax x -> y; "axis": 1)", R"(argmax x -> y; "axis": 1, "index_dtype": "f32")"},
      {"x 2,3", R"(ArgMin x -> y; "axis": 0, "keep_dim": true, "dtype": "i32")",
       R"(argmin x -> y; "axis": 0, "keep_dims": true)"},
      {"x 2,5", R"(TopK x -> y; "k": 2)", R"(topk x -> v y; "k": 2, "index_dtype": "f32")"},
      {"x 2,5", R"(Sort x -> y; "axis": 1, "descending": true)",
       R"(sort x -> y; "axis": 1, "descending": true)"},
      {"x 2,5", R"(ArgSort x -> y; "axis": 1, "descending": false)",
       R"(argsort x -> y; "axis": 1, "index_dtype": "f32")"},
      // Attention: layouts by rank and heads, masks by kind.
      {"q 2,3,2,4  k 2,5,2,4  v 2,5,2,4",
       R"(Attention q k v -> y; "num_heads": 2, "head_dim": 4, "mask_kind": "Causal")",
       R"(attention q k v -> y; "num_heads": 2, "head_dim": 4, "causal": true)"},
      {"q 2,2,3,4  k 2,2,5,4  v 2,2,5,4  m 2,5",
       R"(Attention q k v m -> y; "num_heads": 2, "head_dim": 4, "mask_kind": "Custom", "score_scale": 0.3, "attn_logit_softcap": 2)",
       R"(attention q k v m -> y; "num_heads": 2, "head_dim": 4, "q_layout": "bhsd", "kv_layout": "bhsd", "scale": 0.3, "softcap": 2)"},
      {"q 2,3,8  k 2,3,4  v 2,3,4",
       R"(Attention q k v -> y; "num_heads": 2, "head_dim": 4, "mask_kind": "SlidingWindow", "window": 1)",
       R"(attention q k v -> y; "num_heads": 2, "num_kv_heads": 1, "head_dim": 4, "q_layout": "bsd", "kv_layout": "bsd", "causal": true, "window_left": 1)"},
      {"q 4,3,4  k 4,3,4  v 4,3,4  b 2,2,3,3",
       R"(Attention q k v b -> y; "num_heads": 2, "head_dim": 4, "mask_kind": "Bias")",
       "reshape q -> q2; \"shape\": [2, 2, 3, 4]\nreshape k -> k2; \"shape\": [2, 2, 3, "
       "4]\nreshape v -> v2; \"shape\": [2, 2, 3, 4]\n"
       R"(attention q2 k2 v2 - b -> z; "num_heads": 2, "head_dim": 4, "q_layout": "bhsd", "kv_layout": "bhsd")"
       "\nreshape z -> y; \"shape\": [4, 3, 4]"},
      {"q 2,2,2,4  k 2,2,2,4  v 2,2,2,4",
       R"(Attention q k v -> y; "num_heads": 2, "head_dim": 4, "layout": "bhsd")",
       R"(attention q k v -> y; "num_heads": 2, "head_dim": 4, "q_layout": "bhsd", "kv_layout": "bhsd")"},
      {"q 4,3,4  k 4,3,4  v 4,3,4  dy 4,3,4",
       R"(AttentionBackward q k v dy -> y; "num_heads": 2, "head_dim": 4, "mask_kind": "Causal", "wrt": "Key")",
       "reshape q -> q2; \"shape\": [2, 2, 3, 4]\nreshape k -> k2; \"shape\": [2, 2, 3, "
       "4]\nreshape v -> v2; \"shape\": [2, 2, 3, 4]\nreshape dy -> d2; \"shape\": [2, 2, 3, 4]\n"
       R"(attention_backward q2 k2 v2 d2 -> a z; "num_heads": 2, "head_dim": 4, "q_layout": "bhsd", "kv_layout": "bhsd", "causal": true)"
       "\nreshape z -> y; \"shape\": [4, 3, 4]"},
      {"x 2,3,2,4  c 3,2  s 3,2", R"(Rope x c s -> y; "head_dim": 4, "n_rot": 4, "style": "GptJ")",
       R"(rope x c s -> y; "head_dim": 4, "style": "gptj")"},
      {"x 2,3,8  c 6,2  s 6,2", R"(Rope x c s -> y; "head_dim": 4, "n_rot": 2)",
       R"(rope x c s -> y; "head_dim": 4, "n_rot": 2, "layout": "bsd", "table": "token")"},
      {"x 2,3,2,4  c 3,2  s 3,2", R"(RopeBackward x c s -> y; "head_dim": 4, "n_rot": 4)",
       R"(rope x c s -> y; "head_dim": 4, "inverse": true)"},
      {"x 1,8,4",
       R"(AxialRope2d x -> y; "end_x": 2, "end_y": 2, "head_dim": 4, "num_heads": 1, "theta": 100, "repeat_factor": 2)",
       R"(axial_rope2d x -> y; "end_x": 2, "end_y": 2, "head_dim": 4, "num_heads": 1, "theta": 100, "repeat_factor": 2, "repeat_mode": "interleave")"},
      {"x 2,6", R"(FusedSwiGLU x -> y; "gate_first": true)",
       R"(fused_swiglu x -> y; "gate_first": true)"},
      {"h 1,3,4  w 4,12  o 4,4  m 1,3  b 12  c 4",
       R"(FusedAttentionBlock h w o m b c -> y; "num_heads": 2, "head_dim": 2, "has_bias": true, "has_rope": false)",
       R"(fused_attention_block h w o m b c -> y; "num_heads": 2, "head_dim": 2)"},
      {"h 1,3,4  w 4,12  o 4,4  g 4  b 4  w1 4,6  w2 6,4  g2 4  b2 4  m 1,3",
       R"(FusedTransformerLayer h w o g b w1 w2 g2 b2 m -> y; "num_heads": 2, "head_dim": 2, "intermediate_size": 6, "eps1": 1e-5, "eps2": 1e-5, "activation": "Gelu", "has_bias": false)",
       R"(fused_transformer_layer h w - o - g b w1 - w2 - g2 b2 m -> y; "num_heads": 2, "head_dim": 2, "intermediate_size": 6, "eps1": 1e-5, "eps2": 1e-5, "activation": "gelu")"},
      // Movement.
      {"x 2,6", R"(Reshape x -> y; "new_shape": [3, -1])", R"(reshape x -> y; "shape": [3, 4])"},
      {"x 2,3", R"(Transpose x -> y; "perm": [1, 0])", R"(transpose x -> y; "perm": [1, 0])"},
      {"x 2,5", R"(Narrow x -> y; "axis": 1, "start": 1, "len": 3)",
       R"(narrow x -> y; "axis": 1, "start": 1, "len": 3)"},
      {"x 2,5", R"(Slice x -> y; "axis": 1, "start": 4, "len": 3, "step": -2)",
       R"(slice x -> y; "axes": [1], "starts": [4], "ends": [-9], "steps": [-2])"},
      {"a 2,3  b 1,3", R"(Concat a b -> y; "axis": 0)", R"(concat a b -> y; "axis": 0)"},
      {"x 1,3", R"(Expand x -> y; "target_shape": [4, 3])", R"(expand x -> y; "shape": [4, 3])"},
      {"x 2,3  i 4", R"(Gather x i -> y; "axis": 0)",
       "cast i -> k; \"to\": \"i32\"\ngather x k -> y"},
      {"x 2,3", R"(Reverse x -> y; "axes": [1])", R"(reverse x -> y; "axes": [1])"},
      {"x 2,3", R"(Pad x -> y; "pads": [1, 0, 0, 2], "mode": "Constant", "value": 0.5)",
       R"(pad x -> y; "pads": [1, 0, 0, 2], "value": 0.5)"},
      {"x 2,3", R"(Pad x -> y; "pads": [0, 1, 2, 0], "mode": "Replicate")",
       R"(pad x -> y; "pads": [0, 2, 1, 0], "mode": "edge")"},
      {"x 2,3", R"(Tile x -> y; "reps": [1, 2])", R"(tile x -> y; "repeats": [1, 2])"},
      {"x 3,3", R"(Trilu x -> y; "upper": false, "diagonal": -1)",
       R"(trilu x -> y; "upper": false, "k": -1)"},
      {"u 4,3  i 4", R"(ScatterAdd u i -> y; "shape": [5, 3])",
       "cast i -> k; \"to\": \"i32\"\nscatter_add u k -> y; \"dim0\": 5"},
      {"x 3,2  i 2,1  u 2,2", R"(ScatterNd x i u -> y; "reduction": "Add")",
       "cast i -> k; \"to\": \"i32\"\nscatter_nd x k u -> y; \"reduction\": \"add\""},
      {"x 3,2  i 2,2  u 2,2", R"(ScatterElements x i u -> y; "axis": 0, "reduction": "Max")",
       "cast i -> k; \"to\": \"i32\"\nscatter_elements x k u -> y; \"reduction\": \"max\""},
      {"x 3,2  i 2,1", R"(GatherNd x i -> y; "batch_dims": 0)",
       "cast i -> k; \"to\": \"i32\"\ngather_nd x k -> y"},
      {"x 3,2  i 2,2", R"(GatherElements x i -> y; "axis": 0)",
       "cast i -> k; \"to\": \"i32\"\ngather_elements x k -> y; \"axis\": 0"},
      // Vision.
      {"x 1,2,5,5  w 2,1,3,3",
       R"(Conv x w -> y; "kernel_size": [3, 3], "stride": [2, 1], "padding": [1, 0], "dilation": [1, 1], "groups": 2)",
       R"(conv x w -> y; "stride": [2, 1], "pads": [1, 0, 1, 0], "groups": 2)"},
      {"x 1,1,3,3,3  w 2,1,2,2,2",
       R"(Conv3d x w -> y; "stride": [1, 1, 1], "padding": [0, 0, 0], "dilation": [1, 1, 1], "groups": 1)",
       "conv x w -> y"},
      {"x 1,2,4,4  w 3,2,3,3  b 3  r 1,3,2,2",
       R"(FusedConvBiasAct x w b r -> y; "kernel_size": [3, 3], "activation": "Relu", "has_residual": true)",
       "conv x w b -> c\nadd c r -> s\nrelu s -> y"},
      {"x 1,2,3,3  w 2,2,3,3",
       R"(ConvTranspose2d x w -> y; "kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1], "output_padding": [0, 0], "shape": [1, 2, 6, 6])",
       R"(conv_transpose x w -> y; "stride": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1])"},
      {"x 1,1,2,2,2  w 1,1,2,2,2",
       R"(ConvTranspose3d x w -> y; "stride": [1, 1, 1], "padding": [0, 0, 0])",
       "conv_transpose x w -> y"},
      {"x 1,2,4,4",
       R"(Pool x -> y; "kind": "Mean", "kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1])",
       R"(pool x -> y; "kind": "mean", "kernel": [3, 3], "stride": [2, 2], "pads": [1, 1, 1, 1])"},
      {"x 1,2,3,3",
       R"(Im2Col x -> y; "kernel_size": [2, 2], "stride": [1, 1], "padding": [0, 0], "dilation": [1, 1])",
       R"(im2col x -> y; "kernel": [2, 2])"},
      {"x 1,2,2,2", "ResizeNearest2x x -> y", "resize_nearest_2x x -> y"},
      {"x 1,1,2,2,3", R"(Interpolate3d x -> y; "size": [4, 3, 3])",
       R"(resize x -> y; "sizes": [4, 3, 3], "coord": "asymmetric", "nearest_mode": "floor")"},
      {"x:i8 1,1,3,3  w:i8 1,1,2,2",
       R"(QConv2d x w -> y; "kernel_size": [2, 2], "mult": 0.01, "x_zp": 1)",
       R"(qconv2d x w -> y; "mult": 0.01, "x_zp": 1)"},
      // Sequences and signals.
      {"x 1,3,2  pd 1,3,2  a 2,2  b 1,3,2  c 1,3,2",
       R"(SelectiveScan x pd a b c -> y; "state_size": 2)", "selective_scan x pd a b c -> y"},
      {"x 1,3,2,2  pd 1,3,2  a 2  b 1,3,2,4  c 1,3,2,4",
       R"(Mamba2 x pd a b c -> y; "head_dim": 2, "state_size": 4)", "mamba2 x pd a b c -> y"},
      {"q 1,3,2,2  k 1,3,2,2  v 1,3,2,2  g 1,3,2  pb 1,3,2  s 1,2,2,2",
       R"(GatedDeltaNet q k v g pb s -> z y; "state_size": 2, "carry_state": true)",
       R"(gated_deltanet q k v g pb s -> z y; "num_heads": 2)"},
      {"x 1,3,2  wi 16,2  wh 16,2  b 16",
       R"(Lstm x wi wh b -> y; "hidden_size": 2, "num_layers": 1, "bidirectional": true)",
       R"(lstm x wi wh b -> y; "hidden_size": 2, "direction": "bidirectional")"},
      {"x 1,3,2  wi 6,2  wh 6,2  b 6  c 6  h 1,1,2",
       R"(Gru x wi wh b c h -> z y; "hidden_size": 2, "carry": true)",
       R"(gru x wi wh b c h -> z y; "hidden_size": 2)"},
      {"x 1,3,2  wi 2,2  wh 2,2  b 2", R"(Rnn x wi wh b -> y; "hidden_size": 2, "relu": true)",
       R"(rnn x wi wh b -> y; "hidden_size": 2, "activation": "relu")"},
      {"x 2,8", R"(Fft x -> y; "inverse": true, "norm": "Forward")",
       R"(fft x -> y; "inverse": true, "norm": "backward")"},
      {"x 3,16  pf 2,5", "LogMel x pf -> y", R"(log_mel x pf -> y; "scope": "frame")"},
      {"x 4,16", R"(WelchPeaks x -> y; "k": 2, "n_segments": 2)",
       R"(welch_peaks x -> y; "k": 2, "n_segments": 2, "packed": true)"},
      {"a 3  b 3", "ComplexNormSq z -> y", "complex_norm_sq z -> y"},
      {"a 3  b 3  g 3", "ComplexNormSqBackward z g -> w",
       "mul a g -> c\nmul b g -> d\ncomplex c d -> w"},
      {"a 3  b 3", "Conjugate z -> w", "conjugate z -> w"},
      {"x 2,5", R"(Sample x -> y; "top_k": 1, "top_p": 1, "temperature": 1, "seed": 5)",
       R"(argmax x -> y; "axis": 1, "index_dtype": "f32")"},
      {"x 5", R"(RngNormal x -> y; "mean": 1, "scale": 2, "key": 4294967303, "op_seed": 9)",
       R"(rng_normal x -> y; "mean": 1, "scale": 2, "stream": 7, "seed": 9)"},
      {"x 5", R"(RngUniform -> y; "low": 1, "high": 2, "key": 3, "op_seed": 9, "shape": [5])",
       R"(rng_uniform x -> y; "low": 1, "high": 2, "stream": 3, "seed": 9)"},
      // Gradients.
      {"x 2,4  g 4  dy 2,4", R"(LayerNormBackwardInput x g dy -> y; "axis": -1, "eps": 1e-5)",
       R"(layer_norm_backward x g dy -> y; "eps": 1e-5)"},
      {"x 2,4  g 4  dy 2,4", R"(LayerNormBackwardGamma x dy -> y; "axis": -1, "eps": 1e-5)",
       R"(layer_norm_backward x g dy -> a y; "eps": 1e-5)"},
      {"x 2,4  g 4  b 4  dy 2,4", R"(RmsNormBackwardInput x g b dy -> y; "axis": 1, "eps": 1e-5)",
       R"(rms_norm_backward x g dy -> y; "eps": 1e-5)"},
      {"x 2,4  g 4  b 4  dy 2,4", R"(RmsNormBackwardGamma x g b dy -> y; "axis": -1, "eps": 1e-5)",
       R"(rms_norm_backward x g dy -> a y; "eps": 1e-5)"},
      {"x 2,4  g 4  b 4  dy 2,4", R"(RmsNormBackwardBeta x g b dy -> y; "axis": -1, "eps": 1e-5)",
       R"(reduce_sum dy -> y; "axes": [0])"},
      {"x 2,4,3  g 4  b 4  dy 2,4,3",
       R"(GroupNormBackwardInput x g b dy -> y; "num_groups": 2, "eps": 1e-5)",
       R"(group_norm_backward x g dy -> y; "num_groups": 2, "eps": 1e-5)"},
      {"x 2,4,3  g 4  dy 2,4,3",
       R"(GroupNormBackwardGamma x dy -> y; "num_groups": 2, "eps": 1e-5)",
       R"(group_norm_backward x g dy -> a y; "num_groups": 2, "eps": 1e-5)"},
      {"x 2,4,3  g 4  dy 2,4,3", R"(GroupNormBackwardBeta x dy -> y; "num_groups": 2, "eps": 1e-5)",
       R"(reduce_sum dy -> y; "axes": [0, 2])"},
      {"x 2,4  g 4  m 4  pv 4  dy 2,4",
       R"(BatchNormInferenceBackwardInput x g m pv dy -> y; "eps": 1e-5)",
       "affine pv -> v; \"add\": 1e-5\nrsqrt v -> r\nmul r g -> s\nmul dy s -> y"},
      {"x 2,4  m 4  pv 4  dy 2,4", R"(BatchNormInferenceBackwardGamma x m pv dy -> y; "eps": 1e-5)",
       "affine pv -> v; \"add\": 1e-5\nrsqrt v -> r\nsub x m -> c\nmul c r -> n\nmul n dy -> "
       "s\nreduce_sum s -> y; \"axes\": [0]"},
      {"dy 2,4", "BatchNormInferenceBackwardBeta dy -> y", R"(reduce_sum dy -> y; "axes": [0])"},
      {"dy 2,4", R"(CumsumBackward dy -> y; "axis": 1, "exclusive": false)",
       R"(cumsum dy -> y; "axis": 1, "reverse": true)"},
      {"dy 4,3  i 4", R"(GatherBackward dy i -> y; "axis": 0, "shape": [5, 3])",
       "cast i -> k; \"to\": \"i32\"\nscatter_add dy k -> y; \"dim0\": 5"},
      {"x 4  dy 4", "ReluBackward x dy -> y", "relu_backward x dy -> y"},
      {"x 4  dy 4", R"(ActivationBackward x dy -> y; "kind": "Mish")",
       R"(activation_backward x dy -> y; "kind": "mish")"},
      {"x 4  dy 4", R"(ActivationBackward x dy -> y; "kind": "Round")", "identity dy -> y"},
      {"x 1,1,4,4  dy 1,1,2,2",
       R"(MaxPool2dBackward x dy -> y; "kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0])",
       R"(max_pool_backward x dy -> y; "kernel": [2, 2], "stride": [2, 2])"},
      {"x 1,1,2,2,2  dy 1,1,1,1,1",
       R"(MaxPool3dBackward x dy -> y; "kernel_size": [2, 2, 2], "stride": [2, 2, 2], "padding": [0, 0, 0])",
       R"(max_pool_backward x dy -> y; "kernel": [2, 2, 2], "stride": [2, 2, 2])"},
      {"dy 1,2,3,3  w 2,1,2,2",
       R"(Conv2dBackwardInput dy w -> y; "kernel_size": [2, 2], "stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "groups": 1, "shape": [1, 1, 4, 4])",
       R"(conv_transpose dy w -> y)"},
      {"x 1,1,4,4  dy 1,2,3,3",
       R"(Conv2dBackwardWeight x dy -> y; "kernel_size": [2, 2], "groups": 1, "shape": [2, 1, 2, 2])",
       R"(conv_backward_weight x dy -> y; "w_shape": [2, 1, 2, 2])"},
      {"dy 1,1,2,2,2  w 1,1,2,2,2", R"(Conv3dBackwardInput dy w -> y; "shape": [1, 1, 3, 3, 3])",
       "conv_transpose dy w -> y"},
      {"x 1,1,3,3,3  dy 1,1,2,2,2", R"(Conv3dBackwardWeight x dy -> y; "shape": [1, 1, 2, 2, 2])",
       R"(conv_backward_weight x dy -> y; "w_shape": [1, 1, 2, 2, 2])"},
      {"x 3,4  pt 3,4", "SoftmaxCrossEntropy x pt -> y", "softmax_cross_entropy x pt -> y"},
      {"x 3,4  i 3", "SoftmaxCrossEntropyWithLogits x i -> y",
       "cast i -> k; \"to\": \"i64\"\nsoftmax_cross_entropy x k -> y"},
      {"x 3,4  i 3  d 3", "SoftmaxCrossEntropyBackward x i d -> y",
       "cast i -> k; \"to\": \"i64\"\nsoftmax_cross_entropy_backward x k d -> y"},
      // Packed forms.
      {"s 2,8  r 2,8",
       R"(Custom s r -> y; "name": "llada2.group_limited_gate", "num_inputs": 2, "attrs": [4,0,0,0, 2,0,0,0, 3,0,0,0, 0,0,0,64, 8,0,0,0])",
       "llada2_gate s r -> k w; \"n_group\": 4, \"topk_group\": 2, \"top_k\": 3, \"scaling\": "
       "2\ncast k -> f; \"to\": \"f32\"\nconcat f w -> y; \"axis\": 1"},
      {"p 4,4", R"(Custom p -> y; "name": "umap.knn", "attrs": [2, 0, 0, 0])",
       "umap.knn p -> k d; \"k\": 2\ncast k -> f; \"to\": \"f32\"\nconcat f d -> y; \"axis\": 1"},
      {"v 3,3", R"(Custom v -> y; "name": "splat.unit")", "splat.unit v -> y"},
      {kScene,
       "GaussianSplatRender pos scales turns pop pcolors sh meta -> y; " + kSplats +
           R"(, "max_splat_steps": 0)",
       kShaped + "splat.render pos2 scales2 turns2 pop colors2 sh2 meta -> z; " + kSplats +
           R"(, "sh_dir": "to_camera")"
           "\nreshape z -> y; \"shape\": [120]"},
      {kScene + "d 120",
       "GaussianSplatRenderBackward pos scales turns pop pcolors sh meta d -> y; " + kSplats +
           R"(, "max_splat_steps": 0, "loss_grad_clip": 0, "sh_band": 0, "max_anisotropy": 10)",
       kShaped +
           "reshape d -> d2; \"shape\": [5, 6, 4]\nsplat.render_backward pos2 scales2 turns2 pop "
           "colors2 sh2 meta d2 -> a b c e f g; " +
           kSplats +
           R"(, "sh_dir": "to_camera")"
           "\n"
           "reshape a -> a1; \"shape\": [9]\nreshape b -> b1; \"shape\": [9]\nreshape c -> c1; "
           "\"shape\": [12]\nreshape f -> f1; \"shape\": [9]\nreshape g -> g1; \"shape\": "
           "[0]\nconcat a1 b1 c1 e f1 g1 -> y; \"axis\": 0"},
      // Control flow.
      {"m:bool -  x 3",
       R"(If m x -> y; bodies "then_branch": {"inputs": ["a"], "nodes": [{"op": "Activation", "inputs": ["a"], "outputs": ["b"], "attributes": {"kind": "Neg"}}], "outputs": ["b"]}, "else_branch": {"inputs": ["c"], "nodes": [], "outputs": ["c"]})",
       "neg x -> n\nwhere m n x -> y"},
      {"x -",
       R"(While x -> y; "max_iterations": 5 bodies "cond": {"inputs": ["a"], "nodes": [{"op": "fill", "inputs": [], "outputs": ["l"], "attributes": {"shape": [], "value": 3}}, {"op": "Compare", "inputs": ["a", "l"], "outputs": ["on"], "attributes": {"kind": "Lt"}}], "outputs": ["on"]}, "body": {"inputs": ["b"], "nodes": [{"op": "affine", "inputs": ["b"], "outputs": ["c"], "attributes": {"add": 2}}], "outputs": ["c"]})",
       "affine x -> y; \"add\": 4"},
      {"h 2  x 3,2",
       R"(Scan h x -> y; "length": 3, "save_trajectory": true, "num_bcast": 0, "num_xs": 1, "num_checkpoints": 0 bodies "body": {"inputs": ["c", "t"], "nodes": [{"op": "Binary", "inputs": ["c", "t"], "outputs": ["n"], "attributes": {"kind": "Add"}}], "outputs": ["n"]})",
       "cumsum x -> s; \"axis\": 0\nadd s h -> y"},
      {"a 2,3",
       R"(CustomFn a -> y; "num_inputs": 1 bodies "fwd_body": {"inputs": ["b"], "nodes": [{"op": "Activation", "inputs": ["b"], "outputs": ["c"], "attributes": {"kind": "Exp"}}], "outputs": ["c"]})",
       "exp a -> y"},
      // c' = c * x: d_c is the product of all x, d_x of row t the carry before it and those behind.
      {"h 2  t 3,2  u 2  x 3,2",
       R"(ScanBackward h t u x -> y; "length": 3, "num_xs": 1 bodies "body_vjp": {"inputs": ["c", "s", "d_output"], "nodes": [{"op": "mul", "inputs": ["d_output", "s"], "outputs": ["dc"]}, {"op": "mul", "inputs": ["d_output", "c"], "outputs": ["ds"]}], "outputs": ["dc", "ds"]})",
       "reduce_prod x -> p; \"axes\": [0]\nmul p u -> y"},
      {"h 2  t 3,2  u 3,2  x 3,2",
       R"(ScanBackwardXs h t u x -> y; "length": 3, "num_xs": 1, "xs_idx": 0, "save_trajectory": true bodies "body_vjp": {"inputs": ["c", "s", "d_output"], "nodes": [{"op": "mul", "inputs": ["d_output", "s"], "outputs": ["dc"]}, {"op": "mul", "inputs": ["d_output", "c"], "outputs": ["ds"]}], "outputs": ["dc", "ds"]})",
       // Row by row, from the last.
       "narrow u -> u0; \"axis\": 0, \"start\": 0, \"len\": 1\nnarrow u -> u1; \"axis\": 0, "
       "\"start\": 1, \"len\": 1\nnarrow u -> u2; \"axis\": 0, \"start\": 2, \"len\": 1\n"
       "narrow x -> x1; \"axis\": 0, \"start\": 1, \"len\": 1\nnarrow x -> x2; \"axis\": 0, "
       "\"start\": 2, \"len\": 1\nmul u2 x2 -> a\nadd a u1 -> d1\nmul d1 x1 -> b\nadd b u0 -> d0\n"
       "unsqueeze h -> c0; \"axes\": [0]\nnarrow t -> c1; \"axis\": 0, \"start\": 0, \"len\": "
       "2\nconcat c0 c1 -> c; \"axis\": 0\nconcat d0 d1 u2 -> d; \"axis\": 0\nmul c d -> y"},
  };
  return all;
}

// What only some cases need stands before their node.
std::string with_leaves(const Case& c, const std::string& nodes) {
  const bool has_complex = c.alias.starts_with("Complex") || c.alias.starts_with("Conjugate");
  std::string text = (has_complex ? "complex a b -> z\n" : "") + nodes;
  if (c.alias.ends_with("-> w")) text += "\nimag w -> y";
  return text;
}

void check_alike(const Case& c) {
  const Tensor got = evaluated(graph_of(c.inputs, with_leaves(c, c.alias)));
  const Tensor wanted = evaluated(graph_of(c.inputs, with_leaves(c, c.catalogue)));
  CHECK(got.type == wanted.type);
  CHECK(got.integers == wanted.integers);
  REQUIRE(got.floats.size() == wanted.floats.size());
  for (size_t i = 0; i < got.floats.size(); ++i)
    REQUIRE(std::abs(got.floats[i] - wanted.floats[i]) <= 1e-6 * (1 + std::abs(wanted.floats[i])));
}

TEST_CASE("a name of the reference IR gives what the catalogue's operators give") {
  built_in_extensions();
  for (size_t i = 0; i < cases().size(); ++i) {
    SECTION("case " + std::to_string(i)) {
      INFO(cases()[i].alias);
      check_alike(cases()[i]);
    }
  }
}

TEST_CASE("packed weights of the reference IR are blocks of the catalogue over the same bytes") {
  // 2 experts of 3 rows of 32 columns, 34 bytes a row.
  const Tensor experts = evaluated(graph_of(
      "W:u8 204", R"(DequantMoEWeights W -> y; "scheme": "GgufQ8_0", "shape": [2, 32, 3])"));
  REQUIRE(experts.type.shape == Shape{2, 32, 3});
  const auto code = [](int at) {
    return static_cast<double>(static_cast<int8_t>((at * 37) % 256));
  };
  CHECK(experts.floats[0] == code(2));
  CHECK(experts.floats[1] == code(34 + 2));
  CHECK(experts.floats[3] == code(3));
  CHECK(experts.floats[96] == code(102 + 2));

  const Tensor all =
      evaluated(graph_of("W:u8 204  x 2,32", R"(DequantMatMul x W -> y; "scheme": "GgufQ8_0")"));
  CHECK(all.type.shape == Shape{2, 6});
  const Tensor one = evaluated(
      graph_of("W:u8 204  x 2,32  i 2",
               R"(DequantGroupedMatMul x W i -> y; "scheme": "GgufQ8_0", "shape": [2, 3])"));
  REQUIRE(one.type.shape == Shape{2, 3});
  // Row 0 goes to expert 1, row 1 to expert 0.
  CHECK(one.floats[0] == Approx(all.floats[3]));
  CHECK(one.floats[3] == Approx(all.floats[6]));
  check_error(bind_bad(graph_of(
                  "W:u8 238  x 2,32  i 2",
                  R"(DequantGroupedMatMul x W i -> y; "scheme": "GgufQ8_0", "shape": [2, 3])")),
              DiagCode::UnsupportedOp, "238 bytes of weights are no multiple of the 102");
}

TEST_CASE("nodes read what an out_dtype rounds, and outputs are not rounded") {
  const auto graph = [](const std::string& made, const std::string& nodes) {
    return R"({"rlx_graph": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": [3, 5]},
        {"name": "w", "dtype": "f32", "shape": [5, 5]}], "nodes": [)" +
           made + nodes + R"(], "outputs": ["y"]})";
  };
  const auto made_by = [](const std::string& op, const std::string& result,
                          const std::string& attributes) {
    const std::string inputs = op == "rms_norm" ? R"("x")" : R"("x", "w")";
    return R"({"op": ")" + op + R"(", "inputs": [)" + inputs + R"(], "outputs": [")" + result +
           R"("], "attributes": {)" + attributes + "}}";
  };
  const auto cast = [](const std::string& from, const std::string& result, const std::string& to) {
    return R"(, {"op": "cast", "inputs": [")" + from + R"("], "outputs": [")" + result +
           R"("], "attributes": {"to": ")" + to + R"("}})";
  };
  for (const std::string op : {"rms_norm", "matmul", "fused_matmul_bias_act"}) {
    for (const std::string half : {"f16", "bf16"}) {
      const std::string rounds = R"("out_dtype": ")" + half + '"';
      const std::vector<double> read =
          evaluated(graph(made_by(op, "h", rounds), cast("h", "y", "f32"))).floats;
      CHECK(read ==
            evaluated(graph(made_by(op, "f", ""), cast("f", "h", half) + cast("h", "y", "f32")))
                .floats);
      const std::vector<double> output = evaluated(graph(made_by(op, "y", rounds), "")).floats;
      CHECK(output == evaluated(graph(made_by(op, "y", ""), "")).floats);
      CHECK(output != read);
    }
  }
}

TEST_CASE("splats that one node prepares and another draws are those of one node") {
  built_in_extensions();
  const std::string prepared =
      "GaussianSplatPrepare pos scales turns pop pcolors sh meta -> z; " + kSplats +
      R"(, "max_splat_steps": 0)"
      "\n" +
      "GaussianSplatRasterize z meta -> y; \"width\": 6, \"height\": 5, \"tile_size\": 4, "
      "\"alpha_cutoff\": 0.004, "
      "\"max_splat_steps\": 0, \"transmittance_threshold\": 0.01, \"max_list_entries\": 32";
  const std::string whole = "GaussianSplatRender pos scales turns pop pcolors sh meta -> y; " +
                            kSplats + R"(, "max_splat_steps": 0)";
  CHECK(bind_good(graph_of(kScene, prepared)).entries.size() == 1);
  CHECK(bind_good(graph_of(kScene, whole)).entries.size() == 1);
}

TEST_CASE("every name of the reference IR that is read has a case") {
  std::set<std::string> seen = {"DequantMoEWeights", "DequantGroupedMatMul", "GaussianSplatPrepare",
                                "GaussianSplatRasterize"};
  for (const Case& c : cases()) seen.insert(c.alias.substr(0, c.alias.find(' ')));
  const std::set<std::string> control = {"If",           "While",          "Scan",
                                         "ScanBackward", "ScanBackwardXs", "CustomFn"};
  for (const reference_ir::Alias* alias : reference_ir::all_aliases()) {
    const std::string name(alias->name);
    if (alias->express == nullptr && !control.contains(name)) continue;
    INFO(name);
    CHECK((seen.contains(name) || name == "LogMelBackward"));
  }
}

TEST_CASE("the gradient of log_mel is that of differences") {
  // d of sum(mel * dy) by x, one element after another.
  const std::string inputs = "x 1,16  pf 2,5  dy 1,2";
  const Tensor got = evaluated(graph_of(inputs, "LogMelBackward x pf dy -> y"));
  const Module module =
      bind_good(graph_of(inputs, "LogMel x pf -> m\nmul m dy -> s\nreduce_sum s -> y"));
  const Graph& graph = module.entries.at(0);
  std::vector<Tensor> values;
  for (const ValueId id : graph.inputs) values.push_back(input_for(graph.value(id), values.size()));
  const auto loss = [&](size_t i, double step) {
    std::vector<Tensor> moved = values;
    moved[0].floats[i] += step;
    StateValues states;
    Diagnostics diagnostics;
    return evaluate_entry(module, graph, moved, states, {}, diagnostics)->at(0).floats.at(0);
  };
  for (size_t i = 0; i < got.floats.size(); ++i)
    CHECK(got.floats[i] == Approx((loss(i, 1e-5) - loss(i, -1e-5)) / 2e-5).margin(1e-6));
}

TEST_CASE(
    "names of the reference IR that mean nothing here, and nodes that do not fit, are refused by "
    "name") {
  const auto refused = [](const std::string& inputs, const std::string& line,
                          const std::string& part) {
    INFO(line);
    check_only_error(bind_bad(graph_of(inputs, line)), DiagCode::UnsupportedOp, part);
  };
  refused("x 3,3", "Cholesky x -> y", "Cholesky \"y\"");
  refused("x 3,3", "Cholesky x -> y", "the catalogue has no factorisations");
  refused("x 2,3", R"(Reduce x -> y; "op": "Sum", "axes": [1], "shape": [2, 1])",
          "is f32[2], but the node declares [2, 1]");
  refused("q 2,3,3,4  k 2,3,3,4  v 2,3,3,4",
          R"(Attention q k v -> y; "num_heads": 2, "head_dim": 4)", "no axis has 2 heads");
  refused("x 2,5,8  c 3,2  s 3,2", R"(Rope x c s -> y; "head_dim": 4)",
          "the table has 3 rows for 5 tokens");
  refused("x 1,2,3,3  w 2,2,3,3",
          R"(ConvTranspose2d x w -> y; "stride": [2, 2], "shape": [1, 2, 9, 9])",
          "is not within 7 to 8");
  refused("s 2,8  r 2,8", R"(Custom s r -> y; "name": "llada2.group_limited_gate")",
          "tell of 256 experts");
  refused("x 3", R"(Custom x -> y; "name": "nobody.knows")",
          "there is no operator \"nobody.knows\"");
  refused("u 4,3  i 4", "ScatterAdd u i -> y", "give it as attribute \"shape\"");
  check_error(bind_bad(graph_of("x 2,3", R"(Activation x -> y; "kind": "Gellu")")),
              DiagCode::BadAttribute, "kind");
  check_error(bind_bad(graph_of("x 2,3", R"(Softmax x -> y; "axis": 1, "scale": 2)")),
              DiagCode::UnknownAttribute, "scale");
  check_error(bind_bad(graph_of("x 2,3", "MatMul x -> y")), DiagCode::BadArity,
              "it has 1 inputs, wanted 2");
}

}  // namespace
}  // namespace rlx::test
