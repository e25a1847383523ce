// JSON-RPC 2.0 texts: parsing requests and writing replies. Pure; hostile bytes give a Fault.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tally::rpc {

// The codes that JSON-RPC itself defines. A service's errors are -32000 - status.
enum class Code : int {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kMethodNotFound = -32601,
  kInvalidParams = -32602,
  kInternalError = -32603,
};

inline constexpr int kMaxDepth = 32;  // of nesting in a request; what recurses stays shallow

struct Fault {
  Code code = Code::kInvalidRequest;
  std::string message;
};

// What one line asks for.
struct Call {
  std::optional<Fault> fault;  // set: nothing but `id` counts
  nlohmann::json id;           // null where the line has none that can be used
  bool wants_reply = true;     // false: a notification
  std::string method;
  nlohmann::json params = nlohmann::json::object();  // always an object
};

// Never throws for bad input.
Call parse_call(std::string_view line);

// One line each, with the newline.
std::string format_result(const nlohmann::json& id, nlohmann::json result);
std::string format_error(const nlohmann::json& id, Status status, std::string_view message);
std::string format_fault(const nlohmann::json& id, const Fault& fault);

}  // namespace tally::rpc
