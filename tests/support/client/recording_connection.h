// For tests: a connection that records the notices and sends nothing.
#pragma once

#include <sys/eventfd.h>

#include <string>
#include <utility>
#include <vector>

#include "base/system/fd.h"
#include "client/connections/connection.h"

namespace tally::client {

struct RecordingConnection final : Connection {
  explicit RecordingConnection(bool is_shared) : shared(is_shared) {}
  std::string_view transport() const override { return shared ? "shm" : "fabric"; }
  std::string description() const override { return {}; }
  std::uint32_t shards() const override { return 2; }
  bool send(std::uint32_t shard, const wire::Notice& notice, std::span<const std::byte>) override {
    sent.emplace_back(shard, notice);
    return true;
  }
  bool send_message(std::uint32_t, const RingEntry&) override { return true; }
  std::size_t receive(std::uint32_t shard, std::span<RingEntry>) override {
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
  bool arm(Nanos until) override {
    alarm = until;
    return armed;
  }
  void disarm() override {}
  int fd() const override { return event.get(); }
  bool read_events() override {
    ++event_reads;
    return gone;
  }
  bool has_failed() const override { return failed; }
  bool fence(Nanos) override { return fenced; }
  void hang_up() override {}

  const bool shared;
  bool refuses = false;  // whether offer() fails
  bool gone = false;
  bool failed = false;
  bool armed = true;
  Nanos alarm = 0;
  bool fenced = true;
  int offered = 0;
  int event_reads = 0;
  std::uint64_t key = 7;  // of all regions
  std::vector<std::pair<std::uint32_t, wire::Notice>> sent{};
  std::uint32_t received = UINT32_MAX;  // the shard of the last receive()
  UniqueFd event{::eventfd(0, EFD_CLOEXEC)};
};

}  // namespace tally::client
