#include "dataplane/engine/shard.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "base/debug_steps.h"
#include "dataplane/engine/checksums.h"

namespace tally::engine {
namespace {

constexpr std::size_t kBurst = 64;
// A turn starts tiles until this many bytes are on their way, so that notices of a higher priority
// wait for little.
constexpr std::uint64_t kTurnBytes = 1 << 20;
// Damaged inputs are pulled again so often; by then it is no accident.
constexpr std::uint8_t kMostRepeats = 3;
// Chores make system calls: not in every idle turn.
constexpr Nanos kChoresEvery = 100 * kMicrosecond;
constexpr Nanos kLongestSleep = 1 * kSecond;

// A tile slot and one of its endpoints, as the transport's `user` value.
std::uint64_t user_of(std::uint32_t slot, std::size_t index) {
  return std::uint64_t{slot} << 16 | index;
}
std::uint32_t slot_of(std::uint64_t user) {
  return static_cast<std::uint32_t>(user >> 16);
}
std::size_t index_of(std::uint64_t user) {
  return user & 0xffff;
}

transport::Range range_of(const protocol::Endpoint& endpoint) {
  return transport::Range{endpoint.member, endpoint.region, endpoint.offset, endpoint.bytes};
}

}  // namespace

Shard::Shard(const ShardConfig& config, transport::Transport& transport)
    : config_(config),
      transport_(transport),
      protocol_(config.protocol),
      received_(kBurst),
      pulled_(kBurst),
      pushed_(kBurst) {
  slots_.reserve(config.protocol.tiles);
  for (std::uint32_t i = 0; i < config.protocol.tiles; ++i) slots_.emplace_back(config.memory);
  for (std::uint32_t i = config.protocol.tiles; i-- > 0;) free_slots_.push_back(i);
  // Inputs and checksums; results and statistics.
  const std::size_t endpoints = std::size_t{config.max_ranks} * 2;
  pulls_.reserve(endpoints);
  pushes_.reserve(endpoints);
  landings_.reserve(endpoints);
  outputs_.reserve(endpoints);
  messages_.reserve(endpoints);
}

// Small operations pass every stage in one turn where the transport answers at once; therefore
// pulls are issued right after the notices that make them possible.
bool Shard::turn(Nanos now) {
  clock_.reach(now);
  std::size_t work = 0;
  work += take_notices(now);                        // announcements into the protocol
  work += issue_pulls();                            // the tiles that are next
  work += take_pulled();                            // inputs are there: sum, and push the result
  work += take_pushed();                            // results are placed
  work += send_completions();                       // operations have ended
  if (work == 0) work += mailbox_.run();            // control, only when idle
  if (now >= next_chores_) work += do_chores(now);  // the dead, deadlines
  counters_.turns.add();
  if (work == 0) counters_.idle_turns.add();
  return work > 0;
}

std::size_t Shard::take_notices(Nanos now) {
  const std::size_t count = transport_.receive(received_);
  for (const transport::Received& received : std::span(received_).first(count)) {
    wire::Notice notice;
    const Status status = wire::parse(received.message, notice);
    if (status != Status::kOk) {
      counters_.notices_refused.add();
      transport_.disconnect(received.peer);
      continue;
    }
    debug_step(DebugStep::kNodeNoticeTaken);
    protocol_.announce(received.peer, notice, admissible(received.peer, notice), now);
  }
  counters_.notices.add(count);
  return count;
}

Status Shard::admissible(transport::Peer peer, const wire::Notice& notice) const {
  if (notice.kind == wire::Kind::kCancel) return Status::kOk;
  const bool checked = (notice.flags & wire::kHasChecksums) != 0;
  if (checked && config_.crc32c == nullptr) return Status::kUnsupported;
  const auto extents = protocol_.extents(peer, notice);
  for (const protocol::Endpoint* endpoint : {&extents.in, &extents.out, &extents.side}) {
    if (endpoint->bytes > 0 && !transport_.covers(range_of(*endpoint))) return Status::kBadRegion;
  }
  return Status::kOk;
}

std::size_t Shard::issue_pulls() {
  std::size_t tiles = 0;
  std::uint64_t pulled = 0;
  bool fine = false;
  Nanos now = 0;
  for (; pulled < kTurnBytes && !fine && !free_slots_.empty(); ++tiles) {
    const std::uint32_t slot = free_slots_.back();
    slots_[slot].tile.handle = slot;
    if (!protocol_.start_tile(slots_[slot].tile)) break;
    if (tiles == 0) now = clock_.now();  // one reading for all of them
    protocol_.pulling(slots_[slot].tile, now);
    free_slots_.pop_back();
    debug_step(DebugStep::kNodeReady);
    slots_[slot].damages.assign(slots_[slot].tile.checksums.size(), 0);
    pull(slot);
    for (const auto& source : slots_[slot].tile.sources) pulled += source.bytes;
    fine = slots_[slot].tile.fine;
  }
  counters_.bytes_in.add(pulled);
  counters_.tiles.add(tiles);
  return tiles;
}

void Shard::pull(std::uint32_t index) {
  TileSlot& slot = slots_[index];
  const auto& sources = slot.tile.sources;
  slot.status = Status::kOk;
  slot.culprit = protocol::kNoMember;
  const auto& checksums = slot.tile.checksums;
  const std::size_t pulls = sources.size() + checksums.size();
  slot.pulls_left = static_cast<std::uint32_t>(pulls);
  slot.views.assign(pulls, View{});
  slot.handles.assign(pulls, 0);
  slot.held.assign(pulls, 0);
  pulls_.clear();
  // Every tile begins with another rank, so that shards and tiles do not all read rank 0 first.
  const std::size_t phase = (index + config_.protocol.shard) % sources.size();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::size_t source = (i + phase) % sources.size();
    pulls_.push_back({range_of(sources[source]), user_of(index, source)});
  }
  for (std::size_t i = 0; i < checksums.size(); ++i) {
    pulls_.push_back({range_of(checksums[i].where), user_of(index, sources.size() + i)});
  }
  transport_.pull(pulls_);
}

