// Averages gradient buckets of DistributedDataParallel that are in the memory of CUDA devices. The
// future of a bucket is complete at once, and the streams of its users wait for the average.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "integrations/python/src/torch/bucket_reducer.h"
#include "integrations/python/src/torch/device_collectives.h"

namespace tally::python {

// Every rank calls average() for the same buckets in the same order. After a failure all later
// calls throw it; a lost node is a failure.
class DeviceReducer {
 public:
  DeviceReducer(const std::shared_ptr<Communicator>& communicator,
                DeviceCollectives::Timeout deadline)
      : communicator_(communicator), collectives_(communicator), deadline_(deadline) {}

  // Averages the bucket in place. The future returns `value`, of type `type`.
  WorkPtr average(std::uint32_t index, const at::Tensor& bucket, std::optional<at::ScalarType> wire,
                  bool stats, c10::IValue value, const c10::TypePtr& type);
  // As BucketReducer's. The host waits for the buckets that are under way.
  BucketReducer::Statistics statistics() const;
  std::uint64_t copied_bytes() const { return collectives_.copied_bytes(); }

 private:
  std::shared_ptr<Communicator> communicator_;
  DeviceCollectives collectives_;
  const DeviceCollectives::Timeout deadline_;
  mutable std::mutex mutex_;                                            // guards all below
  std::map<std::uint32_t, c10::intrusive_ptr<DeviceWork>> with_stats_;  // key: bucket index
};

}  // namespace tally::python
