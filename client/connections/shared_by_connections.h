// What all connections of a session share: threads, open devices and registrations. Their number
// does not grow with the number of nodes.
#pragma once

#include <memory>

namespace tally::client {

class FabricProgress;
class VerbsDevices;

struct SharedByConnections {
  // Null when each connection makes its own.
  std::shared_ptr<FabricProgress> progress{};
  std::shared_ptr<VerbsDevices> devices{};

  // Makes all shared objects.
  static SharedByConnections make();
};

}  // namespace tally::client
