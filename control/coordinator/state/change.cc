#include "control/coordinator/state/change.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tally::control {
namespace {

constexpr std::size_t kMostNamed = 8;

// The report that a stage waits for.
Change::Report awaited(Change::Stage stage) {
  switch (stage) {
    case Change::Stage::kAsking:
      return Change::Report::kReady;
    case Change::Stage::kDeciding:
      return Change::Report::kKnows;
    case Change::Stage::kMoving:
      return Change::Report::kMoved;
    default:
      return Change::Report::kLeft;
  }
}

}  // namespace

Change::Change(std::uint32_t ranks, Nanos now, Nanos timeout, const RankNumbers& absent)
    : timeout_(timeout), deadline_(now + timeout), absent_(ranks) {
  for (const std::uint32_t rank : absent) absent_[rank] = true;
  enter(Stage::kAsking, Word::kPrepare);
}

Change Change::repair(std::uint32_t ranks, const RankNumbers& absent) {
  Change change(ranks, 0, 0, absent);
  change.deadline_ = kForever;
  change.repair_.emplace(change.missing_);
  return change;
}

Change Change::taken_over(std::uint32_t ranks, const RankNumbers& absent) {
  Change change(ranks, 0, 0, absent);
  change.stage_ = Stage::kMoving;
  change.taken_over_ = true;
  change.instructions_.clear();
  return change;
}

void Change::enter(Stage stage, Word word) {
  stage_ = stage;
  reported_ = absent_;
  missing_ = 0;
  for (std::uint32_t rank = 0; rank < absent_.size(); ++rank) {
    if (absent_[rank]) continue;
    ++missing_;
    instructions_.push_back({rank, word});
  }
}

void Change::report(std::uint32_t rank, Report report, const RankRounds& rounds) {
  if (ended() || report != awaited(stage_) || rank >= reported_.size() || reported_[rank]) return;
  reported_[rank] = true;
  if (stage_ == Stage::kAsking) add(rank, rounds);
  const std::size_t tags = is_repair() ? repair_->tags() : decision_.first.size();
  if (tags > kMostDecidedTags) {
    return call_off(fmt::format("its ranks have used more than {} tags", kMostDecidedTags));
  }
  if (--missing_ == 0) advance();
}

void Change::advance() {
  switch (stage_) {
    case Stage::kAsking:
      if (is_repair()) decision_ = repair_->decide();
      return enter(Stage::kDeciding, Word::kDecided);
    case Stage::kDeciding:
      return enter(is_repair() ? Stage::kOver : Stage::kMoving, Word::kGo);
    case Stage::kMoving:
      return enter(Stage::kLeaving, Word::kLeave);
    default:
      stage_ = Stage::kOver;
  }
}

void Change::add(std::uint32_t rank, const RankRounds& rounds) {
  if (is_repair()) return repair_->add(rank, rounds);
  for (const auto& [tag, round] : rounds.next) {
    std::uint32_t& first = decision_.first[tag];
    first = std::max(first, round);
  }
}

bool Change::has_reported(std::uint32_t rank) const {
  return stage_ != Stage::kAsking || (rank < reported_.size() && reported_[rank]);
}

void Change::call_off(std::string why) {
  if (stage_ != Stage::kAsking && stage_ != Stage::kDeciding) return;
  why_ = std::move(why);
  enter(Stage::kCalledOff, Word::kCalledOff);
}

// Does not end the rank's sessions. While they live, the job lives too, in each version that it
// has.
void Change::lost(std::uint32_t rank) {
  call_off(fmt::format("the connection of rank {} to the coordinator has ended", rank));
}

void Change::leave_out(std::uint32_t rank) {
  if (stage_ != Stage::kMoving && stage_ != Stage::kLeaving) return;
  absent_[rank] = true;
  if (reported_[rank]) return;
  reported_[rank] = true;
  if (--missing_ == 0) advance();
}

void Change::resume(std::uint32_t rank) {
  if (stage_ == Stage::kLeaving && !reported_[rank]) instructions_.push_back({rank, Word::kLeave});
}

void Change::tick(Nanos now) {
  if (now < deadline()) return;
  call_off(
      fmt::format("no answer of {} within {} s: busy with something else than its operations, "
                  "or stopped",
                  name_ranks(waits_for()), timeout_ / kSecond));
}

Nanos Change::deadline() const {
  const bool any = stage_ == Stage::kAsking || stage_ == Stage::kDeciding;
  return any ? deadline_ : kForever;
}

std::vector<std::uint32_t> Change::waits_for() const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < reported_.size() && !ended(); ++rank) {
    if (!reported_[rank]) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<Change::Instruction> Change::take() {
  return std::exchange(instructions_, {});
}

std::string name_ranks(const std::vector<std::uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  const std::size_t named = std::min(ranks.size(), kMostNamed);
  for (std::size_t i = 0; i < named; ++i) text += fmt::format("{} {}", i > 0 ? "," : "", ranks[i]);
  if (ranks.size() > named) text += fmt::format(" and {} more", ranks.size() - named);
  return text;
}

}  // namespace tally::control
