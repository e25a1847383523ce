// What a service of the control protocol sees: requests, with the descriptors that came along, and
// a Reply to answer each with, now or later. All of it on the control thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace tally::rpc {

// Never used twice by one server.
using ConnectionId = std::uint64_t;

struct Request {
  std::string method;
  nlohmann::json params;      // an object; read it with Params (params.h), which cannot throw
  std::vector<UniqueFd> fds;  // at most Limits::fds; closed with the request unless taken
};

// Where replies go: the connection, while it lasts.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  // Called once per Reply, with the line to send; empty for none.
  virtual void answer(std::string line) = 0;
};

// What is between an answer and its connection: calls `say`, once, now or later; or drops it, and
// nothing is ever said.
using Gate = std::function<void(std::function<void()> say)>;

// The answer to one request; give it exactly once. A Reply that is dropped answers "internal": a
// client never waits for something that will not come. Outlives the connection harmlessly.
class Reply {
 public:
  Reply(std::weak_ptr<ReplySink> sink, nlohmann::json id, bool wanted)
      : sink_(std::move(sink)), id_(std::move(id)), wanted_(wanted) {}
  Reply(Reply&&) noexcept = default;
  Reply& operator=(Reply&& other) noexcept;
  ~Reply() { drop(); }

  // The answer goes through the gate, also that of a Reply that is dropped.
  void go_through(Gate gate) { gate_ = std::move(gate); }

  void result(nlohmann::json value);
  void error(Status status, std::string_view message);
  void error(const Error& error) { this->error(error.status, error.message); }
  void unknown_method(std::string_view method);

 private:
  void drop() noexcept;
  void give(std::string line);

  std::weak_ptr<ReplySink> sink_;
  Gate gate_;  // none: it is said at once
  nlohmann::json id_;
  bool wanted_;
};

class Service {
 public:
  virtual ~Service() = default;
  virtual void handle(ConnectionId connection, Request request, Reply reply) = 0;
  // The connection is over: once for each connection that was heard of, never inside handle().
  virtual void closed(ConnectionId connection) = 0;
};

}  // namespace tally::rpc
