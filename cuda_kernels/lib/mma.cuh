// SPDX-License-Identifier: Apache-2.0
// Words of tensor-core kernels: asynchronous copies into shared memory, ldmatrix, mma, the cluster's shared memory. CUDA only.
// Addresses of shared memory are 32-bit (rlx_shared_address), those of global memory rlx_ptr. Nothing here waits or
// synchronises unless its name says so.
//
// Fragments of one warp, with g = lane / 4 and t = lane % 4 (a "word" holds two 16-bit values, the lower index in its low half):
//   16-bit, m16n8k16: a[0] (row g, k 2t..2t+1), a[1] (row g + 8, same k), a[2] (row g, k + 8), a[3] (row g + 8, k + 8);
//                     b[0] (k 2t..2t+1, column g), b[1] (k + 8, column g).
//   tf32, m16n8k8:    a[0] (row g, k t), a[1] (row g + 8, k t), a[2] (row g, k t + 4), a[3] (row g + 8, k t + 4);
//                     b[0] (k t, column g), b[1] (k t + 4, column g).
//   d of both:        d[0] (row g, column 2t), d[1] (row g, column 2t + 1), d[2], d[3]: row g + 8.
#ifndef RLX_LIB_MMA_CUH
#define RLX_LIB_MMA_CUH

#define rlx_warp (rlx_local_index / 32u)
#define rlx_lane_of_warp (rlx_local_index % 32u)

RLX_FN rlx_u32 rlx_shared_address(const void* pointer) { return static_cast<rlx_u32>(__cvta_generic_to_shared(pointer)); }

// ---- asynchronous copies (cp.async) ----

// 16 bytes to shared memory, both addresses multiples of 16: the first `bytes` (0 to 16) are read, the others become zero. With
// 0 bytes nothing is read, wherever the address lies. Passes the L1 cache by.
RLX_FN void rlx_copy16_async(rlx_u32 shared, rlx_ptr global, rlx_u32 bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}
RLX_FN void rlx_copy16_async(rlx_u32 shared, rlx_ptr global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}
// The same where `wanted`, and else nothing, without a branch.
RLX_FN void rlx_copy16_async_if(bool wanted, rlx_u32 shared, rlx_ptr global, rlx_u32 bytes) {
  asm volatile(
      "{\n.reg .pred wanted;\nsetp.ne.u32 wanted, %3, 0;\n@wanted cp.async.cg.shared.global [%0], [%1], 16, %2;\n}" ::"r"(shared),
      "l"(global), "r"(bytes), "r"(rlx_u32(wanted))
      : "memory");
}
// The same for 4, 8 or 16 bytes at multiples of as many; those of 4 and 8 pass through the L1 cache.
template <int kBytes>
RLX_FN void rlx_copy_async(rlx_u32 shared, rlx_ptr global, rlx_u32 bytes) {
  if constexpr (kBytes == 16) {
    rlx_copy16_async(shared, global, bytes);
    return;
  }
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(global), "n"(kBytes), "r"(bytes) : "memory");
}
// Closes a group of this thread's copies; rlx_wait_copies<n>() returns when all but the n youngest groups of this thread have
// arrived, and with n 0 all its copies, those of no group too: wait_group 0 would not wait for them. Other threads see them after a
// barrier.
RLX_FN void rlx_commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kGroups>
RLX_FN void rlx_wait_copies() {
  if constexpr (kGroups == 0) {
    asm volatile("cp.async.wait_all;" ::: "memory");
  } else {
    asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
  }
}

// ---- ldmatrix: 8 x 8 tiles of 16-bit values, or 8 x 4 of 32-bit ones ----

// Lanes 8i to 8i + 7 give the addresses (multiples of 16) of the rows of tile i. Lane l receives of each tile the word l % 4 of row
// l / 4; of 16-bit values `transposed` gives it rows 2(l % 4) and 2(l % 4) + 1 of column l / 4 instead.
RLX_FN void rlx_load_tiles4(rlx_u32 (&r)[4], rlx_u32 shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared)
               : "memory");
}
RLX_FN void rlx_load_tiles4_transposed(rlx_u32 (&r)[4], rlx_u32 shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared)
               : "memory");
}
RLX_FN void rlx_load_tiles2(rlx_u32 (&r)[2], rlx_u32 shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared)
               : "memory");
}
RLX_FN void rlx_load_tiles2_transposed(rlx_u32 (&r)[2], rlx_u32 shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared)
               : "memory");
}

