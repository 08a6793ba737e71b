// SPDX-License-Identifier: Apache-2.0
// Det, and Inverse of com.microsoft, column after column.
#include "compiler/import/onnx/node_reader.h"

namespace rlx::onnx_import {

void determinant(NodeReader& n, const OnnxOp& row);
void inverse(NodeReader& n, const OnnxOp& row);

namespace {

constexpr int64_t kMostColumns = 32;  // a dozen nodes each

ValueId column_of(NodeReader& n, ValueId x, int64_t axis, int64_t i) {
  return n.emit("narrow", {x}, {{"axis", axis}, {"start", i}, {"len", int64_t{1}}});
}

struct Elimination {
  Inputs pivots;  // [B, 1, 1] each
  Inputs places;  // the rows they were found in
};

// Of x [B, N, N]: each step takes the row of the column's largest element from all rows, as often
// as makes their elements of the column 0. It becomes 0 itself, and is not chosen again.
Elimination eliminate(NodeReader& n, ValueId x) {
  const Shape shape = n.type(x).shape;
  const DType dtype = n.type(x).dtype;
  Elimination done;
  for (int64_t k = 0; k < shape[2]; ++k) {
    const ValueId column = column_of(n, x, 2, k);
    const ValueId place =
        n.emit("argmax", {n.emit("abs", {column})},
               {{"axis", int64_t{1}}, {"keep_dims", true}, {"index_dtype", std::string("i64")}});
    const ValueId places =
        n.emit("expand", {place}, {{"shape", Ints{shape[0], int64_t{1}, shape[2]}}});
    const ValueId row = n.emit("gather_elements", {x, places}, {{"axis", int64_t{1}}});
    const ValueId pivot = column_of(n, row, 2, k);
    done.pivots.emplace_back(pivot);
    done.places.emplace_back(place);
    const ValueId is_nothing = n.emit("eq", {pivot, n.scalar(dtype, 0)});
    const ValueId divisor = n.emit("where", {is_nothing, n.scalar(dtype, 1), pivot});
    x = n.emit("sub", {x, n.emit("mul", {n.emit("div", {column, divisor}), row})});
  }
  return done;
}

// 1 or -1: whether the rows come in an order that an even number of swaps makes. [B]
ValueId sign_of(NodeReader& n, const Inputs& places, DType dtype) {
  const ValueId order = n.emit("concat", places, {{"axis", int64_t{1}}});
  const ValueId is_later = n.emit("gt", {order, n.transpose(order, {0, 2, 1})});
  const ValueId pairs =
      n.emit("trilu", {n.cast(is_later, DType::i32)}, {{"upper", true}, {"k", int64_t{1}}});
  const ValueId swaps = n.emit("reduce_sum", {pairs}, {{"axes", Ints{1, 2}}});
  const ValueId is_odd = n.emit("bitwise_and", {swaps, n.scalar(DType::i32, 1)});
  return n.emit("affine", {n.cast(is_odd, dtype)}, {{"mul", -2.0}, {"add", 1.0}});
}

// Square matrices as [B, N, N].
ValueId matrices_of(NodeReader& n) {
  const Shape shape = n.shape(0);
  const size_t lead = shape.size() < 2 ? 0 : shape.size() - 2;
  if (shape.size() < 2 || shape[lead] != shape[lead + 1])
    n.refuse_shapes("x is " + to_string(shape) + ", wanted square matrices");
  const int64_t count = shape[lead];
  if (count < 1 || count > kMostColumns)
    n.refuse_shapes("matrices of " + std::to_string(count) +
                    " columns are not supported, wanted 1 to " + std::to_string(kMostColumns));
  return n.reshape(n.input(0),
                   {element_count(Shape(shape.begin(), shape.end() - 2)), count, count});
}

}  // namespace

void determinant(NodeReader& n, const OnnxOp&) {
  const ValueId x = matrices_of(n);
  const Shape batch(n.shape(0).begin(), n.shape(0).end() - 2);
  Elimination done = eliminate(n, x);
  const ValueId sign = sign_of(n, done.places, n.dtype(0));
  const ValueId pivots = n.emit("concat", std::move(done.pivots), {{"axis", int64_t{1}}});
  const ValueId product = n.emit("reduce_prod", {pivots}, {{"axes", Ints{1, 2}}});
  n.set_output(0, n.reshape(n.emit("mul", {product, sign}), batch));
}

// The rows [A | I] become [P | P A^-1], P the order that pivots are found in: each step divides the
// row of the column's largest element, among rows without a pivot, and clears the column elsewhere.
void inverse(NodeReader& n, const OnnxOp&) {
  const ValueId matrices = matrices_of(n);
  const Shape shape = n.type(matrices).shape;
  const DType dtype = n.dtype(0) == DType::f64 ? DType::f64 : DType::f32;
  const ValueId eye =
      n.emit("eye", {}, {{"n", shape[1]}, {"m", shape[1]}, {"dtype", std::string(name_of(dtype))}});
  ValueId x =
      n.emit("concat", {n.cast(matrices, dtype), n.emit("expand", {eye}, {{"shape", Ints(shape)}})},
             {{"axis", int64_t{2}}});
  const Ints whole_rows = {shape[0], int64_t{1}, 2 * shape[1]};
  const ValueId rows = n.reshape(
      n.emit("ramp", {n.scalar(DType::i64, 0), n.scalar(DType::i64, 1)}, {{"count", shape[1]}}),
      {1, shape[1], 1});
  std::optional<ValueId> has_pivot;
  Inputs places;
  for (int64_t k = 0; k < shape[1]; ++k) {
    const ValueId column = column_of(n, x, 2, k);
    ValueId size = n.emit("abs", {column});
    if (has_pivot) size = n.emit("where", {*has_pivot, n.scalar(dtype, -1), size});
    const ValueId place =
        n.emit("argmax", {size},
               {{"axis", int64_t{1}}, {"keep_dims", true}, {"index_dtype", std::string("i64")}});
    places.emplace_back(place);
    const ValueId is_place = n.emit("eq", {rows, place});
    has_pivot = has_pivot ? n.emit("logical_or", {*has_pivot, is_place}) : is_place;
    const ValueId found =
        n.emit("gather_elements", {x, n.emit("expand", {place}, {{"shape", whole_rows}})},
               {{"axis", int64_t{1}}});
    const ValueId row = n.emit("div", {found, column_of(n, found, 2, k)});
    const ValueId cleared = n.emit("sub", {x, n.emit("mul", {column, row})});
    x = n.emit("where", {is_place, row, cleared});
  }
  const ValueId right =
      n.emit("narrow", {x}, {{"axis", int64_t{2}}, {"start", shape[1]}, {"len", shape[1]}});
  const ValueId order =
      n.emit("expand", {n.emit("concat", std::move(places), {{"axis", int64_t{1}}})},
             {{"shape", Ints(shape)}});
  const ValueId y = n.emit("gather_elements", {right, order}, {{"axis", int64_t{1}}});
  n.set_output(0, n.reshape(n.cast(y, n.dtype(0)), n.shape(0)));
}

}  // namespace rlx::onnx_import
