// SPDX-License-Identifier: Apache-2.0
// From a product over strided views to dispatches of `matmul` or `matvec`.
#include "compiler/ops/matmul_lower.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ops/matmul_library.h"
#include "compiler/ops/matmul_tiles.h"
#include "compiler/ops/matmul_vectors.h"
#include "compiler/support/check.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

// Up to this many vectors, a product is bound by the other operand's bytes and goes to matvec.
constexpr int64_t kMaxVectors = 4;
constexpr int64_t kVectorElements = 4;
// The kernels count lines, depths and tiles in 32 bits, and round up to whole tiles.
constexpr int64_t kCountLimit = std::numeric_limits<int32_t>::max() - 4096;
constexpr int64_t kLeastTile = 16;
constexpr uint32_t kPassThreads = 256;

using MatmulDispatch = DispatchBuilder<MatmulParams>;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

bool loads_vectors(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

int64_t batch_count(const Product& product) {
  return element_count(product.batch);
}

// ---- normal form: fewer batch dims ----

// Every stride list of the product over its batch dims; y is dense and needs none.
std::vector<Strides*> batch_strides(Product& product) {
  std::vector<Strides*> lists = {&product.a.batch, &product.b.batch};
  if (product.bias) lists.push_back(&product.bias->batch);
  if (product.residual) lists.push_back(&product.residual->batch);
  return lists;
}

void erase_batch_dim(Product& product, size_t dim) {
  product.batch.erase(product.batch.begin() + static_cast<int64_t>(dim));
  for (Strides* strides : batch_strides(product)) {
    strides->erase(strides->begin() + static_cast<int64_t>(dim));
  }
}

void merge_batch_dims(Product& product) {
  for (size_t i = product.batch.size(); i-- > 0;) {
    if (product.batch[i] == 1) erase_batch_dim(product, i);
  }
  for (size_t i = product.batch.size(); i-- > 1;) {
    const std::vector<Strides*> lists = batch_strides(product);
    const bool merges = std::all_of(lists.begin(), lists.end(), [&](const Strides* strides) {
      return (*strides)[i - 1] == (*strides)[i] * product.batch[i];
    });
    if (!merges) continue;
    for (Strides* strides : lists) (*strides)[i - 1] = (*strides)[i];
    product.batch[i - 1] *= product.batch[i];
    for (Strides* strides : lists) strides->erase(strides->begin() + static_cast<int64_t>(i));
    product.batch.erase(product.batch.begin() + static_cast<int64_t>(i));
  }
}

// The innermost batch dim continues the lines of m: every operand steps through it as through more
// lines.
bool continues_lines(int64_t batch_stride, int64_t line_stride, int64_t m) {
  return m == 1 || batch_stride == line_stride * m;
}

// One weight matrix for all batch entries: batch entries become lines of a ([B, S, K] x [K, N] is
// one product).
void fold_batch_into_lines(Product& product) {
  while (!product.batch.empty() && product.b.batch.back() == 0) {
    if (!continues_lines(product.a.batch.back(), product.a.line, product.m)) return;
    if (product.bias && !continues_lines(product.bias->batch.back(), product.bias->m, product.m))
      return;
    if (product.residual &&
        !continues_lines(product.residual->batch.back(), product.residual->m, product.m)) {
      return;
    }
    if (product.m == 1) {
      product.a.line = product.a.batch.back();
      if (product.bias) product.bias->m = product.bias->batch.back();
      if (product.residual) product.residual->m = product.residual->batch.back();
    }
    product.m *= product.batch.back();
    erase_batch_dim(product, product.batch.size() - 1);
  }
}

// ---- what the kernels are told ----

bool whole_vectors(const Strides& batch, std::initializer_list<int64_t> strides) {
  const auto whole = [](int64_t stride) { return stride % kVectorElements == 0; };
  return std::all_of(batch.begin(), batch.end(), whole) &&
         std::all_of(strides.begin(), strides.end(), whole);
}

bool vector_aligned(const LowerContext& ctx, const TensorRef& ref) {
  return loads_vectors(ref.dtype()) &&
         ctx.alignment(ref) >= kVectorElements * element_bytes(ref.dtype());
}

bool y_in_vectors(const LowerContext& ctx, const Product& product) {
  return product.n % kVectorElements == 0 && vector_aligned(ctx, product.y) &&
         accumulator_of(product.a.ref.dtype()) == DType::f32;
}

bool added_in_vectors(const LowerContext& ctx, const AddedOperand& added) {
  return added.n == 1 && vector_aligned(ctx, added.ref) && whole_vectors(added.batch, {added.m});
}

int64_t reach(int64_t count_a, int64_t stride_a, int64_t count_b, int64_t stride_b) {
  return (count_a - 1) * std::abs(stride_a) + (count_b - 1) * std::abs(stride_b);
}

// "int" where every offset inside a batch entry fits.
std::string index_type_of(const Product& product) {
  int64_t farthest = product.m * product.n;
  if (product.k > 0) {
    farthest = std::max(farthest, reach(product.m, product.a.line, product.k, product.a.depth));
    farthest = std::max(farthest, reach(product.n, product.b.line, product.k, product.b.depth));
  }
  for (const auto* added : {&product.bias, &product.residual}) {
    if (!*added) continue;
    farthest = std::max(farthest, reach(product.m, (*added)->m, product.n, (*added)->n));
  }
  return farthest <= kCountLimit ? "int" : "rlx_i64";
}

std::string offset_line(const std::string& name, const Strides& strides) {
  std::string text = "const rlx_i64 " + name + " = 0";
  for (size_t i = 0; i < strides.size(); ++i) {
    if (strides[i] == 0) continue;
    text += " + rlx_i64(batch_" + std::to_string(i) + ") * rlx_i64(" + std::to_string(strides[i]) +
            "L)";
  }
  return text + ";\n";
}

// generated/batch.inc: element offsets of every operand for `batch`.
std::string batch_source(const Product& product) {
  std::string text;
  int64_t inner = 1;
  for (size_t i = product.batch.size(); i-- > 0;) {
    text += "const rlx_u32 batch_" + std::to_string(i) + " = batch / " + std::to_string(inner) +
            "u % " + std::to_string(product.batch[i]) + "u;\n";
    inner *= product.batch[i];
  }
  text += offset_line("a_batch", product.a.batch) + offset_line("b_batch", product.b.batch);
  if (product.bias) text += offset_line("bias_batch", product.bias->batch);
  if (product.residual) text += offset_line("residual_batch", product.residual->batch);
  return text;
}

void define_added(const LowerContext& ctx, MatmulDispatch& dispatch, const std::string& name,
                  const std::optional<AddedOperand>& added) {
  if (!added) return;
  dispatch.define(name, std::string(name_of(added->ref.dtype())))
      .define(name + "_M", added->m)
      .define(name + "_N", added->n)
      .define(name + "_VECTOR", added_in_vectors(ctx, *added) ? kVectorElements : 1);
}

enum class Pass : uint8_t { Whole = 0, Split = 1, Join = 2 };

void define_common(const LowerContext& ctx, MatmulDispatch& dispatch, const Product& product,
                   Pass pass) {
  const DType acc = accumulator_of(product.a.ref.dtype());
  const bool epilogue = pass != Pass::Split;
  dispatch.define("RLX_ACC", std::string(name_of(acc)))
      .define("RLX_INDEX", index_type_of(product))
      .define("RLX_Y", std::string(name_of(product.y.dtype())))
      .define("RLX_Y_VECTOR", y_in_vectors(ctx, product) ? kVectorElements : 1)
      .define("RLX_M", product.m)
      .define("RLX_N", product.n)
      .define("RLX_K", product.k)
      .define("RLX_BATCHES", batch_count(product))
      .define("RLX_PASS", static_cast<int64_t>(pass))
      .define("RLX_ACTIVATION", epilogue && !product.activation.none() ? 1 : 0)
      .generated("batch.inc", batch_source(product));
  if (!epilogue) return;
  define_added(ctx, dispatch, "RLX_BIAS", product.bias);
  define_added(ctx, dispatch, "RLX_RESIDUAL", product.residual);
  if (!product.activation.none())
    dispatch.generated("epilogue.inc", activation_source(product.activation, acc));
}

void bind_operands(MatmulDispatch& dispatch, const Product& product, uint32_t a_alignment,
                   uint32_t b_alignment) {
  if (product.k == 0) return;  // nothing is read
  dispatch.read(&MatmulParams::a, product.a.ref, a_alignment)
      .read(&MatmulParams::b, product.b.ref, b_alignment);
}

uint32_t vector_bytes(const TensorRef& ref, bool in_vectors) {
  return in_vectors ? narrow<uint32_t>(kVectorElements) * element_bytes(ref.dtype()) : 0;
}

// Binds what the epilogue reads and writes.
void bind_epilogue(const LowerContext& ctx, MatmulDispatch& dispatch, const Product& product) {
  if (product.bias) {
    dispatch.read(&MatmulParams::bias, product.bias->ref,
                  vector_bytes(product.bias->ref, added_in_vectors(ctx, *product.bias)));
  }
  if (product.residual) {
    dispatch.read(&MatmulParams::residual, product.residual->ref,
                  vector_bytes(product.residual->ref, added_in_vectors(ctx, *product.residual)));
  }
  dispatch.write(&MatmulParams::y, product.y, vector_bytes(product.y, y_in_vectors(ctx, product)));
  if (!product.residual) return;
  const TensorRef& residual = product.residual->ref;
  const bool other_reader = residual.buffer == product.a.ref.buffer ||
                            residual.buffer == product.b.ref.buffer ||
                            (product.bias && residual.buffer == product.bias->ref.buffer);
  if (residual.dense() && residual.dtype() == product.y.dtype() && !other_reader &&
      element_count(residual.shape()) == element_count(product.y.shape())) {
    dispatch.allow_in_place(residual);
  }
}

uint64_t least_bytes(const Product& product) {
  uint64_t bytes = byte_size(product.y.type);
  const auto add = [&](const TensorRef& ref) { bytes += ref.byte_range().length_bytes; };
  if (product.k > 0) {
    add(product.a.ref);
    add(product.b.ref);
  }
  if (product.bias) add(product.bias->ref);
  if (product.residual) add(product.residual->ref);
  return bytes;
}

uint64_t flops_of(const Product& product) {
  return 2 * static_cast<uint64_t>(product.m) * static_cast<uint64_t>(product.n) *
         static_cast<uint64_t>(product.k) * static_cast<uint64_t>(batch_count(product));
}

std::string reason_of(const Product& product, const std::string& choice) {
  return product.note.empty() ? choice : product.note + ": " + choice;
}

// ---- the dispatches ----

TensorRef partial_sums(LowerContext& ctx, const Product& product, int64_t splits) {
  const TensorType type{accumulator_of(product.a.ref.dtype()),
                        {splits, batch_count(product), product.m, product.n}};
  return ctx.scratch(type, ctx.node().name + ".partial");
}

// Adds the splits' sums and applies the epilogue.
void join_splits(LowerContext& ctx, const Product& product, const TensorRef& partial,
                 int64_t splits) {
  auto dispatch = ctx.dispatch<KernelId::matmul>();
  const bool in_vectors = y_in_vectors(ctx, product);
  define_common(ctx, dispatch, product, Pass::Join);
  const int64_t elements = product.m * product.n * batch_count(product);
  const int64_t per_group = kPassThreads * (in_vectors ? kVectorElements : 1);
  dispatch.workgroup({kPassThreads, 1, 1})
      .define("RLX_SPLITS", splits)
      .define("RLX_TILE_M", 1)
      .define("RLX_TILE_N", 1)
      .read(&MatmulParams::partial, partial, vector_bytes(partial, in_vectors))
      .grid(split_grid(static_cast<uint64_t>(ceil_div(elements, per_group))))
      .work(byte_size(partial.type) + byte_size(product.y.type),
            static_cast<uint64_t>(elements * splits))
      .reason("adds " + std::to_string(splits) + " ranges of k in order");
  bind_epilogue(ctx, dispatch, product);
}

void emit_tiles(LowerContext& ctx, const Product& product) {
  const DType acc = accumulator_of(product.a.ref.dtype());
  const TileChoice choice =
      choose_tile({.m = product.m, .n = product.n, .k = product.k, .batches = batch_count(product)},
                  {.acc_bytes = element_bytes(acc)});
  std::optional<TensorRef> partial;
  if (choice.splits > 1) partial = partial_sums(ctx, product, choice.splits);
  {
    auto dispatch = ctx.dispatch<KernelId::matmul>();
    define_common(ctx, dispatch, product, partial ? Pass::Split : Pass::Whole);
    define_tile(dispatch, choice.tile);
    const std::string a_axis = vector_axis(ctx, product.a, product.m, product.k);
    const std::string b_axis = vector_axis(ctx, product.b, product.n, product.k);
    dispatch.define("RLX_A", std::string(name_of(product.a.ref.dtype())))
        .define("RLX_B", std::string(name_of(product.b.ref.dtype())))
        .define("RLX_A_LINE", product.a.line)
        .define("RLX_A_DEPTH", product.a.depth)
        .define("RLX_B_LINE", product.b.line)
        .define("RLX_B_DEPTH", product.b.depth)
        .define("RLX_A_VECTOR", a_axis)
        .define("RLX_B_VECTOR", b_axis)
        .define("RLX_SPLITS", choice.splits)
        .define("RLX_SPLIT_K", std::max<int64_t>(choice.split_k, 1))
        .grid(split_grid(static_cast<uint64_t>(choice.groups)))
        .work(least_bytes(product), flops_of(product))
        .reason(reason_of(product, "matmul " + choice.text()));
    bind_operands(dispatch, product, vector_bytes(product.a.ref, a_axis != "1"),
                  vector_bytes(product.b.ref, b_axis != "1"));
    if (partial) {
      dispatch.write(&MatmulParams::partial, *partial,
                     vector_bytes(*partial, y_in_vectors(ctx, product)));
    } else {
      bind_epilogue(ctx, dispatch, product);
    }
  }
  if (partial) join_splits(ctx, product, *partial, choice.splits);
}

void emit_vectors(LowerContext& ctx, const Product& product) {
  const VectorPlan plan = plan_vectors(ctx, product);
  const int64_t batches = batch_count(product);
  std::optional<TensorRef> partial;
  if (plan.splits > 1) partial = partial_sums(ctx, product, plan.splits);
  {
    auto dispatch = ctx.dispatch<KernelId::matvec>();
    define_common(ctx, dispatch, product, partial ? Pass::Split : Pass::Whole);
    define_plan(dispatch, plan);
    const ProductOperand& x = plan.swapped ? product.b : product.a;
    const ProductOperand& w = plan.swapped ? product.a : product.b;
    dispatch.define("RLX_X", std::string(name_of(x.ref.dtype())))
        .define("RLX_W", std::string(name_of(w.ref.dtype())))
        .define("RLX_X_LINE", x.line)
        .define("RLX_X_DEPTH", x.depth)
        .define("RLX_W_LINE", w.line)
        .define("RLX_W_DEPTH", w.depth)
        .grid(split_grid(static_cast<uint64_t>(plan.blocks * plan.splits * batches)))
        .work(least_bytes(product), flops_of(product))
        .reason(reason_of(product, to_string(plan, batches)));
    const uint32_t w_bytes =
        plan.chunk == 1 ? 0 : narrow<uint32_t>(plan.chunk) * element_bytes(w.ref.dtype());
    const uint32_t x_bytes =
        vector_bytes(x.ref, plan.along_depth && plan.chunk > 1 && plan.x_in_vectors);
    bind_operands(dispatch, product, plan.swapped ? w_bytes : x_bytes,
                  plan.swapped ? x_bytes : w_bytes);
    if (partial) {
      dispatch.write(&MatmulParams::partial, *partial);
    } else {
      bind_epilogue(ctx, dispatch, product);
    }
  }
  if (partial) join_splits(ctx, product, *partial, plan.splits);
}

}  // namespace

