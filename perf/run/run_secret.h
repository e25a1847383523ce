// What the hosts of a run share: workers show it to the node that the run starts on TCP, and hosts
// to the conductor.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "net/tls/tls_context.h"
#include "perf/options/options.h"

namespace tally::perf {

struct RunSecret {
  std::string token;   // what workers show
  std::string secret;  // of the node that the run starts; empty: it serves everybody
  std::shared_ptr<const net::tls::ServerContext> tls;  // for other hosts; none: in clear
};

// The user's --token or $TALLY_TOKEN. Without one, a run on one host gets a secret that nobody else
// knows, and a run with
// --serve an error. With $TALLY_INSECURE=1 there is no secret. starts_node: the run starts a node
// on TCP.
Result<RunSecret> choose_secret(const Options& options, bool starts_node);

}  // namespace tally::perf
