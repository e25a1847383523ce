#include "gpu_bridge/group/agreement.h"

#include <fmt/format.h>

namespace tally::gpu {
namespace {

constexpr std::uint32_t kNever = 0xffffffffU;  // ms: 49 days
constexpr int kClosingMs = 2000;

tally_operation host_operation(tally_kind kind, std::uint32_t tag, std::uint32_t deadline_ms) {
  tally_operation operation{};
  operation.size = sizeof operation;
  operation.kind = kind;
  operation.tag = tag;
  operation.deadline_ms = deadline_ms;
  operation.priority = 255;  // these are small, and the other ranks wait for them
  return operation;
}

}  // namespace

const char* stage_name(Stage stage) {
  switch (stage) {
    case Stage::kReduce:
      return "reduce (NCCL)";
    case Stage::kSum:
      return "sum (Tally)";
    case Stage::kGather:
      return "gather (NCCL)";
    case Stage::kDevice:
      return "device (CUDA)";
    case Stage::kVerdict:
      return "verdict (Tally)";
    case Stage::kNone:
      break;
  }
  return "none";
}

std::int64_t Verdict::code() const {
  if (status == Status::kOk) return 0;
  return (static_cast<std::int64_t>(status) << 40) | (static_cast<std::int64_t>(stage) << 32) |
         static_cast<std::int64_t>(rank);
}

Verdict Verdict::of(std::int64_t code) {
  return {static_cast<Status>(code >> 40), static_cast<Stage>((code >> 32) & 0xff),
          static_cast<std::uint32_t>(code & 0xffffffff)};
}

Error Agreement::failure(const char* what, tally_status status) const {
  return {static_cast<Status>(status), fmt::format("{}: {}", what, tally_last_error(session_))};
}

Result<std::unique_ptr<Agreement>> Agreement::begin(tally_session* session,
                                                    std::uint32_t deadline_ms) {
  std::unique_ptr<Agreement> made(new Agreement(session));
  tally_session_info info{};
  info.size = sizeof info;
  auto status = tally_get_info(session, &info);
  if (status != TALLY_OK) return made->failure("the session of all ranks", status);
  made->rank_ = info.rank;
  made->ranks_ = info.ranks;
  made->deadline_ms_ = deadline_ms;
  void* data = nullptr;
  status = tally_region_alloc(session, kMostOperations * sizeof(Values), &made->region_, &data);
  if (status != TALLY_OK) return made->failure("memory for verdicts", status);
  made->values_ = static_cast<Values*>(data);
  if (made->ranks_ == 1) return made;
  for (std::size_t watch = 0; watch < kWatches; ++watch) {
    if (made->owns_watch(watch)) continue;
    if (auto posted = made->post_watch(watch, kNever); !posted) return posted.error();
  }
  // From here on each rank may rely on the others.
  const auto start = host_operation(TALLY_BARRIER, kStart, deadline_ms);
  tally_completion completion{};
  completion.size = sizeof completion;
  status = tally_run(session, &start, &completion);
  if (status != TALLY_OK) return made->failure("the start of all ranks", status);
  if (completion.status == TALLY_OK) return made;
  return Error{static_cast<Status>(completion.status),
               fmt::format("the start of all ranks: {}", completion.message)};
}

Agreement::~Agreement() {
  end();
  tally_completion completion{};
  completion.size = sizeof completion;
  while (tally_wait(session_, &completion, kClosingMs) == TALLY_OK) {
  }
  if (region_ != nullptr) tally_region_free(session_, region_);
}

Outcome Agreement::post_watch(std::size_t watch, std::uint32_t deadline_ms) {
  const auto operation =
      host_operation(TALLY_BARRIER, kFirstWatch + static_cast<std::uint32_t>(watch), deadline_ms);
  const auto status = tally_post(session_, &operation);
  if (status != TALLY_OK) return failure("the watch over all ranks", status);
  watching_[watch] = true;
  return Unit{};
}

void Agreement::end() {
  if (ending_ || ranks_ == 1) return;
  ending_ = true;
  // Each rank learns of a lost rank from its own nodes. The end of this rank's watches could reach
  // the others first, and name this rank.
  if (has_lost_rank_) return;
  for (std::size_t watch = 0; watch < kWatches; ++watch) {
    if (owns_watch(watch)) {
      // The last announcement of the barrier.
      static_cast<void>(post_watch(watch, static_cast<std::uint32_t>(kClosingMs)));
    } else if (watching_[watch]) {
      tally_cancel(session_, kFirstWatch + static_cast<std::uint32_t>(watch));
    }
  }
}

Outcome Agreement::announce(std::uint32_t index, std::uint32_t tag, const Verdict& verdict) {
  values_[index].in = verdict.code();
  auto operation = host_operation(TALLY_ALL_REDUCE, tag, deadline_ms_);
  operation.type = TALLY_I64;
  operation.op = TALLY_MAX;
  operation.count = 1;
  operation.in = {region_, index * sizeof(Values) + offsetof(Values, in)};
  operation.out = {region_, index * sizeof(Values) + offsetof(Values, out)};
  operation.user = index;
  const auto status = tally_post(session_, &operation);
  if (status != TALLY_OK) return failure("the verdict of all ranks", status);
  return Unit{};
}

void Agreement::take_watch(const tally_completion& completion) {
  watching_[completion.tag - kFirstWatch] = false;
  if (!ended_.empty()) return;
  culprit_ = completion.culprit;
  const char* const name = tally_status_name(completion.status);
  if (completion.status == TALLY_OK || completion.status == TALLY_CANCELLED) {
    ended_ = completion.culprit == TALLY_NO_RANK
                 ? std::string("a rank has ended its group")
                 : fmt::format("rank {} has ended its group", completion.culprit);
  } else {
    ended_ = fmt::format("{}: {}", name, completion.message);
    has_lost_rank_ = completion.status == TALLY_PEER_LOST;
  }
}

bool Agreement::poll(Agreed& agreed) {
  tally_completion completion{};
  completion.size = sizeof completion;
  for (;;) {
    const int taken = tally_poll(session_, &completion, 1);
    if (taken < 0 && ended_.empty()) {
      ended_ = fmt::format("the session of all ranks: {}", tally_last_error(session_));
    }
    if (taken <= 0) return false;
    if (completion.tag >= kFirstWatch) {
      if (completion.tag < kStart) take_watch(completion);
      continue;
    }
    agreed.index = static_cast<std::uint32_t>(completion.user);
    agreed.message.clear();
    agreed.verdict = Verdict::of(values_[agreed.index].out);
    if (completion.status != TALLY_OK) {
      agreed.verdict = {static_cast<Status>(completion.status), Stage::kVerdict,
                        completion.culprit};
      agreed.message = completion.message;
      has_lost_rank_ |= completion.status == TALLY_PEER_LOST;
    }
    return true;
  }
}

}  // namespace tally::gpu
