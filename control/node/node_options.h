// The options of a node's control, which stay the same while the node runs. Its time-outs may
// change: when it joins a coordinator, that one's fault time-out counts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/timeouts/fault_timeouts.h"
#include "control/access/access.h"
#include "control/coordinator/rpc/service.h"
#include "control/node/introspection.h"
#include "control/node/jobs/admission.h"
#include "control/node/regions/client_memory.h"
#include "control/node/shards/transports.h"
#include "control/probe/service.h"
#include "net/server/peer.h"
#include "net/server/service.h"
#include "net/tls/credentials.h"

namespace tally::control {

// The shards' endpoints for workers on other machines.
struct FabricOffer {
  std::string provider;         // libfabric's name of the provider
  std::string host;             // the host that the endpoints bind to
  std::size_t eager_bytes = 0;  // most bytes of payload that may follow a notice
};
struct VerbsOffer {
  std::string device;
  std::string gid;
  std::uint8_t ack_timeout = transport::verbs::kAckTimeout;  // for both ends
  bool in_user_space = false;  // true: by transport roce, without an RDMA device
};

struct NodeOptions {
  NodeFacts facts;
  std::uint64_t split_bytes = 256 << 10;  // operations of at least this size go to all shards of
                                          // their job
  std::uint32_t credit = 256;
  FaultTimeouts timeouts;
  bool checksums = false;  // true when the shards check checksums
  AdmissionLimits limits;
  std::optional<FabricOffer> fabric;  // set when the shards offer fabric
  std::optional<VerbsOffer> verbs;    // set when the shards offer verbs
  std::vector<Rail> rails;  // the rails that the shards' transports bind to; empty: no rails
  std::vector<ConfiguredJob> jobs;
  // Options of this node as a coordinator, which every node can be.
  std::string coordinators;  // cluster.coordinators; empty: the node is in no cluster
  bool is_elected = false;   // it acts as a coordinator only during terms that it is elected for
  std::function<CoordinatorStatus()> status = [] { return CoordinatorStatus{}; };
  PlanForRacks plan_for_racks{};  // empty: it plans stars alone
  std::string name;               // the node's name as a member
  probe::ProbeOptions probe;
  MemoryCalls memory_calls;
  // The peer of a connection; the peer's source owns the jobs that the peer opens.
  std::function<rpc::Peer(rpc::ConnectionId)> peer_of = [](rpc::ConnectionId) {
    return rpc::Peer();
  };
  // The access rules, shared with the server.
  std::shared_ptr<Access> access = std::make_shared<Access>();
  // What this node shows to other nodes.
  net::tls::Credentials credentials{};
};

}  // namespace tally::control
