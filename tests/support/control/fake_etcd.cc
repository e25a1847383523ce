#include "tests/support/control/fake_etcd.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "control/coordinator/store/etcd/messages.h"
#include "net/crypto/crypto.h"

namespace tally::testing {
namespace {

using control::etcd::encode_base64;
using nlohmann::json;

std::string decode(std::string text) {
  while (text.ends_with('=')) text.pop_back();
  for (char& c : text) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return net::crypto::decode_base64url(text).value_or("");
}

std::int64_t number(const json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end()) return 0;
  return found->is_string() ? std::strtoll(found->get<std::string>().c_str(), nullptr, 10)
                            : found->get<std::int64_t>();
}

FakeEtcd::Answer failure(int http, int code, const char* message) {
  return {http, json{{"error", message}, {"message", message}, {"code", code}}.dump()};
}

// One request of a connection: its headers up to the empty line, and its body.
bool read_request(int socket, std::string& buffer, std::string& head, std::string& body) {
  const auto more = [&] {
    char bytes[16384];
    const ssize_t count = ::recv(socket, bytes, sizeof bytes, 0);
    if (count > 0) buffer.append(bytes, static_cast<std::size_t>(count));
    return count > 0;
  };
  std::size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == buffer.npos) {
    if (!more()) return false;
  }
  head = buffer.substr(0, end);
  const std::size_t at = head.find("Content-Length: ");
  const std::size_t size = at == head.npos ? 0 : std::strtoul(head.c_str() + at + 16, nullptr, 10);
  while (buffer.size() < end + 4 + size) {
    if (!more()) return false;
  }
  body = buffer.substr(end + 4, size);
  buffer.erase(0, end + 4 + size);
  return true;
}

std::string after(const std::string& head, const std::string& name) {
  const std::size_t at = head.find(name);
  if (at == head.npos) return "";
  const std::size_t begin = at + name.size();
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

}  // namespace

FakeEtcd::FakeEtcd(std::shared_ptr<State> state)
    : state_(std::move(state)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_.get(), any, size) != 0 || ::listen(listener_.get(), 64) != 0 ||
      ::getsockname(listener_.get(), any, &size) != 0) {
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

FakeEtcd::~FakeEtcd() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    for (const UniqueFd& one : sockets_) ::shutdown(one.get(), SHUT_RDWR);
  }
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  for (std::thread& one : threads_) one.join();
}

std::string FakeEtcd::endpoint() const {
  return "http://127.0.0.1:" + std::to_string(port_);
}

void FakeEtcd::set_faults(Faults faults) {
  const std::lock_guard lock(mutex_);
  faults_ = std::move(faults);
}

void FakeEtcd::accept_all() {
  for (;;) {
    const int socket = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    const std::lock_guard lock(mutex_);
    sockets_.emplace_back(socket);
    if (over_) return;
    threads_.emplace_back([this, socket] { serve(socket); });
  }
}

void FakeEtcd::serve(int socket) {
  std::string buffer, head, body;
  while (read_request(socket, buffer, head, body)) {
    const std::string path = after(head, "POST ");
    const std::string method = path.substr(4, path.find(' ') - 4);  // behind "/v3/"
    const Answer answer = handle(method, body, after(head, "Authorization: "));
    if (answer.silent) break;
    const std::string text = "HTTP/1.1 " + std::to_string(answer.code) +
                             " any\r\nContent-Length: " + std::to_string(answer.body.size()) +
                             "\r\n\r\n" + answer.body;
    if (::send(socket, text.data(), text.size(), MSG_NOSIGNAL) < 0) break;
  }
  ::shutdown(socket, SHUT_RDWR);
}

FakeEtcd::Answer FakeEtcd::handle(const std::string& method, const std::string& body,
                                  const std::string& token) {
  ++requests_;
  const json sent = json::parse(body, nullptr, false);
  std::optional<Fault> fault;
  {
    const std::lock_guard lock(mutex_);
    if (faults_) fault = faults_(method, sent);
  }
  if (fault && !fault->apply) return fault->answer;
  const std::lock_guard lock(state_->mutex);
  Answer answer;
  if (!state_->user.empty() && method != "auth/authenticate" &&
      (!state_->token_is_valid || token != "token." + std::to_string(state_->tokens))) {
    answer = token.empty() ? failure(400, 3, "etcdserver: user name is empty")
                           : failure(401, 16, "etcdserver: invalid auth token");
  } else {
    answer = apply(method, sent);
  }
  return fault ? fault->answer : answer;
}

json FakeEtcd::header() const {
  return {{"cluster_id", "1"}, {"revision", std::to_string(state_->revision)}};
}

