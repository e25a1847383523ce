// The agreement of all ranks of a job on the end of each operation, and the detection of a rank
// that has died or has ended its group. Both go through a session of a job of Tally of all ranks,
// on memory of the host.
//
// - Verdicts: a rank announces the status of its part of an operation. Each rank gets the worst of
//   all. So an operation ends with the same status at all ranks.
// - Watches: two barriers that end only with the group. Rank 0 does not announce the first and rank
//   1 not the second, so every rank waits for at least one of them. When a rank dies, Tally ends
//   them. end() ends them too.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "client/include/tally/tally.h"

namespace tally::gpu {

enum class Stage : std::uint8_t {
  kNone = 0,
  kReduce = 1,   // NCCL, within the group
  kSum = 2,      // Tally
  kGather = 3,   // NCCL, within the group
  kDevice = 4,   // CUDA
  kVerdict = 5,  // the agreement of all ranks
};
const char* stage_name(Stage stage);

// The end of a rank's part of an operation.
struct Verdict {
  Status status = Status::kOk;
  Stage stage = Stage::kNone;
  std::uint32_t rank = 0;  // of the part, among all ranks

  // Of two verdicts the greater code is the worse one.
  std::int64_t code() const;
  static Verdict of(std::int64_t code);
};

// One thread at a time.
class Agreement {
 public:
  static constexpr std::uint32_t kMostOperations = 64;

  // Collective: all ranks of the session's job begin. Uses the session alone from now on; it
  // outlives the object.
  static Result<std::unique_ptr<Agreement>> begin(tally_session* session,
                                                  std::uint32_t deadline_ms);
  ~Agreement();
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

  std::uint32_t rank() const { return rank_; }
  std::uint32_t ranks() const { return ranks_; }

  // Announces this rank's verdict of the operation `index`, below kMostOperations. All ranks have
  // given the operation this tag.
  Outcome announce(std::uint32_t index, std::uint32_t tag, const Verdict& verdict);
  // Cancels the announced verdict of this tag.
  void withdraw(std::uint32_t tag) { tally_cancel(session_, tag); }
  // The next verdict of all ranks. False: none yet.
  struct Agreed {
    std::uint32_t index = 0;
    Verdict verdict;
    std::string message;  // of Tally, when the agreement failed
  };
  bool poll(Agreed& agreed);

  // Why the watches have ended; empty while they have not.
  const std::string& ended() const { return ended_; }
  std::uint32_t culprit() const { return culprit_; }
  // Ends the watches of all ranks, unless the loss of a rank does so. Only the first call does
  // something.
  void end();

 private:
  static constexpr std::size_t kWatches = 2;
  static constexpr std::uint32_t kFirstWatch = 0xffffff00U;  // tags
  static constexpr std::uint32_t kStart = 0xffffff10U;
  struct Values {
    std::int64_t in = 0;
    std::int64_t out = 0;
  };

  explicit Agreement(tally_session* session) : session_(session) {}
  Outcome post_watch(std::size_t watch, std::uint32_t deadline_ms);
  bool owns_watch(std::size_t watch) const { return rank_ == watch; }
  void take_watch(const tally_completion& completion);
  Error failure(const char* what, tally_status status) const;

  tally_session* session_;
  tally_region* region_ = nullptr;
  Values* values_ = nullptr;  // by index, in the region
  std::uint32_t rank_ = 0;
  std::uint32_t ranks_ = 1;
  std::uint32_t deadline_ms_ = 0;
  std::array<bool, kWatches> watching_{};
  bool ending_ = false;
  std::string ended_;
  bool has_lost_rank_ = false;  // Tally has reported it
  std::uint32_t culprit_ = TALLY_NO_RANK;
};

}  // namespace tally::gpu
