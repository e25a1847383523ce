// Asks all nodes of a service what top shows. Used by one thread at a time; blocks, with a deadline
// on everything.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/rpc_channel.h"
#include "control/top/look.h"

namespace tally::control::top {

class Asker {
 public:
  // `addresses`: of a node or a coordinator; several with commas between them, of which the first
  // that has members, or whose coordinator has, counts, else the first that answers. `patience`:
  // for a node's answers.
  Asker(const std::string& addresses, Nanos patience);

  // All at once. A node that does not answer is in it with the reason; it is asked again at the
  // earliest after kPause. A look without any node: nobody answers at the addresses, and `note`
  // says why.
  Look look();

 private:
  struct Node {
    std::optional<client::RpcChannel> channel;
    NodeLook last;  // whose failure stands for a while
    Nanos ask_from = 0;
  };
  static constexpr Nanos kPause = 5 * kSecond;

  void find_members(Look& look);
  bool members_at(const std::string& address, Look& look);
  void ask(Node& node) const;
  Outcome ask_all(Node& node, Nanos deadline) const;

  const std::vector<std::string> addresses_;
  const Nanos patience_;
  std::string coordinator_;                           // that answered last
  std::optional<client::RpcChannel> to_coordinator_;  // or to the node alone
  std::map<std::string, Node> nodes_;                 // by name
  std::vector<std::string> order_;                    // of members in the last look that had them
};

}  // namespace tally::control::top
