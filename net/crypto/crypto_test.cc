#include "net/crypto/crypto.h"

#include <gtest/gtest.h>

#include <set>

#include "net/crypto/library.h"

namespace tally::net::crypto {
namespace {

std::string bytes_of_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

Key key_of(char fill) {
  return *Key::from_bytes(std::string(Key::kBytes, fill));
}

// The values of this test and of the next but one were computed with Python's hmac and hashlib.
TEST(Crypto, DerivesKeysByHmacSha256) {
  const auto key = derive_key(key_of('\x0b'), "Hi There");
  ASSERT_TRUE(key);
  EXPECT_EQ(key->view(),
            bytes_of_hex("198a607eb44bfbc69903a0f1cf2bbdc5ba0aa3f3d9ae3c1c7a3b1696a0b68cf7"));
}

TEST(Crypto, LabelsGiveDifferentKeys) {
  EXPECT_FALSE(*derive_key(key_of('k'), "one") == *derive_key(key_of('k'), "two"));
  EXPECT_FALSE(*derive_key(key_of('k'), "one") == *derive_key(key_of('l'), "one"));
  EXPECT_TRUE(*derive_key(key_of('k'), "one") == *derive_key(key_of('k'), "one"));
}

TEST(Crypto, StretchesATextByScrypt) {
  const auto key = stretch("hunter2", "salt");
  ASSERT_TRUE(key);
  EXPECT_EQ(key->view(),
            bytes_of_hex("69442c32e56cfc5454b86fd83a75d6980471040de546157b9c487b2637d247e7"));
  EXPECT_FALSE(*key == *stretch("hunter2", "pepper"));
}

TEST(Crypto, RandomBytesDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) seen.insert(random_bytes(16));
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_EQ(random_bytes(1000).size(), 1000U);
  EXPECT_FALSE(Key::random() == Key::random());
}

TEST(Crypto, UnsealsWhatItSealed) {
  for (const std::string& plain : {std::string(), std::string("x"), std::string(5000, 'y')}) {
    const auto sealed = seal(key_of('k'), plain);
    ASSERT_TRUE(sealed);
    EXPECT_EQ(sealed->size(), plain.size() + kSealBytes);
    EXPECT_EQ(unseal(key_of('k'), *sealed), plain);
    EXPECT_NE(*seal(key_of('k'), plain), *sealed) << "each seal has a nonce of its own";
  }
}

TEST(Crypto, DoesNotUnsealChangedBytesNorWithAnotherKey) {
  const std::string sealed = *seal(key_of('k'), "rights");
  EXPECT_EQ(unseal(key_of('l'), sealed), std::nullopt);
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_EQ(unseal(key_of('k'), changed), std::nullopt) << i;
    EXPECT_EQ(unseal(key_of('k'), sealed.substr(0, i)), std::nullopt) << i;
  }
}

TEST(Crypto, LeavesNoErrorBehind) {
  static_cast<void>(unseal(key_of('k'), std::string(100, 'x')));
  EXPECT_EQ((*openssl::library())->ERR_peek_error(), 0U);
}

TEST(Crypto, Base64urlHasOneFormForEachText) {
  // RFC 4648, section 10, without padding.
  EXPECT_EQ(encode_base64url("foobar"), "Zm9vYmFy");
  EXPECT_EQ(encode_base64url("fooba"), "Zm9vYmE");
  EXPECT_EQ(encode_base64url("foob"), "Zm9vYg");
  EXPECT_EQ(encode_base64url("\xff\xfe"), "__4");
  EXPECT_EQ(decode_base64url("Zm9vYmE"), "fooba");
  EXPECT_EQ(decode_base64url("__4"), "\xff\xfe");
  for (const char* wrong : {"Zm9vYmF", "A", "Zm9v=", "Zm9v\n", "Zm+v", "__5"}) {
    EXPECT_EQ(decode_base64url(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace tally::net::crypto
