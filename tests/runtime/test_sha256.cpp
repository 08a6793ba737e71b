// SPDX-License-Identifier: Apache-2.0
// SHA-256 against the examples of FIPS 180-4 and against itself in pieces.
#include <string>
#include <string_view>

#include "runtime/base/sha256.h"
#include "tests/support/catch.h"

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string digest_of(std::string_view text) {
  return rlx::hex_text(rlx::sha256(bytes_of(text)));
}

}  // namespace

TEST_CASE("sha256_gives_the_digests_of_the_standard") {
  CHECK(digest_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(digest_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(digest_of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                  "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu") ==
        "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  CHECK(digest_of(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256_does_not_depend_on_the_pieces_of_its_message") {
  std::string message;
  for (int i = 0; i < 200; ++i) message += static_cast<char>(i);
  // Every length around the ends of blocks, cut in three everywhere.
  for (size_t length = 0; length <= message.size(); length += length < 130 ? 1 : 23) {
    const std::string_view whole = std::string_view(message).substr(0, length);
    const rlx::Sha256Digest wanted = rlx::sha256(bytes_of(whole));
    for (size_t cut = 0; cut <= length; ++cut) {
      rlx::Sha256 hash;
      hash.update(bytes_of(whole.substr(0, cut / 2)));
      hash.update(bytes_of(whole.substr(cut / 2, cut - cut / 2)));
      hash.update(bytes_of(whole.substr(cut)));
      REQUIRE(hash.finish() == wanted);
    }
  }
}

TEST_CASE("a_digest_is_read_from_its_hexadecimal_text_alone") {
  const rlx::Sha256Digest digest = rlx::sha256(bytes_of("abc"));
  const std::string text = rlx::hex_text(digest);
  CHECK(rlx::digest_of_hex(text) == digest);
  CHECK_FALSE(rlx::digest_of_hex(text + "0").has_value());
  CHECK_FALSE(rlx::digest_of_hex(text.substr(1)).has_value());
  CHECK_FALSE(rlx::digest_of_hex("B" + text.substr(1)).has_value());
  CHECK_FALSE(rlx::digest_of_hex(" " + text.substr(1)).has_value());
}
