// Why a requester has failed.
#pragma once

#include <cstdint>

namespace tally::transport::roce {

enum class Failure : std::uint8_t {
  kNone,
  kNoAnswer,        // the other end does not answer
  kNotReady,        // the other end has no buffer for messages
  kAccess,          // the other end refuses access to its memory
  kInvalidRequest,  // the other end says that a request does not fit the connection
  kOperation,       // the other end says that it cannot
};
// For operators; without a full stop.
const char* to_text(Failure failure);

}  // namespace tally::transport::roce
