#include "dataplane/protocol/tree/child_nodes.h"

#include <algorithm>
#include <utility>

#include "dataplane/protocol/operations/verdict.h"
#include "dataplane/wire/vertex.h"

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

// Returns the tile's size in elements of the operation, also when the tile only moves bytes.
std::uint32_t elements_of(const Tile& tile, const OperationRecord& operation) {
  const std::uint64_t scale =
      moves_only(operation.shape.kind) ? element_bytes(operation.shape.type) : 1;
  return static_cast<std::uint32_t>(tile.count / scale);
}

}  // namespace

// The child nodes that have not announced the operation get the message too, because their ranks
// wait too. They count as having announced it from now on, so their later messages about it are too
// late. A child node that has not joined yet gets the message when it joins.
void ChildNodes::notify(Job& job, PoolIndex index, wire::Completion completion) {
  completion.cookie = job.table[index].key.tree;
  for (const ChildNode& child_node : job.vertex(job.table[index]).child_nodes) {
    const std::uint16_t child = job.child_of(child_node);
    const MemberState& state = job.members[child];
    if (state.member == kNoSession && !state.gone) continue;
    job.table.mark(index, child);
    send(job, child, wire::encode(completion));
  }
}

void ChildNodes::send_broken(const Job& job, SessionId except) {
  const RingEntry message = broken_message(job.spec.epoch, job.broken);
  for (std::size_t child = job.spec.ranks; child < job.members.size(); ++child) {
    const SessionId member = job.members[child].member;
    if (member != except) outbox_.send_down(member, message);
  }
}

void ChildNodes::ask_missing(const Job& job, PoolIndex index) {
  const OperationRecord& operation = job.table[index];
  const RingEntry message =
      wire::encode(message_of(operation, job.spec.epoch, VertexKind::kMissing));
  for (const ChildNode& child_node : job.vertex(operation).child_nodes) {
    const std::uint16_t child = job.child_of(child_node);
    if (!job.table.marked(index, child)) send(job, child, message);
  }
}

void ChildNodes::request(Job& job, const OperationRecord& operation, const Stretch& stretch,
                         Tile& tile) {
  const TreePosition& position = job.position(operation);
  VertexMessage message = message_of(operation, job.spec.epoch, VertexKind::kTileWanted);
  message.first = tile.first;
  message.count = static_cast<std::uint32_t>(tile.count);
  const std::uint64_t bytes = tile.count * element_bytes(tile.partial_type);
  for (const ChildNode& child_node : job.vertex(operation).child_nodes) {
    const std::uint16_t child = job.child_of(child_node);
    if (!position.has(stretch.contributors, child)) continue;
    ChildBuffers& buffers = job.buffers_of(child);
    message.buffer = buffers.free_up[position.buffer_class].back();
    buffers.free_up[position.buffer_class].pop_back();
    const auto source = static_cast<std::uint32_t>(tile.sources.size());
    buffers.up[message.buffer] =
        ChildBuffers::Up{tile.operation, tile.handle, source, tile.first, false};
    const SessionId member = job.members[child].member;
    tile.sources.push_back(
        Endpoint{member, buffers.region, job.spec.buffers.up_offset(message.buffer), bytes, child});
    tile.members.push_back(member);
    ++tile.partials;
    send(job, child, wire::encode(message));
  }
}

Status ChildNodes::tile_ready(Job& job, std::uint16_t child, const VertexMessage& message) {
  ChildBuffers& buffers = job.buffers_of(child);
  if (message.buffer >= buffers.up.size()) return Status::kProtocol;
  ChildBuffers::Up& up = buffers.up[message.buffer];
  if (up.operation == kNone || up.answered || up.first != message.first) return Status::kProtocol;
  const bool good = (message.flags & wire::kVoid) == 0;
  // A child node reports a failure before it answers a request without a sum.
  const bool active = job.table[up.operation].state == OperationRecord::State::kActive;
  if (!good && active) return Status::kProtocol;
  up.answered = true;
  outbox_.add_event(TileEvent{up.handle, TileEvent::Kind::kPull, up.source,
                              good ? Status::kOk : Status::kCancelled, Endpoint{}, kNone});
  return Status::kOk;
}

void ChildNodes::release_up(Job& job, const Tile& tile) {
  const std::uint32_t cls = job.position(job.table[tile.operation]).buffer_class;
  for (std::size_t i = tile.sources.size() - tile.partials; i < tile.sources.size(); ++i) {
    const auto child = static_cast<std::uint16_t>(tile.sources[i].cookie);
    const auto buffer = static_cast<std::uint32_t>(tile.sources[i].offset / job.spec.buffers.bytes);
    ChildBuffers& buffers = job.buffers_of(child);
    buffers.up[buffer].operation = kNone;
    buffers.free_up[cls].push_back(buffer);
  }
}

void ChildNodes::add_below(const Job& job, const OperationRecord& operation, const Stretch& stretch,
                           Tile& tile) {
  const TreePosition& position = job.position(operation);
  for (const ChildNode& child_node : job.vertex(operation).child_nodes) {
    const std::uint16_t child = job.child_of(child_node);
    if (!position.has(stretch.receivers, child)) continue;
    tile.below.push_back({child, job.members[child].member, kNone});
  }
}

void ChildNodes::hand_down(Job& job, const Tile& tile, std::uint32_t index, std::uint32_t parent,
                           std::uint32_t own_buffer) {
  const PoolIndex results = job.results_of(tile.operation);
  const OperationRecord& operation = job.table[results];
  ChildBuffers::Waiting push;
  push.handle = tile.handle;
  push.index = index;
  push.operation = results;
  push.parent = parent;
  push.own_buffer = own_buffer;
  push.result = message_of(operation, job.spec.epoch, VertexKind::kTileResult);
  push.result.first = tile.first;
  push.result.count = elements_of(tile, operation);
  push.bytes = tile.count * element_bytes(tile.type);
  const std::uint16_t child = tile.below[index].child;
  if (job.members[child].gone) return refuse_push(job, push, Status::kPeerLost);
  const std::uint32_t cls = job.position(operation).buffer_class;
  job.buffers_of(child).waiting[cls].push_back(push);
  grant(job, child, cls);
}

