// For tests: the endpoints of a node with transport fabric, on the loopback interface.
#pragma once

#include <array>
#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "dataplane/transport/fabric/domain.h"

namespace tally::client {

class FabricNode {
 public:
  static constexpr const char* kHost = "127.0.0.1";
  static constexpr std::uint32_t kShards = 2;

  explicit FabricNode(const std::string& provider = "")
      : domain_(transport::fabric::Domain::open({.address = kHost, .provider = provider}).value()) {
    for (auto& endpoint : endpoints_) endpoint = domain_->endpoint().value();
    const auto posted = domain_->post_receive(*endpoints_[0], received_, nullptr, &room_);
    if (!posted) throw std::runtime_error(posted.error().message);
  }
  ~FabricNode() { stop(); }
  FabricNode(const FabricNode&) = delete;
  FabricNode& operator=(const FabricNode&) = delete;

  const std::string& provider() const { return domain_->provider(); }
  // The answer to session.attach.
  nlohmann::json names() const {
    nlohmann::json names = nlohmann::json::array();
    for (const auto& endpoint : endpoints_) {
      names.push_back(transport::fabric::to_hex(domain_->name_of(*endpoint).value()));
    }
    return names;
  }
  void close(std::uint32_t shard) { endpoints_[shard].reset(); }

  // Starts a thread that accepts connections and records the messages to the first endpoint, until
  // stop().
  void work() {
    thread_ = std::thread([this] {
      fi_cq_data_entry entry{};
      while (!stopping_) {
        if (::fi_cq_read(&domain_->completions(), &entry, 1) != 1) continue;
        if ((entry.flags & FI_RECV) == 0 || entry.len == 0) continue;
        const auto* bytes = static_cast<const std::byte*>(entry.buf);
        messages_.emplace_back(bytes, bytes + entry.len);
        ++came_;
      }
    });
  }
  void stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }
  std::size_t came() const { return came_; }
  // Precondition: after stop().
  const std::vector<std::vector<std::byte>>& messages() const { return messages_; }

 private:
  std::unique_ptr<transport::fabric::Domain> domain_;
  std::array<transport::fabric::Fid<fid_ep>, kShards> endpoints_;
  std::array<std::byte, 1 << 16> received_;
  fi_context2 room_{};
  std::vector<std::vector<std::byte>> messages_;
  std::atomic<std::size_t> came_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace tally::client
