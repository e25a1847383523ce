// The terms of a coordinator that nodes elect: it acts over the state of the coordinator before it,
// and no more when another one is elected.
#include <nlohmann/json.hpp>
#include <utility>

#include "control/coordinator/rpc/service.h"

namespace tally::control {

using nlohmann::json;

void CoordinatorService::act_over(Store& store, std::uint64_t term) {
  store_ = &store;
  term_ = term;
  ++act_terms_;
  plans_.reset();
  coordinator_.emplace(options_.coordinator, store, monotonic_now());
  plans_.emplace(*coordinator_);
}

void CoordinatorService::begin_term(Store& store, std::uint64_t term) {
  end_term("this node begins to act as the coordinator");
  act_over(store, term);
  act();
}

void CoordinatorService::end_term(std::string_view why) {
  // Their waiting answers end here too. The store of the term is still there, and keeps them back.
  for (const auto& [connection, caller] : std::exchange(callers_, {})) disconnect_(connection, why);
  by_node_.clear();
  by_ticket_.clear();
  waits_.clear();
  last_answer_ = {};
  timer_.cancel();
  act_over(idle_store_, 0);
}

void CoordinatorService::end_earlier(NodeId was, const std::string& name) {
  const auto found = by_node_.find(was);
  if (found == by_node_.end()) return;
  const rpc::ConnectionId connection = found->second;
  Conversation& caller = callers_.at(connection);
  if (caller.name != name) return;
  caller.node.reset();
  by_node_.erase(found);
  coordinator_->await(was, monotonic_now());
  disconnect_(connection, "its node joins again");
}

// Answers wait for the store, so nodes and ranks cannot come sooner.
void CoordinatorService::expect(NodeId node) {
  store_->when_settled([this, term = term_, node](const Outcome& settled) {
    if (!settled || term != term_) return;
    coordinator_->expect(node, monotonic_now());
    set_timer(monotonic_now());
  });
}

// A rank of an elected coordinator may be looking for it.
void CoordinatorService::lose_rank(Coordinator::Ticket ticket) {
  if (term_ == 0) return coordinator_->lose(ticket);
  store_->when_settled([this, term = term_, ticket](const Outcome& settled) {
    if (!settled || term != term_) return;
    coordinator_->lose(ticket, monotonic_now() + timeouts().rank_reconnect());
    act();
  });
}

json CoordinatorService::with_term(json message) const {
  if (term_ != 0) message["term"] = term_;
  return message;
}

}  // namespace tally::control
