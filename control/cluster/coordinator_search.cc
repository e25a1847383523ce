#include "control/cluster/coordinator_search.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "net/rpc/rpc_channel.h"

namespace tally::control {

using nlohmann::json;

CoordinatorChoice choose_coordinator(std::span<const CoordinatorAnswer> answers, bool patient) {
  const auto first = [&](auto fits) -> std::optional<std::size_t> {
    const auto found = std::find_if(answers.begin(), answers.end(), fits);
    if (found == answers.end()) return std::nullopt;
    return static_cast<std::size_t>(found - answers.begin());
  };
  using Answer = CoordinatorAnswer;
  if (auto serves = first([](const Answer& one) { return one.answers && one.has_members; })) {
    return {serves};
  }
  const auto self = first([](const Answer& one) { return one.is_this_node; });
  const auto electing =
      first([](const Answer& one) { return one.answers && one.is_electing && !one.is_this_node; });
  if (self && electing && *electing < *self) return {std::nullopt, true};
  if (electing && patient) return {};
  // Members that do not elect, such as coordinators that stand alone, take no part in the election.
  return {first(
      [](const Answer& one) { return one.answers && (one.is_this_node || !one.is_electing); })};
}

Result<CoordinatorAnswer> ask_coordinator(rpc::RpcChannel& channel, std::string_view instance,
                                          Nanos deadline) {
  CoordinatorAnswer answer;
  auto reply = channel.call("cluster.coordinator", json::object(), {}, deadline);
  if (reply.status() == Status::kUnsupported) {  // the previous version
    reply = channel.call("cluster.nodes", json::object(), {}, deadline);
    if (!reply) return reply.error();
    answer.answers = true;
    answer.has_members = !reply->empty();
    return answer;
  }
  if (!reply) return reply.error();
  try {
    answer.is_this_node = reply->at("instance").get<std::string>() == instance;
    answer.has_members = reply->at("members").get<std::uint64_t>() > 0;
    answer.is_electing = reply->at("electing").get<bool>();
  } catch (const json::exception&) {
    return Error{Status::kProtocol, "its answer to cluster.coordinator cannot be read"};
  }
  answer.answers = true;
  return answer;
}

}  // namespace tally::control
