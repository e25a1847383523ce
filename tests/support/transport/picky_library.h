// For tests: the system's libfabric, with a provider that requires what the providers of adapters
// require:
// - The memory that an operation uses on its own side is registered, and the operation passes its
//   descriptor. Receives, reads and writes are checked.
// - The provider chooses the keys, and remote addresses are virtual addresses.
// - There is no descriptor to sleep on.
// - A caller that does not ask for message order (FI_ORDER_SAS) gets no endpoint.
//
// One thread.
#pragma once

#include <cstddef>

#include "dataplane/transport/fabric/library.h"

namespace tally::transport::fabric::picky {

// The library. A call sets the counters below to 0.
Result<const Library*> library();
// The number of operations with the right descriptor of the memory that they use.
std::size_t fine();
// The number of other operations, which fail with FI_EINVAL.
std::size_t refused();
// How often memory that begins at data was registered for operations of this side.
std::size_t registered(const void* data);
// True when an operation has used memory that begins at data.
bool used(const void* data);

}  // namespace tally::transport::fabric::picky
