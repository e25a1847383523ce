// For tests: the coordinator's end of a rank's control connection. The test sends each message when
// the trace says so, and takes the reports of the rank in the same way.
#pragma once

#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/system/fd.h"
#include "net/rpc/rpc_channel.h"

namespace tally::traces {

// Where ranks connect. In one thread: a connection is complete before the other end accepts it.
class CoordinatorListener {
 public:
  CoordinatorListener();
  ~CoordinatorListener();
  CoordinatorListener(const CoordinatorListener&) = delete;
  CoordinatorListener& operator=(const CoordinatorListener&) = delete;

  std::string address() const { return "unix:" + path_; }
  UniqueFd accept() const;

 private:
  std::string path_;
  UniqueFd listener_;
};

class RankChannel {
 public:
  // Returns the rank's end.
  rpc::RpcChannel open(const CoordinatorListener& listener);
  void close() { socket_.reset(); }
  // The rank sees the end of the coordinator. What the rank has sent stays readable.
  void end_sending() const;

  // Reads what the rank has sent. Returns the reports, oldest first.
  std::deque<nlohmann::json> read();
  // Whether the rank has closed its end.
  bool has_ended() const { return ended_; }
  // Answers the rank's job.next. Returns false when it has not asked.
  bool answer(nlohmann::json message);

 private:
  UniqueFd socket_;
  std::string received_;
  bool ended_ = false;
  std::optional<nlohmann::json> next_;  // number of the open job.next
};

}  // namespace tally::traces
