// SPDX-License-Identifier: Apache-2.0
// solve: a x = b by LU factors with partial pivoting (largest magnitude, ties the lowest row). A pivot that is 0 or NaN makes the
// system's whole solution NaN.
// Layout: a [systems, n, n], b and x [systems, n, columns], dense; factors [systems, n, n + columns] holds a and b beside each
// other while they are reduced.
// Grid: one group per system, spread by split_grid; its threads take elements of the remaining matrix as 32 columns by 8 rows.
// Specializations: RLX_SYSTEMS, RLX_N, RLX_COLUMNS; RLX_A, RLX_B storage types of a and x, and of b; RLX_R (f32, f64) type of the factors.
// Numerics: every product and quotient in RLX_R, one rounding into x.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"

// The factors are written and read by all threads of the group.
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Factor { RLX_CAT(rlx_, RLX_R) v; };
#define RLX_FACTOR(i) Factor(RLX_AT(p.factors, i, RLX_CAT(rlx_bytes_, RLX_R))).v
#define rlx_storage_barrier() memoryBarrierBuffer(); barrier()

RLX_PARAMS(SolveParams);

#define RLX_WIDTH (RLX_N + RLX_COLUMNS)
#define RLX_THREADS_X 32
#define RLX_THREADS_Y (RLX_BLOCK_X / RLX_THREADS_X)
#define RLX_REAL RLX_CAT(rlx_t_, RLX_R)

RLX_SHARED RLX_REAL pivot_value[RLX_BLOCK_X];
RLX_SHARED rlx_i32 pivot_row[RLX_BLOCK_X];

// Whether candidate 2 is the better pivot. A NaN beats every number.
RLX_FN bool better(RLX_REAL value1, rlx_i32 row1, RLX_REAL value2, rlx_i32 row2) {
  return value2 > value1 || (value2 == value1 && row2 < row1) || !(value2 <= value2);
}

RLX_MAIN {
  const rlx_i64 system = rlx_i64(rlx_linear_group);
  if (system >= rlx_i64(RLX_SYSTEMS)) return;
  const rlx_i64 base = system * rlx_i64(RLX_N) * rlx_i64(RLX_WIDTH);
#define RLX_ELEMENT(i, j) RLX_FACTOR(base + rlx_i64(i) * rlx_i64(RLX_WIDTH) + rlx_i64(j))
  const rlx_i32 t = rlx_i32(rlx_local_x);
  const rlx_i32 tx = t % RLX_THREADS_X;
  const rlx_i32 ty = t / RLX_THREADS_X;
  // a and b beside each other.
  for (rlx_i32 i = ty; i < RLX_N; i += RLX_THREADS_Y) {
    const rlx_i64 row = system * rlx_i64(RLX_N) + rlx_i64(i);
    for (rlx_i32 j = tx; j < RLX_N; j += RLX_THREADS_X) {
      RLX_ELEMENT(i, j) = RLX_REAL(RLX_CAT(rlx_load_, RLX_A)(p.a, row * rlx_i64(RLX_N) + rlx_i64(j)));
    }
    for (rlx_i32 j = tx; j < RLX_COLUMNS; j += RLX_THREADS_X) {
      RLX_ELEMENT(i, RLX_N + j) = RLX_REAL(RLX_CAT(rlx_load_, RLX_B)(p.b, row * rlx_i64(RLX_COLUMNS) + rlx_i64(j)));
    }
  }
  rlx_storage_barrier();

  bool regular = true;
  for (rlx_i32 k = 0; k < RLX_N && regular; ++k) {
    RLX_REAL best = RLX_REAL(-1);
    rlx_i32 row = RLX_N;
    for (rlx_i32 i = k + t; i < RLX_N; i += RLX_BLOCK_X) {
      const RLX_REAL value = abs(RLX_ELEMENT(i, k));
      if (better(best, row, value, i)) {
        best = value;
        row = i;
      }
    }
    pivot_value[t] = best;
    pivot_row[t] = row;
    rlx_barrier();
    for (rlx_i32 half_count = RLX_BLOCK_X / 2; half_count > 0; half_count /= 2) {
      if (t < half_count && better(pivot_value[t], pivot_row[t], pivot_value[t + half_count], pivot_row[t + half_count])) {
        pivot_value[t] = pivot_value[t + half_count];
        pivot_row[t] = pivot_row[t + half_count];
      }
      rlx_barrier();
    }
    regular = pivot_value[0] > RLX_REAL(0);
    const rlx_i32 chosen = pivot_row[0];
    rlx_barrier();
    if (!regular) break;
    if (chosen != k) {
      for (rlx_i32 j = k + t; j < RLX_WIDTH; j += RLX_BLOCK_X) {
        const RLX_REAL value = RLX_ELEMENT(k, j);
        RLX_ELEMENT(k, j) = RLX_ELEMENT(chosen, j);
        RLX_ELEMENT(chosen, j) = value;
      }
      rlx_storage_barrier();
    }
    for (rlx_i32 i = k + 1 + ty; i < RLX_N; i += RLX_THREADS_Y) {
      const RLX_REAL factor = RLX_ELEMENT(i, k) / RLX_ELEMENT(k, k);
      for (rlx_i32 j = k + 1 + tx; j < RLX_WIDTH; j += RLX_THREADS_X) {
        RLX_ELEMENT(i, j) -= factor * RLX_ELEMENT(k, j);
      }
    }
    rlx_storage_barrier();
  }

  // From the last row up: every thread divides for itself, so that one barrier per row is enough.
  for (rlx_i32 k = RLX_N - 1; k >= 0; --k) {
    const rlx_i64 to = (system * rlx_i64(RLX_N) + rlx_i64(k)) * rlx_i64(RLX_COLUMNS);
    for (rlx_i32 j = tx; j < RLX_COLUMNS; j += RLX_THREADS_X) {
      RLX_REAL value = RLX_REAL(rlx_from_bits(0x7FC00000u));
      if (regular) value = RLX_ELEMENT(k, RLX_N + j) / RLX_ELEMENT(k, k);
      if (ty == 0) RLX_CAT(rlx_store_, RLX_A)(p.x, to + rlx_i64(j), value);
      for (rlx_i32 i = ty; i < k && regular; i += RLX_THREADS_Y) {
        RLX_ELEMENT(i, RLX_N + j) -= RLX_ELEMENT(i, k) * value;
      }
    }
    rlx_storage_barrier();
  }
}
