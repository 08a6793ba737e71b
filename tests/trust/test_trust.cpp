// SPDX-License-Identifier: Apache-2.0
// Whose plans open: signatures, lists of known code, and what is altered in either.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/input_file.h"
#include "runtime/include/rlx.h"
#include "runtime/plan/plan_view.h"
#include "runtime/trust/known_code.h"
#include "runtime/trust/libcrypto.h"
#include "schema/plan_signature.h"
#include "schema/rounding.h"
#include "tests/support/catch.h"
#include "tests/support/plan_fixture.h"
#include "tests/support/temporary_folder.h"
#include "tools/plan_file/plan_file.h"
#include "tools/sign/sign.h"

using namespace rlx;
using namespace rlx::test;

namespace {

using Bytes = std::vector<std::byte>;

struct Key {
  KeyTexts texts;
  Key() { REQUIRE(make_key_texts(texts).ok()); }
};

TrustPolicy signed_by(const std::string& keys) {
  return {.kind = Trust::Signed, .public_keys = keys};
}

// A folder with a plan that a key signed.
struct SignedPlan {
  TemporaryFolder folder;
  Key key;
  std::string path;

  explicit SignedPlan(const Bytes& plan) : path(folder.write("m.plan", plan)) {
    std::string digits;
    const Status status = sign_plan(path, {.private_pem = key.texts.private_pem}, path, digits);
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(digits.size() == 64);
  }
  [[nodiscard]] Bytes bytes() const {
    std::vector<std::byte> read;
    REQUIRE(read_file(path, uint64_t{1} << 24, read).ok());
    return read;
  }
  [[nodiscard]] Status open(const std::string& keys) const {
    std::shared_ptr<const PlanView> view;
    return PlanView::open_file(path, {.trust = signed_by(keys)}, view);
  }
};

Status open_bytes(const Bytes& bytes, const TrustPolicy& trust) {
  std::shared_ptr<const PlanView> view;
  return PlanView::open_memory(bytes, {.trust = trust}, view);
}

bool says(const Status& status, std::string_view part) {
  return status.message().find(part) != std::string::npos;
}

const PlanSection& section_of(const PlanHeader& header, uint32_t kind) {
  for (const PlanSection& section : std::span(header.sections, header.section_count)) {
    if (section.kind == kind) return section;
  }
  FAIL("no section of kind " << kind);
  return header.sections[0];
}

std::string known_list(const Bytes& plan) {
  std::shared_ptr<const PlanView> view;
  REQUIRE(PlanView::open_memory(plan, {}, view).ok());
  std::string list = "# digests\n\n";
  for (const fb::Kernel* kernel : *view->index().kernels()) {
    for (const fb::Variant* variant : *kernel->variants())
      list += "  " + hex_text(view->code_digest(*kernel, *variant)) + "  of a kernel\r\n";
  }
  return list;
}

}  // namespace

TEST_CASE("a_signed_plan_opens_with_its_key_and_is_refused_without") {
  const SignedPlan plan(serialise(small_plan()));
  const Key other;
  CHECK(plan.open(plan.key.texts.public_pem).ok());
  CHECK(plan.open(other.texts.public_pem + plan.key.texts.public_pem).ok());
  const Status foreign = plan.open(other.texts.public_pem);
  CHECK(foreign.code() == RLX_UNTRUSTED_PLAN);
  CHECK(says(foreign, "is signed with another key"));
  // Whoever does not ask sees no difference.
  std::shared_ptr<const PlanView> view;
  CHECK(PlanView::open_file(plan.path, {.check_weights = true}, view).ok());

  const TemporaryFolder folder;
  const std::string bare = folder.write("bare.plan", serialise(small_plan()));
  const Status missing =
      PlanView::open_file(bare, {.trust = signed_by(plan.key.texts.public_pem)}, view);
  CHECK(missing.code() == RLX_UNTRUSTED_PLAN);
  CHECK(says(missing, "bare.plan\" is not signed"));
}

TEST_CASE("signing_is_deterministic_and_replaces_a_signature") {
  const SignedPlan plan(serialise(small_plan()));
  const Bytes once = plan.bytes();
  std::string digits;
  REQUIRE(
      sign_plan(plan.path, {.private_pem = plan.key.texts.private_pem}, plan.path, digits).ok());
  CHECK(plan.bytes() == once);
  const Key other;
  REQUIRE(sign_plan(plan.path, {.private_pem = other.texts.private_pem}, plan.path, digits).ok());
  CHECK(plan.open(other.texts.public_pem).ok());
  CHECK(says(plan.open(plan.key.texts.public_pem), digits));
}

