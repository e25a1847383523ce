// The shard as a vertex among others: parents above it, branches below.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "dataplane/engine/shard.h"

namespace tally::engine {

void Shard::add_uplink(protocol::Link link, Uplink& uplink, std::uint32_t lane,
                       const protocol::SlotLayout& layout) {
  assert(uplink.slots(lane).size() >= layout.total_bytes());
  if (link >= parents_.size()) parents_.resize(link + 1);
  parents_[link] = Parent{&uplink, lane, layout, false};
  std::size_t wanted = 0;
  for (const Parent& parent : parents_) wanted += parent.layout.all_down();
  for (; downs_ < wanted; ++downs_) {
    free_downs_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back(config_.memory).down = true;
  }
}

// What the protocol has said to it goes out first: nobody knows the link afterwards.
void Shard::remove_uplink(protocol::Link link) {
  send_letters();
  parents_[link] = Parent{};
}

std::size_t Shard::hear_parents(Nanos now) {
  std::size_t total = 0;
  for (protocol::Link link = 0; link < parents_.size(); ++link) {
    const Parent& parent = parents_[link];
    if (parent.uplink == nullptr || parent.lost) continue;
    const std::size_t count = parent.uplink->receive(parent.lane, incoming_);
    for (const RingSlot& message : std::span(incoming_).first(count)) {
      if (protocol_.heard_above(link, message, now) == Status::kOk) continue;
      counters_.notices_refused.add();
      parent.uplink->disconnect();
      break;
    }
    total += count;
  }
  return total;
}

std::size_t Shard::lose_parents() {
  std::size_t total = 0;
  for (protocol::Link link = 0; link < parents_.size(); ++link) {
    Parent& parent = parents_[link];
    if (parent.uplink == nullptr || parent.lost || !parent.uplink->lost()) continue;
    parent.lost = true;
    counters_.uplinks_lost.add();
    protocol_.parent_gone(link, Status::kPeerLost, clock_.now());
    if (on_uplink_lost_) on_uplink_lost_(link);
    take_steps();
    ++total;
  }
  return total;
}

std::size_t Shard::send_letters() {
  const auto down = protocol_.letters_down();
  const auto up = protocol_.letters_up();
  if (down.empty() && up.empty()) return 0;
  messages_.clear();
  for (const protocol::Letter& letter : down) messages_.push_back({letter.to, letter.message});
  transport_.complete(messages_);
  for (const protocol::Letter& letter : up) {
    const Parent& parent = parents_[letter.to];
    parent.uplink->send(parent.lane, letter.message);
  }
  const std::size_t total = down.size() + up.size();
  protocol_.clear_letters();
  return total;
}

// By index: what a step sets going may bring the next one.
std::size_t Shard::take_steps() {
  std::size_t taken = 0;
  for (; taken < protocol_.steps().size(); ++taken) {
    const protocol::Step step = protocol_.steps()[taken];
    step.kind == protocol::Step::Kind::kPull ? pull_step(step) : push_step(step);
  }
  if (taken > 0) protocol_.clear_steps();
  return taken;
}

// A branch's partial sum is there.
void Shard::pull_step(const protocol::Step& step) {
  TileSlot& slot = slots_[step.handle];
  const protocol::Endpoint& source = slot.tile.sources[step.index];
  if (step.status == Status::kOk) {
    const transport::Pull pull{range_of(source), user_of(step.handle, step.index)};
    return transport_.pull({&pull, 1});
  }
  fail(slot, step.status, source.member);
  if (--slot.pulls_left == 0) sum(step.handle);
}

// A branch has room for the result.
void Shard::push_step(const protocol::Step& step) {
  TileSlot& slot = slots_[step.handle];
  protocol::Tile& tile = slot.tile;
  tile.below[step.index].slot = step.slot;
  const std::size_t push = tile.landings.size() + tile.stats_landings.size() + step.index;
  transport::Landing landing{range_of(step.where), nullptr, 0, 0};
  const bool ready = step.status == Status::kOk && place_below(slot, landing);
  if (ready) {
    counters_.bytes_out.add(landing.target.bytes);
    const transport::Push one{landing, slot.result, user_of(step.handle, push)};
    return transport_.push({&one, 1});
  }
  fail(slot, step.status == Status::kOk ? Status::kPeerLost : step.status,
       tile.below[step.index].member);
  if (--slot.pushes_left == 0) end(step.handle, clock_.now());
}

// Where the transport has the branch's memory mapped, the bytes are stored there at once. False:
// the branch has fenced this node off, or its memory is not there.
bool Shard::place_below(const TileSlot& slot, transport::Landing& landing) {
  transport_.locate({&landing, 1});
  if (landing.direct == nullptr) return true;
  const transport::Peer branch = landing.target.peer;
  if (transport_.open({&branch, 1}) != transport::kNoPeer) return false;
  std::memcpy(landing.direct, slot.result, landing.target.bytes);
  return transport_.close({&branch, 1}) == transport::kNoPeer;
}

// In the slots between this shard and the tile's parent.
std::byte* Shard::own_slot(const protocol::Tile& tile) const {
  const Parent& parent = parents_[tile.own.link];
  const std::uint64_t offset = tile.partial ? parent.layout.up_offset(tile.own.slot)
                                            : parent.layout.down_offset(tile.own.slot);
  return parent.uplink->slots(parent.lane).data() + offset;
}

std::size_t Shard::issue_downs() {
  std::size_t tiles = 0;
  for (; !free_downs_.empty(); ++tiles) {
    const std::uint32_t slot = free_downs_.back();
    slots_[slot].tile.handle = slot;
    if (!protocol_.start_down(slots_[slot].tile)) break;
    free_downs_.pop_back();
    hand_on(slot);
  }
  return tiles;
}

// To ranks at once. Branches have Steps of their own, and the tile lasts until all have come, also
// when it has failed here.
void Shard::hand_on(std::uint32_t index) {
  TileSlot& slot = slots_[index];
  slot.status = Status::kOk;
  slot.culprit = protocol::kNoMember;
  counters_.bytes_down.add(slot.tile.count * element_bytes(slot.tile.type));
  landings_.clear();
  if (!protocol_.wanted(slot.tile)) return push(index);
  slot.result = own_slot(slot.tile);
  locate(slot);
  auto lost = transport_.open(slot.tile.members);
  if (lost == transport::kNoPeer) {
    copy_down(slot);
    place_stats(slot);
    lost = transport_.close(slot.tile.members);
  }
  if (lost != transport::kNoPeer) {
    fail(slot, Status::kPeerLost, lost);
    landings_.clear();
  }
  push(index);
}

// The kernels copy, too: the sum of one input is the input, and statistics are those of the result.
void Shard::copy_down(TileSlot& slot) {
  const protocol::Tile& tile = slot.tile;
  outputs_.clear();
  for (const auto& landing : std::span(landings_).first(tile.landings.size())) {
    if (landing.direct != nullptr) outputs_.push_back(landing.direct);
  }
  if (outputs_.empty() && tile.stats_landings.empty()) return;
  if (outputs_.empty()) outputs_.push_back(own_slot(tile));  // onto itself
  const Span result{slot.result, tile.count * element_bytes(tile.type)};
  const View view(&result, 1);
  summation::Reduction reduction;
  reduction.inputs = {&view, 1};
  store(slot, reduction);
}

}  // namespace tally::engine
