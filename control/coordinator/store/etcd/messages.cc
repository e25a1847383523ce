#include "control/coordinator/store/etcd/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "net/crypto/crypto.h"

namespace tally::control::etcd {
namespace {

using nlohmann::json;

constexpr std::size_t kMostShown = 300;  // bytes of a foreign text in a message

// Codes of gRPC.
constexpr std::uint64_t kDeadlineExceeded = 4;
constexpr std::uint64_t kResourceExhausted = 8;
constexpr std::uint64_t kAborted = 10;
constexpr std::uint64_t kInternal = 13;
constexpr std::uint64_t kUnavailable = 14;
constexpr std::uint64_t kUnauthenticated = 16;

Error unreadable(std::string_view what) {
  return {Status::kProtocol, fmt::format("etcd sent {} that cannot be read", what)};
}

std::optional<std::string> decode_base64(std::string text) {
  while (text.ends_with('=')) text.pop_back();
  for (char& c : text) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return net::crypto::decode_base64url(text);
}

// A number of 64 bits, as a text or a number; 0 when the field is missing.
std::optional<std::int64_t> number(const json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end()) return 0;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  const auto* text = found->get_ptr<const std::string*>();
  if (text == nullptr) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return value;
}

std::optional<Revision> revision_of(const json& answer) {
  const auto header = answer.find("header");
  if (header == answer.end() || !header->is_object()) return std::nullopt;
  const auto revision = number(*header, "revision");
  if (!revision || *revision <= 0) return std::nullopt;
  return static_cast<Revision>(*revision);
}

std::optional<bool> flag(const json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end()) return false;
  if (!found->is_boolean()) return std::nullopt;
  return found->get<bool>();
}

// The list in that field; empty when the field is missing.
const json* list(const json& object, const char* field) {
  static const json kEmpty = json::array();
  const auto found = object.find(field);
  if (found == object.end()) return &kEmpty;
  return found->is_array() ? &*found : nullptr;
}

std::optional<std::string> bytes(const json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end()) return std::string();
  const auto* text = found->get_ptr<const std::string*>();
  return text == nullptr ? std::nullopt : decode_base64(*text);
}

std::optional<KeyValue> parse_key_value(const json& sent) {
  if (!sent.is_object()) return std::nullopt;
  auto key = bytes(sent, "key"), value = bytes(sent, "value");
  const auto created = number(sent, "create_revision"), lease = number(sent, "lease");
  if (!key || !value || !created || *created < 0 || !lease) return std::nullopt;
  return KeyValue{std::move(*key), std::move(*value), static_cast<Revision>(*created), *lease};
}

bool read_values(const json& range, std::vector<KeyValue>& values) {
  const json* sent = list(range, "kvs");
  if (sent == nullptr) return false;
  for (const json& one : *sent) {
    auto value = parse_key_value(one);
    if (!value) return false;
    values.push_back(std::move(*value));
  }
  return true;
}

// The first key behind all that begin with `prefix`.
std::string end_of(std::string_view prefix) {
  std::string end(prefix);
  end.back() = static_cast<char>(end.back() + 1);
  return end;
}

}  // namespace

std::string encode_base64(std::string_view bytes) {
  std::string text = net::crypto::encode_base64url(bytes);
  for (char& c : text) c = c == '-' ? '+' : c == '_' ? '/' : c;
  text.append((4 - text.size() % 4) % 4, '=');
  return text;
}

json created_at(std::string_view key, Revision revision) {
  return {{"key", encode_base64(key)},
          {"target", "CREATE"},
          {"result", "EQUAL"},
          {"create_revision", std::to_string(revision)}};
}

json has_value(std::string_view key, std::string_view value) {
  return {{"key", encode_base64(key)},
          {"target", "VALUE"},
          {"result", "EQUAL"},
          {"value", encode_base64(value)}};
}

