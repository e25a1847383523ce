// How test transports object to a shard that breaks the seam's rules (transport.h): they throw, so
// that a simulation can say which seed did it.
#pragma once

#include <stdexcept>

namespace tally::transport {

class ContractViolation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

inline void require(bool kept, const char* rule) {
  if (!kept) throw ContractViolation(rule);
}

}  // namespace tally::transport
