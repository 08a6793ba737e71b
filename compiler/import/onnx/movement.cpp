// SPDX-License-Identifier: Apache-2.0
// Operators that move elements: joins, cuts, permutations, indexing.
#include <algorithm>
#include <array>
#include <numeric>

#include "compiler/import/onnx/op_table.h"
#include "compiler/import/onnx/padding.h"
#include "compiler/import/onnx/stand_ins.h"

namespace rlx::onnx_import {

void pad_by_inputs(NodeReader& n, const OnnxOp& row);
void trilu(NodeReader& n, const OnnxOp& row);

namespace {

void concat(NodeReader& n, const OnnxOp&) {
  Inputs parts;
  for (size_t i = 0; i < n.input_count(); ++i) parts.emplace_back(n.input(i));
  n.set_output(0, n.emit("concat", std::move(parts), {{"axis", n.required_integer("axis")}}));
}

// Sizes as an attribute, since opset 13 as an input, or equal parts.
void split(NodeReader& n, const OnnxOp&) {
  const size_t parts = n.output_count();
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  Attributes attributes = {{"axis", axis}};
  std::optional<Ints> sizes;
  if (n.opset() >= 13 && n.has_input(1)) sizes = n.known_ints(1, "the sizes of the parts");
  if (n.opset() < 13 && n.has("split")) sizes = n.integers("split", {});
  const int64_t count = n.integer("num_outputs", static_cast<int64_t>(parts));
  const int64_t size = n.shape(0)[static_cast<size_t>(axis)];
  if (sizes) {
    attributes.emplace("sizes", *sizes);
  } else {
    attributes.emplace("num", count);
    if (n.opset() < 18 && (count < 1 || size % count != 0))
      n.refuse_shapes("axis " + std::to_string(axis) + " of " + std::to_string(size) +
                      " elements does not split into " + std::to_string(count) + " equal parts");
  }
  const size_t all = sizes ? sizes->size() : static_cast<size_t>(std::max<int64_t>(count, 0));
  if (all < parts || all > 1u << 16)
    n.refuse_shapes("it has " + std::to_string(parts) + " outputs and " + std::to_string(all) +
                    " parts");
  const std::vector<ValueId> results = n.emit_all("split", {n.input(0)}, attributes, all);
  for (size_t i = 0; i < parts; ++i) n.set_output(i, results[i]);
}

// Bounds that depend on counts: of one axis, from a start that is known to an end that is not.
void counted_slice(NodeReader& n) {
  const Ints starts = n.known_ints(1, "the starts");
  const NodeReader::Sizes ends = n.sizes(2, "the ends");
  Ints axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (n.has_input(3)) axes = n.known_ints(3, "the axes");
  Ints steps(starts.size(), 1);
  if (n.has_input(4)) steps = n.known_ints(4, "the steps");
  if (axes.size() != starts.size() || ends.most.size() != starts.size() ||
      steps.size() != starts.size())
    n.refuse("its starts, ends, axes and steps differ in number");
  const ValueId y =
      n.emit("slice", {n.input(0)},
             {{"starts", starts}, {"ends", ends.most}, {"axes", axes}, {"steps", steps}});
  for (size_t i = 0; i < starts.size(); ++i) {
    if (!ends.counts[i]) continue;
    if (starts[i] < 0 || steps[i] != 1)
      n.refuse("the run decides where it ends, and it does not go forward one by one from a start");
    const auto axis = static_cast<size_t>(n.axis(axes[i], n.rank(0)));
    const Padding* padding = n.builder().padding(y);
    if (padding != nullptr && padding->axis != axis)
      n.refuse("the run decides how many rows of two axes count");
    ValueId count = *ends.counts[i];
    if (starts[i] > 0)
      count = n.emit("max", {n.emit("sub", {count, count_scalar(n.builder(), starts[i])}),
                             count_scalar(n.builder(), 0)});
    // A count is none below 0, and none above the most rows that there are.
    const int64_t rows = n.type(y).shape[axis];
    if (padding != nullptr) {
      count = smaller_count(n.builder(), count, padding->count);
    } else if (ends.most[i] > starts[i] + rows) {
      count = smaller_count(n.builder(), count, count_scalar(n.builder(), rows));
    }
    n.builder().set_padding(y, {.axis = axis, .count = count});
  }
  n.set_output(0, y);
}

// Rows along one axis from and to where the run says: as many as there are rows at most, or as many
// as its end lies behind its start. Those that count come first.
class RunSlice {
 public:
  explicit RunSlice(NodeReader& n) : n_(n) {
    axis_ = static_cast<size_t>(
        n.axis(n.has_input(3) ? n.known_int(3, "the axis") : int64_t{0}, n.rank(0)));
    if (n.has_input(4) && n.known_int(4, "the step") != 1)
      n.refuse("the run decides where it starts or ends, and it does not go forward one by one");
    length_ = n.shape(0)[axis_];
    const Padding* padding = n.builder().padding(n.input(0));
    if (padding != nullptr && padding->axis != axis_)
      n.refuse("the run decides how many rows of two axes count");
    rows_ = padding != nullptr ? padding->count : number(length_);
  }

