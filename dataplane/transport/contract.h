// The error of the test transports. They throw it when a shard breaks a rule of the interface
// (transport.h), so that a simulation can name the seed that led to it.
#pragma once

#include <stdexcept>

namespace tally::transport {

// The shard broke a rule of the interface; what() is the rule.
class ContractViolation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Throws ContractViolation with the rule unless kept is true.
inline void require(bool kept, const char* rule) {
  if (!kept) throw ContractViolation(rule);
}

}  // namespace tally::transport
