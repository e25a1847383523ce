// The sender of a request, as the access rules see it: the peer of the connection, and the token of
// the request.
#pragma once

#include <optional>
#include <string>

#include "net/auth/key_ring.h"

namespace tally::control {

struct Caller {
  // Root and the node's own user at the Unix socket, and whoever has the cluster's secret. With
  // --insecure everybody over TCP, because nothing tells an operator from others there.
  bool is_operator = false;
  std::string user{};  // "uid 1000@gpu7", with the host; empty over TCP
  // By TLS, or by a token or key that the request has.
  std::optional<net::auth::Proof> proof{};
  std::string text{};  // that the request shows and that is no token of the cluster's; empty: none
};

}  // namespace tally::control
