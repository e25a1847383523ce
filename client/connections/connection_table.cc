#include "client/connections/connection_table.h"

#include <sys/epoll.h>

#include <algorithm>
#include <numeric>

#include "base/system/epoll.h"

namespace tally::client {

void ConnectionTable::add(std::unique_ptr<Connection> connection) {
  std::vector<std::uint32_t> next(connection->shards());
  std::iota(next.begin(), next.end(), shards());
  add(std::move(connection), next);
}

void ConnectionTable::add(std::unique_ptr<Connection> connection,
                          const std::vector<std::uint32_t>& indices) {
  const auto row = static_cast<std::uint32_t>(rows_.size());
  for (std::uint32_t shard = 0; shard < indices.size(); ++shard) {
    if (indices[shard] >= shards_.size()) shards_.resize(indices[shard] + 1);
    shards_[indices[shard]] = {row, shard};
  }
  rows_.push_back({std::move(connection)});
}

void ConnectionTable::withdraw(const Region& region) const {
  for (const Row& row : rows_) row.connection->withdraw(region);
}

bool ConnectionTable::broken() const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [](const Row& row) { return row.connection->broken(); });
}

bool ConnectionTable::has_failed() const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [](const Row& row) { return row.connection->has_failed(); });
}

bool ConnectionTable::arm(Nanos until) const {
  bool armed = true;
  for (const Row& row : rows_) armed &= row.connection->arm(std::exchange(until, kForever));
  return armed;
}

void ConnectionTable::disarm() const {
  for (const Row& row : rows_) row.connection->disarm();
}

bool ConnectionTable::fence(Nanos deadline) const {
  bool fenced = true;
  for (const Row& row : rows_) fenced &= row.connection->fence(deadline);
  return fenced;
}

void ConnectionTable::hang_up() const {
  for (const Row& row : rows_) row.connection->hang_up();
}

bool ConnectionTable::watch_in(int epoll, std::uint32_t first) const {
  return std::all_of(rows_.begin(), rows_.end(), [epoll, &first](const Row& row) {
    return watch(epoll, row.connection->fd(), EPOLLIN, first++);
  });
}

void ConnectionTable::mark_all() {
  for (Row& row : rows_) row.marked = true;
}

bool ConnectionTable::read_events() {
  bool gone = false;
  for (Row& row : rows_) {
    const bool marked = std::exchange(row.marked, false) || row.connection->has_failed();
    if (marked) row.gone = row.connection->read_events();
    gone |= row.gone;
  }
  return gone;
}

}  // namespace tally::client
