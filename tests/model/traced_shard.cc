#include "tests/model/traced_shard.h"

#include <algorithm>
#include <cstring>

#include "tests/model/trace.h"

namespace tally::traces {
namespace {

constexpr Nanos kBeyondDeadlines = 1000 * kSecond;

protocol::AggregatorConfig aggregator_config(const protocol::Partition& partition,
                                             std::uint32_t part) {
  protocol::AggregatorConfig config;
  config.plan = partition;
  config.shard = part;
  config.tile_bytes = 1 << 20;  // a part is one tile
  return config;
}

}  // namespace

float element_of(std::uint16_t rank, std::uint32_t round, std::uint64_t index) {
  return static_cast<float>(1000 * (rank + 1) + 10 * (round + 1)) + static_cast<float>(index % 8);
}

float sum_of(std::uint16_t ranks, std::uint32_t round, std::uint64_t index) {
  float sum = 0;
  for (std::uint16_t rank = 0; rank < ranks; ++rank) sum += element_of(rank, round, index);
  return sum;
}

TracedShard::TracedShard(std::uint32_t epoch, std::uint32_t part, std::uint16_t ranks,
                         const protocol::Partition& partition, Memory memory)
    : aggregator_(aggregator_config(partition, part)),
      ranks_(ranks),
      memory_(std::move(memory)),
      announced_(ranks),
      cancels_(ranks),
      deliveries_(ranks) {
  aggregator_.add_job(0, protocol::JobSpec{.epoch = epoch, .ranks = ranks});
  for (std::uint16_t rank = 0; rank < ranks; ++rank) aggregator_.join(0, rank, rank);
}

void TracedShard::announce(std::uint16_t rank, const wire::Notice& notice,
                           std::span<const std::byte> contribution) {
  if (notice.kind == wire::Kind::kCancel) return cancels_[rank].push_back(notice);
  announced_[rank][notice.cookie] = {notice, {contribution.begin(), contribution.end()}};
  aggregator_.announce(rank, notice, Status::kOk, ++now_);
  collect();
}

const std::byte* TracedShard::source(const protocol::Endpoint& endpoint) const {
  const auto rank = static_cast<std::uint16_t>(endpoint.member);
  const Announced& announced = announced_[rank].at(endpoint.cookie);
  if (!announced.contribution.empty()) return announced.contribution.data();
  return memory_(rank, endpoint.region) + endpoint.offset;
}

std::optional<std::pair<std::uint32_t, bool>> TracedShard::pull() {
  protocol::Tile tile;
  if (tile_ || !aggregator_.tiles().start_tile(tile)) return std::nullopt;
  aggregator_.tiles().pulling(tile, ++now_);
  std::optional<std::uint32_t> round;
  bool right = tile.sources.size() == ranks_;
  sum_.assign(tile.count, 0);
  for (const protocol::Endpoint& endpoint : tile.sources) {
    const auto rank = static_cast<std::uint16_t>(endpoint.member);
    round = announced_[rank].at(endpoint.cookie).notice.round;
    const std::byte* data = source(endpoint);
    for (std::uint64_t i = 0; i < tile.count; ++i) {
      float value = 0;
      std::memcpy(&value, data + i * sizeof value, sizeof value);
      right = right && value == element_of(rank, *round, tile.first + i);
      sum_[i] += value;
    }
  }
  if (!round) throw Disagreement("a tile has no sources");
  aggregator_.tiles().storing(tile, ++now_);
  aggregator_.tiles().stored(tile, ++now_);
  if (!aggregator_.tiles().start_pushing(tile, ++now_)) {
    throw Disagreement("a tile may not be pushed although it is the only one");
  }
  tile_ = std::move(tile);
  pushed_.assign(ranks_, false);
  return std::pair(*round, right);
}

bool TracedShard::push(std::uint16_t rank) {
  if (!tile_ || pushed_[rank]) return false;
  for (const protocol::Endpoint& landing : tile_->landings) {
    if (landing.member != rank) continue;
    std::memcpy(memory_(rank, landing.region) + landing.offset, sum_.data(), landing.bytes);
    pushed_[rank] = true;
  }
  if (!pushed_[rank]) return false;
  if (std::all_of(pushed_.begin(), pushed_.end(), [](bool one) { return one; })) {
    end_tile(Status::kOk);
  }
  return true;
}

std::optional<std::pair<std::uint32_t, bool>> TracedShard::conclude() {
  const auto pulled = pull();
  if (!pulled) return std::nullopt;
  const auto landings = tile_->landings;
  end_tile(Status::kOk);
  for (const protocol::Endpoint& landing : landings) {
    Delivery& last = deliveries_[landing.member].back();
    const auto* bytes = reinterpret_cast<const std::byte*>(sum_.data());
    last.result.assign(bytes, bytes + landing.bytes);
    last.region = landing.region;
    last.offset = landing.offset;
  }
  return pulled;
}

void TracedShard::fail(std::uint32_t round) {
  bool cancelled = false;
  for (std::uint16_t rank = 0; rank < ranks_; ++rank) {
    for (const wire::Notice& cancel : std::exchange(cancels_[rank], {})) {
      if (cancel.round != round) continue;
      aggregator_.announce(rank, cancel, Status::kOk, ++now_);
      cancelled = true;
    }
  }
  if (tile_) return end_tile(cancelled ? Status::kOk : Status::kInternal);
  now_ += kBeyondDeadlines;
  aggregator_.expire(now_);
  collect();
}

void TracedShard::lose(std::uint16_t rank) {
  aggregator_.gone(rank, Status::kPeerLost, ++now_);
  if (tile_) return end_tile(Status::kOk);
  collect();
}

void TracedShard::end_tile(Status status) {
  aggregator_.tiles().end_tile(*tile_, status, protocol::kNoSession, ++now_);
  tile_.reset();
  collect();
}

void TracedShard::collect() {
  for (const protocol::Outgoing& one : aggregator_.outbox().completions()) {
    if (one.member < ranks_) deliveries_[one.member].push_back({one.completion});
  }
  aggregator_.outbox().clear_completions();
}

std::optional<Delivery> TracedShard::take(std::uint16_t rank, std::uint32_t round) {
  auto& waiting = deliveries_[rank];
  const auto found = std::find_if(waiting.begin(), waiting.end(), [round](const Delivery& one) {
    return one.completion.round == round;
  });
  if (found == waiting.end()) return std::nullopt;
  Delivery taken = std::move(*found);
  waiting.erase(found);
  return taken;
}

std::optional<Delivery> TracedShard::take_loss(std::uint16_t rank) {
  auto& waiting = deliveries_[rank];
  const auto found = std::find_if(waiting.begin(), waiting.end(), [](const Delivery& one) {
    return one.completion.status == Status::kPeerLost;
  });
  if (found == waiting.end()) return std::nullopt;
  Delivery taken = std::move(*found);
  waiting.erase(found);
  return taken;
}

}  // namespace tally::traces
