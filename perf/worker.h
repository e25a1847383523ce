// One rank from session to last row.
#pragma once

#include "base/fd.h"
#include "perf/options.h"

namespace tally::perf {

// A worker that its parent spawned: gets its options over the socket and reports there. Returns
// the exit status.
int run_spawned_worker(UniqueFd socket);

// One rank of many that know nothing of each other but the job's name. The ranks exchange their
// figures with an all-gather, which copies and computes nothing, and rank 0 prints.
int run_lone_worker(Options options);

}  // namespace tally::perf
