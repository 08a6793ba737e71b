// SPDX-License-Identifier: Apache-2.0
// Operators that the reference IR knows by name and bytes alone, and its splats, whose results are
// packed into one vector.
#include <algorithm>
#include <array>
#include <bit>

#include "compiler/import/names.h"
#include "compiler/import/reference_ir/alias.h"
#include "schema/rounding.h"

namespace rlx::reference_ir {
namespace custom {
namespace {

using Results = std::vector<ValueId>;

// The bytes of `attrs`, as little-endian words.
class Blob {
 public:
  explicit Blob(AliasNode& n) : node_(&n) {
    if (!n.attrs().has("attrs")) return;
    for (const Dim& byte : n.attrs().integers("attrs"))
      bytes_.push_back(static_cast<uint8_t>(int64_t{byte}));
  }
  [[nodiscard]] size_t size() const { return bytes_.size(); }
  [[nodiscard]] uint32_t word(size_t i) const {
    uint32_t value = 0;
    for (size_t byte = 0; byte < 4; ++byte)
      value |= uint32_t{bytes_.at(4 * i + byte)} << (8 * byte);
    return value;
  }
  [[nodiscard]] float real(size_t i) const { return std::bit_cast<float>(word(i)); }
  void want(size_t bytes) const {
    if (size() != bytes)
      node_->refuse("its attrs have " + std::to_string(size()) + " bytes, wanted " +
                    std::to_string(bytes));
  }

