// A worker: one rank from the opening of the session to the last row.
#pragma once

#include "base/system/fd.h"
#include "perf/options/options.h"
#include "perf/run/process.h"

namespace tally::perf {

// Starts this program as a worker with these options. The worker reports over `channel`
// (net/line_channel.h), which is borrowed.
Result<ChildProcess> start_worker(const Options& options, int channel);

// Runs in the process that start_worker() started. Reads its options and reports over the channel.
// Returns the exit status.
int run_started_worker(UniqueFd channel, UniqueFd options);

// Runs one of several ranks that know only the name of the job. The ranks exchange their figures
// with an all-gather, which copies and computes nothing, and rank 0 prints them. Returns the exit
// status.
int run_lone_worker(Options options);

}  // namespace tally::perf
