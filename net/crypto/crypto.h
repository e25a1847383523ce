// The cryptographic functions that secrets and tokens are made of. They call OpenSSL. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tally::net::crypto {

// 256 bits: a key of HMAC-SHA-256 and of AES-256-GCM. Its bytes are overwritten when it ends.
class Key {
 public:
  static constexpr std::size_t kBytes = 32;

  Key() = default;
  Key(const Key&) = default;
  Key& operator=(const Key&) = default;
  ~Key();

  // Returns a key that nobody can guess.
  static Key random();
  // Returns nullopt when the text has another length.
  static std::optional<Key> from_bytes(std::string_view bytes);

  unsigned char* data() { return bytes_.data(); }
  const unsigned char* data() const { return bytes_.data(); }
  std::string_view view() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

  // Takes the same time for all wrong keys.
  bool operator==(const Key& other) const;

 private:
  std::array<unsigned char, kBytes> bytes_{};
};

// Compares. Takes the same time for all wrong texts of the right length.
bool same(std::string_view one, std::string_view other);

// Returns that many bytes that nobody can guess.
std::string random_bytes(std::size_t count);

// Returns HMAC-SHA-256 (RFC 2104) of `label` under `key`. Different labels give independent keys.
Result<Key> derive_key(const Key& key, std::string_view label);

// Returns a key of a text that a person chose, by scrypt (RFC 7914) with N = 2^15, r = 8, p = 1:
// about 0.1 s and 32 MiB for each guess of an attacker. `label` is the salt; texts of different
// uses have different labels.
Result<Key> stretch(std::string_view text, std::string_view label);

// Encrypts and authenticates by AES-256-GCM (NIST SP 800-38D) with a random nonce. Returns nonce,
// ciphertext and tag.
Result<std::string> seal(const Key& key, std::string_view plain);
// Reverses seal(). Returns nullopt when the bytes were not sealed with this key.
std::optional<std::string> unseal(const Key& key, std::string_view sealed);
// The bytes that seal() adds.
inline constexpr std::size_t kSealBytes = 12 + 16;

// The alphabet of RFC 4648 section 5, without padding. decode() returns nullopt for anything that
// encode() does not write.
std::string encode_base64url(std::string_view bytes);
std::optional<std::string> decode_base64url(std::string_view text);

}  // namespace tally::net::crypto
