// SPDX-License-Identifier: Apache-2.0
// lstm, gru and rnn (ops.md 10.1 to 10.3): for each layer a product of all steps at once with the
// input's weights, and the recurrence behind it.
#include <algorithm>

#include "compiler/ops/sequences/recurrence.h"

namespace rlx {
namespace {

// Positions of an operator's inputs behind x, w_ih and w_hh; 0: it has none such.
struct RecurrentInputs {
  size_t bias = 3;
  size_t recurrent_bias = 0;
  size_t h0 = 4;
  size_t c0 = 0;
  size_t lengths = 5;
  size_t peephole = 0;
};

RecurrentInputs recurrent_inputs(const NodeContext& ctx) {
  if (ctx.node().op == "lstm")
    return {.bias = 3, .recurrent_bias = 0, .h0 = 4, .c0 = 5, .lengths = 6, .peephole = 7};
  if (ctx.node().op == "gru")
    return {.bias = 3, .recurrent_bias = 4, .h0 = 5, .c0 = 0, .lengths = 6, .peephole = 0};
  return {};
}

bool has_optional(const NodeContext& ctx, size_t input) {
  return input != 0 && ctx.has_input(input);
}

CellKind recurrent_cell(const NodeContext& ctx) {
  if (ctx.node().op == "lstm") return CellKind::Lstm;
  if (ctx.node().op == "gru") {
    return ctx.attrs().flag("linear_before_reset") ? CellKind::Gru : CellKind::GruResetFirst;
  }
  return ctx.attrs().text("activation") == "relu" ? CellKind::Relu : CellKind::Tanh;
}

// Sizes of the packed weights: blocks of layer after layer, in each direction after direction.
struct RecurrentSizes {
  CellKind cell = CellKind::Lstm;
  SequenceForm form;
  int64_t gates = 1;
  int64_t layers = 1;
  int64_t inputs = 0;  // of x
  int64_t hidden = 1;

