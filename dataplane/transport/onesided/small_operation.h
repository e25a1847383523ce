// For tests of transports: the messages of a small operation.
#pragma once

#include "dataplane/wire/completion.h"
#include "dataplane/wire/notice.h"

namespace tally::transport::onesided {

// From a rank with a contribution at 5000 of its region 1.
inline wire::Notice small_notice(std::uint32_t cookie) {
  wire::Notice made;
  made.cookie = cookie;
  made.count = 1;
  made.in_region = made.out_region = 1;
  made.in_offset = 5000;
  return made;
}

inline RingSlot small_completion(std::uint32_t cookie, Status status = Status::kOk) {
  wire::Completion made;
  made.cookie = cookie;
  made.status = status;
  return wire::encode(made);
}

}  // namespace tally::transport::onesided