FakeEtcd::Answer FakeEtcd::apply(const std::string& method, const json& body) {
  State& state = *state_;
  if (method == "kv/range") {
    json answer = range(body);
    answer["header"] = header();
    return {200, answer.dump()};
  }
  if (method == "kv/txn") return {200, transaction(body).dump()};
  if (method == "auth/authenticate") {
    if (body.value("name", "") != state.user || body.value("password", "") != state.password) {
      return failure(400, 3, "etcdserver: authentication failed, invalid user ID or password");
    }
    state.token_is_valid = true;
    return {
        200,
        json{{"header", header()}, {"token", "token." + std::to_string(++state.tokens)}}.dump()};
  }
  const std::int64_t lease = number(body, "ID");
  if (method == "lease/grant") {
    if (state.leases.contains(lease)) return failure(400, 9, "etcdserver: lease already exists");
    state.leases[lease] = number(body, "TTL");
    return {200, json{{"header", header()},
                      {"ID", std::to_string(lease)},
                      {"TTL", std::to_string(state.leases[lease])}}
                     .dump()};
  }
  const bool lives = state.leases.contains(lease);
  if (method == "lease/keepalive") {
    json result = {{"header", header()}, {"ID", std::to_string(lease)}};
    if (lives) result["TTL"] = std::to_string(state.leases[lease]);
    return {200, json{{"result", result}}.dump() + "\n"};
  }
  if (method == "lease/revoke") {
    if (!lives) return failure(404, 5, "etcdserver: requested lease not found");
    state.leases.erase(lease);
    std::erase_if(state.values, [&](const auto& one) { return one.second.lease == lease; });
    ++state.revision;
    return {200, json{{"header", header()}}.dump()};
  }
  return failure(404, 5, "Not Found");
}

json FakeEtcd::range(const json& body) {
  const std::string first = decode(body.value("key", ""));
  const std::string end = decode(body.value("range_end", ""));
  const std::int64_t limit = number(body, "limit");
  json values = json::array(), answer = json::object();
  for (const auto& [key, value] : state_->values) {
    if (end.empty() ? key != first : key < first || key >= end) continue;
    if (limit != 0 && std::cmp_equal(values.size(), limit)) {
      answer["more"] = true;
      break;
    }
    json one = {{"key", encode_base64(key)},
                {"create_revision", std::to_string(value.created)},
                {"version", "1"}};
    if (!value.value.empty()) one["value"] = value.value;
    if (value.lease != 0) one["lease"] = std::to_string(value.lease);
    values.push_back(std::move(one));
  }
  if (values.empty()) return answer;
  answer["count"] = std::to_string(values.size());
  answer["kvs"] = std::move(values);
  return answer;
}

bool FakeEtcd::holds(const json& condition) const {
  const auto found = state_->values.find(decode(condition.value("key", "")));
  const bool exists = found != state_->values.end();
  const std::string target = condition.value("target", "VERSION");
  if (target == "CREATE") {
    return (exists ? found->second.created : 0) == number(condition, "create_revision");
  }
  if (target == "VALUE") return exists && found->second.value == condition.value("value", "");
  return (exists ? 1 : 0) == number(condition, "version");
}

json FakeEtcd::transaction(const json& body) {
  bool succeeds = true;
  for (const json& one : body.value("compare", json::array())) succeeds = succeeds && holds(one);
  const json operations = body.value(succeeds ? "success" : "failure", json::array());
  json responses = json::array();
  bool writes = false;
  for (const json& one : operations) writes |= !one.contains("request_range");
  if (writes) ++state_->revision;
  for (const json& one : operations) {
    if (one.contains("request_put")) {
      const json& put = one["request_put"];
      auto& value = state_->values[decode(put.value("key", ""))];
      if (value.created == 0) value.created = state_->revision;
      value.value = put.value("value", "");
      value.lease = number(put, "lease");
      responses.push_back({{"response_put", {{"header", header()}}}});
    } else if (one.contains("request_delete_range")) {
      state_->values.erase(decode(one["request_delete_range"].value("key", "")));
      responses.push_back({{"response_delete_range", {{"header", header()}}}});
    } else {
      json answer = range(one["request_range"]);
      answer["header"] = header();
      responses.push_back({{"response_range", std::move(answer)}});
    }
  }
  json answer = {{"header", header()}};
  if (succeeds) answer["succeeded"] = true;
  if (!responses.empty()) answer["responses"] = std::move(responses);
  return answer;
}

void FakeEtcd::end_leases() {
  const std::lock_guard lock(state_->mutex);
  state_->leases.clear();
  std::erase_if(state_->values, [](const auto& one) { return one.second.lease != 0; });
  ++state_->revision;
}

std::optional<std::string> FakeEtcd::value(const std::string& key) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->values.find(key);
  if (found == state_->values.end()) return std::nullopt;
  return decode(found->second.value);
}

std::size_t FakeEtcd::keys() const {
  const std::lock_guard lock(state_->mutex);
  return state_->values.size();
}

}  // namespace tally::testing
