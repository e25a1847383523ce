// For the tests of the server: a service with test methods, and a peer in the server's own thread.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "net/server/server.h"
#include "tests/support/net/rpc_test_support.h"

namespace tally::rpc {

inline std::string call(std::string_view method, int id,
                        const nlohmann::json& params = nlohmann::json::object()) {
  return nlohmann::json{{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", params}}
             .dump() +
         "\n";
}

// A service with the methods that the tests need.
class TestService : public Service {
 public:
  void handle(ConnectionId connection, Request& request, Reply reply) override {
    last = connection;
    ++handled;
    closed_before_last = closings.size();
    fds_seen[request.method] = request.fds.size();
    if (request.method == "echo") return reply.result(std::move(request.params));
    if (request.method == "fds") return reply.result(request.fds.size());
    if (request.method == "big") return reply.result(std::string(200'000, 'x'));
    if (request.method == "later") return held.push_back(std::move(reply));
    if (request.method == "gated") {
      reply.go_through([this](auto send) { behind_gate.push_back(std::move(send)); });
      return held.push_back(std::move(reply));
    }
    if (request.method == "session") {
      reply.grant(Grant::kSession);
      return reply.result(nullptr);
    }
    if (request.method == "end session") {
      reply.revoke(Grant::kSession);
      return reply.result(nullptr);
    }
    if (request.method == "drop") return;
    if (request.method == "throw") throw std::runtime_error("the service's fault");
    if (request.method == "refuse") return reply.error(Status::kRefused, "not you");
    reply.unknown_method(request.method);
  }
  void closed(ConnectionId connection) override { ++closings[connection]; }

  ConnectionId last = 0;
  int handled = 0;
  std::size_t closed_before_last = 0;  // closed connections at the time of the last request
  std::map<std::string, std::size_t> fds_seen;
  std::vector<Reply> held;
  std::vector<std::function<void()>> behind_gate;
  std::map<ConnectionId, int> closings;
};

// Server and peer share one thread. The loop runs only while a test waits.
class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override { connect(); }

  void connect() {
    auto [ours, theirs] = socket_pair();
    peer_ = std::move(ours);
    received_.clear();
    id_ = server_.adopt(std::move(theirs));
  }

  // Runs the loop until done() returns true. Returns false after 5 s.
  bool run_until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io_.restart();
      io_.run_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  void send(std::string_view text, std::span<const int> fds = {}) {
    ASSERT_EQ(send_with_fds(peer_.get(), text, fds), static_cast<ssize_t>(text.size()));
  }

  // Returns the next line of the server, or discarded JSON when the server hangs up.
  nlohmann::json receive() {
    std::string line;
    const bool came = run_until([&] {
      take();
      return received_.find('\n') != std::string::npos || hung_up_;
    });
    const auto end = received_.find('\n');
    if (!came || end == std::string::npos)
      return nlohmann::json(nlohmann::json::value_t::discarded);
    line = received_.substr(0, end);
    received_.erase(0, end + 1);
    return nlohmann::json::parse(line, nullptr, false);
  }

  bool hangs_up() {
    return run_until([&] {
      take();
      return hung_up_;
    });
  }

  bool closed(ConnectionId id) {
    return run_until([&] { return service_.closings[id] == 1; });
  }

  nlohmann::json ask(std::string_view text, std::span<const int> fds = {}) {
    send(text, fds);
    return receive();
  }

  void take() {
    char buffer[65536];
    const ssize_t count = ::recv(peer_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (count > 0) received_.append(buffer, static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno == ECONNRESET)) hung_up_ = true;
  }

  asio::io_context io_;
  TestService service_;
  Server server_{io_, service_, {.connections = 8, .unanswered = 3, .output_bytes = 1 << 20}};
  UniqueFd peer_;
  ConnectionId id_ = 0;
  std::string received_;
  bool hung_up_ = false;
};

inline UniqueFd connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    socket.reset();
  }
  return socket;
}

}  // namespace tally::rpc
