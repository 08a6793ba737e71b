// SPDX-License-Identifier: Apache-2.0
// Tensors of ONNX files: raw, typed or external data.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/import/model_files.h"
#include "compiler/ir/graph.h"
#include "onnx.pb.h"

namespace rlx::onnx_import {

// The element type of an ONNX number, if rlx has it.
std::optional<DType> find_dtype(int64_t onnx_type);
// The same; a Refusal names those that rlx does not have.
DType dtype_of(int64_t onnx_type, const std::string& what);
// "uint16" for 4; the number where ONNX has no such type.
std::string onnx_type_name(int64_t onnx_type);

// An element type of ONNX that rlx does not have, and one that holds its values: that stands for it
// in constants and, of integers, between QuantizeLinear and DequantizeLinear. Or one of the same
// bits, which are another number where the first is set: what reads bits may compute with it.
struct StandIn {
  std::string_view name;  // as ONNX writes it
  DType dtype;
  uint32_t bits;  // of an element in a file, the first in the low ones
  // Of integers; floats have none.
  double least = 0;
  double most = 0;
  bool is_bits = false;
};

// By the number of the type; nullptr where nothing stands for it.
const StandIn* stand_in_of(int64_t onnx_type);

struct ConstantTensor {
  TensorType type;
  HostBytes data;
  const StandIn* stand_in = nullptr;  // nullptr: of its own type
};

// Decodes tensors; external data comes from files in `folder` that do not leave it.
class TensorDecoder {
 public:
  explicit TensorDecoder(const std::string& folder) : folder_(folder) {}

  // `owner` keeps `tensor` alive as long as the bytes are. Throws Refusal.
  ConstantTensor decode(const onnx::TensorProto& tensor, const std::shared_ptr<const void>& owner,
                        const std::string& what);
  // With the zeros that the file leaves out, which all such tensors of a model together may have
  // 2^28 bytes of.
  ConstantTensor decode(const onnx::SparseTensorProto& tensor,
                        const std::shared_ptr<const void>& owner, const std::string& what);

 private:
  HostBytes external(const onnx::TensorProto& tensor, uint64_t size_bytes, const std::string& what);

  ModelFolder folder_;
  uint64_t sparse_bytes_ = 0;  // of what was sparse
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace rlx::onnx_import
