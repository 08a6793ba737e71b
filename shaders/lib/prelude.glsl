// SPDX-License-Identifier: Apache-2.0
// First include of every kernel: extensions, params, workgroup size, and the few words that GLSL and CUDA spell differently.
// The twin of cuda_kernels/lib/prelude.cuh: the same names with the same meaning.
#ifndef RLX_LIB_PRELUDE_GLSL
#define RLX_LIB_PRELUDE_GLSL

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int32 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float32 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float64 : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_shuffle_relative : require
#extension GL_EXT_control_flow_attributes : require

#include "schema/kernel_params.h"

layout(local_size_x = RLX_BLOCK_X, local_size_y = RLX_BLOCK_Y, local_size_z = RLX_BLOCK_Z) in;

// RLX_PARAMS(SoftmaxParams) once at file scope; the fields are then p.x, p.y, ...
#define RLX_PARAMS(Type) layout(push_constant, scalar) uniform RlxPush { Type p; }
// RLX_MAIN { ... } is the kernel's body.
#define RLX_MAIN void main()
// A target whose steps may start before those they depend on are complete has a meaning for these two; see cuda_kernels.
#define RLX_MAIN_PREFETCH RLX_MAIN
#define rlx_wait_for_predecessors()

// RLX_CAT(rlx_load_, RLX_X) with -DRLX_X=f16 is rlx_load_f16: both words are expanded before they are joined.
#define RLX_CAT_(a, b) a##b
#define RLX_CAT(a, b) RLX_CAT_(a, b)

// A parameter that the function changes for its caller.
#define RLX_INOUT(type) inout type

// Compute types under one name in both languages; rlx_i64(3) converts.
#define rlx_f32 float
#define rlx_f64 double
#define rlx_i32 int
#define rlx_u32 uint
#define rlx_i64 int64_t
#define rlx_u64 uint64_t
#define rlx_bool bool
#define rlx_vec2 vec2
#define rlx_vec4 vec4
#define rlx_uvec2 uvec2
#define rlx_uvec4 uvec4

// The type in which values of a storage type are computed: RLX_CAT(rlx_t_, RLX_X).
#define rlx_t_f32 float
#define rlx_t_f16 float
#define rlx_t_bf16 float
#define rlx_t_f64 double
#define rlx_t_i8 int
#define rlx_t_u8 int
#define rlx_t_i16 int
#define rlx_t_u16 uint
#define rlx_t_i32 int
#define rlx_t_u32 uint
#define rlx_t_i64 int64_t
#define rlx_t_bool bool

// Bytes of an element: RLX_CAT(rlx_bytes_, RLX_X).
#define rlx_bytes_f32 4
#define rlx_bytes_f16 2
#define rlx_bytes_bf16 2
#define rlx_bytes_f64 8
#define rlx_bytes_i8 1
#define rlx_bytes_u8 1
#define rlx_bytes_i16 2
#define rlx_bytes_u16 2
#define rlx_bytes_i32 4
#define rlx_bytes_u32 4
#define rlx_bytes_i64 8
#define rlx_bytes_bool 1

#define RLX_FN
#define RLX_BIG_FN RLX_FN
#define RLX_SHARED shared
#define RLX_UNROLL [[unroll]]
#define RLX_LOOP [[dont_unroll]]

#define rlx_local_x gl_LocalInvocationID.x
#define rlx_local_y gl_LocalInvocationID.y
#define rlx_local_z gl_LocalInvocationID.z
#define rlx_local_index gl_LocalInvocationIndex
#define rlx_group_x gl_WorkGroupID.x
#define rlx_group_y gl_WorkGroupID.y
#define rlx_group_z gl_WorkGroupID.z
#define rlx_grid_x gl_NumWorkGroups.x
#define rlx_grid_y gl_NumWorkGroups.y
#define rlx_grid_z gl_NumWorkGroups.z
#define RLX_BLOCK_SIZE (RLX_BLOCK_X * RLX_BLOCK_Y * RLX_BLOCK_Z)

// The group's number in a grid that split_grid (compiler/dispatch/builder.h) spread over three axes.
#define rlx_linear_group \
  (rlx_u64(rlx_group_x) + rlx_u64(rlx_grid_x) * (rlx_u64(rlx_group_y) + rlx_u64(rlx_grid_y) * rlx_u64(rlx_group_z)))

// All threads of the workgroup wait for each other and see each other's writes to shared memory.
#define rlx_barrier() barrier()

// The bits of a float as an integer and back.
#define rlx_bits(x) floatBitsToUint(x)
#define rlx_from_bits(x) uintBitsToFloat(x)

#endif
