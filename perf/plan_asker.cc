#include "perf/plan_asker.h"

#include <fmt/format.h>

#include <utility>

#include "client/address.h"
#include "client/follow.h"
#include "client/rpc_channel.h"
#include "control/at_once.h"
#include "control/plan_files.h"
#include "control/tables.h"

namespace tally::perf {
namespace {

using client::RpcChannel;
using nlohmann::json;

constexpr Nanos kPatience = 5 * kSecond;
constexpr std::size_t kMostThreads = 16;

// Null where nobody answers.
json ask(Result<RpcChannel> channel, const char* method) {
  if (!channel) return nullptr;
  auto answer = channel->call(method, json::object(), {}, monotonic_now() + kPatience);
  return answer ? std::move(answer).value() : json();
}

// Of the cluster that the node is in: it coordinates, or names who does.
json ask_members(const std::string& address) {
  auto node = RpcChannel::connect(address, 0);
  if (!node) return nullptr;
  const auto own = node->call("cluster.nodes", json::object(), {}, monotonic_now() + kPatience);
  if (own && own->is_array() && !own->empty()) return *own;
  return ask(client::follow(*node, monotonic_now() + kPatience), "cluster.nodes");
}

// Members without an address elsewhere are on this host, or this prediction lacks them.
std::string address_of(const json& member) {
  const std::string tcp = control::text_at(member, "tcp");
  return tcp.empty() ? control::text_at(member, "unix") : tcp;
}

}  // namespace

Result<plan::MachineFile> read_network(const std::string& path) {
  if (path.empty()) return plan::MachineFile{};
  const auto text = control::read_file(path, "the file that tallyctl probe --out wrote");
  if (!text) return Error{text.status(), fmt::format("--network {}", text.error().message)};
  auto read = plan::read_machines(*text);
  if (read) return read;
  return Error{read.status(), fmt::format("--network {}: {}", path, read.error().message)};
}

Result<Prediction> ask_plan(const Options& options, std::vector<std::string> rank_hosts) {
  auto network = read_network(options.network);
  if (!network) return network.error();
  PlanFacts facts;
  facts.network = std::move(network).value();
  facts.job = options.job;
  facts.ranks = options.ranks;
  facts.rank_hosts = std::move(rank_hosts);
  facts.members = json::array();
  for (const std::string& address : client::split_addresses(options.address)) {
    const json members = ask_members(address);
    if (members.is_array() && !members.empty()) facts.members = members;
    if (!facts.members.empty()) break;
  }
  facts.jobs.resize(facts.members.size());
  control::at_once(facts.jobs.size(), kMostThreads, [&](std::size_t i) {
    facts.jobs[i] = ask(RpcChannel::connect(address_of(facts.members[i]), 0), "node.jobs");
  });
  return predict(facts);
}

}  // namespace tally::perf
