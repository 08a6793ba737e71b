// SPDX-License-Identifier: Apache-2.0
// matmul and fused_matmul_bias_act (ops.md 3.1, 3.3): shapes, evaluation, and the strided views
// that the kernels get.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/matmul_activation.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/product/matmul_lower.h"
#include "compiler/support/check.h"
#include "compiler/support/complex_bits.h"

namespace rlx {
namespace {

bool is_byte(DType dtype) {
  return dtype == DType::i8 || dtype == DType::u8;
}
std::string dtype_text(DType dtype) {
  return std::string(name_of(dtype));
}

// ---- shapes ----

// The shapes of a product with unit dims in place of missing ones.
struct ProductShapes {
  Shape batch;    // broadcast
  Shape a_batch;  // as given
  Shape b_batch;
  Dim m = 1;
  Dim k = 1;
  Dim b_k = 1;
  Dim n = 1;
  bool a_is_vector = false;
  bool b_is_vector = false;

  [[nodiscard]] Shape output() const {
    Shape shape = batch;
    if (!a_is_vector) shape.push_back(m);
    if (!b_is_vector) shape.push_back(n);
    return shape;
  }
};

struct Transposed {
  bool a = false;
  bool b = false;
};

// The batch dims are left empty where they do not broadcast; `agree` tells.
struct ProductShapesResult {
  ProductShapes shapes;
  bool batches_agree = true;
};
ProductShapesResult split_shapes(const Shape& a, const Shape& b, Transposed transposed) {
  ProductShapesResult result;
  ProductShapes& shapes = result.shapes;
  shapes.a_is_vector = a.size() == 1;
  shapes.b_is_vector = b.size() == 1;
  if (shapes.a_is_vector) {
    shapes.k = a[0];
  } else {
    shapes.m = a[a.size() - (transposed.a ? 1 : 2)];
    shapes.k = a[a.size() - (transposed.a ? 2 : 1)];
    shapes.a_batch.assign(a.begin(), a.end() - 2);
  }
  if (shapes.b_is_vector) {
    shapes.b_k = b[0];
  } else {
    shapes.b_k = b[b.size() - (transposed.b ? 1 : 2)];
    shapes.n = b[b.size() - (transposed.b ? 2 : 1)];
    shapes.b_batch.assign(b.begin(), b.end() - 2);
  }
  const auto batch = broadcast_shapes(shapes.a_batch, shapes.b_batch);
  result.batches_agree = batch.has_value();
  if (batch) shapes.batch = *batch;
  return result;
}

// ---- infer ----

// The default dtype of the result; nullopt after a diagnostic.
std::optional<DType> product_dtype(InferContext& ctx) {
  const DType a = ctx.dtype(0);
  const DType b = ctx.dtype(1);
  if (is_short_float(a) && is_short_float(b)) return a;
  if (a == DType::f64 && b == DType::f64) return a;
  if (is_byte(a) && is_byte(b)) return DType::i32;
  if (a == DType::c64 && b == DType::c64) return a;
  ctx.fail(DiagCode::BadDtype,
           "operands are " + dtype_text(a) + " and " + dtype_text(b) +
               "; wanted f32, f16 or bf16 in any mixture, two f64, two c64, or i8 and u8",
           "insert a cast");
  return std::nullopt;
}

std::optional<DType> output_dtype(InferContext& ctx, DType natural) {
  if (!ctx.attrs().has("out_dtype")) return natural;
  const DType wanted = ctx.attrs().dtype("out_dtype");
  const bool legal = wanted == natural || (is_short_float(natural) && is_short_float(wanted));
  if (legal) return wanted;
  ctx.fail(DiagCode::BadAttribute,
           "out_dtype " + dtype_text(wanted) + " cannot hold a product that accumulates in " +
               dtype_text(natural == DType::c64 ? natural : accumulator_of(ctx.dtype(0))) +
               "; wanted " + (is_short_float(natural) ? "f32, f16 or bf16" : dtype_text(natural)));
  return std::nullopt;
}

bool check_depths(InferContext& ctx, const ProductShapesResult& split) {
  const ProductShapes& shapes = split.shapes;
  bool good = true;
  if (shapes.k != shapes.b_k) {
    good = ctx.fail(DiagCode::BadShape, "the summed dims differ: K=" + to_string(shapes.k) +
                                            " of " + to_string(ctx.shape(0)) +
                                            " against K=" + to_string(shapes.b_k) + " of " +
                                            to_string(ctx.shape(1)));
  }
  if (!split.batches_agree) {
    good = ctx.fail(DiagCode::BadShape, "batch dims " + to_string(shapes.a_batch) + " and " +
                                            to_string(shapes.b_batch) + " do not broadcast");
  }
  return good;
}

bool infer_matmul(InferContext& ctx) {
  const Transposed transposed{ctx.attrs().flag("trans_a"), ctx.attrs().flag("trans_b")};
  const std::optional<DType> natural = product_dtype(ctx);
  const std::optional<DType> dtype = natural ? output_dtype(ctx, *natural) : std::nullopt;
  bool good = dtype.has_value();
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const char* name = i == 0 ? "a" : "b";
    if (ctx.shape(i).empty()) {
      good = ctx.fail(DiagCode::BadRank, std::string(name) + " has rank 0; wanted rank 1 or more");
    } else if (ctx.shape(i).size() == 1 && (i == 0 ? transposed.a : transposed.b)) {
      good = ctx.fail(DiagCode::BadAttribute,
                      std::string("trans_") + name + " has no meaning for " + name + " of rank 1",
                      "leave the attribute out");
    }
  }
  if (ctx.shape(0).empty() || ctx.shape(1).empty()) return false;
  const ProductShapesResult split = split_shapes(ctx.shape(0), ctx.shape(1), transposed);
  if (!check_depths(ctx, split) || !good) return false;
  ctx.set_output(0, {*dtype, split.shapes.output()});
  return true;
}

bool check_added(InferContext& ctx, size_t input, const char* name, const Shape& y) {
  if (!ctx.has_input(input)) return true;
  bool good = true;
  const bool f64 = ctx.dtype(0) == DType::f64;
  if (f64 ? ctx.dtype(input) != DType::f64 : !is_short_float(ctx.dtype(input))) {
    good = ctx.fail(DiagCode::BadDtype, std::string(name) + " is " + dtype_text(ctx.dtype(input)) +
                                            "; wanted " + (f64 ? "f64" : "f32, f16 or bf16") +
                                            " beside " + dtype_text(ctx.dtype(0)));
  }
  const auto shape = broadcast_shapes(ctx.shape(input), y);
  if (!shape || *shape != y) {
    good = ctx.fail(DiagCode::BadShape, std::string(name) + " " + to_string(ctx.shape(input)) +
                                            " does not broadcast to the result " + to_string(y));
  }
  return good;
}

bool infer_fused(InferContext& ctx) {
  bool good = read_activation(ctx, true).has_value();
  const std::optional<DType> natural = product_dtype(ctx);
  if (natural == DType::i32 || natural == DType::c64) {
    good = ctx.fail(DiagCode::BadDtype,
                    "x is " + dtype_text(ctx.dtype(0)) + "; wanted a float dtype", "use matmul");
  }
  if (ctx.shape(0).size() < 2) {
    good = ctx.fail(DiagCode::BadRank,
                    "x has rank " + std::to_string(ctx.shape(0).size()) + "; wanted [.., M, K]");
  }
  if (ctx.shape(1).size() != 2) {
    good = ctx.fail(DiagCode::BadRank,
                    "w has rank " + std::to_string(ctx.shape(1).size()) + "; wanted 2");
  }
  if (ctx.shape(0).size() < 2 || ctx.shape(1).size() != 2) return false;
  const ProductShapesResult split =
      split_shapes(ctx.shape(0), ctx.shape(1), {.a = false, .b = ctx.attrs().flag("trans_w")});
  if (!check_depths(ctx, split)) return false;
  const Shape y = split.shapes.output();
  good = check_added(ctx, 2, "bias", y) && good;
  good = check_added(ctx, 3, "residual", y) && good;
  if (!good || !natural) return false;
  const std::optional<DType> dtype = output_dtype(ctx, *natural);
  if (!dtype) return false;
  ctx.set_output(0, {*dtype, y});
  return true;
}

// ---- evaluate ----

// Row-major element offset of every batch entry of y in an operand with its own batch dims.
std::vector<int64_t> batch_offsets(const Shape& own, const Shape& batch, int64_t entry) {
  const Strides strides = broadcast_strides(own, dense_strides(own), batch);
  const auto count = static_cast<int64_t>(element_count(batch));
  std::vector<int64_t> offsets(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    int64_t offset = 0;
    for (size_t d = batch.size(); d-- > 0;) {
      offset += rest % batch[d] * strides[d];
      rest /= batch[d];
    }
    offsets[static_cast<size_t>(i)] = offset * entry;
  }
  return offsets;
}

// One matrix of the product: element (line, depth) of a, (depth, line) of b, in the order of
// `transposed`.
struct MatrixView {
  size_t base;
  size_t line;
  size_t depth;
};

template <typename Element, typename Add>
void multiply_matrix(const std::vector<Element>& a, MatrixView av, const std::vector<Element>& b,
                     MatrixView bv, const ProductShapes& shapes, Add add) {
  for (int64_t m = 0; m < shapes.m; ++m) {
    for (int64_t k = 0; k < shapes.k; ++k) {
      const Element x =
          a[av.base + static_cast<size_t>(m) * av.line + static_cast<size_t>(k) * av.depth];
      const size_t row = bv.base + static_cast<size_t>(k) * bv.depth;
      for (int64_t n = 0; n < shapes.n; ++n) {
        add(static_cast<size_t>(m * shapes.n + n), x, b[row + static_cast<size_t>(n) * bv.line]);
      }
    }
  }
}

// Calls add(element of y, x, w) for every product, k ascending for each element.
template <typename Element, typename Add>
void multiply(const std::vector<Element>& a, const std::vector<Element>& b,
              const ProductShapes& shapes, Transposed transposed, Add add) {
  const std::vector<int64_t> a_at =
      batch_offsets(shapes.a_batch, shapes.batch, shapes.m * shapes.k);
  const std::vector<int64_t> b_at =
      batch_offsets(shapes.b_batch, shapes.batch, shapes.n * shapes.k);
  const auto m = static_cast<size_t>(shapes.m);
  const auto n = static_cast<size_t>(shapes.n);
  const auto k = static_cast<size_t>(shapes.k);
  for (size_t batch = 0; batch < a_at.size(); ++batch) {
    const MatrixView av{static_cast<size_t>(a_at[batch]), transposed.a ? 1 : k,
                        transposed.a ? m : 1};
    const MatrixView bv{static_cast<size_t>(b_at[batch]), transposed.b ? k : 1,
                        transposed.b ? 1 : n};
    const size_t plane = batch * m * n;
    multiply_matrix(a, av, b, bv, shapes,
                    [&](size_t element, Element x, Element w) { add(plane + element, x, w); });
  }
}

ProductSums float_product(const Tensor& a, const Tensor& b, const ProductShapes& shapes,
                          Transposed transposed) {
  ProductSums sums;
  sums.values.resize(static_cast<size_t>(element_count(shapes.output())));
  sums.magnitudes.resize(sums.values.size());
  multiply(a.floats, b.floats, shapes, transposed, [&](size_t element, double x, double w) {
    sums.values[element] += x * w;
    sums.magnitudes[element] += std::abs(x * w);
  });
  return sums;
}

void store_sums(Tensor& y, ProductSums sums, int64_t terms) {
  y.floats = std::move(sums.values);
  y.magnitudes = std::move(sums.magnitudes);
  y.terms = terms;
}

void complex_product(const Tensor& a, const Tensor& b, const ProductShapes& shapes,
                     Transposed transposed, Tensor& y) {
  using Complex = std::complex<double>;
  const auto numbers = [](const Tensor& tensor) {
    std::vector<Complex> values;
    values.reserve(tensor.integers.size());
    for (const int64_t bits : tensor.integers) values.push_back(complex_from_bits(bits));
    return values;
  };
  std::vector<Complex> sums(y.integers.size());
  y.magnitudes.resize(2 * sums.size());
  y.terms = 2 * shapes.k;
  multiply(numbers(a), numbers(b), shapes, transposed, [&](size_t element, Complex x, Complex w) {
    const std::array<double, 4> terms = {x.real() * w.real(), x.imag() * w.imag(),
                                         x.real() * w.imag(), x.imag() * w.real()};
    sums[element] += Complex(terms[0] - terms[1], terms[2] + terms[3]);
    y.magnitudes[2 * element] += std::abs(terms[0]) + std::abs(terms[1]);
    y.magnitudes[2 * element + 1] += std::abs(terms[2]) + std::abs(terms[3]);
  });
  std::transform(sums.begin(), sums.end(), y.integers.begin(), complex_to_bits);
}

bool evaluate_matmul(EvaluateContext& ctx) {
  const Transposed transposed{ctx.attrs().flag("trans_a"), ctx.attrs().flag("trans_b")};
  const Tensor& a = ctx.input(0);
  const Tensor& b = ctx.input(1);
  const ProductShapes shapes = split_shapes(a.type.shape, b.type.shape, transposed).shapes;
  if (is_float(a.type.dtype)) {
    store_sums(ctx.output(0), float_product(a, b, shapes, transposed), shapes.k);
    return true;
  }
  if (a.type.dtype == DType::c64) {
    complex_product(a, b, shapes, transposed, ctx.output(0));
    return true;
  }
  std::vector<int64_t>& y = ctx.output(0).integers;
  multiply(a.integers, b.integers, shapes, transposed, [&](size_t element, int64_t x, int64_t w) {
    y[element] = static_cast<int32_t>(static_cast<uint32_t>(y[element] + x * w));
  });
  return true;
}

void add_broadcast(const Tensor& added, const Shape& y_shape, ProductSums& sums) {
  const Strides strides =
      broadcast_strides(added.type.shape, dense_strides(added.type.shape), y_shape);
  for (size_t i = 0; i < sums.values.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t offset = 0;
    for (size_t d = y_shape.size(); d-- > 0;) {
      offset += rest % y_shape[d] * strides[d];
      rest /= y_shape[d];
    }
    const double value = added.floats[static_cast<size_t>(offset)];
    sums.values[i] += value;
    sums.magnitudes[i] += std::abs(value);
  }
}

bool evaluate_fused(EvaluateContext& ctx) {
  const Transposed transposed{.a = false, .b = ctx.attrs().flag("trans_w")};
  const Tensor& x = ctx.input(0);
  const Tensor& w = ctx.input(1);
  const ProductShapes shapes = split_shapes(x.type.shape, w.type.shape, transposed).shapes;
  const Shape y_shape = shapes.output();
  const int64_t terms = shapes.k + 2;
  const std::optional<Activation> activation = read_activation(ctx, true);
  if (!activation) return false;
  ProductSums sums = float_product(x, w, shapes, transposed);
  if (ctx.has_input(2)) add_broadcast(ctx.input(2), y_shape, sums);
  apply_activation(*activation, x.type.dtype, terms, sums);
  if (ctx.has_input(3)) add_broadcast(ctx.input(3), y_shape, sums);
  store_sums(ctx.output(0), std::move(sums), terms);
  return true;
}

// ---- decompose ----

// In place of each row of b two, b and i b; or of its conjugates.
ValueId with_turned(RewriteContext& ctx, ValueId b, bool conjugates) {
  Tensor first = Tensor::zeros({DType::bool_, {2, 1}});
  first.integers = {1, 0};
  Shape shape = ctx.shape(b);
  shape.insert(shape.end() - 1, Dim(1));
  const ValueId rows = ctx.emit("reshape", {b}, {{"shape", shape}});
  shape[shape.size() - 2] = Dim(2);
  const ValueId twice = ctx.emit("expand", {rows}, {{"shape", shape}});
  const ValueId im = ctx.emit("imag", {twice});
  const ValueId turned =
      ctx.emit("complex", {conjugates ? im : ctx.emit("neg", {im}), ctx.emit("real", {twice})});
  const ValueId plain = conjugates ? ctx.emit("conjugate", {twice}) : twice;
  const ValueId both = ctx.emit("where", {ctx.constant("first", first), plain, turned});
  Shape joined = ctx.shape(b);
  joined[joined.size() - 2] = joined[joined.size() - 2] * 2;
  return ctx.emit("reshape", {both}, {{"shape", joined}});
}

// Of complex numbers, whose memory is that of a real product: a's parts as they stand, [a.re a.im
// ..], times rows [b.re b.im ..] and, below each, [-b.im b.re ..] give [y.re y.im ..]. With trans_b
// the rows of its transpose, of conjugates. Other types have kernels.
bool decompose_complex_product(RewriteContext& ctx) {
  ValueId a = ctx.input(0);
  ValueId b = ctx.input(1);
  if (ctx.dtype(a) != DType::c64) return true;
  const auto rank = [&](ValueId x) { return ctx.shape(x).size(); };
  const bool is_vector = rank(b) == 1;
  const bool trans_b = ctx.attrs().flag("trans_b") && !is_vector;
  if (ctx.attrs().flag("trans_a") && rank(a) > 1) {
    Ints perm(rank(a));
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[rank(a) - 2], perm[rank(a) - 1]);
    a = ctx.emit("transpose", {a}, {{"perm", perm}});
  }
  if (is_vector) b = ctx.emit("reshape", {b}, {{"shape", Shape{ctx.shape(b)[0], Dim(1)}}});
  Attributes attributes = ctx.node().attributes;
  attributes.erase("out_dtype");
  attributes.erase("trans_a");
  if (!trans_b) attributes.erase("trans_b");
  const ValueId left = ctx.emit("parts_of_complex", {a});
  const ValueId right = ctx.emit("parts_of_complex", {with_turned(ctx, b, trans_b)});
  ValueId y = ctx.emit("complex_of_parts", {ctx.emit("matmul", {left, right}, attributes)});
  if (is_vector) y = ctx.emit("reshape", {y}, {{"shape", ctx.type(ctx.node().outputs[0]).shape}});
  ctx.replace_output(0, y);
  return true;
}

