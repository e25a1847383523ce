#include "client/session/session_repair.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "client/operations/verdict_text.h"

namespace tally::client {
namespace {

constexpr Nanos kFenceTime = 1 * kSecond;  // for a shard that is in the middle of a tile

}  // namespace

bool SessionRepair::note(const std::string& why) {
  if (!units_.change.repairs()) return false;
  if (!noted_) noted_ = LossReport{why};
  return true;
}

// Names the rank of which the completion reports that it is lost or late. A rank that is late
// itself hears of that from the coordinator.
void SessionRepair::blame(const wire::Completion& completion, std::uint16_t own_rank) {
  if (!finishes_ || !noted_) return;
  if (completion.culprit == wire::kNoRank || completion.culprit == own_rank) return;
  const bool is_late = completion.status == Status::kDeadline;
  const bool is_lost =
      completion.status == Status::kPeerLost || completion.status == Status::kPeerLeft;
  if (is_late && !noted_->late_rank) noted_->late_rank = completion.culprit;
  if (is_lost && !noted_->lost_rank) noted_->lost_rank = completion.culprit;
}

// A rank has not announced the operation in time, or has announced it and gave no bytes. A node
// that gets the bytes after all names no rank. Then the operation is done again once, because it
// may be too large for its deadline.
//
// When more than half of the ranks are missing, the operation fails, because no other rank may ever
// post this tag. A quorum replaces this rule.
bool SessionRepair::is_late(const PlanVersion& version, const wire::Completion& completion) {
  if (!finishes_ || completion.status != Status::kDeadline) return false;
  const std::size_t present = version.config.ranks - version.config.left_out.size();
  if (!has_quorum_ && 2U * completion.missing > present) return false;
  if (completion.missing > 0 || completion.culprit != wire::kNoRank) return true;
  const auto [found, is_first] = slow_.try_emplace(completion.tag, completion.round);
  const bool is_again = !is_first && found->second == completion.round;
  found->second = completion.round;
  return !is_again || noted_;
}

std::optional<Status> SessionRepair::take_loss(PlanVersion& version,
                                               const wire::Completion& completion) {
  const Status status = completion.status;
  const bool is_loss = status == Status::kNodeLost || status == Status::kPeerLost ||
                       status == Status::kPeerLeft || status == Status::kStaleEpoch;
  if (!units_.change.repairs() || !(is_loss || is_late(version, completion))) return std::nullopt;
  const Status known = version.book.note_loss(completion);
  if (known != Status::kOk) return known;
  note(verdict_text(completion, version.config.rank, version.names));
  blame(completion, version.config.rank);
  return known;
}

bool SessionRepair::interrupt(const std::string& why, const SessionOptions& options) {
  const LossReport loss = noted_.value_or(LossReport{why});
  noted_.reset();
  since_ = monotonic_now();
  PlanVersions& versions = units_.versions;
  const std::uint32_t epoch = versions.now().config.epoch;
  if (!units_.change.repairs()) return false;  // the coordinator has gone meanwhile
  if (!take_memory_back(options)) return false;
  std::vector<Interrupted> interrupted;
  for (PlanVersion* version : {versions.old(), &versions.now()}) {
    if (version == nullptr) continue;
    std::vector<Interrupted> more = version->book.interrupt();
    interrupted.insert(interrupted.end(), more.begin(), more.end());
    units_.posts.take_over(version->book);
  }
  for (const Finished& finished : units_.posts.ended()) units_.operations.keep_ended(finished);
  versions.keep_rounds(units_.change.plans());
  for (PlanVersion* version : versions.all()) {
    units_.regions.withdraw_all_from(version->nodes);
    version->nodes.hang_up();
    version->is_lost = true;
  }
  versions.keep_only_now();
  options.write_log(1, fmt::format("the job of epoch {} waits for a repair: {}", epoch, why));
  units_.posts.hold(std::move(interrupted));
  units_.change.interrupt(epoch, loss, since_);
  return true;
}

// A shard that has stopped in the middle of a tile keeps the old pages of the regions.
bool SessionRepair::take_memory_back(const SessionOptions& options) {
  if (units_.versions.fence(since_ + kFenceTime)) return true;
  const Outcome replaced = units_.regions.replace_used(
      [&](const Region& region) { return units_.operations.use_of(region); });
  options.write_log(1, replaced ? "a node has stopped in the middle of a tile: the regions with "
                                  "outstanding results have moved out of its reach"
                                : replaced.error().message);
  return replaced.ok();
}

// A rank that has returned takes part from the rounds on that the coordinator gave it. Others may
// not have ended the rounds before yet, so it does not speak for these.
//
// An operation whose contribution is lost counts as failed. If it has succeeded elsewhere, the
// decision says so.
RoundsByTag SessionRepair::rounds() const {
  const OperationBook& book = units_.versions.now().book;
  RoundsByTag rounds = book.rounds();
  std::erase_if(rounds, [&book](const auto& one) { return !book.knows_rounds(one.first); });
  units_.posts.for_each_interrupted(
      [&](std::uint64_t user, std::uint32_t tag, std::uint32_t round) {
        if (!units_.operations.is_spoiled(user)) return;
        TagRounds& of = rounds[tag];
        const std::uint32_t succeeded = of.failure ? of.failure->succeeded : round;
        of = {round + 1, RoundFailure{Status::kNodeLost, wire::kNoRank, succeeded}, false};
      });
  units_.operations.mark_kept(rounds);
  return rounds;
}

Outcome SessionRepair::go_over(const SessionOptions& options) {
  const RoundDecision decided = units_.change.repaired();
  const RoundsByTag own = units_.versions.now().book.rounds();
  RoundsByTag reported = own;
  units_.operations.mark_kept(reported);
  units_.versions.replace(decided);
  units_.posts.close_rounds(
      decided, own, [&](std::uint64_t user) { return units_.operations.stands_with_others(user); });
  units_.posts.for_each_interrupted(
      [&](std::uint64_t user, std::uint32_t, std::uint32_t) { units_.operations.restore(user); });
  for (const auto& [tag, rounds] : reported) {
    const auto first = decided.first.find(tag);
    if (first == decided.first.end() || rounds.next <= first->second || !rounds.kept) continue;
    if (auto posted = do_again(tag, options.deadline_ms); !posted) return posted;
  }
  const PlanVersion& now = units_.versions.now();
  options.write_log(
      1,
      fmt::format("the job is repaired after {} ms and goes on in epoch {}, with {}",
                  (monotonic_now() - since_) / kMillisecond, now.config.epoch, now.nodes.titles()));
  return Unit{};
}

Outcome SessionRepair::do_again(std::uint32_t tag, std::uint32_t deadline_ms) {
  const auto memory =
      units_.regions.side_region(units_.versions, units_.operations.bytes_for_again(tag));
  if (!memory) return memory.error();
  const auto post = units_.operations.again(tag, *memory->region, deadline_ms);
  units_.operations.begin(
      post, [&](std::uint32_t number) { return units_.posts.do_again(post.notice, number); });
  return Unit{};
}

}  // namespace tally::client
