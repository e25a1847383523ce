#include "client/api/abi_structs.h"

#include <fmt/format.h>

namespace tally::client {

Error wrong_size(const char* name, std::size_t size, std::size_t known) {
  return {Status::kInvalidArgument,
          fmt::format("{}.size {}: set it to sizeof({}), which is {} in this release, and zero the "
                      "fields that are not used",
                      name, size, name, known)};
}

Error missing_struct(const char* name) {
  return {Status::kInvalidArgument,
          fmt::format("{} is NULL: give one, with its size set to sizeof({})", name, name)};
}

Error unknown_field(const char* name, std::size_t at, std::size_t known) {
  return {Status::kInvalidArgument,
          fmt::format("{}: byte {} is not zero, and this library knows {} bytes of it: zero the "
                      "whole struct first, or use a library as new as the header",
                      name, at, known)};
}

Outcome read_options(const tally_session_options* from, tally_session_options& to) {
  if (auto fine = read_struct(from, to); !fine) return fine;
  if (to.size <= offsetof(tally_session_options, quorum)) {
    to.on_rank_loss = TALLY_RANK_LOSS_DEFAULT;
  }
  return Unit{};
}

}  // namespace tally::client
