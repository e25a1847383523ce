// Next hops by the kernel's tables, for a port beside the kernel. A thread of its own asks the
// kernel, because a question can wait for the kernel's locks, and a shard must not.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "dataplane/transport/roce/kernel/hop_table.h"
#include "dataplane/transport/roce/kernel/kernel_tables.h"
#include "dataplane/transport/roce/port/next_hops.h"

namespace tally::transport::roce {

class KernelNextHops final : public NextHops {
 public:
  explicit KernelNextHops(std::unique_ptr<KernelTables> tables,
                          const HopTableOptions& options = {});
  ~KernelNextHops() override;

  // `now` is of monotonic_now().
  Resolution resolve(const IpAddress& target, Nanos now) override;

 private:
  void run();

  std::unique_ptr<KernelTables> tables_;  // the thread's alone
  std::mutex mutex_;                      // never held during a question to the kernel
  std::condition_variable wakes_;
  HopTable table_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace tally::transport::roce
