// Opens libfabric at run time, so that programs and libraries that link this also load on machines
// without libfabric.
#pragma once

#include <rdma/fabric.h>
#include <sched.h>
#include <signal.h>

#include <array>
#include <string>

#include "base/result.h"

namespace tally::transport::fabric {

// The functions that libfabric exports. All other functions of libfabric are calls through the
// objects that these return.
struct Library {
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;
  decltype(&::fi_version) version = nullptr;

  // The text of an error, such as "Connection refused". error: the result of a call (negative) or
  // of a completion (positive).
  std::string text(long error) const;
};

// Undoes what libraries do to the process when they are loaded. The destructor restores the signal
// handlers and the thread's CPU affinity that the constructor found. Reason: a library that
// Debian's libfabric loads takes over SIGTERM, SIGBUS and other signals to print stacks.
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

// The system's libfabric. It is opened once and never closed, because its providers have threads
// and exit handlers of their own. Any thread. Fails with kUnsupported when libfabric is not
// installed; the message says what to install.
Result<const Library*> library();

// Makes the TCP provider take one message at a time from a connection, so that a receive is posted
// whenever the provider takes the next message. A process with several endpoints in a domain calls
// it before the first call of libfabric.
//
// Reason: a connection whose message finds no receive waits in a list of the domain. The next
// receive wakes the first connection of that list, even if the receive was posted at another
// endpoint. Then the connection for which it was posted waits for ever (libfabric 1.17.0,
// xnet_srx_msg()).
//
// The first call sets environment variables of libfabric. No other thread may use the environment
// at that time.
void take_messages_one_by_one();

}  // namespace tally::transport::fabric