  void build() {
    const ValueId start = place(n_.run_number(1, "the start"));
    const ValueId end = place(n_.run_number(2, "the end"));
    const std::optional<int64_t> distance = n_.builder().distance(n_.input(1), n_.input(2));
    const int64_t most = std::clamp<int64_t>(distance.value_or(length_), 0, length_);
    ValueId count = n_.emit("max", {n_.emit("sub", {end, start}), number(0)});
    count = n_.emit("min", {count, number(most)});
    n_.builder().set_count(count, most);
    const ValueId steps = n_.emit("ramp", {number(0), number(1)}, {{"count", most}});
    const ValueId places =
        n_.emit("min", {n_.emit("add", {steps, start}), number(std::max<int64_t>(length_ - 1, 0))});
    const ValueId y = n_.emit("gather", {bare_rows(n_.builder(), n_.input(0)), places},
                              {{"axis", static_cast<int64_t>(axis_)}});
    n_.builder().set_padding(y, {.axis = axis_, .count = count});
    n_.set_output(0, y);
  }

 private:
  ValueId number(int64_t value) { return count_scalar(n_.builder(), value); }

  // Counted from the end where negative, and inside the rows.
  ValueId place(ValueId at) {
    const ValueId is_behind = n_.emit("lt", {at, number(0)});
    const ValueId from_end = n_.emit("where", {is_behind, n_.emit("add", {at, rows_}), at});
    return n_.emit("min", {n_.emit("max", {from_end, number(0)}), rows_});
  }

