#include "integrations/python/src/machine/reducer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "base/element.h"
#include "gpu_bridge/stream/progress_thread.h"

namespace tally::python {
namespace {

constexpr int kLongestWaitMs = 20;  // close() then has the group for itself

Failure failure_of(const Error& error) {
  return {static_cast<tally_status>(error.status), "machine group: " + error.message};
}

}  // namespace

MachineReducer::MachineReducer(Communicator& communicator, Parts parts)
    : communicator_(communicator), parts_(std::move(parts)), process_(::getpid()) {
  thread_ = gpu::start_progress_thread("tally-machine", [this] { follow(); });
}

MachineReducer::~MachineReducer() {
  if (process_ == ::getpid()) {
    close();
    return;
  }
  if (thread_.joinable()) thread_.detach();
  static_cast<void>(parts_.group.release());
  for (OwnedSession& session : parts_.sessions) static_cast<void>(session.release());
}

bool MachineReducer::takes(const Request& request) const {
  const gpu::Division& division = parts_.layout.division;
  const auto type = static_cast<ElementType>(request.type);
  const bool is_float = type == ElementType::kF32 || type == ElementType::kF64 ||
                        type == ElementType::kF16 || type == ElementType::kBf16;
  return request.kind == TALLY_ALL_REDUCE && !request.stats && !request.in_graph &&
         request.count >= kLeastBytes / element_bytes(type) &&
         (request.op != TALLY_AVERAGE || (division.is_uniform() && is_float));
}

void MachineReducer::add_buffer(void* buffer, std::size_t bytes) {
  if (buffers_.contains(buffer)) return;
  const auto added = parts_.group->add_buffer(reinterpret_cast<cuda::Pointer>(buffer), bytes);
  if (!added) throw failure_of(added.error());
  buffers_.insert(buffer);
}

void MachineReducer::post(const Request& request, void* buffer, std::size_t bytes, Done done) {
  gpu::GroupOperation operation;
  operation.data = reinterpret_cast<cuda::Pointer>(request.out);
  operation.count = request.count;
  operation.type = request.type;
  operation.op = request.op;
  operation.priority = request.priority;
  operation.stream = static_cast<cuda::Stream>(request.stream);
  std::unique_lock lock(mutex_);
  if (closing_) throw Failure(TALLY_CANCELLED, "the session was closed");
  add_buffer(buffer, bytes);
  operation.user = next_++;
  operation.tag = static_cast<std::uint32_t>(operation.user % gpu::MachineGroup::kTagLimit);
  for (;;) {
    const auto posted = parts_.group->all_reduce(operation);
    if (posted) break;
    if (posted.error().status != Status::kNoCredit || outstanding_.empty()) {
      throw failure_of(posted.error());
    }
    changed_.wait(lock);
    if (closing_) throw Failure(TALLY_CANCELLED, "the session was closed");
  }
  outstanding_.emplace(operation.user, std::move(done));
  changed_.notify_all();
}

Outcome MachineReducer::outcome_of(const gpu::GroupCompletion& completion) const {
  Outcome outcome;
  outcome.status = static_cast<tally_status>(completion.status);
  if (outcome.status == TALLY_OK) return outcome;
  outcome.inputs_gone = true;
  outcome.message = "machine group: " + completion.message;
  const gpu::Division& division = parts_.layout.division;
  for (std::size_t group = 0; group < division.groups(); ++group) {
    const auto& members = division.members(group);
    for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
      if (division.rank_of(group, rank) == completion.culprit) outcome.culprit = members[rank];
    }
  }
  if (outcome.culprit != completion.culprit) {
    outcome.message += fmt::format(" (rank {} of the machine groups is rank {})",
                                   completion.culprit, outcome.culprit);
  }
  return outcome;
}

void MachineReducer::follow() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    if (outstanding_.empty()) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    gpu::GroupCompletion completion;
    const bool is_taken = parts_.group->wait(completion, kLongestWaitMs).ok();
    lock.lock();
    if (!is_taken) continue;
    auto ended = outstanding_.extract(completion.user);
    if (!ended.empty()) communicator_.deliver(std::move(ended.mapped()), outcome_of(completion));
    changed_.notify_all();
  }
}

void MachineReducer::close() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closing_, true)) return;
    changed_.notify_all();
  }
  thread_.join();
  const cuda::CurrentContext current(*parts_.driver, parts_.context);
  parts_.group = nullptr;
  parts_.sessions.clear();
  Outcome outcome;
  outcome.status = TALLY_CANCELLED;
  outcome.message = "the session was closed while the operation was outstanding";
  for (auto& [user, done] : std::exchange(outstanding_, {})) {
    communicator_.deliver(std::move(done), outcome);
  }
}

}  // namespace tally::python