TEST_CASE("no_mutant_of_a_signed_plan_opens") {
  const SignedPlan plan(serialise(small_plan()));
  const Bytes good = plan.bytes();
  const TrustPolicy trust = signed_by(plan.key.texts.public_pem);
  const PlanHeader header = header_of(good);
  REQUIRE(open_bytes(good, trust).ok());
  std::vector<bool> matters(good.size(), false);
  std::fill_n(matters.begin(), kPlanHeaderBytes, true);
  for (const PlanSection& section : std::span(header.sections, header.section_count)) {
    for (uint64_t i = 0; i < section.size_bytes; ++i) matters[section.offset_bytes + i] = true;
  }
  uint32_t count = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    // Each byte of what is short, and of the rest enough to meet every field.
    if (!matters[at] || (at % 3 != 0 && at >= sizeof(PlanHeader))) continue;
    Bytes mutant = good;
    mutant[at] ^= static_cast<std::byte>(1u << (at % 8));
    const Status altered = open_bytes(mutant, trust);
    CHECK_FALSE(altered.ok());
    // With all checksums made right again only the signature is left to see it. The checksums
    // themselves are then as they were.
    const PlanHeader changed = header_of(mutant);
    if (std::memcmp(changed.magic, header.magic, sizeof header.magic) != 0 ||
        changed.section_count != header.section_count)
      continue;
    bool is_readable = true;
    for (const PlanSection& section : std::span(changed.sections, changed.section_count)) {
      is_readable = is_readable && section.offset_bytes <= mutant.size() &&
                    section.size_bytes <= mutant.size() - section.offset_bytes;
    }
    if (!is_readable) continue;
    reseal(mutant);
    if (mutant == good) continue;
    const Status sealed = open_bytes(mutant, trust);
    INFO("byte " << at << ": " << sealed.message());
    CHECK_FALSE(sealed.ok());
    CHECK_FALSE(sealed.message().empty());
    ++count;
  }
  CHECK(count > 2000);
  for (const size_t bytes : {size_t{0}, size_t{100}, size_t{4096}, good.size() - 1}) {
    const Status truncated =
        open_bytes(Bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(bytes)), trust);
    CHECK(truncated.code() == RLX_INVALID_PLAN);
  }
}

TEST_CASE("a_signature_of_wrong_form_or_moved_from_another_plan_is_refused") {
  const SignedPlan plan(serialise(small_plan()));
  const TrustPolicy trust = signed_by(plan.key.texts.public_pem);
  const Bytes good = plan.bytes();
  const PlanSection section = section_of(header_of(good), kSignatureSection);
  const auto with = [&](const auto& edit) {
    Bytes edited = good;
    PlanSignature record;
    std::memcpy(&record, edited.data() + section.offset_bytes, sizeof record);
    edit(record);
    std::memcpy(edited.data() + section.offset_bytes, &record, sizeof record);
    reseal(edited);
    return open_bytes(edited, trust);
  };
  CHECK(says(with([](PlanSignature& record) { record.version = 2; }), "version 2"));
  for (const uint32_t count : {0u, 1u, 1000u, UINT32_MAX}) {
    const Status status = with([&](PlanSignature& record) { record.digest_count = count; });
    CHECK(status.code() == RLX_UNTRUSTED_PLAN);
    CHECK(says(status, "damaged signature"));
  }
  CHECK(says(with([](PlanSignature& record) { std::memset(record.signature, 0, 64); }),
             "does not fit its signature"));
  // The section of this plan in another one.
  const Bytes taken(
      good.begin() + static_cast<ptrdiff_t>(section.offset_bytes),
      good.begin() + static_cast<ptrdiff_t>(section.offset_bytes + section.size_bytes));
  const std::string other = plan.folder.write("other.plan", serialise(keeping_plan()));
  REQUIRE(write_with_section(other, kSignatureSection, taken, other).ok());
  std::shared_ptr<const PlanView> view;
  CHECK(PlanView::open_file(other, {}, view).ok());
  const Status moved = PlanView::open_file(other, {.trust = trust}, view);
  CHECK(moved.code() == RLX_UNTRUSTED_PLAN);
  for (const size_t bytes : {size_t{0}, sizeof(PlanSignature) - 1}) {
    REQUIRE(
        write_with_section(other, kSignatureSection, std::span(taken).first(bytes), other).ok());
    CHECK(says(PlanView::open_file(other, {.trust = trust}, view), "damaged signature"));
  }
}

TEST_CASE("a_plan_written_anew_has_no_signature") {
  const SignedPlan plan(serialise(small_plan()));
  constexpr uint32_t kSelfTest = 8;
  const std::array<std::byte, 5> section{};
  REQUIRE(write_with_section(plan.path, kSelfTest, section, plan.path).ok());
  CHECK(says(plan.open(plan.key.texts.public_pem), "is not signed"));
}