// ---- lower ----

// Strides of an operand's lines and depths over the broadcast batch dims.
ProductOperand operand_view(const TensorRef& ref, const Shape& batch, bool transposed,
                            bool is_left) {
  ProductOperand operand{.ref = ref};
  const size_t rank = ref.shape().size();
  if (rank == 1) {
    operand.batch.assign(batch.size(), 0);
    operand.depth = ref.strides[0];
    return operand;
  }
  const Shape own(ref.shape().begin(), ref.shape().end() - 2);
  const Strides own_strides(ref.strides.begin(), ref.strides.end() - 2);
  operand.batch = broadcast_strides(own, own_strides, batch);
  const bool line_first = is_left != transposed;
  operand.line = ref.strides[rank - (line_first ? 2 : 1)];
  operand.depth = ref.strides[rank - (line_first ? 1 : 2)];
  return operand;
}

// The operand as it stands, or a dense copy where neither of its last two axes has stride 1.
ProductOperand usable_operand(LowerContext& ctx, size_t input, const ProductShapes& shapes,
                              bool transposed) {
  const bool is_left = input == 0;
  ProductOperand operand = operand_view(ctx.input(input), shapes.batch, transposed, is_left);
  if (has_unit_axis(operand, is_left ? shapes.m : shapes.n, shapes.k)) return operand;
  return operand_view(ctx.dense_input(input), shapes.batch, transposed, is_left);
}

