#include "gpu_bridge/group/executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu_bridge/stream/progress_thread.h"
#include "gpu_bridge/stream/stream_state.h"

namespace tally::gpu {
namespace {

constexpr Nanos kClosing = 5 * kSecond;
// A rank that has ended its part waits for the stages of the others.
constexpr std::uint32_t kVerdictDeadlines = 4;
constexpr std::uint32_t kMostDepth = 16;
constexpr std::uint32_t kLongestDeadline = 10U * 24 * 3600 * 1000;  // ms

std::uint32_t tag_of(std::uint32_t tag, std::uint32_t chunk) {
  return tag * Division::kMostChunks + chunk;
}

Outcome check_session(tally_session* session, const std::string& what, std::size_t rank,
                      std::size_t ranks) {
  if (session == nullptr) return invalid(fmt::format("{}: NULL is no session", what));
  tally_session_info info{};
  info.size = sizeof info;
  const auto status = tally_get_info(session, &info);
  if (status != TALLY_OK) return Error{static_cast<Status>(status), tally_last_error(session)};
  if (info.rank == rank && info.ranks == ranks) return Unit{};
  return invalid(fmt::format("{}: it is rank {} of {}, and must be rank {} of {}", what, info.rank,
                             info.ranks, rank, ranks));
}

Outcome check_options(const GroupOptions& options) {
  if (options.chunk_bytes > 0 && options.depth > 0 && options.depth <= kMostDepth &&
      options.deadline_ms > 0 && options.deadline_ms <= kLongestDeadline) {
    return Unit{};
  }
  return invalid(fmt::format(
      "chunks of {} bytes, depth {}, a deadline of {} ms: must be above 0, "
      "at most {}, and at most {}",
      options.chunk_bytes, options.depth, options.deadline_ms, kMostDepth, kLongestDeadline));
}

Outcome check_member(const Division& division, const GroupMember& member) {
  if (member.group >= division.groups() || member.rank >= division.members(member.group).size()) {
    return invalid(fmt::format("group {} has no rank {}", member.group, member.rank));
  }
  const auto columns = division.columns_of(member.group, member.rank);
  if (columns.size() != member.columns.size()) {
    return invalid(fmt::format("{} sessions of columns: this rank owns {} columns",
                               member.columns.size(), columns.size()));
  }
  auto fine = check_session(member.all, "the session of all ranks",
                            division.rank_of(member.group, member.rank), division.ranks());
  for (std::size_t i = 0; i < columns.size() && fine; ++i) {
    fine = check_session(member.columns[i], fmt::format("the session of column {}", columns[i]),
                         member.group, division.groups());
  }
  return fine;
}

nccl::RedOp operator_of(tally_op op) {
  switch (op) {
    case TALLY_AVERAGE:
      return nccl::RedOp::kAvg;
    case TALLY_MIN:
      return nccl::RedOp::kMin;
    case TALLY_MAX:
      return nccl::RedOp::kMax;
    case TALLY_SUM:
      break;
  }
  return nccl::RedOp::kSum;
}

}  // namespace

Result<std::unique_ptr<MachineGroup>> MachineGroup::make(const Division& division,
                                                         const GroupMember& member,
                                                         const GroupOptions& options) {
  if (auto fine = check_options(options); !fine) return fine.error();
  if (auto fine = check_member(division, member); !fine) return fine.error();
  Collectives collectives(division, member.group, member.rank, member.library, member.communicator);
  auto fine = collectives.check();
  collectives.release();
  if (!fine) return fine.error();
  Executor::Parts parts{division, member, options, {}, {}, {}, {}};
  auto wake = make_event_fd();
  if (!wake) return wake.error();
  parts.wake = std::move(wake).value();
  auto pipeline =
      Pipeline::make(*member.driver, member.context, member.columns.size(), options.depth);
  if (!pipeline) return pipeline.error();
  parts.pipeline = std::move(pipeline).value();
  for (std::uint32_t i = 0; i < kMostOperations; ++i) {
    auto marks = Marks::make(*member.driver, member.context);
    if (!marks) return marks.error();
    parts.marks.push_back(std::move(marks).value());
  }
  auto agreement = Agreement::begin(member.all, kVerdictDeadlines * options.deadline_ms);
  if (!agreement) return agreement.error();
  parts.agreement = std::move(agreement).value();
  return std::unique_ptr<MachineGroup>(std::make_unique<Executor>(std::move(parts)));
}

Executor::Executor(Parts parts)
    : division_(std::move(parts.division)),
      member_(std::move(parts.member)),
      options_(parts.options),
      agreement_(std::move(parts.agreement)),
      pipeline_(std::move(parts.pipeline)),
      collectives_(division_, member_.group, member_.rank, member_.library, member_.communicator),
      buffers_(member_.columns),
      own_columns_(division_.columns_of(member_.group, member_.rank)),
      wake_(std::move(parts.wake)) {
  for (std::size_t i = 0; i < works_.size(); ++i) works_[i].marks = std::move(parts.marks[i]);
  thread_ = start_progress_thread("tally-group", [this] { run(); });
}

Executor::~Executor() {
  {
    Lock lock(mutex_);
    if (outstanding() > 0)
      lose(Stage::kNone, {Status::kCancelled, "the group is closed"}, own_rank());
    const Nanos until = monotonic_now() + kClosing;
    while (outstanding() > 0 && monotonic_now() < until) {
      wake();
      completion_.wait_for(lock, std::chrono::milliseconds(20));
    }
    ending_ = true;
    wake();
  }
  thread_.join();
}

std::uint32_t Executor::own_rank() const {
  return division_.rank_of(member_.group, member_.rank);
}

std::uint32_t Executor::outstanding() const {
  std::uint32_t count = 0;
  for (const GroupWork& work : works_) count += work.state != GroupWork::State::kFree ? 1 : 0;
  return count;
}

Outcome Executor::add_buffer(cuda::Pointer data, std::size_t bytes) {
  const Lock lock(mutex_);
  return buffers_.add(data, bytes);
}

Outcome Executor::remove_buffer(cuda::Pointer data) {
  const Lock lock(mutex_);
  for (const GroupWork& work : works_) {
    if (work.state == GroupWork::State::kFree || work.buffer->data != data) continue;
    return Error{Status::kAgain,
                 fmt::format("the operation of tag {} uses the buffer", work.operation.tag)};
  }
  return buffers_.remove(data);
}

// -- posting -------------------------------------------------------------------------------------

// The stages of one operation.
class Executor::StagesOf final : public Stages {
 public:
  StagesOf(Executor& self, GroupWork& work) : self_(self), work_(work) {}

