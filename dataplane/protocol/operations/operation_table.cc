#include "dataplane/protocol/operations/operation_table.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tally::protocol {
namespace {

std::uint32_t operation_capacity(std::uint32_t announcers, std::uint32_t credit) {
  // The last one is for the newest failed operation, before the oldest failed one is erased.
  return announcers * credit + credit + 1;
}

// At most two thirds full, so that probes stay short. (With a factor of 2 instead of 1.5, a number
// a little above a power of two would give an index of four times its size.)
std::uint32_t index_size(std::uint32_t operations) {
  return std::bit_ceil(operations + operations / 2);
}

// The first size of the index. The largest index would be half a MiB for 256 ranks, and each search
// would touch another cache line of it, even with few operations.
constexpr std::uint32_t kFirstIndex = 256;

// Few tags that are in use at the same time share a place. Each tag has a place for each tree. With
// many tags and many trees, the table remembers no more than this, unless credit needs more.
constexpr std::uint32_t kEnoughClosed = 1 << 14;
std::uint32_t closed_size(std::uint32_t credit, std::uint32_t trees) {
  const std::uint64_t all = std::uint64_t{credit} * 4 * std::max<std::uint32_t>(trees, 1);
  return std::bit_ceil(static_cast<std::uint32_t>(
      std::min<std::uint64_t>(all, std::max(credit * 4, kEnoughClosed))));
}

}  // namespace

OperationTable::OperationTable(std::uint16_t members, std::uint32_t credit,
                               std::uint32_t announcers, std::uint32_t trees)
    : members_(members),
      words_((members + 63u) / 64),
      capacity_(operation_capacity(announcers, credit)),
      by_member_(members, kNone),
      closed_(closed_size(credit, trees)) {
  const std::size_t announcements = std::size_t{announcers} * credit;
  index_.reserve(index_size(capacity_));
  index_.assign(std::min(kFirstIndex, index_size(capacity_)), kNone);
  operations_.reserve(capacity_);
  free_operations_.reserve(capacity_);
  marks_.reserve(std::size_t{capacity_} * words_);
  announcements_.reserve(announcements);
  free_announcements_.reserve(announcements);
}

std::uint64_t OperationTable::footprint(std::uint16_t members, std::uint32_t credit,
                                        std::uint32_t announcers, std::uint32_t trees) {
  const std::uint64_t operations = operation_capacity(announcers, credit);
  const std::uint64_t announcements = std::uint64_t{announcers} * credit;
  return operations * (sizeof(OperationRecord) + sizeof(PoolIndex) + (members + 63u) / 64 * 8) +
         announcements * (sizeof(Announcement) + sizeof(PoolIndex)) +
         index_size(static_cast<std::uint32_t>(operations)) * sizeof(PoolIndex) +
         closed_size(credit, trees) * sizeof(Closed);
}

std::uint32_t OperationTable::hash(const OperationKey& key) {
  std::uint64_t mixed = (std::uint64_t{key.tag} << 32 | key.round) ^
                        (std::uint64_t{key.group} << 48 | std::uint64_t{key.tree} << 24);
  mixed *= 0x9e3779b97f4a7c15u;
  return static_cast<std::uint32_t>(mixed >> 32);
}

std::uint32_t OperationTable::home(const OperationKey& key) const {
  return hash(key) & static_cast<std::uint32_t>(index_.size() - 1);
}

PoolIndex OperationTable::find(const OperationKey& key) const {
  const auto mask = static_cast<std::uint32_t>(index_.size() - 1);
  for (std::uint32_t i = home(key); index_[i] != kNone; i = (i + 1) & mask) {
    if (operations_[index_[i]].key == key) return index_[i];
  }
  return kNone;
}

void OperationTable::enter(PoolIndex operation) {
  const auto mask = static_cast<std::uint32_t>(index_.size() - 1);
  std::uint32_t i = home(operations_[operation].key);
  while (index_[i] != kNone) i = (i + 1) & mask;
  index_[i] = operation;
}

// Uses the room that the constructor has reserved.
void OperationTable::widen_index() {
  index_.assign(2 * index_.size(), kNone);
  for (PoolIndex operation = 0; operation < used(); ++operation) {
    if (operations_[operation].state != OperationRecord::State::kFree) enter(operation);
  }
}

