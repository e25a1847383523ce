#include "client/operations/operation_book.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace tally::client {
namespace {

BookConfig with_shards(BookConfig config) {
  if (!config.shards.empty()) return config;
  config.shards.resize(config.partition.trees);
  std::iota(config.shards.begin(), config.shards.end(), 0U);
  return config;
}

std::size_t shard_count(const BookConfig& config) {
  return *std::max_element(config.shards.begin(), config.shards.end()) + std::size_t{1};
}

// Each entry uses credit of at least one shard, so there are never more entries than this.
std::uint32_t most_entries(const BookConfig& config) {
  return static_cast<std::uint32_t>(
      std::min<std::size_t>(shard_count(config) * config.credit, UINT16_MAX));
}

}  // namespace

OperationBook::OperationBook(BookConfig config)
    : config_(with_shards(std::move(config))),
      left_out_(make_left_out(config_.left_out)),
      entries_(most_entries(config_)),
      used_credit_(shard_count(config_)) {
  for (auto i = static_cast<std::uint32_t>(entries_.size()); i-- > 0;) free_.push_back(i);
}

protocol::Operand OperationBook::operand(const wire::Notice& notice) const {
  return protocol::Operand{notice.group, notice.tag, notice.type, notice.count};
}

std::uint32_t OperationBook::shard_of(const wire::Notice& notice, std::size_t part) const {
  const auto index = static_cast<std::uint32_t>(part);
  return config_.shards[protocol::tree_of(config_.partition, operand(notice), index)];
}

// Takes credit for all parts of an operation, or for none. Several parts may use one shard.
bool OperationBook::take_credit(const wire::Notice& notice, std::uint32_t parts) {
  for (std::uint32_t part = 0; part < parts; ++part) {
    std::uint32_t& used = used_credit_[shard_of(notice, part)];
    if (used < config_.credit) {
      ++used;
      continue;
    }
    while (part-- > 0) --used_credit_[shard_of(notice, part)];
    return false;
  }
  return true;
}

bool OperationBook::outstanding(std::uint32_t tag) const {
  const auto found = tags_.find(tag);
  return found != tags_.end() && found->second.entry != UINT32_MAX;
}

std::uint32_t OperationBook::next_round(std::uint32_t tag) const {
  const auto found = tags_.find(tag);
  return found == tags_.end() ? 0 : found->second.next_round;
}

std::map<std::uint32_t, std::uint32_t> OperationBook::next_rounds() const {
  std::map<std::uint32_t, std::uint32_t> rounds;
  for (const auto& [tag, state] : tags_) rounds.emplace(tag, state.next_round);
  return rounds;
}

void OperationBook::begin_at(std::uint32_t number, const TagRounds& rounds) {
  Tag& tag = tags_[number];
  tag.next_round = tag.begin = tag.succeeded = rounds.next;
  tag.is_unknown = false;
  tag.status = Status::kOk;
  if (!rounds.failure) return;
  tag.succeeded = rounds.failure->succeeded;
  tag.status = rounds.failure->status;
  tag.culprit = rounds.failure->culprit;
}

void OperationBook::return_at(std::uint32_t tag, std::uint32_t round) {
  begin_at(tag, round);
  tags_[tag].is_unknown = true;
}

bool OperationBook::knows_rounds(std::uint32_t tag) const {
  const auto found = tags_.find(tag);
  return found == tags_.end() || !found->second.is_unknown;
}

RoundsByTag OperationBook::rounds() const {
  RoundsByTag rounds;
  for (const auto& [number, tag] : tags_) {
    TagRounds& of = rounds[number] = {tag.next_round, {}, false};
    if (tag.status != Status::kOk) of.failure = {tag.status, tag.culprit, tag.succeeded};
  }
  return rounds;
}

void OperationBook::inherit(const OperationBook& before) {
  for (const auto& [number, old] : before.tags_) {
    const auto found = tags_.find(number);
    if (found == tags_.end()) continue;
    Tag& tag = found->second;
    if (tag.succeeded == tag.begin) tag.succeeded = old.succeeded;  // none has succeeded here
    const std::uint32_t outstanding = tag.entry != UINT32_MAX ? 1 : 0;
    if (tag.next_round - outstanding > tag.begin) continue;  // one has ended here
    tag.status = old.status;
    tag.culprit = old.culprit;
  }
}

