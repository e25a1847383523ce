// Calls of etcd's JSON gateway. A call goes to one endpoint after another until one does it, or
// until its deadline. A call may therefore be done twice, and the second time after later calls:
// callers send only what is safe to repeat then.
// Control thread only.
#pragma once

#include <asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "control/coordinator/store/etcd/http_client.h"

namespace tally::control::etcd {

struct ClientOptions {
  std::vector<std::string> endpoints;  // "https://10.0.0.1:2379"; at least one
  std::string authority{};             // PEM file for https; empty: the system's authorities
  std::string user{};                  // empty: etcd has no users
  std::string password{};
};

class Client {
 public:
  using Then = std::function<void(Result<nlohmann::json>)>;

  // io is the control thread's loop; borrowed.
  static Result<std::unique_ptr<Client>> start(asio::io_context& io, ClientOptions options);
  // Drops calls without answer, without their `then`.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // POSTs to /v3/`method` ("kv/txn"). Calls `then` once, not before this returns. Errors:
  // kUnavailable: no endpoint has done it until the deadline; it may be done all the same.
  // kRefused: etcd refuses it. kProtocol: the answer is no JSON.
  void call(std::string_view method, nlohmann::json body, Nanos deadline, Then then);

  asio::io_context& loop() { return io_; }

 private:
  struct Call;
  using SharedCall = std::shared_ptr<Call>;
  Client(asio::io_context& io, ClientOptions options, std::unique_ptr<HttpClient> http);

  void attempt(const SharedCall& call);
  void answered(const SharedCall& call, std::size_t endpoint, const Result<HttpAnswer>& answer);
  void failed(const SharedCall& call, std::size_t endpoint, const std::string& why);
  void try_later(const SharedCall& call);
  void authenticate(const SharedCall& call);
  void authenticated(const Result<nlohmann::json>& answer);

  asio::io_context& io_;
  const ClientOptions options_;
  std::size_t preferred_ = 0;  // the endpoint that a call tries first
  std::string token_;
  std::vector<SharedCall> without_token_;  // calls that wait for a token
  const std::shared_ptr<int> alive_ = std::make_shared<int>();
  std::unique_ptr<HttpClient> http_;  // last: it ends first, and drops what refers to this
};

}  // namespace tally::control::etcd