 private:
  AliasNode* node_;
  std::vector<uint8_t> bytes_;
};

// indices, as floats, before weights or distances.
ValueId packed_pair(AliasNode& n, ValueId indices, ValueId values) {
  const auto last = static_cast<int64_t>(n.type(values).shape.size()) - 1;
  return n.emit("concat", {n.cast(indices, n.type(values).dtype), values}, {{"axis", last}});
}

Results gate(AliasNode& n) {
  const Blob blob(n);
  Attributes attributes = {
      {"n_group", int64_t{8}}, {"topk_group", int64_t{4}}, {"top_k", int64_t{8}}, {"scaling", 2.5}};
  int64_t experts = 256;
  if (blob.size() >= 20) {
    attributes = {{"n_group", int64_t{blob.word(0)}},
                  {"topk_group", int64_t{blob.word(1)}},
                  {"top_k", int64_t{blob.word(2)}},
                  {"scaling", double{blob.real(3)}}};
    experts = blob.word(4);
  }
  if (n.rank(0) == 0 || n.shape(0).back() != Dim(experts))
    n.refuse("its attrs tell of " + std::to_string(experts) + " experts, but the scores are " +
             to_string(n.type(n.input(0))));
  const Results both =
      n.emit_all("llada2_gate", {n.input(0), n.input(1)}, std::move(attributes), 2);
  return {packed_pair(n, both[0], both[1])};
}

Results nearest(AliasNode& n) {
  const Blob blob(n);
  blob.want(4);
  const Results both = n.emit_all("umap.knn", {n.input(0)}, {{"k", int64_t{blob.word(0)}}}, 2);
  return {packed_pair(n, both[0], both[1])};
}

// A registered extension of that name, whose attributes have their defaults.
Results extension(AliasNode& n, const std::string& name) {
  const OpDef* op = find_op(name);
  if (op == nullptr || name.find('.') == std::string::npos)
    n.refuse(
        "there is no operator " + in_quotes(name),
        "llada2.group_limited_gate, umap.knn and registered extensions (--extension DIR) are read");
  if (Blob(n).size() != 0)
    n.refuse("its attrs are bytes that only its own code understands",
             "name the extension itself as the node's op, with its attributes");
  std::vector<std::optional<ValueId>> inputs;
  for (size_t i = 0; i < n.input_count(); ++i) inputs.push_back(n.optional(i));
  return n.emit_all(name, std::move(inputs), {}, n.output_count());
}

Results custom(AliasNode& n) {
  const std::string name = n.attrs().text("name");
  if (n.attrs().has("num_inputs") &&
      n.attrs().integer("num_inputs") != static_cast<int64_t>(n.input_count()))
    n.refuse("num_inputs is " + std::to_string(n.attrs().integer("num_inputs")) +
             ", but the node has " + std::to_string(n.input_count()));
  if (name == "llada2.group_limited_gate") return gate(n);
  if (name == "umap.knn") return nearest(n);
  return extension(n, name);
}

// ---- splats ----

struct Scene {
  std::vector<std::optional<ValueId>> inputs;  // shaped as splat.* want them
  int64_t count = 0;
  int64_t coefficients = 0;
};

// Seven flat vectors: positions, scales, rotations, opacities, colours, harmonics, meta.
Scene scene(AliasNode& n) {
  Scene s;
  const int64_t numbers = element_count(n.shape(0));
  s.count = numbers / 3;
  const int64_t harmonics = element_count(n.shape(5));
  if (numbers % 3 != 0 || (s.count > 0 && harmonics % (3 * s.count) != 0))
    n.refuse("positions have " + std::to_string(numbers) + " numbers and harmonics " +
             std::to_string(harmonics) + ", wanted 3 of each splat and a multiple of that");
  s.coefficients = s.count == 0 ? 0 : harmonics / (3 * s.count);
  const std::array<Shape, 7> shapes = {Shape{s.count, 3}, Shape{s.count, 3},
                                       Shape{s.count, 4}, Shape{s.count},
                                       Shape{s.count, 3}, Shape{s.count, s.coefficients, 3},
                                       Shape{23}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (element_count(n.shape(i)) != element_count(shapes[i]))
      n.refuse("input " + std::to_string(i) + " is " + to_string(n.type(n.input(i))) + ", wanted " +
               to_string(shapes[i]) + " or as many numbers");
    s.inputs.emplace_back(n.reshape(n.input(i), shapes[i]));
  }
  return s;
}

Attributes legacy(AliasNode& n, std::initializer_list<std::string_view> names) {
  Attributes attributes = n.same(names);
  attributes.emplace("sh_dir", std::string("to_camera"));
  return attributes;
}

Results render(AliasNode& n) {
  // Legacy renderers do not count steps.
  const Scene s = scene(n);
  const ValueId image =
      n.emit("splat.render", s.inputs,
             legacy(n, {"width", "height", "tile_size", "radius_scale", "alpha_cutoff",
                        "transmittance_threshold", "max_list_entries"}));
  return {n.reshape(image, {element_count(n.type(image).shape)})};
}

ValueId flat(AliasNode& n, ValueId x) {
  return n.cast(n.reshape(x, {element_count(n.type(x).shape)}), DType::f32);
}

ValueId joined(AliasNode& n, const Results& parts) {
  std::vector<std::optional<ValueId>> all;
  for (const ValueId part : parts) all.emplace_back(flat(n, part));
  return n.emit("concat", std::move(all), {{"axis", int64_t{0}}});
}

Results render_backward(AliasNode& n) {
  Scene s = scene(n);
  s.inputs.emplace_back(
      n.reshape(n.input(7), {n.attrs().integer("height"), n.attrs().integer("width"), 4}));
  return {
      joined(n, n.emit_all("splat.render_backward", s.inputs,
                           legacy(n, {"width", "height", "tile_size", "radius_scale",
                                      "alpha_cutoff", "max_splat_steps", "transmittance_threshold",
                                      "max_list_entries", "loss_grad_clip", "sh_band"}),
                           6))};
}

int64_t tiles_across(AliasNode& n) {
  const int64_t tile = n.attrs().integer("tile_size");
  return ceil_div(n.attrs().integer("width"), tile);
}

int64_t tile_count(AliasNode& n) {
  const int64_t tile = n.attrs().integer("tile_size");
  return tiles_across(n) * ceil_div(n.attrs().integer("height"), tile);
}

ValueId camera(AliasNode& n, ValueId meta) {
  return n.emit("splat.camera", {n.reshape(meta, {23})}, n.same({"height"}));
}

// 0.5 - size / 2 and on by one: where pixels lie about the middle.
ValueId about_middle(AliasNode& n, int64_t count, const Shape& shape) {
  const TensorType scalar{DType::f32, {}};
  const ValueId line = n.emit(
      "ramp", {n.filled(scalar, 0.5 - 0.5 * static_cast<double>(count)), n.filled(scalar, 1)},
      {{"count", count}});
  return n.reshape(line, shape);
}

// The ray of every pixel, of length 1.
ValueId rays(AliasNode& n, ValueId view) {
  const int64_t width = n.attrs().integer("width");
  const int64_t height = n.attrs().integer("height");
  const auto axis = [&](int64_t at) { return n.reshape(n.narrow(view, 0, at, 3), {1, 1, 3}); };
  const ValueId focal = n.reshape(n.narrow(view, 0, 12, 1), {1, 1, 1});
  const ValueId across = n.emit("div", {about_middle(n, width, {1, width, 1}), focal});
  const ValueId down = n.emit("div", {about_middle(n, height, {height, 1, 1}), focal});
  const ValueId x = n.emit("mul", {across, axis(3)});
  const ValueId y = n.emit("mul", {down, axis(6)});
  const ValueId sum = n.emit("add", {n.emit("add", {x, y}), axis(9)});
  return n.emit("l2_norm", {sum});
}

// Empty ranges are (4294967295, 0) there, (0, 0) here.
ValueId legacy_ranges(AliasNode& n, ValueId ranges) {
  const ValueId begin = n.cast(n.narrow(ranges, 1, 0, 1), DType::f32);
  const ValueId end = n.cast(n.narrow(ranges, 1, 1, 1), DType::f32);
  const ValueId is_empty = n.emit("ge", {begin, end});
  const ValueId first = n.emit("where", {is_empty, n.scalar(begin, 4294967295.0), begin});
  return n.emit("concat", {first, end}, {{"axis", int64_t{1}}});
}

Results prepare(AliasNode& n) {
  const Scene s = scene(n);
  const Results made = n.emit_all("splat.prepare", s.inputs,
                                  legacy(n, {"width", "height", "tile_size", "radius_scale",
                                             "alpha_cutoff", "max_list_entries"}),
                                  8);
  const ValueId view = camera(n, n.input(6));
  const ValueId background =
      n.emit("powf", {n.emit("relu", {n.narrow(view, 0, 13, 3)})}, {{"exponent", 2.2}});
  const auto number = [&n](double value) { return n.filled({DType::f32, {1}}, value); };
  Results parts(made.begin(), made.begin() + 6);
  parts.push_back(legacy_ranges(n, made[6]));
  parts.push_back(rays(n, view));
  for (const double value :
       {static_cast<double>(n.attrs().integer("width")),
        static_cast<double>(n.attrs().integer("height")),
        static_cast<double>(n.attrs().integer("tile_size")), static_cast<double>(tiles_across(n)),
        n.attrs().real("alpha_cutoff"), n.attrs().real("transmittance_threshold")})
    parts.push_back(number(value));
  parts.push_back(background);
  parts.push_back(number(0));
  parts.push_back(number(0));
  return {joined(n, parts)};
}

// The number of splats follows from the vector's length.
Results rasterize(AliasNode& n) {
  const int64_t entries = n.attrs().integer("max_list_entries");
  const int64_t tiles = tile_count(n);
  const int64_t pixels = n.attrs().integer("width") * n.attrs().integer("height");
  const int64_t length = element_count(n.shape(0));
  const int64_t of_splats = length - entries - 2 * tiles - 3 * pixels - 11;
  if (of_splats < 15 || of_splats % 15 != 0)
    n.refuse("the prepared vector has " + std::to_string(length) + " numbers, wanted " +
             std::to_string(length - of_splats) + " and 15 of each splat");
  const int64_t count = of_splats / 15;
  int64_t at = 0;
  const auto part = [&](const Shape& shape) {
    const int64_t size = element_count(shape);
    const ValueId piece = n.reshape(n.narrow(n.reshape(n.input(0), {length}), 0, at, size), shape);
    at += size;
    return piece;
  };
  const ValueId colors = part({count, 4});
  at += count;  // which splats are valid: the list has no others
  const ValueId positions = part({count, 3});
  const ValueId inverse = part({count, 3});
  const ValueId turns = part({count, 4});
  const ValueId list = n.cast(part({entries}), DType::u32);
  const ValueId ranges = part({tiles, 2});
  const ValueId begin = n.narrow(ranges, 1, 0, 1);
  const ValueId end = n.narrow(ranges, 1, 1, 1);
  const ValueId is_some = n.emit("lt", {begin, end});
  const ValueId first = n.emit("where", {is_some, begin, n.scalar(begin, 0)});
  const ValueId both = n.cast(n.emit("concat", {first, end}, {{"axis", int64_t{1}}}), DType::u32);
  const ValueId image = n.emit(
      "splat.rasterize", {colors, positions, inverse, turns, list, both, camera(n, n.input(1))},
      n.same({"width", "height", "tile_size", "alpha_cutoff", "max_splat_steps",
              "transmittance_threshold"}));
  return {n.reshape(image, {pixels * 4})};
}

constexpr AttrSpec given(std::string_view name, AttrType type) {
  return {.name = name, .type = type, .required = true, .consumed_by_infer = true};
}
constexpr std::array kCustom = {
    AttrSpec{.name = "name", .type = AttrType::String, .required = true},
    AttrSpec{.name = "num_inputs", .type = AttrType::Int},
    AttrSpec{.name = "attrs", .type = AttrType::IntList, .minimum = 0, .maximum = 255}};
constexpr std::array kRender = {given("width", AttrType::Int),
                                given("height", AttrType::Int),
                                given("tile_size", AttrType::Int),
                                given("radius_scale", AttrType::Float),
                                given("alpha_cutoff", AttrType::Float),
                                given("max_splat_steps", AttrType::Int),
                                given("transmittance_threshold", AttrType::Float),
                                given("max_list_entries", AttrType::Int)};
constexpr std::array kRenderBackward = {given("width", AttrType::Int),
                                        given("height", AttrType::Int),
                                        given("tile_size", AttrType::Int),
                                        given("radius_scale", AttrType::Float),
                                        given("alpha_cutoff", AttrType::Float),
                                        given("max_splat_steps", AttrType::Int),
                                        given("transmittance_threshold", AttrType::Float),
                                        given("max_list_entries", AttrType::Int),
                                        given("loss_grad_clip", AttrType::Float),
                                        given("sh_band", AttrType::Int),
                                        given("max_anisotropy", AttrType::Float)};
constexpr std::array kRasterize = {
    given("width", AttrType::Int),           given("height", AttrType::Int),
    given("tile_size", AttrType::Int),       given("alpha_cutoff", AttrType::Float),
    given("max_splat_steps", AttrType::Int), given("transmittance_threshold", AttrType::Float),
    given("max_list_entries", AttrType::Int)};

constexpr std::array kAliases = {
    Alias{"Custom",
          kAll,
          "`llada2_gate` and `umap.knn`, packed, by their names and bytes; or the registered "
          "extension of its `name`",
          {0, kUnlimited},
          kCustom,
          custom,
          kUnlimited},
    Alias{"GaussianSplatRender",
          kWgpu | kCuda,
          "`splat.render` of flat vectors; steps are not counted, thin splats stay",
          {7, 7},
          kRender,
          render},
    Alias{"GaussianSplatRenderBackward",
          kWgpu | kCuda,
          "`splat.render_backward`, its gradients one after another",
          {8, 8},
          kRenderBackward,
          render_backward},
    Alias{"GaussianSplatPrepare",
          kWgpu | kCuda,
          "`splat.prepare`, packed with rays and parameters",
          {7, 7},
          kRender,
          prepare},
    Alias{"GaussianSplatRasterize",
          kWgpu | kCuda,
          "`splat.rasterize` of what `GaussianSplatPrepare` packs",
          {2, 2},
          kRasterize,
          rasterize},
};

}  // namespace
}  // namespace custom

std::span<const Alias> custom_aliases() {
  return custom::kAliases;
}

}  // namespace rlx::reference_ir
