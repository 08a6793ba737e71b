// SPDX-License-Identifier: Apache-2.0
// Ed25519 and SHA-256 by OpenSSL's libcrypto.
#include "runtime/trust/libcrypto.h"

#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "runtime/base/text.h"

namespace rlx {
namespace {

constexpr const char* kLibraryName = "libcrypto.so.3";
constexpr int kEd25519 = 1087;  // EVP_PKEY_ED25519
constexpr const char* kPublicBegin = "-----BEGIN PUBLIC KEY-----";

// Public keys have no pass phrase: an encrypted block is refused, and nobody asked.
int no_password(char*, int, int, void*) {
  return 0;
}

const unsigned char* octets(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Status refused(std::string_view what) {
  return {RLX_INTERNAL_ERROR, text_of("libcrypto: ", what, " failed")};
}

// Leaves the thread's queue of OpenSSL errors, which is the program's, as it was.
template <class Api>
class ErrorMark {
 public:
  explicit ErrorMark(const Api& api) : api_(api) { api_.ERR_set_mark(); }
  ErrorMark(const ErrorMark&) = delete;
  ErrorMark& operator=(const ErrorMark&) = delete;
  ~ErrorMark() { api_.ERR_pop_to_mark(); }

 private:
  const Api& api_;
};

template <class Object>
using Freed = std::unique_ptr<Object, void (*)(Object*)>;

}  // namespace

std::string hex_text(const PublicKey& key) {
  Sha256Digest bytes{};
  std::memcpy(bytes.data(), key.data(), key.size());
  return hex_text(bytes);
}

Status LibCrypto::open(LibCrypto& library) {
  void* file = dlopen(kLibraryName, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (file == nullptr) {
    return {RLX_UNTRUSTED_PLAN,
            text_of("signatures are checked by OpenSSL's ", kLibraryName,
                    ", which cannot be opened; install the package libssl3 (Debian 12) or "
                    "libssl3t64 (Debian 13, Ubuntu 24.04)")};
  }
#define RLX_CRYPTO(function, result, parameters)                                             \
  library.api_.function = reinterpret_cast<result(*) parameters>(dlsym(file, #function));    \
  if (library.api_.function == nullptr)                                                      \
    return {RLX_UNTRUSTED_PLAN,                                                              \
            text_of("signatures are checked by OpenSSL's ", kLibraryName, ", which has no ", \
                    #function, " here; install OpenSSL 3")};
#include "runtime/trust/libcrypto_functions.def"
#undef RLX_CRYPTO
  return {};
}

Status LibCrypto::read_public_keys(std::string_view pem, std::vector<PublicKey>& keys) const {
  const ErrorMark mark(api_);
  const auto wrong = [](std::string_view why) -> Status {
    return {RLX_INVALID_ARGUMENT,
            text_of("the public keys ", why,
                    "; wanted Ed25519 keys in PEM form, as `rlxc keygen` and `openssl pkey "
                    "-pubout` write them")};
  };
  if (pem.find("PRIVATE KEY-----") != std::string_view::npos)
    return wrong("hold a private one, which stays with who signs");
  std::vector<PublicKey> found;
  // Block by block: libcrypto itself would skip what it cannot read between two keys.
  for (size_t begin = pem.find(kPublicBegin); begin != std::string_view::npos;) {
    const size_t next = pem.find(kPublicBegin, begin + 1);
    const std::string_view block = pem.substr(begin, next - begin);
    begin = next;
    if (block.size() > INT_MAX) return wrong("are too long");
    const Freed<Bio> bio(api_.BIO_new_mem_buf(block.data(), static_cast<int>(block.size())),
                         [](Bio*) {});
    if (bio == nullptr) return {RLX_OUT_OF_HOST_MEMORY, "no memory for a public key"};
    const KeyPointer key(api_.PEM_read_bio_PUBKEY(bio.get(), nullptr, no_password, nullptr),
                         {this});
    api_.BIO_free(bio.get());
    PublicKey raw;
    if (key == nullptr || !public_key(*key, raw).ok())
      return wrong(text_of("hold one, number ", found.size() + 1, ", that is none or damaged"));
    found.push_back(raw);
  }
  if (found.empty()) return wrong("hold none");
  keys = std::move(found);
  return {};
}

bool LibCrypto::verifies(const PublicKey& key, std::span<const std::byte> message,
                         const SignatureBytes& signature) const {
  const ErrorMark mark(api_);
  const KeyPointer pkey(api_.EVP_PKEY_new_raw_public_key(kEd25519, nullptr, key.data(), key.size()),
                        {this});
  DigestContext* context = api_.EVP_MD_CTX_new();
  const bool fits =
      pkey != nullptr && context != nullptr &&
      api_.EVP_DigestVerifyInit(context, nullptr, nullptr, nullptr, pkey.get()) == 1 &&
      api_.EVP_DigestVerify(context, signature.data(), signature.size(), octets(message),
                            message.size()) == 1;
  api_.EVP_MD_CTX_free(context);
  return fits;
}

Status LibCrypto::make_key(KeyPointer& key) const {
  const ErrorMark mark(api_);
  KeyContext* context = api_.EVP_PKEY_CTX_new_id(kEd25519, nullptr);
  Key* made = nullptr;
  const bool is_made = context != nullptr && api_.EVP_PKEY_keygen_init(context) == 1 &&
                       api_.EVP_PKEY_keygen(context, &made) == 1;
  api_.EVP_PKEY_CTX_free(context);
  if (!is_made) return refused("making an Ed25519 key");
  key = KeyPointer(made, {this});
  return {};
}

Status LibCrypto::read_private_key(std::string_view pem, KeyPointer& key) const {
  const ErrorMark mark(api_);
  if (pem.size() > INT_MAX) return {RLX_INVALID_ARGUMENT, "the private key is too long"};
  Bio* bio = api_.BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  if (bio == nullptr) return {RLX_OUT_OF_HOST_MEMORY, "no memory for a private key"};
  KeyPointer read(api_.PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr), {this});
  api_.BIO_free(bio);
  if (read == nullptr || api_.EVP_PKEY_is_a(read.get(), "ED25519") != 1) {
    return {RLX_INVALID_ARGUMENT,
            "wanted an Ed25519 private key in PEM form, as `rlxc keygen` and `openssl genpkey "
            "-algorithm ed25519` write it"};
  }
  key = std::move(read);
  return {};
}

Status LibCrypto::write_pem(int (*write)(const Api&, Bio*, const Key&), const Key& key,
                            std::string& pem) const {
  const ErrorMark mark(api_);
  Bio* bio = api_.BIO_new(api_.BIO_s_mem());
  if (bio == nullptr) return {RLX_OUT_OF_HOST_MEMORY, "no memory for a key's text"};
  std::array<char, 1024> text{};  // a block of an Ed25519 key has under 200 characters
  const int size =
      write(api_, bio, key) == 1 ? api_.BIO_read(bio, text.data(), int{text.size()}) : 0;
  api_.BIO_free(bio);
  if (size <= 0) return refused("writing a key");
  pem.assign(text.data(), static_cast<size_t>(size));
  return {};
}

Status LibCrypto::private_pem(const Key& key, std::string& pem) const {
  return write_pem(
      [](const Api& api, Bio* bio, const Key& written) {
        return api.PEM_write_bio_PKCS8PrivateKey(bio, &written, nullptr, nullptr, 0, nullptr,
                                                 nullptr);
      },
      key, pem);
}

Status LibCrypto::public_pem(const Key& key, std::string& pem) const {
  return write_pem([](const Api& api, Bio* bio,
                      const Key& written) { return api.PEM_write_bio_PUBKEY(bio, &written); },
                   key, pem);
}

Status LibCrypto::public_key(const Key& key, PublicKey& raw) const {
  const ErrorMark mark(api_);
  size_t size = raw.size();
  if (api_.EVP_PKEY_is_a(&key, "ED25519") != 1 ||
      api_.EVP_PKEY_get_raw_public_key(&key, raw.data(), &size) != 1 || size != raw.size())
    return {RLX_INVALID_ARGUMENT, "the key is no Ed25519 key"};
  return {};
}

Status LibCrypto::sign(Key& key, std::span<const std::byte> message,
                       SignatureBytes& signature) const {
  const ErrorMark mark(api_);
  DigestContext* context = api_.EVP_MD_CTX_new();
  size_t size = signature.size();
  const bool is_signed =
      context != nullptr &&
      api_.EVP_DigestSignInit(context, nullptr, nullptr, nullptr, &key) == 1 &&
      api_.EVP_DigestSign(context, signature.data(), &size, octets(message), message.size()) == 1;
  api_.EVP_MD_CTX_free(context);
  return is_signed && size == signature.size() ? Status() : refused("signing");
}

FastSha256::FastSha256(const LibCrypto& library)
    : library_(library), context_(library.api_.EVP_MD_CTX_new()) {
  is_good_ = context_ != nullptr &&
             library_.api_.EVP_DigestInit_ex(context_, library_.api_.EVP_sha256(), nullptr) == 1;
}

FastSha256::~FastSha256() {
  library_.api_.EVP_MD_CTX_free(context_);
}

void FastSha256::update(std::span<const std::byte> bytes) {
  is_good_ = is_good_ && library_.api_.EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1;
}

Status FastSha256::finish(Sha256Digest& digest) {
  unsigned int size = 0;
  if (!is_good_ ||
      library_.api_.EVP_DigestFinal_ex(context_, reinterpret_cast<unsigned char*>(digest.data()),
                                       &size) != 1 ||
      size != digest.size())
    return refused("SHA-256");
  return {};
}

}  // namespace rlx
