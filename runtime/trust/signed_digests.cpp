// SPDX-License-Identifier: Apache-2.0
// The signature section, and the message that its signature is of.
#include "runtime/trust/signed_digests.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/text.h"

namespace rlx {
namespace {

Status untrusted(const std::string& plan, const std::string& why) {
  return {RLX_UNTRUSTED_PLAN, text_of(plan, " ", why)};
}

void append(std::vector<std::byte>& bytes, std::span<const std::byte> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

std::string keys_text(std::span<const PublicKey> keys) {
  std::string text;
  for (const PublicKey& key : keys) text += (text.empty() ? "" : ", ") + hex_text(key);
  return text;
}

// The header of a page whose table was verified.
PlanHeader header_of(std::span<const std::byte> page) {
  PlanHeader header;
  std::memcpy(&header, page.data(), sizeof header);
  return header;
}

}  // namespace

uint64_t signature_section_bytes(size_t digest_count) {
  return sizeof(PlanSignature) + digest_count * sizeof(Sha256Digest);
}

std::vector<std::byte> signed_message(std::span<const std::byte> page, const PlanDigests& digests) {
  PlanHeader header = header_of(page);
  header.header_checksum = 0;
  for (PlanSection& section : std::span(header.sections, header.section_count)) {
    if (section.kind == kSignatureSection) section.checksum = 0;
  }
  std::vector<std::byte> message;
  append(message, std::as_bytes(std::span(kSignatureDomain, sizeof kSignatureDomain - 1)));
  append(message, std::as_bytes(std::span(&header, 1)));
  append(message, page.subspan(sizeof header));
  append(message, std::as_bytes(std::span(digests.sections)));
  append(message, std::as_bytes(std::span(digests.weight_files)));
  return message;
}

std::vector<std::byte> signature_section(const PublicKey& key, const SignatureBytes& signature,
                                         const PlanDigests& digests) {
  const size_t count = digests.sections.size() + digests.weight_files.size();
  PlanSignature record{.version = kSignatureVersion,
                       .digest_count = static_cast<uint32_t>(count),
                       .public_key = {},
                       .signature = {}};
  std::copy(key.begin(), key.end(), record.public_key);
  std::copy(signature.begin(), signature.end(), record.signature);
  std::vector<std::byte> section;
  append(section, std::as_bytes(std::span(&record, 1)));
  append(section, std::as_bytes(std::span(digests.sections)));
  append(section, std::as_bytes(std::span(digests.weight_files)));
  return section;
}

Status read_signature(const LibCrypto& library, std::span<const PublicKey> keys,
                      std::span<const std::byte> page, std::span<const std::byte> section,
                      const std::string& plan, PlanDigests& digests) {
  PlanSignature record{};
  if (section.size() < sizeof record)
    return untrusted(plan, "has a damaged signature: sign it again with rlxc sign");
  std::memcpy(&record, section.data(), sizeof record);
  if (record.version != kSignatureVersion) {
    return untrusted(plan,
                     text_of("has a signature of version ", record.version, ", this runtime reads ",
                             kSignatureVersion, ": sign it with the rlxc of this runtime"));
  }
  const size_t sections = header_of(page).section_count - 1;
  if (record.digest_count < sections ||
      section.size() != signature_section_bytes(record.digest_count))
    return untrusted(plan, "has a damaged signature: sign it again with rlxc sign");
  PublicKey key;
  std::copy(std::begin(record.public_key), std::end(record.public_key), key.begin());
  if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
    return untrusted(plan, text_of("is signed with another key, ", hex_text(key), "; trusted is ",
                                   keys_text(keys)));
  }
  std::vector<Sha256Digest> all(record.digest_count);
  std::memcpy(all.data(), section.data() + sizeof record, all.size() * sizeof(Sha256Digest));
  const auto end = all.begin() + static_cast<ptrdiff_t>(sections);
  PlanDigests read{.sections = {all.begin(), end}, .weight_files = {end, all.end()}};
  SignatureBytes signature;
  std::copy(std::begin(record.signature), std::end(record.signature), signature.begin());
  if (!library.verifies(key, signed_message(page, read), signature)) {
    return untrusted(
        plan, text_of("does not fit its signature with key ", hex_text(key),
                      ": the signature is wrong, or the plan was altered after it was signed"));
  }
  digests = std::move(read);
  return {};
}

}  // namespace rlx
