// SPDX-License-Identifier: Apache-2.0
// Structural checks of CUDA code: cubin (ELF) and PTX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rlx {

// Empty if the bytes are a 64-bit little-endian ELF for CUDA and this architecture (90 for sm_90),
// else what is wrong: "is no 64-bit ELF".
std::string check_cubin(std::span<const std::byte> code, uint32_t architecture);
// True if a cubin that passed check_cubin has a section of code for a function of that name.
bool cubin_has_function(std::span<const std::byte> code, std::string_view name);
// Empty if the text has the entry point and its target is at most the architecture, else what is
// wrong.
std::string check_ptx(std::span<const std::byte> code, std::string_view entry_point,
                      uint32_t architecture);

}  // namespace rlx
