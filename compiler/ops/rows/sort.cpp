// SPDX-License-Identifier: Apache-2.0
// topk, sort and argsort over any axis (ops.md 7.5): interface, shape rules and reference
// evaluation; the lowering is in sort_lower.cpp.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/index_output.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/prepare.h"
#include "compiler/ops/rows/sort_lower.h"

namespace rlx {

namespace {

std::optional<int64_t> ordered_axis(InferContext& ctx) {
  const DType dtype = ctx.dtype(0);
  if (!is_float(dtype) && !is_integer(dtype) && dtype != DType::bool_) {
    ctx.fail(DiagCode::BadDtype, "x is " + std::string(name_of(dtype)) +
                                     ", wanted a float type, an integer type or bool");
    return std::nullopt;
  }
  if (!check_index_dtype(ctx)) return std::nullopt;
  return ctx.axis(ctx.attrs().integer("axis"), ctx.shape(0).size());
}

// k as an input, where the attribute is the most that it may be.
bool check_k_input(InferContext& ctx) {
  if (ctx.has_input(1) && (!is_integer(ctx.dtype(1)) || element_count(ctx.shape(1)) != 1)) {
    return ctx.fail(DiagCode::BadDtype,
                    "k is " + to_string(ctx.input(1)) + ", wanted an integer of rank 0");
  }
  if (ctx.attrs().has("k")) return true;
  return ctx.has_input(1)
             ? ctx.fail(DiagCode::BadAttribute, "k is known only at run time",
                        "give the most that it may be as the attribute k: the results have that "
                        "many places, and those from the input's k on hold 0 and the index -1")
             : ctx.fail(DiagCode::MissingAttribute, "k is given neither as attribute nor as input");
}

bool infer_topk(InferContext& ctx) {
  const std::optional<int64_t> axis = ordered_axis(ctx);
  if (!axis || !check_k_input(ctx)) return false;
  Shape shape = ctx.shape(0);
  Dim& length = shape[static_cast<size_t>(*axis)];
  const Dim k = ctx.attrs().integers("k").at(0);
  if ((length - k).range().least < 0) {
    return ctx.fail(DiagCode::BadShape,
                    "k is " + to_string(k) + ", wanted at most " + to_string(length) +
                        ", the length of axis " + std::to_string(*axis) +
                        (length.is_free() || k.is_free() ? ", at every size" : ""));
  }
  length = k;
  ctx.set_output(0, {ctx.dtype(0), shape});
  ctx.set_output(1, {ctx.attrs().dtype("index_dtype"), shape});
  return true;
}

bool infer_sort(InferContext& ctx) {
  if (!ordered_axis(ctx)) return false;
  const TensorType indices = {ctx.attrs().dtype("index_dtype"), ctx.shape(0)};
  const bool indices_alone = ctx.node().op == "argsort";
  ctx.set_output(0, indices_alone ? indices : ctx.input(0));
  if (!indices_alone) ctx.set_output(1, indices);
  return true;
}

// How a row is ordered.
struct RowOrder {
  bool descending = false;
  bool nan_least = false;  // as -inf; else NaN is the greatest
};

// a stands before b, of different values.
bool before(double a, double b, const RowOrder& order) {
  if (order.nan_least) {
    constexpr double kLeast = -std::numeric_limits<double>::infinity();
    a = std::isnan(a) ? kLeast : a;
    b = std::isnan(b) ? kLeast : b;
  }
  const bool less = std::isnan(b) ? !std::isnan(a) : a < b;
  const bool greater = std::isnan(a) ? !std::isnan(b) : a > b;
  return order.descending ? greater : less;
}
bool before(int64_t a, int64_t b, const RowOrder& order) {
  return order.descending ? a > b : a < b;
}

template <typename Element>
std::vector<int64_t> ordered_places(const std::vector<Element>& x, int64_t base,
                                    const std::vector<int64_t>& offsets, const RowOrder& order) {
  std::vector<int64_t> places(offsets.size());
  std::iota(places.begin(), places.end(), 0);
  const auto value = [&](int64_t place) {
    return x[static_cast<size_t>(base + offsets[static_cast<size_t>(place)])];
  };
  std::stable_sort(places.begin(), places.end(),
                   [&](int64_t a, int64_t b) { return before(value(a), value(b), order); });
  return places;
}

// Places of a row that hold a result.
size_t filled_places(const EvaluateContext& ctx, size_t places) {
  if (!ctx.has_input(1)) return places;
  const int64_t k = ctx.input(1).integers[0];
  return std::min(places, static_cast<size_t>(std::max<int64_t>(k, 0)));
}

bool evaluate_sort(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), x.type.shape.size());
  if (!axis) return false;
  const RowOrder order{.descending = sorts_descending(ctx),
                       .nan_least = ctx.attrs().flag("nan_least")};
  const bool has_values = ctx.node().op != "argsort";
  const size_t indices_output = has_values ? 1 : 0;
  const RowOffsets from = row_offsets(x.type.shape, {*axis});
  const RowOffsets to = row_offsets(ctx.output_type(0).shape, {*axis});
  for (size_t row = 0; row < from.kept.size(); ++row) {
    const int64_t base = from.kept[row];
    const std::vector<int64_t> places = x.is_float()
                                            ? ordered_places(x.floats, base, from.reduced, order)
                                            : ordered_places(x.integers, base, from.reduced, order);
    const size_t filled = filled_places(ctx, to.reduced.size());
    for (size_t i = filled; i < to.reduced.size() && ctx.output_count() > indices_output; ++i) {
      set_index(ctx.output(indices_output), static_cast<size_t>(to.kept[row] + to.reduced[i]), -1);
    }
    for (size_t i = 0; i < filled; ++i) {
      const auto source = static_cast<size_t>(base + from.reduced[static_cast<size_t>(places[i])]);
      const auto target = static_cast<size_t>(to.kept[row] + to.reduced[i]);
      if (has_values && x.is_float()) ctx.output(0).floats[target] = x.floats[source];
      if (has_values && !x.is_float()) ctx.output(0).integers[target] = x.integers[source];
      if (ctx.output_count() > indices_output) {
        set_index(ctx.output(indices_output), target, places[i]);
      }
    }
  }
  return true;
}

