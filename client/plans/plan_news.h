// The messages between a rank and the coordinator of its job about changes of the plan. The
// coordinator answers job.next, and the rank sends job.report. One job.next request is always open;
// the coordinator answers it when it has something to report. Where coordinators are elected, it
// also answers after a while without a report, so the rank notices a coordinator that stands still.
// One thread at a time uses it, as with the session.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "client/operations/tag_rounds.h"
#include "net/rpc/rpc_channel.h"
#include "net/rpc/terms.h"

namespace tally::client {

struct PlanUpdate {
  enum class Kind : std::uint8_t { kPrepare, kDecided, kGo, kLeave, kCalledOff, kEnded };
  Kind kind = Kind::kPrepare;
  std::uint32_t epoch = 0;  // of the version to which the job changes; of kEnded: that was lost
  nlohmann::json version;   // of kPrepare: the input of enter_version()
  bool repair = false;      // of kPrepare: the version in use is lost
  RoundDecision rounds;     // of kDecided; `failed` in a repair only
  std::string why;          // of kCalledOff and kEnded
  std::uint16_t culprit = wire::kNoRank;  // of kEnded: the rank that is lost or has left
};

// How a rank has lost its version of the plan.
struct LossReport {
  std::string why;
  // Set only in a job that goes on without ranks that are lost:
  std::optional<std::uint16_t> lost_rank{};  // its session at a node has ended
  std::optional<std::uint16_t> late_rank{};  // it has not announced an operation by its deadline
};

class PlanNews {
 public:
  // Sends the first request. `channel` must be the channel on which the job was opened. `term` is
  // the session's, and borrowed: it keeps the highest term of coordinators that the rank knows, and
  // messages with a lower one are refused. `repairs`: the coordinator repairs jobs, and this rank
  // can be repaired.
  static Result<PlanNews> open(rpc::RpcChannel channel, rpc::HighestTerm& term, bool repairs);

  int fd() const { return channel_.fd(); }
  const std::string& address() const { return channel_.address(); }

  // Returns the next message without waiting, or none. After an error no more messages come.
  // kUnsupported: this coordinator does not announce changes.
  Result<std::optional<PlanUpdate>> poll();
  // A coordinator that has been elected answers each request soon, also without a message. When
  // poll() has found no answer after this time, the coordinator stands still. kForever: any other
  // coordinator.
  Nanos silent_at() const;

  // Reports "ready", "knows", "moved" or "left" for the change to the version of this epoch.
  Outcome report(std::uint32_t epoch, std::string_view what);
  // `is_repair`: reports failures and kept rounds too.
  Outcome report_ready(std::uint32_t epoch, const RoundsByTag& rounds, bool is_repair);
  Outcome report_loss(std::uint32_t epoch, const LossReport& loss);
  Outcome report_refusal(std::uint32_t epoch, std::string_view why);
  // Leaves the job. The rank's place in the job is free when the coordinator has answered.
  void leave();

 private:
  PlanNews(rpc::RpcChannel channel, rpc::HighestTerm& term, bool repairs)
      : channel_(std::move(channel)), term_(&term), repairs_(repairs) {}
  Outcome request_next();
  Outcome send_report(nlohmann::json params);

  rpc::RpcChannel channel_;
  rpc::HighestTerm* term_;
  bool repairs_;
  std::uint64_t request_ = 0;
  Nanos asked_ = 0;  // when the request was sent
};

}  // namespace tally::client
