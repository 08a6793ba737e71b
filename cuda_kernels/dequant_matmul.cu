// SPDX-License-Identifier: Apache-2.0
// y = x * W + bias for many rows x and a weight matrix in blocks or with side tensors, decoded on its way to shared memory.
// Layout: x [RLX_M, RLX_K], y [RLX_M, RLX_N], bias [RLX_N], all dense; w as in lib/weights.cuh. Grid, specializations and numerics:
// lib/weighted_tile.cuh.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/product.cuh"

RLX_PARAMS(WeightedMatmulParams);

#include "lib/weighted_tile.cuh"
