// Gradient buckets of DistributedDataParallel: averaged by the node, one future each.
//
// Every rank calls average() for the same buckets in the same order. When the node is lost, what is
// outstanding is kept ("stranded") until somebody resumes it with a session of another node, or
// gives it up. What any rank has completed stands in all ranks' memory (docs/protocol.md); the rest
// is done anew where its inputs are whole.
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

  // Averages `in` over all ranks into `out` (the same tensor: in place). `value` is what the future
  // gives, of type `type`. The tag is the bucket's number; a higher number goes first: it is the
  // next forward pass that needs it first.
  Future average(std::uint32_t bucket, const at::Tensor& in, const at::Tensor& out,
                 c10::IValue value, const c10::TypePtr& type, bool stats);

  struct Statistics {
    double sum_of_squares = 0;
    std::uint64_t nonfinite = 0;
  };
  // Of the last result of every bucket together, in the order of the buckets.
  Statistics statistics() const;

  // Waits; true: something is stranded. False: closed, there is nothing to come.
  bool wait_until_stranded();
  // Goes on with this session. All ranks call it, after they have lost the same node. Throws
  // Failure when they do not come together: then it may be tried again.
  void resume(std::shared_ptr<Communicator> communicator);
  // Ends what is stranded with this failure.
  void give_up(const Failure& failure);
  void close();

 private:
  struct Bucket {
    std::uint64_t number = 0;  // in the order of the calls
    std::uint32_t index = 0;
    at::Tensor in, out;
    c10::IValue value;
    Future future;
    bool stats = false;
  };
  using SharedBucket = std::shared_ptr<Bucket>;
  // A buffer that torch has made of ordinary memory, moved to where the node sees it for as long as
  // it serves as a bucket.
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
  // What one rank knows, as the ranks tell each other.
  struct Report;

  void post(const SharedBucket& bucket);
  void adopt(std::uint32_t bucket, const at::Tensor& buffer,
             const std::shared_ptr<Communicator>& communicator);
  // `session`: the one that it was posted to, in the order of resumes.
  void ended(const SharedBucket& bucket, const Outcome& outcome, std::uint64_t session);
  void fail(const SharedBucket& bucket, const Failure& failure);
  void complete(const SharedBucket& bucket, const Statistics& statistics);
  std::vector<Report> exchange(Communicator& communicator);

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::shared_ptr<Communicator> communicator_;
  std::uint64_t session_ = 0;
  std::uint64_t next_number_ = 0;
  std::map<std::uint64_t, SharedBucket> outstanding_;  // by number; the stranded ones too
  std::map<std::uint64_t, SharedBucket> stranded_;
  std::map<std::uint64_t, Statistics> completed_;  // the last ones, by number
  std::map<std::uint32_t, Statistics> of_bucket_;
  std::map<std::uint32_t, std::unique_ptr<Adoption>> adopted_;  // by bucket
  bool closed_ = false;
};

}  // namespace tally::python
