// SPDX-License-Identifier: Apache-2.0
// The product of matmul for at most four vectors x against a matrix w: out[v, o] = sum over k of x[v, k] * w[o, k], then
//   act(out + bias) + residual. The vectors are the m of y (RLX_SWAPPED 0: x is a, w is b) or its n (RLX_SWAPPED 1: x is b).
// Layout: w is contiguous along k (RLX_ALONG_DEPTH 1; with RLX_CHUNK 1 of any strides) or along o (0); x, bias and residual have any strides; y has
//   dense lines (lib/lines.glsl).
// Grid: RLX_OUTPUT_BLOCKS x RLX_SPLITS x batches groups, spread by split_grid. RLX_PASS 1 writes the sums of a range of k to
//   partial[split][batch][m][n], which pass 2 of the matmul kernel adds; RLX_PASS 0 is complete.
//   Along k: RLX_ROWS teams of RLX_LANES threads; a team has RLX_TEAM_OUTPUTS outputs and shares out k by chunks of RLX_CHUNK.
//   Along o: RLX_LANES threads take RLX_CHUNK neighbouring outputs each, RLX_SLICES of them share out k.
// Specializations: the above; RLX_VECTORS, RLX_OUTPUTS, RLX_K, RLX_SPLIT_K, RLX_BATCHES, RLX_M, RLX_N; storage types RLX_X, RLX_W; strides
//   RLX_X_LINE, RLX_X_DEPTH, RLX_W_LINE, RLX_W_DEPTH; RLX_X_VECTOR 4: x in aligned vectors along k; generated/batch.inc as in
//   matmul; epilogue of lib/product.glsl. RLX_CHUNK 8: one 16-byte load of f16 or bf16; 4: one aligned vector; 1: any alignment.
// Numerics: as matmul; sums over k in a fixed order.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "lib/product.glsl"
#include "lib/lines.glsl"
#if RLX_ALONG_DEPTH
#include "lib/reduce.glsl"
#endif

RLX_PARAMS(MatmulParams);

// Where results go and what the epilogue reads: y or partial, moved to the group's batch entry and split.
struct Epilogue {
  rlx_ptr out_base;
  rlx_ptr bias;
  rlx_ptr residual;
};

// Writes out[v, o], or its part of a split.
RLX_FN void store_output(rlx_acc_t value, rlx_u32 v, rlx_u32 o, Epilogue to) {
#if RLX_SWAPPED
  const RLX_INDEX m = RLX_INDEX(o);
  const RLX_INDEX n = RLX_INDEX(v);
#else
  const RLX_INDEX m = RLX_INDEX(v);
  const RLX_INDEX n = RLX_INDEX(o);
#endif
#if RLX_PASS == 1
  RLX_CAT(rlx_store_, RLX_ACC)(to.out_base, m * RLX_INDEX(RLX_N) + n, value);
#else
  RLX_CAT(rlx_store_, RLX_Y)(to.out_base, rlx_y_element(m, n), rlx_finish(value, to.bias, to.residual, m, n));
#endif
}

#if RLX_ALONG_DEPTH
RLX_GROUP_REDUCE(team_sum, rlx_acc_t, RLX_COMBINE_SUM)

#if RLX_CHUNK >= 4
#define RLX_CHUNK_VECTORS (RLX_CHUNK / 4)
#define RLX_UNPACK_f16(word) rlx_unpack_f16x2(word)
#define RLX_UNPACK_bf16(word) rlx_unpack_bf16x2(word)
RLX_FN void load_x(rlx_ptr x, rlx_u32 v, rlx_u32 depth, inout rlx_acc4_t chunk[RLX_CHUNK_VECTORS]) {
  const RLX_INDEX at = RLX_INDEX(v) * RLX_X_LINE + RLX_INDEX(depth) * RLX_X_DEPTH;
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_CHUNK_VECTORS); ++i) {
#if RLX_X_VECTOR == 4
    chunk[i] = RLX_CAT(rlx_operand4_, RLX_X)(x, at + RLX_INDEX(i) * 4);
#else
    RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) {
      chunk[i][j] = RLX_ELEMENT(RLX_X, x, at + RLX_INDEX(i * 4u + j) * RLX_X_DEPTH);
    }
#endif
  }
}

RLX_FN void load_w(rlx_ptr w, rlx_u32 o, rlx_u32 depth, inout rlx_acc4_t chunk[RLX_CHUNK_VECTORS]) {
  const RLX_INDEX at = RLX_INDEX(o) * RLX_W_LINE + RLX_INDEX(depth);
#if RLX_CHUNK == 8
  const rlx_uvec4 words = rlx_operand16(w, rlx_i64(at) * 2);
  const rlx_vec2 first = RLX_CAT(RLX_UNPACK_, RLX_W)(words.x);
  const rlx_vec2 second = RLX_CAT(RLX_UNPACK_, RLX_W)(words.y);
  const rlx_vec2 third = RLX_CAT(RLX_UNPACK_, RLX_W)(words.z);
  const rlx_vec2 fourth = RLX_CAT(RLX_UNPACK_, RLX_W)(words.w);
  chunk[0] = rlx_acc4_t(first.x, first.y, second.x, second.y);
  chunk[1] = rlx_acc4_t(third.x, third.y, fourth.x, fourth.y);
#else
  chunk[0] = RLX_CAT(rlx_operand4_, RLX_W)(w, at);
#endif
}
#endif

