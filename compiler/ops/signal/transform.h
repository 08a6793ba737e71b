// SPDX-License-Identifier: Apache-2.0
// A Fourier transform along one axis (ops.md 11.1): what fft, rfft, irfft and stft ask for, and the
// op `fourier` that computes it by tables.
#pragma once

#include <complex>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rlx {

// How a tensor holds its numbers. Axes are those of the complex shape, without the last one of
// Interleaved and with half of Planar's, whose transformed axis is the last.
enum class SignalForm : uint8_t { Real, Complex, Planar, Interleaved };
// As attributes name them; c64 is Complex.
inline constexpr std::string_view kSignalForms[] = {"real", "c64", "planar", "interleaved"};
SignalForm signal_form(std::string_view name);

// By what a transform of n points is divided.
enum class Divisor : uint8_t { One, Points, Root };
// As attributes name them.
inline constexpr std::string_view kDivisors[] = {"one", "points", "root"};
Divisor divisor(std::string_view name);
// Of a name of NumPy's, or "none".
Divisor divisor_of(std::string_view norm, bool inverse);

struct Transform {
  Dim points = 1;   // n
  size_t axis = 0;  // of x
  bool inverse = false;
  Divisor divisor = Divisor::One;
  SignalForm from = SignalForm::Complex;
  SignalForm to = SignalForm::Complex;
  bool half = false;  // x holds the bins 0 .. n/2 of the spectrum of a real signal
  Dim bins = 1;       // of the result, the first ones
  int64_t hop = 0;    // between frames of the last axis; 0: the axis is no frames
  Dim frame = 0;      // points that each frame takes; the others up to n are 0
};

// The complex shape of a tensor; nullopt where it is no such form, with a diagnostic.
std::optional<Shape> complex_shape(NodeContext& ctx, const TensorType& x, SignalForm form);
// The type of the result for x of this complex shape and dtype; nullopt with a diagnostic.
std::optional<TensorType> transform_type(InferContext& ctx, const Transform& transform,
                                         const Shape& shape);
// What a transform of so many points is multiplied by.
double transform_scale(Divisor divisor, int64_t points);

// The result of this type by the definition, with magnitudes (those of x are taken for its terms);
// window: a tensor of the frame's points, or nullptr.
Tensor transformed(const Tensor& x, const Transform& transform, const Tensor* window,
                   const TensorType& type);
// The transform of x as a node of the op `fourier`, with its tables.
ValueId emit_transform(RewriteContext& ctx, ValueId x, const Transform& transform,
                       std::optional<ValueId> window = std::nullopt);

// How a transform is computed: rows in shared memory; longer ones as rows and columns of those;
// lengths with other prime factors, and those that a run gives, as convolutions with a chirp
// (Bluestein). Real points that fit in pairs are folded: half as many complex ones.
struct TransformPlan {
  int64_t points = 1;   // of the transforms that are computed: n, or of the convolution, which
                        // holds that of any n up to its bound
  int64_t columns = 1;  // points = rows * columns; 1: whole
  bool chirps = false;
  bool folds = false;

  [[nodiscard]] int64_t rows() const { return points / columns; }
};
// Of complex points; nullopt where they are too many.
std::optional<TransformPlan> plan_transform(const Dim& points, DType arithmetic);
std::optional<TransformPlan> plan_of(const Transform& transform, DType arithmetic);

// A pass over the points of a row (shaders/fft.kernel).
struct TransformPass {
  int64_t radix = 1;
  int64_t done = 1;      // product of the radices before it
  int64_t roots_at = 0;  // its entries in the table of roots, behind those of the passes before
};
// Of the radices 2 to 8 and 16, in order; one of radix 1 for one point. nullopt: the length has
// other factors.
std::optional<std::vector<TransformPass>> transform_passes(int64_t points);

// Where the parts of a plan's table of roots begin, in entries (shaders/fft.kernel).
struct RootsTable {
  int64_t rows_at = 0;     // passes of transforms of rows() points
  int64_t columns_at = 0;  // of `columns` points
  int64_t fold_at = 0;     // e^(-2 pi i k / (2 points)) of a folded plan
  int64_t far_at = 0;   // of a plan of columns, e^(-2 pi i k / points) for multiples of `columns`
  int64_t near_at = 0;  // and for k < columns
  int64_t entries = 0;
};
RootsTable roots_table(const TransformPlan& plan);

}  // namespace rlx
