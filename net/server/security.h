// Who is served over TCP. Unix sockets have the kernel's word about their peers and need none of
// this.
#pragma once

#include <memory>

#include "net/tls/tls_context.h"

namespace tally::rpc {

struct Security {
  // Accepts peers that begin with TLS. None: they are refused.
  std::shared_ptr<const net::tls::ServerContext> tls;
  // Whether a peer without TLS is served. False: it gets a message that says what it must show.
  bool plaintext = true;
};

}  // namespace tally::rpc
