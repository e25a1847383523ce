// Where hosts join a run: takes connections until every awaited rank is there and agrees with the
// run's options. A host says, one line each (channel.h):
//   {"event":"join","protocol":1,"rank":R}     answered by {"event":"options","options":{...}}
//   {"event":"agreed"}                         answered by {"event":"start"} when all have
// Either side may say {"event":"refused","message":"why"} instead, and hang up.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/tcp.h"
#include "perf/channel.h"
#include "perf/options.h"

namespace tally::perf {

inline constexpr std::uint32_t kJoinProtocol = 2;

// A worker on another host.
struct Guest {
  std::unique_ptr<Channel> channel;
  std::string host;
};

class Lobby {
 public:
  struct Setting {
    const Options& options;            // of the run
    std::uint16_t node_port = 0;       // of the node on this host; 0: it is at options.address
    std::vector<std::uint32_t> ranks;  // that are awaited
    std::function<void(const std::string&)> tell;  // what a person should know at once
  };
  // Precondition: `listener` outlives the lobby.
  Lobby(Setting setting, int listener);

  // kDeadline: not all came, the error names who is missing; kCancelled: `interrupt` became
  // readable. Guests who wait are told that the run does not take place.
  Result<std::map<std::uint32_t, Guest>> gather(int interrupt, Nanos deadline);

 private:
  struct Visitor {
    Guest guest;
    Nanos until = 0;  // to say what it is to say next
    std::uint32_t rank = kNobody;
    bool agreed = false;
    bool gone = false;
  };
  static constexpr std::uint32_t kNobody = UINT32_MAX;

  bool wait(int interrupt, Nanos until);
  void let_in();
  void hear(Visitor& visitor);
  void obey(Visitor& visitor, const nlohmann::json& message);
  void join(Visitor& visitor, const nlohmann::json& message);
  void refuse(Visitor& visitor, const std::string& why);
  void send_away(Nanos now);
  bool is_taken(std::uint32_t rank) const;
  std::vector<std::uint32_t> missing() const;
  Error too_late() const;

  Setting setting_;
  int listener_;
  std::list<Visitor> visitors_;
  std::map<std::uint32_t, std::string> refusals_;  // the last of each rank
};

}  // namespace tally::perf