  [[nodiscard]] int64_t blocks() const { return layers * form.directions; }
  [[nodiscard]] int64_t rows() const { return gates * hidden; }  // of a block
  [[nodiscard]] int64_t inputs_of(int64_t layer) const {
    return layer == 0 ? inputs : form.directions * hidden;
  }
  // Elements of w_ih before a layer.
  [[nodiscard]] int64_t input_weights_before(int64_t layer) const {
    if (layer == 0) return 0;
    return form.directions * rows() * (inputs + (layer - 1) * form.directions * hidden);
  }
};

RecurrentSizes recurrent_sizes(const NodeContext& ctx, const Dim& inputs) {
  const CellKind cell = recurrent_cell(ctx);
  return {.cell = cell,
          .form = sequence_form(ctx.attrs()),
          .gates = gates_of(cell),
          .layers = ctx.attrs().integer("num_layers"),
          .inputs = static_cast<int64_t>(inputs),
          .hidden = ctx.attrs().integer("hidden_size")};
}

bool check_packed(InferContext& ctx, size_t input, std::string_view name, int64_t wanted,
                  const std::string& meaning) {
  if (!has_optional(ctx, input)) return true;
  const TensorType& type = ctx.input(input);
  if (type.dtype != ctx.dtype(0)) {
    return ctx.fail(DiagCode::BadDtype,
                    std::string(name) + " is " + std::string(name_of(type.dtype)) +
                        ", wanted the type of x, " + std::string(name_of(ctx.dtype(0))));
  }
  const Dim count = element_count(type.shape);
  if (count == wanted) return true;
  return ctx.fail(DiagCode::BadShape, std::string(name) + " " + to_string(type.shape) + " has " +
                                          to_string(count) + " elements, wanted " +
                                          std::to_string(wanted) + ": " + meaning);
}

bool check_packed_weights(InferContext& ctx, const RecurrentSizes& sizes) {
  const RecurrentInputs at = recurrent_inputs(ctx);
  const std::string rows = std::to_string(sizes.rows());
  const std::string blocks = std::to_string(sizes.blocks()) + " blocks of ";
  return check_packed(ctx, 1, "w_ih", sizes.input_weights_before(sizes.layers),
                      blocks + "[" + rows + ", inputs of the layer]") &&
         check_packed(ctx, 2, "w_hh", sizes.blocks() * sizes.rows() * sizes.hidden,
                      blocks + "[" + rows + ", " + std::to_string(sizes.hidden) + "]") &&
         check_packed(ctx, at.bias, "the bias", sizes.blocks() * sizes.rows(), blocks + rows) &&
         check_packed(ctx, at.recurrent_bias, "b_hh", sizes.blocks() * sizes.rows(),
                      blocks + rows) &&
         check_packed(ctx, at.peephole, "peephole", sizes.blocks() * 3 * sizes.hidden,
                      blocks + "3 * " + std::to_string(sizes.hidden));
}

// States are f32, or f64 as x is.
DType state_type(DType x) {
  return x == DType::f64 ? DType::f64 : DType::f32;
}

bool check_state(InferContext& ctx, size_t input, std::string_view name, const TensorType& wanted) {
  if (!has_optional(ctx, input) || ctx.input(input) == wanted) return true;
  return ctx.fail(DiagCode::BadShape, std::string(name) + " is " + to_string(ctx.input(input)) +
                                          ", wanted " + to_string(wanted));
}

bool infer_recurrent(InferContext& ctx) {
  const TensorType x = ctx.input(0);
  if (!is_float(x.dtype) || x.shape.size() != 3) {
    return ctx.fail(DiagCode::BadShape, "x is " + to_string(x) + ", wanted floats of rank 3");
  }
  if (x.shape[2].is_free()) {
    return ctx.fail(DiagCode::FreeSize,
                    "the number of inputs, the last dim of x, is a size of the run",
                    "give it a number: the weights are packed by it");
  }
  // The counts of packed elements are products of four of these.
  constexpr int64_t kMostSize = 1 << 15;
  const RecurrentSizes sizes = recurrent_sizes(ctx, x.shape[2]);
  if (std::max({sizes.inputs, sizes.hidden, sizes.layers}) > kMostSize) {
    return ctx.fail(DiagCode::BadAttribute, "inputs, hidden_size and num_layers are " +
                                                std::to_string(sizes.inputs) + ", " +
                                                std::to_string(sizes.hidden) + " and " +
                                                std::to_string(sizes.layers) + ", wanted at most " +
                                                std::to_string(kMostSize));
  }
  const Dim batch = x.shape[sizes.form.batch_axis()];
  const RecurrentInputs at = recurrent_inputs(ctx);
  const TensorType state{state_type(x.dtype), {sizes.blocks(), batch, sizes.hidden}};
  if (!check_packed_weights(ctx, sizes) || !check_state(ctx, at.h0, "h0", state) ||
      !check_state(ctx, at.c0, "c0", state) || !check_lengths(ctx, at.lengths, batch)) {
    return false;
  }
  Shape shape = x.shape;
  shape[2] = sizes.form.directions * sizes.hidden;
  ctx.set_output(0, {x.dtype, shape});
  ctx.set_output(1, state);
  if (sizes.cell == CellKind::Lstm) ctx.set_output(2, state);
  return true;
}

std::vector<double> slice_of(const std::vector<double>& values, int64_t start, int64_t count) {
  if (values.empty()) return {};
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(start);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

// [rows of x, directions * gates * hidden]: products with the layer's weights and the biases that
// stand outside the reset gate.
std::vector<double> input_products(const RecurrentSizes& sizes, int64_t layer,
                                   const std::vector<double>& x, const std::vector<double>& w_ih,
                                   const std::vector<double>& bias,
                                   const std::vector<double>& recurrent_bias) {
  const int64_t inputs = sizes.inputs_of(layer);
  const int64_t columns = sizes.form.directions * sizes.rows();
  const int64_t rows = inputs == 0 ? 0 : static_cast<int64_t>(x.size()) / inputs;
  const int64_t before = sizes.input_weights_before(layer);
  std::vector<double> products;
  products.reserve(static_cast<size_t>(rows * columns));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const auto of_bias = static_cast<size_t>(layer * columns + column);
      double sum = bias.empty() ? 0 : bias[of_bias];
      const bool is_inside =
          sizes.cell == CellKind::Gru && column % sizes.rows() >= 2 * sizes.hidden;
      if (!recurrent_bias.empty() && !is_inside) sum += recurrent_bias[of_bias];
      for (int64_t k = 0; k < inputs; ++k) {
        sum += x[static_cast<size_t>(row * inputs + k)] *
               w_ih[static_cast<size_t>(before + column * inputs + k)];
      }
      products.push_back(sum);
    }
  }
  return products;
}

// The biases of the n gates of a GRU, [directions, hidden] of a layer.
std::vector<double> inner_biases(const RecurrentSizes& sizes, int64_t layer,
                                 const std::vector<double>& recurrent_bias) {
  std::vector<double> inner;
  if (recurrent_bias.empty() || sizes.cell != CellKind::Gru) return inner;
  for (int64_t direction = 0; direction < sizes.form.directions; ++direction) {
    const int64_t block = layer * sizes.form.directions + direction;
    const std::vector<double> part =
        slice_of(recurrent_bias, block * sizes.rows() + 2 * sizes.hidden, sizes.hidden);
    inner.insert(inner.end(), part.begin(), part.end());
  }
  return inner;
}

bool evaluate_recurrent(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const RecurrentSizes sizes = recurrent_sizes(ctx, x.type.shape[2]);
  const RecurrentInputs at = recurrent_inputs(ctx);
  const auto floats = [&ctx](size_t input) {
    return has_optional(ctx, input) ? ctx.input(input).floats : std::vector<double>();
  };
  const auto batch = static_cast<int64_t>(x.type.shape[sizes.form.batch_axis()]);
  const auto steps = static_cast<int64_t>(x.type.shape[sizes.form.time_axis()]);
  const int64_t states = sizes.form.directions * batch * sizes.hidden;
  std::vector<double> from = x.floats;
  std::vector<double> last_h;
  std::vector<double> last_c;
  for (int64_t l = 0; l < sizes.layers; ++l) {
    LayerValues layer{
        .cell = sizes.cell,
        .form = sizes.form,
        .batch = batch,
        .steps = steps,
        .hidden = sizes.hidden,
        .x = input_products(sizes, l, from, ctx.input(1).floats, floats(at.bias),
                            floats(at.recurrent_bias)),
        .w = slice_of(ctx.input(2).floats, l * sizes.form.directions * sizes.rows() * sizes.hidden,
                      sizes.form.directions * sizes.rows() * sizes.hidden),
        .bias = inner_biases(sizes, l, floats(at.recurrent_bias)),
        .h = slice_of(floats(at.h0), l * states, states),
        .c = slice_of(floats(at.c0), l * states, states),
        .lengths = {},
        .peephole = slice_of(floats(at.peephole), l * sizes.form.directions * 3 * sizes.hidden,
                             sizes.form.directions * 3 * sizes.hidden),
        .y = {}};
    if (has_optional(ctx, at.lengths)) layer.lengths = lengths_of(ctx.input(at.lengths), steps);
    run_layer(layer);
    from = layer.y;
    // Between layers the sequence is a tensor of x's type.
    if (l + 1 < sizes.layers)
      for (double& value : from) value = round_to(x.type.dtype, value);
    last_h.insert(last_h.end(), layer.h.begin(), layer.h.end());
    last_c.insert(last_c.end(), layer.c.begin(), layer.c.end());
  }
  ctx.output(0).floats = from;
  if (ctx.output_count() > 1) ctx.output(1).floats = last_h;
  if (ctx.output_count() > 2) ctx.output(2).floats = last_c;
  return true;
}

// Builds the nodes of one recurrent node.
class RecurrentRewrite {
 public:
  explicit RecurrentRewrite(RewriteContext& ctx)
      : ctx_(ctx),
        at_(recurrent_inputs(ctx)),
        sizes_(recurrent_sizes(ctx, ctx.type(ctx.input(0)).shape[2])),
        dtype_(ctx.type(ctx.input(0)).dtype),
        real_(state_type(dtype_)) {}

