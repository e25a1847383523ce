// One rank from session to last row.
#pragma once

#include "base/fd.h"
#include "perf/options.h"
#include "perf/process.h"

namespace tally::perf {

// Starts this program as a worker that gets these options and talks over `channel` (channel.h),
// which is borrowed.
Result<ChildProcess> start_worker(const Options& options, int channel);

// Such a worker: reads its options and reports over the channel. Returns the exit status.
int run_started_worker(UniqueFd channel, UniqueFd options);

// One rank of many that know nothing of each other but the job's name. The ranks exchange their
// figures with an all-gather, which copies and computes nothing, and rank 0 prints.
int run_lone_worker(Options options);

}  // namespace tally::perf
