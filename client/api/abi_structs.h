// Reads and writes the structs of the C interface. A struct can have another length in each
// release: the caller's `size` is the length at the caller's compile time. Structs only grow, so a
// shorter struct lacks the fields that later releases appended.
#pragma once

#include <tally/tally.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/result.h"

namespace tally::client {

// kLeast: the length of the struct in the first release.
template <typename Struct>
struct AbiStruct;
template <>
struct AbiStruct<tally_session_options> {
  static constexpr const char* kName = "tally_session_options";
  static constexpr std::size_t kLeast = offsetof(tally_session_options, transport);
};
template <>
struct AbiStruct<tally_session_info> {
  static constexpr const char* kName = "tally_session_info";
  static constexpr std::size_t kLeast = offsetof(tally_session_info, copied_bytes);
};
template <>
struct AbiStruct<tally_memory> {
  static constexpr const char* kName = "tally_memory";
  static constexpr std::size_t kLeast = offsetof(tally_memory, ibv_mr);
};
template <>
struct AbiStruct<tally_operation> {
  static constexpr const char* kName = "tally_operation";
  static constexpr std::size_t kLeast = sizeof(tally_operation);
};
template <>
struct AbiStruct<tally_completion> {
  static constexpr const char* kName = "tally_completion";
  static constexpr std::size_t kLeast = offsetof(tally_completion, contributors);
};

// Each returns kInvalidArgument with a message. wrong_size(): no release has a struct of `size`
// bytes. `known` is the length in this release, in bytes. unknown_field(): byte `at` of the struct
// is not zero, and this release does not know it.
Error wrong_size(const char* name, std::size_t size, std::size_t known);
Error missing_struct(const char* name);
Error unknown_field(const char* name, std::size_t at, std::size_t known);

// Bytes. A larger `size` cannot come from a later release: the caller did not set the field.
inline constexpr std::size_t kLongestStruct = 4096;

template <typename Struct>
bool has_size(const Struct& given) {
  return given.size >= AbiStruct<Struct>::kLeast && given.size <= kLongestStruct &&
         given.size % alignof(Struct) == 0;
}

// Returns whether `given.size` can be the length of this struct in some release.
template <typename Struct>
Outcome check_struct(const Struct* given) {
  if (given == nullptr) return missing_struct(AbiStruct<Struct>::kName);
  if (has_size(*given)) return Unit{};
  return wrong_size(AbiStruct<Struct>::kName, given->size, sizeof(Struct));
}

// Copies the caller's struct into `to`. Fields that an older caller lacks become zero. A newer
// caller's fields that this library does not know must be zero, else the result is an error.
template <typename Struct>
Outcome read_struct(const Struct* from, Struct& to) {
  if (auto fine = check_struct(from); !fine) return fine;
  to = Struct{};
  std::memcpy(&to, from, std::min(from->size, sizeof(Struct)));
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t at = sizeof(Struct); at < from->size; ++at) {
    if (bytes[at] != 0) return unknown_field(AbiStruct<Struct>::kName, at, sizeof(Struct));
  }
  return Unit{};
}

// The same for options. The struct that ended with `checksums` had padding where `on_rank_loss` is,
// and nobody has set these bytes: they count as zero.
Outcome read_options(const tally_session_options* from, tally_session_options& to);

// Copies as many bytes as the caller's struct has room for, and keeps the caller's `size`.
// Precondition: check_struct() succeeded.
template <typename Struct>
void write_struct(const Struct& from, Struct* to) {
  const std::size_t size = to->size;
  std::memcpy(to, &from, std::min(size, sizeof(Struct)));
  to->size = size;
}

}  // namespace tally::client