  bool run() {
    ValueId x = ctx_.input(0);
    std::vector<std::optional<ValueId>> h;
    std::vector<std::optional<ValueId>> c;
    for (int64_t layer = 0; layer < sizes_.layers; ++layer) {
      const std::vector<ValueId> results = emit_layer(layer, x);
      x = results[0];
      h.emplace_back(results[1]);
      if (results.size() > 2) c.emplace_back(results[2]);
    }
    ctx_.replace_output(0, x);
    if (ctx_.node().outputs.size() > 1) ctx_.replace_output(1, joined(h));
    if (ctx_.node().outputs.size() > 2) ctx_.replace_output(2, joined(c));
    return true;
  }

 private:
  // Elements [start, start + count) of a packed input.
  ValueId part(size_t input, int64_t start, int64_t count) {
    const ValueId value = ctx_.input(input);
    const Dim all = element_count(ctx_.type(value).shape);
    const ValueId flat = reshaped(value, {static_cast<int64_t>(all)});
    if (all == count) return flat;
    return ctx_.emit("narrow", {flat}, {{"axis", int64_t{0}}, {"start", start}, {"len", count}});
  }
  ValueId reshaped(ValueId value, const Shape& shape) {
    if (ctx_.type(value).shape == shape) return value;
    return ctx_.emit("reshape", {value}, {{"shape", Ints(shape.begin(), shape.end())}});
  }
  ValueId as_real(ValueId value) {
    if (ctx_.type(value).dtype == real_) return value;
    return ctx_.emit("cast", {value}, {{"to", std::string(name_of(real_))}});
  }
  // Of a layer, [directions * rows].
  ValueId biases(size_t input, int64_t layer) {
    const int64_t count = sizes_.form.directions * sizes_.rows();
    return as_real(part(input, layer * count, count));
  }
  std::optional<ValueId> state(size_t input, int64_t layer) {
    if (!has_optional(ctx_, input)) return std::nullopt;
    if (sizes_.layers == 1) return ctx_.input(input);
    return ctx_.emit("narrow", {ctx_.input(input)},
                     {{"axis", int64_t{0}},
                      {"start", layer * sizes_.form.directions},
                      {"len", sizes_.form.directions}});
  }
  ValueId joined(const std::vector<std::optional<ValueId>>& states) {
    if (states.size() == 1) return *states[0];
    return ctx_.emit("concat", states, {{"axis", int64_t{0}}});
  }

