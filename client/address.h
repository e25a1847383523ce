// Where a node listens and where it is looked for. Both sides use these, so that a node and a
// client which are started without any option find each other.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace tally::client {

inline constexpr std::string_view kSystemAddress = "unix:/run/tally/tallyd.sock";

struct UnixAddress {
  std::string path;
  sockaddr_un socket{};
};

// "unix:/path" or "/path"; an error says what is wrong with it and what would be right.
Result<UnixAddress> parse_address(std::string_view address);

// Where a node of this user listens by default: kSystemAddress for root, else in the user's own
// $XDG_RUNTIME_DIR, or /tmp/tally-<uid> where there is none.
std::string default_listen_address();

// Where a client looks by default: $TALLY_ADDRESS, else kSystemAddress if there is a socket, else
// this user's own node.
std::string default_connect_address();

}  // namespace tally::client
