// The JSON gateway of an etcd in this process, over HTTP on loopback. It answers as etcd 3.4 does:
// fields with default values are missing, numbers of 64 bits are texts, and a condition whose field
// does not belong to its target compares with 0. Leases end when the test says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/system/fd.h"

namespace tally::testing {

class FakeEtcd {
 public:
  struct Answer {
    int code = 200;
    std::string body{};
    bool silent = false;  // the connection ends without an answer
  };
  // Of all members of one etcd.
  struct State {
    struct Value {
      std::string value;  // base64
      std::int64_t created = 0;
      std::int64_t lease = 0;
    };
    std::mutex mutex;
    std::int64_t revision = 1;
    std::map<std::string, Value> values;  // by key
    std::map<std::int64_t, std::int64_t> leases;
    std::string user, password;  // empty: no users
    int tokens = 0;              // given so far; only the last one is valid
    bool token_is_valid = true;
  };
  // Called before each request; an answer replaces that of etcd. `apply`: etcd still does it.
  struct Fault {
    Answer answer;
    bool apply = false;
  };
  using Faults =
      std::function<std::optional<Fault>(const std::string& method, const nlohmann::json& body)>;

  explicit FakeEtcd(std::shared_ptr<State> state = std::make_shared<State>());
  ~FakeEtcd();
  FakeEtcd(const FakeEtcd&) = delete;
  FakeEtcd& operator=(const FakeEtcd&) = delete;

  std::string endpoint() const;  // "http://127.0.0.1:4711"
  void set_faults(Faults faults);
  std::uint64_t requests() const { return requests_; }

  // All leases end, with their keys.
  void end_leases();
  std::optional<std::string> value(const std::string& key) const;  // decoded
  std::size_t keys() const;

 private:
  void accept_all();
  void serve(int socket);
  Answer handle(const std::string& method, const std::string& body, const std::string& token);
  Answer apply(const std::string& method, const nlohmann::json& body);
  nlohmann::json range(const nlohmann::json& body);
  nlohmann::json transaction(const nlohmann::json& body);
  bool holds(const nlohmann::json& condition) const;
  nlohmann::json header() const;

  std::shared_ptr<State> state_;
  UniqueFd listener_;
  int port_ = 0;
  std::atomic<std::uint64_t> requests_{0};
  std::mutex mutex_;  // protects the members below
  Faults faults_;
  std::list<UniqueFd> sockets_;
  std::vector<std::thread> threads_;
  bool over_ = false;
  std::thread acceptor_;
};

}  // namespace tally::testing
