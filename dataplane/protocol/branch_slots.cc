// Tiles between a vertex and its branches: partial sums that it asks for, results that it hands
// down. It says which slot of the branch's memory is used, and has it back by the answer.
#include <algorithm>
#include <utility>

#include "dataplane/protocol/aggregator.h"
#include "dataplane/protocol/job.h"

namespace tally::protocol {
namespace {

using wire::VertexKind;
using wire::VertexMessage;

VertexMessage message_of(const OperationRecord& operation, std::uint32_t epoch, VertexKind kind) {
  VertexMessage message;
  message.kind = kind;
  message.group = operation.key.group;
  message.part = operation.part;
  message.epoch = epoch;
  message.tree = operation.key.tree;
  message.tag = operation.key.tag;
  message.round = operation.key.round;
  return message;
}

// In elements of the operation, also where the tile only moves bytes.
std::uint32_t elements_of(const Tile& tile, const OperationRecord& operation) {
  const std::uint64_t scale =
      moves_only(operation.shape.kind) ? element_bytes(operation.shape.type) : 1;
  return static_cast<std::uint32_t>(tile.count / scale);
}

}  // namespace

// Precondition: fewer tiles of this job and class are in flight than there are slots.
void Aggregator::ask_branches(Job& job, const OperationRecord& operation, const Stretch& stretch,
                              Tile& tile) {
  const Place& place = job.place(operation);
  VertexMessage message = message_of(operation, job.spec.epoch, VertexKind::kTileWanted);
  message.first = tile.first;
  message.count = static_cast<std::uint32_t>(tile.count);
  tile.partial_type = partial_type(operation.shape);
  const std::uint64_t bytes = tile.count * element_bytes(tile.partial_type);
  for (const Branch& branch : job.vertex(operation).branches) {
    const std::uint16_t child = job.child_of(branch);
    if (!place.has(stretch.contributors, child)) continue;
    BranchSlots& slots = job.slots_of(child);
    message.slot = slots.free_up[place.slot_class].back();
    slots.free_up[place.slot_class].pop_back();
    const auto source = static_cast<std::uint32_t>(tile.sources.size());
    slots.up[message.slot] =
        BranchSlots::Up{tile.operation, tile.handle, source, tile.first, false};
    const Member member = job.members[child].member;
    tile.sources.push_back(
        Endpoint{member, slots.region, job.spec.slots.up_offset(message.slot), bytes, child});
    tile.members.push_back(member);
    ++tile.partials;
    send_down(job, child, wire::encode(message));
  }
}

Status Aggregator::tile_ready(Job& job, std::uint16_t child, const VertexMessage& message) {
  BranchSlots& slots = job.slots_of(child);
  if (message.slot >= slots.up.size()) return Status::kProtocol;
  BranchSlots::Up& up = slots.up[message.slot];
  if (up.operation == kNone || up.answered || up.first != message.first) return Status::kProtocol;
  const bool good = (message.flags & wire::kVoid) == 0;
  // Its report comes before.
  const bool active = job.table[up.operation].state == OperationRecord::State::kActive;
  if (!good && active) return Status::kProtocol;
  up.answered = true;
  steps_.push_back(Step{up.handle, Step::Kind::kPull, up.source,
                        good ? Status::kOk : Status::kCancelled, Endpoint{}, kNone});
  return Status::kOk;
}

// The tile's partial sums have been read, or nobody reads them.
void Aggregator::give_back_up(Job& job, const Tile& tile) {
  const std::uint32_t cls = job.place(job.table[tile.operation]).slot_class;
  for (std::size_t i = tile.sources.size() - tile.partials; i < tile.sources.size(); ++i) {
    const auto child = static_cast<std::uint16_t>(tile.sources[i].cookie);
    const auto slot = static_cast<std::uint32_t>(tile.sources[i].offset / job.spec.slots.bytes);
    BranchSlots& slots = job.slots_of(child);
    slots.up[slot].operation = kNone;
    slots.free_up[cls].push_back(slot);
  }
}

void Aggregator::add_below(const Job& job, const OperationRecord& operation, const Stretch& stretch,
                           Tile& tile) {
  const Place& place = job.place(operation);
  for (const Branch& branch : job.vertex(operation).branches) {
    const std::uint16_t child = job.child_of(branch);
    if (!place.has(stretch.receivers, child)) continue;
    tile.below.push_back({child, job.members[child].member, kNone});
  }
}

void Aggregator::hand_down(Job& job, const Tile& tile, std::uint32_t index, std::uint32_t parent,
                           std::uint32_t own_slot) {
  OperationRecord& operation = job.table[tile.operation];
  BranchSlots::Waiting push;
  push.handle = tile.handle;
  push.index = index;
  push.operation = tile.operation;
  push.parent = parent;
  push.own_slot = own_slot;
  push.result = message_of(operation, job.spec.epoch, VertexKind::kTileResult);
  push.result.first = tile.first;
  push.result.count = elements_of(tile, operation);
  push.bytes = tile.count * element_bytes(tile.type);
  const std::uint16_t child = tile.below[index].child;
  if (job.members[child].gone) return refuse_push(job, push, Status::kPeerLost);
  const std::uint32_t cls = job.place(operation).slot_class;
  job.slots_of(child).waiting[cls].push_back(push);
  grant(job, child, cls);
}

void Aggregator::refuse_push(Job& job, const BranchSlots::Waiting& push, Status status) {
  if (push.own_slot != kNone) --job.parents[push.parent].down[push.own_slot].pending;
  steps_.push_back(Step{push.handle, Step::Kind::kPush, push.index, status, Endpoint{}, kNone});
}

void Aggregator::grant(Job& job, std::uint16_t child, std::uint32_t cls) {
  BranchSlots& slots = job.slots_of(child);
  auto& waiting = slots.waiting[cls];
  auto& free = slots.free_down[cls];
  std::size_t granted = 0;
  for (; granted < waiting.size() && !free.empty(); ++granted) {
    const std::uint32_t slot = free.back();
    free.pop_back();
    BranchSlots::Down& down = slots.down[slot];
    down = waiting[granted];
    down.result.slot = slot;
    steps_.push_back(Step{down.handle, Step::Kind::kPush, down.index, Status::kOk,
                          Endpoint{job.members[child].member, slots.region,
                                   job.spec.slots.down_offset(slot), down.bytes},
                          slot});
  }
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(granted));
}

