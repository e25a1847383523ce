#include "net/crypto/crypto.h"

#include <string.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "net/crypto/library.h"

namespace tally::net::crypto {
namespace {

constexpr std::size_t kNonceBytes = 12;
constexpr std::size_t kTagBytes = 16;
static_assert(kNonceBytes + kTagBytes == kSealBytes);

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void fill_randomly(unsigned char* bytes, std::size_t count) {
  while (count > 0) {
    // Requests of up to 256 bytes are never cut short (getrandom(2)); EINTR happens only before the
    // first seed.
    const ssize_t got = ::getrandom(bytes, std::min<std::size_t>(count, 256), 0);
    if (got <= 0) continue;
    bytes += got;
    count -= static_cast<std::size_t>(got);
  }
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* bytes_of(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

Error failed(const openssl::Library& library, std::string_view what) {
  return {Status::kInternal, std::string(what) + " failed in OpenSSL: " + library.take_error()};
}

class Cipher {
 public:
  explicit Cipher(const openssl::Library& library)
      : library_(library), context_(library.EVP_CIPHER_CTX_new()) {}
  ~Cipher() { library_.EVP_CIPHER_CTX_free(context_); }
  Cipher(const Cipher&) = delete;
  Cipher& operator=(const Cipher&) = delete;

  EVP_CIPHER_CTX* get() const { return context_; }

 private:
  const openssl::Library& library_;
  EVP_CIPHER_CTX* context_;
};

}  // namespace

Key::~Key() {
  ::explicit_bzero(bytes_.data(), bytes_.size());
}

Key Key::random() {
  Key key;
  fill_randomly(key.data(), kBytes);
  return key;
}

std::optional<Key> Key::from_bytes(std::string_view bytes) {
  if (bytes.size() != kBytes) return std::nullopt;
  Key key;
  std::memcpy(key.data(), bytes.data(), kBytes);
  return key;
}

bool Key::operator==(const Key& other) const {
  return same(view(), other.view());
}

bool same(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    difference |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  }
  return difference == 0;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  fill_randomly(bytes_of(bytes), count);
  return bytes;
}

Result<Key> derive_key(const Key& key, std::string_view label) {
  const auto library = openssl::library();
  if (!library) return library.error();
  const openssl::Library& ssl = **library;
  Key derived;
  unsigned length = 0;
  if (ssl.HMAC(ssl.EVP_sha256(), key.data(), static_cast<int>(Key::kBytes), bytes_of(label),
               label.size(), derived.data(), &length) == nullptr ||
      length != Key::kBytes) {
    return failed(ssl, "HMAC");
  }
  return derived;
}

Result<Key> stretch(std::string_view text, std::string_view label) {
  constexpr std::uint64_t kN = 1 << 15;
  constexpr std::uint64_t kR = 8;
  constexpr std::uint64_t kP = 1;
  constexpr std::uint64_t kMostMemory = 64 << 20;
  const auto library = openssl::library();
  if (!library) return library.error();
  Key key;
  if ((*library)->EVP_PBE_scrypt(text.data(), text.size(), bytes_of(label), label.size(), kN, kR,
                                 kP, kMostMemory, key.data(), Key::kBytes) != 1) {
    return failed(**library, "scrypt");
  }
  return key;
}

Result<std::string> seal(const Key& key, std::string_view plain) {
  const auto library = openssl::library();
  if (!library) return library.error();
  const openssl::Library& ssl = **library;
  const Cipher cipher(ssl);
  std::string sealed = random_bytes(kNonceBytes);
  sealed.resize(kNonceBytes + plain.size() + kTagBytes);
  unsigned char* out = bytes_of(sealed);
  int written = 0;
  int rest = 0;
  const bool done =
      ssl.EVP_EncryptInit_ex(cipher.get(), ssl.EVP_aes_256_gcm(), nullptr, key.data(), out) == 1 &&
      ssl.EVP_EncryptUpdate(cipher.get(), out + kNonceBytes, &written, bytes_of(plain),
                            static_cast<int>(plain.size())) == 1 &&
      ssl.EVP_EncryptFinal_ex(cipher.get(), out + kNonceBytes + written, &rest) == 1 &&
      ssl.EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(kTagBytes),
                              out + kNonceBytes + plain.size()) == 1;
  if (!done) return failed(ssl, "AES-GCM");
  return sealed;
}

std::optional<std::string> unseal(const Key& key, std::string_view sealed) {
  const auto library = openssl::library();
  if (!library || sealed.size() < kSealBytes) return std::nullopt;
  const openssl::Library& ssl = **library;
  const Cipher cipher(ssl);
  const std::size_t size = sealed.size() - kSealBytes;
  std::string plain(size, '\0');
  std::string tag(sealed.substr(kNonceBytes + size));
  int written = 0;
  int rest = 0;
  const bool done =
      ssl.EVP_DecryptInit_ex(cipher.get(), ssl.EVP_aes_256_gcm(), nullptr, key.data(),
                             bytes_of(sealed)) == 1 &&
      ssl.EVP_DecryptUpdate(cipher.get(), bytes_of(plain), &written, bytes_of(sealed) + kNonceBytes,
                            static_cast<int>(size)) == 1 &&
      ssl.EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, static_cast<int>(kTagBytes),
                              tag.data()) == 1 &&
      ssl.EVP_DecryptFinal_ex(cipher.get(), bytes_of(plain) + written, &rest) == 1;
  if (done) return plain;
  ssl.ERR_clear_error();
  return std::nullopt;
}

std::string encode_base64url(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6) text += kAlphabet[bits >> (count - 6) & 63];
  }
  if (count > 0) text += kAlphabet[bits << (6 - count) & 63];
  return text;
}

std::optional<std::string> decode_base64url(std::string_view text) {
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char letter : text) {
    const std::size_t value = kAlphabet.find(letter);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 255);
  }
  // The unused bits of the last letter are 0, so that each text of bytes has one form.
  if ((bits & ((1U << count) - 1)) != 0) return std::nullopt;
  return bytes;
}

}  // namespace tally::net::crypto