protocol::Member Shard::pulled_from(const TileSlot& slot, std::size_t pull) {
  const protocol::Tile& tile = slot.tile;
  return pull < tile.sources.size() ? tile.sources[pull].member
                                    : tile.checksums[pull - tile.sources.size()].where.member;
}

std::size_t Shard::take_pulled() {
  std::size_t total = 0;
  while (const std::size_t count = transport_.pulled(pulled_)) {
    for (const transport::Pulled& pulled : std::span(pulled_).first(count)) {
      TileSlot& slot = slots_[slot_of(pulled.user)];
      const std::size_t pull = index_of(pulled.user);
      if (pulled.status == Status::kOk) {
        slot.views[pull] = pulled.view;
        slot.handles[pull] = pulled.handle;
        slot.held[pull] = 1;
      } else {
        fail(slot, pulled.status, pulled_from(slot, pull));
      }
      if (--slot.pulls_left == 0) sum(slot_of(pulled.user));
    }
    total += count;
  }
  return total;
}

void Shard::fail(TileSlot& slot, Status status, protocol::Member culprit) {
  if (slot.status != Status::kOk) return;  // the first one to fail is the one to name
  slot.status = status;
  slot.culprit = culprit;
}

// All inputs are there: one pass over them, into every receiver's memory where the transport lets
// the kernels store there.
void Shard::sum(std::uint32_t index) {
  TileSlot& slot = slots_[index];
  debug_step(DebugStep::kNodePulled);
  if (slot.status != Status::kOk || !protocol_.wanted(slot.tile)) {
    return end(index, clock_.now());
  }
  landings_.clear();
  for (const auto* endpoints : {&slot.tile.landings, &slot.tile.stats_landings}) {
    for (const protocol::Endpoint& endpoint : *endpoints) {
      landings_.push_back(
          {range_of(endpoint), nullptr, slot.tile.operation_bytes, endpoint.cookie});
    }
  }
  transport_.locate(landings_);
  if (const auto fenced = transport_.open(slot.tile.members); fenced != transport::kNoPeer) {
    fail(slot, Status::kPeerLost, fenced);
    return end(index, clock_.now());
  }
  if (!slot.tile.checksums.empty() && !check(slot)) return pull_again(index);
  protocol_.storing(slot.tile, clock_.now());
  outputs_.clear();
  bool staged = false;
  for (const auto& landing : std::span(landings_).first(slot.tile.landings.size())) {
    if (landing.direct != nullptr) outputs_.push_back(landing.direct);
    staged |= landing.direct == nullptr;
  }
  debug_step(DebugStep::kNodeStoring);
  reduce(slot, staged);
  place_stats(slot);
  debug_step(DebugStep::kNodeSummed);
  const auto faulted = transport_.close(slot.tile.members);
  release_views(slot);
  if (faulted != transport::kNoPeer) {
    fail(slot, Status::kPeerLost, faulted);
    return end(index, clock_.now());
  }
  protocol_.stored(slot.tile, clock_.now());
  push(index);
}

