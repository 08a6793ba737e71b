// SPDX-License-Identifier: Apache-2.0
// All areas as one table, and the operators that are not in it.
#include "compiler/import/onnx/op_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "compiler/import/onnx/control_flow.h"
#include "compiler/support/check.h"

namespace rlx::onnx_import {
namespace {

using Index = std::map<std::string_view, const OnnxOp*>;

Index make_index() {
  Index index;
  for (const auto rows :
       {elementwise_rows(), shape_rows(), movement_rows(), selection_rows(), reduction_rows(),
        product_rows(), attention_rows(), rotary_rows(), norm_rows(), vision_rows(),
        quantize_rows(), generator_rows(), loss_rows(), recurrent_rows(), spectral_rows(),
        state_space_rows(), sequence_rows()}) {
    for (const OnnxOp& row : rows) index.emplace(row.name, &row);
  }
  return index;
}

const Index& all_rows() {
  static const Index index = make_index();
  return index;
}

constexpr std::string_view kMicrosoft = "com.microsoft";

Index make_microsoft_index() {
  Index index;
  for (const auto rows : {microsoft_rows(), microsoft_attention_rows()}) {
    for (const OnnxOp& row : rows) index.emplace(row.name, &row);
  }
  return index;
}

const Index& rows_of_microsoft() {
  static const Index index = make_microsoft_index();
  return index;
}

const OnnxOp* find_row(const Index& index, std::string_view name) {
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

struct GapRow {
  std::string_view name;
  OnnxGap gap;
};

constexpr OnnxGap kStrings = {"rlx has no strings", "move it before the model, to the host"};
constexpr OnnxGap kNotYet = {"no op of rlx expresses it",
                             "rewrite it with the operators that `rlxc ops --onnx` lists"};
constexpr OnnxGap kImages = {"images are decoded before the model", "pass pixels as an input"};

constexpr std::array kGaps = {
    GapRow{"StringNormalizer", kStrings}, GapRow{"StringConcat", kStrings},
    GapRow{"StringSplit", kStrings},      GapRow{"RegexFullMatch", kStrings},
    GapRow{"TfIdfVectorizer", kStrings},  GapRow{"ImageDecoder", kImages},
};

}  // namespace

const OnnxOp* find_onnx_op(std::string_view domain, std::string_view name) {
  if (domain == kMicrosoft) return find_row(rows_of_microsoft(), name);
  if (!domain.empty()) return nullptr;
  // onnxruntime writes this one of its own without its domain.
  const bool is_misplaced = name == "SimplifiedLayerNormalization";
  return find_row(is_misplaced ? rows_of_microsoft() : all_rows(), name);
}

std::vector<OnnxOperator> onnx_ops() {
  std::map<std::string, std::vector<int64_t>> opsets = {
#define RLX_ONNX_OP(name, ...) {#name, {__VA_ARGS__}},
#include "compiler/import/onnx/opsets.def"
#undef RLX_ONNX_OP
  };
  std::vector<OnnxOperator> operators;
  const auto add = [&](const std::string& name) {
    const auto row = opsets.extract(name);
    RLX_CHECK(!row.empty(), "opsets.def has no row of " + name);
    operators.push_back({.domain = {}, .name = name, .opsets = row.mapped()});
  };
  for (const char* name : {"If", "Loop", "Scan", "SequenceMap"}) add(name);
  for (const auto& [name, row] : all_rows()) add(std::string(name));
  RLX_CHECK(opsets.empty(), "opsets.def has a row of " + opsets.begin()->first);
  for (const auto& [name, row] : rows_of_microsoft())
    operators.push_back(
        {.domain = std::string(kMicrosoft), .name = std::string(name), .opsets = {1}});
  operators.push_back({.domain = std::string(kPreview), .name = "FlexAttention", .opsets = {1}});
  std::sort(operators.begin(), operators.end(), [](const OnnxOperator& a, const OnnxOperator& b) {
    return std::pair(a.domain, a.name) < std::pair(b.domain, b.name);
  });
  return operators;
}

OnnxGap gap_of(std::string_view domain, std::string_view name) {
  if (domain.starts_with("ai.onnx.preview.training"))
    return {"rlx does not train", "export the model for inference"};
  if (domain == kMicrosoft) return kNotYet;
  if (domain.starts_with("com.microsoft.nchwc"))
    return {"onnxruntime laid its data out for one kind of processor",
            "have onnxruntime write the model with graph_optimization_level ORT_ENABLE_EXTENDED"};
  if (!domain.empty()) {
    return {
        "rlx knows no operators of this domain beyond the functions of the model",
        "export the model with operators of the default domain, or register its operators as an "
        "extension (--extension DIR)"};
  }
  for (const GapRow& row : kGaps) {
    if (row.name == name) return row.gap;
  }
  return kNotYet;
}

}  // namespace rlx::onnx_import
