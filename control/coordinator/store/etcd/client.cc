#include "control/coordinator/store/etcd/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <utility>

#include "control/coordinator/store/etcd/messages.h"

namespace tally::control::etcd {
namespace {

using nlohmann::json;

// Time for one endpoint. A member that is cut off from the others answers after many seconds.
constexpr Nanos kAttempt = 800 * kMillisecond;
constexpr Nanos kPause = 50 * kMillisecond;  // before all endpoints are tried again
constexpr int kMostTokens = 3;               // that a call tries

}  // namespace

struct Client::Call {
  Call(asio::io_context& io, std::string_view name, std::string text, Nanos until, Then done)
      : method(name), body(std::move(text)), deadline(until), then(std::move(done)), timer(io) {}

  std::string method;
  std::string body;
  Nanos deadline;
  Then then;
  asio::steady_timer timer;
  bool shows_token = true;
  std::string token{};    // that the present attempt shows
  int tokens = 0;         // that it has tried
  std::size_t tried = 0;  // endpoints since the last pause
  std::string why{};      // the last endpoint has not done it
};

Client::Client(asio::io_context& io, ClientOptions options, std::unique_ptr<HttpClient> http)
    : io_(io), options_(std::move(options)), http_(std::move(http)) {}

Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::start(asio::io_context& io, ClientOptions options) {
  auto http = HttpClient::start(io, options.authority);
  if (!http) return http.error();
  return std::unique_ptr<Client>(new Client(io, std::move(options), std::move(http).value()));
}

void Client::call(std::string_view method, json body, Nanos deadline, Then then) {
  attempt(std::make_shared<Call>(io_, method, body.dump(), deadline, std::move(then)));
}

void Client::attempt(const SharedCall& call) {
  const Nanos left = call->deadline - monotonic_now();
  if (left <= 0 && !call->why.empty()) {
    return call->then(Error{Status::kUnavailable, fmt::format("etcd: {}", call->why)});
  }
  const bool shows_token = call->shows_token && !options_.user.empty();
  if (shows_token && token_.empty()) return authenticate(call);
  call->token = shows_token ? token_ : "";
  const std::size_t endpoint = preferred_;
  http_->post({.url = options_.endpoints[endpoint] + "/v3/" + call->method,
               .body = call->body,
               .authorization = call->token,
               .timeout = std::clamp(left, kMillisecond, kAttempt)},
              [this, call, endpoint](const Result<HttpAnswer>& answer) {
                answered(call, endpoint, answer);
              });
}

void Client::answered(const SharedCall& call, std::size_t endpoint,
                      const Result<HttpAnswer>& answer) {
  if (!answer) return failed(call, endpoint, answer.error().message);
  constexpr long kOk = 200;
  if (answer->code == kOk) {
    // A stream ends its entry with a newline, and may have more behind it.
    const std::string& body = answer->body;
    auto parsed =
        json::parse(body.begin(), std::find(body.begin(), body.end(), '\n'), nullptr, false);
    const bool is_failure = parsed.is_object() && parsed.contains("error");
    if (parsed.is_object() && !is_failure) return call->then(std::move(parsed));
    if (!is_failure) {
      return call->then(
          Error{Status::kProtocol, fmt::format("{} answers {} with something else than JSON: is it "
                                               "etcd's address?",
                                               options_.endpoints[endpoint], call->method)});
    }
  }
  const Failure failure = parse_failure(answer->code, answer->body);
  const std::string why = fmt::format("{}: {}", options_.endpoints[endpoint], failure.message);
  if (failure.needs_token() && call->shows_token && !options_.user.empty() &&
      call->tokens < kMostTokens) {
    if (token_ == call->token) token_.clear();
    ++call->tokens;
    call->why = why;
    return attempt(call);
  }
  if (failure.is_temporary()) return failed(call, endpoint, why);
  call->then(Error{Status::kRefused, fmt::format("etcd refuses {}: {}", call->method, why)});
}

void Client::failed(const SharedCall& call, std::size_t endpoint, const std::string& why) {
  if (preferred_ == endpoint) preferred_ = (endpoint + 1) % options_.endpoints.size();
  call->why = why;
  if (++call->tried % options_.endpoints.size() == 0) return try_later(call);
  attempt(call);
}

void Client::try_later(const SharedCall& call) {
  call->timer.expires_after(std::chrono::nanoseconds(kPause));
  call->timer.async_wait([this, call, alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (!error && !alive.expired()) attempt(call);
  });
}

// Several calls wait for one token.
void Client::authenticate(const SharedCall& call) {
  without_token_.push_back(call);
  if (without_token_.size() > 1) return;
  const json who = {{"name", options_.user}, {"password", options_.password}};
  auto login = std::make_shared<Call>(io_, "auth/authenticate", who.dump(), call->deadline,
                                      [this](const auto& answer) { authenticated(answer); });
  login->shows_token = false;
  attempt(login);
}

void Client::authenticated(const Result<json>& answer) {
  const auto waiting = std::exchange(without_token_, {});
  std::string token;
  if (answer) {
    const auto sent = answer->find("token");
    if (sent != answer->end() && sent->is_string()) token = sent->get<std::string>();
  }
  const bool usable = !token.empty() && token.find_first_of("\r\n") == token.npos;
  if (usable) token_ = token;
  for (const SharedCall& call : waiting) {
    if (usable) {
      attempt(call);
    } else if (!answer) {
      call->then(answer.error());
    } else {
      call->then(Error{Status::kProtocol, "etcd answers authenticate without a token"});
    }
  }
}

}  // namespace tally::control::etcd
