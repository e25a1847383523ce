// The process at the other end of a Unix socket, by a descriptor that stays with it: a number may
// be another process's by the time it is looked at.
#pragma once

#include "base/fd.h"

namespace tally {

// Readable once the process that connected (or listens, seen from the client) has ended, all its
// threads with it. A hang-up says less: a process that ends a session hangs up and runs on, and the
// child of a fork may hold a dead parent's sockets open. Empty where the kernel does not tell.
UniqueFd process_behind(int socket);

// `process`: from process_behind(); -1 has not ended.
bool has_ended(int process);

}  // namespace tally