RLX_FN void multiply(rlx_ptr x, rlx_ptr w, rlx_u32 block, rlx_u32 split, Epilogue to) {
  const rlx_u32 first = (block * rlx_u32(RLX_ROWS) + rlx_row) * rlx_u32(RLX_TEAM_OUTPUTS);
  const rlx_u32 depth_begin = split * rlx_u32(RLX_SPLIT_K);
  const rlx_u32 depth_end = min(rlx_u32(RLX_K), depth_begin + rlx_u32(RLX_SPLIT_K));
  rlx_acc_t acc[RLX_VECTORS][RLX_TEAM_OUTPUTS];
  RLX_UNROLL for (rlx_u32 v = 0u; v < rlx_u32(RLX_VECTORS); ++v) {
    RLX_UNROLL for (rlx_u32 r = 0u; r < rlx_u32(RLX_TEAM_OUTPUTS); ++r) acc[v][r] = rlx_acc_t(0);
  }
  for (rlx_u32 depth = depth_begin + rlx_lane * rlx_u32(RLX_CHUNK); depth < depth_end; depth += rlx_u32(RLX_LANES * RLX_CHUNK)) {
#if RLX_CHUNK >= 4
    rlx_acc4_t xs[RLX_VECTORS][RLX_CHUNK_VECTORS];
    RLX_UNROLL for (rlx_u32 v = 0u; v < rlx_u32(RLX_VECTORS); ++v) load_x(x, v, depth, xs[v]);
    RLX_UNROLL for (rlx_u32 r = 0u; r < rlx_u32(RLX_TEAM_OUTPUTS); ++r) {
      if (first + r < rlx_u32(RLX_OUTPUTS)) {
        rlx_acc4_t ws[RLX_CHUNK_VECTORS];
        load_w(w, first + r, depth, ws);
        RLX_UNROLL for (rlx_u32 v = 0u; v < rlx_u32(RLX_VECTORS); ++v) {
          RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_CHUNK_VECTORS); ++i) {
            RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) acc[v][r] += xs[v][i][j] * ws[i][j];
          }
        }
      }
    }
#else
    rlx_acc_t xs[RLX_VECTORS];
    RLX_UNROLL for (rlx_u32 v = 0u; v < rlx_u32(RLX_VECTORS); ++v) {
      xs[v] = RLX_ELEMENT(RLX_X, x, RLX_INDEX(v) * RLX_X_LINE + RLX_INDEX(depth) * RLX_X_DEPTH);
    }
    RLX_UNROLL for (rlx_u32 r = 0u; r < rlx_u32(RLX_TEAM_OUTPUTS); ++r) {
      if (first + r < rlx_u32(RLX_OUTPUTS)) {
        const rlx_acc_t element = RLX_ELEMENT(RLX_W, w, RLX_INDEX(first + r) * RLX_W_LINE + RLX_INDEX(depth) * RLX_W_DEPTH);
        RLX_UNROLL for (rlx_u32 v = 0u; v < rlx_u32(RLX_VECTORS); ++v) acc[v][r] += xs[v] * element;
      }
    }
#endif
  }
  RLX_UNROLL for (rlx_u32 v = 0u; v < rlx_u32(RLX_VECTORS); ++v) {
    RLX_UNROLL for (rlx_u32 r = 0u; r < rlx_u32(RLX_TEAM_OUTPUTS); ++r) {
      const rlx_acc_t total = team_sum(acc[v][r]);
      const bool mine = rlx_lane == (v * rlx_u32(RLX_TEAM_OUTPUTS) + r) % rlx_u32(RLX_LANES);
      if (mine && first + r < rlx_u32(RLX_OUTPUTS)) store_output(total, v, first + r, to);
    }
  }
}
#else
// parts[(v * RLX_CHUNK + j) * RLX_BLOCK_SIZE + slice * RLX_LANES + lane]
RLX_SHARED rlx_acc_t parts[RLX_VECTORS * RLX_CHUNK * RLX_BLOCK_SIZE];