// Operations usually end long before their deadlines, so the search happens once in a deadline.
Nanos OperationBook::earliest_until(Nanos now) const {
  if (earliest_ > now || outstanding_ == 0) return earliest_;
  earliest_ = kForever;
  for (const Entry& entry : entries_) {
    if (entry.live) earliest_ = std::min(earliest_, entry.until);
  }
  return earliest_;
}

std::vector<std::uint32_t> OperationBook::overdue_shards(Nanos now) const {
  std::set<std::uint32_t> shards;
  for (const Entry& entry : entries_) {
    if (!entry.live || entry.until > now) continue;
    for (std::size_t part = 0; part < entry.part_ended.size(); ++part) {
      if (!entry.part_ended[part]) shards.insert(shard_of(entry.notice, part));
    }
  }
  return {shards.begin(), shards.end()};
}

std::optional<std::uint16_t> OperationBook::needed_rank(const wire::Notice& notice) const {
  if (left_out_ == nullptr) return std::nullopt;
  const protocol::Shape shape{notice.kind, notice.type,   notice.operation,
                              notice.root, config_.ranks, notice.count};
  return client::needed_rank(*left_out_, shape);
}

// All ranks of the version end the round in this way, and no node hears of it.
void OperationBook::end_without(std::uint16_t rank, const wire::Notice& notice, std::uint64_t user,
                                Tag& tag) {
  tag.is_unknown = false;
  tag.status = Status::kPeerLost;
  tag.culprit = rank;
  wire::Completion verdict;
  verdict.status = tag.status;
  verdict.culprit = rank;
  finished_.push_back(Finished{verdict, user, notice.tag, tag.next_round++, false, left_out_});
}

Status OperationBook::post(wire::Notice notice, std::uint64_t user, Nanos until,
                           std::vector<Outbound>& out) {
  Tag& tag = tags_[notice.tag];
  if (tag.entry != UINT32_MAX) return Status::kDuplicate;
  if (const auto rank = needed_rank(notice)) {
    end_without(*rank, notice, user, tag);
    return Status::kOk;
  }
  if (free_.empty()) return Status::kNoCredit;
  const std::uint32_t parts = protocol::part_count(config_.partition, operand(notice));
  if (!take_credit(notice, parts)) return Status::kNoCredit;
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Entry& entry = entries_[index];
  notice.epoch = config_.epoch;
  notice.round = tag.next_round++;
  notice.cookie = std::uint32_t{++entry.generation} << 16 | index;
  entry.live = true;
  entry.failed = entry.started = entry.taken_back = false;
  entry.parts_left = parts;
  entry.user = user;
  entry.until = until;
  earliest_ = std::min(earliest_, until);
  entry.notice = notice;
  entry.verdict = wire::Completion{};
  entry.loss.reset();
  entry.part_ended.assign(parts, false);
  tag.entry = index;
  ++outstanding_;
  for (std::uint32_t part = 0; part < parts; ++part) {
    notice.part = static_cast<std::uint16_t>(part);
    out.push_back(Outbound{shard_of(notice, part), notice});
  }
  return Status::kOk;
}

// Cancels an operation once, because a ring has room for a notice and one cancel.
void OperationBook::take_back(Entry& entry, std::uint16_t culprit,
                              std::vector<Outbound>& out) const {
  if (std::exchange(entry.taken_back, true)) return;
  Outbound cancel{0, entry.notice};
  cancel.notice.kind = wire::Kind::kCancel;
  cancel.notice.flags = 0;
  cancel.notice.root = culprit < config_.ranks ? culprit : config_.rank;
  for (std::size_t part = 0; part < entry.part_ended.size(); ++part) {
    if (entry.part_ended[part]) continue;
    cancel.notice.part = static_cast<std::uint16_t>(part);
    cancel.shard = shard_of(entry.notice, part);
    out.push_back(cancel);
  }
}

Status OperationBook::cancel(std::uint32_t tag, std::vector<Outbound>& out) {
  const auto found = tags_.find(tag);
  if (found == tags_.end() || found->second.entry == UINT32_MAX) return Status::kInvalidArgument;
  take_back(entries_[found->second.entry], config_.rank, out);
  return Status::kOk;
}

OperationBook::Entry* OperationBook::entry_of(const wire::Completion& completion) {
  const std::uint32_t index = completion.cookie & 0xffff;
  if (index >= entries_.size()) return nullptr;
  Entry& entry = entries_[index];
  const wire::Notice& posted = entry.notice;
  const bool ours = entry.live && posted.cookie == completion.cookie &&
                    posted.tag == completion.tag && posted.round == completion.round &&
                    completion.part < entry.part_ended.size() && !entry.part_ended[completion.part];
  return ours ? &entry : nullptr;
}

