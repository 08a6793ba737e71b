// SPDX-License-Identifier: Apache-2.0
// dense_solve and batched_dense_solve (ops.md 3.10): a x = b by LU with partial pivoting.
#include <cmath>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

struct SolveProblem {
  Dim systems = 1;
  Dim n = 0;
  Dim columns = 1;  // of b
};

// b of rank 2 is [systems, n] in the batched form.
SolveProblem problem_of(const NodeContext& ctx, const Shape& a, const Shape& b) {
  const bool batched = ctx.node().op == "batched_dense_solve";
  const size_t lead = batched ? 1 : 0;
  return {.systems = batched ? a[0] : Dim(1),
          .n = a[lead],
          .columns = b.size() == lead + 2 ? b.back() : Dim(1)};
}

bool infer_solve(InferContext& ctx) {
  const bool batched = ctx.node().op == "batched_dense_solve";
  const size_t lead = batched ? 1 : 0;
  const TensorType& a = ctx.input(0);
  const TensorType& b = ctx.input(1);
  if (!is_float(a.dtype) || b.dtype != a.dtype) {
    return ctx.fail(DiagCode::BadDtype,
                    "a is " + to_string(a) + " and b " + to_string(b) + ", wanted one float dtype");
  }
  const std::string prefix = batched ? "[B, N" : "[N";
  if (a.shape.size() != lead + 2 || a.shape[lead] != a.shape[lead + 1]) {
    return ctx.fail(DiagCode::BadShape, "a is " + to_string(a) + ", wanted " + prefix + ", N]");
  }
  const bool rank_fits = b.shape.size() == lead + 1 || b.shape.size() == lead + 2;
  if (!rank_fits || !std::equal(a.shape.begin(), a.shape.end() - 1, b.shape.begin())) {
    return ctx.fail(DiagCode::BadShape, "b is " + to_string(b) + " beside a " + to_string(a) +
                                            ", wanted " + prefix + "] or " + prefix + ", K]");
  }
  ctx.set_output(0, b);
  return true;
}

using Matrix = std::vector<std::vector<double>>;  // rows

// Reduces [a | b] and leaves the solution in the columns behind n; false for a singular matrix.
bool eliminate(Matrix& rows) {
  const size_t n = rows.size();
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k; i < n; ++i) {
      if (std::abs(rows[i][k]) > std::abs(rows[pivot][k])) pivot = i;
    }
    std::swap(rows[k], rows[pivot]);
    if (!(std::abs(rows[k][k]) > 0)) return false;
    for (size_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const double factor = rows[i][k] / rows[k][k];
      for (size_t j = k; j < rows[i].size(); ++j) rows[i][j] -= factor * rows[k][j];
    }
  }
  for (size_t k = 0; k < n; ++k) {
    for (size_t j = n; j < rows[k].size(); ++j) rows[k][j] /= rows[k][k];
  }
  return true;
}

// S of the solution: |inverse| (|a| |x| + |b|), what an error of one unit in each product can move.
void evaluate_system(const Matrix& a, const Matrix& b, const double nan, Matrix& x, Matrix& s) {
  const size_t n = a.size();
  const size_t columns = b.empty() ? 0 : b[0].size();
  Matrix rows = a;
  for (size_t i = 0; i < n; ++i) {
    rows[i].insert(rows[i].end(), b[i].begin(), b[i].end());
    for (size_t j = 0; j < n; ++j) rows[i].push_back(i == j ? 1 : 0);
  }
  const bool regular = eliminate(rows);
  x.assign(n, std::vector<double>(columns, nan));
  s.assign(n, std::vector<double>(columns, 0));
  if (!regular) return;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < columns; ++j) x[i][j] = rows[i][n + j];
  }
  for (size_t k = 0; k < n; ++k) {
    for (size_t j = 0; j < columns; ++j) {
      double terms = std::abs(b[k][j]);
      for (size_t i = 0; i < n; ++i) terms += std::abs(a[k][i] * x[i][j]);
      for (size_t i = 0; i < n; ++i) s[i][j] += std::abs(rows[i][n + columns + k]) * terms;
    }
  }
}

