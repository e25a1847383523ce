#include "net/rpc/message.h"

#include <fmt/format.h>

#include <utility>

namespace tally::rpc {
namespace {

using nlohmann::json;

// Replies quote what peers sent. Bytes that are not UTF-8 must not cause an exception.
std::string dump(const json& value) {
  return to_text(value) + '\n';
}

// Counts brackets outside of strings, so that the parser never sees a deep text.
bool too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

Call fault(Code code, std::string message, json id = nullptr) {
  Call call;
  call.fault = Fault{code, std::move(message)};
  call.id = std::move(id);
  return call;
}

Status status_of(Code code) {
  switch (code) {
    case Code::kMethodNotFound:
      return Status::kUnsupported;
    case Code::kInvalidParams:
      return Status::kInvalidArgument;
    case Code::kInternalError:
      return Status::kInternal;
    case Code::kParseError:
    case Code::kInvalidRequest:
      break;
  }
  return Status::kProtocol;
}

std::string format(const json& id, int code, Status status, std::string_view message) {
  return dump(
      {{"jsonrpc", "2.0"},
       {"id", id},
       {"error",
        {{"code", code},
         {"message", message},
         {"data", {{"status", static_cast<unsigned>(status)}, {"name", status_name(status)}}}}}});
}

Call parse_object(json request) {
  json id;
  const auto id_at = request.find("id");
  const bool has_id = id_at != request.end();
  if (has_id) {
    if (!id_at->is_string() && !id_at->is_number() && !id_at->is_null()) {
      return fault(Code::kInvalidRequest, "\"id\" must be a string, a number or null");
    }
    id = std::move(*id_at);
  }
  const auto version = request.find("jsonrpc");
  if (version == request.end() || *version != "2.0") {
    return fault(Code::kInvalidRequest, "\"jsonrpc\" must be \"2.0\"", std::move(id));
  }
  const auto method = request.find("method");
  if (method == request.end() || !method->is_string()) {
    return fault(Code::kInvalidRequest, "\"method\" must be a string", std::move(id));
  }
  Call call;
  if (const auto params = request.find("params"); params != request.end()) {
    if (!params->is_object()) {
      return fault(Code::kInvalidParams, "\"params\" must be an object: parameters go by name",
                   std::move(id));
    }
    call.params = std::move(*params);
  }
  call.method = method->get<std::string>();
  call.wants_reply = has_id;
  call.id = std::move(id);
  return call;
}

}  // namespace

Call parse_call(std::string_view line) {
  if (too_deep(line)) {
    return fault(Code::kInvalidRequest,
                 fmt::format("the request nests deeper than {} levels", kMaxDepth));
  }
  json request = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (request.is_discarded()) return fault(Code::kParseError, "the request is not valid JSON");
  if (request.is_array()) {
    return fault(Code::kInvalidRequest,
                 "batches are not supported: send one request per line, without waiting");
  }
  if (!request.is_object()) return fault(Code::kInvalidRequest, "the request is not an object");
  return parse_object(std::move(request));
}

std::string to_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string format_result(const json& id, json result) {
  json reply = {{"jsonrpc", "2.0"}, {"id", id}};
  reply["result"] = std::move(result);
  return dump(reply);
}

std::string format_result_text(const json& id, std::string_view result) {
  return fmt::format(R"({{"jsonrpc":"2.0","id":{},"result":{}}})"
                     "\n",
                     to_text(id), result);
}

std::string format_error(const json& id, Status status, std::string_view message) {
  return format(id, -32000 - static_cast<int>(status), status, message);
}

std::string format_fault(const json& id, const Fault& fault) {
  return format(id, static_cast<int>(fault.code), status_of(fault.code), fault.message);
}

}  // namespace tally::rpc