void ChildNodes::refuse_push(Job& job, const ChildBuffers::Waiting& push, Status status) {
  if (push.own_buffer != kNone) --job.parents[push.parent].down[push.own_buffer].pending;
  outbox_.add_event(
      TileEvent{push.handle, TileEvent::Kind::kPush, push.index, status, Endpoint{}, kNone});
}

void ChildNodes::grant(Job& job, std::uint16_t child, std::uint32_t cls) {
  ChildBuffers& buffers = job.buffers_of(child);
  auto& waiting = buffers.waiting[cls];
  auto& free = buffers.free_down[cls];
  std::size_t granted = 0;
  for (; granted < waiting.size() && !free.empty(); ++granted) {
    const std::uint32_t buffer = free.back();
    free.pop_back();
    ChildBuffers::Down& down = buffers.down[buffer];
    down = waiting[granted];
    down.result.buffer = buffer;
    outbox_.add_event(TileEvent{down.handle, TileEvent::Kind::kPush, down.index, Status::kOk,
                                Endpoint{job.members[child].member, buffers.region,
                                         job.spec.buffers.down_offset(buffer), down.bytes},
                                buffer});
  }
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(granted));
}

void ChildNodes::passed_down(Job& job, Tile& tile, std::uint32_t index) {
  const Below below = tile.below[index];
  tile.below[index].buffer = kNone;
  if (job.members[below.child].gone) return release_down(job, below);
  ChildBuffers::Down& down = job.buffers_of(below.child).down[below.buffer];
  down.passed = true;
  if (down.own_buffer == kNone) ++job.table[down.operation].placing;
  send(job, below.child, wire::encode(down.result));
}

Status ChildNodes::tile_placed(Job& job, std::uint16_t child, const VertexMessage& message,
                               PoolIndex& operation) {
  operation = kNone;
  ChildBuffers& buffers = job.buffers_of(child);
  if (message.buffer >= buffers.down.size()) return Status::kProtocol;
  const ChildBuffers::Down down = buffers.down[message.buffer];
  if (!down.passed || down.result.first != message.first) return Status::kProtocol;
  release(job, child, message.buffer);
  operation = placed(job, down);
  return Status::kOk;
}

void ChildNodes::release(Job& job, std::uint16_t child, std::uint32_t buffer) {
  ChildBuffers& buffers = job.buffers_of(child);
  buffers.down[buffer] = ChildBuffers::Down{};
  const std::uint32_t cls = buffer / job.spec.buffers.down;
  buffers.free_down[cls].push_back(buffer);
  grant(job, child, cls);
}

// All nodes below the child node have the result, or the child node is gone. Returns the operation
// when this vertex is its root and it has not failed since; else kNone.
PoolIndex ChildNodes::placed(Job& job, const ChildBuffers::Down& down) {
  if (down.own_buffer != kNone) {
    parents_.placed(job, down.parent, down.own_buffer);
    return kNone;
  }
  if (down.operation != kNone) --job.table[down.operation].placing;
  return down.operation;
}

void ChildNodes::release_down(Job& job, const Tile& tile) {
  for (const Below& below : tile.below) {
    if (below.buffer != kNone) release_down(job, below);
  }
}

void ChildNodes::release_down(Job& job, const Below& below) {
  const ChildBuffers::Down& down = job.buffers_of(below.child).down[below.buffer];
  if (down.own_buffer != kNone) --job.parents[down.parent].down[down.own_buffer].pending;
  release(job, below.child, below.buffer);
}

void ChildNodes::stop_waiting(Job& job, PoolIndex index) {
  for (const ChildNode& child_node : job.vertex(job.table[index]).child_nodes) {
    ChildBuffers& buffers = job.buffers_of(job.child_of(child_node));
    for (auto& waiting : buffers.waiting) {
      std::erase_if(waiting, [&](const ChildBuffers::Waiting& push) {
        if (push.operation != index) return false;
        refuse_push(job, push, Status::kCancelled);
        return true;
      });
    }
  }
}

// The operations that wait for results of the child node have failed. Each ends with its last tile,
// so this function ends none.
void ChildNodes::drop(Job& job, std::uint16_t child, Status why) {
  ChildBuffers& buffers = job.buffers_of(child);
  for (ChildBuffers::Up& up : buffers.up) {
    if (up.operation == kNone || up.answered) continue;
    up.answered = true;
    outbox_.add_event(
        TileEvent{up.handle, TileEvent::Kind::kPull, up.source, why, Endpoint{}, kNone});
  }
  for (auto& waiting : buffers.waiting) {
    for (const ChildBuffers::Waiting& push : waiting) refuse_push(job, push, why);
    waiting.clear();
  }
  for (ChildBuffers::Down& buffer : buffers.down) {
    if (!buffer.passed) continue;  // its push has not been answered yet
    const ChildBuffers::Down down = std::exchange(buffer, ChildBuffers::Down{});
    placed(job, down);
  }
}

void ChildNodes::disown(Job& job, PoolIndex index) {
  for (const ChildNode& child_node : job.vertex(job.table[index]).child_nodes) {
    for (ChildBuffers::Down& down : job.buffers_of(job.child_of(child_node)).down) {
      if (down.operation == index) down.operation = kNone;
    }
  }
}

}  // namespace tally::protocol
