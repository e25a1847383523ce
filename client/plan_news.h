// What the coordinator of a rank's job says of changes of its plan (job.next), and what the rank
// says to it (job.report). One question is always open, and answered when there is something.
// Used by one thread at a time, as its session is.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "client/rpc_channel.h"

namespace tally::client {

struct PlanWord {
  enum class Kind : std::uint8_t { kPrepare, kDecided, kGo, kLeave, kCalledOff };
  Kind kind = Kind::kPrepare;
  std::uint32_t epoch = 0;                       // of the version that the job goes over to
  nlohmann::json version;                        // kPrepare: what enter_version() reads
  std::map<std::uint32_t, std::uint32_t> first;  // kDecided: by tag, the first round there
  std::string why;                               // kCalledOff
};

class PlanNews {
 public:
  // Asks. The channel is the one on which the job was opened.
  static Result<PlanNews> open(RpcChannel channel);

  int fd() const { return channel_.fd(); }
  const std::string& address() const { return channel_.address(); }

  // Without waiting; none: nothing new. An error: nothing will come any more. kUnsupported: this
  // coordinator tells nobody.
  Result<std::optional<PlanWord>> hear();

  // "ready", "knows", "moved", "left", of the change to that version.
  Outcome say(std::uint32_t epoch, std::string_view what);
  Outcome say_ready(std::uint32_t epoch, const std::map<std::uint32_t, std::uint32_t>& next_rounds);
  Outcome say_cannot(std::uint32_t epoch, std::string_view why);
  // The rank's place in the job is free when the coordinator has answered.
  void leave();

 private:
  explicit PlanNews(RpcChannel channel) : channel_(std::move(channel)) {}
  Outcome ask();
  Outcome report(nlohmann::json params);

  RpcChannel channel_;
  std::uint64_t question_ = 0;
};

}  // namespace tally::client
