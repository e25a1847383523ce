#include "perf/hash.h"

#include <bit>
#include <cstring>

namespace tally::perf {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read in memory order");

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5;

template <typename Word>
Word word_at(const std::byte* data) {
  Word word;
  std::memcpy(&word, data, sizeof word);
  return word;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ round(0, lane)) * kPrime1 + kPrime4;
}

// Consumes whole 32-byte stripes; returns the merged lanes.
std::uint64_t hash_stripes(const std::byte*& data, const std::byte* end, std::uint64_t seed) {
  std::uint64_t a = seed + kPrime1 + kPrime2;
  std::uint64_t b = seed + kPrime2;
  std::uint64_t c = seed;
  std::uint64_t d = seed - kPrime1;
  for (; end - data >= 32; data += 32) {
    a = round(a, word_at<std::uint64_t>(data));
    b = round(b, word_at<std::uint64_t>(data + 8));
    c = round(c, word_at<std::uint64_t>(data + 16));
    d = round(d, word_at<std::uint64_t>(data + 24));
  }
  std::uint64_t hash = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
  for (const std::uint64_t lane : {a, b, c, d}) hash = merge(hash, lane);
  return hash;
}

std::uint64_t hash_tail(std::uint64_t hash, const std::byte* data, const std::byte* end) {
  for (; end - data >= 8; data += 8) {
    hash = std::rotl(hash ^ round(0, word_at<std::uint64_t>(data)), 27) * kPrime1 + kPrime4;
  }
  if (end - data >= 4) {
    hash = std::rotl(hash ^ (word_at<std::uint32_t>(data) * kPrime1), 23) * kPrime2 + kPrime3;
    data += 4;
  }
  for (; data < end; ++data) {
    hash = std::rotl(hash ^ (std::to_integer<std::uint64_t>(*data) * kPrime5), 11) * kPrime1;
  }
  return hash;
}

}  // namespace

std::uint64_t xxh64(const void* data, std::size_t bytes, std::uint64_t seed) {
  const auto* at = static_cast<const std::byte*>(data);
  const std::byte* end = at + bytes;
  std::uint64_t hash = bytes >= 32 ? hash_stripes(at, end, seed) : seed + kPrime5;
  hash = hash_tail(hash + bytes, at, end);
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

std::uint64_t combine_hashes(std::span<const std::uint64_t> hashes) {
  return hashes.size() == 1 ? hashes.front() : xxh64(hashes.data(), hashes.size_bytes());
}

}  // namespace tally::perf
