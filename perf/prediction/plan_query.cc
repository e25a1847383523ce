#include "perf/prediction/plan_query.h"

#include <fmt/format.h>

#include <utility>

#include "control/cli/common/members.h"
#include "control/cli/common/tables.h"
#include "control/threads/parallel_for.h"
#include "net/address.h"
#include "net/rpc/rpc_channel.h"

namespace tally::perf {
namespace {

using nlohmann::json;
using rpc::RpcChannel;

constexpr Nanos kPlanTimeout = 5 * kSecond;
constexpr std::size_t kMostThreads = 16;

// Returns null when there is no answer.
json ask(Result<RpcChannel> channel, const char* method) {
  if (!channel) return nullptr;
  auto answer = channel->call(method, json::object(), {}, monotonic_now() + kPlanTimeout);
  return answer ? std::move(answer).value() : json();
}

// Asks for the members of the node's cluster, and for the coordinator's plan of the job.
void ask_cluster(const std::string& address, const std::string& token, PlanFacts& facts) {
  auto node = RpcChannel::connect_as_user(address, kPlanTimeout, token);
  if (!node) return;
  const auto members = control::ask_members(*node, kPlanTimeout);
  if (!members || members->empty()) return;
  facts.members = *members;
  auto shown = node->call("plan.show", {{"job", facts.job}}, {}, monotonic_now() + kPlanTimeout);
  if (shown) facts.shown = std::move(shown).value();
}

// Members without a TCP address are on this host, or the prediction lacks them.
std::string address_of(const json& member) {
  const std::string tcp = control::text_at(member, "tcp");
  return tcp.empty() ? control::text_at(member, "unix") : tcp;
}

}  // namespace

Result<Prediction> query_plan(const Options& options, std::vector<std::string> rank_hosts) {
  auto file = read_network(options.network);
  if (!file) return file.error();
  PlanFacts facts;
  facts.file = std::move(file).value();
  facts.job = options.job;
  facts.ranks = options.ranks;
  facts.rank_hosts = std::move(rank_hosts);
  facts.members = json::array();
  for (const std::string& address : net::split_addresses(options.address)) {
    ask_cluster(address, options.token, facts);
    if (!facts.members.empty()) break;
  }
  facts.jobs.resize(facts.members.size());
  control::parallel_for(facts.jobs.size(), kMostThreads, [&](std::size_t i) {
    facts.jobs[i] =
        ask(RpcChannel::connect_as_user(address_of(facts.members[i]), kPlanTimeout, options.token),
            "node.jobs");
  });
  return predict(facts);
}

}  // namespace tally::perf