Status OperationBook::complete(std::uint32_t shard, const wire::Completion& completion,
                               std::vector<Outbound>& out) {
  // The notice arrived twice. The node serves the first one, which uses the buffers, or has served
  // it.
  if (completion.status == Status::kDuplicate) return Status::kOk;
  Entry* entry = entry_of(completion);
  if (entry == nullptr) return Status::kProtocol;
  if (shard_of(entry->notice, completion.part) != shard) return Status::kProtocol;
  entry->part_ended[completion.part] = true;
  --entry->parts_left;
  --used_credit_[shard];
  if (completion.status == Status::kOk) {
    // One part with bytes is enough, because its result bytes have landed.
    entry->started =
        entry->started ||
        protocol::cut(config_.partition, operand(entry->notice), completion.part).count > 0;
  } else {
    const bool first = !entry->failed;
    fail(*entry, completion);
    // Without this part there is no result. The cancels give the buffers back sooner.
    if (first) take_back(*entry, completion.culprit, out);
  }
  if (entry->parts_left == 0) finish(*entry);
  return Status::kOk;
}

// The parts of a failed operation can have different verdicts. A rank that saw the cause cancels
// its other parts, so kCancelled counts only when no part has another verdict. Of the others the
// lowest part decides, not the first to arrive, so that all ranks come to the same verdict.
void OperationBook::fail(Entry& entry, const wire::Completion& verdict) {
  entry.started |= (verdict.flags & wire::kStarted) != 0;
  const auto order = [](const wire::Completion& completion) {
    return std::pair(completion.status == Status::kCancelled, completion.part);
  };
  if (!entry.failed || order(verdict) < order(entry.verdict)) entry.verdict = verdict;
  entry.failed = true;
}

void OperationBook::remove(Entry& entry) {
  tags_[entry.notice.tag].entry = UINT32_MAX;
  entry.live = false;
  free_.push_back(entry.notice.cookie & 0xffff);
  if (--outstanding_ == 0) earliest_ = kForever;
}

void OperationBook::finish(Entry& entry) {
  finished_.push_back(Finished{entry.verdict, entry.user, entry.notice.tag, entry.notice.round,
                               entry.failed && entry.started, left_out_});
  Tag& tag = tags_[entry.notice.tag];
  tag.is_unknown = false;
  tag.status = entry.verdict.status;
  tag.culprit = entry.verdict.culprit;
  if (tag.status == Status::kOk) tag.succeeded = entry.notice.round + 1;
  remove(entry);
}

Status OperationBook::note_loss(const wire::Completion& completion) {
  Entry* entry = entry_of(completion);
  if (entry == nullptr) return Status::kProtocol;
  if (!entry->loss) entry->loss = completion;
  return Status::kOk;
}

// Ends an operation that gets no verdict from the nodes.
void OperationBook::give_up(Entry& entry, Status status, std::uint16_t culprit) {
  for (std::size_t part = 0; part < entry.part_ended.size(); ++part) {
    if (!entry.part_ended[part]) --used_credit_[shard_of(entry.notice, part)];
  }
  wire::Completion verdict;
  verdict.status = status;
  verdict.culprit = culprit;
  verdict.part = UINT16_MAX;       // an earlier verdict of a shard has priority
  verdict.flags = wire::kStarted;  // the result may have begun to land
  fail(entry, verdict);
  finish(entry);
}

void OperationBook::abandon(Status status) {
  for (Entry& entry : entries_) {
    if (entry.live) give_up(entry, status, wire::kNoRank);
  }
}

std::vector<Interrupted> OperationBook::interrupt() {
  std::vector<Interrupted> interrupted;
  for (Entry& entry : entries_) {
    if (!entry.live) continue;
    if (entry.failed) {
      give_up(entry, Status::kCancelled, config_.rank);
      continue;
    }
    interrupted.push_back({entry.notice, entry.user, entry.loss, entry.taken_back, left_out_});
    tags_[entry.notice.tag].next_round = entry.notice.round;
    remove(entry);
  }
  std::fill(used_credit_.begin(), used_credit_.end(), 0);
  std::sort(interrupted.begin(), interrupted.end(),
            [](const auto& one, const auto& other) { return one.notice.tag < other.notice.tag; });
  return interrupted;
}

bool OperationBook::take(Finished& finished) {
  if (finished_.empty()) return false;
  finished = finished_.front();
  finished_.pop_front();
  return true;
}

}  // namespace tally::client
