// Looks for the coordinator at which a rank can resume its job, in a thread of its own: connections
// may take seconds, and the rank's operations go on meanwhile. One thread at a time uses it, as
// with the session.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/result.h"
#include "base/system/fd.h"
#include "base/timeouts/fault_timeouts.h"
#include "net/rpc/rpc_channel.h"
#include "net/rpc/terms.h"

namespace tally::client {

// A coordinator where the rank has its place again.
struct ResumedJob {
  rpc::RpcChannel channel;
  std::uint32_t epoch = 0;  // of the version that the job has there
  rpc::HighestTerm term;
  FaultTimeouts timeouts{};
};

class CoordinatorSearch {
 public:
  // Looks until it has found one, or there is none, or `stop` is set, which it must notice within
  // some seconds. Runs in the thread of the search.
  using Find = std::function<Result<ResumedJob>(const std::atomic<bool>& stop)>;

  // Begins to search.
  explicit CoordinatorSearch(Find find);
  // Stops the search, and waits for that.
  ~CoordinatorSearch();
  CoordinatorSearch(const CoordinatorSearch&) = delete;
  CoordinatorSearch& operator=(const CoordinatorSearch&) = delete;

  // Readable when the search is over. -1: there is no descriptor left, and it is over already.
  int fd() const { return over_.get(); }
  // Returns the outcome once it is there, without waiting; none before that.
  std::optional<Result<ResumedJob>> take();

 private:
  void run(const Find& find);

  UniqueFd over_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::optional<Result<ResumedJob>> found_;  // under mutex_
  std::thread thread_;
};

}  // namespace tally::client