// The reverse of rlx_load_tiles4_transposed (sm_90 and later): lane l gives of each tile rows 2(l % 4) and 2(l % 4) + 1 of column l / 4.
RLX_FN void rlx_store_tiles4_transposed(rlx_u32 shared, const rlx_u32 (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

// ---- shared memory by 32-bit address ----

RLX_FN rlx_u32 rlx_shared_load1(rlx_u32 shared) {
  rlx_u32 word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(shared) : "memory");
  return word;
}
RLX_FN void rlx_shared_store1(rlx_u32 shared, rlx_u32 word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared), "r"(word) : "memory");
}
RLX_FN void rlx_shared_store4(rlx_u32 shared, const rlx_u32 (&r)[4]) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}
RLX_FN void rlx_shared_load4(rlx_u32 (&r)[4], rlx_u32 shared) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared)
               : "memory");
}

RLX_FN void rlx_shared_load2(rlx_u32 (&r)[2], rlx_u32 shared) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(shared) : "memory");
}

// ---- mma: d += a * b ----

RLX_FN void rlx_mma_f16(float (&d)[4], const rlx_u32 (&a)[4], const rlx_u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
RLX_FN void rlx_mma_bf16(float (&d)[4], const rlx_u32 (&a)[4], const rlx_u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Whole numbers of 8 bits, 32 deep: b signed, a without sign or with it. As exact as d's 32 bits.
RLX_FN void rlx_mma_u8s8(int (&d)[4], const rlx_u32 (&a)[4], const rlx_u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
RLX_FN void rlx_mma_s8s8(int (&d)[4], const rlx_u32 (&a)[4], const rlx_u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// f32 bits whose low 13 bits the hardware ignores.
RLX_FN void rlx_mma_tf32(float (&d)[4], const rlx_u32 (&a)[4], const rlx_u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// The nearest tf32, ties away from zero.
RLX_FN rlx_u32 rlx_tf32(float x) {
  rlx_u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

// ---- the cluster (sm_90 and later; elsewhere every workgroup is its own cluster of one) ----

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
RLX_FN rlx_u32 rlx_cluster_rank() {
  rlx_u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// All threads of the cluster wait for each other, in two halves. rlx_cluster_publish() is the first half where the others read
// this workgroup's shared memory afterwards; rlx_cluster_arrive() orders nothing: the first half before an exit, behind which this
// workgroup reads no other's memory any more. An arrival that orders all of memory would wait for every store under way: these
// cost a microsecond less. They do not wait for loads under way either: a value of another workgroup must have been used (stored,
// compared, branched on) before the arrival, or its load is answered by memory that is already gone, and the grid fails.
RLX_FN void rlx_cluster_publish() {
  asm volatile("fence.release.sync_restrict::shared::cta.cluster;" ::: "memory");
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
RLX_FN void rlx_cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
RLX_FN void rlx_cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
RLX_FN void rlx_cluster_barrier() {
  rlx_cluster_publish();
  rlx_cluster_wait();
}
// The same address in the shared memory of another workgroup of the cluster.
RLX_FN rlx_u32 rlx_cluster_address(rlx_u32 shared, rlx_u32 rank) {
  rlx_u32 address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank));
  return address;
}
// Four floats there, zeros where they are not wanted: what nobody is going to use is not loaded (see above). No branch, so that
// loads stay together.
RLX_FN float4 rlx_cluster_load4(rlx_u32 address, bool wanted) {
  float4 v = {0.0f, 0.0f, 0.0f, 0.0f};
  asm volatile("{\n.reg .pred wanted;\nsetp.ne.u32 wanted, %5, 0;\n@wanted ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
               : "+f"(v.x), "+f"(v.y), "+f"(v.z), "+f"(v.w)
               : "r"(address), "r"(static_cast<rlx_u32>(wanted))
               : "memory");
  return v;
}
#endif

#endif
