// libfabric, opened at run time: programs and libraries that link this load where it is absent.
#pragma once

#include <rdma/fabric.h>
#include <sched.h>
#include <signal.h>

#include <array>
#include <string>

#include "base/result.h"

namespace tally::transport::fabric {

// The functions that libfabric exports; all others are calls through the objects that these give.
struct Library {
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;
  decltype(&::fi_version) version = nullptr;

  // "Connection refused", of what a call returned (negative) or a completion said (positive).
  std::string text(long error) const;
};

// While this lives, what libraries do to the process when they are loaded is undone at its end:
// signal handlers (one that Debian's libfabric brings along takes over SIGTERM, SIGBUS and others,
// to print stacks) and the thread's affinity.
class Undisturbed {
 public:
  Undisturbed();
  ~Undisturbed();
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  static constexpr int kSignals = 32;
  std::array<struct sigaction, kSignals> actions_;
  cpu_set_t affinity_;
};

// Opened once and never closed: its providers have threads and exit handlers of their own. Any
// thread. kUnsupported: it is not installed, and what to do about it.
Result<const Library*> library();

// For processes that have several endpoints in a domain, before the first call of libfabric: the
// TCP provider is to take one message at a time from a connection, so that a receive is posted
// whenever the next one is taken. One that finds none waits in a list of the domain's, and the next
// receive wakes the first of that list, whichever endpoint it was posted at: the connection that it
// was posted for may be another, and stands still for ever (libfabric 1.17.0, xnet_srx_msg()). Sets
// libfabric's environment variables, the first time: while no other thread uses the environment.
void take_messages_one_by_one();

}  // namespace tally::transport::fabric
