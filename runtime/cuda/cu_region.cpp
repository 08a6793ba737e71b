// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cu_region.h"

#include <array>
#include <span>

namespace rlx::cuda {
namespace {

// cudaGraphSetConditional is the driver's own: it is found where PTX is loaded.
constexpr char kText[] = R"ptx(
.version 7.0
.target sm_80
.address_size 64

.extern .func cudaGraphSetConditional(.param .b64 condition, .param .b32 value);

.visible .entry rlx_region(.param .u64 condition, .param .u64 word, .param .u64 counter,
                           .param .u32 most_trips, .param .u32 is_first)
{
  .reg .pred %is_first, %goes_on, %has_word, %is_on;
  .reg .b32 %begun, %most, %first, %value, %word;
  .reg .b64 %condition, %word_at, %counter_at;

  ld.param.u64 %condition, [condition];
  ld.param.u64 %word_at, [word];
  ld.param.u64 %counter_at, [counter];
  ld.param.u32 %most, [most_trips];
  ld.param.u32 %first, [is_first];
  mov.u32 %begun, 0;
  setp.ne.u32 %is_first, %first, 0;
  @%is_first bra COUNTED;
  ld.global.u32 %begun, [%counter_at];
  add.u32 %begun, %begun, 1;
COUNTED:
  st.global.u32 [%counter_at], %begun;
  setp.lt.u32 %goes_on, %begun, %most;
  setp.ne.u64 %has_word, %word_at, 0;
  @!%has_word bra DECIDED;
  ld.global.u32 %word, [%word_at];
  setp.ne.u32 %is_on, %word, 0;
  and.pred %goes_on, %goes_on, %is_on;
DECIDED:
  selp.u32 %value, 1, 0, %goes_on;
  {
    .param .b64 call_condition;
    .param .b32 call_value;
    st.param.b64 [call_condition], %condition;
    st.param.b32 [call_value], %value;
    call.uni cudaGraphSetConditional, (call_condition, call_value);
  }
  ret;
}
)ptx";

}  // namespace

Status RegionKernel::create(Context& context, RegionKernel& kernel) {
  CUmodule module = nullptr;
  RLX_RETURN_IF_ERROR(
      context.check(context.api.cuModuleLoadDataEx(&module, kText, 0, nullptr, nullptr),
                    "loading the kernel that decides of trips"));
  kernel.module_ = OwnedModule(context, module);
  return context.check(context.api.cuModuleGetFunction(&kernel.function_, module, "rlx_region"),
                       "cuModuleGetFunction");
}

Status RegionKernel::add(Context& context, CUgraph graph, std::span<const CUgraphNode> before,
                         const Params& params, CUgraphNode& node) const {
  Params own = params;
  std::array<void*, 5> arguments = {&own.condition, &own.word, &own.counter, &own.most_trips,
                                    &own.is_first};
  const CUDA_KERNEL_NODE_PARAMS launch = {.func = function_,
                                          .gridDimX = 1,
                                          .gridDimY = 1,
                                          .gridDimZ = 1,
                                          .blockDimX = 1,
                                          .blockDimY = 1,
                                          .blockDimZ = 1,
                                          .sharedMemBytes = 0,
                                          .kernelParams = arguments.data(),
                                          .extra = nullptr,
                                          .kern = nullptr,
                                          .ctx = nullptr};
  return context.check(
      context.api.cuGraphAddKernelNode_v2(&node, graph, before.data(), before.size(), &launch),
      "cuGraphAddKernelNode");
}

}  // namespace rlx::cuda