  NodeReader& n_;
  size_t axis_ = 0;
  int64_t length_ = 0;
  ValueId rows_{};
};

// Bounds as attributes, since opset 10 as inputs.
void slice(NodeReader& n, const OnnxOp&) {
  Attributes attributes;
  if (n.opset() >= 10) {
    if (n.builder().counts(n.input(1)) != nullptr || n.builder().counts(n.input(2)) != nullptr)
      return counted_slice(n);
    const bool is_known =
        n.builder().known(n.input(1)) != nullptr && n.builder().known(n.input(2)) != nullptr;
    if (!is_known && element_count(n.shape(1)) == 1 && element_count(n.shape(2)) == 1)
      return RunSlice(n).build();
    attributes.emplace("starts", n.known_ints(1, "the starts"));
    attributes.emplace("ends", n.known_ints(2, "the ends"));
    if (n.has_input(3)) attributes.emplace("axes", n.known_ints(3, "the axes"));
    if (n.has_input(4)) attributes.emplace("steps", n.known_ints(4, "the steps"));
  } else {
    attributes.emplace("starts", n.required_integers("starts"));
    attributes.emplace("ends", n.required_integers("ends"));
    if (n.has("axes")) attributes.emplace("axes", n.integers("axes", {}));
  }
  n.set_output(0, n.emit("slice", {n.input(0)}, std::move(attributes)));
}

void transpose(NodeReader& n, const OnnxOp&) {
  Attributes attributes;
  if (n.has("perm")) attributes.emplace("perm", n.integers("perm", {}));
  n.set_output(0, n.emit("transpose", {n.input(0)}, std::move(attributes)));
}

void gather(NodeReader& n, const OnnxOp& row) {
  n.set_output(0, n.emit(row.target, {n.input(0), n.input(1)}, {{"axis", n.integer("axis", 0)}}));
}

void gather_nd(NodeReader& n, const OnnxOp&) {
  n.set_output(0, n.emit("gather_nd", {n.input(0), n.input(1)},
                         {{"batch_dims", n.integer("batch_dims", 0)}}));
}

// Into x whose rows count all. Updates that do not count go to a row behind x's own, which is cut
// off again.
ValueId scattered_into(NodeReader& n, std::string_view op, ValueId x, size_t axis,
                       const Attributes& attributes) {
  Builder& builder = n.builder();
  const Padding* padding = builder.padding(n.input(1));
  if (padding == nullptr) return n.emit(op, {x, n.input(1), n.input(2)}, attributes);
  const Padding* updates = builder.padding(n.input(2));
  if (updates != nullptr &&
      (updates->axis != padding->axis || !builder.is_same(updates->count, padding->count)))
    n.refuse("the run decides how many rows count, apart for its indices and updates");
  const int64_t rows = n.shape(0).at(axis);
  Ints pads(2 * n.shape(0).size(), 0);
  pads[n.shape(0).size() + axis] = 1;
  const ValueId longer = n.emit("pad", {x}, {{"pads", pads}});
  // Indices of several coordinates all name the last row; others of theirs stay inside.
  ValueId index = n.input(1);
  const bool is_place = op == "scatter_nd" && n.type(index).shape.back() > 1;
  if (is_place && padding->axis + 1 == n.type(index).shape.size())
    n.refuse("the run decides how many coordinates of a place count");
  if (is_place) {
    const int64_t width = n.type(index).shape.back();
    const auto last = static_cast<int64_t>(n.type(index).shape.size()) - 1;
    const auto part = [&](int64_t start, int64_t length) {
      return n.emit("narrow", {index}, {{"axis", last}, {"start", start}, {"len", length}});
    };
    index = n.emit("concat",
                   {filled_rows(builder, part(0, 1), static_cast<double>(rows)),
                    filled_rows(builder, part(1, width - 1), 0)},
                   {{"axis", last}});
  } else {
    index = filled_rows(builder, index, static_cast<double>(rows));
  }
  const ValueId y = n.emit(op, {longer, index, bare_rows(builder, n.input(2))}, attributes);
  return n.emit("narrow", {y},
                {{"axis", static_cast<int64_t>(axis)}, {"start", int64_t{0}}, {"len", rows}});
}

// Whether indices that are known count from the end of an axis of x.
bool names_from_end(NodeReader& n, std::string_view op, size_t scattered, size_t axis) {
  const Tensor* index = n.builder().known(n.input(1));
  if (index == nullptr) return false;
  // Places are lines of coordinates, one of each of x's first axes.
  const bool is_places = op == "scatter_nd";
  const size_t width = is_places ? static_cast<size_t>(index->type.shape.back().bound()) : 1;
  const size_t first = is_places ? axis : 0;
  if (is_places ? axis >= width : axis != scattered) return false;
  for (size_t i = first; i < index->integers.size(); i += width) {
    if (index->integers[i] < 0) return true;
  }
  return false;
}

// Rows of x that do not count are written to by none.
ValueId scattered(NodeReader& n, std::string_view op, size_t axis, const Attributes& attributes) {
  Builder& builder = n.builder();
  const Padding* padding = builder.padding(n.input(0));
  if (padding == nullptr) return scattered_into(n, op, n.input(0), axis, attributes);
  if (names_from_end(n, op, axis, padding->axis))
    n.refuse("it counts from the end of rows of which the run decides how many count");
  const Padding kept = *padding;
  const ValueId y = scattered_into(n, op, bare_rows(builder, n.input(0)), axis, attributes);
  const ValueId result = n.emit("identity", {y});
  builder.set_padding(result, kept);
  return result;
}

void scatter_elements(NodeReader& n, const OnnxOp&) {
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  n.set_output(0, scattered(n, "scatter_elements", static_cast<size_t>(axis),
                            {{"axis", axis}, {"reduction", n.text("reduction", "none")}}));
}

// Rows that are known to stand one behind the other are put in the place of those: what an
// assignment to a part of an axis is exported as. False where they are not.
bool put_rows(NodeReader& n) {
  Builder& builder = n.builder();
  const Tensor* index = builder.known(n.input(1));
  const Shape x = n.shape(0);
  const bool is_plain =
      index != nullptr && index->type.shape.size() == 2 && index->type.shape[1] == 1 &&
      index->count() > 0 && !x.empty() && n.text("reduction", "none") == "none" &&
      builder.padding(n.input(0)) == nullptr && builder.padding(n.input(2)) == nullptr;
  if (!is_plain) return false;
  const int64_t first = index->integers.front();
  const int64_t count = index->count();
  for (int64_t i = 0; i < count; ++i) {
    if (index->integers[static_cast<size_t>(i)] != first + i) return false;
  }
  const int64_t rows = x[0];
  if (first < 0 || first + count > rows) return false;
  Shape wanted = x;
  wanted[0] = count;
  if (n.shape(2) != wanted || n.dtype(2) != n.dtype(0)) return false;
  const auto part = [&](int64_t start, int64_t length) {
    return n.emit("narrow", {n.input(0)},
                  {{"axis", int64_t{0}}, {"start", start}, {"len", length}});
  };
  Inputs parts;
  if (first > 0) parts.emplace_back(part(0, first));
  parts.emplace_back(n.input(2));
  if (first + count < rows) parts.emplace_back(part(first + count, rows - first - count));
  n.set_output(0, parts.size() == 1 ? n.emit("identity", {n.input(2)})
                                    : n.emit("concat", parts, {{"axis", int64_t{0}}}));
  return true;
}

void scatter_nd(NodeReader& n, const OnnxOp&) {
  if (put_rows(n)) return;
  n.set_output(0, scattered(n, "scatter_nd", 0, {{"reduction", n.text("reduction", "none")}}));
}

void tile(NodeReader& n, const OnnxOp&) {
  if (n.opset() < 6) n.refuse("tiles along one axis, as in opset 1, are not supported");
  n.set_output(0, n.emit("tile", {n.input(0)}, {{"repeats", n.known_ints(1, "the repeats")}}));
}

// Rows behind those that count up to a number that is known: the pads are that number less the
// count. False where they are something else.
bool padded_to_size(NodeReader& n) {
  const CountRange* pads = n.builder().counts(n.input(1));
  const Padding* found = n.builder().padding(n.input(0));
  if (pads == nullptr || found == nullptr || n.has_input(3) || pads->all.is_float()) return false;
  const Padding padding = *found;
  const auto& none = pads->none.integers;
  const auto& all = pads->all.integers;
  const size_t rank = n.shape(0).size();
  const int64_t rows = n.shape(0)[padding.axis];
  if (none.size() != 2 * rank) return false;
  for (size_t i = 0; i < none.size(); ++i) {
    const bool is_counted = i == rank + padding.axis;
    if (!is_counted && (none[i] != 0 || all[i] != 0)) return false;
    if (is_counted && none[i] - all[i] != rows) return false;
  }
  const int64_t size = none[rank + padding.axis];
  const double value = n.has_input(2) ? n.known_real(2, "the value") : 0;
  ValueId x = filled_rows(n.builder(), n.input(0), value);
  const auto axis = static_cast<int64_t>(padding.axis);
  if (size <= rows) {
    x = n.emit("narrow", {x}, {{"axis", axis}, {"start", int64_t{0}}, {"len", size}});
  } else {
    Ints more(2 * rank, 0);
    more[rank + padding.axis] = size - rows;
    x = n.emit("pad", {x}, {{"pads", more}, {"value", value}});
  }
  n.set_output(0, x);
  return true;
}

// With a value that the run gives: it stands where ones padded with zeros are zeros.
void padded_with_given(NodeReader& n, Attributes attributes) {
  if (element_count(n.shape(2)) != 1)
    n.refuse_shapes("the value is " + to_string(n.type(n.input(2))) + ", wanted one element");
  const ValueId ones = n.emit("fill", {},
                              {{"shape", Ints(n.shape(0).begin(), n.shape(0).end())},
                               {"value", 1.0},
                               {"dtype", std::string("bool")}});
  const ValueId is_inside = n.emit("pad", {ones}, attributes);
  const ValueId padded = n.emit("pad", {n.input(0)}, std::move(attributes));
  n.set_output(0, n.emit("where", {is_inside, padded, n.reshape(n.input(2), {})}));
}

// Pads as attributes, since opset 11 as inputs.
void pad(NodeReader& n, const OnnxOp& row) {
  if (n.opset() >= 11) return pad_by_inputs(n, row);
  n.set_output(0, n.emit("pad", {n.input(0)},
                         {{"mode", n.text("mode", "constant")},
                          {"pads", n.required_integers("pads")},
                          {"value", n.real("value", 0)}}));
}

void depth_to_space(NodeReader& n, const OnnxOp&) {
  const std::string mode = n.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") n.refuse("the mode \"" + mode + "\" is unknown");
  n.set_output(0, n.emit("depth_to_space", {n.input(0)},
                         {{"block", n.required_integer("blocksize")},
                          {"mode", std::string(mode == "DCR" ? "dcr" : "crd")}}));
}

// Opset 28 may order the channels before the places in a block, which is depth_to_space CRD undone.
void space_to_depth(NodeReader& n, const OnnxOp&) {
  const std::string mode = n.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") n.refuse("the mode \"" + mode + "\" is unknown");
  const int64_t block = n.required_integer("blocksize");
  if (mode == "DCR") {
    n.set_output(0, n.emit("space_to_depth", {n.input(0)}, {{"block", block}}));
    return;
  }
  const Shape x = n.shape(0);
  if (x.size() != 4 || block < 1 || x[2] % block != 0 || x[3] % block != 0)
    n.refuse_shapes("x " + to_string(x) + " has no whole blocks of " + std::to_string(block));
  const ValueId blocks =
      n.reshape(n.input(0), {x[0], x[1], x[2] / block, block, x[3] / block, block});
  n.set_output(0, n.reshape(n.transpose(blocks, {0, 1, 3, 5, 2, 4}),
                            {x[0], x[1] * block * block, x[2] / block, x[3] / block}));
}

