#include "dataplane/engine/tiles/tile_pulls.h"

#include <algorithm>

namespace tally::engine {

TilePulls::TilePulls(transport::Transport& transport, TilePool& pool, std::uint32_t shard,
                     std::size_t children)
    : transport_(transport), pool_(pool), shard_(shard), answers_(kBurst) {
  pulls_.reserve(2 * children);  // with checksums
}

void TilePulls::begin(TileSlot& slot) {
  const protocol::Tile& tile = slot.tile;
  const std::size_t pulls = tile.sources.size() + tile.checksums.size();
  slot.partials_left = tile.partials;
  slot.checksums = {};
  slot.views.assign(pulls, View{});
  slot.handles.assign(pulls, 0);
  slot.inputs.assign(pulls, Input::kAwaited);
  slot.damages.assign(tile.checksums.size(), 0);
}

std::uint64_t TilePulls::pull_group(TileSlot& slot) {
  const protocol::Tile& tile = slot.tile;
  std::uint32_t& end = slot.checksums.end;
  slot.checksums.begin = end;
  while (end < tile.checksums.size() && tile.checksums[end].source < tile.group.end) ++end;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = tile.group.begin; i < tile.group.end; ++i) bytes += tile.sources[i].bytes;
  pull_again(slot);
  return bytes;
}

// The partial sum of a child node is pulled later, when a TileEvent reports that it is ready.
void TilePulls::pull_again(TileSlot& slot) {
  const protocol::Tile& tile = slot.tile;
  const std::uint32_t handle = tile.handle;
  const auto& [begin, end] = tile.group;
  slot.pulls_left = end - begin + slot.checksums.end - slot.checksums.begin;
  pulls_.clear();
  const std::size_t ranks = std::min(end, tile.ranks()) - std::min(begin, tile.ranks());
  // Each tile begins with another rank, so that shards and tiles do not all read rank 0 first.
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::size_t source = begin + (i + handle + shard_) % ranks;
    pulls_.push_back({range_of(tile.sources[source]), user_of(handle, source)});
  }
  for (std::size_t source = begin + ranks; source < end; ++source) {
    if (slot.inputs[source] != Input::kReady) continue;
    pulls_.push_back({range_of(tile.sources[source]), user_of(handle, source)});
  }
  for (std::size_t i = slot.checksums.begin; i < slot.checksums.end; ++i) {
    const std::size_t pull = tile.sources.size() + i;
    pulls_.push_back({range_of(tile.checksums[i].where), user_of(handle, pull)});
  }
  transport_.pull(pulls_);
}

std::size_t TilePulls::poll() {
  if (next_ == end_) {
    next_ = 0;
    end_ = transport_.pulled(answers_);
  }
  return end_ - next_;
}

TileSlot* TilePulls::next_complete() {
  while (next_ < end_) {
    const transport::Pulled& answer = answers_[next_++];
    TileSlot& slot = pool_[slot_of(answer.user)];
    const std::size_t pull = index_of(answer.user);
    if (answer.status == Status::kOk) {
      slot.views[pull] = answer.view;
      slot.handles[pull] = answer.handle;
      slot.inputs[pull] = Input::kView;
    } else {
      slot.inputs[pull] = Input::kNone;
      slot.fail(answer.status, session_of(slot, pull));
    }
    if (--slot.pulls_left == 0) return &slot;
  }
  return nullptr;
}

bool TilePulls::take_partial(TileSlot& slot, const protocol::TileEvent& event) {
  const protocol::Endpoint& source = slot.tile.sources[event.index];
  const bool in_group = event.index < slot.tile.group.end;
  --slot.partials_left;
  if (event.status != Status::kOk) {
    slot.fail(event.status, source.member);
    slot.inputs[event.index] = Input::kNone;
    if (in_group) --slot.pulls_left;
  } else if (in_group) {
    const transport::Pull pull{range_of(source), user_of(event.handle, event.index)};
    transport_.pull({&pull, 1});
  } else {
    slot.inputs[event.index] = Input::kReady;
  }
  return slot.pulls_left == 0;
}

void TilePulls::release(TileSlot& slot) {
  const protocol::Group& group = slot.tile.group;
  const auto release_one = [&](std::size_t pull) {
    if (slot.inputs[pull] != Input::kView) return;
    transport_.release(slot.handles[pull]);
    slot.inputs[pull] = Input::kReady;
  };
  for (std::size_t i = group.begin; i < group.end; ++i) release_one(i);
  const std::size_t checksums = slot.tile.sources.size();
  for (std::size_t i = slot.checksums.begin; i < slot.checksums.end; ++i) {
    release_one(checksums + i);
  }
}

void TilePulls::append_awaited(const TileSlot& slot, std::vector<protocol::SessionId>& sessions) {
  const auto append_pulled = [&](std::size_t pull) {
    const bool answered = slot.inputs[pull] == Input::kView || slot.inputs[pull] == Input::kNone;
    if (slot.pulls_left > 0 && !answered) sessions.push_back(session_of(slot, pull));
  };
  const protocol::Group& group = slot.tile.group;
  for (std::size_t i = group.begin; i < group.end; ++i) append_pulled(i);
  // Partial sums of a later group for which the child node has not answered.
  for (std::size_t i = slot.tile.ranks(); slot.partials_left > 0 && i < slot.inputs.size(); ++i) {
    const bool awaited = i < slot.tile.sources.size() && slot.inputs[i] == Input::kAwaited;
    if (i >= group.end && awaited) sessions.push_back(session_of(slot, i));
  }
  const std::size_t checksums = slot.tile.sources.size();
  for (std::size_t i = slot.checksums.begin; i < slot.checksums.end; ++i) {
    append_pulled(checksums + i);
  }
}

protocol::SessionId TilePulls::session_of(const TileSlot& slot, std::size_t pull) {
  const protocol::Tile& tile = slot.tile;
  return pull < tile.sources.size() ? tile.sources[pull].member
                                    : tile.checksums[pull - tile.sources.size()].where.member;
}

}  // namespace tally::engine
