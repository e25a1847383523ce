// Which transport a session takes: the best that both ends have, or the one that is asked for.
#pragma once

#include <memory>
#include <string>

#include "client/link.h"
#include "client/rpc_channel.h"

struct ibv_pd;  // of libibverbs; NOLINT(readability-identifier-naming)

namespace tally::client {

struct ChosenLink {
  std::unique_ptr<Link> link;
  std::string why;           // this one, and not a better one
  bool second_best = false;  // the node offers a better one, which cannot be had
};

// What is asked for.
struct LinkWish {
  std::string transport;     // empty: the best
  std::string device;        // of verbs: "DEVICE[:PORT[:GID-INDEX]]"; empty: the one that fits
  ibv_pd* domain = nullptr;  // of verbs: the caller's own; borrowed for the link's life
};

// `text`: "shm", "verbs", "verbs:DEVICE[:PORT[:GID-INDEX]]", "fabric", or empty. A `domain` is a
// wish for verbs: kInvalidArgument with another one.
Result<LinkWish> read_wish(const std::string& text, ibv_pd* domain);

struct LinkSize {
  std::uint32_t shards = 0;
  std::uint32_t credit = 0;  // for each
};

// The best: shm at the node's Unix socket, else verbs where both ends have it and packets get
// through, else fabric if its connections can be made, also instead of shm. `opened`: the node's
// answer to session.open. Attaches the session. A transport that was asked for and cannot be had is
// an error that says why.
Result<ChosenLink> make_link(RpcChannel& channel, const nlohmann::json& opened,
                             const LinkWish& wish, const LinkSize& size, Nanos deadline);

}  // namespace tally::client