void reverse_sequence(NodeReader& n, const OnnxOp&) {
  n.set_output(0, n.emit("reverse_sequence", {n.input(0), n.input(1)},
                         {{"batch_axis", n.integer("batch_axis", 1)},
                          {"time_axis", n.integer("time_axis", 0)}}));
}

// Values that are known become attributes; others are chosen element by element.
void one_hot(NodeReader& n, const OnnxOp&) {
  const double written = n.known_real(1, "the depth");
  if (!(written >= 0 && written <= 0x1p40)) n.refuse("the depth is " + std::to_string(written));
  const auto depth = static_cast<int64_t>(written);
  const TensorType& values = n.type(n.input(2));
  if (values.shape != Shape{2}) n.refuse("the values have the shape " + to_string(values.shape));
  const DType dtype = values.dtype;
  Attributes attributes = {{"depth", depth}, {"axis", n.integer("axis", -1)}};
  const Tensor* known = n.builder().known(n.input(2));
  const bool stands_in = n.builder().stand_in(n.input(2)) != nullptr;
  if (known != nullptr && known->is_float() && !stands_in) {
    attributes.emplace("dtype", std::string(name_of(dtype)));
    attributes.emplace("off", known->floats[0]);
    attributes.emplace("on", known->floats[1]);
    n.set_output(0, n.emit("one_hot", {n.input(0)}, std::move(attributes)));
    return;
  }
  attributes.emplace("dtype", std::string("bool"));
  const ValueId mask = n.emit("one_hot", {n.input(0)}, std::move(attributes));
  const auto value_at = [&](int64_t i) {
    return n.emit("narrow", {n.input(2)},
                  {{"axis", int64_t{0}}, {"start", i}, {"len", int64_t{1}}});
  };
  n.set_output(0, n.emit("where", {mask, value_at(1), value_at(0)}));
}

