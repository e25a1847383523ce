// What the coordinator's methods have in common when they read requests.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace tally::control {

// The error for a peer ("node", "client") that speaks another version of the control protocol.
Error other_version(std::uint64_t version, std::string_view who);

// The error of a node that other nodes have not elected.
Error not_the_coordinator();

// The request's parameters without these lists, which Params cannot read.
nlohmann::json without(const nlohmann::json& params, std::initializer_list<const char*> lists);

}  // namespace tally::control