// False: some input does not have its checksums.
bool Shard::check(TileSlot& slot) {
  const protocol::Tile& tile = slot.tile;
  bool good = true;
  for (std::size_t i = 0; i < tile.checksums.size(); ++i) {
    const auto& [source, where] = tile.checksums[i];
    const View given = slot.views[tile.sources.size() + i];
    if (intact(*config_.crc32c, slot.views[source], given, tile.lead, tile.stream)) continue;
    good = false;
    counters_.damaged.add();
    protocol_.damaged(where.member);
    if (++slot.damages[i] > kMostRepeats) fail(slot, Status::kDamaged, where.member);
  }
  return good;
}

// Nothing of the tile has been stored, so its inputs are whole. All of them are given back first: a
// tile that kept some while it waits behind others' pulls could keep these from landing.
void Shard::pull_again(std::uint32_t index) {
  TileSlot& slot = slots_[index];
  const auto faulted = transport_.close(slot.tile.members);
  release_views(slot);
  if (faulted != transport::kNoPeer) fail(slot, Status::kPeerLost, faulted);
  if (slot.status != Status::kOk) return end(index, clock_.now());
  pull(index);
}

void Shard::reduce(TileSlot& slot, bool staged) {
  const protocol::Tile& tile = slot.tile;
  const std::uint64_t bytes = tile.count * element_bytes(tile.type);
  if (staged) {
    if (slot.staging.size() < bytes) slot.staging.resize(bytes);
    outputs_.push_back(slot.staging.data());
  }
  if (outputs_.empty()) return;
  summation::Reduction reduction;
  reduction.type = tile.type;
  reduction.operation = tile.reduction;
  reduction.divisor = tile.divisor;
  reduction.count = tile.count;
  reduction.inputs = std::span(slot.views).first(tile.sources.size());
  reduction.outputs = outputs_;
  reduction.stream_outputs = tile.stream;
  if (!tile.stats_landings.empty()) {
    slot.stats.resize(stats_blocks(tile.count));
    reduction.stats = slot.stats;
  }
  summation::reduce(*config_.kernels, reduction);
}

void Shard::place_stats(TileSlot& slot) {
  for (const auto& landing : std::span(landings_).subspan(slot.tile.landings.size())) {
    if (landing.direct == nullptr) continue;
    std::memcpy(landing.direct, slot.stats.data(), landing.target.bytes);
  }
}

void Shard::push(std::uint32_t index) {
  TileSlot& slot = slots_[index];
  slot.pushes_left = static_cast<std::uint32_t>(landings_.size());
  if (landings_.empty()) return end(index, clock_.now());
  pushes_.clear();
  for (std::size_t i = 0; i < landings_.size(); ++i) {
    const bool is_stats = i >= slot.tile.landings.size();
    const auto* source =
        is_stats ? reinterpret_cast<const std::byte*>(slot.stats.data()) : slot.staging.data();
    pushes_.push_back({landings_[i], source, user_of(index, i)});
    counters_.bytes_out.add(landings_[i].target.bytes);
  }
  transport_.push(pushes_);
}

