#include "control/node/reports/stuck.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dataplane/protocol/operations/verdict.h"
#include "dataplane/wire/verdict_text.h"

namespace tally::control {
namespace {

using nlohmann::json;
using protocol::Cause;
using protocol::Stall;

constexpr std::size_t kMostNamed = 4;  // ranks in a text

std::string name_of_ranks(const std::vector<std::uint16_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t named = std::min(ranks.size(), kMostNamed);
  for (std::size_t i = 0; i < named; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  if (named < ranks.size()) text += fmt::format(" and {} more", ranks.size() - named);
  return text;
}

std::string name_of_node(std::uint64_t number, std::span<const std::string> nodes) {
  const bool is_known = number > 0 && number <= nodes.size() && !nodes[number - 1].empty();
  return is_known ? fmt::format("node \"{}\"", nodes[number - 1]) : "another node";
}

std::string_view kind_of(Cause cause) {
  switch (cause) {
    case Cause::kNotJoined:
      return "not joined";
    case Cause::kNotAnnounced:
      return "in compute";
    case Cause::kBytes:
      return "slow path";
    case Cause::kChildNode:
      return "child node";
    case Cause::kParentNode:
      return "parent node";
  }
  return "unknown";
}

std::string last_text(const Stall& stall, Nanos now) {
  if (!stall.has_last) return "has announced nothing yet";
  return fmt::format("last announced: tag {} round {}, {:.1f} s ago", stall.last_tag,
                     stall.last_round, static_cast<double>(now - stall.last_notice) / kSecond);
}

std::string reason_of(const Stall& stall, std::span<const std::string> nodes, Nanos now) {
  const std::string ranks = name_of_ranks(stall.ranks);
  const std::string node = name_of_node(stall.node, nodes);
  switch (stall.cause) {
    case Cause::kNotJoined:
      return fmt::format("{} without a session here", ranks);
    case Cause::kNotAnnounced:
      return fmt::format("{} ({})", ranks, last_text(stall, now));
    case Cause::kBytes:
      return fmt::format("the bytes of {}: a network path is slow, or a process is stopped", ranks);
    case Cause::kChildNode:
      if (stall.ranks.empty()) return fmt::format("{}, which sums for this node", node);
      return fmt::format("{}: not all of {} below it have announced", node, ranks);
    case Cause::kParentNode:
      return fmt::format("{}, for which this node sums; ask that node why", node);
  }
  return node;
}

json entry_of(std::string_view kind, std::uint32_t tag, std::uint32_t round, Nanos span,
              const std::string& text) {
  return {{"kind", kind},
          {"ranks", json::array()},
          {"since_ms", std::max<Nanos>(span, 0) / kMillisecond},
          {"tag", tag},
          {"round", round},
          {"text", fmt::format("tag {} round {}: {}", tag, round, text)}};
}

void set_node(json& entry, std::uint64_t number, std::span<const std::string> nodes) {
  entry["node"] = number > 0 && number <= nodes.size() ? nodes[number - 1] : "";
  entry["who"] = name_of_node(number, nodes);
}

json stall_json(const Stall& stall, std::span<const std::string> nodes, Nanos now) {
  json entry = entry_of(kind_of(stall.cause), stall.tag, stall.round, now - stall.since,
                        "waiting for " + reason_of(stall, nodes, now));
  entry["ranks"] = stall.ranks;
  entry["who"] = name_of_ranks(stall.ranks);
  const bool is_node = stall.cause == Cause::kChildNode || stall.cause == Cause::kParentNode;
  if (is_node) set_node(entry, stall.node, nodes);
  return entry;
}

std::string_view kind_of(const protocol::Verdict& verdict) {
  const bool of_rank = verdict.culprit != wire::kNoRank;
  if (verdict.status == Status::kPeerLost) return of_rank ? "rank lost" : "node lost";
  if (verdict.status == Status::kPeerLeft) return of_rank ? "rank left" : "node lost";
  return status_name(verdict.status);
}

json failure_json(const protocol::TraceRecord& record, std::span<const std::string> nodes,
                  Nanos now) {
  const protocol::Verdict& verdict = record.verdict;
  const auto completion = protocol::completion_of(verdict, record.completed - record.notice);
  json entry = entry_of(kind_of(verdict), record.key.tag, record.key.round, now - record.completed,
                        wire::reason_of(completion, nodes));
  const bool is_loss = verdict.status == Status::kPeerLost || verdict.status == Status::kPeerLeft;
  if (verdict.culprit != wire::kNoRank) {
    entry["ranks"] = {verdict.culprit};
    entry["who"] = name_of_ranks({verdict.culprit});
  } else if (is_loss) {
    set_node(entry, verdict.culprit_value, nodes);
  } else {
    entry["who"] = "unknown";
  }
  return entry;
}

// Adds what another shard knows of the same cause.
void add(Stall& all, const Stall& one) {
  const bool is_later =
      !all.ranks.empty() && !one.ranks.empty() && one.has_last &&
      (one.ranks.front() < all.ranks.front() ||
       (one.ranks.front() == all.ranks.front() && one.last_notice > all.last_notice));
  if (is_later) {
    all.has_last = true;
    all.last_tag = one.last_tag;
    all.last_round = one.last_round;
    all.last_notice = one.last_notice;
  }
  all.since = std::min(all.since, one.since);
  all.ranks.insert(all.ranks.end(), one.ranks.begin(), one.ranks.end());
  std::sort(all.ranks.begin(), all.ranks.end());
  all.ranks.erase(std::unique(all.ranks.begin(), all.ranks.end()), all.ranks.end());
}

std::vector<Stall> oldest_of(const std::vector<protocol::Health>& by_shard) {
  const Stall* oldest = nullptr;
  for (const protocol::Health& health : by_shard) {
    for (const Stall& stall : health.stalls) {
      if (oldest == nullptr || stall.first_notice < oldest->first_notice) oldest = &stall;
    }
  }
  std::vector<Stall> stalls;
  for (const protocol::Health& health : by_shard) {
    for (const Stall& stall : health.stalls) {
      if (stall.tag != oldest->tag || stall.round != oldest->round) continue;
      const auto same = std::find_if(stalls.begin(), stalls.end(), [&](const Stall& other) {
        return other.cause == stall.cause && other.node == stall.node;
      });
      same == stalls.end() ? stalls.push_back(stall) : add(*same, stall);
    }
  }
  return stalls;
}

// A success at one shard ends the failures before it at all shards.
const protocol::TraceRecord* first_failure(const std::vector<protocol::Health>& by_shard) {
  Nanos last_success = 0;
  for (const protocol::Health& health : by_shard) {
    last_success = std::max(last_success, health.last_success);
  }
  const protocol::TraceRecord* first = nullptr;
  for (const protocol::Health& health : by_shard) {
    if (!health.failure || health.failure->completed < last_success) continue;
    if (first == nullptr || health.failure->completed < first->completed) first = &*health.failure;
  }
  return first;
}

}  // namespace

std::vector<std::string> node_names(const JobInstance& instance) {
  std::vector<std::string> names;
  for (const auto* nodes : {&instance.below, &instance.above}) {
    for (const RemoteShard& node : *nodes) {
      if (node.node == 0) continue;
      names.resize(std::max<std::size_t>(names.size(), node.node));
      names[node.node - 1] = node.name;
    }
  }
  return names;
}

json stuck_json(const std::vector<protocol::Health>& by_shard, std::span<const std::string> nodes,
                Nanos now) {
  json list = json::array();
  for (const Stall& stall : oldest_of(by_shard)) list.push_back(stall_json(stall, nodes, now));
  if (const auto* failure = first_failure(by_shard)) {
    list.push_back(failure_json(*failure, nodes, now));
  }
  return list;
}

}  // namespace tally::control
