// A connection of ClusterMember that another thread shuts down while one waits on it.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>

#include <list>
#include <mutex>

#include "base/system/fd.h"
#include "control/cluster/cluster_member.h"

namespace tally::control {

// A duplicate of a descriptor, which no other thread closes meanwhile. Shutting it down shuts down
// the connection.
class ClusterMember::Interruptible {
 public:
  Interruptible(ClusterMember& member, int fd) : member_(member) {
    const std::lock_guard lock(member_.mutex_);
    place_ = member_.open_.emplace(member_.open_.end(), ::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (member_.stopping_) ::shutdown(fd, SHUT_RDWR);
  }
  ~Interruptible() {
    const std::lock_guard lock(member_.mutex_);
    member_.open_.erase(place_);
  }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  ClusterMember& member_;
  std::list<UniqueFd>::iterator place_;
};

}  // namespace tally::control
