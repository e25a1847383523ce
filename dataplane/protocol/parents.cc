// Towards the vertex above: readiness and failures go up, requests for tiles, results and verdicts
// come down.
#include <algorithm>

#include "dataplane/protocol/aggregator.h"
#include "dataplane/protocol/job.h"

namespace tally::protocol {
namespace {

using wire::VertexKind;
using wire::VertexMessage;
using State = OperationRecord::State;

// The parent is told the deadline that remains, so it is the first to see it pass and can name who
// is missing. This long after it the parent itself is what is missing.
constexpr Nanos kPatience = 4 * kSecond;

OperationKey key_of(const VertexMessage& message) {
  return OperationKey{message.tree, message.group, message.tag, message.round};
}

}  // namespace

void Aggregator::join_parent(JobSlot slot, std::uint32_t parent, Link link, std::uint32_t region,
                             Nanos now) {
  if (link >= links_.size()) links_.resize(link + 1);
  links_[link] = LinkEntry{slot, parent, true};
  Job& job = *jobs_[slot];
  job.parents[parent].link = link;
  job.parents[parent].region = region;
  // What it was to be told before it was there.
  if (job.broken.status != Status::kOk) send_up(job, parent, broken_message(job));
  for (const RingSlot& report : job.parents[parent].unsent) send_up(job, parent, report);
  job.parents[parent].unsent.clear();
  for (Slot s = 0; s < job.table.used(); ++s) {
    const OperationRecord& operation = job.table[s];
    if (operation.state == State::kFree || job.vertex(operation).parent != parent) continue;
    if (operation.state == State::kActive) {
      send_partial(job, operation, operation.deadline - kPatience - now);
    }
    if (operation.state == State::kReported) {
      report_up(job, operation.vertex, operation.key, operation.part, operation.verdict);
    }
  }
}

void Aggregator::send_up(const Job& job, std::uint32_t parent, const RingSlot& message) {
  if (const Link link = job.parents[parent].link; link != kNoLink) {
    letters_up_.push_back(Letter{link, message});
  }
}

// All below have announced it.
void Aggregator::announce_up(Job& job, Slot slot, Nanos now) {
  OperationRecord& operation = job.table[slot];
  const std::uint64_t elements = operation.end - operation.first;
  if (elements > 0) {
    const std::uint64_t bytes = traffic(operation.shape, elements);
    grain_.ready(job.slot, bytes);
    operation.stream = backlog_ + bytes >= config_.stream_bytes;
  }
  send_partial(job, operation, operation.deadline - now);
  set_deadline(job, slot, operation.deadline + kPatience);
}

void Aggregator::send_partial(const Job& job, const OperationRecord& operation, Nanos left) {
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
  // Rounded up: 0 would be the default.
  notice.deadline_ms =
      static_cast<std::uint32_t>(std::clamp<Nanos>(left / kMillisecond + 1, 1, UINT32_MAX));
  notice.group = operation.key.group;
  notice.root = operation.shape.root;
  send_up(job, vertex.parent, wire::encode(notice));
}

RingSlot Aggregator::report(const Job& job, const OperationKey& key, std::uint16_t part,
                            const Verdict& verdict) {
  wire::Completion report = protocol::completion_of(verdict, 0);
  report.part = part;
  report.group = key.group;
  report.epoch = job.spec.epoch;
  report.tag = key.tag;
  report.round = key.round;
  report.cookie = key.tree;
  return wire::encode(report);
}

void Aggregator::report_up(const Job& job, std::uint16_t vertex, const OperationKey& key,
                           std::uint16_t part, const Verdict& verdict) {
  send_up(job, job.spec.vertices[vertex].parent, report(job, key, part, verdict));
}

// Of an operation that is not known here: nothing else keeps the report until the parent is there.
// As many as ranks may have failed and unanswered.
void Aggregator::pass_on(Job& job, std::uint16_t vertex, const OperationKey& key,
                         std::uint16_t part, const Verdict& verdict) {
  ParentSlots& parent = job.parents[job.spec.vertices[vertex].parent];
  if (parent.link != kNoLink) return report_up(job, vertex, key, part, verdict);
  if (parent.unsent.size() < job.spec.credit) {
    parent.unsent.push_back(report(job, key, part, verdict));
  }
}

Status Aggregator::heard_above(Link link, const RingSlot& slot, Nanos now) {
  if (link >= links_.size() || !links_[link].joined) return Status::kProtocol;
  if (jobs_[links_[link].job] == nullptr) return Status::kProtocol;
  Job& job = *jobs_[links_[link].job];
  const std::uint32_t parent = links_[link].parent;
  wire::Completion completion;
  if (wire::parse(slot, completion) == Status::kOk) return judged(job, parent, completion, now);
  VertexMessage message;
  if (const Status status = wire::parse(slot, message); status != Status::kOk) return status;
  if (message.epoch != job.spec.epoch) return Status::kProtocol;
  if (message.kind == VertexKind::kBroken) {
    return broken(job, message, kNoMember, link, now);
  }
  const std::uint16_t vertex = job.vertex_in(message.tree);
  if (vertex == kNoVertex || job.spec.vertices[vertex].parent != parent) return Status::kProtocol;
  switch (message.kind) {
    case VertexKind::kTileWanted:
      return tile_wanted(job, parent, message);
    case VertexKind::kTileResult:
      return tile_result(job, parent, message);
    case VertexKind::kMissing:
      missing(job, message, now);
      return Status::kOk;
    default:
      return Status::kProtocol;  // what only a child says
  }
}

namespace {

// Is this a run of elements as tiles are cut: of the operation's part, with the same contributors
// and receivers everywhere, from one multiple of blocks, end of such a stretch or of the part to
// another?
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

// Of what has failed here meanwhile, or is not known any more, there is no sum.
Status Aggregator::tile_wanted(Job& job, std::uint32_t parent, const VertexMessage& message) {
  ParentSlots& above = job.parents[parent];
  if (message.slot >= above.up.size() || above.up[message.slot].used) return Status::kProtocol;
  const Slot slot = job.table.find(key_of(message));
  const bool open = slot != kNone && is_open(job.table[slot]);
  if (open && !can_sum(job, job.table[slot], message)) return Status::kProtocol;
  above.up[message.slot] = ParentSlots::Up{true, kNone, message};
  if (!open) {
    answer_wanted(job, parent, message.slot, false);
    return Status::kOk;
  }
  OperationRecord& operation = job.table[slot];
  operation.cursor = message.first + message.count;
  backlog_ += traffic(operation.shape, message.count);
  if (operation.first_wanted == kNone) {
    operation.first_wanted = message.slot;
    scheduler_.add(job.slot, job.place(operation).cls, slot, operation.priority, operation.age);
  } else {
    above.up[operation.last_wanted].next = message.slot;
  }
  operation.last_wanted = message.slot;
  return Status::kOk;
}

// Requests rise, and come after readiness was announced, for what some rank below contributes.
bool Aggregator::can_sum(const Job& job, const OperationRecord& operation,
                         const VertexMessage& message) {
  if (operation.state != State::kActive || !is_tile(operation, message) ||
      message.first < operation.cursor) {
    return false;
  }
  const RankSet contributors = stretch_at(operation.shape, message.first).contributors;
  const Place& place = job.place(operation);
  const std::uint64_t bytes =
      std::uint64_t{message.count} * element_bytes(partial_type(operation.shape));
  return bytes <= job.spec.slots.bytes &&
         (contributors.all || place.child_of[contributors.rank] != wire::kNoRank);
}

// `good`: the sum stands in the slot.
void Aggregator::answer_wanted(Job& job, std::uint32_t parent, std::uint32_t slot, bool good) {
  ParentSlots::Up& up = job.parents[parent].up[slot];
  VertexMessage answer = up.wanted;
  answer.kind = VertexKind::kTileReady;
  answer.flags = good ? 0 : wire::kVoid;
  up.used = false;
  send_up(job, parent, wire::encode(answer));
}

// Requests of a failed operation that no tile was started for.
void Aggregator::refuse_wanted(Job& job, Slot slot) {
  OperationRecord& operation = job.table[slot];
  const std::uint32_t parent = job.vertex(operation).parent;
  while (operation.first_wanted != kNone) {
    const ParentSlots::Up& up = job.parents[parent].up[operation.first_wanted];
    backlog_ -= traffic(operation.shape, up.wanted.count);
    const Slot next = up.next;
    answer_wanted(job, parent, operation.first_wanted, false);
    operation.first_wanted = next;
  }
  operation.last_wanted = kNone;
}

Status Aggregator::tile_result(Job& job, std::uint32_t parent, const VertexMessage& message) {
  ParentSlots& above = job.parents[parent];
  if (message.slot >= above.down.size() || above.down[message.slot].used) {
    return Status::kProtocol;
  }
  const Slot slot = job.table.find(key_of(message));
  const bool active = slot != kNone && job.table[slot].state == State::kActive;
  if (active) {
    const OperationRecord& operation = job.table[slot];
    const std::uint64_t bytes = message.count * element_bytes(operation.shape.type);
    if (!is_tile(operation, message) || bytes > job.spec.slots.bytes) return Status::kProtocol;
  }
  above.down[message.slot] = ParentSlots::Down{true, slot, 1, message};
  if (!active) {  // it has failed here: nobody waits for it
    placed_below(job, parent, message.slot);
    return Status::kOk;
  }
  ++job.table[slot].tiles_in_flight;
  ++job.tiles;
  downs_.push_back(DownEntry{job.slot, parent, message.slot});
  return Status::kOk;
}

// This shard's tile has ended, or a branch has it everywhere: the last of them frees the slot.
void Aggregator::placed_below(Job& job, std::uint32_t parent, std::uint32_t slot) {
  ParentSlots::Down& down = job.parents[parent].down[slot];
  if (--down.pending > 0) return;
  VertexMessage answer = down.result;
  answer.kind = VertexKind::kTilePlaced;
  down.used = false;
  send_up(job, parent, wire::encode(answer));
}

// The verdict for all ranks. An operation that is not known here is kept with it for ranks that
// announce it later.
Status Aggregator::judged(Job& job, std::uint32_t parent, const wire::Completion& completion,
                          Nanos now) {
  const OperationKey key{completion.cookie, completion.group, completion.tag, completion.round};
  const std::uint16_t vertex = job.vertex_in(key.tree);
  const Verdict verdict = verdict_of(completion);
  if (completion.epoch != job.spec.epoch || vertex == kNoVertex ||
      job.spec.vertices[vertex].parent != parent || !sensible(verdict, job.spec.ranks)) {
    return Status::kProtocol;
  }
  const bool ok = completion.status == Status::kOk;
  Slot slot = job.table.find(key);
  if (slot == kNone) {
    if (ok || is_over(job, key)) return Status::kOk;  // given up here meanwhile
    slot = open_failed(job, key, vertex, completion.part, now);
  }
  OperationRecord& operation = job.table[slot];
  if (operation.state == State::kDraining || operation.state == State::kFailed) return Status::kOk;
  if (ok && operation.announced < operation.children) return Status::kProtocol;
  operation.started = (completion.flags & wire::kStarted) != 0;
  finish(job, slot, verdict, now);
  return Status::kOk;
}

void Aggregator::parent_gone(Link link, Status why, Nanos now) {
  if (link >= links_.size() || !links_[link].joined) return;
  links_[link].joined = false;
  if (jobs_[links_[link].job] == nullptr) return;
  Job& job = *jobs_[links_[link].job];
  const std::uint32_t parent = links_[link].parent;
  std::erase_if(letters_up_, [&](const Letter& letter) { return letter.to == link; });
  job.parents[parent].link = kNoLink;
  job.parents[parent].gone = true;
  Verdict verdict{.status = why};
  if (parent < job.spec.parent_nodes.size()) verdict.culprit_value = job.spec.parent_nodes[parent];
  break_job(job, verdict, kNoMember, link);
  for (Slot s = 0; s < job.table.used(); ++s) {
    const OperationRecord& operation = job.table[s];
    const bool orphan =
        operation.state == State::kReported && job.vertex(operation).parent == parent;
    if (orphan) {  // nobody is left to judge it
      give_up(job, s, operation.verdict, now);
    } else if (is_open(operation)) {
      fail(job, s, verdict, now);
    }
  }
}

}  // namespace tally::protocol
