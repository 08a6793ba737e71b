// SPDX-License-Identifier: Apache-2.0
// Cooperative matrices of 16 x 16 elements, shared by the RLX_SUBGROUP threads of a subgroup: left and right operands of 16 bits (f16, or bf16
// with RLX_MATRIX bf16) and sums in f32. The three are different types, by which the compiler turns the NV form, the only one that
// this GLSL knows, into the KHR form (compiler/emit/spirv_matrices.h): there drivers know what a matrix is for when they load it.
// No type is used for another; a loop around matrices must be unrolled (shaders/README.md). An element of an operand is a float16_t
// here also where matrices are of bf16: then it stands for the bits.
#ifndef RLX_LIB_MATRICES_GLSL
#define RLX_LIB_MATRICES_GLSL

layout(constant_id = 0) const uint rlx_right_rows = 16;

#define rlx_left_matrix fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
#define rlx_right_matrix fcoopmatNV<16, gl_ScopeSubgroup, rlx_right_rows, 16>
#define rlx_sum_matrix fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>
// Of eight columns, where Feature::NarrowMatrix is there.
#define rlx_narrow_right fcoopmatNV<16, gl_ScopeSubgroup, rlx_right_rows, 8>
#define rlx_narrow_sum fcoopmatNV<32, gl_ScopeSubgroup, 16, 8>

#define RLX_SUBGROUP RLX_MATRIX_SUBGROUP
// The elements of a matrix that each thread holds where fragments are known (shaders/README.md). Asked for its length, NVIDIA 580 dies as it makes the
// pipeline: glslang's question is a specialization constant's operation.
#define RLX_MATRIX_SHARE (16 * 16 / RLX_SUBGROUP)

RLX_FN float16_t rlx_element_f16(float value) { return float16_t(value); }
RLX_FN float rlx_value_f16(float16_t element) { return float(element); }
// To nearest, ties away from zero; a NaN may become a number.
RLX_FN float16_t rlx_element_bf16(float value) { return uint16BitsToFloat16(uint16_t((rlx_bits(value) + 0x8000u) >> 16)); }
RLX_FN float rlx_value_bf16(float16_t element) { return rlx_from_bits(rlx_u32(float16BitsToUint16(element)) << 16); }

// What the threads of a subgroup wrote to shared memory is there for all of them.
RLX_FN void rlx_subgroup_barrier() {
  subgroupMemoryBarrierShared();
  subgroupBarrier();
}

#endif
