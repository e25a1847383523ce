#include "control/coordinator/rpc/request.h"

#include <fmt/format.h>

#include "net/rpc/rpc_channel.h"

namespace tally::control {

using nlohmann::json;

Error other_version(std::uint64_t version, std::string_view who) {
  return {Status::kUnsupported,
          fmt::format("the {} speaks version {} of the control protocol, this coordinator version "
                      "{}: install matching releases",
                      who, version, rpc::kProtocolVersion)};
}

Error not_the_coordinator() {
  return {Status::kUnavailable,
          "this node is not the coordinator now: ask another one of "
          "cluster.coordinators, or try again in some seconds"};
}

json without(const json& params, std::initializer_list<const char*> lists) {
  json rest = params;
  for (const char* list : lists) rest.erase(list);
  return rest;
}

}  // namespace tally::control
