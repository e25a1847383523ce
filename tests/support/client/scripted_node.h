// For tests: a node that answers requests with the test's script, on its own thread, and records
// the requests.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/system/fd.h"
#include "net/address.h"

namespace tally::client {

class ScriptedNode {
 public:
  // Returns {"result": ...} or {"error": {...}}, or null for no answer. The thread serves one
  // request at a time. After an error of status `again` it ends the connection, as a node does to
  // make room for others.
  using Script =
      std::function<nlohmann::json(const std::string& method, const nlohmann::json& params)>;

  ScriptedNode(std::string path, Script script) : path_(std::move(path)) {
    ::unlink(path_.c_str());
    const auto address = net::parse_address(path_);
    listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto* target = reinterpret_cast<const sockaddr*>(&address->socket);
    if (::bind(listener_.get(), target, sizeof address->socket) != 0 ||
        ::listen(listener_.get(), 8) != 0) {
      throw std::runtime_error("a scripted node cannot listen");
    }
    thread_ = std::thread([this, script = std::move(script)] { serve(script); });
  }
  ~ScriptedNode() {
    over_ = true;
    thread_.join();
    ::unlink(path_.c_str());
  }
  ScriptedNode(const ScriptedNode&) = delete;
  ScriptedNode& operator=(const ScriptedNode&) = delete;

  std::string address() const { return "unix:" + path_; }
  std::vector<std::pair<std::string, nlohmann::json>> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  // The descriptors that came with requests, counted from 0. The node owns them.
  int descriptor(std::size_t number) const {
    const std::lock_guard lock(mutex_);
    return descriptors_.at(number).get();
  }

 private:
  void serve(const Script& script) {
    std::vector<UniqueFd> connections;
    while (!over_) {
      std::vector<pollfd> sources{{listener_.get(), POLLIN, 0}};
      for (const UniqueFd& connection : connections) {
        sources.push_back({connection.get(), POLLIN, 0});
      }
      if (::poll(sources.data(), sources.size(), 5) <= 0) continue;
      for (std::size_t i = 0; i < connections.size(); ++i) {
        if (sources[i + 1].revents != 0 && !answer(connections[i].get(), script)) {
          connections[i].reset();
        }
      }
      std::erase_if(connections, [](const UniqueFd& connection) { return !connection; });
      if ((sources[0].revents & POLLIN) != 0) {
        connections.emplace_back(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      }
    }
  }

  bool answer(int connection, const Script& script) {
    std::string line;
    for (char c = 0; c != '\n'; line += c) {
      if (!receive(connection, c)) return false;
    }
    const auto request = nlohmann::json::parse(line);
    const auto method = request.at("method").get<std::string>();
    {
      const std::lock_guard lock(mutex_);
      requests_.emplace_back(method, request.at("params"));
    }
    nlohmann::json reply = script(method, request.at("params"));
    if (reply.is_null()) return true;
    reply["jsonrpc"] = "2.0";
    reply["id"] = request.at("id");
    const std::string text = reply.dump() + "\n";
    const bool sent = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL) > 0;
    return sent &&
           reply.value("/error/data/status"_json_pointer, 0) != static_cast<int>(Status::kAgain);
  }

  bool receive(int connection, char& c) {
    iovec byte{&c, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))];
    msghdr message{};
    message.msg_iov = &byte;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (::recvmsg(connection, &message, MSG_CMSG_CLOEXEC) != 1) return false;
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header == nullptr) return true;
    const std::lock_guard lock(mutex_);
    for (std::size_t at = 0; at < header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      descriptors_.emplace_back(fd);
    }
    return true;
  }

  std::string path_;
  UniqueFd listener_;
  mutable std::mutex mutex_;
  std::vector<std::pair<std::string, nlohmann::json>> requests_;
  std::vector<UniqueFd> descriptors_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// {"error": ...} with this status, in the form that nodes use.
inline nlohmann::json refusal(Status status, const std::string& message) {
  return {{"error",
           {{"code", -32000 - static_cast<int>(status)},
            {"message", message},
            {"data", {{"status", static_cast<int>(status)}}}}}};
}

}  // namespace tally::client
