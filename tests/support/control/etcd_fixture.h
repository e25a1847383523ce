// A control thread's loop, and a fake etcd that its clients reach.
#pragma once

#include <gtest/gtest.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "control/coordinator/store/etcd/client.h"
#include "control/coordinator/store/etcd/curl_library.h"
#include "control/coordinator/store/etcd/messages.h"
#include "tests/support/control/fake_etcd.h"

namespace tally::control {

inline tally::testing::FakeEtcd::Fault answers(int http, int code, const char* message) {
  return {{http, nlohmann::json{{"error", message}, {"message", message}, {"code", code}}.dump()}};
}

class EtcdTest : public ::testing::Test {
 protected:
  using FakeEtcd = tally::testing::FakeEtcd;
  using json = nlohmann::json;
  static constexpr Nanos kDeadline = 30 * kSecond;

  void SetUp() override {
    if (const auto curl = etcd::curl_library(); !curl) GTEST_SKIP() << curl.error().message;
  }
  // Runs the control thread until then.
  template <typename Condition>
  bool run_until(const Condition& condition) {
    const Nanos end = monotonic_now() + kDeadline;
    io_.restart();
    const auto guard = asio::make_work_guard(io_);
    while (!condition() && monotonic_now() < end) io_.run_one_for(std::chrono::milliseconds(50));
    return condition();
  }
  std::unique_ptr<etcd::Client> client(std::vector<std::string> endpoints = {}) {
    if (endpoints.empty()) endpoints.push_back(etcd_.endpoint());
    auto client = etcd::Client::start(
        io_, {.endpoints = std::move(endpoints), .user = etcd_state_->user, .password = password_});
    EXPECT_TRUE(client.ok()) << client.error().message;
    return std::move(client).value();
  }
  Result<json> call(etcd::Client& client, const char* method, json body,
                    Nanos timeout = kDeadline) {
    std::optional<Result<json>> answer;
    client.call(method, std::move(body), monotonic_now() + timeout,
                [&](Result<json> result) { answer = std::move(result); });
    EXPECT_FALSE(answer);
    EXPECT_TRUE(run_until([&] { return answer.has_value(); }));
    return answer ? *answer : Error{};
  }
  Result<json> get(etcd::Client& client, Nanos timeout = kDeadline) {
    return call(client, "kv/range", {{"key", etcd::encode_base64("k")}}, timeout);
  }
  // The next `count` requests of that method have this answer.
  void fail(const std::string& method, int count, FakeEtcd::Fault fault) {
    etcd_.set_faults([=, left = count](const std::string& name,
                                       const json&) mutable -> std::optional<FakeEtcd::Fault> {
      if (name != method || left == 0) return std::nullopt;
      --left;
      return fault;
    });
  }

  asio::io_context io_{1};
  std::shared_ptr<FakeEtcd::State> etcd_state_ = std::make_shared<FakeEtcd::State>();
  FakeEtcd etcd_{etcd_state_};
  std::string password_;
};

}  // namespace tally::control
