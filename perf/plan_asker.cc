#include "perf/plan_asker.h"

#include <fmt/format.h>

#include <utility>

#include "client/address.h"
#include "client/rpc_channel.h"
#include "control/at_once.h"
#include "control/members.h"
#include "control/plan/document.h"
#include "control/plan/plan_json.h"
#include "control/plan/validate.h"
#include "control/plan_files.h"
#include "control/tables.h"

namespace tally::perf {
namespace {

using client::RpcChannel;
using nlohmann::json;

constexpr Nanos kPlanPatience = 5 * kSecond;
constexpr std::size_t kMostThreads = 16;

// Null where nobody answers.
json ask(Result<RpcChannel> channel, const char* method) {
  if (!channel) return nullptr;
  auto answer = channel->call(method, json::object(), {}, monotonic_now() + kPlanPatience);
  return answer ? std::move(answer).value() : json();
}

// Of the cluster that the node is in, and what its coordinator says of the job's plan.
void ask_cluster(const std::string& address, PlanFacts& facts) {
  auto node = RpcChannel::connect(address, 0);
  if (!node) return;
  const auto members = control::ask_members(*node, kPlanPatience);
  if (!members || members->empty()) return;
  facts.members = *members;
  auto shown = node->call("plan.show", {{"job", facts.job}}, {}, monotonic_now() + kPlanPatience);
  if (shown) facts.shown = std::move(shown).value();
}

// Members without an address elsewhere are on this host, or this prediction lacks them.
std::string address_of(const json& member) {
  const std::string tcp = control::text_at(member, "tcp");
  return tcp.empty() ? control::text_at(member, "unix") : tcp;
}

}  // namespace

Result<NetworkFile> read_network(const std::string& path) {
  NetworkFile file;
  if (path.empty()) return file;
  const auto bad = [&](const Error& error) {
    return Error{error.status, fmt::format("--network {}: {}", path, error.message)};
  };
  const auto text = control::read_file(path, "a file of tallyctl probe --out, or a plan's");
  if (!text) return Error{text.status(), fmt::format("--network {}", text.error().message)};
  const auto document = plan::parse_document(*text, plan::kMaxPlanBytes);
  if (!document) return bad(document.error());
  const std::string format = control::text_at(*document, "fmt");
  if (format == plan::kPlanFormat) {
    auto plan = plan::read_plan(*text);
    if (!plan) return bad(plan.error());
    if (const auto valid = plan::validate(*plan, {}); !valid) return bad(valid.error());
    file.network = std::move(plan->network);
    return file;
  }
  if (format != plan::kMachinesFormat) {
    return bad({Status::kInvalidArgument,
                fmt::format("fmt = \"{}\": must be \"{}\", what tallyctl probe --out writes, or "
                            "\"{}\", a plan",
                            format, plan::kMachinesFormat, plan::kPlanFormat)});
  }
  auto speeds = plan::read_machines(*text);
  if (!speeds) return bad(speeds.error());
  file.speeds = std::move(speeds).value();
  return file;
}

Result<Prediction> ask_plan(const Options& options, std::vector<std::string> rank_hosts) {
  auto file = read_network(options.network);
  if (!file) return file.error();
  PlanFacts facts;
  facts.file = std::move(file).value();
  facts.job = options.job;
  facts.ranks = options.ranks;
  facts.rank_hosts = std::move(rank_hosts);
  facts.members = json::array();
  for (const std::string& address : client::split_addresses(options.address)) {
    ask_cluster(address, facts);
    if (!facts.members.empty()) break;
  }
  facts.jobs.resize(facts.members.size());
  control::at_once(facts.jobs.size(), kMostThreads, [&](std::size_t i) {
    facts.jobs[i] = ask(RpcChannel::connect(address_of(facts.members[i]), 0), "node.jobs");
  });
  return predict(facts);
}

}  // namespace tally::perf
