// Averages gradient buckets of DistributedDataParallel at the node, with one future per bucket.
//
// Every rank calls average() for the same buckets in the same order. When the node is lost,
// outstanding buckets become "stranded". The caller resumes them with a session of another node, or
// gives them up. When any rank has completed a bucket, all ranks' memory has its result
// (docs/protocol.md). The reducer repeats the other buckets when their inputs are whole.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "integrations/python/src/communicator.h"

namespace tally::python {

class BucketReducer : public std::enable_shared_from_this<BucketReducer> {
 public:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;

  explicit BucketReducer(std::shared_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}

  // Averages `in` over all ranks into `out` (in place when they are the same tensor), or takes the
  // minimum with `op`. The future returns `value`, of type `type`. The tag is the bucket's index. A
  // higher index has a higher priority, because the next forward pass needs it first.
  Future average(std::uint32_t bucket, const at::Tensor& in, const at::Tensor& out,
                 c10::IValue value, const c10::TypePtr& type, bool stats,
                 tally_op op = TALLY_AVERAGE);

  struct Statistics {
    double sum_of_squares = 0;
    std::uint64_t nonfinite = 0;
  };
  // Returns the sum over the last results of all buckets, in the order of their indices.
  Statistics statistics() const;

  struct Presence {
    std::uint32_t contributors = 0;
    std::uint32_t round = 0;
  };
  // Returns whose contributions the buckets have that ended well since the last bucket 0 was begun.
  // Key: bucket index.
  std::map<std::uint32_t, Presence> presence() const;

  // Waits. Returns true when a bucket is stranded, and false after close().
  bool wait_until_stranded();
  // Continues with this session. All ranks must call it after they have lost the same node. Throws
  // Failure when the ranks do not meet; the caller may then try again.
  void resume(std::shared_ptr<Communicator> communicator);
  // Ends the stranded buckets with this failure.
  void give_up(const Failure& failure);
  void close();

 private:
  struct Bucket {
    std::uint64_t number = 0;  // position in the order of calls
    std::uint32_t index = 0;
    at::Tensor in, out;
    c10::IValue value;
    Future future;
    bool stats = false;
    tally_op op = TALLY_AVERAGE;
  };
  using SharedBucket = std::shared_ptr<Bucket>;
  // A bucket in ordinary memory of torch. The constructor moves it into memory that the node can
  // map, for as long as the buffer is a bucket.
  class Adoption {
   public:
    Adoption(std::shared_ptr<Communicator> communicator, at::Tensor buffer);
    ~Adoption();
    Adoption(const Adoption&) = delete;
    Adoption& operator=(const Adoption&) = delete;
    bool covers(const Communicator& communicator, const at::Tensor& buffer) const;

   private:
    std::shared_ptr<Communicator> communicator_;
    at::Tensor buffer_;
  };
  // The completed buckets of one rank. The ranks exchange these reports.
  struct Report;

  void post(const SharedBucket& bucket);
  void adopt(std::uint32_t bucket, const at::Tensor& buffer,
             const std::shared_ptr<Communicator>& communicator);
  // `session` counts resumes: the session to which the bucket was posted.
  void ended(const SharedBucket& bucket, const Outcome& outcome, std::uint64_t session);
  void fail(const SharedBucket& bucket, const Failure& failure);
  void complete(const SharedBucket& bucket, const Statistics& statistics);
  std::vector<Report> exchange(Communicator& communicator);

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::shared_ptr<Communicator> communicator_;
  std::uint64_t session_ = 0;
  std::uint64_t next_number_ = 0;
  std::map<std::uint64_t, SharedBucket> outstanding_;  // key: number; includes the stranded ones
  std::map<std::uint64_t, SharedBucket> stranded_;
  std::map<std::uint64_t, Statistics> completed_;  // the most recent ones; key: number
  std::map<std::uint32_t, Statistics> of_bucket_;  // of this backward pass or the last one
  std::map<std::uint32_t, Presence> presence_;     // the same
  std::map<std::uint32_t, std::unique_ptr<Adoption>> adopted_;  // key: bucket index
  bool closed_ = false;
};

}  // namespace tally::python