Product product_of(LowerContext& ctx, Transposed transposed) {
  const ProductShapes shapes =
      split_shapes(ctx.input_type(0).shape, ctx.input_type(1).shape, transposed).shapes;
  const TensorRef y = ctx.output(0);
  return {.batch = shapes.batch,
          .m = shapes.m,
          .n = shapes.n,
          .k = shapes.k,
          .a = usable_operand(ctx, 0, shapes, transposed.a),
          .b = usable_operand(ctx, 1, shapes, transposed.b),
          .bias = {},
          .residual = {},
          .y = y,
          .y_lines = product_lines(y),
          .activation = {},
          .note = {}};
}

bool lower_matmul(LowerContext& ctx) {
  const Transposed transposed{ctx.attrs().flag("trans_a"), ctx.attrs().flag("trans_b")};
  if (element_count(ctx.output_type(0).shape) == 0) {
    ctx.output(0);
    return true;
  }
  return lower_product(ctx, product_of(ctx, transposed));
}

bool lower_fused(LowerContext& ctx) {
  const Transposed transposed{.a = false, .b = ctx.attrs().flag("trans_w")};
  const std::optional<Activation> activation = read_activation(ctx, true);
  if (!activation) return false;
  if (element_count(ctx.output_type(0).shape) == 0) {
    ctx.output(0);
    return true;
  }
  Product product = product_of(ctx, transposed);
  product.activation = *activation;
  const Shape& y = ctx.output_type(0).shape;
  if (ctx.has_input(2)) product.bias = added_operand(ctx.input(2), y);
  if (ctx.has_input(3)) product.residual = added_operand(ctx.input(3), y);
  return lower_product(ctx, std::move(product));
}

