// SPDX-License-Identifier: Apache-2.0
// The table of CUDA architectures.
#include "compiler/emit/cuda_architecture.h"

#include <algorithm>
#include <array>

namespace rlx {
namespace {

// Kernels use what came with 8.0 (asynchronous copies, bf16 products). 9.0 is compiled as sm_90a
// for its asynchronous products of warp groups, which plain sm_90 lacks. Shared memory: CUDA C++
// Programming Guide, table of technical specifications per compute capability.
constexpr std::array kArchitectures = {
    CudaArchitecture{
        .number = 80, .name = "sm_80", .max_shared_bytes = 163 * 1024, .by_default = true},
    CudaArchitecture{
        .number = 86, .name = "sm_86", .max_shared_bytes = 99 * 1024, .by_default = true},
    CudaArchitecture{
        .number = 87, .name = "sm_87", .max_shared_bytes = 163 * 1024, .by_default = false},
    CudaArchitecture{
        .number = 89, .name = "sm_89", .max_shared_bytes = 99 * 1024, .by_default = true},
    CudaArchitecture{
        .number = 90, .name = "sm_90a", .max_shared_bytes = 227 * 1024, .by_default = true},
    CudaArchitecture{
        .number = 100, .name = "sm_100", .max_shared_bytes = 227 * 1024, .by_default = true},
    CudaArchitecture{
        .number = 103, .name = "sm_103", .max_shared_bytes = 227 * 1024, .by_default = false},
    CudaArchitecture{
        .number = 110, .name = "sm_110", .max_shared_bytes = 227 * 1024, .by_default = false},
    CudaArchitecture{
        .number = 120, .name = "sm_120", .max_shared_bytes = 99 * 1024, .by_default = true},
    CudaArchitecture{
        .number = 121, .name = "sm_121", .max_shared_bytes = 99 * 1024, .by_default = false},
};

template <class Predicate>
const CudaArchitecture* find(const Predicate& matches) {
  const auto found = std::find_if(kArchitectures.begin(), kArchitectures.end(), matches);
  return found == kArchitectures.end() ? nullptr : &*found;
}

}  // namespace

std::span<const CudaArchitecture> all_cuda_architectures() {
  return kArchitectures;
}

const CudaArchitecture* find_cuda_architecture(std::string_view name) {
  return find([&](const CudaArchitecture& row) { return row.name == name; });
}

const CudaArchitecture* find_cuda_architecture(uint32_t number) {
  return find([&](const CudaArchitecture& row) { return row.number == number; });
}

}  // namespace rlx
