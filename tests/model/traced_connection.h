// For tests: a rank's connection to one shard. Completions stay on their way until the test
// delivers them, and the test decides when the node is gone.
#pragma once

#include <sys/eventfd.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/system/fd.h"
#include "client/connections/connection.h"
#include "tests/model/traced_shard.h"

namespace tally::traces {

// What the test sees of a connection, also after the session has closed it.
struct ConnectionState {
  std::uint32_t version = 0;
  std::uint32_t part = 0;
  bool gone = false;    // the session will see that the node is gone
  bool broken = false;  // the session will see that the node breaks the protocol
  bool fenced = false;
  bool hung_up = false;
  std::vector<wire::Notice> sent{};              // notices that the test has not looked at
  std::deque<Delivery> arrived{};                // completions that the session can take
  std::vector<const client::Region*> regions{};  // registered at the node
  UniqueFd event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  bool is_open() const { return !fenced && !hung_up; }
  void lose() {
    gone = true;
    ring();
  }
  void ring() const { ::eventfd_write(event.get(), 1); }
};

class TracedConnection final : public client::Connection {
 public:
  // Borrows the shard, and `own`: the regions of the rank that no call registers.
  TracedConnection(std::uint16_t rank, TracedShard& shard, std::shared_ptr<ConnectionState> state,
                   const std::vector<client::Region*>& own)
      : rank_(rank), shard_(shard), state_(std::move(state)), own_(own) {}

  std::string_view transport() const override { return "traces"; }
  std::string description() const override { return {}; }
  std::uint32_t shards() const override { return 1; }
  bool send(std::uint32_t shard, const wire::Notice& notice,
            std::span<const std::byte> contribution) override;
  std::size_t eager_bytes() const override { return wire::kMostEagerBytes; }
  bool send_message(std::uint32_t, const RingEntry&) override { return false; }
  std::size_t receive(std::uint32_t shard, std::span<RingEntry> out) override;
  bool broken() const override { return state_->broken; }
  Result<Offer> offer(const client::Region& region) override;
  void withdraw(const client::Region& region) override;
  bool wants_shared_memory() const override { return false; }
  bool arm(Nanos) override { return state_->arrived.empty(); }
  void disarm() override {}
  int fd() const override { return state_->event.get(); }
  bool read_events() override { return state_->gone; }
  bool has_failed() const override { return state_->gone; }
  bool fence(Nanos deadline) override;
  void hang_up() override;

 private:
  std::uint16_t rank_;
  TracedShard& shard_;
  std::shared_ptr<ConnectionState> state_;
  const std::vector<client::Region*>& own_;
};

}  // namespace tally::traces
