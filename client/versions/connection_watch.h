// One descriptor for the events of a session: of the connections of all versions, and of its
// coordinator. A session sleeps at this descriptor and asks it which connections have events. The
// cost does not depend on the number of nodes. A session with one connection and no coordinator
// uses the descriptor of the connection and no epoll. One thread at a time uses it.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/result.h"
#include "base/system/alarm.h"
#include "base/system/fd.h"
#include "client/versions/plan_versions.h"

namespace tally::client {

class ConnectionWatch {
 public:
  // `coordinator` is the descriptor of the coordinator's connection; -1: there is none.
  ConnectionWatch(const PlanVersion& first, int coordinator);

  // Watches the coordinator and the first version.
  Outcome begin(PlanVersion& first);
  // Watches another coordinator; -1: there is none. Preconditions: begin() had one, and its
  // descriptor is closed.
  Outcome watch_coordinator(int fd);
  // Watches one more version until its connections close.
  Outcome add(PlanVersion& version);
  // The same descriptor for the life of the session.
  int fd() const { return epoll_ ? epoll_.get() : only_connection_; }

  // Marks the connections that have events, for ConnectionTable::read_events(). The connections of
  // the next version are all marked, because nobody receives from them.
  void mark_events(const PlanVersions& versions);
  // Sleeps until an event comes, or until `until`. False: a completion was already there.
  bool sleep(const PlanVersions& versions, Nanos now, Nanos until) const;
  // Makes fd() readable at `when`, while no connection can. Without a coordinator it does nothing.
  void set_alarm(Nanos when) {
    if (epoll_) alarm_.set(when);
  }

 private:
  int only_connection_;
  int coordinator_;
  UniqueFd epoll_;
  Alarm alarm_;
  std::uint32_t next_event_ = 0;
};

}  // namespace tally::client
