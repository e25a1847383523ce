// Where hosts join a run. The lobby takes connections until every awaited rank is there and agrees
// with the run's options. A host sends these messages, one line each (net/line_channel.h):
//   {"event":"join","protocol":3,"rank":R}     answered by {"event":"options","options":{...}}
//   {"event":"agreed"}                         answered by {"event":"start"} when all have
// Either side may send {"event":"refused","message":"why"} instead, and hang up.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "net/line_channel.h"
#include "net/tcp.h"
#include "net/tls/tunnel.h"
#include "perf/options/options.h"

namespace tally::perf {

inline constexpr std::uint32_t kJoinProtocol = 3;

// A worker on another host.
struct Guest {
  std::unique_ptr<net::tls::Tunnel> tunnel;  // ends after the channel
  std::unique_ptr<net::Channel> channel;
  std::string host;
  std::string here;  // this host's address, as the guest reaches it
};

class Lobby {
 public:
  struct Setting {
    const Options& options;            // of the run; borrowed
    std::uint16_t node_port = 0;       // of the node on this host; 0: the node is at
                                       // options.address
    std::vector<std::uint32_t> ranks;  // the awaited ranks
    std::shared_ptr<const net::tls::ServerContext> tls;  // none: in clear
    std::function<void(const std::string&)> print;       // prints a line at once
  };
  // `listener` is borrowed and must outlive the lobby.
  Lobby(Setting setting, int listener);

  // Returns the guests by rank. kDeadline: the error names the missing ranks. kCancelled:
  // `interrupt` became readable. After a failure all guests get the message that the run does not
  // take place.
  Result<std::map<std::uint32_t, Guest>> gather(int interrupt, Nanos deadline);

 private:
  struct Visitor {
    Guest guest;
    Nanos until = 0;  // when the visitor must have sent its next message
    std::uint32_t rank = kNoRank;
    bool agreed = false;
    bool gone = false;
  };
  static constexpr std::uint32_t kNoRank = UINT32_MAX;

  bool wait(int interrupt, Nanos until);
  void let_in();
  void read_messages(Visitor& visitor);
  void handle(Visitor& visitor, const nlohmann::json& message);
  void join(Visitor& visitor, const nlohmann::json& message);
  void refuse(Visitor& visitor, const std::string& why);
  void send_away(Nanos now);
  bool is_taken(std::uint32_t rank) const;
  std::vector<std::uint32_t> missing() const;
  Error too_late() const;

  Setting setting_;
  int listener_;
  std::list<Visitor> visitors_;
  std::map<std::uint32_t, std::string> refusals_;  // the last refusal of each rank
  std::set<std::string> refused_hosts_;            // without the right token; reported
};

}  // namespace tally::perf
