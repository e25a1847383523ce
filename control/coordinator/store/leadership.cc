#include "control/coordinator/store/leadership.h"

#include <utility>

#include "base/log/log.h"

namespace tally::control {

Leadership::Leadership(LeadershipOptions options, LeadershipEvents events,
                       std::unique_ptr<etcd::Client> client)
    : options_(std::move(options)), events_(std::move(events)), client_(std::move(client)) {}

Leadership::~Leadership() {
  stop();
}

Result<std::unique_ptr<Leadership>> Leadership::start(asio::io_context& io,
                                                      LeadershipOptions options,
                                                      LeadershipEvents events) {
  auto client = etcd::Client::start(io, options.etcd);
  if (!client) return client.error();
  std::unique_ptr<Leadership> made(
      new Leadership(std::move(options), std::move(events), std::move(client).value()));
  Leadership& self = *made;
  self.election_.emplace(
      io, *self.client_,
      etcd::ElectionOptions{.key = self.options_.prefix + "election", .name = self.options_.name},
      etcd::ElectionEvents{.won = [&self](etcd::Revision term) { self.begin_term(term); },
                           .lost = [&self](const Error& why) { self.end_term(why); },
                           .other = [&self](etcd::Revision term) { self.see_other(term); },
                           .no_answer = [&self](const Error& why) { self.complain(why); }});
  return made;
}

void Leadership::begin_term(etcd::Revision term) {
  term_ = term;
  EtcdStore::load(
      *client_, options_.prefix + "state/",
      {options_.prefix + "election", term, options_.timeouts.store()},
      [this](const Error& why) {
        election_->resign();
        end_term(why);
      },
      [this, term, alive = std::weak_ptr(alive_)](Result<std::unique_ptr<EtcdStore>> loaded) {
        if (!alive.expired() && term == term_) take_over(term, std::move(loaded));
      });
}

void Leadership::take_over(etcd::Revision term, Result<std::unique_ptr<EtcdStore>> loaded) {
  if (!loaded) {
    election_->resign();
    complain_of_state(loaded.error());
    return end_term(loaded.error());
  }
  state_complaint_.clear();
  store_ = std::move(loaded).value();
  complaint_.clear();
  log::info(
      "coordinator-elected",
      {{"term", term}, {"jobs", store_->jobs().size()}, {"members", store_->members().size()}});
  events_.begin(*store_, term);
}

void Leadership::end_term(const Error& why) {
  if (term_ == 0) return;
  const etcd::Revision term = std::exchange(term_, 0);
  if (store_ == nullptr) return;  // it has not begun to act
  log::warning("coordinator-ended", {{"term", term}, {"why", why.message}});
  store_->abandon(why);
  events_.end(why);
  store_.reset();
}

void Leadership::see_other(etcd::Revision term) {
  complaint_.clear();
  if (term <= other_) return;
  other_ = term;
  events_.other(term);
}

// Logs each error once, until another error occurs or the state can be read.
void Leadership::complain_of_state(const Error& error) {
  if (state_complaint_ == error.message) return;
  state_complaint_ = error.message;
  log::error("coordinator-without-state", {{"error", error.message}});
}

// Logs each error once, until another error occurs or etcd answers.
void Leadership::complain(const Error& error) {
  if (complaint_ == error.message) return;
  complaint_ = error.message;
  log::warning("store-no-answer", {{"error", error.message}});
}

void Leadership::stop() {
  if (!election_) return;
  // This node acts no more when another one may win.
  end_term({Status::kUnavailable, "the node ends"});
  election_->stop();
}

}  // namespace tally::control
