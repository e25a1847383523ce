#include "control/node/session_opening.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "net/rpc/params.h"
#include "net/rpc/partition_json.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control {

using nlohmann::json;

Result<Admission::Applicant> parse_opening(const json& request) {
  rpc::Params params(request);
  const auto version = params.number("version", 0, UINT32_MAX);
  Admission::Applicant applicant;
  applicant.job = params.text("job", kMaxJobName);
  static_cast<void>(params.text_or("token", kMaxToken, ""));  // the caller has it
  applicant.ranks = static_cast<std::uint32_t>(params.number("ranks", 1, wire::kMaxRanks));
  applicant.child_node = params.text_or("child_node", kMaxJobName, "");
  if (applicant.child_node.empty()) {
    applicant.rank = static_cast<std::uint32_t>(params.number("rank", 0, wire::kMaxRanks - 1));
    applicant.epoch = static_cast<std::uint32_t>(params.number_or("epoch", 1, UINT32_MAX, 0));
  } else {
    applicant.shard = static_cast<std::uint32_t>(params.number("lane", 0, protocol::kMaxTrees - 1));
    applicant.epoch = static_cast<std::uint32_t>(params.number("epoch", 1, UINT32_MAX));
  }
  if (const auto wrong = params.finish()) return *wrong;
  if (version != rpc::kProtocolVersion) {
    return Error{Status::kUnsupported,
                 fmt::format("the client speaks version {} of the control protocol, this node "
                             "version {}: install matching releases",
                             version, rpc::kProtocolVersion)};
  }
  if (applicant.rank >= applicant.ranks) {
    return Error{Status::kInvalidArgument,
                 fmt::format("rank {}: must be below ranks {}", applicant.rank, applicant.ranks)};
  }
  return applicant;
}

std::vector<std::string> endpoint_hosts(const rpc::Peer& client, const NodeOptions& options) {
  if (!client.host.empty()) return {client.host};
  // The client is on this machine, so its endpoints may be at any of the node's own addresses.
  std::vector<std::string> own{"0.0.0.0", "::"};
  if (options.fabric) own.push_back(options.fabric->host);
  for (const Rail& rail : options.rails) own.push_back(rail.address);
  return own;
}

json opening_answer(const Session& session, const NodeOptions& options,
                    const std::vector<Rail>& rails) {
  const JobInstance& instance = *session.instance;
  json answer = {{"session", session.number},
                 {"epoch", instance.epoch},
                 {"transport", "shm"},
                 {"lanes", instance.shards.size()},
                 {"trees", instance.trees()},
                 {"credit", session.credit},
                 {"deadline_ms", options.timeouts.deadline() / kMillisecond}};
  rpc::put_partition(answer, instance.plan);
  // A client of the previous version expects one shard for each tree.
  if (instance.vertices.size() == instance.shards.size()) rpc::put_weights(answer, instance.plan);
  if (options.checksums) answer["checksums"] = "crc32c";
  // The host of each shard.
  for (std::size_t i = 0; i < instance.shards.size() && !rails.empty(); ++i) {
    answer["hosts"].push_back(rails[rail_of(instance.shards[i], rails)].address);
  }
  // Eager bytes belong to operations, and a child node's messages are not notices of operations.
  const bool eager = !instance.is_child_node(session.member);
  if (options.fabric) {
    json& fabric = answer["fabric"] = {{"provider", options.fabric->provider},
                                       {"host", options.fabric->host},
                                       {"proof", session.proof}};
    if (eager) fabric["eager_bytes"] = options.fabric->eager_bytes;
  }
  if (options.verbs) {
    json& verbs = answer["verbs"] = {{"device", options.verbs->device},
                                     {"gid", options.verbs->gid},
                                     {"probe_bytes", transport::verbs::kProbeBytes},
                                     {"ack_timeout", options.verbs->ack_timeout}};
    if (eager) verbs["eager_bytes"] = transport::verbs::kEagerBytes;
  }
  return answer;
}

}  // namespace tally::control
