// What a coordinator asks of a node: to serve some trees of a job's plan. How it travels; both ends
// use this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "dataplane/protocol/cut.h"

namespace tally::control {

inline constexpr std::size_t kMaxJobName = 128;  // and of tokens, of nodes and of hosts

struct Placement {
  std::uint64_t id = 0;  // from 1; of one membership
  std::string job;
  std::string token;
  std::uint32_t epoch = 1;
  std::uint32_t ranks = 1;
  std::uint32_t weight = 1;
  protocol::Plan plan;                 // whole
  std::vector<std::uint32_t> trees;    // those at this node, rising
  std::uint32_t nodes = 1;             // of the plan
  std::uint64_t rate = 0;              // bytes of operation per second that it is for; 0: unknown
  std::vector<std::uint32_t> rails{};  // of each tree here; none: any
};

nlohmann::json to_json(const Placement& placement);
// Parsing is validating: trees are of the plan, each once.
Result<Placement> parse_placement(const nlohmann::json& placement);

// Numbers up to `max`, at most `count` of them; none where anything else is there.
std::vector<std::uint32_t> parse_numbers(const nlohmann::json& array, std::size_t count,
                                         std::uint32_t max);

}  // namespace tally::control
