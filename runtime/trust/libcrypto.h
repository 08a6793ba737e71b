// SPDX-License-Identifier: Apache-2.0
// OpenSSL's libcrypto, opened at run time by whoever asks for signatures: librlx itself needs it
// neither to link nor to start. The part of its headers that is used is declared here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/sha256.h"
#include "runtime/base/status.h"

namespace rlx {

inline constexpr size_t kPublicKeyBytes = 32;
inline constexpr size_t kSignatureBytes = 64;
using PublicKey = std::array<uint8_t, kPublicKeyBytes>;
using SignatureBytes = std::array<uint8_t, kSignatureBytes>;

// The 64 hexadecimal digits of a key.
std::string hex_text(const PublicKey& key);

class LibCrypto {
 public:
  // The library's own types, opaque here.
  struct Bio;
  struct BioMethod;
  struct Cipher;
  struct Key;
  struct KeyContext;
  struct DigestContext;
  struct DigestKind;
  using PasswordCallback = int(char*, int, int, void*);

  struct KeyDeleter {
    const LibCrypto* library;
    void operator()(Key* key) const { library->api_.EVP_PKEY_free(key); }
  };
  using KeyPointer = std::unique_ptr<Key, KeyDeleter>;

  // RLX_UNTRUSTED_PLAN where there is no such library, naming the package that has it. It stays
  // loaded; opening it again is cheap.
  static Status open(LibCrypto& library);

  // The Ed25519 keys in a text of PEM blocks "PUBLIC KEY", as rlxc keygen and openssl pkey -pubout
  // write them; one at least, and no other kind of key.
  Status read_public_keys(std::string_view pem, std::vector<PublicKey>& keys) const;
  [[nodiscard]] bool verifies(const PublicKey& key, std::span<const std::byte> message,
                              const SignatureBytes& signature) const;

  // A new Ed25519 key.
  Status make_key(KeyPointer& key) const;
  // Of a PEM block "PRIVATE KEY" (or an encrypted one, whose pass phrase libcrypto asks for on the
  // terminal).
  Status read_private_key(std::string_view pem, KeyPointer& key) const;
  Status private_pem(const Key& key, std::string& pem) const;
  Status public_pem(const Key& key, std::string& pem) const;
  Status public_key(const Key& key, PublicKey& raw) const;
  Status sign(Key& key, std::span<const std::byte> message, SignatureBytes& signature) const;

 private:
  friend class FastSha256;
  struct Api {
#define RLX_CRYPTO(function, result, parameters) result(*function) parameters = nullptr;
#include "runtime/trust/libcrypto_functions.def"
#undef RLX_CRYPTO
  };
  Status write_pem(int (*write)(const Api&, Bio*, const Key&), const Key& key,
                   std::string& pem) const;

  Api api_;
};

// SHA-256 by the processor's own instructions where it has them: for weights. The library outlives
// it.
class FastSha256 {
 public:
  explicit FastSha256(const LibCrypto& library);
  FastSha256(const FastSha256&) = delete;
  FastSha256& operator=(const FastSha256&) = delete;
  ~FastSha256();
  void update(std::span<const std::byte> bytes);
  // Ends the message. An error where the library refuses SHA-256 or has no memory.
  Status finish(Sha256Digest& digest);

 private:
  const LibCrypto& library_;
  LibCrypto::DigestContext* context_;
  bool is_good_ = false;
};

}  // namespace rlx