  Outcome reduce(std::uint32_t chunk, cuda::Stream stream) override {
    return in(Stage::kReduce,
              self_.collectives_.reduce(address_of(chunk), work_.chunks[chunk].count, work_.element,
                                        operator_of(work_.operation.op), stream));
  }
  Outcome gather(std::uint32_t chunk, cuda::Stream stream) override {
    return in(Stage::kGather,
              self_.collectives_.gather(address_of(chunk), work_.chunks[chunk].count, work_.element,
                                        stream));
  }
  Result<bool> sum(std::uint32_t chunk, std::size_t column, cuda::Stream stream) override {
    const std::size_t index = self_.own_columns_[column];
    const Elements part = self_.division_.elements(index, index + 1, work_.chunks[chunk].count);
    if (part.count == 0) return false;
    const cuda::Pointer data = address_of(chunk) + part.first * work_.element.bytes;
    const tally_buffer buffer{work_.buffer->regions[column], data - work_.buffer->data};
    tally_operation operation{};
    operation.size = sizeof operation;
    operation.kind = TALLY_ALL_REDUCE;
    operation.type = work_.operation.type;
    operation.op = work_.operation.op;
    operation.tag = tag_of(work_.operation.tag, chunk);
    operation.count = part.count;
    operation.in = operation.out = buffer;
    operation.priority = work_.operation.priority;
    operation.deadline_ms = self_.options_.deadline_ms;
    operation.stream = stream;
    tally_session* const session = self_.member_.columns[column];
    const auto status = tally_post(session, &operation);
    if (status == TALLY_OK) {
      ++work_.posted;
      return true;
    }
    // The other stages go on, because the other ranks of the group call them too.
    work_.fail(self_.own_rank(), Stage::kSum,
               {static_cast<Status>(status), tally_last_error(session)});
    return false;
  }
  // The stage that has failed.
  Stage stage() const { return stage_; }

 private:
  cuda::Pointer address_of(std::uint32_t chunk) const {
    return work_.operation.data + work_.chunks[chunk].first * work_.element.bytes;
  }
  Outcome in(Stage stage, Outcome outcome) {
    if (!outcome) stage_ = stage;
    return outcome;
  }

