#include "client/operation_book.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace tally::client {

OperationBook::OperationBook(BookConfig config) : config_(std::move(config)) {
  if (config_.lanes.empty()) {
    config_.lanes.resize(config_.plan.trees);
    std::iota(config_.lanes.begin(), config_.lanes.end(), 0U);
  }
  used_credit_.resize(*std::max_element(config_.lanes.begin(), config_.lanes.end()) + 1);
  // Each entry uses credit of one lane at least, so there are never more.
  const std::size_t most = used_credit_.size() * config_.credit;
  entries_.resize(std::min<std::size_t>(most, UINT16_MAX));
  for (auto i = static_cast<std::uint32_t>(entries_.size()); i-- > 0;) free_.push_back(i);
}

protocol::Operand OperationBook::operand(const wire::Notice& notice) const {
  return protocol::Operand{notice.group, notice.tag, notice.type, notice.count};
}

std::uint32_t OperationBook::lane_of(const wire::Notice& notice, std::size_t part) const {
  const auto index = static_cast<std::uint32_t>(part);
  return config_.lanes[protocol::tree_of(config_.plan, operand(notice), index)];
}

// For all its parts, of which several may go by one lane, or for none.
bool OperationBook::take_credit(const wire::Notice& notice, std::uint32_t parts) {
  for (std::uint32_t part = 0; part < parts; ++part) {
    std::uint32_t& used = used_credit_[lane_of(notice, part)];
    if (used < config_.credit) {
      ++used;
      continue;
    }
    while (part-- > 0) --used_credit_[lane_of(notice, part)];
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

Nanos OperationBook::earliest_until() const {
  Nanos earliest = kForever;
  if (outstanding_ == 0) return earliest;
  for (const Entry& entry : entries_) {
    if (entry.live) earliest = std::min(earliest, entry.until);
  }
  return earliest;
}

std::vector<std::uint32_t> OperationBook::overdue_lanes(Nanos now) const {
  std::set<std::uint32_t> lanes;
  for (const Entry& entry : entries_) {
    if (!entry.live || entry.until > now) continue;
    for (std::size_t part = 0; part < entry.part_ended.size(); ++part) {
      if (!entry.part_ended[part]) lanes.insert(lane_of(entry.notice, part));
    }
  }
  return {lanes.begin(), lanes.end()};
}

Status OperationBook::post(wire::Notice notice, std::uint64_t user, Nanos until,
                           std::vector<Outbound>& out) {
  Tag& tag = tags_[notice.tag];
  if (tag.entry != UINT32_MAX) return Status::kDuplicate;
  if (free_.empty()) return Status::kNoCredit;
  const std::uint32_t parts = protocol::part_count(config_.plan, operand(notice));
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
  entry.notice = notice;
  entry.verdict = wire::Completion{};
  entry.part_ended.assign(parts, false);
  tag.entry = index;
  ++outstanding_;
  for (std::uint32_t part = 0; part < parts; ++part) {
    notice.part = static_cast<std::uint16_t>(part);
    out.push_back(Outbound{lane_of(notice, part), notice});
  }
  return Status::kOk;
}

// Once: a ring has room for a notice and its cancel.
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
    cancel.lane = lane_of(entry.notice, part);
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

Status OperationBook::complete(std::uint32_t lane, const wire::Completion& completion,
                               std::vector<Outbound>& out) {
  // A notice that arrived twice. The first has been served, or is being served and has the buffers.
  if (completion.status == Status::kDuplicate) return Status::kOk;
  Entry* entry = entry_of(completion);
  if (entry == nullptr) return Status::kProtocol;
  if (lane_of(entry->notice, completion.part) != lane) return Status::kProtocol;
  entry->part_ended[completion.part] = true;
  --entry->parts_left;
  --used_credit_[lane];
  if (completion.status == Status::kOk) {
    // One part that has bytes is enough.
    entry->started = entry->started ||
                     protocol::cut(config_.plan, operand(entry->notice), completion.part).count > 0;
  } else {
    const bool first = !entry->failed;
    fail(*entry, completion);
    // Without this part there is no result: the buffers come back sooner.
    if (first) take_back(*entry, completion.culprit, out);
  }
  if (entry->parts_left == 0) finish(*entry);
  return Status::kOk;
}

// The parts of one failure tell it differently: a rank that saw the cause takes its other parts
// back, so "cancelled" is only the verdict where nobody says more. Of the rest the lowest part
// decides, not the first to arrive: so all ranks come to the same.
void OperationBook::fail(Entry& entry, const wire::Completion& verdict) {
  entry.started |= (verdict.flags & wire::kStarted) != 0;
  const auto order = [](const wire::Completion& completion) {
    return std::pair(completion.status == Status::kCancelled, completion.part);
  };
  if (!entry.failed || order(verdict) < order(entry.verdict)) entry.verdict = verdict;
  entry.failed = true;
}

void OperationBook::finish(Entry& entry) {
  finished_.push_back(Finished{entry.verdict, entry.user, entry.notice.tag, entry.notice.round,
                               entry.failed && entry.started});
  tags_[entry.notice.tag].entry = UINT32_MAX;
  entry.live = false;
  free_.push_back(entry.notice.cookie & 0xffff);
  --outstanding_;
}

void OperationBook::abandon(Status status) {
  for (Entry& entry : entries_) {
    if (!entry.live) continue;
    for (std::size_t part = 0; part < entry.part_ended.size(); ++part) {
      if (entry.part_ended[part]) continue;
      --used_credit_[lane_of(entry.notice, part)];
    }
    wire::Completion verdict;
    verdict.status = status;
    verdict.part = UINT16_MAX;       // what a shard has said already says more
    verdict.flags = wire::kStarted;  // nobody can say: the result may have begun to land
    fail(entry, verdict);
    finish(entry);
  }
}

bool OperationBook::take(Finished& finished) {
  if (finished_.empty()) return false;
  finished = finished_.front();
  finished_.pop_front();
  return true;
}

}  // namespace tally::client
