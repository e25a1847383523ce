#include "tests/support/nccl/clique.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tests/support/cuda/cuda_process.h"

namespace tally::test::nccl {
namespace {

using Lock = std::unique_lock<std::mutex>;

std::uint64_t sent_bytes_of(const Batch& batch, int rank, int ranks) {
  std::uint64_t bytes = 0;
  for (const Operation& one : batch) bytes += one.sent_bytes(rank, ranks);
  return bytes;
}

Clock::duration duration_of(const Meeting& meeting, int ranks) {
  std::uint64_t bandwidth = 0;
  {
    const std::lock_guard lock(world().mutex);
    bandwidth = world().settings.bandwidth;
  }
  if (bandwidth == 0) return {};
  std::uint64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    most =
        std::max(most, sent_bytes_of(meeting.batches[static_cast<std::size_t>(rank)], rank, ranks));
  }
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(static_cast<double>(most) * 1e9 / static_cast<double>(bandwidth)));
}

// Called by the thread of the rank that comes last. Gives the lock up meanwhile.
void compute(Lock& lock, Clique& clique, Meeting& meeting) {
  meeting.computing = true;
  lock.unlock();
  const auto begin = Clock::now();
  std::vector<const Batch*> batches;
  for (const Batch& batch : meeting.batches) batches.push_back(&batch);
  for (std::size_t i = 0; i < batches.front()->size(); ++i) perform(batches, i);
  const auto end = begin + duration_of(meeting, clique.ranks);
  lock.lock();
  meeting.begin = begin;
  meeting.end = end;
  meeting.computing = false;
  meeting.done = true;
  clique.changed.notify_all();
}

// The operation of a rank, on a thread of its device.
void meet(CommState& comm, Meeting& meeting, std::uint64_t place) {
  Clique& clique = *comm.clique;
  Lock lock(clique.mutex);
  ++comm.running;
  if (!comm.aborted) {
    ++meeting.arrived;
    if (meeting.arrived == clique.ranks && !meeting.mismatched) compute(lock, clique, meeting);
    clique.changed.notify_all();
    clique.changed.wait(lock, [&] {
      return meeting.done || meeting.mismatched || (comm.aborted && !meeting.computing);
    });
    // The other ranks wait for this rank again, and must not touch its memory.
    if (!meeting.done && !meeting.mismatched) --meeting.arrived;
    while (meeting.done && !comm.aborted && Clock::now() < meeting.end) {
      clique.changed.wait_until(lock, meeting.end);
    }
  }
  const Batch& own = meeting.batches[static_cast<std::size_t>(comm.rank)];
  if (meeting.done) {
    for (const Operation& one : own) {
      comm.counters.sent_bytes[name_of(one.kind)] += one.sent_bytes(comm.rank, clique.ranks);
    }
    comm.records.push_back({name_of(own.front().kind), meeting.begin, Clock::now()});
  }
  --comm.running;
  --comm.outstanding;
  if (place > 0) clique.meetings.erase(place - 1);  // all ranks have passed it, or none will
  clique.changed.notify_all();
}

// Compares with the calls of ranks that came before. The caller holds the lock of the clique.
std::string difference(const Meeting& meeting, const Batch& batch, int rank) {
  for (std::size_t other = 0; other < meeting.batches.size(); ++other) {
    const Batch& theirs = meeting.batches[other];
    if (theirs.empty()) continue;
    bool same = theirs.size() == batch.size();
    for (std::size_t i = 0; same && i < batch.size(); ++i) same = theirs[i].matches(batch[i]);
    if (same) continue;
    const auto text = [](const Batch& one) {
      return std::to_string(one.size()) + " calls, the first " + one.front().text();
    };
    return "rank " + std::to_string(rank) + " calls something else (" + text(batch) +
           ") than rank " + std::to_string(other) + " (" + text(theirs) + ")";
  }
  return {};
}

std::shared_ptr<Meeting> join_meeting(CommState& comm, const Batch& batch, std::uint64_t& place) {
  Clique& clique = *comm.clique;
  std::string why;
  std::shared_ptr<Meeting> meeting;
  {
    const std::lock_guard lock(clique.mutex);
    place = comm.next++;
    ++comm.outstanding;
    std::shared_ptr<Meeting>& entry = clique.meetings[place];
    if (entry == nullptr) {
      entry = std::make_shared<Meeting>();
      entry->batches.resize(static_cast<std::size_t>(clique.ranks));
    }
    meeting = entry;
    why = difference(*meeting, batch, comm.rank);
    meeting->batches[static_cast<std::size_t>(comm.rank)] = batch;
    if (!why.empty()) meeting->mismatched = true;
    clique.changed.notify_all();
  }
  if (!why.empty()) {
    const std::lock_guard lock(world().mutex);
    world().misuse("operation " + std::to_string(place) + " of a communicator: " + why);
  }
  return meeting;
}

// Puts the operation behind the communicator's last one, as NCCL does, and then on the stream.
Code launch_ordered(const std::shared_ptr<CommState>& comm, tally::cuda::Stream stream,
                    std::function<void()> kernel) {
  const tally::cuda::Driver& cu = driver();
  const tally::cuda::CurrentContext current(cu, comm->context);
  auto code = tally::cuda::Code::kSuccess;
  if (comm->used && comm->last_stream != stream) {
    code = cu.stream_wait_event(stream, comm->event, 0);
  }
  if (code == tally::cuda::Code::kSuccess) code = cuda::launch(stream, std::move(kernel));
  if (code == tally::cuda::Code::kSuccess) code = cu.event_record(comm->event, stream);
  comm->used = true;
  comm->last_stream = stream;
  return code == tally::cuda::Code::kSuccess ? Code::kSuccess : Code::kUnhandledCudaError;
}

}  // namespace

World& world() {
  static World* const the_world = new World;
  return *the_world;
}

const tally::cuda::Driver& driver() {
  static const tally::cuda::Driver* const the_driver = *tally::cuda::system_driver();
  return *the_driver;
}

void World::misuse(std::string text) {
  std::fprintf(stderr, "test NCCL: misuse: %s\n", text.c_str());
  misuses.push_back(std::move(text));
}

Code World::count(const char* function) {
  const std::uint64_t number = ++calls[function];
  const auto ordered = faults.find(function);
  if (ordered == faults.end()) return Code::kSuccess;
  const auto due = ordered->second.find(number);
  return due != ordered->second.end() ? due->second : Code::kSuccess;
}

std::shared_ptr<CommState> find(const char* function, Comm comm) {
  std::shared_ptr<CommState> found;
  const std::lock_guard lock(world().mutex);
  if (const auto entry = world().comms.find(comm); entry != world().comms.end()) {
    found = entry->second;
  }
  bool gone = true;
  if (found != nullptr) {
    const std::lock_guard of_clique(found->clique->mutex);
    gone = found->gone;
  }
  if (!gone) return found;
  world().misuse(std::string(function) + (found != nullptr ? " of a communicator that is destroyed"
                                                           : " of what is no communicator"));
  return nullptr;
}

Code enqueue(const std::shared_ptr<CommState>& comm, Batch batch, tally::cuda::Stream stream) {
  std::uint64_t place = 0;
  const auto meeting = join_meeting(*comm, batch, place);
  const Code code =
      launch_ordered(comm, stream, [comm, meeting, place] { meet(*comm, *meeting, place); });
  if (code != Code::kSuccess) {
    const std::lock_guard lock(comm->clique->mutex);
    --comm->outstanding;
  }
  return code;
}

}  // namespace tally::test::nccl
