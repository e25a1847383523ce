// Whose process serves a Unix socket. Any user can make a socket in /tmp before a node does.
#pragma once

#include <string_view>

#include "base/result.h"

namespace tally::rpc {

// Whether the process that listens at the other end of this socket may get a token or memory: it
// belongs to root, to this user, or to the user that $TALLY_NODE_USER names (default: tally).
// `address` is for the message.
Outcome check_socket_owner(int socket, std::string_view address);

}  // namespace tally::rpc