json put_operation(std::string_view key, std::string_view value, std::int64_t lease) {
  json put = {{"key", encode_base64(key)}, {"value", encode_base64(value)}};
  if (lease != 0) put["lease"] = std::to_string(lease);
  return {{"request_put", std::move(put)}};
}

json delete_operation(std::string_view key) {
  return {{"request_delete_range", {{"key", encode_base64(key)}}}};
}

json get_operation(std::string_view key) {
  return {{"request_range", {{"key", encode_base64(key)}}}};
}

json page_request(std::string_view first, std::string_view prefix, std::uint64_t limit) {
  return {{"key", encode_base64(first)},
          {"range_end", encode_base64(end_of(prefix))},
          {"limit", std::to_string(limit)}};
}

Result<RangeAnswer> parse_range(const json& answer) {
  RangeAnswer range;
  if (!answer.is_object() || !revision_of(answer)) return unreadable("a range");
  const auto more = flag(answer, "more");
  if (!more || !read_values(answer, range.values)) return unreadable("a range");
  range.more = *more;
  return range;
}

Result<TransactionAnswer> parse_transaction(const json& answer) {
  TransactionAnswer transaction;
  if (!answer.is_object()) return unreadable("a transaction's result");
  const auto revision = revision_of(answer);
  const auto succeeded = flag(answer, "succeeded");
  const json* responses = list(answer, "responses");
  if (!revision || !succeeded || responses == nullptr) return unreadable("a transaction's result");
  transaction.revision = *revision;
  transaction.succeeded = *succeeded;
  for (const json& one : *responses) {
    if (!one.is_object()) return unreadable("a transaction's result");
    const auto range = one.find("response_range");
    if (range == one.end()) continue;
    if (!range->is_object() || !read_values(*range, transaction.values))
      return unreadable("a transaction's result");
  }
  return transaction;
}

Result<std::int64_t> parse_time_to_live(const json& answer) {
  if (!answer.is_object()) return unreadable("a lease's state");
  // The answer of keepalive is an entry of a stream, that of grant is not.
  const auto entry = answer.find("result");
  const json& state = entry != answer.end() ? *entry : answer;
  if (!state.is_object() || !revision_of(state)) return unreadable("a lease's state");
  const auto seconds = number(state, "TTL");
  if (!seconds || *seconds < 0) return unreadable("a lease's state");
  return *seconds;
}

bool Failure::is_temporary() const {
  return code == kUnavailable || code == kDeadlineExceeded || code == kResourceExhausted ||
         code == kAborted || code == kInternal;
}

bool Failure::needs_token() const {
  return code == kUnauthenticated || message.find("invalid auth token") != message.npos ||
         message.find("user name is empty") != message.npos ||
         message.find("revision of auth store is old") != message.npos;
}

Failure parse_failure(long http_code, std::string_view body) {
  Failure failure;
  const json sent = json::parse(body, nullptr, false);
  // An error within a stream is an object of its own.
  const json* error = &sent;
  if (sent.is_object() && sent.contains("error") && sent["error"].is_object())
    error = &sent["error"];
  if (error->is_object()) {
    for (const char* field : {"grpc_code", "code"}) {
      if (const auto code = number(*error, field); code && *code > 0)
        failure.code = static_cast<std::uint64_t>(*code);
    }
    for (const char* field : {"error", "message"}) {
      const auto text = error->find(field);
      if (text != error->end() && text->is_string()) failure.message = text->get<std::string>();
    }
  }
  // Proxies answer without gRPC's code.
  if (failure.code == 0 && (http_code >= 500 || http_code == 429)) failure.code = kUnavailable;
  if (failure.code == 0 && http_code == 401) failure.code = kUnauthenticated;
  if (failure.message.empty()) failure.message = body.empty() ? "no reason" : body;
  failure.message = fmt::format("HTTP {}: {}", http_code, failure.message.substr(0, kMostShown));
  return failure;
}

}  // namespace tally::control::etcd
