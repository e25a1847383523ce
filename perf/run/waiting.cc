#include "perf/run/waiting.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "control/cli/common/tables.h"
#include "net/rpc/rpc_channel.h"

namespace tally::perf {
namespace {

using nlohmann::json;

constexpr Nanos kAnswer = 500 * kMillisecond;
constexpr std::size_t kMostRanks = 8;  // in a message

// For messages: "rank 3", or "ranks 1, 2".
std::string ranks_text(const std::set<std::uint64_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  std::size_t named = 0;
  for (const auto rank : ranks) {
    if (named++ == kMostRanks) return text + fmt::format(" and {} more", ranks.size() - kMostRanks);
    text += fmt::format("{} {}", named == 1 ? "" : ",", rank);
  }
  return text;
}

std::string of_job(const json& job, const std::string& name) {
  const double joined = control::number_at(job, "joined");
  const double ranks = control::number_at(job, "ranks");
  if (joined < ranks) {
    return fmt::format("job \"{}\": {} of {} ranks have come", name, joined, ranks);
  }
  std::set<std::uint64_t> missing;
  for (const json& operation : control::list_at(job, "waiting")) {
    for (const json& rank : control::list_at(operation, "missing")) {
      if (rank.is_number_unsigned()) missing.insert(rank.get<std::uint64_t>());
    }
  }
  if (missing.empty()) return {};
  return fmt::format("job \"{}\": {} {} not announced an operation that other ranks announced",
                     name, ranks_text(missing), missing.size() == 1 ? "has" : "have");
}

}  // namespace

std::string what_job_awaits(const json& jobs, const std::string& job) {
  if (!jobs.is_array()) return {};
  for (const json& one : jobs) {
    if (control::text_at(one, "name") == job) return of_job(one, job);
  }
  return {};
}

std::string what_is_awaited(const std::string& address, const std::string& job,
                            const std::string& token) {
  auto node = rpc::RpcChannel::connect_as_user(address, kAnswer, token);
  if (!node) return fmt::format("waiting for a node: {}", node.error().message);
  const auto jobs = node->call("node.jobs", json::object(), {}, monotonic_now() + kAnswer);
  if (!jobs) return fmt::format("waiting for the node: {}", jobs.error().message);
  return what_job_awaits(*jobs, job);
}

}  // namespace tally::perf
