// What a node's configuration says about security, made ready: the keys that the node accepts, the
// server's TLS, and what the node shows to other nodes.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "control/access/access.h"
#include "control/config/config.h"
#include "net/server/security.h"
#include "net/tls/credentials.h"

namespace tally::control {

struct NodeSecurity {
  std::shared_ptr<Access> access;
  rpc::Security server;
  net::tls::Credentials credentials;
};

// The error names the file and the remedy.
Result<NodeSecurity> make_security(const Config& config);

}  // namespace tally::control
