// One collective of torch.distributed in progress. It consists of one or more operations.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "integrations/python/src/communicator.h"

namespace tally::python {

// Puts the words of torch's own backends before the message. Frameworks decide by them whether to
// start the ranks again.
Failure with_known_words(const Failure& failure);

// The name of a collective's span in torch's profiler.
const char* title_of(c10d::OpType kind);

class Work final : public c10d::Work {
 public:
  // result() and the future return `outputs`. When all operations have succeeded, `finish` runs
  // first, on the thread that takes the last completion. torch's profiler shows a span from here to
  // the end, with the shapes of `inputs`. `sequence` is the number of the collective in its group.
  Work(const std::shared_ptr<Communicator>& communicator, c10d::OpType kind, std::uint64_t sequence,
       const std::vector<at::Tensor>& inputs, std::vector<at::Tensor> outputs,
       std::function<void()> finish);

  // Posts all requests. `keep` has tensors that must live until the end. When a post fails, the
  // work ends with that failure, and wait() throws it.
  static void start(const c10::intrusive_ptr<Work>& work, const std::vector<Request>& requests,
                    std::vector<at::Tensor> keep);

  bool wait(std::chrono::milliseconds timeout) override;
  bool isCompleted() override;
  bool isSuccess() const override;
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override { return sequence_; }
  // Ends the session of the group, and with it all of the group's works: nodes cannot take one
  // operation back.
  void abort() override;

 private:
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  bool await_close(std::optional<Nanos> until) const;
  void end_one(const Outcome& outcome);
  void end_all();

  std::weak_ptr<Communicator> communicator_;  // its end ends the work
  const std::uint64_t sequence_;
  std::vector<at::Tensor> outputs_;
  std::vector<at::Tensor> keep_;
  std::function<void()> finish_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::atomic<std::size_t> left_{0};
  std::mutex failure_mutex_;
  std::optional<Failure> failure_;  // the first failure
  std::atomic<bool> ended_{false};
};

}  // namespace tally::python
