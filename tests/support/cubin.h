// SPDX-License-Identifier: Apache-2.0
// Cubins and PTX for tests: as little as passes for code of one kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rlx::test {

struct CubinOptions {
  uint32_t architecture = 90;
  std::string function = "main";
  uint32_t params_bytes = 24;
  uint32_t max_threads = 64;
  uint32_t registers = 32;
  uint32_t local_bytes = 0;
  uint32_t static_shared_bytes = 0;
  std::optional<uint32_t> dynamic_shared_bytes;
  std::optional<uint32_t> cluster_x;
  bool runs_together = false;
  bool has_contract = true;  // a place for it
};
std::vector<std::byte> make_cubin(const CubinOptions& options = {});

// "sm_80", a function that does nothing, a place for a contract, and the zero byte that ends the
// text.
std::vector<std::byte> make_ptx(const std::string& target, const std::string& function);
// The line of PTX that is the place for a contract.
std::string ptx_contract_line();

}  // namespace rlx::test