DType accumulator_of(DType operand) {
  if (operand == DType::f64) return DType::f64;
  return is_float(operand) ? DType::f32 : DType::i32;
}

bool has_unit_axis(const ProductOperand& operand, int64_t lines, int64_t depth) {
  return operand.line == 1 || operand.depth == 1 || lines <= 1 || depth <= 1;
}

std::string vector_axis(const LowerContext& ctx, const ProductOperand& operand, int64_t lines,
                        int64_t depth) {
  if (!vector_aligned(ctx, operand.ref)) return "1";
  const int64_t line_stride = lines == 1 ? 0 : operand.line;
  const int64_t depth_stride = depth == 1 ? 0 : operand.depth;
  if (depth_stride == 1 && depth % kVectorElements == 0 &&
      whole_vectors(operand.batch, {line_stride})) {
    return "DEPTH";
  }
  if (line_stride == 1 && lines % kVectorElements == 0 &&
      whole_vectors(operand.batch, {depth_stride})) {
    return "LINE";
  }
  return "1";
}

AddedOperand added_operand(const TensorRef& ref, const Shape& y_shape) {
  AddedOperand added{.ref = ref, .batch = broadcast_strides(ref.shape(), ref.strides, y_shape)};
  RLX_CHECK(added.batch.size() >= 2, "an added tensor of rank below 2: " + to_string(y_shape));
  added.n = added.batch.back();
  added.batch.pop_back();
  added.m = added.batch.back();
  added.batch.pop_back();
  return added;
}

bool lower_product(LowerContext& ctx, Product product) {
  const int64_t batches = batch_count(product);
  if (product.m == 0 || product.n == 0 || batches == 0) return true;
  merge_batch_dims(product);
  fold_batch_into_lines(product);
  const int64_t largest = std::max({product.m, product.n, product.k, batch_count(product)});
  if (largest > kCountLimit ||
      ceil_div(product.m, kLeastTile) * ceil_div(product.n, kLeastTile) > kCountLimit) {
    return ctx.fail(DiagCode::UnsupportedOp, "a product of m=" + std::to_string(product.m) +
                                                 " n=" + std::to_string(product.n) +
                                                 " k=" + std::to_string(product.k) +
                                                 " exceeds the kernels' 32-bit counts");
  }
  const size_t first_step = ctx.program().steps.size();
  const int64_t vectors = std::min(product.m, product.n);
  if (vectors <= kMaxVectors && product.k > 0) {
    emit_vectors(ctx, product);
  } else {
    emit_tiles(ctx, product);
  }
  offer_to_library(ctx, product, first_step);
  return true;
}

}  // namespace rlx
