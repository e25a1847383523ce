// The options of a session.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"

struct ibv_pd;  // of libibverbs; NOLINT(readability-identifier-naming)

namespace tally::client {

// What happens to a job that loses a rank.
enum class RankLoss : std::uint8_t {
  kFail,    // the job ends
  kFinish,  // the job goes on without the rank
};

struct SessionOptions {
  std::string address;  // of a node, or of several nodes of a cluster: "tcp:a:7733,tcp:b:7733"
  std::string job;
  std::string token;         // as net::tls::Credentials::of_user() takes it
  std::string transport;     // "shm", "verbs", "verbs:DEVICE[:PORT[:GID-INDEX]]", "fabric"; empty:
                             // the best that works
  ibv_pd* domain = nullptr;  // the caller's protection domain for verbs; borrowed for the session's
                             // life
  std::uint16_t rank = 0;
  std::uint16_t ranks = 1;
  Nanos connect_timeout = 10 * kSecond;
  std::uint32_t deadline_ms = 0;  // of operations that set none; milliseconds; 0: the node's
                                  // default
  std::optional<bool> checksums;  // whether this rank gives checksums; none: as $TALLY_CHECKSUMS
                                  // says
  std::optional<RankLoss> on_rank_loss;  // the same at all ranks; none: as $TALLY_ON_RANK_LOSS says
  // With kFinish: the job ends when fewer ranks would be left. 0: as $TALLY_QUORUM says, else 1.
  std::uint32_t quorum = 0;
  // How long a session that is over waits for nodes to release its memory. After that the session
  // keeps the buffers as in use.
  Nanos fence_timeout = 5 * kSecond;
  std::function<void(int level, const std::string& text)> log;

  bool finishes() const { return on_rank_loss == RankLoss::kFinish; }
  void write_log(int level, const std::string& text) const {
    if (log) log(level, text);
  }
};

// Sets the options without a value as the environment says. The error names the variable or the
// option, its value and the remedy.
Outcome take_defaults(SessionOptions& options);

}  // namespace tally::client