TEST_CASE("text_and_weights_are_signed_too") {
  PlanSpec spec = small_plan();
  spec.text.resize(64, std::byte{7});
  const SignedPlan plan(serialise(spec));
  const TrustPolicy trust = signed_by(plan.key.texts.public_pem);
  for (const SectionKind kind : {SectionKind::Text, SectionKind::Weights}) {
    Bytes mutant = plan.bytes();
    PlanHeader header = header_of(mutant);
    mutant[section_of(header, static_cast<uint32_t>(kind)).offset_bytes] ^= std::byte{1};
    // Without its checksum made right, which nothing reads before the run.
    const Status status = open_bytes(mutant, trust);
    CHECK(status.code() == RLX_UNTRUSTED_PLAN);
    CHECK(says(status, "is not as it was when the plan was signed"));
  }
}

TEST_CASE("files_with_weights_are_signed_too") {
  const TemporaryFolder folder;
  Bytes file(uint64_t{1} << 12, std::byte{3});
  PlanSpec spec = small_plan();
  const uint64_t offset = round_up(spec.weights_bytes, kArenaAlignmentBytes);
  const uint64_t checksum = XXH3_64bits(file.data(), file.size());
  spec.weight_files.push_back({.name = "model.bin",
                               .size_bytes = file.size(),
                               .checksum = checksum,
                               .start_checksum = checksum});
  spec.weights.push_back({.name = "elsewhere",
                          .dims = {64},
                          .kind = fb::WeightKind::External,
                          .offset_bytes = offset,
                          .size_bytes = 256,
                          .file_offset = 512});
  spec.weights_bytes = offset + 256;
  const std::string path = folder.write("m.plan", serialise(spec));
  const Key key;
  std::string digits;
  const SignOptions options{.private_pem = key.texts.private_pem};
  CHECK(sign_plan(path, options, path, digits).code() == RLX_IO_ERROR);  // no such file
  folder.write("model.bin", file);
  REQUIRE(sign_plan(path, options, path, digits).ok());
  std::shared_ptr<const PlanView> view;
  const PlanOptions trusting{.trust = signed_by(key.texts.public_pem)};
  CHECK(PlanView::open_file(path, trusting, view).ok());
  file.back() ^= std::byte{1};
  folder.write("model.bin", file);
  CHECK_FALSE(PlanView::open_file(path, trusting, view).ok());
  // A file and a plan that agree, both not what was signed: the attack that checksums do not see.
  spec.weight_files[0].checksum = spec.weight_files[0].start_checksum =
      XXH3_64bits(file.data(), file.size());
  const std::string forged = folder.write("forged.plan", serialise(spec));
  CHECK(PlanView::open_file(forged, {.check_weights = true}, view).ok());
  CHECK(PlanView::open_file(forged, trusting, view).code() == RLX_UNTRUSTED_PLAN);
}

TEST_CASE("keys_of_wrong_form_are_refused") {
  const SignedPlan plan(serialise(small_plan()));
  const std::string& good = plan.key.texts.public_pem;
  const Key other;
  const std::string cut = good.substr(0, good.size() / 2);
  for (const std::string& bad :
       {std::string(), std::string("ssh-ed25519 AAAA"), cut, cut + good, good + cut,
        plan.key.texts.private_pem, good + plan.key.texts.private_pem,
        // An X25519 key, which signs nothing.
        std::string("-----BEGIN PUBLIC KEY-----\n"
                    "MCowBQYDK2VuAyEAKJCHkYnXZAN2Yw4yyShnY1VGDp5X/fbX/SnKAyKjPQY=\n"
                    "-----END PUBLIC KEY-----\n")}) {
    INFO(bad);
    const Status status = plan.open(bad);
    CHECK(status.code() == RLX_INVALID_ARGUMENT);
    CHECK(says(status, "wanted Ed25519 keys in PEM form"));
  }
  std::string digits;
  for (const std::string& bad : {std::string(), good, std::string("-----BEGIN PRIVATE KEY-----\n")})
    CHECK(sign_plan(plan.path, {.private_pem = bad}, plan.path, digits).code() ==
          RLX_INVALID_ARGUMENT);
  CHECK(plan.open(good).ok());
}

