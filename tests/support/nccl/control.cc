// The functions of nccl_process.h.
#include "tests/support/nccl/clique.h"

namespace tally::test::nccl {
namespace {

std::shared_ptr<CommState> known(Comm comm) {
  const std::lock_guard lock(world().mutex);
  return world().comms.at(comm);
}

}  // namespace

void reset(const Settings& settings) {
  const std::lock_guard lock(world().mutex);
  world().settings = settings;
  world().misuses.clear();
  world().calls.clear();
  world().faults.clear();
  world().cliques.clear();
  world().comms.clear();
}

std::vector<std::string> misuses() {
  const std::lock_guard lock(world().mutex);
  return world().misuses;
}

void forget_misuses() {
  const std::lock_guard lock(world().mutex);
  world().misuses.clear();
}

Counters counters(Comm comm) {
  const auto state = known(comm);
  const std::lock_guard lock(state->clique->mutex);
  return state->counters;
}

std::vector<Record> records(Comm comm) {
  const auto state = known(comm);
  const std::lock_guard lock(state->clique->mutex);
  return state->records;
}

std::size_t live_communicators() {
  const std::lock_guard lock(world().mutex);
  std::size_t live = 0;
  for (const auto& [handle, comm] : world().comms) {
    const std::lock_guard of_clique(comm->clique->mutex);
    if (!comm->gone) ++live;
  }
  return live;
}

void fail(const std::string& function, std::uint64_t nth, Code code) {
  const std::lock_guard lock(world().mutex);
  world().faults[function][world().calls[function] + nth] = code;
}

void set_async_error(Comm comm, Code code) {
  const auto state = known(comm);
  const std::lock_guard lock(state->clique->mutex);
  state->async_error = code;
}

}  // namespace tally::test::nccl