void Aggregator::passed_down(Tile& tile, std::uint32_t index) {
  Job& job = *jobs_[tile.job];
  const Below below = tile.below[index];
  tile.below[index].slot = kNone;
  if (job.members[below.child].gone) return give_back_down(job, below);
  BranchSlots::Down& down = job.slots_of(below.child).down[below.slot];
  down.passed = true;
  if (down.own_slot == kNone) ++job.table[tile.operation].placing;
  send_down(job, below.child, wire::encode(down.result));
}

Status Aggregator::tile_placed(Job& job, std::uint16_t child, const VertexMessage& message,
                               Nanos now) {
  BranchSlots& slots = job.slots_of(child);
  if (message.slot >= slots.down.size()) return Status::kProtocol;
  const BranchSlots::Down down = slots.down[message.slot];
  if (!down.passed || down.result.first != message.first) return Status::kProtocol;
  release(job, child, message.slot);
  placed(job, down, now);
  return Status::kOk;
}

void Aggregator::release(Job& job, std::uint16_t child, std::uint32_t slot) {
  BranchSlots& slots = job.slots_of(child);
  slots.down[slot] = BranchSlots::Down{};
  const std::uint32_t cls = slot / job.spec.slots.down;
  slots.free_down[cls].push_back(slot);
  grant(job, child, cls);
}

// Everything below the branch has it, or there is no branch any more.
void Aggregator::placed(Job& job, const BranchSlots::Down& down, Nanos now) {
  if (down.own_slot != kNone) return placed_below(job, down.parent, down.own_slot);
  if (down.operation == kNone) return;  // it has failed since
  --job.table[down.operation].placing;
  conclude_if_over(job, down.operation, now);
}

// Of a tile that failed: slots that nothing was handed down in.
void Aggregator::give_back_down(Job& job, const Tile& tile) {
  for (const Below& below : tile.below) {
    if (below.slot != kNone) give_back_down(job, below);
  }
}

void Aggregator::give_back_down(Job& job, const Below& below) {
  const BranchSlots::Down& down = job.slots_of(below.child).down[below.slot];
  if (down.own_slot != kNone) --job.parents[down.parent].down[down.own_slot].pending;
  release(job, below.child, below.slot);
}

// A failed operation's tiles wait for no slots any more.
void Aggregator::stop_waiting(Job& job, Slot slot) {
  for (const Branch& branch : job.vertex(job.table[slot]).branches) {
    BranchSlots& slots = job.slots_of(job.child_of(branch));
    for (auto& waiting : slots.waiting) {
      std::erase_if(waiting, [&](const BranchSlots::Waiting& push) {
        if (push.operation != slot) return false;
        refuse_push(job, push, Status::kCancelled);
        return true;
      });
    }
  }
}

bool Aggregator::slots_free(JobSlot slot) const {
  const Job& job = *jobs_[slot];
  const auto used = [](const auto& entry) { return entry.used; };
  for (const ParentSlots& parent : job.parents) {
    const bool free = std::none_of(parent.up.begin(), parent.up.end(), used) &&
                      std::none_of(parent.down.begin(), parent.down.end(), used);
    if (!parent.gone && !free) return false;
  }
  for (std::size_t i = 0; i < job.branches.size(); ++i) {
    const BranchSlots& slots = job.branches[i];
    std::size_t free = 0;
    for (std::size_t cls = 0; cls < slots.free_up.size(); ++cls) {
      free += slots.free_up[cls].size() + slots.free_down[cls].size();
      if (!slots.waiting[cls].empty()) return false;
    }
    const bool all = free == slots.up.size() + slots.down.size();
    if (!job.members[job.spec.ranks + i].gone && !all) return false;
  }
  return true;
}

// The branch is no more: nothing of it comes, and nobody below it waits for anything.
void Aggregator::drop_slots(Job& job, std::uint16_t child, Status why, Nanos now) {
  BranchSlots& slots = job.slots_of(child);
  for (BranchSlots::Up& up : slots.up) {
    if (up.operation == kNone || up.answered) continue;
    up.answered = true;
    steps_.push_back(Step{up.handle, Step::Kind::kPull, up.source, why, Endpoint{}, kNone});
  }
  for (auto& waiting : slots.waiting) {
    for (const BranchSlots::Waiting& push : waiting) refuse_push(job, push, why);
    waiting.clear();
  }
  for (BranchSlots::Down& slot : slots.down) {
    if (!slot.passed) continue;  // its push is answered first
    const BranchSlots::Down down = std::exchange(slot, BranchSlots::Down{});
    placed(job, down, now);
  }
}

// The results of a failed operation that branches still have are nobody's.
void Aggregator::disown(Job& job, Slot operation) {
  for (const Branch& branch : job.vertex(job.table[operation]).branches) {
    for (BranchSlots::Down& down : job.slots_of(job.child_of(branch)).down) {
      if (down.operation == operation) down.operation = kNone;
    }
  }
}

}  // namespace tally::protocol
