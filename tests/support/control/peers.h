// Peers for tests: who they are is all that the access rules look at.
#pragma once

#include <string>

#include "control/access/caller.h"
#include "net/auth/key_ring.h"
#include "net/server/peer.h"

namespace tally::testing {

// A user at the Unix socket.
inline rpc::Peer local_peer(uid_t uid, bool is_operator = false) {
  rpc::Peer peer;
  peer.pid = 1;
  peer.uid = uid;
  peer.name = "pid 1, uid " + std::to_string(uid);
  peer.source = "uid " + std::to_string(uid);
  peer.is_operator = is_operator;
  return peer;
}

// Root, or the node's own user.
inline rpc::Peer operator_peer() {
  return local_peer(0, true);
}

// A peer over TCP that shows nothing.
inline rpc::Peer remote_peer() {
  rpc::Peer peer;
  peer.name = "10.0.0.9:40000";
  peer.source = peer.host = "10.0.0.9";
  return peer;
}

inline rpc::Peer remote_peer(net::auth::Proof::Kind kind, net::auth::Rights rights = {}) {
  rpc::Peer peer = remote_peer();
  peer.proof = net::auth::Proof{.kind = kind, .jobs = {}, .rights = std::move(rights)};
  return peer;
}

// A rank whose request shows a text, as nobody in particular.
inline control::Caller shows(std::string text) {
  return {.is_operator = false, .user = {}, .proof = {}, .text = std::move(text)};
}

}  // namespace tally::testing