// Each axis to its size: cut or filled on both sides, the smaller part before.
void center_crop_pad(NodeReader& n, const OnnxOp&) {
  const Ints sizes = n.known_ints(1, "the sizes");
  Ints axes(static_cast<size_t>(n.rank(0)));
  std::iota(axes.begin(), axes.end(), 0);
  axes = n.integers("axes", axes);
  if (axes.size() != sizes.size())
    n.refuse(std::to_string(axes.size()) + " axes have " + std::to_string(sizes.size()) + " sizes");
  Ints before;
  Ints behind;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = n.axis(axes[i], n.rank(0));
    if (sizes[i] < 0 || sizes[i] > int64_t{1} << 40) n.refuse("a size is " + to_string(sizes[i]));
    const int64_t more = sizes[i] - n.shape(0)[static_cast<size_t>(axis)];
    // Half of what is missing, or of what is too much, rounded down.
    const int64_t first = more >= 0 ? more / 2 : -(-more / 2);
    before.push_back(first);
    behind.push_back(more - first);
  }
  before.insert(before.end(), behind.begin(), behind.end());
  n.set_output(0, n.emit("pad", {n.input(0)}, {{"pads", before}, {"axes", axes}}));
}

constexpr std::array kMovementRows = {
    OnnxOp{"Concat", concat},
    OnnxOp{"Split", split},
    OnnxOp{"Slice", slice},
    OnnxOp{"Transpose", transpose},
    OnnxOp{"Gather", gather, "gather"},
    OnnxOp{"GatherElements", gather, "gather_elements"},
    OnnxOp{"GatherND", gather_nd},
    OnnxOp{"Scatter", scatter_elements},
    OnnxOp{"ScatterElements", scatter_elements},
    OnnxOp{"ScatterND", scatter_nd},
    OnnxOp{"Tile", tile},
    OnnxOp{"Pad", pad},
    OnnxOp{"DepthToSpace", depth_to_space},
    OnnxOp{"SpaceToDepth", space_to_depth},
    OnnxOp{"ReverseSequence", reverse_sequence},
    OnnxOp{"Trilu", trilu},
    OnnxOp{"OneHot", one_hot},
    OnnxOp{"CenterCropPad", center_crop_pad},
};

}  // namespace

// A value that is known becomes an attribute.
void pad_by_inputs(NodeReader& n, const OnnxOp&) {
  const std::string mode = n.text("mode", "constant");
  if (mode == "constant" && padded_to_size(n)) return;
  Attributes attributes = {{"mode", mode}, {"pads", n.known_ints(1, "the pads")}};
  if (n.has_input(3)) attributes.emplace("axes", n.known_ints(3, "the axes"));
  if (n.has_input(2) && n.builder().known(n.input(2)) == nullptr)
    return padded_with_given(n, std::move(attributes));
  if (n.has_input(2)) attributes.emplace("value", n.known_real(2, "the value"));
  n.set_output(0, n.emit("pad", {n.input(0)}, std::move(attributes)));
}

void trilu(NodeReader& n, const OnnxOp&) {
  const int64_t k = n.has_input(1) ? n.known_int(1, "the diagonal k") : 0;
  n.set_output(0, n.emit("trilu", {n.input(0)}, {{"upper", n.integer("upper", 1) != 0}, {"k", k}}));
}

std::span<const OnnxOp> movement_rows() {
  return kMovementRows;
}

}  // namespace rlx::onnx_import
