#include "perf/plan_asker.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "client/address.h"
#include "client/rpc_channel.h"
#include "control/tables.h"

namespace tally::perf {
namespace {

using client::RpcChannel;
using nlohmann::json;

constexpr Nanos kPatience = 20 * kSecond;  // a node under load answers late, rather than never

// Null where nobody answers.
json ask(const std::string& address, const char* method) {
  auto channel = RpcChannel::connect(address, 0);
  if (!channel) return nullptr;
  auto answer = channel->call(method, json::object(), {}, monotonic_now() + kPatience);
  return answer ? std::move(answer).value() : json();
}

// Members without an address elsewhere are on this host, or this prediction lacks them.
std::string address_of(const json& member) {
  const std::string tcp = control::text_at(member, "tcp");
  return tcp.empty() ? control::text_at(member, "unix") : tcp;
}

Result<plan::MachineFile> read_network(const std::string& path) {
  if (path.empty()) return plan::MachineFile{};
  std::ifstream file(path, std::ios::binary);
  std::string text(plan::kMaxMachinesBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return Error{Status::kInvalidArgument,
                 fmt::format("--network {}: {}; give the file that tallyctl probe --out wrote",
                             path, std::strerror(errno))};
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  auto read = plan::read_machines(text);
  if (read) return read;
  return Error{read.status(), fmt::format("--network {}: {}", path, read.error().message)};
}

}  // namespace

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
    const json members = ask(address, "cluster.nodes");
    if (members.is_array() && !members.empty()) facts.members = members;
    if (!facts.members.empty()) break;
  }
  for (const json& member : facts.members) {
    facts.jobs.push_back(ask(address_of(member), "node.jobs"));
  }
  return predict(facts);
}

}  // namespace tally::perf
