// SPDX-License-Identifier: Apache-2.0
// Signing: digests of what stays as it is, then the header as it will be.
#include "tools/sign/sign.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/base/input_file.h"
#include "runtime/plan/plan_view.h"
#include "runtime/trust/libcrypto.h"
#include "runtime/trust/signed_digests.h"
#include "tools/plan_file/plan_file.h"

namespace rlx {
namespace {

constexpr uint64_t kChunkBytes = uint64_t{4} << 20;

Status digest_of(const LibCrypto& library, const InputFile& file, const PlanSection& section,
                 Sha256Digest& digest) {
  FastSha256 hash(library);
  std::vector<std::byte> chunk(std::min(section.size_bytes, kChunkBytes));
  for (uint64_t done = 0; done < section.size_bytes;) {
    const std::span<std::byte> part(chunk.data(),
                                    std::min<uint64_t>(chunk.size(), section.size_bytes - done));
    RLX_RETURN_IF_ERROR(file.read(section.offset_bytes + done, part));
    hash.update(part);
    done += part.size();
  }
  return hash.finish(digest);
}

Status digests_of(const LibCrypto& library, const std::string& path, const PlanView& plan,
                  const std::string& weights_folder, PlanDigests& digests) {
  InputFile file;
  RLX_RETURN_IF_ERROR(InputFile::open(path, file));
  const PlanHeader& header = plan.header();
  for (const PlanSection& section : std::span(header.sections, header.section_count)) {
    if (section.kind == kSignatureSection) continue;
    RLX_RETURN_IF_ERROR(digest_of(library, file, section, digests.sections.emplace_back()));
  }
  const size_t slash = path.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
  WeightFiles files(plan.index(), weights_folder.empty() ? folder : weights_folder);
  return files.digests(library, digests.weight_files);
}

}  // namespace

Status make_key_texts(KeyTexts& texts) {
  LibCrypto library;
  RLX_RETURN_IF_ERROR(LibCrypto::open(library));
  LibCrypto::KeyPointer key;
  RLX_RETURN_IF_ERROR(library.make_key(key));
  RLX_RETURN_IF_ERROR(library.private_pem(*key, texts.private_pem));
  return library.public_pem(*key, texts.public_pem);
}

Status sign_plan(const std::string& from, const SignOptions& options, const std::string& to,
                 std::string& public_key) {
  LibCrypto library;
  RLX_RETURN_IF_ERROR(LibCrypto::open(library));
  LibCrypto::KeyPointer key;
  RLX_RETURN_IF_ERROR(library.read_private_key(options.private_pem, key));
  PublicKey raw_key;
  RLX_RETURN_IF_ERROR(library.public_key(*key, raw_key));
  std::shared_ptr<const PlanView> plan;
  RLX_RETURN_IF_ERROR(PlanView::open_file(
      from, {.check_weights = true, .weights_folder = options.weights_folder}, plan));
  PlanDigests digests;
  RLX_RETURN_IF_ERROR(digests_of(library, from, *plan, options.weights_folder, digests));
  public_key = hex_text(raw_key);
  const uint64_t size_bytes =
      signature_section_bytes(digests.sections.size() + digests.weight_files.size());
  const auto make = [&](std::span<const std::byte> page,
                        std::vector<std::byte>& section) -> Status {
    SignatureBytes signature;
    RLX_RETURN_IF_ERROR(library.sign(*key, signed_message(page, digests), signature));
    section = signature_section(raw_key, signature, digests);
    return {};
  };
  return write_with_made_section(from, kSignatureSection, size_bytes, make, to);
}

}  // namespace rlx