// A value in every place of a row.
ValueId constant_of(RewriteContext& ctx, const char* stem, DType dtype, int64_t value) {
  Tensor one = Tensor::zeros({dtype, {}});
  if (one.is_float()) one.floats[0] = static_cast<double>(value);
  if (!one.is_float()) one.integers[0] = dtype == DType::u32 ? value & 0xFFFFFFFF : value;
  return ctx.constant(stem, one);
}

// The first k, as many as a run says, of all in order.
void sort_and_cut(RewriteContext& ctx, const Dim& k) {
  Attributes attributes;
  for (const char* name : {"axis", "nan_least", "index_dtype"}) {
    const auto given = ctx.node().attributes.find(name);
    if (given != ctx.node().attributes.end()) attributes.insert(*given);
  }
  attributes["descending"] = ctx.attrs().flag("largest");
  const std::vector<ValueId> sorted =
      ctx.emit_all("sort", {ctx.input(0)}, std::move(attributes), ctx.node().outputs.size());
  for (size_t i = 0; i < sorted.size(); ++i) {
    const ValueId first = ctx.emit(
        "slice", {sorted[i]},
        {{"axes", Ints{ctx.attrs().integer("axis")}}, {"starts", Ints{0}}, {"ends", Ints{k}}});
    ctx.replace_output(i, first);
  }
}

// topk of the most that k may be, and what lies beyond k replaced. Without the input there is a
// kernel, where k is a number.
bool decompose_topk(RewriteContext& ctx) {
  if (ctx.input_count() < 2 || !ctx.has_input(1)) {
    const Dim k = ctx.attrs().integers("k").at(0);
    if (k.is_free()) sort_and_cut(ctx, k);
    return true;
  }
  const TensorType type = ctx.type(ctx.node().outputs[0]);
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), type.shape.size());
  if (!axis) return false;
  const int64_t most = type.shape[static_cast<size_t>(*axis)];
  Shape along(type.shape.size(), 1);
  along[static_cast<size_t>(*axis)] = most;
  const ValueId places = ctx.emit(
      "ramp", {constant_of(ctx, "first", DType::i64, 0), constant_of(ctx, "step", DType::i64, 1)},
      {{"count", most}});
  const ValueId row = ctx.emit("reshape", {places}, {{"shape", along}});
  const ValueId wide = ctx.emit("cast", {ctx.input(1)}, {{"to", std::string("i64")}});
  const ValueId k = ctx.emit("reshape", {wide}, {{"shape", Ints{}}});
  const ValueId filled = ctx.emit("lt", {row, k});
  Attributes attributes = ctx.node().attributes;
  const size_t outputs = ctx.node().outputs.size();
  const std::vector<ValueId> found =
      ctx.emit_all("topk", {ctx.input(0)}, std::move(attributes), outputs);
  for (size_t i = 0; i < outputs; ++i) {
    const DType dtype = ctx.type(found[i]).dtype;
    const ValueId rest = constant_of(ctx, i == 0 ? "no_value" : "no_index", dtype, i == 0 ? 0 : -1);
    ctx.replace_output(i, ctx.emit("where", {filled, found[i], rest}));
  }
  return true;
}

