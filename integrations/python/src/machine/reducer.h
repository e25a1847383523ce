// All-reduces of a rank's device tensors through a machine group (gpu_bridge/group): NCCL sums
// within the host, and each rank sends its share through Tally.
#pragma once

#include <sys/types.h>
#include <tally/tally.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "gpu_bridge/group/machine_group.h"
#include "integrations/python/src/communicator.h"
#include "integrations/python/src/machine/layout.h"

namespace tally::python {

struct SessionCloser {
  void operator()(tally_session* session) const { tally_close(session); }
};
using OwnedSession = std::unique_ptr<tally_session, SessionCloser>;

// Any thread. The communicator outlives all calls but the destructor. Its end must call close():
// Communicator::at_close().
class MachineReducer {
 public:
  // Smaller all-reduces take more time for their steps than for their bytes.
  static constexpr std::uint64_t kLeastBytes = std::uint64_t{1} << 20;

  struct Parts {
    const cuda::Driver* driver = nullptr;
    cuda::Context context = nullptr;
    MachineLayout layout;
    std::vector<OwnedSession> sessions;  // of the group
    std::unique_ptr<gpu::MachineGroup> group;
  };
  MachineReducer(Communicator& communicator, Parts parts);
  ~MachineReducer();
  MachineReducer(const MachineReducer&) = delete;
  MachineReducer& operator=(const MachineReducer&) = delete;

  cuda::Context context() const { return parts_.context; }
  // Whether post() takes this operation, also in parts that have `request.count` elements together.
  // All ranks give the same answer.
  bool takes(const Request& request) const;

  // As Communicator::post(), for an all-reduce in place: `request.in` and `request.out` are in the
  // `bytes` at `buffer`, an allocation of the device that stays until the session ends. Waits while
  // too many operations are outstanding. Throws Failure when nothing was announced.
  void post(const Request& request, void* buffer, std::size_t bytes, Done done);

  // Operations that are outstanding end as cancelled.
  void close();

 private:
  void add_buffer(void* buffer, std::size_t bytes);
  void follow();
  Outcome outcome_of(const gpu::GroupCompletion& completion) const;

  Communicator& communicator_;
  Parts parts_;
  std::mutex mutex_;  // guards all below, and calls of the group other than wait()
  std::condition_variable changed_;
  std::unordered_map<std::uint64_t, Done> outstanding_;
  std::set<void*> buffers_;
  std::uint64_t next_ = 0;
  bool closing_ = false;
  pid_t process_;  // a forked child has no thread to join
  std::thread thread_;
};

}  // namespace tally::python
