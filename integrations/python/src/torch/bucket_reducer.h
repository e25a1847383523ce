// Gradient buckets of DistributedDataParallel: averaged by the node, one future each.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <map>
#include <memory>
#include <mutex>

#include "integrations/python/src/communicator.h"

namespace tally::python {

class BucketReducer {
 public:
  explicit BucketReducer(std::shared_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)), results_(std::make_shared<Results>()) {}

  // Averages `in` over all ranks into `out` (the same tensor: in place). `value` is what the future
  // gives. The tag is the bucket's number; a higher number goes first: it is the next forward pass
  // that needs it first.
  c10::intrusive_ptr<c10::ivalue::Future> average(std::uint32_t bucket, const at::Tensor& in,
                                                  const at::Tensor& out, c10::IValue value,
                                                  c10::TypePtr type, bool stats);

  struct Statistics {
    double sum_of_squares = 0;
    std::uint64_t nonfinite = 0;
  };
  // Of the last result of every bucket together, in the order of the buckets.
  Statistics statistics() const;

 private:
  struct Results {
    std::mutex mutex;
    std::map<std::uint32_t, Statistics> of_bucket;
  };

  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<Results> results_;
};

}  // namespace tally::python
