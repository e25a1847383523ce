// For tests: calls the coordinator's methods as a server would.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "control/coordinator/rpc/service.h"
#include "tests/support/control/held_store.h"
#include "tests/support/control/peers.h"

namespace tally::control {

class Answer : public rpc::ReplySink {
 public:
  // Appends `what` to `order` when the answer arrives.
  explicit Answer(std::string what = "", std::vector<std::string>* order = nullptr)
      : what_(std::move(what)), order_(order) {}
  void answer(std::string line) override {
    answer_ = nlohmann::json::parse(line, nullptr, false);
    if (order_ != nullptr) order_->push_back(what_);
  }
  bool has_come() const { return !answer_.is_null(); }
  nlohmann::json result() const { return answer_.value("result", nlohmann::json()); }
  std::string error() const {
    return has_come() ? answer_.value("/error/message"_json_pointer, "") : "(held)";
  }

 private:
  std::string what_;
  std::vector<std::string>* order_;
  nlohmann::json answer_;
};

class ServiceTest : public ::testing::Test {
 protected:
  // A node with a secret can be a coordinator.
  ServiceTest() { EXPECT_TRUE(access_.keys().add_secret(net::auth::Secret::generate())); }

  std::shared_ptr<Answer> ask(rpc::ConnectionId connection, const char* method,
                              nlohmann::json params = nlohmann::json::object()) {
    auto answer = std::make_shared<Answer>(fmt::format("{} of {}", method, connection), &order_);
    service_.handle(connection, {method, std::move(params), {}}, {answer, 1, true});
    return answer;
  }
  static nlohmann::json node(const char* name) {
    return {{"version", 1},     {"name", name}, {"host", "h"},
            {"role", "helper"}, {"shards", 2},  {"tcp", "tcp:h:7733"}};
  }
  static nlohmann::json rank(std::uint32_t rank) {
    return {{"version", 1}, {"job", "train"}, {"token", "t"},
            {"rank", rank}, {"ranks", 2},     {"host", "w"}};
  }
  static nlohmann::json changed(nlohmann::json params, const char* key, nlohmann::json value) {
    params[key] = std::move(value);
    return params;
  }
  void run_for(std::chrono::milliseconds span) {
    io_.restart();
    io_.run_for(span);
  }

  asio::io_context io_;
  HeldStore store_;
  std::vector<rpc::ConnectionId> ended_;
  std::vector<std::string> order_;  // of answers as they arrive: "job.open of 2"
  Access access_;
  std::map<rpc::ConnectionId, rpc::Peer> others_;  // connections of who is no operator
  CoordinatorService service_{
      {.peer_of =
           [this](rpc::ConnectionId connection) {
             const auto other = others_.find(connection);
             return other == others_.end() ? tally::testing::operator_peer() : other->second;
           },
       .access = &access_},
      store_,
      io_,
      [this](rpc::ConnectionId connection, auto) { ended_.push_back(connection); }};
};

}  // namespace tally::control
