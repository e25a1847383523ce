// Requests from all nodes of a service the data that tallyctl top shows. One thread at a time uses
// it. It blocks, with a deadline on every request.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/cli/top/look.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control::top {

class Poller {
 public:
  // `addresses` are those of nodes or coordinators, separated by commas. The first address that
  // knows of members decides. When none does, the first that answers decides. `timeout` is the
  // time limit for a node's answers.
  Poller(const std::string& addresses, Nanos timeout);

  // Asks all nodes at the same time. A node that does not answer is in the result with the reason,
  // and look() asks it again after kPause at the earliest. A result without nodes means that no
  // address answers; `note` says why.
  Look look();

 private:
  struct Node {
    std::optional<rpc::RpcChannel> channel;
    NodeLook last;  // its failure stays valid until ask_from
    Nanos ask_from = 0;
  };
  static constexpr Nanos kPause = 5 * kSecond;

  void find_members(Look& look);
  bool members_at(const std::string& address, Look& look);
  void ask(Node& node) const;
  Outcome ask_all(Node& node, Nanos deadline) const;

  const std::vector<std::string> addresses_;
  const Nanos timeout_;
  std::string coordinator_;                        // the last coordinator that answered
  std::optional<rpc::RpcChannel> to_coordinator_;  // or to a node without a cluster
  std::map<std::string, Node> nodes_;              // key: node name
  std::vector<std::string> order_;                 // members in the last look that had members
};

}  // namespace tally::control::top
