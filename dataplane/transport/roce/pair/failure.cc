#include "dataplane/transport/roce/pair/failure.h"

namespace tally::transport::roce {

const char* to_text(Failure failure) {
  switch (failure) {
    case Failure::kNone:
      return "no failure";
    case Failure::kNoAnswer:
      return "it does not answer: its machine is down or cut off, or the way to it loses packets";
    case Failure::kNotReady:
      return "it has taken no messages";
    case Failure::kAccess:
      return "memory that it has named is not registered for reading and writing by others, or not "
             "any more";
    case Failure::kInvalidRequest:
    case Failure::kOperation:
      return "its adapter refuses a request";
  }
  return "";
}

}  // namespace tally::transport::roce
