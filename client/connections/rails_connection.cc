#include "client/connections/rails_connection.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tally::client {

Result<std::unique_ptr<RailsConnection>> RailsConnection::make(std::vector<RailConnection> rails) {
  std::unique_ptr<RailsConnection> made(new RailsConnection());
  for (RailConnection& rail : rails) made->table_.add(std::move(rail.connection), rail.shards);
  made->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!made->epoll_ || !made->table_.watch_in(made->epoll_.get(), 0)) {
    return Error{Status::kNoMemory,
                 fmt::format("descriptors for a session: {}", std::strerror(errno))};
  }
  return made;
}

std::string RailsConnection::description() const {
  std::string text = fmt::format("{} NICs: ", table_.size());
  for (std::size_t i = 0; i < table_.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : " and ", table_[i].description());
  }
  return text;
}

std::size_t RailsConnection::eager_bytes() const {
  std::size_t least = SIZE_MAX;
  for (std::size_t i = 0; i < table_.size(); ++i) least = std::min(least, table_[i].eager_bytes());
  return least;
}

Result<Connection::Offer> RailsConnection::offer(const Region& region) {
  std::vector<Offer> offers;
  for (std::size_t i = 0; i < table_.size(); ++i) {
    auto one = table_[i].offer(region);
    if (!one) {
      while (i-- > 0) table_[i].withdraw(region);
      return one.error();
    }
    offers.push_back(std::move(one).value());
  }
  nlohmann::json keys = nlohmann::json::array();
  for (std::uint32_t shard = 0; shard < table_.shards(); ++shard) {
    keys.push_back(offers[table_.index_of(shard)].params.at("key"));
  }
  Offer whole = std::move(offers.front());
  whole.params["keys"] = std::move(keys);
  return whole;
}

bool RailsConnection::read_events() {
  table_.mark_all();
  return table_.read_events();
}

std::string RailsConnection::why_gone() const {
  std::size_t gone = table_.size() - 1;
  while (gone > 0 && !table_.is_gone(gone)) --gone;
  return table_[gone].why_gone();
}

}  // namespace tally::client
