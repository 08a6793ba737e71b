// SPDX-License-Identifier: Apache-2.0
// Separable resampling by tables: along each axis an output coordinate combines the input
// coordinates that a table names. What resize and adaptive_pool become.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rlx {

// The table of one axis: `count` taps for each of `out` output coordinates. An absent tap is -1.
// Or with a period, where `out` may be free: that of coordinates 0 to period - 1; each period later
// its taps stand `advance` further, and those beyond the input's edges repeat the edge. No tap is
// absent then.
struct AxisTaps {
  size_t axis = 0;
  Dim out = 0;
  int64_t count = 1;
  std::vector<int64_t> taps;    // [out or period][count], input coordinates
  std::vector<double> weights;  // the same; used by "sum" alone
  int64_t period = 0;           // 0: none
  int64_t advance = 0;
};

// True where the axis is left as it is: each output coordinate takes the input coordinate of its
// own number, with weight 1.
bool is_identity(const AxisTaps& table, const Dim& in);

// Emits resample nodes, one for all axes where that takes few taps, else one per axis. `combine`:
// "sum" of weight * x, "max", "min", "prod", or "copy" (count 1, any dtype). The result has dtype
// `to`: x's, or, where further nodes follow, dtype_between(), as have those between the nodes here;
// x itself where there are no tables.
ValueId emit_resample(RewriteContext& ctx, ValueId x, std::vector<AxisTaps> tables,
                      const std::string& combine, DType to);
// Of what one node of several that resample x makes for the next: sums are f32 (f64 of f64).
DType dtype_between(DType x, const std::string& combine);

// A table that the run makes, of sizes that it gives: [out * count], taps i32 with -1 for absent
// ones, weights of table_dtype() of the result.
struct RunTable {
  size_t axis = 0;
  Dim out = 0;
  int64_t count = 1;
  ValueId taps{};
  ValueId weights{};
};

DType table_dtype(DType result);

// One resample node along the table's axis. "copy" and the extremes read no weights: taps then.
ValueId emit_resample_by(RewriteContext& ctx, ValueId x, const RunTable& table,
                         const std::string& combine, DType to);

// Integers on the device, i64, for such tables.
class RunNumbers {
 public:
  explicit RunNumbers(RewriteContext& ctx) : ctx_(&ctx) {}
  // 0, 1, .. as [count, 1].
  ValueId column(const Dim& count);
  // first, first + 1, .. as [1, count].
  ValueId row(int64_t first, int64_t count);
  ValueId size(const Dim& size);  // [1]
  ValueId number(int64_t number) { return size(number); }
  ValueId combine(std::string_view op, ValueId a, ValueId b) { return ctx_->emit(op, {a, b}); }
  ValueId as(DType dtype, ValueId x);

 private:
  RewriteContext* ctx_;
};

}  // namespace rlx
