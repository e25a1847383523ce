// The process at the other end of a Unix socket, as a pidfd. A pidfd stays with its process. A
// process number may belong to another process by the time the caller uses it.
#pragma once

#include "base/system/fd.h"

namespace tally {

// Returns a pidfd of the process that connected, or, at the client, of the process that listens. It
// becomes readable when that process has ended with all its threads. A hang-up of the socket says
// less. A process that ends a session hangs up and continues to run. A forked child may hold a dead
// parent's sockets open. Returns an empty descriptor when the kernel does not report the process.
UniqueFd process_behind(int socket);

// `process` is a descriptor from process_behind(). Returns false for -1.
bool has_ended(int process);

}  // namespace tally