constexpr AttrSpec kAxis = {.name = "axis", .type = AttrType::Int, .default_text = "-1"};
constexpr AttrSpec kIndexDType = {.name = "index_dtype",
                                  .type = AttrType::DTypeName,
                                  .default_text = "\"i32\"",
                                  .consumed_by_infer = true};
// NaN counts as -inf, where it stands; its bits stay.
constexpr AttrSpec kNanLeast = {
    .name = "nan_least", .type = AttrType::Bool, .default_text = "false"};
// `sorted` and `stable` give leave to do less than is always done.
constexpr AttrSpec kTopkAttrs[] = {
    {.name = "k", .type = AttrType::Int, .minimum = 0, .consumed_by_infer = true},
    kAxis,
    {.name = "largest", .type = AttrType::Bool, .default_text = "true"},
    {.name = "sorted", .type = AttrType::Bool, .default_text = "true", .consumed_by_infer = true},
    kNanLeast,
    kIndexDType,
};
constexpr uint32_t kTopkOptional[] = {1};
constexpr AttrSpec kSortAttrs[] = {
    kAxis,
    {.name = "descending", .type = AttrType::Bool, .default_text = "false"},
    {.name = "stable", .type = AttrType::Bool, .default_text = "true", .consumed_by_infer = true},
    kNanLeast,
    kIndexDType,
};

// To the elements that were taken.
bool sort_gradient(GradientContext& ctx) {
  ValueId indices{};
  if (ctx.node().outputs.size() > 1) {
    indices = ctx.output(1);
  } else {
    indices = ctx.emit_all(ctx.node().op, ctx.node().inputs, ctx.attributes(), 2)[1];
  }
  if (is_float(ctx.dtype(indices))) indices = ctx.cast(indices, DType::i64);
  const ValueId zeros = ctx.filled(ctx.type(ctx.input(0)), 0);
  ctx.give(0, ctx.emit("scatter_elements", {zeros, indices, ctx.gradient()},
                       {{"axis", ctx.attrs().integer("axis")}, {"reduction", std::string("add")}}));
  return true;
}

constexpr OpDef kSortOps[] = {
    {.name = "topk",
     .signature = "topk(x, [k]; k, axis=-1, largest=true, sorted=true, nan_least=false, "
                  "index_dtype=i32) -> values, [indices]",
     .inputs = {1, 2},
     .outputs = {1, 2},
     .attrs = kTopkAttrs,
     .infer = infer_topk,
     .evaluate = evaluate_sort,
     .decompose = decompose_topk,
     .gradient = sort_gradient,
     .lower = lower_sort,
     .optional_inputs = kTopkOptional},
    {.name = "sort",
     .signature =
         "sort(x; axis=-1, descending=false, stable=true, nan_least=false, index_dtype=i32) "
         "-> values, [indices]",
     .inputs = {1, 1},
     .outputs = {1, 2},
     .attrs = kSortAttrs,
     .infer = infer_sort,
     .evaluate = evaluate_sort,
     .gradient = sort_gradient,
     .lower = lower_sort},
    {.name = "argsort",
     .signature = "argsort(x; axis=-1, descending=false, stable=true, nan_least=false, "
                  "index_dtype=i32) -> indices",
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attrs = kSortAttrs,
     .infer = infer_sort,
     .evaluate = evaluate_sort,
     .lower = lower_sort},
};

}  // namespace

void prepare_topk(const Module& module, Graph& graph, NodeId id, KnownValues& values) {
  const Node& node = graph.node(id);
  if (node.inputs.size() != 2 || !node.inputs[1]) return;
  const Tensor* known = values.find(module, graph, *node.inputs[1]);
  if (known == nullptr || !is_integer(known->type.dtype) || known->count() != 1) return;
  int64_t k = known->integers[0];
  const auto most = node.attributes.find("k");
  const bool has_most =
      most != node.attributes.end() && std::holds_alternative<int64_t>(most->second);
  if (has_most) k = std::min(k, std::get<int64_t>(most->second));
  graph.change_node(id, [k](Node& topk) {
    topk.attributes["k"] = k;
    topk.inputs.resize(1);
  });
}

bool sorts_descending(const NodeContext& ctx) {
  return ctx.attrs().flag(ctx.node().op == "topk" ? "largest" : "descending");
}

std::span<const OpDef> sort_ops() {
  return kSortOps;
}

}  // namespace rlx
