#include "integrations/python/src/machine/set_up.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpu_bridge/nccl_api/library.h"
#include "integrations/python/src/failure.h"
#include "integrations/python/src/machine/comm_start.h"

namespace tally::python {
namespace {

constexpr std::uint32_t kUsualDeadlineMs = 60'000;

// -- records of all ranks ------------------------------------------------------------------------

// Outlives the call when it is interrupted.
struct Exchange {
  std::vector<std::byte> own, all;
  std::atomic<bool> ended{false};
  Outcome outcome;
};

// The record of each rank.
template <typename Record>
std::vector<Record> gather(Communicator& communicator, const Record& own,
                           const std::function<void()>& interrupted) {
  static_assert(std::is_trivially_copyable_v<Record>);
  const auto exchange = std::make_shared<Exchange>();
  exchange->own.resize(sizeof own);
  std::memcpy(exchange->own.data(), &own, sizeof own);
  exchange->all.resize(communicator.ranks() * sizeof own);
  Request request;
  request.kind = TALLY_ALL_GATHER;
  request.type = TALLY_U8;
  request.count = exchange->all.size();
  request.in = exchange->own.data();
  request.out = exchange->all.data();
  request.awaited = true;
  communicator.post(request, [exchange](const Outcome& outcome) {
    exchange->outcome = outcome;
    exchange->ended.store(true, std::memory_order_release);
  });
  communicator.await([&] { return exchange->ended.load(std::memory_order_acquire); }, std::nullopt,
                     interrupted);
  if (exchange->outcome.status != TALLY_OK) throw exchange->outcome.failure();
  std::vector<Record> records(communicator.ranks());
  std::memcpy(records.data(), exchange->all.data(), exchange->all.size());
  return records;
}

// How a step of the set-up ended at a rank.
struct Step {
  nccl::UniqueId id{};  // of its group, from the first rank of a group
  Status status = Status::kOk;
  FixedText problem;

  void fail(const Error& error) {
    status = error.status;
    problem = FixedText(error.message);
  }
};

// A rank that fails also makes other ranks fail, because they wait for it. So the errors of waits
// come last. kOk: no rank has failed.
Error first_problem(const std::vector<Step>& steps) {
  const auto waited = [](Status status) {
    return status == Status::kPeerLost || status == Status::kPeerLeft ||
           status == Status::kDeadline;
  };
  const Step* found = nullptr;
  for (const Step& one : steps) {
    if (one.status == Status::kOk) continue;
    if (found == nullptr || (waited(found->status) && !waited(one.status))) found = &one;
  }
  if (found == nullptr) return {Status::kOk, {}};
  return {Status::kUnsupported,
          fmt::format("rank {}: {}", found - steps.data(), found->problem.text())};
}

// What is set up at this rank.
class Start {
 public:
  Start(Communicator& communicator, const MachineSetUp& set_up, MachineLayout layout)
      : communicator_(communicator), set_up_(set_up) {
    parts_.driver = set_up.driver;
    parts_.context = set_up.context;
    parts_.layout = std::move(layout);
    const std::uint32_t given = communicator.options().deadline_ms;
    deadline_ms_ = given > 0 ? given : kUsualDeadlineMs;
  }
  ~Start() {
    const cuda::CurrentContext current(*parts_.driver, parts_.context);
    parts_.group = nullptr;
    if (comm_ != nullptr) library().comm_abort(comm_);
  }
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;

  // The first rank of each group makes the group's id.
  Step make_id() const {
    Step step;
    if (members().size() == 1 || parts_.layout.rank != 0) return step;
    const auto made =
        nccl::outcome(library(), nullptr, "ncclGetUniqueId", library().get_unique_id(&step.id));
    if (!made) step.fail(made.error());
    return step;
  }

  Step connect(const std::vector<Step>& ids) {
    Step step;
    try {
      open_sessions();
    } catch (const Failure& failure) {
      step.fail({static_cast<Status>(failure.status), failure.what()});
      return step;
    }
    if (members().size() == 1) return step;
    const auto made = start_comm({.library = &library(),
                                  .driver = parts_.driver,
                                  .context = parts_.context,
                                  .ranks = members().size(),
                                  .rank = parts_.layout.rank,
                                  .id = ids[members().front()].id},
                                 std::chrono::milliseconds(deadline_ms_ / 2), set_up_.interrupted);
    if (made) {
      comm_ = *made;
    } else {
      step.fail(made.error());
    }
    return step;
  }

  Step make_group() {
    Step step;
    gpu::GroupMember member;
    member.driver = parts_.driver;
    member.context = parts_.context;
    member.library = &library();
    member.communicator = comm_;
    member.group = parts_.layout.group;
    member.rank = parts_.layout.rank;
    member.all = parts_.sessions.front().get();
    for (std::size_t i = 1; i < parts_.sessions.size(); ++i) {
      member.columns.push_back(parts_.sessions[i].get());
    }
    const cuda::CurrentContext current(*parts_.driver, parts_.context);
    auto made =
        gpu::MachineGroup::make(parts_.layout.division, member, {.deadline_ms = deadline_ms_});
    if (made) {
      comm_ = nullptr;
      parts_.group = std::move(made).value();
    } else {
      step.fail(made.error());
      parts_.sessions.clear();  // the other ranks then do not wait for this one
    }
    return step;
  }

  std::shared_ptr<MachineReducer> finish() {
    auto made = std::make_shared<MachineReducer>(communicator_, std::move(parts_));
    communicator_.at_close([made] { made->close(); });
    return made;
  }

 private:
  static const nccl::Library& library() { return **nccl::system_library(); }
  const std::vector<host::VertexId>& members() const {
    return parts_.layout.division.members(parts_.layout.group);
  }

  void open(const std::string& job, std::uint32_t rank, std::size_t ranks) {
    CommunicatorOptions options = communicator_.options();
    options.job = job;
    options.rank = rank;
    options.ranks = static_cast<std::uint32_t>(ranks);
    parts_.sessions.emplace_back(open_session(options));
  }
  // Their jobs begin with the name of the communicator's, so its token fits.
  void open_sessions() {
    const auto& [division, group, rank] = parts_.layout;
    const std::string job = communicator_.options().job + ".machines";
    open(job, division.rank_of(group, rank), division.ranks());
    for (const std::size_t column : division.columns_of(group, rank)) {
      open(gpu::Division::job_of(job, column), static_cast<std::uint32_t>(group),
           division.groups());
    }
  }

  Communicator& communicator_;
  const MachineSetUp& set_up_;
  MachineReducer::Parts parts_;
  nccl::Comm comm_ = nullptr;
  std::uint32_t deadline_ms_ = 0;
};

}  // namespace

Result<std::shared_ptr<MachineReducer>> set_up_machines(Communicator& communicator,
                                                        const MachineSetUp& set_up) {
  const auto agree = [&](const auto& own) { return gather(communicator, own, set_up.interrupted); };
  const auto facts = agree(facts_of_rank(set_up.host, *set_up.driver, set_up.context));
  auto layout = lay_out(facts, communicator.rank());
  if (!layout) return layout.error();
  Start start(communicator, set_up, std::move(layout).value());
  const std::vector<Step> ids = agree(start.make_id());
  if (auto problem = first_problem(ids); problem.status != Status::kOk) return problem;
  const std::vector<Step> connected = agree(start.connect(ids));
  if (auto problem = first_problem(connected); problem.status != Status::kOk) return problem;
  const std::vector<Step> made = agree(start.make_group());
  if (auto problem = first_problem(made); problem.status != Status::kOk) return problem;
  return start.finish();
}

}  // namespace tally::python
