// How sessions use the shards' transports: it attaches a session to a transport at all shards of
// its job (session.attach), and detaches it. A client that finds no way through one network may
// attach again over another. Requests that fail leave the session as it was before. Control thread
// only; the shards and the threads of QueuePairs do the work.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/node/jobs/capacity.h"
#include "control/node/node_options.h"
#include "control/node/session.h"
#include "control/node/session_table.h"
#include "control/node/shards/queue_pairs.h"
#include "control/node/shards/shard_set.h"
#include "net/rpc/params.h"

namespace tally::control {

class SessionEndpoints {
 public:
  // Borrows its arguments for its life.
  SessionEndpoints(asio::io_context& io, ShardSet& shards, const Capacity& capacity,
                   const NodeOptions& options)
      : options_(options),
        shards_(shards),
        capacity_(capacity),
        queue_pairs_(io, options.verbs && !options.verbs->in_user_space) {}

  // The request session.attach.
  void attach(const SharedSession& session, rpc::Request& request, rpc::Reply reply);
  // Each shard runs `first`, and does not serve the session from then on. Calls `then` when no
  // shard and no device touches the session's memory any more.
  void detach(const SharedSession& session, ShardSet::Task first, std::function<void()> then);
  // Detaches all sessions from every shard before any client sees the end of its connection; then
  // calls `then`. Sessions that are being attached are given up.
  void hang_up(const SessionTable& sessions, std::function<void()> then);
  // Unmaps the session's segment. Precondition: the session is detached.
  static void release_segment(Session& session);

 private:
  void attach_to_memory(const SharedSession& session, rpc::Request& request, rpc::Reply reply);
  void attach_to_network(const SharedSession& session, const rpc::Request& request,
                         rpc::Reply reply);
  void attach_to_fabric(const SharedSession& session, const rpc::Request& request,
                        rpc::Reply reply);
  void attach_to_verbs(const SharedSession& session, rpc::Params& params, rpc::Reply reply);
  // Detaches the session from the network that it used before, if any; then calls `then`.
  void begin(const SharedSession& session, const SharedReply& answer, std::function<void()> then);
  void make_queue_pairs(const SharedSession& session,
                        const std::vector<transport::verbs::Address>& clients,
                        const SharedReply& answer);
  // `attach(index, transport)` returns the name of the endpoint that serves the client there, or
  // why there is none.
  template <typename T, typename Attach>
  void attach_each(const SharedSession& session, const SharedReply& answer,
                   std::unique_ptr<T> Transports::*transport, Attach attach);
  void give_up(const SharedSession& session, const Error& why, const SharedReply& answer);
  bool is_over(const Session& session) const { return session.ending || hung_up_; }

  const NodeOptions& options_;
  ShardSet& shards_;
  const Capacity& capacity_;
  QueuePairs queue_pairs_;
  bool hung_up_ = false;
};

}  // namespace tally::control