  // The last hidden rows of each direction's recurrent bias are inside the reset gate of a GRU;
  // what is left of it is added to the products of x.
  struct Biases {
    std::optional<ValueId> outside;  // [directions * rows]
    std::optional<ValueId> inside;   // [directions, hidden]
  };
  Biases layer_biases(int64_t layer) {
    Biases result;
    if (has_optional(ctx_, at_.bias)) result.outside = biases(at_.bias, layer);
    if (!has_optional(ctx_, at_.recurrent_bias)) return result;
    ValueId recurrent = biases(at_.recurrent_bias, layer);
    if (sizes_.cell == CellKind::Gru) {
      const int64_t directions = sizes_.form.directions;
      const int64_t hidden = sizes_.hidden;
      const ValueId rows = reshaped(recurrent, {directions, sizes_.rows()});
      const auto cut = [&](int64_t start, int64_t count) {
        return ctx_.emit("narrow", {rows},
                         {{"axis", int64_t{1}}, {"start", start}, {"len", count}});
      };
      result.inside = cut(2 * hidden, hidden);
      const ValueId zeros =
          ctx_.emit("fill", {},
                    {{"shape", Ints{directions, hidden}}, {"dtype", std::string(name_of(real_))}});
      const ValueId outer =
          ctx_.emit("concat", {cut(0, 2 * hidden), zeros}, {{"axis", int64_t{1}}});
      recurrent = reshaped(outer, {directions * sizes_.rows()});
    }
    result.outside = result.outside ? ctx_.emit("add", {*result.outside, recurrent}) : recurrent;
    return result;
  }

