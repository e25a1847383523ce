// The interface to a service of the control protocol. It gets requests with their descriptors, and
// a Reply for each, to answer now or later. Everything runs on the control thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/system/fd.h"

namespace tally::rpc {

// A server never uses an id twice.
using ConnectionId = std::uint64_t;

struct Request {
  std::string method;
  nlohmann::json params;      // an object; read it with Params (params.h), which cannot throw
  std::vector<UniqueFd> fds;  // at most Limits::fds; closed with the request unless moved out
};

// A service's knowledge of a peer. A peer without any Grant is anonymous (anonymous.h).
enum class Grant : std::uint8_t {
  kSession,  // the peer has a session, and may send descriptors
  kRank,     // the peer has a rank in a job
  kNode,     // the peer is a member of the cluster
  kProof,    // the peer has shown a token or the cluster's secret
};

// The destination of replies: the connection, while it exists.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual void set_grant([[maybe_unused]] Grant grant, [[maybe_unused]] bool held) {}
  // Called at most once per Reply, with the line to send. An empty line means no reply.
  virtual void answer(std::string line) = 0;
};

// A gate between an answer and its connection. It calls `send` once, now or later. When it
// drops `send`, the answer is never sent.
using Gate = std::function<void(std::function<void()> send)>;

// The answer to one request. Give exactly one. A Reply that is dropped answers "internal", so a
// client never waits in vain. A Reply may outlive its connection.
class Reply {
 public:
  Reply(std::weak_ptr<ReplySink> sink, nlohmann::json id, bool wanted)
      : sink_(std::move(sink)), id_(std::move(id)), wanted_(wanted) {}
  Reply(Reply&&) noexcept = default;
  Reply& operator=(Reply&& other) noexcept;
  ~Reply() { drop(); }

  // From now on the requesting peer has this grant, or no longer has it. Call this before the
  // answer.
  void grant(Grant grant) const { set_grant(grant, true); }
  void revoke(Grant grant) const { set_grant(grant, false); }

  // Sends the answer through the gate, also the answer of a dropped Reply.
  void go_through(Gate gate) { gate_ = std::move(gate); }

  void result(nlohmann::json value);
  // Answers with JSON text without line breaks, for an answer that goes to many peers.
  void result_text(std::string_view json);
  void error(Status status, std::string_view message);
  void error(const Error& error) { this->error(error.status, error.message); }
  void unknown_method(std::string_view method);

 private:
  void set_grant(Grant grant, bool held) const;
  void drop() noexcept;
  void give(std::string line);

  std::weak_ptr<ReplySink> sink_;
  Gate gate_;  // none: the answer is sent at once
  nlohmann::json id_;
  bool wanted_;
};

class Service {
 public:
  virtual ~Service() = default;
  // The caller keeps the request; parts of it may be moved out.
  virtual void handle(ConnectionId connection, Request& request, Reply reply) = 0;
  // The connection has ended. The server calls this once for each connection that it has served,
  // also when no request came, and never inside handle().
  virtual void closed(ConnectionId connection) = 0;
};

}  // namespace tally::rpc
