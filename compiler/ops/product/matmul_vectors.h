// SPDX-License-Identifier: Apache-2.0
// How the matvec kernel shares out a product of at most four vectors and a matrix.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

// How matvec shares out its work.
struct VectorPlan {
  bool swapped = false;  // the vectors are columns of y
  int64_t vectors = 0;
  int64_t outputs = 0;
  bool along_depth = false;
  int64_t chunk = 1;
  int64_t lanes = 32;
  int64_t rows = 1;          // teams of a workgroup (along k), or slices of k (along o)
  int64_t team_outputs = 1;  // along k
  bool x_in_vectors = false;
  int64_t blocks = 0;
  int64_t splits = 1;
  int64_t split_k = 0;
};

// Precondition: m or n of the product is small, k is not 0.
VectorPlan plan_vectors(const LowerContext& ctx, const Product& product);
// "matvec: m=1, weights along k, 128 workgroups".
std::string to_string(const VectorPlan& plan, int64_t batches);
// Workgroup of shaders/matvec.kernel, and the defines that are no sizes.
void define_plan(DispatchBuilder<MatmulParams>& dispatch, const VectorPlan& plan);

}  // namespace rlx
