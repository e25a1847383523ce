// JSON-RPC 2.0 texts: parses requests and writes replies. Pure. Hostile bytes give a Fault.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tally::rpc {

// The codes that JSON-RPC itself defines. An error of a service has the code -32000 - status.
enum class Code : int {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kMethodNotFound = -32601,
  kInvalidParams = -32602,
  kInternalError = -32603,
};

inline constexpr int kMaxDepth = 32;  // nesting levels of a request; recursion stays shallow

struct Fault {
  Code code = Code::kInvalidRequest;
  std::string message;
};

// The request of one line.
struct Call {
  std::optional<Fault> fault;  // when set, only `id` is valid besides it
  nlohmann::json id;           // null when the line has no usable id
  bool wants_reply = true;     // false: a notification
  std::string method;
  nlohmann::json params = nlohmann::json::object();  // always an object
};

// Never throws for bad input.
Call parse_call(std::string_view line);

// Returns JSON on one line, without a newline. Never throws: it replaces bytes that are not UTF-8.
std::string to_text(const nlohmann::json& value);

// Each returns one line with its newline.
std::string format_result(const nlohmann::json& id, nlohmann::json result);
// `result` is JSON without line breaks.
std::string format_result_text(const nlohmann::json& id, std::string_view result);
std::string format_error(const nlohmann::json& id, Status status, std::string_view message);
std::string format_fault(const nlohmann::json& id, const Fault& fault);

}  // namespace tally::rpc
