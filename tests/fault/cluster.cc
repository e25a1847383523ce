#include "tests/fault/cluster.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "base/clock.h"
#include "net/rpc/rpc_channel.h"

namespace tally::testing {

Footprint footprint(pid_t process) {
  const std::string place = "/proc/" + std::to_string(process);
  Footprint found;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(place + "/fd")) {
    ++found.descriptors;
  }
  std::ifstream maps(place + "/maps");
  for (std::string line; std::getline(maps, line);) {
    found.shared_mappings += line.find("/memfd:") != std::string::npos ? 1 : 0;
  }
  return found;
}

void Cluster::start_node(const std::string& step, const std::vector<std::string>& flags) {
  std::vector<std::string> all{"--shards", "2", "--log-level", "error"};
  all.insert(all.end(), flags.begin(), flags.end());
  node.start(all, {"TALLY_DEBUG_STEP=" + step});
  at_start = footprint_now();
}

std::unique_ptr<Process> Cluster::rank(int rank, int ranks, const std::string& job) const {
  return this->rank(rank, ranks, job, {});
}

std::unique_ptr<Process> Cluster::rank(int rank, int ranks, const std::string& job,
                                       const RankOptions& options) const {
  return std::make_unique<Process>(
      std::vector<std::string>{FAULT_RANK, address, job, std::to_string(rank),
                               std::to_string(ranks), std::to_string(options.elements),
                               std::to_string(options.connect_ms)},
      std::vector<std::string>{"TALLY_DEBUG_STEP=" + options.step});
}

std::vector<std::unique_ptr<Process>> Cluster::job(int ranks, const std::string& name) const {
  return job(ranks, name, {});
}

std::vector<std::unique_ptr<Process>> Cluster::job(int ranks, const std::string& name,
                                                   const RankOptions& options) const {
  std::vector<std::unique_ptr<Process>> processes;
  for (int r = 0; r < ranks; ++r) processes.push_back(rank(r, ranks, name, options));
  for (const auto& process : processes) EXPECT_EQ(process->line(), "ready");
  return processes;
}

std::string Cluster::ask(Process& process, const std::string& command) {
  process.send(command);
  return process.line();
}

// Through a connection, always: so the node is past its start, and answers.
Footprint Cluster::footprint_now() const {
  const Nanos deadline = monotonic_now() + 20 * kSecond;
  auto channel = rpc::RpcChannel::connect(address, deadline);
  if (!channel || !channel->call("node.status", nlohmann::json::object(), {}, deadline)) {
    throw std::runtime_error("the node does not answer");
  }
  return footprint(node->pid());
}

std::string Cluster::left_behind(int timeout_ms) const {
  const Nanos deadline = monotonic_now() + timeout_ms * kMillisecond;
  for (;;) {
    const Footprint now = footprint_now();
    if (now.descriptors <= at_start.descriptors &&
        now.shared_mappings <= at_start.shared_mappings) {
      return "";
    }
    if (monotonic_now() >= deadline) {
      return std::to_string(now.descriptors) + " descriptors of " +
             std::to_string(at_start.descriptors) + ", " + std::to_string(now.shared_mappings) +
             " shared mappings of " + std::to_string(at_start.shared_mappings);
    }
    ::poll(nullptr, 0, 20);
  }
}

}  // namespace tally::testing
