// The exported functions of communicators, versions and errors.
#include <cstring>

#include "tests/support/nccl/clique.h"
#include "tests/support/nccl/exports.h"

namespace tally::test::nccl::exported {
namespace {

constexpr int kVersionOfDouble = 22803;

std::uint64_t number_of(const UniqueId& id) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  return number;
}

Code counted(const char* function) {
  const std::lock_guard lock(world().mutex);
  return world().count(function);
}

// The clique of the unique id; null, with misuse: it was not made, or for other ranks.
std::shared_ptr<Clique> clique_of(const UniqueId& id, int ranks) {
  const std::lock_guard lock(world().mutex);
  const std::uint64_t number = number_of(id);
  if (number == 0 || number >= world().next_id) {
    world().misuse("ncclCommInitRank with what is no unique id");
    return nullptr;
  }
  std::shared_ptr<Clique>& clique = world().cliques[number];
  if (clique == nullptr) clique = std::make_shared<Clique>(ranks);
  if (clique->ranks != ranks) {
    world().misuse("ncclCommInitRank with " + std::to_string(ranks) + " ranks, another rank has " +
                   std::to_string(clique->ranks));
    return nullptr;
  }
  return clique;
}

// Waits until all ranks are there.
Code join(Clique& clique, CommState& comm) {
  {
    std::unique_lock lock(clique.mutex);
    CommState*& member = clique.members[static_cast<std::size_t>(comm.rank)];
    if (member == nullptr) {
      for (const CommState* other : clique.members) {
        if (other != nullptr && other->context == comm.context) clique.refused = true;
      }
      member = &comm;
      ++clique.joined;
      clique.changed.notify_all();
      clique.changed.wait(lock, [&] { return clique.joined == clique.ranks; });
      return clique.refused ? Code::kInvalidUsage : Code::kSuccess;  // "Duplicate GPU detected"
    }
  }
  const std::lock_guard lock(world().mutex);
  world().misuse("ncclCommInitRank of rank " + std::to_string(comm.rank) + " twice");
  return Code::kInvalidUsage;
}

// Marks the communicator as gone and, if it is to be aborted, waits for its operations in progress.
void end_communicator(CommState& comm, bool aborts) {
  std::unique_lock lock(comm.clique->mutex);
  comm.gone = true;
  if (aborts) {
    comm.aborted = true;
    comm.clique->changed.notify_all();
    comm.clique->changed.wait(lock, [&] { return comm.running == 0; });
  }
  lock.unlock();
  const tally::cuda::CurrentContext current(driver(), comm.context);
  driver().event_destroy(comm.event);
}

}  // namespace

Code get_version(int* version) {
  *version = kVersionOfDouble;
  return counted("ncclGetVersion");
}

const char* get_error_string(Code code) {
  switch (code) {
    case Code::kSuccess:
      return "no error";
    case Code::kUnhandledCudaError:
      return "unhandled cuda error";
    case Code::kSystemError:
      return "unhandled system error";
    case Code::kInternalError:
      return "internal error";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kInvalidUsage:
      return "invalid usage";
    case Code::kRemoteError:
      return "remote process exited or there was a network error";
    case Code::kInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* get_last_error(Comm) {
  return "";
}

Code get_unique_id(UniqueId* id) {
  const std::lock_guard lock(world().mutex);
  *id = {};
  const std::uint64_t number = world().next_id++;
  std::memcpy(id->internal, &number, sizeof number);
  return world().count("ncclGetUniqueId");
}

Code comm_init_rank(Comm* made, int ranks, UniqueId id, int rank) {
  *made = nullptr;
  if (const Code code = counted("ncclCommInitRank"); code != Code::kSuccess) return code;
  if (ranks < 1 || rank < 0 || rank >= ranks) return Code::kInvalidArgument;
  auto comm = std::make_shared<CommState>();
  comm->clique = clique_of(id, ranks);
  comm->rank = rank;
  if (comm->clique == nullptr) return Code::kInvalidUsage;
  driver().ctx_get_current(&comm->context);
  const auto code = driver().event_create(&comm->event, tally::cuda::kEventDisableTiming);
  if (code != tally::cuda::Code::kSuccess) return Code::kUnhandledCudaError;
  if (const Code joined = join(*comm->clique, *comm); joined != Code::kSuccess) {
    driver().event_destroy(comm->event);
    return joined;
  }
  *made = reinterpret_cast<Comm>(comm.get());
  const std::lock_guard lock(world().mutex);
  world().comms[*made] = comm;
  return Code::kSuccess;
}

Code comm_destroy(Comm handle) {
  const auto comm = find("ncclCommDestroy", handle);
  if (comm == nullptr) return Code::kInvalidArgument;
  if (const Code code = counted("ncclCommDestroy"); code != Code::kSuccess) return code;
  int outstanding = 0;
  {
    const std::lock_guard lock(comm->clique->mutex);
    outstanding = comm->outstanding;
  }
  if (outstanding > 0) {
    const std::lock_guard lock(world().mutex);
    world().misuse("ncclCommDestroy with " + std::to_string(outstanding) +
                   " operations outstanding");
  }
  end_communicator(*comm, outstanding > 0);
  return Code::kSuccess;
}

Code comm_abort(Comm handle) {
  const auto comm = find("ncclCommAbort", handle);
  if (comm == nullptr) return Code::kInvalidArgument;
  end_communicator(*comm, true);
  return counted("ncclCommAbort");
}

Code comm_get_async_error(Comm handle, Code* error) {
  const auto comm = find("ncclCommGetAsyncError", handle);
  if (comm == nullptr) return Code::kInvalidArgument;
  if (const Code code = counted("ncclCommGetAsyncError"); code != Code::kSuccess) return code;
  const std::lock_guard lock(comm->clique->mutex);
  *error = comm->async_error;
  return Code::kSuccess;
}

Code comm_count(const Comm handle, int* ranks) {
  const auto comm = find("ncclCommCount", handle);
  if (comm == nullptr) return Code::kInvalidArgument;
  *ranks = comm->clique->ranks;
  return counted("ncclCommCount");
}

Code comm_user_rank(const Comm handle, int* rank) {
  const auto comm = find("ncclCommUserRank", handle);
  if (comm == nullptr) return Code::kInvalidArgument;
  *rank = comm->rank;
  return counted("ncclCommUserRank");
}

}  // namespace tally::test::nccl::exported