bool evaluate_solve(EvaluateContext& ctx) {
  const Tensor& a = ctx.input(0);
  const Tensor& b = ctx.input(1);
  const SolveProblem problem = problem_of(ctx, a.type.shape, b.type.shape);
  Tensor& y = ctx.output(0);
  y.magnitudes.assign(y.floats.size(), 0);
  y.terms = problem.n;
  const auto matrix = [](const Tensor& from, int64_t start, int64_t height, int64_t width) {
    Matrix rows(static_cast<size_t>(height));
    for (int64_t i = 0; i < height; ++i) {
      const auto begin = from.floats.begin() + start + i * width;
      rows[static_cast<size_t>(i)].assign(begin, begin + width);
    }
    return rows;
  };
  for (int64_t system = 0; system < problem.systems; ++system) {
    Matrix x;
    Matrix s;
    const int64_t start = system * problem.n * problem.columns;
    evaluate_system(matrix(a, system * problem.n * problem.n, problem.n, problem.n),
                    matrix(b, start, problem.n, problem.columns), std::nan(""), x, s);
    for (int64_t i = 0; i < problem.n * problem.columns; ++i) {
      const auto row = static_cast<size_t>(i / problem.columns);
      const auto column = static_cast<size_t>(i % problem.columns);
      y.floats[static_cast<size_t>(start + i)] = x[row][column];
      y.magnitudes[static_cast<size_t>(start + i)] = s[row][column];
    }
  }
  return true;
}

bool lower_solve(LowerContext& ctx) {
  constexpr uint32_t kThreads = 256;
  const TensorRef a = ctx.dense_input(0);
  const TensorRef b = ctx.dense_input(1);
  const TensorRef y = ctx.output(0);
  if (element_count(y.shape()) == 0) return true;
  const SolveProblem problem = problem_of(ctx, a.shape(), b.shape());
  constexpr int64_t kLargest = 1 << 20;  // row and column numbers are 32-bit
  if ((problem.n + problem.columns).range().most > kLargest) {
    return ctx.fail(DiagCode::UnsupportedOp,
                    "a and b have " + to_string(problem.n + problem.columns) +
                        " columns together; the limit is " + std::to_string(kLargest));
  }
  const DType compute = a.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const TensorRef factors =
      ctx.scratch({compute, {problem.systems, problem.n, problem.n + problem.columns}}, "factors");
  const Dim& n = problem.n;
  const Dim flops = problem.systems * n * n * (2 * n / 3 + 2 * problem.columns);
  ctx.dispatch<KernelId::solve>()
      .workgroup({kThreads})
      .size("RLX_SYSTEMS", problem.systems)
      .size("RLX_N", problem.n)
      .size("RLX_COLUMNS", problem.columns)
      .define("RLX_A", std::string(name_of(a.dtype())))
      .define("RLX_B", std::string(name_of(b.dtype())))
      .define("RLX_R", std::string(name_of(compute)))
      .read(&SolveParams::a, a)
      .read(&SolveParams::b, b)
      .write(&SolveParams::x, y)
      .write(&SolveParams::factors, factors)
      .grid(split_grid(problem.systems))
      .work(byte_size(a.type) + byte_size(b.type) + byte_size(y.type), flops)
      .reason("one group per system of " + to_string(problem.n) + " unknowns");
  return true;
}

// db solves the transposed system; da = -db xT.
bool solve_gradient(GradientContext& ctx) {
  const ValueId a = ctx.input(0);
  const ValueId db = ctx.emit(ctx.node().op, {ctx.turn(a), ctx.gradient()});
  ctx.give(1, db);
  if (!ctx.wants(0)) return true;
  const Shape& shape = ctx.shape(db);
  ValueId left = db;
  ValueId right = ctx.output(0);
  if (shape.size() < ctx.shape(a).size()) {
    Shape column = shape;
    column.emplace_back(1);
    Shape row = shape;
    row.insert(row.end() - 1, 1);
    left = ctx.reshape(left, column);
    right = ctx.reshape(right, row);
  } else {
    right = ctx.turn(right);
  }
  ctx.give(0, ctx.emit("neg", {ctx.emit("matmul", {left, right})}));
  return true;
}

const OpDef kSolveOps[] = {
    {.name = "dense_solve",
     .signature = "dense_solve(a, b) -> x",
     .inputs = {2, 2},
     .infer = infer_solve,
     .evaluate = evaluate_solve,
     .gradient = solve_gradient,
     .lower = lower_solve},
    {.name = "batched_dense_solve",
     .signature = "batched_dense_solve(a, b) -> x",
     .inputs = {2, 2},
     .infer = infer_solve,
     .evaluate = evaluate_solve,
     .gradient = solve_gradient,
     .lower = lower_solve},
};

}  // namespace

std::span<const OpDef> solve_ops() {
  return kSolveOps;
}

}  // namespace rlx
