// SPDX-License-Identifier: Apache-2.0
// Operators that make tensors: ramps, identity matrices, windows, filter banks, random numbers.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "compiler/import/onnx/op_table.h"
#include "compiler/import/onnx/stand_ins.h"

namespace rlx::onnx_import {

void range(NodeReader& n, const OnnxOp& row);

namespace {

constexpr int64_t kMostElements = int64_t{1} << 24;  // of a table made at compile time

// From 0 up to a count, one by one.
bool counted_range(NodeReader& n) {
  if (n.builder().counts(n.input(1)) == nullptr) return false;
  if (n.known_int(0, "the start") != 0 || n.known_int(2, "the step") != 1) return false;
  const NodeReader::Sizes sizes = n.sizes(1, "the limit");
  if (sizes.most.size() != 1 || sizes.are_known()) return false;
  const int64_t most = std::max<int64_t>(sizes.most.front(), 0);
  const ValueId y =
      n.emit("ramp", {n.reshape(n.input(0), {}), n.reshape(n.input(2), {})}, {{"count", most}});
  const ValueId filled = n.emit("identity", {y});
  n.builder().set_padding(filled, {.axis = 0, .count = *sizes.counts.front()});
  n.set_output(0, filled);
  return true;
}

void eye_like(NodeReader& n, const OnnxOp&) {
  if (n.rank(0) != 2) n.refuse_shapes("its input is of shape " + to_string(n.shape(0)));
  if (!n.has("dtype")) refuse_stand_in(n.builder(), n.input(0), "input 0");
  DType dtype = n.dtype(0);
  if (n.has("dtype")) dtype = dtype_of(n.integer("dtype", 0), "the result");
  n.set_output(0, n.emit("eye", {},
                         {{"n", n.shape(0)[0]},
                          {"m", n.shape(0)[1]},
                          {"k", n.integer("k", 0)},
                          {"dtype", std::string(name_of(dtype))}}));
}

// A sum of cosines over one period: a0 - a1 cos(t) + a2 cos(2t).
void cosine_window(NodeReader& n, double a0, double a1, double a2) {
  const int64_t size = n.known_int(0, "the size");
  if (size < 0 || size > kMostElements)
    n.refuse("the window has " + std::to_string(size) + " elements");
  const bool periodic = n.integer("periodic", 1) != 0;
  const DType dtype = dtype_of(n.integer("output_datatype", 1), "the result");
  const auto period = static_cast<double>(periodic ? size : size - 1);
  Floats values;
  for (int64_t i = 0; i < size; ++i) {
    const double t = 2 * std::numbers::pi * static_cast<double>(i) / period;
    values.push_back(size == 1 ? 1 : a0 - a1 * std::cos(t) + a2 * std::cos(2 * t));
  }
  n.set_output(0, n.cast(n.constant_reals(DType::f64, {size}, std::move(values)), dtype));
}

void hann_window(NodeReader& n, const OnnxOp&) {
  cosine_window(n, 0.5, 0.5, 0);
}
void hamming_window(NodeReader& n, const OnnxOp&) {
  cosine_window(n, 25.0 / 46, 1 - 25.0 / 46, 0);
}
void blackman_window(NodeReader& n, const OnnxOp&) {
  cosine_window(n, 0.42, 0.5, 0.08);
}

// Triangles between neighbouring edges, which lie at equal steps of the mel scale and are rounded
// to bins of the spectrum.
void mel_weight_matrix(NodeReader& n, const OnnxOp&) {
  const int64_t bands = n.known_int(0, "the number of bands");
  const int64_t length = n.known_int(1, "the length of the transform");
  const int64_t rate = n.known_int(2, "the sample rate");
  const double low = n.known_real(3, "the lowest frequency");
  const double high = n.known_real(4, "the highest frequency");
  const int64_t bins = length / 2 + 1;
  if (bands < 1 || length < 1 || rate < 1 || bands > 1 << 16 || bins > kMostElements / bands)
    n.refuse("the matrix has no size, or more than 2^24 elements");
  if (!(std::fabs(low) <= 1e12) || !(std::fabs(high) <= 1e12))
    n.refuse("the frequencies are " + std::to_string(low) + " and " + std::to_string(high));
  const DType dtype = dtype_of(n.integer("output_datatype", 1), "the result");
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (mel(high) - mel(low)) / static_cast<double>(bands + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double at = static_cast<double>(i) * step + mel(low);
    const double hertz = 700 * (std::pow(10.0, at / 2595) - 1);
    edges.push_back(static_cast<int64_t>(
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
  }
  Floats values(static_cast<size_t>(bins * bands), 0);
  const auto set = [&](int64_t bin, int64_t band, double value) {
    if (bin >= 0 && bin < bins) values[static_cast<size_t>(bin * bands + band)] = value;
  };
  for (int64_t band = 0; band < bands; ++band) {
    const int64_t left = edges[static_cast<size_t>(band)];
    const int64_t centre = edges[static_cast<size_t>(band) + 1];
    const int64_t right = edges[static_cast<size_t>(band) + 2];
    if (centre == left) set(centre, band, 1);
    for (int64_t bin = left; bin < centre && bin < bins; ++bin)
      set(bin, band, static_cast<double>(bin - left) / static_cast<double>(centre - left));
    if (centre != left) set(centre, band, 1);
    for (int64_t bin = centre; bin < right && bin < bins; ++bin)
      set(bin, band, static_cast<double>(right - bin) / static_cast<double>(right - centre));
  }
  n.set_output(0, n.cast(n.constant_reals(DType::f64, {bins, bands}, std::move(values)), dtype));
}

// A seed of the file, a float, counts as its bits; without one the session's is taken.
Attributes seeded(NodeReader& n) {
  if (!n.has("seed")) return {};
  const auto seed = static_cast<float>(n.real("seed", 0));
  return {{"seed", static_cast<int64_t>(std::bit_cast<uint32_t>(seed))}};
}

DType random_dtype(NodeReader& n, DType absent) {
  return n.has("dtype") ? dtype_of(n.integer("dtype", 1), "the result") : absent;
}

// RandomUniform and RandomNormal, of a shape or like another tensor.
void random(NodeReader& n, const OnnxOp& row) {
  const bool like = row.name.ends_with("Like");
  Attributes attributes = seeded(n);
  const DType dtype = random_dtype(n, like ? n.dtype(0) : DType::f32);
  attributes["dtype"] = std::string(name_of(dtype));
  if (row.target == "rng_uniform") {
    attributes["low"] = n.real("low", 0);
    attributes["high"] = n.real("high", 1);
  } else {
    attributes["mean"] = n.real("mean", 0);
    attributes["scale"] = n.real("scale", 1);
  }
  if (like) {
    n.set_output(0, n.emit(row.target, {n.input(0)}, std::move(attributes)));
    return;
  }
  attributes["shape"] = n.required_integers("shape");
  n.set_output(0, n.emit(row.target, {}, std::move(attributes)));
}

// 1 with the probability that each element is.
void bernoulli(NodeReader& n, const OnnxOp&) {
  const DType dtype = random_dtype(n, n.dtype(0));
  const ValueId unit = n.emit("rng_uniform", {n.input(0)}, seeded(n));
  n.set_output(0, n.cast(n.emit("lt", {unit, n.cast(n.input(0), DType::f32)}), dtype));
}

// Draws of each row of logarithms, as many rows of them as draws.
void multinomial(NodeReader& n, const OnnxOp&) {
  if (n.rank(0) != 2) n.refuse_shapes("its input is of shape " + to_string(n.shape(0)));
  const Shape shape = n.shape(0);
  const int64_t draws = n.integer("sample_size", 1);
  Attributes attributes = seeded(n);
  attributes["index_dtype"] = std::string(name_of(dtype_of(n.integer("dtype", 6), "the result")));
  const ValueId rows = n.reshape(n.input(0), {shape[0], 1, shape[1]});
  const ValueId all = n.emit("expand", {rows}, {{"shape", Ints{shape[0], draws, shape[1]}}});
  n.set_output(0, n.emit("sample", {all}, std::move(attributes)));
}

constexpr std::array kGeneratorsRows = {
    OnnxOp{"RandomUniform", random, "rng_uniform"},
    OnnxOp{"RandomUniformLike", random, "rng_uniform"},
    OnnxOp{"RandomNormal", random, "rng_normal"},
    OnnxOp{"RandomNormalLike", random, "rng_normal"},
    OnnxOp{"Bernoulli", bernoulli},
    OnnxOp{"Multinomial", multinomial},
    OnnxOp{"Range", range},
    OnnxOp{"EyeLike", eye_like},
    OnnxOp{"HannWindow", hann_window},
    OnnxOp{"HammingWindow", hamming_window},
    OnnxOp{"BlackmanWindow", blackman_window},
    OnnxOp{"MelWeightMatrix", mel_weight_matrix},
};

}  // namespace

// com.microsoft's may leave out the step, which is 1 then.
void range(NodeReader& n, const OnnxOp&) {
  if (!n.has_input(2)) n.replace_input(2, n.scalar(n.dtype(0), 1));
  if (counted_range(n)) return;
  const double start = n.known_real(0, "the start");
  const double limit = n.known_real(1, "the limit");
  const double delta = n.known_real(2, "the step");
  const double count = std::ceil((limit - start) / delta);
  if (delta == 0 || !(count <= static_cast<double>(kMostElements)))
    n.refuse("the range has no end, or more than 2^24 elements");
  const ValueId first = n.reshape(n.input(0), {});
  const ValueId step = n.reshape(n.input(2), {});
  n.set_output(
      0, n.emit("ramp", {first, step}, {{"count", static_cast<int64_t>(std::max(count, 0.0))}}));
}

std::span<const OnnxOp> generator_rows() {
  return kGeneratorsRows;
}

}  // namespace rlx::onnx_import