// Vectors that the op takes for matrices have no axis of their own in y.
std::string product_place_refusal(const LoweringState& state, const Node& node,
                                  const TensorRef& place) {
  for (size_t i = 0; i < 2; ++i) {
    if (state.graph.value(*node.inputs[i]).type.shape.size() < 2)
      return "a product with a vector writes dense results";
  }
  if (place.shape().back() > 1 && place.strides.back() != 1) return "products write dense lines";
  const bool far = std::any_of(place.strides.begin(), place.strides.end(),
                               [](const Dim& stride) { return stride > kFarthestLine; });
  return far ? "products write within 32-bit strides" : "";
}

constexpr std::array kMatmulAttrs = {
    AttrSpec{.name = "trans_a", .type = AttrType::Bool, .default_text = "false"},
    AttrSpec{.name = "trans_b", .type = AttrType::Bool, .default_text = "false"},
    AttrSpec{.name = "out_dtype", .type = AttrType::DTypeName, .consumed_by_infer = true},
};
constexpr std::array kFusedAttrs = {
    AttrSpec{.name = "trans_w", .type = AttrType::Bool, .default_text = "false"},
    AttrSpec{.name = "activation", .type = AttrType::String, .default_text = "\"none\""},
    AttrSpec{.name = "alpha", .type = AttrType::Float},
    AttrSpec{.name = "beta", .type = AttrType::Float},
    AttrSpec{.name = "min", .type = AttrType::Float},
    AttrSpec{.name = "max", .type = AttrType::Float},
    AttrSpec{.name = "out_dtype", .type = AttrType::DTypeName, .consumed_by_infer = true},
};
constexpr std::array<uint32_t, 2> kFusedOptional = {2, 3};

