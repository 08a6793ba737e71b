// SPDX-License-Identifier: Apache-2.0
// y[i] = x[i] * W[index[i]] + bias[index[i]]: rows go to the matrix of their expert, dense or in blocks; rows of no expert give zeros.
// Layout: x [RLX_M, RLX_K], y [RLX_M, RLX_N], bias [RLX_EXPERTS, RLX_N], all dense; matrices one after another, each as in
// lib/weights.glsl. Grid, specializations and numerics: lib/weighted_tile.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "lib/product.glsl"

RLX_PARAMS(WeightedMatmulParams);

#include "lib/weighted_tile.glsl"
