// SPDX-License-Identifier: Apache-2.0
// nonzero with a bound on its rows (ops.md 7.5).
#include <algorithm>

#include "compiler/ops/lowering/index_output.h"
#include "compiler/ops/lowering/rows.h"
#include "schema/rounding.h"

namespace rlx {

namespace {

bool infer_nonzero(InferContext& ctx) {
  const DType dtype = ctx.dtype(0);
  if (!is_float(dtype) && !is_integer(dtype) && dtype != DType::bool_) {
    return ctx.fail(DiagCode::BadDtype, "x is " + std::string(name_of(dtype)) +
                                            ", wanted a float type, an integer type or bool");
  }
  if (!check_index_dtype(ctx)) return false;
  const DType index_dtype = ctx.attrs().dtype("index_dtype");
  const auto rank = static_cast<int64_t>(ctx.shape(0).size());
  ctx.set_output(0, {index_dtype, {ctx.attrs().integer("max_count"), rank}});
  ctx.set_output(1, {index_dtype, {}});
  return true;
}

bool evaluate_nonzero(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& indices = ctx.output(0);
  const int64_t most = indices.type.shape[0];
  const auto rank = static_cast<size_t>(indices.type.shape[1]);
  const Strides strides = dense_strides(x.type.shape);
  for (size_t i = 0; i < static_cast<size_t>(indices.count()); ++i) set_index(indices, i, -1);
  int64_t found = 0;
  for (int64_t i = 0; i < x.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (x.is_float() ? x.floats[at] == 0 : x.integers[at] == 0) continue;
    for (size_t d = 0; d < rank && found < most; ++d) {
      set_index(indices, static_cast<size_t>(found) * rank + d, i / strides[d] % x.type.shape[d]);
    }
    ++found;
  }
  if (ctx.output_count() > 1) set_index(ctx.output(1), 0, found);
  return true;
}

// Whether a value in the compute type of `dtype` counts.
std::string truth_of(DType dtype) {
  if (is_float(dtype)) return "rlx_truth(v)";
  if (dtype == DType::bool_) return "(v)";
  return "((v) != RLX_CAT(rlx_t_, RLX_X)(0))";
}

std::string rows_text(const TensorRef& x, const TensorRef& indices, int64_t padded_length) {
  const Shape& shape = x.shape();
  std::string text = define_line("RLX_INDEX", index_type({&x, &indices}, padded_length));
  text += define_line("RLX_TRUE(v)", truth_of(x.dtype()));
  LoopDims dims;
  for (size_t d = 0; d < shape.size(); ++d) {
    dims.push_back({.size = shape[d], .strides = {x.strides[d], x.strides[d]}});
  }
  text += index_macro("RLX_X_AT", merged(dims), 0);
  const std::string store = "RLX_CAT(rlx_store_, RLX_I)(p.indices, (row) * RLX_INDEX(" +
                            std::to_string(shape.size()) + ") + ";
  std::string coordinates;
  std::string nothing;
  const Strides strides = dense_strides(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    const std::string place = store + std::to_string(d) + ", RLX_CAT(rlx_t_, RLX_I)(";
    coordinates += place + "(i) / RLX_INDEX(" + integer_text(max(strides[d], 1)) +
                   ") % RLX_INDEX(" + integer_text(max(shape[d], 1)) + "))); ";
    nothing += place + "-1)); ";
  }
  text += define_line("RLX_PUT_COORDINATES(row, i)", coordinates);
  return text + define_line("RLX_PUT_NOTHING(row)", nothing);
}

bool lower_nonzero(LowerContext& ctx) {
  constexpr int64_t kLanes = 256;
  constexpr int64_t kItems = 8;
  constexpr int64_t kGroupsPerMultiprocessor = 8;
  constexpr int64_t kFilledPerThread = 16;
  const TensorRef x = ctx.input(0);
  const TensorRef indices = ctx.output(0);
  const TensorRef count =
      ctx.has_output(1) ? ctx.output(1) : ctx.scratch({indices.dtype(), {}}, "count");
  const Dim length = element_count(x.shape());
  const int64_t most = indices.shape()[0];
  const RowChunks chunks = split_into_chunks(
      std::max<int64_t>(length.bound(), 1), 1,
      kGroupsPerMultiprocessor * ctx.target().device.multiprocessors, kLanes * kItems, 1);
  const int64_t filling = ceil_div(most, kLanes * kFilledPerThread);
  const TensorRef partial = ctx.scratch({.dtype = DType::i64, .shape = {chunks.count}}, "partial");
  const int64_t padded = std::max(length.range().most + chunks.length, most + filling * kLanes);
  for (const bool counts : {true, false}) {
    const int64_t groups = counts ? chunks.count : std::max(chunks.count, filling);
    auto dispatch = ctx.dispatch<KernelId::nonzero>();
    dispatch.workgroup({kLanes, 1, 1})
        .define("RLX_LANES", kLanes)
        .define("RLX_ROWS", 1)
        .define("RLX_BY_COLUMN", 0)
        .define("RLX_COUNTS", counts ? 1 : 0)
        .define("RLX_LENGTH", integer_text(length))
        .define("RLX_CHUNKS", chunks.count)
        .define("RLX_CHUNK_LENGTH", integer_text(chunks.length))
        .define("RLX_ITEMS", kItems)
        .define("RLX_MOST", integer_text(most))
        .define("RLX_X", std::string(name_of(x.dtype())))
        .define("RLX_I", std::string(name_of(indices.dtype())))
        .generated("rows.inc", rows_text(x, indices, padded))
        .grid(split_grid(static_cast<uint64_t>(groups)))
        .work(x.byte_range().length_bytes + (counts ? 0 : indices.byte_range().length_bytes), 0)
        .reason(std::to_string(chunks.count) + " chunks" + (counts ? ": their counts" : ""));
    if (length > 0) dispatch.read(&ScanParams::x, x);
    if (counts) {
      dispatch.write(&ScanParams::partial, partial);
      continue;
    }
    dispatch.read(&ScanParams::partial, partial).write(&ScanParams::count, count);
    if (element_count(indices.shape()) > 0) dispatch.write(&ScanParams::indices, indices);
  }
  return true;
}

constexpr AttrSpec kNonzeroAttrs[] = {
    {.name = "max_count",
     .type = AttrType::Int,
     .required = true,
     .minimum = 0,
     .consumed_by_infer = true},
    {.name = "index_dtype",
     .type = AttrType::DTypeName,
     .default_text = "\"i32\"",
     .consumed_by_infer = true},
};
constexpr OpDef kNonzeroOps[] = {
    {.name = "nonzero",
     .signature = "nonzero(x; max_count, index_dtype=i32) -> indices, [count]",
     .inputs = {1, 1},
     .outputs = {1, 2},
     .attrs = kNonzeroAttrs,
     .infer = infer_nonzero,
     .evaluate = evaluate_nonzero,
     .lower = lower_nonzero},
};

}  // namespace

std::span<const OpDef> nonzero_ops() {
  return kNonzeroOps;
}

}  // namespace rlx