TEST_CASE("signatures_are_those_of_rfc_8032") {
  // Its section 7.1, test 1: the empty message.
  const PublicKey key = {0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe,
                         0xd3, 0xc9, 0x64, 0x07, 0x3a, 0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6,
                         0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a};
  SignatureBytes signature = {0xe5, 0x56, 0x43, 0x00, 0xc3, 0x60, 0xac, 0x72, 0x90, 0x86, 0xe2,
                              0xcc, 0x80, 0x6e, 0x82, 0x8a, 0x84, 0x87, 0x7f, 0x1e, 0xb8, 0xe5,
                              0xd9, 0x74, 0xd8, 0x73, 0xe0, 0x65, 0x22, 0x49, 0x01, 0x55, 0x5f,
                              0xb8, 0x82, 0x15, 0x90, 0xa3, 0x3b, 0xac, 0xc6, 0x1e, 0x39, 0x70,
                              0x1c, 0xf9, 0xb4, 0x6b, 0xd2, 0x5b, 0xf5, 0xf0, 0x59, 0x5b, 0xbe,
                              0x24, 0x65, 0x51, 0x41, 0x43, 0x8e, 0x7a, 0x10, 0x0b};
  LibCrypto library;
  REQUIRE(LibCrypto::open(library).ok());
  CHECK(library.verifies(key, {}, signature));
  const std::byte other{1};
  CHECK_FALSE(library.verifies(key, {&other, 1}, signature));
  signature[5] ^= 1;
  CHECK_FALSE(library.verifies(key, {}, signature));
  FastSha256 hash(library);
  hash.update(std::as_bytes(std::span("abc", 3)));
  Sha256Digest digest;
  REQUIRE(hash.finish(digest).ok());
  CHECK(digest == sha256(std::as_bytes(std::span("abc", 3))));
}

TEST_CASE("code_that_is_in_no_list_is_refused") {
  const Bytes plan = serialise(small_plan());
  const std::string list = known_list(plan);
  CHECK(open_bytes(plan, {.kind = Trust::Known, .known_code = list}).ok());
  const size_t begin = list.find("  ");
  std::string others = list;
  others[begin + 2] = list[begin + 2] == '0' ? '1' : '0';
  const Status unknown = open_bytes(plan, {.kind = Trust::Known, .known_code = others});
  CHECK(unknown.code() == RLX_UNTRUSTED_PLAN);
  CHECK(says(unknown, list.substr(begin + 2, 64)));
  // Genuine code, whose record says something else: its digest is another one.
  PlanSpec spec = small_plan();
  spec.kernels[0].variants[0].shared_bytes += 4;
  CHECK(open_bytes(serialise(spec), {.kind = Trust::Known, .known_code = list}).code() ==
        RLX_UNTRUSTED_PLAN);
  for (const std::string& bad : {std::string(), std::string("# none\n"), std::string("12ab\n"),
                                 list + "Zz" + std::string(62, '0') + "\n"}) {
    CHECK(open_bytes(plan, {.kind = Trust::Known, .known_code = bad}).code() ==
          RLX_INVALID_ARGUMENT);
  }
}

TEST_CASE("the_c_api_takes_a_policy_with_its_text_and_no_other") {
  const SignedPlan plan(serialise(small_plan()));
  const std::string list = known_list(plan.bytes());
  struct Case {
    uint32_t trust;
    const char* keys;
    const char* known;
    rlx_status wanted;
  };
  const char* keys = plan.key.texts.public_pem.c_str();
  const char* known = list.c_str();
  for (const Case& given : {Case{RLX_TRUST_ANY, nullptr, nullptr, RLX_OK},
                            Case{RLX_TRUST_SIGNED, keys, nullptr, RLX_OK},
                            Case{RLX_TRUST_KNOWN, nullptr, known, RLX_OK},
                            Case{RLX_TRUST_ANY, keys, nullptr, RLX_INVALID_ARGUMENT},
                            Case{RLX_TRUST_ANY, nullptr, known, RLX_INVALID_ARGUMENT},
                            Case{RLX_TRUST_SIGNED, nullptr, nullptr, RLX_INVALID_ARGUMENT},
                            Case{RLX_TRUST_SIGNED, keys, known, RLX_INVALID_ARGUMENT},
                            Case{RLX_TRUST_KNOWN, nullptr, nullptr, RLX_INVALID_ARGUMENT},
                            Case{3, nullptr, nullptr, RLX_INVALID_ARGUMENT}}) {
    rlx_plan_options options = RLX_INIT(rlx_plan_options);
    options.trust = given.trust;
    options.public_keys = given.keys;
    options.known_code = given.known;
    rlx_plan* opened = nullptr;
    CHECK(rlx_plan_open_file(plan.path.c_str(), &options, &opened) == given.wanted);
    CHECK((opened != nullptr) == (given.wanted == RLX_OK));
    rlx_plan_close(opened);
  }
}