RLX_FN void multiply(rlx_ptr x, rlx_ptr w, rlx_u32 block, rlx_u32 split, Epilogue to) {
  const rlx_u32 lane = rlx_local_index % rlx_u32(RLX_LANES);
  const rlx_u32 slice = rlx_local_index / rlx_u32(RLX_LANES);
  const rlx_u32 block_first = block * rlx_u32(RLX_LANES * RLX_CHUNK);
  const rlx_u32 first = block_first + lane * rlx_u32(RLX_CHUNK);
  const rlx_u32 depth_begin = split * rlx_u32(RLX_SPLIT_K);
  const rlx_u32 depth_end = min(rlx_u32(RLX_K), depth_begin + rlx_u32(RLX_SPLIT_K));
  rlx_acc_t acc[RLX_VECTORS][RLX_CHUNK];
  RLX_UNROLL for (rlx_u32 v = 0u; v < rlx_u32(RLX_VECTORS); ++v) {
    RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_CHUNK); ++j) acc[v][j] = rlx_acc_t(0);
  }
  if (first < rlx_u32(RLX_OUTPUTS)) {
    for (rlx_u32 depth = depth_begin + slice; depth < depth_end; depth += rlx_u32(RLX_SLICES * 4)) {
      RLX_UNROLL for (rlx_u32 u = 0u; u < 4u; ++u) {
        const rlx_u32 k = depth + u * rlx_u32(RLX_SLICES);
        if (k < depth_end) {
          const RLX_INDEX at = RLX_INDEX(first) + RLX_INDEX(k) * RLX_W_DEPTH;
#if RLX_CHUNK == 4
          const rlx_acc4_t element = RLX_CAT(rlx_operand4_, RLX_W)(w, at);
#else
          const rlx_acc_t element[1] = {RLX_ELEMENT(RLX_W, w, at)};
#endif
          RLX_UNROLL for (rlx_u32 v = 0u; v < rlx_u32(RLX_VECTORS); ++v) {
            const rlx_acc_t value = RLX_ELEMENT(RLX_X, x, RLX_INDEX(v) * RLX_X_LINE + RLX_INDEX(k) * RLX_X_DEPTH);
            RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_CHUNK); ++j) acc[v][j] += value * element[j];
          }
        }
      }
    }
  }
  RLX_UNROLL for (rlx_u32 v = 0u; v < rlx_u32(RLX_VECTORS); ++v) {
    RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_CHUNK); ++j) {
      parts[(v * rlx_u32(RLX_CHUNK) + j) * rlx_u32(RLX_BLOCK_SIZE) + rlx_local_index] = acc[v][j];
    }
  }
  rlx_barrier();
  for (rlx_u32 i = rlx_local_index; i < rlx_u32(RLX_VECTORS * RLX_CHUNK * RLX_LANES); i += rlx_u32(RLX_BLOCK_SIZE)) {
    const rlx_u32 j = i % rlx_u32(RLX_CHUNK);
    const rlx_u32 column = i / rlx_u32(RLX_CHUNK) % rlx_u32(RLX_LANES);
    const rlx_u32 v = i / rlx_u32(RLX_CHUNK * RLX_LANES);
    const rlx_u32 o = block_first + column * rlx_u32(RLX_CHUNK) + j;
    rlx_acc_t total = rlx_acc_t(0);
    for (rlx_u32 s = 0u; s < rlx_u32(RLX_SLICES); ++s) {
      total += parts[(v * rlx_u32(RLX_CHUNK) + j) * rlx_u32(RLX_BLOCK_SIZE) + s * rlx_u32(RLX_LANES) + column];
    }
    if (o < rlx_u32(RLX_OUTPUTS)) store_output(total, v, o, to);
  }
}
#endif

RLX_MAIN {
  const rlx_u32 group = rlx_u32(rlx_linear_group);
  if (group >= rlx_u32(RLX_OUTPUT_BLOCKS) * rlx_u32(RLX_SPLITS) * rlx_u32(RLX_BATCHES)) return;
  const rlx_u32 block = group % rlx_u32(RLX_OUTPUT_BLOCKS);
  const rlx_u32 split = group / rlx_u32(RLX_OUTPUT_BLOCKS) % rlx_u32(RLX_SPLITS);
  const rlx_u32 batch = group / (rlx_u32(RLX_OUTPUT_BLOCKS) * rlx_u32(RLX_SPLITS));
#include "generated/batch.inc"
#if RLX_SWAPPED
  const rlx_ptr x = RLX_AT(p.b, b_batch, RLX_CAT(rlx_bytes_, RLX_X));
  const rlx_ptr w = RLX_AT(p.a, a_batch, RLX_CAT(rlx_bytes_, RLX_W));
#else
  const rlx_ptr x = RLX_AT(p.a, a_batch, RLX_CAT(rlx_bytes_, RLX_X));
  const rlx_ptr w = RLX_AT(p.b, b_batch, RLX_CAT(rlx_bytes_, RLX_W));
#endif
  Epilogue to;
#if RLX_PASS == 1
  to.out_base = RLX_AT(p.partial, (rlx_i64(split) * rlx_i64(RLX_BATCHES) + rlx_i64(batch)) * rlx_i64(RLX_M) * rlx_i64(RLX_N),
                       RLX_CAT(rlx_bytes_, RLX_ACC));
#else
  to.out_base = RLX_AT(p.y, rlx_y_entry(batch), RLX_CAT(rlx_bytes_, RLX_Y));
#endif
  to.bias = 0;
  to.residual = 0;
#ifdef RLX_BIAS
  to.bias = RLX_AT(p.bias, bias_batch, RLX_CAT(rlx_bytes_, RLX_BIAS));
#endif
#ifdef RLX_RESIDUAL
  to.residual = RLX_AT(p.residual, residual_batch, RLX_CAT(rlx_bytes_, RLX_RESIDUAL));
#endif
  multiply(x, w, block, split, to);
}
