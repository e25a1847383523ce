// For tests: a link that remembers what is sent and leads nowhere.
#pragma once

#include <sys/eventfd.h>

#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "client/link.h"

namespace tally::client {

struct RecordingLink final : Link {
  explicit RecordingLink(bool is_shared) : shared(is_shared) {}
  std::string_view transport() const override { return shared ? "shm" : "fabric"; }
  std::string description() const override { return {}; }
  std::uint32_t shards() const override { return 2; }
  bool send(std::uint32_t shard, const wire::Notice& notice, std::span<const std::byte>) override {
    sent.emplace_back(shard, notice);
    return true;
  }
  bool send_message(std::uint32_t, const RingSlot&) override { return true; }
  std::size_t receive(std::uint32_t shard, std::span<RingSlot>) override {
    received = shard;
    return 0;
  }
  std::size_t eager_bytes() const override { return shared ? 0 : 8192; }
  bool broken() const override { return false; }
  Result<Offer> offer(const Region&) override {
    if (refuses) return Error{Status::kNoMemory, "no more"};
    ++offered;
    return Offer{{{"key", key}}, {}};
  }
  void withdraw(const Region&) override { --offered; }
  bool wants_shared_memory() const override { return shared; }
  bool has_adapter() const override { return false; }
  bool arm(Nanos) override { return armed; }
  void disarm() override {}
  int fd() const override { return event.get(); }
  bool hear() override { return gone; }
  bool fence(Nanos) override { return fenced; }
  void hang_up() override {}

  const bool shared;
  bool refuses = false;  // regions
  bool gone = false;
  bool armed = true;
  bool fenced = true;
  int offered = 0;
  std::uint64_t key = 7;  // of all regions
  std::vector<std::pair<std::uint32_t, wire::Notice>> sent{};
  std::uint32_t received = UINT32_MAX;  // which shard was asked last
  UniqueFd event{::eventfd(0, EFD_CLOEXEC)};
};

}  // namespace tally::client
