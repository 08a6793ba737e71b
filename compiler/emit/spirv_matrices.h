// SPDX-License-Identifier: Apache-2.0
// Cooperative matrices in the form that drivers compile best. GLSL of shaderc 2023 knows those of
// SPV_NV_cooperative_matrix alone, whose types say neither what a matrix is for nor bf16.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace rlx {

// What the 16-bit elements of left and right operands are.
enum class MatrixElement : uint8_t { F16, Bf16 };

// The module with its NV matrices as those of SPV_KHR_cooperative_matrix; one without any comes
// back unchanged. What a matrix type is for follows from the products that take values of it, so
// left operands, right operands and sums must differ in type: kernels give the rows of right
// operands as the specialization constant 0 (shaders/vulkan/lib/matrices.glsl), which becomes a
// plain constant here. Otherwise the reason why it cannot be done. Precondition: well-formed.
std::variant<std::vector<uint32_t>, std::string> with_khr_matrices(std::span<const uint32_t> words,
                                                                   MatrixElement element);

}  // namespace rlx
