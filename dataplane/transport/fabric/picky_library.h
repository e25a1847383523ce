// For tests: the system's libfabric, but its provider asks for what those of adapters ask for. What
// operations use on their own side has to be registered, and they have to say where; keys are the
// provider's, addresses are real ones, there is no descriptor to sleep on, and there are no
// endpoints for who does not ask that messages keep their order.
#pragma once

#include <cstddef>

#include "dataplane/transport/fabric/library.h"

namespace tally::transport::fabric::picky {

// Forgets what was seen so far.
Result<const Library*> library();
// Operations that came with the descriptor of the memory they use; all others fail.
std::size_t fine();
std::size_t refused();
// Memory that begins there was registered so often for operations of this side.
std::size_t registered(const void* data);
// An operation used memory that begins there.
bool used(const void* data);

}  // namespace tally::transport::fabric::picky
