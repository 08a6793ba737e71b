// SPDX-License-Identifier: Apache-2.0
// First include of every kernel: params, workgroup size, and the few words that GLSL and CUDA spell differently. Compiles
// under NVRTC without any header. The twin of shaders/lib/prelude.glsl: the same names with the same meaning.
#ifndef RLX_LIB_PRELUDE_CUH
#define RLX_LIB_PRELUDE_CUH

#include "schema/kernel_params.h"

// RLX_PARAMS(SoftmaxParams); names the struct; RLX_MAIN { ... } is the kernel's body, which reads p.x, p.y, ...
//
// Programmatic launch (sm_90 and later): a grid may start while those before it still run. So every kernel lets its successors
// start at once, and waits until its predecessors are complete and their writes visible before it touches anything but weights.
// RLX_MAIN waits at its entry. The body of RLX_MAIN_PREFETCH may read weights first and calls rlx_wait_for_predecessors()
// itself, in every thread, before any other read and before any write to memory.
//
// RLX_DYNAMIC_SHARED(bytes); declares rlx_shared, the workgroup's dynamic shared memory; RLX_CLUSTER(n); makes n workgroups
// along x a cluster on sm_90 and later (elsewhere the kernel must be right without). Both leave a constant in the code, from
// which the compiler reads what the launch must ask for.
//
// rlx_contract: the place in the code for a digest of all that the plan says about it (runtime/contract.h), filled when the plan is
// written. Never read by the kernel. No __constant__: launching kernels in turn that each have constants of their own costs 60 ns each.
extern "C" __device__ const unsigned char rlx_contract[32] = {
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};

#define RLX_PARAMS(Type) using RlxParams = Type

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ __forceinline__ void rlx_release_successors() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void rlx_wait_for_predecessors() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#else
__device__ __forceinline__ void rlx_release_successors() {}
__device__ __forceinline__ void rlx_wait_for_predecessors() {}
#endif

#ifndef RLX_MIN_GROUPS
#define RLX_MIN_GROUPS 1  // workgroups per multiprocessor that registers must leave room for
#endif
// Whether successors may start at once. A kernel sets it to 0 where theirs do better to start when it ends: their workgroups
// otherwise take the multiprocessors' room unevenly.
#define RLX_RELEASES_EARLY 1
#define RLX_MAIN_PREFETCH \
  __device__ __forceinline__ void rlx_body(const RlxParams& p); \
  extern "C" __global__ void __launch_bounds__(RLX_BLOCK_X * RLX_BLOCK_Y * RLX_BLOCK_Z, RLX_MIN_GROUPS) \
  rlx_main(const __grid_constant__ RlxParams p) { \
    if (RLX_RELEASES_EARLY) rlx_release_successors(); \
    rlx_body(p); \
  } \
  __device__ __forceinline__ void rlx_body(const RlxParams& p)
#define RLX_MAIN \
  __device__ __forceinline__ void rlx_waited_body(const RlxParams& p); \
  RLX_MAIN_PREFETCH { \
    rlx_wait_for_predecessors(); \
    rlx_waited_body(p); \
  } \
  __device__ __forceinline__ void rlx_waited_body(const RlxParams& p)

#define RLX_DYNAMIC_SHARED(bytes) \
  extern "C" __device__ const unsigned int rlx_dynamic_shared_bytes = (bytes); \
  extern __shared__ __align__(128) unsigned char rlx_shared[]
#define RLX_CLUSTER(n) extern "C" __device__ const unsigned int rlx_cluster_x = (n)

// RLX_CAT(rlx_load_, RLX_X) with -DRLX_X=f16 is rlx_load_f16: both words are expanded before they are joined.
#define RLX_CAT_(a, b) a##b
#define RLX_CAT(a, b) RLX_CAT_(a, b)

// A parameter that the function changes for its caller.
#define RLX_INOUT(type) type&

// Compute types under one name in both languages; rlx_i64(3) converts.
using rlx_f32 = float;
using rlx_f64 = double;
using rlx_i32 = int;
using rlx_u32 = unsigned int;
using rlx_i64 = long long;
using rlx_u64 = unsigned long long;
using rlx_bool = bool;
using rlx_vec2 = float2;
using rlx_vec4 = float4;
using rlx_uvec2 = uint2;
using rlx_uvec4 = uint4;

// The type in which values of a storage type are computed: RLX_CAT(rlx_t_, RLX_X).
using rlx_t_f32 = rlx_f32;
using rlx_t_f16 = rlx_f32;
using rlx_t_bf16 = rlx_f32;
using rlx_t_f64 = rlx_f64;
using rlx_t_i8 = rlx_i32;
using rlx_t_u8 = rlx_i32;
using rlx_t_i16 = rlx_i32;
using rlx_t_u16 = rlx_u32;
using rlx_t_i32 = rlx_i32;
using rlx_t_u32 = rlx_u32;
using rlx_t_i64 = rlx_i64;
using rlx_t_bool = rlx_bool;

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

#define RLX_FN __device__ __forceinline__
#ifdef RLX_CALLS
#define RLX_BIG_FN static __device__ __noinline__
#else
#define RLX_BIG_FN RLX_FN
#endif
#define RLX_SHARED __shared__
#define RLX_UNROLL _Pragma("unroll")
#define RLX_LOOP _Pragma("unroll 1")

#define rlx_local_x threadIdx.x
#define rlx_local_y threadIdx.y
#define rlx_local_z threadIdx.z
#define rlx_local_index (threadIdx.x + RLX_BLOCK_X * (threadIdx.y + RLX_BLOCK_Y * threadIdx.z))
#define rlx_group_x blockIdx.x
#define rlx_group_y blockIdx.y
#define rlx_group_z blockIdx.z
#define rlx_grid_x gridDim.x
#define rlx_grid_y gridDim.y
#define rlx_grid_z gridDim.z
#define RLX_BLOCK_SIZE (RLX_BLOCK_X * RLX_BLOCK_Y * RLX_BLOCK_Z)

// The group's number in a grid that split_grid (compiler/dispatch/builder.h) spread over three axes.
#define rlx_linear_group \
  (rlx_u64(rlx_group_x) + rlx_u64(rlx_grid_x) * (rlx_u64(rlx_group_y) + rlx_u64(rlx_grid_y) * rlx_u64(rlx_group_z)))

// All threads of the workgroup wait for each other and see each other's writes to shared memory.
#define rlx_barrier() __syncthreads()

// The bits of a float as an integer and back.
#define rlx_bits(x) __float_as_uint(x)
#define rlx_from_bits(x) __uint_as_float(x)

#endif
