#include "control/cluster/coordinator_search.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "net/rpc/rpc_channel.h"

namespace tally::control {

using nlohmann::json;

namespace {

// A node that does not act now is joined when it does.
CoordinatorChoice choose_elected(std::span<const CoordinatorAnswer> answers,
                                 std::uint64_t least_term) {
  CoordinatorChoice choice;
  std::uint64_t highest = std::max<std::uint64_t>(least_term, 1);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].answers || answers[i].term.value_or(0) < highest) continue;
    highest = *answers[i].term;
    choice.join = i;
  }
  return choice;
}

}  // namespace

CoordinatorChoice choose_coordinator(std::span<const CoordinatorAnswer> answers, bool patient,
                                     std::uint64_t least_term) {
  const bool is_elected = std::any_of(answers.begin(), answers.end(), [](const auto& one) {
    return one.answers && one.term.has_value();
  });
  if (is_elected || least_term > 0) return choose_elected(answers, least_term);
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
    if (const auto term = reply->find("term"); term != reply->end())
      answer.term = term->get<std::uint64_t>();
  } catch (const json::exception&) {
    return Error{Status::kProtocol, "its answer to cluster.coordinator cannot be read"};
  }
  answer.answers = true;
  return answer;
}

}  // namespace tally::control
