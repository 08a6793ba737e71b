// SPDX-License-Identifier: Apache-2.0
// if, while, loop, scan, call (ops.md 15). Their meaning is written twice: in the evaluator of
// compiler/reference, which runs bodies, and in passes/inline_bodies, which makes data flow of
// them.
#include <algorithm>

#include "compiler/ops/control/control_forms.h"
#include "compiler/ops/prepare.h"

namespace rlx {
namespace {

constexpr uint32_t kLoopOptional[] = {kLoopTrips, kLoopCondition};
constexpr double kMostTrips = kLargestInt;

bool is_condition(const TensorType& type) {
  const DTypeKind kind = kind_of(type.dtype);
  return element_count(type.shape) == 1 && kind != DTypeKind::Complex && kind != DTypeKind::Storage;
}

bool check_condition(InferContext& ctx, const TensorType& type, const std::string& what) {
  if (is_condition(type)) return true;
  return ctx.fail(DiagCode::BadShape, what + " is " + to_string(type) + ", wanted one element");
}

std::vector<TensorType> output_types(const Graph& body) {
  std::vector<TensorType> types;
  for (const ValueId id : body.outputs()) types.push_back(body.value(id).type);
  return types;
}

bool check_output_count(InferContext& ctx, size_t wanted) {
  const size_t given = ctx.node().outputs.size();
  if (given == wanted) return true;
  return ctx.fail(DiagCode::BadArity, "got " + std::to_string(given) + " outputs, wanted " +
                                          std::to_string(wanted) + ", as many as its body gives");
}

// A body gives back what it carries in the type that it was given.
bool check_carry(InferContext& ctx, const std::string& what, const TensorType& given,
                 const TensorType& wanted) {
  if (given == wanted) return true;
  return ctx.fail(
      DiagCode::BadShape,
      what + " is " + to_string(given) + " after the body, " + to_string(wanted) + " before it",
      "what is carried keeps its type over all trips");
}

// Whether a body writes states, perhaps in bodies inside it.
bool has_effect(const Graph& body) {
  return std::ranges::any_of(body.order(), [&body](NodeId id) {
    const Node& node = body.node(id);
    return find_op(node.op)->has_effect ||
           std::ranges::any_of(node.bodies, [](const auto& inner) { return has_effect(*inner); });
  });
}

// ---- if(pred, inputs...; then, else) ----

bool if_inputs(InferContext& ctx, size_t, std::vector<TensorType>& types) {
  for (size_t i = 1; i < ctx.own_input_count(); ++i) types.push_back(ctx.input(i));
  return true;
}

bool infer_if(InferContext& ctx) {
  if (!check_condition(ctx, ctx.input(0), "the predicate")) return false;
  const std::vector<TensorType> taken = output_types(ctx.body(kThen));
  const std::vector<TensorType> other = output_types(ctx.body(kElse));
  if (taken.size() != other.size()) {
    return ctx.fail(DiagCode::BadArity, "\"then\" gives " + std::to_string(taken.size()) +
                                            " outputs, \"else\" " + std::to_string(other.size()) +
                                            ", wanted equal numbers");
  }
  if (!check_output_count(ctx, taken.size())) return false;
  for (size_t i = 0; i < taken.size(); ++i) {
    if (taken[i] != other[i]) {
      return ctx.fail(DiagCode::BadShape,
                      "output " + std::to_string(i) + " is " + to_string(taken[i]) +
                          " in \"then\", " + to_string(other[i]) +
                          " in \"else\", wanted equal "
                          "types",
                      "both branches give outputs of one shape and dtype");
    }
    ctx.set_output(i, taken[i]);
  }
  return true;
}

// ---- while(init..., inputs...; cond, body, max_iterations) ----

constexpr AttrSpec kWhileAttrs[] = {{.name = "max_iterations",
                                     .type = AttrType::Int,
                                     .required = true,
                                     .minimum = 0,
                                     .maximum = kMostTrips}};

bool while_inputs(InferContext& ctx, size_t, std::vector<TensorType>& types) {
  for (size_t i = 0; i < ctx.own_input_count(); ++i) types.push_back(ctx.input(i));
  return true;
}

bool infer_while(InferContext& ctx) {
  const size_t carries = ctx.node().outputs.size();
  if (carries > ctx.own_input_count()) {
    return ctx.fail(DiagCode::BadArity, "got " + std::to_string(carries) +
                                            " outputs, wanted at most as many as it has inputs, " +
                                            std::to_string(ctx.own_input_count()));
  }
  const std::vector<TensorType> condition = output_types(ctx.body(kWhileCondition));
  if (condition.size() != 1) {
    return ctx.fail(DiagCode::BadArity,
                    "\"cond\" gives " + std::to_string(condition.size()) + " outputs, wanted 1");
  }
  if (!check_condition(ctx, condition[0], "the output of \"cond\"")) return false;
  if (has_effect(ctx.body(kWhileCondition)))
    return ctx.fail(DiagCode::BadField, "\"cond\" writes a state", "let \"body\" write it");
  const std::vector<TensorType> given = output_types(ctx.body(kWhileBody));
  if (!check_output_count(ctx, given.size())) return false;
  for (size_t i = 0; i < carries; ++i) {
    if (!check_carry(ctx, "carry " + std::to_string(i), given[i], ctx.input(i))) return false;
    ctx.set_output(i, given[i]);
  }
  return true;
}

// ---- loop([trip_count], [cond], init...; body, max_iterations) ----

constexpr AttrSpec kLoopAttrs[] = {
    {.name = "max_iterations", .type = AttrType::Int, .minimum = 0, .maximum = kMostTrips}};

bool loop_inputs(InferContext& ctx, size_t, std::vector<TensorType>& types) {
  types.push_back({DType::i64, {}});
  types.push_back({DType::bool_, {}});
  for (size_t i = kLoopFirstCarry; i < ctx.own_input_count(); ++i) types.push_back(ctx.input(i));
  return true;
}

bool check_loop_bounds(InferContext& ctx) {
  if (ctx.has_input(kLoopTrips)) {
    const TensorType& trips = ctx.input(kLoopTrips);
    const bool is_count = trips.dtype == DType::i64 || trips.dtype == DType::i32;
    if (!is_count || element_count(trips.shape) != 1)
      return ctx.fail(DiagCode::BadDtype,
                      "trip_count is " + to_string(trips) + ", wanted one i64 or i32");
  }
  if (ctx.has_input(kLoopCondition) &&
      !check_condition(ctx, ctx.input(kLoopCondition), "the condition"))
    return false;
  if (ctx.attrs().has("max_iterations")) return true;
  return ctx.fail(DiagCode::BadAttribute,
                  "it has neither a trip count that is known nor \"max_iterations\"",
                  "give the most trips that it may take");
}

bool infer_loop(InferContext& ctx) {
  const std::vector<TensorType> given = output_types(ctx.body(0));
  const size_t carries = ctx.own_input_count() - kLoopFirstCarry;
  if (!check_loop_bounds(ctx)) return false;
  if (given.size() < carries + 1) {
    return ctx.fail(DiagCode::BadArity, "the body gives " + std::to_string(given.size()) +
                                            " outputs, wanted the condition and " +
                                            std::to_string(carries) + " carries at least");
  }
  if (!check_condition(ctx, given[0], "the body's condition")) return false;
  const bool has_count = ctx.node().outputs.size() == given.size();
  if (!has_count && !check_output_count(ctx, given.size() - 1)) return false;
  const int64_t rows = ctx.attrs().integer("max_iterations");
  for (size_t i = 1; i < given.size(); ++i) {
    const bool is_carry = i <= carries;
    if (is_carry && !check_carry(ctx, "carry " + std::to_string(i - 1), given[i],
                                 ctx.input(kLoopFirstCarry + i - 1)))
      return false;
    TensorType type = given[i];
    if (!is_carry) type.shape.insert(type.shape.begin(), rows);
    ctx.set_output(i - 1, type);
  }
  if (has_count) ctx.set_output(given.size() - 1, {DType::i64, {}});
  return true;
}

}  // namespace

bool prepare_loop(const Module& module, Graph& graph, NodeId id, KnownValues& known,
                  Diagnostics& diagnostics) {
  const Node node = graph.node(id);
  const std::optional<ValueId> input = input_at(node, kLoopTrips);
  const Tensor* trips = input ? known.find(module, graph, *input) : nullptr;
  if (trips == nullptr || trips->is_float() || trips->count() != 1) return true;
  const int64_t count = trips->integers.front();
  NodeContext ctx(*find_op(node.op), node, diagnostics);
  if (count < 0)
    return ctx.fail(DiagCode::BadAttribute,
                    "trip_count is " + std::to_string(count) + ", wanted 0 or more");
  // Exporters write the largest integer for a loop that its condition ends.
  if (static_cast<double>(count) > kMostTrips) return true;
  if (!ctx.attrs().has("max_iterations")) {
    graph.change_node(id, [&](Node& loop) { loop.attributes["max_iterations"] = count; });
    return true;
  }
  const int64_t bound = ctx.attrs().integer("max_iterations");
  if (count <= bound) return true;
  return ctx.fail(
      DiagCode::BadAttribute,
      "trip_count is " + std::to_string(count) + ", max_iterations " + std::to_string(bound),
      "let max_iterations be as many or more");
}

namespace {

// ---- scan(init..., bcast..., xs...; body, ...) ----

constexpr AttrSpec kScanAttrs[] = {
    {.name = "length", .type = AttrType::Int, .minimum = 0, .maximum = kMostTrips},
    {.name = "num_carry", .type = AttrType::Int, .default_text = "1", .minimum = 0},
    {.name = "num_bcast", .type = AttrType::Int, .default_text = "0", .minimum = 0},
    {.name = "num_xs", .type = AttrType::Int, .minimum = 0},
    {.name = "reverse", .type = AttrType::Bool, .default_text = "false"},
    {.name = "save_trajectory", .type = AttrType::Bool, .default_text = "false"},
    {.name = "num_checkpoints", .type = AttrType::Int, .default_text = "0", .minimum = 0},
    {.name = "x_axes", .type = AttrType::IntList},
    {.name = "y_axes", .type = AttrType::IntList}};

// Inputs that are cut into steps, and where they begin; nullopt after an error.
std::optional<size_t> sliced_inputs(InferContext& ctx) {
  const auto first = static_cast<size_t>(ctx.attrs().integer("num_carry")) +
                     static_cast<size_t>(ctx.attrs().integer("num_bcast"));
  const size_t inputs = ctx.own_input_count();
  const bool is_given = ctx.attrs().has("num_xs");
  const size_t wanted = first + (is_given ? static_cast<size_t>(ctx.attrs().integer("num_xs")) : 0);
  if (is_given ? inputs != wanted : inputs < wanted) {
    ctx.fail(DiagCode::BadArity, "got " + std::to_string(inputs) + " inputs, wanted " +
                                     std::to_string(wanted) + (is_given ? "" : " or more") +
                                     ": num_carry, num_bcast and num_xs say so");
    return std::nullopt;
  }
  return inputs - first;
}

// The axes of x or y, as many as wanted, each within its rank; nullopt after an error.
std::optional<Ints> scan_axes(InferContext& ctx, const char* name,
                              const std::vector<size_t>& ranks) {
  if (!ctx.attrs().has(name)) return Ints(ranks.size(), 0);
  Ints axes = ctx.attrs().integers(name);
  if (axes.size() != ranks.size()) {
    ctx.fail(DiagCode::BadAttribute, std::string(name) + " has " + std::to_string(axes.size()) +
                                         " axes, wanted " + std::to_string(ranks.size()));
    return std::nullopt;
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const std::optional<int64_t> axis = ctx.axis(axes[i], ranks[i]);
    if (!axis) return std::nullopt;
    axes[i] = *axis;
  }
  return axes;
}

// What is cut has the steps along its axis; the number of steps, or nullopt after an error.
std::optional<Dim> scan_length(InferContext& ctx, size_t sliced, const Ints& axes) {
  const size_t first = ctx.own_input_count() - sliced;
  std::optional<Dim> length;
  if (ctx.attrs().has("length")) length = Dim(ctx.attrs().integer("length"));
  for (size_t i = 0; i < sliced; ++i) {
    const Dim rows = ctx.shape(first + i)[static_cast<size_t>(static_cast<int64_t>(axes[i]))];
    if (!length) length = rows;
    if (rows == *length) continue;
    ctx.fail(DiagCode::BadShape, "input " + std::to_string(first + i) + " is " +
                                     to_string(ctx.input(first + i)) + ", which has " +
                                     to_string(rows) + " steps on axis " + to_string(axes[i]) +
                                     ", wanted " + to_string(*length));
    return std::nullopt;
  }
  if (!length)
    ctx.fail(DiagCode::BadAttribute, "its length is not known",
             "give \"length\", or an input that is cut into steps");
  return length;
}

bool scan_inputs(InferContext& ctx, size_t, std::vector<TensorType>& types) {
  const std::optional<size_t> sliced = sliced_inputs(ctx);
  if (!sliced) return false;
  const size_t first = ctx.own_input_count() - *sliced;
  std::vector<size_t> ranks;
  for (size_t i = 0; i < *sliced; ++i) ranks.push_back(ctx.shape(first + i).size());
  for (size_t i = 0; i < *sliced; ++i) {
    if (ranks[i] > 0) continue;
    return ctx.fail(DiagCode::BadShape,
                    "input " + std::to_string(first + i) + " is a scalar, which has no steps");
  }
  const std::optional<Ints> axes = scan_axes(ctx, "x_axes", ranks);
  if (!axes || !scan_length(ctx, *sliced, *axes)) return false;
  for (size_t i = 0; i < ctx.own_input_count(); ++i) {
    types.push_back(ctx.input(i));
    if (i < first) continue;
    Shape& shape = types.back().shape;
    shape.erase(shape.begin() + static_cast<ptrdiff_t>(static_cast<int64_t>((*axes)[i - first])));
  }
  return true;
}

bool infer_scan(InferContext& ctx) {
  std::vector<TensorType> inputs;
  if (!scan_inputs(ctx, 0, inputs)) return false;
  const std::vector<TensorType> given = output_types(ctx.body(0));
  const auto carries = static_cast<size_t>(ctx.attrs().integer("num_carry"));
  if (given.size() < carries) {
    return ctx.fail(DiagCode::BadArity, "the body gives " + std::to_string(given.size()) +
                                            " outputs, wanted the " + std::to_string(carries) +
                                            " carries at least");
  }
  const bool saves = ctx.attrs().flag("save_trajectory");
  if (!saves && ctx.attrs().integer("num_checkpoints") > 0)
    return ctx.fail(DiagCode::BadAttribute, "num_checkpoints is set and save_trajectory is not");
  if (!check_output_count(ctx, given.size() + (saves ? carries : 0))) return false;
  std::vector<size_t> ranks;
  for (size_t i = carries; i < given.size(); ++i) ranks.push_back(given[i].shape.size() + 1);
  const std::optional<Ints> axes = scan_axes(ctx, "y_axes", ranks);
  if (!axes) return false;
  const ScanForm form = scan_form(ctx.graph(), ctx.node());
  for (size_t i = 0; i < given.size(); ++i) {
    TensorType type = given[i];
    if (i < carries) {
      if (!check_carry(ctx, "carry " + std::to_string(i), type, ctx.input(i))) return false;
    } else {
      const int64_t axis = (*axes)[i - carries];
      type.shape.insert(type.shape.begin() + static_cast<ptrdiff_t>(axis), form.length);
    }
    ctx.set_output(i, type);
  }
  for (size_t i = 0; saves && i < carries; ++i) {
    TensorType type = given[i];
    type.shape.insert(type.shape.begin(), form.trajectory_rows());
    ctx.set_output(given.size() + i, type);
  }
  return true;
}

// ---- call(inputs...; body) ----

bool call_inputs(InferContext& ctx, size_t, std::vector<TensorType>& types) {
  for (size_t i = 0; i < ctx.own_input_count(); ++i) types.push_back(ctx.input(i));
  return true;
}

bool infer_call(InferContext& ctx) {
  const std::vector<TensorType> given = output_types(ctx.body(0));
  if (!check_output_count(ctx, given.size())) return false;
  for (size_t i = 0; i < given.size(); ++i) ctx.set_output(i, given[i]);
  return true;
}

constexpr std::string_view kIfBodies[] = {"then", "else"};
constexpr std::string_view kWhileBodies[] = {"cond", "body"};
constexpr std::string_view kOneBody[] = {"body"};

const OpDef kControl[] = {
    {.name = "if",
     .signature = "if(pred, in0, ...; bodies then, else) -> y0, ...",
     .inputs = {1, kUnlimited},
     .outputs = {0, kUnlimited},
     .attrs = {},
     .infer = infer_if,
     .bodies = kIfBodies,
     .body_inputs = if_inputs},
    {.name = "while",
     .signature = "while(init0, ..., in0, ...; bodies cond, body; max_iterations) -> final0, ...",
     .inputs = {0, kUnlimited},
     .outputs = {0, kUnlimited},
     .attrs = kWhileAttrs,
     .infer = infer_while,
     .bodies = kWhileBodies,
     .body_inputs = while_inputs},
    {.name = "loop",
     .signature = "loop([trip_count], [cond], init0, ...; body; max_iterations) -> final0, ..., "
                  "rows0, ..., [count]",
     .inputs = {2, kUnlimited},
     .outputs = {0, kUnlimited},
     .attrs = kLoopAttrs,
     .infer = infer_loop,
     .optional_inputs = kLoopOptional,
     .bodies = kOneBody,
     .body_inputs = loop_inputs},
    {.name = "scan",
     .signature =
         "scan(init0, ..., bcast0, ..., x0, ...; body; length, num_carry=1, num_bcast=0, "
         "num_xs, reverse=false, save_trajectory=false, num_checkpoints=0, x_axes, y_axes) "
         "-> final0, ..., y0, ..., [trajectory0, ...]",
     .inputs = {0, kUnlimited},
     .outputs = {0, kUnlimited},
     .attrs = kScanAttrs,
     .infer = infer_scan,
     .bodies = kOneBody,
     .body_inputs = scan_inputs},
    {.name = "call",
     .signature = "call(in0, ...; body) -> y0, ...",
     .inputs = {0, kUnlimited},
     .outputs = {0, kUnlimited},
     .attrs = {},
     .infer = infer_call,
     .bodies = kOneBody,
     .body_inputs = call_inputs},
};

}  // namespace

std::span<const OpDef> control_ops() {
  return kControl;
}

}  // namespace rlx
