#include "client/versions/plan_versions.h"

#include <algorithm>

namespace tally::client {

PlanVersions::All PlanVersions::all() const {
  All all;
  for (const auto* version : {&now_, &old_, &next_}) {
    if (*version) all.versions[all.count++] = version->get();
  }
  return all;
}

PlanVersion& PlanVersions::add_next(std::unique_ptr<PlanVersion> next) {
  next_ = std::move(next);
  return *next_;
}

void PlanVersions::go_over(PlanSwitch& plans) {
  const auto next_rounds = now_->book.next_rounds();
  plans.go(next_rounds);
  for (const auto& [tag, round] : next_rounds) {
    next_->book.begin_at(tag, std::max(round, plans.first(tag)));
  }
  for (const std::uint32_t tag : plans.behind()) next_->book.begin_at(tag, plans.first(tag));
  old_ = std::exchange(now_, std::move(next_));
}

void PlanVersions::keep_rounds(const PlanSwitch& plans) {
  if (!old_) return;
  now_->book.inherit(old_->book);
  RoundsByTag before = old_->book.rounds();
  for (const std::uint32_t tag : plans.behind())
    before.try_emplace(tag);  // also tags without posts
  for (const auto& [tag, rounds] : before) {
    if (rounds.next < plans.first(tag)) now_->book.begin_at(tag, rounds);
  }
}

void PlanVersions::keep_only_now() {
  old_.reset();
  next_.reset();
}

void PlanVersions::replace(const RoundDecision& decided) {
  for (const auto& [tag, first] : decided.first) {
    const auto failed = decided.failed.find(tag);
    TagRounds rounds{first, {}, false};
    if (failed != decided.failed.end()) rounds.failure = failed->second;
    next_->book.begin_at(tag, rounds);
  }
  now_ = std::move(next_);
}

void PlanVersions::remove(const PlanVersion& version) {
  if (&version == old_.get()) now_->book.inherit(old_->book);
  (&version == old_.get() ? old_ : next_).reset();
}

Books PlanVersions::books(PlanSwitch& plans) const {
  return {plans, now_->book, old_ ? &old_->book : nullptr, now_->config.credit};
}

std::uint32_t PlanVersions::outstanding() const {
  return now_->book.outstanding() + (old_ ? old_->book.outstanding() : 0);
}

bool PlanVersions::outstanding(std::uint32_t tag) const {
  return now_->book.outstanding(tag) || (old_ && old_->book.outstanding(tag));
}

bool PlanVersions::has_finished() const {
  return now_->book.has_finished() || (old_ && old_->book.has_finished());
}

Nanos PlanVersions::earliest_until(Nanos now) const {
  const Nanos until = now_->book.earliest_until(now);
  return old_ ? std::min(until, old_->book.earliest_until(now)) : until;
}

std::string PlanVersions::overdue_nodes(Nanos now) const {
  std::string nodes;
  for (const PlanVersion* version : all()) {
    const auto shards = version->book.overdue_shards(now);
    if (!shards.empty()) nodes += (nodes.empty() ? "" : ", ") + version->nodes.titles_of(shards);
  }
  return nodes;
}

void PlanVersions::abandon(Status status) const {
  for (PlanVersion* version : all()) version->book.abandon(status);
}

MemoryNeeds PlanVersions::memory_needs() const {
  MemoryNeeds needs{now_->nodes.transport(), false, true};
  for (const PlanVersion* version : all()) {
    const MemoryNeeds more = version->nodes.memory_needs();
    needs.shared |= more.shared;
    needs.adapter &= more.adapter;
  }
  return needs;
}

bool PlanVersions::arm(Nanos until) const {
  bool armed = true;
  for (PlanVersion* version : all()) {
    if (!version->is_lost) armed &= version->nodes.connections().arm(until);
  }
  return armed;
}

void PlanVersions::disarm() const {
  for (PlanVersion* version : all()) {
    if (!version->is_lost) version->nodes.connections().disarm();
  }
}

bool PlanVersions::fence(Nanos deadline) const {
  bool fenced = true;
  for (PlanVersion* version : all()) fenced &= version->nodes.connections().fence(deadline);
  return fenced;
}

void PlanVersions::hang_up() const {
  for (PlanVersion* version : all()) version->nodes.connections().hang_up();
}

}  // namespace tally::client
