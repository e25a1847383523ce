// The MachineGroup: operations from all_reduce() to their completions.
#pragma once

#include <poll.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/system/fd.h"
#include "gpu_bridge/group/agreement.h"
#include "gpu_bridge/group/buffers.h"
#include "gpu_bridge/group/collectives.h"
#include "gpu_bridge/group/machine_group.h"
#include "gpu_bridge/group/pipeline.h"

namespace tally::gpu {

// An operation of this rank. It is used again for later operations.
struct GroupWork {
  enum class State : std::uint8_t { kFree, kRunning, kAgreeing };

  State state = State::kFree;
  GroupOperation operation;
  ElementFacts element;
  Chunking chunks;
  const GroupBuffer* buffer = nullptr;
  Marks marks;
  bool has_end = false;         // marks.end is recorded
  bool begun = false;           // the caller's stream has reached the operation
  std::uint32_t posted = 0;     // operations of Tally
  std::uint32_t completed = 0;  // of these
  Verdict verdict;              // of this rank so far
  std::string message;

  // The first failure counts.
  void fail(std::uint32_t rank, Stage stage, const Error& error);
};

class Executor final : public MachineGroup {
 public:
  struct Parts {
    Division division;
    GroupMember member;
    GroupOptions options;
    std::unique_ptr<Agreement> agreement;
    std::unique_ptr<Pipeline> pipeline;
    std::vector<Marks> marks;
    UniqueFd wake;
  };
  explicit Executor(Parts parts);
  ~Executor() override;

  Outcome add_buffer(cuda::Pointer data, std::size_t bytes) override;
  Outcome remove_buffer(cuda::Pointer data) override;
  Outcome all_reduce(const GroupOperation& operation) override;
  bool poll(GroupCompletion& completion) override;
  Outcome wait(GroupCompletion& completion, int timeout_ms) override;

 private:
  class StagesOf;
  // An operation whose completion the caller has not taken.
  struct Ended {
    GroupCompletion completion;
    std::uint32_t chunks = 0;
  };
  using Lock = std::unique_lock<std::mutex>;

  // -- posting: executor.cc ---------------------------------------------------------------------
  Outcome check(const GroupOperation& operation, const GroupBuffer* buffer) const;
  Outcome check_average(const GroupOperation& operation) const;
  Outcome check_stream(const GroupOperation& operation) const;
  Result<GroupWork*> take(const GroupOperation& operation, const Chunking& chunks);
  std::uint32_t own_rank() const;
  std::uint32_t outstanding() const;

  // -- progress: executor_progress.cc -------------------------------------------------------------
  void run();
  bool step();              // true when it has done something
  bool take_completions();  // of the sessions of columns
  bool take_verdicts();
  bool follow(GroupWork& work);
  void take(const tally_completion& completion);
  bool has_ended(GroupWork& work);
  // The group was lost so long ago that operations end without their device and without Tally.
  bool has_given_up() const;
  void look_for_failures(Nanos now);
  // Ends the group: from now on no stream and no rank waits for this rank.
  void lose(Stage stage, const Error& error, std::uint32_t culprit);
  void finish(GroupWork& work, const Verdict& verdict, std::string message);
  bool arm(tally_session* session, Stage stage);
  Nanos longest_sleep(Nanos now) const;
  void rest(Nanos now);
  void wake();
  bool take_one(GroupCompletion& completion);

  const Division division_;
  const GroupMember member_;
  const GroupOptions options_;
  std::unique_ptr<Agreement> agreement_;
  std::unique_ptr<Pipeline> pipeline_;
  Collectives collectives_;
  GroupBuffers buffers_;
  std::vector<std::size_t> own_columns_;

  std::mutex mutex_;
  std::condition_variable completion_;
  std::array<GroupWork, kMostOperations> works_;
  std::deque<Ended> ended_;     // oldest first
  std::vector<pollfd> events_;  // of the thread
  std::uint32_t chunks_ = 0;    // of operations whose completions the caller has not taken
  std::optional<Error> lost_;
  Nanos lost_at_ = 0;
  Nanos progressed_ = 0;
  Nanos next_look_ = 0;
  UniqueFd wake_;
  bool sleeping_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace tally::gpu
