// One connection to a node that this machine reaches through several NICs. It owns a table with one
// connection for each NIC. The session and the table use one index for each shard; each inner
// connection numbers its own shards from 0.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/system/fd.h"
#include "client/connections/connection.h"
#include "client/connections/connection_table.h"

namespace tally::client {

// One inner connection, and the indices of its shards, in their order.
struct RailConnection {
  std::unique_ptr<Connection> connection;
  std::vector<std::uint32_t> shards;
};

class RailsConnection final : public Connection {
 public:
  // Precondition: all connections have the same transport, over a network. Their indices are 0
  // .. n-1, each once.
  static Result<std::unique_ptr<RailsConnection>> make(std::vector<RailConnection> rails);

  std::string_view transport() const override { return table_[0].transport(); }
  std::string description() const override;
  std::uint32_t shards() const override { return table_.shards(); }
  bool send(std::uint32_t shard, const wire::Notice& notice,
            std::span<const std::byte> contribution) override {
    return table_.send(shard, notice, contribution);
  }
  bool send_message(std::uint32_t shard, const RingEntry& message) override {
    return table_.send_message(shard, message);
  }
  std::size_t eager_bytes() const override;
  std::size_t receive(std::uint32_t shard, std::span<RingEntry> out) override {
    return table_.receive(shard, out);
  }
  bool broken() const override { return table_.broken(); }
  // Adds `keys`: the key of each shard.
  Result<Offer> offer(const Region& region) override;
  void withdraw(const Region& region) override { table_.withdraw(region); }
  bool wants_shared_memory() const override { return false; }
  bool has_adapter() const override { return table_[0].has_adapter(); }
  bool arm(Nanos until) override { return table_.arm(until); }
  void disarm() override { table_.disarm(); }
  int fd() const override { return epoll_.get(); }
  bool read_events() override;
  bool has_failed() const override { return table_.has_failed(); }
  std::string why_gone() const override;
  bool fence(Nanos deadline) override { return table_.fence(deadline); }
  void hang_up() override { table_.hang_up(); }

 private:
  RailsConnection() = default;

  ConnectionTable table_;
  UniqueFd epoll_;  // of the descriptors of the inner connections
};

}  // namespace tally::client
