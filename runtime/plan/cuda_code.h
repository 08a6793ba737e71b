// SPDX-License-Identifier: Apache-2.0
// Structural checks of CUDA code, cubin (ELF) and PTX, and what a cubin says about its kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/sha256.h"

namespace rlx {

// Empty if the bytes are a 64-bit little-endian ELF for CUDA and this architecture (90 for sm_90),
// else what is wrong: "is no 64-bit ELF".
std::string check_cubin(std::span<const std::byte> code, uint32_t architecture);

// What the code of one kernel asks of a launch, as the assembler recorded it.
struct CubinFacts {
  uint32_t registers = 0;    // of a thread
  uint32_t local_bytes = 0;  // of a thread: spilled registers, arrays indexed at run time
  uint32_t params_bytes = 0;
  uint32_t max_threads = 0;          // of a workgroup
  uint32_t static_shared_bytes = 0;  // of a workgroup
  // The constants of RLX_DYNAMIC_SHARED, RLX_CLUSTER and RLX_ALL_AT_ONCE
  // (cuda_kernels/lib/prelude.inc).
  uint32_t dynamic_shared_bytes = 0;
  uint32_t cluster_x = 1;
  bool runs_together = false;
  // What the constant kCudaContractName holds; nullopt where there is none.
  std::optional<Sha256Digest> contract;
};
// Tensor maps that a kernel may take.
inline constexpr uint32_t kMaxTensorMaps = 8;
// Whether code that takes so many bytes of arguments takes these params and so many tensor maps
// behind them: 128 bytes each, at a multiple of 64 of the whole constant bank.
bool takes_arguments(const CubinFacts& facts, uint32_t params_bytes, uint32_t map_count);
// nullopt if the cubin has no such function or says nothing about it. For cubins that passed
// check_cubin.
std::optional<CubinFacts> read_cubin(std::span<const std::byte> code, std::string_view function,
                                     uint32_t architecture);

// Empty if the text ends with a zero byte, has the entry point, and its target is at most the
// architecture; else what is wrong.
std::string check_ptx(std::span<const std::byte> code, std::string_view entry_point,
                      uint32_t architecture);

// The constant that holds the digest of the code's contract (runtime/plan/contract.h,
// cuda_kernels/lib/prelude.inc).
inline constexpr std::string_view kCudaContractName = "rlx_contract";
// Its bytes inside a cubin; empty where there is none.
std::span<const std::byte> cubin_contract(std::span<const std::byte> code);
// Its numbers inside PTX: the text between the braces of its definition; empty where there is none.
std::string_view ptx_contract(std::span<const std::byte> code);
// What the constant holds. nullopt where there is none.
std::optional<Sha256Digest> read_ptx_contract(std::span<const std::byte> code);

}  // namespace rlx
