// SPDX-License-Identifier: Apache-2.0
// Cooperative matrices of 16 x 16 elements, shared by the 32 threads of a subgroup: left and right operands of 16 bits (f16, or bf16
// with RLX_MATRIX bf16) and sums in f32. The three are different types, by which the compiler turns the NV form, the only one that
// this GLSL knows, into the KHR form (compiler/emit/spirv_matrices.h): there drivers know what a matrix is for when they load it.
// Operands come from memory alone, and no type is used for another; a loop around them must be unrolled (shaders/README.md).
#ifndef RLX_LIB_MATRICES_GLSL
#define RLX_LIB_MATRICES_GLSL

layout(constant_id = 0) const uint rlx_right_rows = 16;

#define rlx_left_matrix fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
#define rlx_right_matrix fcoopmatNV<16, gl_ScopeSubgroup, rlx_right_rows, 16>
#define rlx_sum_matrix fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>

#define RLX_SUBGROUP 32

// What the threads of a subgroup wrote to shared memory is there for all of them.
RLX_FN void rlx_subgroup_barrier() {
  subgroupMemoryBarrierShared();
  subgroupBarrier();
}

#endif
