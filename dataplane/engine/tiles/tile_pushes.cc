#include "dataplane/engine/tiles/tile_pushes.h"

#include <cstring>

namespace tally::engine {
namespace {

// The pushes to ranks come first: results, then statistics. Pushes to child nodes follow.
std::size_t pushes_to_ranks(const protocol::Tile& tile) {
  return tile.landings.size() + tile.stats_landings.size();
}

}  // namespace

TilePushes::TilePushes(transport::Transport& transport, TilePool& pool, Counter& bytes_out,
                       std::size_t children)
    : transport_(transport), pool_(pool), bytes_out_(bytes_out), answers_(kBurst) {
  pushes_.reserve(2 * children);  // with statistics
  landings_.reserve(2 * children);
}

std::span<const transport::Landing> TilePushes::locate(const TileRecord& record) {
  landings_.clear();
  for (const auto* endpoints : {&record.tile.landings, &record.tile.stats_landings}) {
    for (const protocol::Endpoint& endpoint : *endpoints) {
      landings_.push_back(landing_of(record.tile, endpoint));
    }
  }
  transport_.locate(landings_);
  return landings_;
}

// Pushes results immediately where the kernels have stored them, because their place is not looked
// up again.
void TilePushes::start(TileRecord& record, std::span<const transport::Landing> landings) {
  const protocol::Tile& tile = record.tile;
  record.pushes_left = static_cast<std::uint32_t>(landings.size() + tile.below.size());
  record.pushing = 0;
  record.next_push = 0;
  record.unpushed.clear();
  record.placed.assign(pushes_to_ranks(tile), 1);
  record.placed.resize(record.placed.size() + tile.below.size(), 0);
  pushes_.clear();
  for (std::size_t i = 0; i < landings.size(); ++i) {
    if (landings[i].direct == nullptr) {
      record.unpushed.push_back(static_cast<std::uint16_t>(i));
    } else {
      add(record, i, landings[i]);
    }
  }
  if (!pushes_.empty()) transport_.push(pushes_);
}

void TilePushes::add(TileRecord& record, std::size_t push, const transport::Landing& landing) {
  const bool is_stats = push >= record.tile.landings.size();
  const auto* source =
      is_stats ? reinterpret_cast<const std::byte*>(record.stats.data()) : record.result;
  pushes_.push_back({landing, source, user_of(record.tile.handle, push)});
  bytes_out_.add(landing.target.bytes);
  record.placed[push] = 0;
  ++record.pushing;
}

void TilePushes::push_more(TileRecord& record) {
  const protocol::Tile& tile = record.tile;
  const std::size_t results = tile.landings.size();
  const std::uint32_t most = protocol::receivers_at_once(record.unpushed.size());
  pushes_.clear();
  while (record.pushing < most && has_more(record)) {
    const std::size_t push = record.unpushed[record.next_push++];
    const protocol::Endpoint& endpoint =
        push < results ? tile.landings[push] : tile.stats_landings[push - results];
    add(record, push, landing_of(tile, endpoint));
  }
  if (!pushes_.empty()) transport_.push(pushes_);
}

void TilePushes::drop_rest(TileRecord& record) {
  record.pushes_left -= static_cast<std::uint32_t>(record.unpushed.size() - record.next_push);
  record.next_push = record.unpushed.size();
}

void TilePushes::push_down(TileRecord& record, const protocol::TileEvent& event) {
  protocol::Below& below = record.tile.below[event.index];
  below.buffer = event.buffer;
  const std::size_t push = pushes_to_ranks(record.tile) + event.index;
  transport::Landing landing{range_of(event.where), nullptr, 0, 0};
  if (event.status == Status::kOk && store_at_child(record, landing)) {
    bytes_out_.add(landing.target.bytes);
    const transport::Push one{landing, record.result, user_of(event.handle, push)};
    return transport_.push({&one, 1});
  }
  record.fail(event.status == Status::kOk ? Status::kPeerLost : event.status, below.member);
  record.placed[push] = 1;
  --record.pushes_left;
}

// Stores the bytes immediately when the transport has the child node's memory mapped. Returns false
// when the child node has fenced this node off, or its memory is gone.
bool TilePushes::store_at_child(const TileRecord& record, transport::Landing& landing) {
  transport_.locate({&landing, 1});
  if (landing.direct == nullptr) return true;
  const transport::Peer child_node = landing.target.peer;
  if (transport_.begin_access({&child_node, 1}) != transport::kNoPeer) return false;
  std::memcpy(landing.direct, record.result, landing.target.bytes);
  return transport_.end_access({&child_node, 1}) == transport::kNoPeer;
}

std::size_t TilePushes::poll() {
  if (next_ == end_) {
    next_ = 0;
    end_ = transport_.pushed(answers_);
  }
  return end_ - next_;
}

std::optional<PushAnswer> TilePushes::next() {
  if (next_ == end_) return std::nullopt;
  const transport::Pushed& answer = answers_[next_++];
  TileRecord& record = pool_[handle_of(answer.user)];
  const std::size_t push = index_of(answer.user);
  const std::size_t ranks = pushes_to_ranks(record.tile);
  record.placed[push] = 1;
  --record.pushes_left;
  if (push < ranks) --record.pushing;
  if (answer.status != Status::kOk) {
    record.fail(answer.status, session_of(record, push));
  } else if (push >= ranks) {
    return PushAnswer{&record, static_cast<std::uint32_t>(push - ranks)};
  }
  return PushAnswer{&record};
}

void TilePushes::append_awaited(const TileRecord& record,
                                std::vector<protocol::SessionId>& sessions) {
  for (std::size_t i = 0; record.pushes_left > 0 && i < record.placed.size(); ++i) {
    if (record.placed[i] == 0) sessions.push_back(session_of(record, i));
  }
}

protocol::SessionId TilePushes::session_of(const TileRecord& record, std::size_t push) {
  const protocol::Tile& tile = record.tile;
  const std::size_t results = tile.landings.size();
  const std::size_t ranks = pushes_to_ranks(tile);
  if (push < results) return tile.landings[push].member;
  return push < ranks ? tile.stats_landings[push - results].member
                      : tile.below[push - ranks].member;
}

}  // namespace tally::engine