PoolIndex OperationTable::create(const OperationKey& key, std::uint16_t children) {
  if (index_size(live_ + 1) > index_.size()) widen_index();
  if (free_operations_.empty()) {
    free_operations_.push_back(used());
    operations_.emplace_back();
    marks_.resize(marks_.size() + words_);
  }
  const PoolIndex index = free_operations_.back();
  free_operations_.pop_back();
  OperationRecord& operation = operations_[index];
  operation = OperationRecord{};
  operation.state = OperationRecord::State::kGathering;
  operation.key = key;
  operation.children = children;
  std::fill_n(marks_.begin() + std::size_t{index} * words_, words_, 0);
  enter(index);
  ++live_;
  return index;
}

std::size_t OperationTable::closed_index(const OperationKey& key) const {
  return hash(OperationKey{key.tree, key.group, key.tag, 0}) & (closed_.size() - 1);
}

bool OperationTable::closed(const OperationKey& key) const {
  const Closed& last = closed_[closed_index(key)];
  return last.any && last.tag == key.tag && last.group == key.group && last.tree == key.tree &&
         static_cast<std::int32_t>(key.round - last.round) <= 0;  // the count may wrap
}

void OperationTable::erase(PoolIndex index) {
  OperationRecord& operation = operations_[index];
  const OperationKey& key = operation.key;
  if (operation.announced == operation.children && !closed(key)) {
    closed_[closed_index(key)] = Closed{true, key.group, key.tree, key.tag, key.round};
  }
  unpark(operation);
  unindex(key);
  operation.state = OperationRecord::State::kFree;
  free_operations_.push_back(index);
  --live_;
}

// Deletes by shifting back (Knuth 6.4, algorithm R). There are no tombstones, so probes do not grow
// longer with time.
void OperationTable::unindex(const OperationKey& key) {
  const auto mask = static_cast<std::uint32_t>(index_.size() - 1);
  std::uint32_t hole = home(key);
  while (!(operations_[index_[hole]].key == key)) hole = (hole + 1) & mask;
  for (std::uint32_t i = (hole + 1) & mask; index_[i] != kNone; i = (i + 1) & mask) {
    const std::uint32_t wanted = home(operations_[index_[i]].key);
    if (((i - wanted) & mask) >= ((i - hole) & mask)) {
      index_[hole] = index_[i];
      hole = i;
    }
  }
  index_[hole] = kNone;
}

bool OperationTable::mark(PoolIndex index, std::uint16_t child) {
  std::uint64_t& word = marks_[std::size_t{index} * words_ + child / 64];
  const std::uint64_t bit = 1ULL << (child % 64);
  if ((word & bit) != 0) return false;
  word |= bit;
  ++operations_[index].announced;
  return true;
}

bool OperationTable::marked(PoolIndex index, std::uint16_t child) const {
  return (marks_[std::size_t{index} * words_ + child / 64] >> (child % 64) & 1) != 0;
}

void OperationTable::park(OperationRecord& operation, const Announcement& announcement) {
  if (free_announcements_.empty()) {
    free_announcements_.push_back(static_cast<PoolIndex>(announcements_.size()));
    announcements_.emplace_back();
  }
  const PoolIndex index = free_announcements_.back();
  free_announcements_.pop_back();
  announcements_[index] = announcement;
  announcements_[index].next = operation.announcements;
  operation.announcements = index;
}

void OperationTable::unpark(OperationRecord& operation) {
  while (operation.announcements != kNone) {
    free_announcements_.push_back(operation.announcements);
    operation.announcements = announcements_[operation.announcements].next;
  }
}

void OperationTable::order_by_rank(OperationRecord& operation) {
  for (PoolIndex i = operation.announcements; i != kNone; i = announcements_[i].next) {
    by_member_[announcements_[i].rank] = i;
  }
  operation.announcements = kNone;
  for (std::uint16_t member = members_; member-- > 0;) {
    const PoolIndex index = std::exchange(by_member_[member], kNone);
    if (index == kNone) continue;  // no child here
    announcements_[index].next = operation.announcements;
    operation.announcements = index;
  }
}

}  // namespace tally::protocol
