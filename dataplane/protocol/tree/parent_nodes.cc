#include "dataplane/protocol/tree/parent_nodes.h"

#include <algorithm>

#include "dataplane/protocol/operations/verdict.h"

namespace tally::protocol {
namespace {

using wire::VertexKind;
using wire::VertexMessage;
using State = OperationRecord::State;

// The parent gets the deadline that remains. So it is the first to see the deadline pass, and can
// name the missing rank. When this much time has passed after it, the parent itself is missing.
constexpr Nanos kTimeout = 4 * kSecond;

OperationKey key_of(const VertexMessage& message) {
  return OperationKey{message.tree, message.group, message.tag, message.round};
}

// Returns whether the message names a run of elements as tiles are cut. A tile lies in the
// operation's part, and has the same contributors and receivers everywhere. It begins and ends at a
// multiple of blocks, or where such a stretch or the part does.
bool is_tile(const OperationRecord& operation, const VertexMessage& message) {
  const std::uint64_t end = message.first + message.count;
  if (message.first < operation.first || end > operation.end) return false;
  const Stretch stretch = stretch_at(operation.shape, message.first);
  const bool begins = message.first % kCutElements == 0 || message.first == operation.first ||
                      stretch_at(operation.shape, message.first - 1).end == message.first;
  const bool ends = end % kCutElements == 0 || end == operation.end || end == stretch.end;
  return begins && ends && end <= stretch.end;
}

}  // namespace

void ParentNodes::remove_job(JobId job) {
  results_.erase(results_.begin(), results_.begin() + static_cast<std::ptrdiff_t>(next_));
  next_ = 0;
  std::erase_if(results_, [&](const Result& one) { return one.job == job; });
}

void ParentNodes::joined(Job& job, std::uint32_t parent, Nanos now) {
  ParentBuffers& above = job.parents[parent];
  if (job.is_broken()) {
    outbox_.send_up(above.parent_id, broken_message(job.spec.epoch, job.broken));
  }
  for (const RingEntry& message : above.unsent) outbox_.send_up(above.parent_id, message);
  above.unsent.clear();
  for (PoolIndex i = 0; i < job.table.used(); ++i) {
    const OperationRecord& operation = job.table[i];
    if (operation.state == State::kFree || job.vertex(operation).parent != parent) continue;
    if (operation.state == State::kActive) {
      send_partial(job, operation, operation.deadline - kTimeout - now);
    }
    if (operation.state == State::kReported) {
      report(job, operation.vertex, operation.key, operation.part, operation.verdict);
    }
  }
}

void ParentNodes::announce(Job& job, PoolIndex index, Nanos now) {
  OperationRecord& operation = job.table[index];
  const std::uint64_t elements = operation.end - operation.first;
  if (elements > 0) {
    const std::uint64_t bytes = traffic(operation.shape, elements);
    sizing_.ready(job.id, bytes);
    operation.stream = backlog_.streams(bytes);
  }
  send_partial(job, operation, operation.deadline - now);
  job.set_deadline(index, operation.deadline + kTimeout);
}

void ParentNodes::send_partial(const Job& job, const OperationRecord& operation, Nanos left) {
  const Vertex& vertex = job.vertex(operation);
  wire::Notice notice;
  notice.kind = operation.shape.kind;
  notice.type = operation.shape.type;
  notice.operation = operation.shape.operation;
  notice.flags = wire::kPartial;
  notice.priority = operation.priority;
  notice.part = operation.part;
  notice.epoch = job.spec.epoch;
  notice.tag = operation.key.tag;
  notice.round = operation.key.round;
  notice.cookie = operation.key.tree;
  notice.count = operation.shape.count;
  notice.in_region = job.parents[vertex.parent].region;
  // Rounded up, because 0 would mean the default.
  notice.deadline_ms =
      static_cast<std::uint32_t>(std::clamp<Nanos>(left / kMillisecond + 1, 1, UINT32_MAX));
  notice.group = operation.key.group;
  notice.root = operation.shape.root;
  outbox_.send_up(job.parents[vertex.parent].parent_id, wire::encode(notice));
}

void ParentNodes::report(const Job& job, std::uint16_t vertex, const OperationKey& key,
                         std::uint16_t part, const Verdict& verdict) {
  outbox_.send_up(job.parents[job.spec.vertices[vertex].parent].parent_id,
                  failure_report(key, part, job.spec.epoch, verdict));
}

// Keeps at most `credit` reports: no rank can have more failed operations without an answer.
void ParentNodes::pass_on(Job& job, std::uint16_t vertex, const OperationKey& key,
                          std::uint16_t part, const Verdict& verdict) {
  ParentBuffers& parent = job.parents[job.spec.vertices[vertex].parent];
  if (parent.parent_id != kNoParentId) return report(job, vertex, key, part, verdict);
  if (parent.unsent.size() < job.spec.credit) {
    parent.unsent.push_back(failure_report(key, part, job.spec.epoch, verdict));
  }
}

void ParentNodes::send_broken(const Job& job, ParentId except) {
  const RingEntry message = broken_message(job.spec.epoch, job.broken);
  for (const ParentBuffers& parent : job.parents) {
    if (parent.parent_id != except) outbox_.send_up(parent.parent_id, message);
  }
}

// The answer is void when the operation has failed here, or is no longer known.
Status ParentNodes::tile_wanted(Job& job, std::uint32_t parent, const VertexMessage& message) {
  ParentBuffers& above = job.parents[parent];
  if (message.buffer >= above.up.size() || above.up[message.buffer].used) return Status::kProtocol;
  const PoolIndex index = job.table.find(key_of(message));
  const bool open = index != kNone && job.table[index].is_open();
  if (open && !can_sum(job, job.table[index], message)) return Status::kProtocol;
  above.up[message.buffer] = ParentBuffers::Up{true, kNone, message};
  if (!open) {
    answer(job, parent, message.buffer, false);
    return Status::kOk;
  }
  OperationRecord& operation = job.table[index];
  operation.cursor = message.first + message.count;
  backlog_.add(traffic(operation.shape, message.count));
  if (operation.first_wanted == kNone) {
    operation.first_wanted = message.buffer;
    scheduler_.add(job.id, job.position(operation).cls, index, operation.priority, operation.age);
  } else {
    above.up[operation.last_wanted].next = message.buffer;
  }
  operation.last_wanted = message.buffer;
  return Status::kOk;
}

ParentNodes::Request ParentNodes::take_request(Job& job, OperationRecord& operation) {
  const ParentBuffers& parent = job.parents[job.vertex(operation).parent];
  const PoolIndex buffer = operation.first_wanted;
  const ParentBuffers::Up& up = parent.up[buffer];
  operation.first_wanted = up.next;
  if (up.next == kNone) operation.last_wanted = kNone;
  return {up.wanted.first, up.wanted.count, {parent.parent_id, buffer}};
}

// A parent requests tiles in ascending order, after the announcement, and only tiles to which some
// rank below contributes. It requests none in a result tree.
bool ParentNodes::can_sum(const Job& job, const OperationRecord& operation,
                          const VertexMessage& message) {
  if (operation.state != State::kActive || !is_tile(operation, message) ||
      message.first < operation.cursor) {
    return false;
  }
  const RankSet contributors = stretch_at(operation.shape, message.first).contributors;
  const TreePosition& position = job.position(operation);
  if (!position.sums) return false;
  const std::uint64_t bytes =
      std::uint64_t{message.count} * element_bytes(partial_type(operation.shape));
  return bytes <= job.spec.buffers.bytes &&
         (contributors.all || position.child_of[contributors.rank] != wire::kNoRank);
}

void ParentNodes::answer(Job& job, std::uint32_t parent, std::uint32_t buffer, bool good) {
  ParentBuffers::Up& up = job.parents[parent].up[buffer];
  VertexMessage message = up.wanted;
  message.kind = VertexKind::kTileReady;
  message.flags = good ? 0 : wire::kVoid;
  up.used = false;
  outbox_.send_up(job.parents[parent].parent_id, wire::encode(message));
}

void ParentNodes::refuse_requests(Job& job, OperationRecord& operation) {
  const std::uint32_t parent = job.vertex(operation).parent;
  while (operation.first_wanted != kNone) {
    const Request request = take_request(job, operation);
    backlog_.remove(traffic(operation.shape, request.count));
    answer(job, parent, request.own.index, false);
  }
}

Status ParentNodes::tile_result(Job& job, std::uint32_t parent, const VertexMessage& message) {
  ParentBuffers& above = job.parents[parent];
  if (message.buffer >= above.down.size() || above.down[message.buffer].used) {
    return Status::kProtocol;
  }
  const PoolIndex index = job.table.find(key_of(message));
  const bool active = index != kNone && job.table[index].state == State::kActive;
  if (active) {
    OperationRecord& operation = job.table[index];
    const std::uint64_t bytes = message.count * element_bytes(operation.shape.type);
    const bool fits = is_tile(operation, message) && bytes <= job.spec.buffers.bytes;
    if (!fits || !job.position(operation).results) return Status::kProtocol;
    // A result tree has no requests. In other trees results may overtake them.
    if (!job.position(operation).sums) {
      operation.cursor = std::max(operation.cursor, message.first + message.count);
    }
  }
  above.down[message.buffer] = ParentBuffers::Down{true, index, 1, message};
  if (!active) {  // it has failed here: nothing waits for the result
    placed(job, parent, message.buffer);
    return Status::kOk;
  }
  ++job.table[index].tiles_in_flight;
  ++job.tiles;
  results_.push_back(Result{job.id, parent, message.buffer});
  return Status::kOk;
}

ParentNodes::Result ParentNodes::take_result() {
  const Result result = results_[next_++];
  if (next_ == results_.size()) results_.clear(), next_ = 0;
  return result;
}

void ParentNodes::placed(Job& job, std::uint32_t parent, std::uint32_t buffer) {
  ParentBuffers::Down& down = job.parents[parent].down[buffer];
  if (--down.pending > 0) return;
  VertexMessage message = down.result;
  message.kind = VertexKind::kTilePlaced;
  down.used = false;
  outbox_.send_up(job.parents[parent].parent_id, wire::encode(message));
}

}  // namespace tally::protocol
