#include "control/node/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/debug_steps.h"
#include "base/log/log.h"
#include "control/node/endpoints/endpoint_host.h"
#include "control/node/session_opening.h"
#include "control/node/timeouts_log.h"
#include "net/rpc/params.h"
#include "net/rpc/partition_json.h"

namespace tally::control {
namespace {

using nlohmann::json;

AdmissionLimits limits_of(const NodeOptions& options, const ShardSet& shards) {
  AdmissionLimits limits = options.limits;
  limits.shards = shards.size();
  limits.credit = options.credit;
  limits.split_bytes = options.split_bytes;
  return limits;
}

CoordinatorServiceOptions coordinator_of(const NodeOptions& options) {
  return {.coordinator = {.open_jobs = options.limits.open_jobs,
                          .max_jobs = options.limits.max_jobs,
                          .max_ranks = options.limits.max_ranks,
                          .split_bytes = options.split_bytes,
                          .jobs = options.jobs,
                          .timeouts = options.timeouts},
          .coordinators = options.coordinators,
          .is_elected = options.is_elected,
          .status = options.status,
          .peer_of = options.peer_of,
          .access = options.access.get(),
          .plan_for_racks = options.plan_for_racks};
}

}  // namespace

Node::Node(NodeOptions options, asio::io_context& io, ShardSet& shards, Store& store,
           std::function<void(rpc::ConnectionId, std::string_view)> disconnect)
    : options_(std::move(options)),
      shards_(shards),
      disconnect_(std::move(disconnect)),
      admission_(limits_of(options_, shards), options_.jobs),
      introspection_(
          options_.facts, shards, admission_, ended_,
          [this](rpc::ConnectionId connection) {
            return options_.access->caller(options_.peer_of(connection));
          },
          [this](rpc::ConnectionId connection, std::string_view method, const Error& error) {
            options_.access->audit(options_.peer_of(connection), method, error);
          }),
      coordinator_(coordinator_of(options_), store, io, disconnect_),
      probe_(options_.probe, io),
      endpoints_(io, shards, admission_.capacity(), options_),
      jobs_(io, shards, admission_, ended_,
            {.node = options_.name,
             .credentials = options_.credentials,
             .serves = !options_.coordinators.empty()},
            [this](const JobInstance& instance) {
              for (const SharedSession& session : sessions_.of(instance)) {
                end(session, Status::kPeerLeft, [] {});
              }
            }),
      regions_(io, shards, admission_.capacity(), options_.memory_calls,
               options_.limits.max_regions) {
  admission_.set_rails(options_.rails);
  use_timeouts();
  shards_.on_lost([this](transport::Peer peer) { on_lost(peer); });
  options_.access->keys().set_instances(
      [this](std::string_view identity) { return admission_.key(identity); });
}

Node::~Node() {
  for (const auto& [number, session] : sessions_.all()) session->give_up_attempt();
  options_.access->keys().set_instances({});
}

void Node::set_fault(Nanos fault) {
  if (fault == options_.timeouts.fault) return;
  options_.timeouts.fault = fault;
  use_timeouts();
  log_timeouts(options_.timeouts);
}

void Node::use_timeouts() {
  introspection_.set_timeouts(options_.timeouts);
  jobs_.set_parent_timeout(options_.timeouts.parent_connection());
}

void Node::handle(rpc::ConnectionId connection, rpc::Request& request, rpc::Reply reply) {
  const std::string& method = request.method;
  const rpc::Peer peer = options_.peer_of(connection);
  if (const auto may = options_.access->may_call(peer, method); !may) {
    options_.access->audit(peer, method, may.error());
    return reply.error(may.error());
  }
  if (method.starts_with("node.")) {
    return introspection_.handle(connection, request, std::move(reply));
  }
  if (method.starts_with("cluster.") || method.starts_with("job.") || method.starts_with("plan.")) {
    return coordinator_.handle(connection, request, std::move(reply));
  }
  if (method.starts_with("probe.")) return probe_.handle(request, std::move(reply));
  if (method == "token.revoke") return revoke_token(request, std::move(reply));
  if (method == "session.open") return open(connection, request, std::move(reply));
  if (method == "session.prove") return prove(connection, request, std::move(reply));
  if (method.rfind("session.", 0) != 0 && method.rfind("region.", 0) != 0) {
    return reply.unknown_method(method);
  }
  const SharedSession session = sessions_.on(connection);
  const bool closes = method == "session.close";
  if (session == nullptr || session->ending || (session->opening && !closes)) {
    return reply.error(no_session());
  }
  handle(session, request, std::move(reply));
}

void Node::handle(const SharedSession& session, rpc::Request& request, rpc::Reply reply) {
  const std::string& method = request.method;
  if (method == "session.attach") return endpoints_.attach(session, request, std::move(reply));
  if (method == "session.close") return close(session, std::move(reply));
  if (method == "session.empty") return set_empty(session, request, std::move(reply));
  if (!session->attached || session->attaching) {
    return reply.error(Status::kInvalidArgument,
                       "the session is not attached: session.attach first");
  }
  if (method == "region.check") return regions_.check(session, request, std::move(reply));
  if (method == "region.register") return regions_.add(session, request, std::move(reply));
  if (method == "region.deregister") return regions_.remove(session, request, std::move(reply));
  reply.unknown_method(method);
}

void Node::open(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply) {
  auto applicant = parse_opening(request.params);
  if (!applicant) return reply.error(applicant.error());
  if (sessions_.on(connection) != nullptr) {
    return reply.error(Status::kInvalidArgument, "this connection has a session already");
  }
  const rpc::Peer peer = options_.peer_of(connection);
  applicant->owner = peer.source;
  auto caller = options_.access->caller(peer, request.params.value("token", ""));
  if (caller) applicant->caller = std::move(*caller);
  const Outcome unlocked = caller ? admission_.unlocks(*applicant) : caller.error();
  if (!unlocked) {
    options_.access->audit(peer, request.method, unlocked.error());
    return reply.error(unlocked.error());
  }
  const auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  if (!within_memory([&] { admit(connection, *applicant, answer); })) {
    answer->error(no_memory_for("the session"));
  }
}

// When memory runs out, nothing has been admitted.
void Node::admit(rpc::ConnectionId connection, const Admission::Applicant& applicant,
                 const SharedReply& answer) {
  const SharedSession session = sessions_.add(connection);
  Undo known([&] {
    sessions_.disconnect(connection);
    sessions_.erase(session->number);
  });
  const rpc::Peer peer = options_.peer_of(connection);
  session->peer = peer.name;
  session->hosts = endpoint_hosts(peer, options_);
  const auto admitted = admission_.admit(applicant, session->number);
  if (!admitted) return answer->error(admitted.error());
  JobInstance& instance = *admitted->instance;
  Undo seated([&] { admission_.unseat(*admitted); });
  session->instance = &instance;
  session->member = admitted->member;
  session->credit = instance.credit;
  if (instance.is_child_node(session->member)) {
    session->credit = std::min(instance.messages_of(session->member), transport::shm::kMaxCredit);
  }
  WorkDone then = [this, session, is_new = admitted->is_new, answer](const Outcome& done) {
    on_job_added(session, is_new, done, answer);
  };
  if (admitted->is_new) {
    jobs_.add(instance, std::move(then));
  } else if (instance.registration != JobInstance::Registration::kDone) {
    // Tasks run in order, so the shards know the job when this task is done.
    shards_.on_each([](auto, auto&, auto&) {}, std::move(then));
  }
  seated.keep();
  known.keep();
  if (instance.registration == JobInstance::Registration::kDone)
    on_job_added(session, false, Unit{}, answer);
}

// The session ends after this call, so the instance is still there.
void Node::on_job_added(const SharedSession& session, bool is_new, const Outcome& done,
                        const SharedReply& answer) {
  JobInstance& instance = *session->instance;
  if (is_new) instance.set_registered(done.ok());
  if (session->ending) return answer->error(no_session());
  if (instance.registration == JobInstance::Registration::kNoMemory) {
    log::warning("job-refused", {{"job", instance.name}, {"reason", "no memory for its tables"}});
    return end(session, Status::kPeerLeft, [answer, name = instance.name] {
      answer->error(no_memory_for(fmt::format("the tables of job \"{}\"", name)));
    });
  }
  session->opening = false;
  if (is_new) {
    log::info("job-formed",
              {{"job", instance.name}, {"epoch", instance.epoch}, {"ranks", instance.ranks()}});
  }
  answer->grant(rpc::Grant::kSession);
  debug_step(DebugStep::kNodeSessionOpened);
  if (within_memory(
          [&] { answer->result(opening_answer(*session, options_, admission_.rails())); }))
    return;
  end(session, Status::kPeerLeft, [answer] { answer->error(no_memory_for("the session")); });
}

void Node::revoke_token(const rpc::Request& request, rpc::Reply reply) {
  rpc::Params params(request.params);
  const std::string id = params.text("id", kMaxJobName);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  if (const auto done = options_.access->revoke(id); !done) return reply.error(done.error());
  reply.result(json::object());
}

// The request arrives on a connection from another of the client's NICs.
void Node::prove(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply) {
  rpc::Params params(request.params);
  const auto number = params.number("session", 0, UINT32_MAX);
  const auto proof = params.number("proof", 0, UINT64_MAX);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  const SharedSession session = sessions_.numbered(static_cast<std::uint32_t>(number));
  if (session == nullptr || session->proof != proof) {
    const Error error{Status::kRefused, "session.prove: no session has this number and proof"};
    options_.access->audit(options_.peer_of(connection), request.method, error);
    return reply.error(error);
  }
  const std::string host = options_.peer_of(connection).host;
  if (const auto added = add_proven(session->hosts, host); !added) {
    return reply.error(added.error());
  }
  reply.result({{"host", host}});
}

// No rank is left below the child node in these trees.
void Node::set_empty(const SharedSession& session, const rpc::Request& request, rpc::Reply reply) {
  JobInstance& instance = *session->instance;
  const std::uint32_t trees = instance.plan.trees;
  const auto empty = rpc::read_numbers(request.params.value("trees", json()), trees, trees - 1);
  if (!instance.is_child_node(session->member) || empty.empty()) {
    return reply.error(Status::kInvalidArgument,
                       "session.empty is for nodes below this one, with \"trees\"");
  }
  for (const std::uint32_t tree : empty) instance.empty_below.insert({session->member, tree});
  reply.result(json::object());
  jobs_.finish(instance);
}

void Node::close(const SharedSession& session, rpc::Reply reply) {
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  end(session, Status::kPeerLeft, [this, session, answer] {
    debug_step(DebugStep::kNodeSessionClosed);
    // The connection may have its next session already.
    if (sessions_.on(session->connection) == nullptr) answer->revoke(rpc::Grant::kSession);
    answer->result(json::object());
  });
}

void Node::closed(rpc::ConnectionId connection) {
  introspection_.closed(connection);
  coordinator_.closed(connection);
  const SharedSession session = sessions_.on(connection);
  sessions_.disconnect(connection);
  if (session == nullptr || session->ending) return;
  const JobInstance& instance = *session->instance;
  if (instance.is_child_node(session->member)) {
    log::warning("child-lost", {{"job", instance.name},
                                {"node", instance.below[session->member - instance.ranks()].name}});
  } else {
    log::info("session-lost",
              {{"job", instance.name}, {"rank", session->member}, {"peer", session->peer}});
  }
  end(session, Status::kPeerLost, [] {});
}

void Node::hang_up(std::function<void()> then) {
  jobs_.give_up();
  endpoints_.hang_up(sessions_, std::move(then));
}

void Node::on_lost(transport::Peer peer) {
  const SharedSession session = sessions_.numbered(peer);
  if (session == nullptr || session->ending) return;
  auto reasons = std::make_shared<std::vector<std::string>>(shards_.size());
  shards_.on_each(
      [peer, reasons](std::uint32_t i, auto&, Transports& transports) {
        (*reasons)[i] = transports.why_lost(peer);
      },
      [this, session, reasons] {
        if (session->ending) return;
        const auto reason = std::find_if(reasons->begin(), reasons->end(),
                                         [](const auto& one) { return !one.empty(); });
        disconnect_(session->connection, reason == reasons->end() ? "" : *reason);
      });
}

void Node::end(const SharedSession& session, Status why, std::function<void()> then) {
  session->ending = true;
  session->give_up_attempt();
  session->regions.give_up_mapping();
  sessions_.disconnect(session->connection);
  jobs_.set_over(*session->instance);
  endpoints_.detach(
      session,
      [job = session->instance->job_id, numbers = session->numbers(shards_.size()), why](
          std::uint32_t i, engine::Shard& shard, auto&) {
        if (numbers[i] == kNobody) return;
        shard.protocol().gone(job, static_cast<std::uint16_t>(numbers[i]), why, monotonic_now());
      },
      [this, session, then = std::move(then)] {
        SessionEndpoints::release_segment(*session);
        regions_.end(session, [this, session, then] {
          sessions_.erase(session->number);
          jobs_.leave(*session->instance, session->member);
          then();
        });
      });
}

}  // namespace tally::control