std::size_t Shard::take_pushed() {
  std::size_t total = 0;
  while (const std::size_t count = transport_.pushed(pushed_)) {
    const Nanos now = clock_.now();
    for (const transport::Pushed& pushed : std::span(pushed_).first(count)) {
      TileSlot& slot = slots_[slot_of(pushed.user)];
      if (pushed.status != Status::kOk) {
        const std::size_t i = index_of(pushed.user);
        const auto& landings = slot.tile.landings;
        fail(slot, pushed.status,
             i < landings.size() ? landings[i].member
                                 : slot.tile.stats_landings[i - landings.size()].member);
      }
      if (--slot.pushes_left == 0) end(slot_of(pushed.user), now);
    }
    total += count;
  }
  return total;
}

void Shard::release_views(TileSlot& slot) {
  for (std::size_t i = 0; i < slot.held.size(); ++i) {
    if (slot.held[i] != 0) transport_.release(slot.handles[i]);
    slot.held[i] = 0;
  }
}

void Shard::end(std::uint32_t index, Nanos now) {
  TileSlot& slot = slots_[index];
  release_views(slot);
  free_slots_.push_back(index);
  debug_step(DebugStep::kNodePlaced);
  protocol_.end_tile(slot.tile, slot.status, slot.culprit, now);
}

// Letting go of them has answered what was under way; these answers belong to its tiles.
void Shard::remove_job(protocol::JobSlot job) {
  take_pulled();
  take_pushed();
  protocol_.remove_job(job);
}

std::size_t Shard::send_completions() {
  const auto outbox = protocol_.outbox();
  if (outbox.empty()) return 0;
  messages_.clear();
  for (const protocol::Outgoing& outgoing : outbox) {
    const bool ok = outgoing.completion.status == Status::kOk;
    (ok ? counters_.completions : counters_.failures).add();
    messages_.push_back({outgoing.member, wire::encode(outgoing.completion)});
  }
  protocol_.clear_outbox();
  debug_step(DebugStep::kNodeCompletionQueued);
  transport_.complete(messages_);
  debug_step(DebugStep::kNodeCompletionSent);
  return messages_.size();
}

std::size_t Shard::do_chores(Nanos now) {
  next_chores_ = now + kChoresEvery;
  protocol_.expire(clock_.now());
  std::array<transport::Peer, 16> lost;
  const std::size_t count = transport_.lost(lost);
  for (const transport::Peer peer : std::span(lost).first(count)) {
    counters_.peers_lost.add();
    protocol_.gone(peer, Status::kPeerLost, clock_.now());
    if (on_lost_) on_lost_(peer);
  }
  return count + mailbox_.run() + protocol_.outbox().size();
}

void Shard::run(const std::atomic<bool>& stop, bool busy) {
  clock_ = CycleClock::calibrated();
  IdlePolicy idle;
  Courtesy courtesy;
  while (!stop.load(std::memory_order_relaxed)) {
    const Nanos now = clock_.now();
    if (turn(now)) {
      idle.worked(now);
      // Without more to do the next turn is an idle one.
      if (!busy && protocol_.has_tiles()) courtesy.offer([this] { return clock_.now(); });
      continue;
    }
    if (!busy) idle.rest(now, [&] { sleep(now); });
  }
  mailbox_.run();
}

// All sources are armed before the sleep, and each refuses when something is there already: nothing
// that comes in between is slept through.
void Shard::sleep(Nanos now) {
  if (transport_.arm() && mailbox_.arm()) {
    counters_.sleeps.add();
    const Nanos wait = std::clamp<Nanos>(protocol_.next_deadline() - now, 0, kLongestSleep);
    const timespec timeout{wait / kSecond, wait % kSecond};
    pollfd sources[] = {{transport_.fd(), POLLIN, 0}, {mailbox_.fd(), POLLIN, 0}};
    ::ppoll(sources, 2, &timeout, nullptr);
    next_chores_ = 0;  // a death wakes too
  }
  transport_.disarm();
  mailbox_.disarm();
}

}  // namespace tally::engine
