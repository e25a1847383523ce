// Several connections with one numbering of their shards: those of a session to its nodes, or those
// to one node over several NICs. The index of a shard numbers the shards of all connections from 0.
// Functions without an index do what Connection's functions do, at all connections. One
// thread at a time uses it, as with the session.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "client/connections/connection.h"

namespace tally::client {

class ConnectionTable {
 public:
  // Adds a connection. Its shards have the next indices, or these indices in the order of its
  // shards. Indices that are given must be 0 .. n-1 in the end, each once.
  void add(std::unique_ptr<Connection> connection);
  void add(std::unique_ptr<Connection> connection, const std::vector<std::uint32_t>& indices);

  std::size_t size() const { return rows_.size(); }
  std::uint32_t shards() const { return static_cast<std::uint32_t>(shards_.size()); }
  // By index, in the order of add().
  Connection& operator[](std::size_t index) const { return *rows_[index].connection; }
  std::size_t index_of(std::uint32_t shard) const { return shards_[shard].row; }
  Connection& of_shard(std::uint32_t shard) const { return *rows_[index_of(shard)].connection; }

  bool send(std::uint32_t shard, const wire::Notice& notice,
            std::span<const std::byte> contribution) const {
    return of_shard(shard).send(shards_[shard].number, notice, contribution);
  }
  bool send_message(std::uint32_t shard, const RingEntry& message) const {
    return of_shard(shard).send_message(shards_[shard].number, message);
  }
  std::size_t receive(std::uint32_t shard, std::span<RingEntry> out) const {
    return of_shard(shard).receive(shards_[shard].number, out);
  }

  void withdraw(const Region& region) const;
  bool broken() const;
  bool has_failed() const;
  // Only one connection sets an alarm. All are armed, also when one has a completion already.
  bool arm(Nanos until) const;
  void disarm() const;
  bool fence(Nanos deadline) const;
  void hang_up() const;

  // Adds the descriptors of all connections to the epoll, which forgets each when it is closed. An
  // event's data is `first` plus the index of the connection. False with errno set.
  bool watch_in(int epoll, std::uint32_t first) const;
  // Marks a connection for the next read_events(), because its descriptor is readable.
  void mark(std::size_t index) { rows_[index].marked = true; }
  void mark_all();
  // Reads the events of the connections that are marked or have failed. Returns true when a node is
  // gone. A thousand silent connections cost no system call.
  bool read_events();
  // Whether read_events() has found that the node of this connection is gone.
  bool is_gone(std::size_t index) const { return rows_[index].gone; }

 private:
  struct Row {
    std::unique_ptr<Connection> connection;
    bool marked = false;
    bool gone = false;
  };
  struct Shard {
    std::uint32_t row = 0;
    std::uint32_t number = 0;  // at its connection
  };

  std::vector<Row> rows_;
  std::vector<Shard> shards_;  // by index
};

}  // namespace tally::client
