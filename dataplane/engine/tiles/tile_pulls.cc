#include "dataplane/engine/tiles/tile_pulls.h"

#include <algorithm>

namespace tally::engine {

TilePulls::TilePulls(transport::Transport& transport, TilePool& pool, std::uint32_t shard,
                     std::size_t children)
    : transport_(transport), pool_(pool), shard_(shard), answers_(kBurst) {
  pulls_.reserve(2 * children);  // with checksums
}

void TilePulls::begin(TileRecord& record) {
  const protocol::Tile& tile = record.tile;
  const std::size_t pulls = tile.sources.size() + tile.checksums.size();
  record.partials_left = tile.partials;
  record.checksums = {};
  record.views.assign(pulls, View{});
  record.handles.assign(pulls, 0);
  record.inputs.assign(pulls, Input::kAwaited);
  record.damages.assign(tile.checksums.size(), 0);
}

std::uint64_t TilePulls::pull_group(TileRecord& record) {
  const protocol::Tile& tile = record.tile;
  std::uint32_t& end = record.checksums.end;
  record.checksums.begin = end;
  while (end < tile.checksums.size() && tile.checksums[end].source < tile.group.end) ++end;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = tile.group.begin; i < tile.group.end; ++i) bytes += tile.sources[i].bytes;
  pull_again(record);
  return bytes;
}

// The partial sum of a child node is pulled later, when a TileEvent reports that it is ready.
void TilePulls::pull_again(TileRecord& record) {
  const protocol::Tile& tile = record.tile;
  const std::uint32_t handle = tile.handle;
  const auto& [begin, end] = tile.group;
  record.pulls_left = end - begin + record.checksums.end - record.checksums.begin;
  pulls_.clear();
  const std::size_t ranks = std::min(end, tile.ranks()) - std::min(begin, tile.ranks());
  // Each tile begins with another rank, so that shards and tiles do not all read rank 0 first.
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::size_t source = begin + (i + handle + shard_) % ranks;
    pulls_.push_back({range_of(tile.sources[source]), user_of(handle, source)});
  }
  for (std::size_t source = begin + ranks; source < end; ++source) {
    if (record.inputs[source] != Input::kReady) continue;
    pulls_.push_back({range_of(tile.sources[source]), user_of(handle, source)});
  }
  for (std::size_t i = record.checksums.begin; i < record.checksums.end; ++i) {
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

TileRecord* TilePulls::next_complete() {
  while (next_ < end_) {
    const transport::Pulled& answer = answers_[next_++];
    TileRecord& record = pool_[handle_of(answer.user)];
    const std::size_t pull = index_of(answer.user);
    if (answer.status == Status::kOk) {
      record.views[pull] = answer.view;
      record.handles[pull] = answer.handle;
      record.inputs[pull] = Input::kView;
    } else {
      record.inputs[pull] = Input::kNone;
      record.fail(answer.status, session_of(record, pull));
    }
    if (--record.pulls_left == 0) return &record;
  }
  return nullptr;
}

bool TilePulls::take_partial(TileRecord& record, const protocol::TileEvent& event) {
  const protocol::Endpoint& source = record.tile.sources[event.index];
  const bool in_group = event.index < record.tile.group.end;
  --record.partials_left;
  if (event.status != Status::kOk) {
    record.fail(event.status, source.member);
    record.inputs[event.index] = Input::kNone;
    if (in_group) --record.pulls_left;
  } else if (in_group) {
    const transport::Pull pull{range_of(source), user_of(event.handle, event.index)};
    transport_.pull({&pull, 1});
  } else {
    record.inputs[event.index] = Input::kReady;
  }
  return record.pulls_left == 0;
}

void TilePulls::release(TileRecord& record) {
  const protocol::Group& group = record.tile.group;
  const auto release_one = [&](std::size_t pull) {
    if (record.inputs[pull] != Input::kView) return;
    transport_.release(record.handles[pull]);
    record.inputs[pull] = Input::kReady;
  };
  for (std::size_t i = group.begin; i < group.end; ++i) release_one(i);
  const std::size_t checksums = record.tile.sources.size();
  for (std::size_t i = record.checksums.begin; i < record.checksums.end; ++i) {
    release_one(checksums + i);
  }
}

void TilePulls::append_awaited(const TileRecord& record,
                               std::vector<protocol::SessionId>& sessions) {
  const auto append_pulled = [&](std::size_t pull) {
    const bool answered =
        record.inputs[pull] == Input::kView || record.inputs[pull] == Input::kNone;
    if (record.pulls_left > 0 && !answered) sessions.push_back(session_of(record, pull));
  };
  const protocol::Group& group = record.tile.group;
  for (std::size_t i = group.begin; i < group.end; ++i) append_pulled(i);
  // Partial sums of a later group for which the child node has not answered.
  for (std::size_t i = record.tile.ranks(); record.partials_left > 0 && i < record.inputs.size();
       ++i) {
    const bool awaited = i < record.tile.sources.size() && record.inputs[i] == Input::kAwaited;
    if (i >= group.end && awaited) sessions.push_back(session_of(record, i));
  }
  const std::size_t checksums = record.tile.sources.size();
  for (std::size_t i = record.checksums.begin; i < record.checksums.end; ++i) {
    append_pulled(checksums + i);
  }
}

protocol::SessionId TilePulls::session_of(const TileRecord& record, std::size_t pull) {
  const protocol::Tile& tile = record.tile;
  return pull < tile.sources.size() ? tile.sources[pull].member
                                    : tile.checksums[pull - tile.sources.size()].where.member;
}

}  // namespace tally::engine