// With A = a or its transpose and B likewise: dA = dy B^T, dB = A^T dy, each as its operand stands.
bool matmul_gradient(GradientContext& ctx) {
  const bool trans_a = ctx.attrs().flag("trans_a");
  const bool trans_b = ctx.attrs().flag("trans_b");
  const auto product = [&](ValueId p, ValueId q, bool trans_p, bool trans_q, ValueId like) {
    return ctx.emit("matmul", {p, q},
                    {{"trans_a", trans_p},
                     {"trans_b", trans_q},
                     {"out_dtype", std::string(name_of(ctx.dtype(like)))}});
  };
  ValueId a = ctx.input(0);
  ValueId b = ctx.input(1);
  ValueId dy = ctx.gradient();
  // Vectors as matrices.
  const Shape a_shape = ctx.shape(a);
  const Shape b_shape = ctx.shape(b);
  Shape y = ctx.shape(dy);
  if (b_shape.size() == 1) {
    b = ctx.reshape(b, trans_b ? Shape{1, b_shape[0]} : Shape{b_shape[0], 1});
    y.push_back(1);
  }
  if (a_shape.size() == 1) {
    a = ctx.reshape(a, trans_a ? Shape{a_shape[0], 1} : Shape{1, a_shape[0]});
    y.insert(y.end() - 1, 1);
  }
  dy = ctx.reshape(dy, y);
  // One matrix for all of a batch: the batch's rows are rows of one product.
  if (ctx.shape(b).size() == 2 && ctx.shape(a).size() > 2 && !trans_a) {
    const auto rows = [&](ValueId x) {
      const Shape& shape = ctx.shape(x);
      return ctx.reshape(x, {element_count(Shape(shape.begin(), shape.end() - 1)), shape.back()});
    };
    a = rows(a);
    dy = rows(dy);
  }
  const auto give = [&](size_t input, ValueId gradient, const Shape& matrix, const Shape& shape) {
    ctx.give(input, ctx.reshape(ctx.sum_to(gradient, matrix), shape));
  };
  if (ctx.wants(0)) {
    give(0,
         trans_a ? product(b, dy, trans_b, true, ctx.input(0))
                 : product(dy, b, false, !trans_b, ctx.input(0)),
         ctx.shape(a), a_shape);
  }
  if (ctx.wants(1)) {
    give(1,
         trans_b ? product(dy, a, true, trans_a, ctx.input(1))
                 : product(a, dy, !trans_a, false, ctx.input(1)),
         ctx.shape(b), b_shape);
  }
  return true;
}

constexpr std::array kMatmulOps = {
    OpDef{.name = "matmul",
          .signature = "matmul(a, b; trans_a=false, trans_b=false, out_dtype) -> y",
          .inputs = {2, 2},
          .outputs = {1, 1},
          .attrs = kMatmulAttrs,
          .infer = infer_matmul,
          .evaluate = evaluate_matmul,
          .decompose = decompose_complex_product,
          .gradient = matmul_gradient,
          .lower = lower_matmul,
          .place_refusal = product_place_refusal},
    OpDef{.name = "fused_matmul_bias_act",
          .signature = "fused_matmul_bias_act(x, w, [bias], [residual]; trans_w=false, "
                       "activation=\"none\", alpha, beta, min, max, out_dtype) -> y",
          .inputs = {2, 4},
          .outputs = {1, 1},
          .attrs = kFusedAttrs,
          .infer = infer_fused,
          .evaluate = evaluate_fused,
          .lower = lower_fused,
          .optional_inputs = kFusedOptional,
          .place_refusal = product_place_refusal},
};

}  // namespace

std::span<const OpDef> matmul_ops() {
  return kMatmulOps;
}

}  // namespace rlx