  Executor& self_;
  GroupWork& work_;
  Stage stage_ = Stage::kDevice;
};

Outcome Executor::check(const GroupOperation& operation, const GroupBuffer* buffer) const {
  const auto refuse = [&](const std::string& why) {
    return invalid(fmt::format("tag {}: {}", operation.tag, why));
  };
  const ElementFacts element = facts_of(operation.type);
  if (element.bytes == 0) return refuse(fmt::format("{} is no type", int{operation.type}));
  if (operation.count == 0) return refuse("count must be above 0");
  if (operation.tag >= kTagLimit) return refuse(fmt::format("must be below {}", kTagLimit));
  if (operation.priority > 255) return refuse("priority must be at most 255");
  if (buffer == nullptr) {
    return refuse(fmt::format("{} elements at {:#x} are not in one buffer of add_buffer()",
                              operation.count, operation.data));
  }
  if (auto fine = check_average(operation); !fine) return fine;
  return check_stream(operation);
}

Outcome Executor::check_average(const GroupOperation& operation) const {
  if (operation.op != TALLY_AVERAGE) return Unit{};
  const char* why = nullptr;
  if (!division_.is_uniform()) why = "averages need groups of the same size";
  if (facts_of(operation.type).is_integer && division_.members(0).size() > 1) {
    why = "averages of integers would be rounded twice";
  }
  if (why == nullptr) return Unit{};
  return Error{Status::kUnsupported,
               fmt::format("tag {}: {}: sum, and divide the result", operation.tag, why)};
}

Outcome Executor::check_stream(const GroupOperation& operation) const {
  const auto capturing = is_capturing(*member_.driver, member_.context, operation.stream);
  if (!capturing) {
    return Error{capturing.error().status,
                 fmt::format("tag {}: {}", operation.tag, capturing.error().message)};
  }
  if (!*capturing) return Unit{};
  return Error{Status::kUnsupported,
               fmt::format("tag {}: the stream is being captured, and operations of groups cannot "
                           "be in a graph: post it outside of the capture",
                           operation.tag)};
}

Result<GroupWork*> Executor::take(const GroupOperation& operation, const Chunking& chunks) {
  GroupWork* free = nullptr;
  for (GroupWork& work : works_) {
    if (work.state == GroupWork::State::kFree) {
      free = &work;
    } else if (work.operation.tag == operation.tag) {
      return Error{Status::kDuplicate,
                   fmt::format("tag {}: the tag has an outstanding operation", operation.tag)};
    }
  }
  if (free == nullptr || ended_.size() + outstanding() >= kMostOperations ||
      chunks_ + chunks.size > kMostOutstandingChunks) {
    return Error{Status::kNoCredit,
                 fmt::format("tag {}: {} operations of {} chunks are outstanding: take completions "
                             "first",
                             operation.tag, ended_.size() + outstanding(), chunks_)};
  }
  return free;
}

Outcome Executor::all_reduce(const GroupOperation& operation) {
  const Lock lock(mutex_);
  if (lost_.has_value()) return *lost_;
  const ElementFacts element = facts_of(operation.type);
  // A count whose bytes overflow fits no buffer.
  const bool fits = element.bytes != 0 && operation.count <= SIZE_MAX / element.bytes;
  const GroupBuffer* const buffer =
      fits ? buffers_.find(operation.data, operation.count * element.bytes) : nullptr;
  if (auto fine = check(operation, buffer); !fine) {
    next_look_ = 0;  // the device may have failed
    wake();
    return fine;
  }
  const Chunking chunks = division_.chunks(operation.count, element.bytes, options_.chunk_bytes);
  const auto taken = take(operation, chunks);
  if (!taken) return taken.error();
  GroupWork& work = **taken;
  work.operation = operation;
  work.element = element;
  work.chunks = chunks;
  work.buffer = buffer;
  work.has_end = work.begun = false;
  work.posted = work.completed = 0;
  work.verdict = {};
  work.message.clear();
  if (outstanding() == 0) progressed_ = monotonic_now();
  work.state = GroupWork::State::kRunning;
  chunks_ += chunks.size;
  StagesOf stages(*this, work);
  const auto enqueued = pipeline_->enqueue(stages, chunks.size, operation.stream, work.marks);
  work.has_end = enqueued.ok();
  if (!enqueued) lose(stages.stage(), enqueued.error(), own_rank());
  wake();
  return Unit{};
}

}  // namespace tally::gpu
