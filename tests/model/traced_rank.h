// For tests: a rank of a trace. It has a real session, and an application with one buffer, or two,
// and one tag.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "client/session/session.h"
#include "tests/model/rank_channel.h"
#include "tests/model/trace.h"
#include "tests/model/traced_connection.h"

namespace tally::traces {

// The end of an operation at the application. Rounds count from 0.
struct End {
  std::uint32_t round = 0;
  bool ok = false;
};

class TracedRank {
 public:
  TracedRank(const Trace& trace, std::uint16_t rank);
  ~TracedRank();
  TracedRank(const TracedRank&) = delete;
  TracedRank& operator=(const TracedRank&) = delete;

  // Precondition: there is an entrance (job_entrance.h).
  void open();
  RankChannel& channel() { return channel_; }
  const std::vector<client::Region*>& regions() const { return pointers_; }
  const client::Session& session() const { return *session_; }
  // Adds a connection that the session has now.
  void add(std::shared_ptr<ConnectionState> state) { states_.push_back(std::move(state)); }
  const std::vector<std::shared_ptr<ConnectionState>>& states() const { return states_; }
  // The connections that nodes may use to reach the rank's memory.
  std::vector<std::shared_ptr<ConnectionState>> open_states() const;
  // Whether the rank has fenced the version off, or closed it.
  bool has_left(std::uint32_t version) const;
  ConnectionState& state(std::uint32_t version, std::uint32_t part) const;

  // Writes the contribution of the round and posts it. Returns the round that the session gives.
  std::uint32_t post(std::uint32_t round);
  bool cancel();
  // The session reads its events.
  void look_around();
  // The application takes completions, for which the session reads those of its nodes.
  void take_completions();
  // Takes the oldest end that the application has.
  std::optional<End> take_end();
  // The process of the rank dies.
  void die();
  bool is_over() const { return is_dead_ || session_->lost(); }

 private:
  void note(const client::Completed& completed);
  static std::uint64_t count_of(const Trace& trace);

  const Trace& trace_;
  std::uint16_t rank_;
  RankChannel channel_;
  std::vector<float> in_, out_;
  std::vector<std::unique_ptr<client::Region>> regions_;
  std::vector<client::Region*> pointers_;
  std::vector<std::shared_ptr<ConnectionState>> states_;
  std::unique_ptr<client::Session> session_;
  std::deque<End> ends_;
  bool is_dead_ = false;
};

// The elements of each part. Operations that are not eager are larger than eager ones can be.
std::uint64_t elements_of_part(const Trace& trace);

}  // namespace tally::traces
