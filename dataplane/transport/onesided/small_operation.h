// The messages of a small operation, for tests of transports.
#pragma once

#include "dataplane/wire/completion.h"
#include "dataplane/wire/notice.h"

namespace tally::transport::onesided {

// A notice of a rank whose contribution starts at byte 5000 of its region 1.
inline wire::Notice small_notice(std::uint32_t cookie) {
  wire::Notice made;
  made.cookie = cookie;
  made.count = 1;
  made.in_region = made.out_region = 1;
  made.in_offset = 5000;
  return made;
}

inline RingEntry small_completion(std::uint32_t cookie, Status status = Status::kOk) {
  wire::Completion made;
  made.cookie = cookie;
  made.status = status;
  return wire::encode(made);
}

}  // namespace tally::transport::onesided
