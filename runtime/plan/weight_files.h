// SPDX-License-Identifier: Apache-2.0
// Files beside a plan that hold the bytes of some of its weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/input_file.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status.h"
#include "runtime/trust/libcrypto.h"
#include "schema/plan_generated.h"

namespace rlx {

// The bytes at a file's start of which a WeightFile keeps a checksum: enough to tell two models
// apart by their headers, few enough to be checked at every load.
inline constexpr uint64_t kWeightFileStartBytes = uint64_t{1} << 20;

// "model.gguf", "weights/a.bin": relative, no part of it empty, "." or "..".
bool is_weight_file_name(std::string_view name);

// Opens the files when they are read first: a plan can be looked at without them. Any number of
// threads at once.
class WeightFiles {
 public:
  // `plan` was verified and outlives this. `folder` is where the names start; empty: nobody said.
  WeightFiles(const fb::Plan& plan, std::string folder);

  // Whether the plan has weights elsewhere.
  [[nodiscard]] bool empty() const { return pieces_.empty(); }
  // Of a range of the weights segment the bytes that lie in these files; others stay as they are. A
  // file that is missing, of another size, or begins otherwise than when the plan was compiled is
  // refused by name.
  Status read(uint64_t offset_bytes, std::span<std::byte> destination);
  // Compares the checksum of every file, which reads them whole.
  Status check();
  // The SHA-256 of every file, in the order of the index: reads them whole.
  Status digests(const LibCrypto& library, std::vector<Sha256Digest>& digests);
  // Compares them with those that were signed.
  Status check_signed(const LibCrypto& library, std::span<const Sha256Digest> wanted);

 private:
  struct Piece {
    uint64_t offset_bytes = 0;  // in the weights segment
    uint64_t size_bytes = 0;
    uint32_t file = 0;
    uint64_t file_offset_bytes = 0;
  };

  Status open();
  Status open_file(const fb::WeightFile& record, InputFile& file) const;

  const fb::Plan& plan_;
  const std::string folder_;
  std::vector<Piece> pieces_;  // ascending
  std::mutex mutex_;           // of files_
  std::vector<InputFile> files_;
};

}  // namespace rlx