  std::vector<ValueId> emit_layer(int64_t layer, ValueId x) {
    const int64_t directions = sizes_.form.directions;
    const int64_t columns = directions * sizes_.rows();
    const int64_t inputs = sizes_.inputs_of(layer);
    const ValueId w_ih =
        reshaped(part(1, sizes_.input_weights_before(layer), columns * inputs), {columns, inputs});
    const ValueId w_hh = reshaped(part(2, layer * columns * sizes_.hidden, columns * sizes_.hidden),
                                  {directions, sizes_.rows(), sizes_.hidden});
    Attributes product{{"trans_b", true}};
    if (dtype_ != real_) product["out_dtype"] = std::string(name_of(real_));
    ValueId gates = ctx_.emit("matmul", {x, w_ih}, product);
    const Biases added = layer_biases(layer);
    if (added.outside) gates = ctx_.emit("add", {gates, *added.outside});
    std::optional<ValueId> peephole;
    if (has_optional(ctx_, at_.peephole)) {
      const int64_t count = directions * 3 * sizes_.hidden;
      peephole = reshaped(as_real(part(at_.peephole, layer * count, count)),
                          {directions, 3 * sizes_.hidden});
    }
    std::optional<ValueId> lengths;
    if (has_optional(ctx_, at_.lengths)) lengths = ctx_.input(at_.lengths);
    return ctx_.emit_all(
        "recurrence",
        {gates, w_hh, added.inside, state(at_.h0, layer), state(at_.c0, layer), lengths, peephole},
        {{"cell", std::string(kCellNames[static_cast<size_t>(sizes_.cell)])},
         {"direction", ctx_.attrs().text("direction")},
         {"layout", ctx_.attrs().text("layout")},
         {"dtype", std::string(name_of(dtype_))}},
        sizes_.cell == CellKind::Lstm ? 3 : 2);
  }

  RewriteContext& ctx_;
  RecurrentInputs at_;
  RecurrentSizes sizes_;
  DType dtype_;
  DType real_;
};

bool decompose_recurrent(RewriteContext& ctx) {
  return RecurrentRewrite(ctx).run();
}

constexpr std::string_view kActivations[] = {"tanh", "relu"};

constexpr AttrSpec count_attr(std::string_view name, std::string_view default_text) {
  return {.name = name,
          .type = AttrType::Int,
          .default_text = default_text,
          .required = default_text.empty(),
          .minimum = 1,
          .maximum = kLargestInt};
}
constexpr AttrSpec kDirection = {.name = "direction",
                                 .type = AttrType::String,
                                 .default_text = "\"forward\"",
                                 .choices = kDirections};
constexpr AttrSpec kLayout = {.name = "layout",
                              .type = AttrType::String,
                              .default_text = "\"bsi\"",
                              .choices = kSequenceLayouts};
constexpr AttrSpec kLstm[] = {count_attr("hidden_size", ""), count_attr("num_layers", "1"),
                              kDirection, kLayout};
constexpr AttrSpec kGru[] = {
    count_attr("hidden_size", ""),
    count_attr("num_layers", "1"),
    kDirection,
    kLayout,
    {.name = "linear_before_reset", .type = AttrType::Bool, .default_text = "true"}};
constexpr AttrSpec kRnn[] = {count_attr("hidden_size", ""),
                             count_attr("num_layers", "1"),
                             kDirection,
                             kLayout,
                             {.name = "activation",
                              .type = AttrType::String,
                              .default_text = "\"tanh\"",
                              .choices = kActivations}};
constexpr uint32_t kBehindWeights[] = {3, 4, 5, 6, 7};

constexpr OpDef recurrent_op(std::string_view name, std::string_view signature, uint32_t inputs,
                             uint32_t outputs, std::span<const AttrSpec> attrs) {
  return {.name = name,
          .signature = signature,
          .inputs = {3, inputs},
          .outputs = {1, outputs},
          .attrs = attrs,
          .infer = infer_recurrent,
          .evaluate = evaluate_recurrent,
          .decompose = decompose_recurrent,
          .optional_inputs = kBehindWeights};
}

constexpr OpDef kRecurrentOps[] = {
    recurrent_op("lstm",
                 "lstm(x, w_ih, w_hh, [bias], [h0], [c0], [seq_lens], [peephole]; hidden_size, "
                 "num_layers=1, direction=forward, layout=bsi) -> y, [h_n], [c_n]",
                 8, 3, kLstm),
    recurrent_op("gru",
                 "gru(x, w_ih, w_hh, [b_ih], [b_hh], [h0], [seq_lens]; hidden_size, num_layers=1, "
                 "direction=forward, layout=bsi, linear_before_reset=true) -> y, [h_n]",
                 7, 2, kGru),
    recurrent_op("rnn",
                 "rnn(x, w_ih, w_hh, [bias], [h0], [seq_lens]; hidden_size, num_layers=1, "
                 "direction=forward, layout=bsi, activation=tanh) -> y, [h_n]",
                 6, 2, kRnn),
};

}  // namespace

std::span<const OpDef> recurrent_ops() {
  return kRecurrentOps;
}

}  // namespace rlx
