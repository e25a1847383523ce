#include "control/node/session_table.h"

#include "control/threads/completion.h"

namespace tally::control {

SharedSession SessionTable::add(rpc::ConnectionId connection) {
  auto session = std::make_shared<Session>();
  session->connection = connection;
  session->identity = ++last_identity_;
  session->number = free_number();
  Undo connected([&] { disconnect(connection); });
  by_connection_[connection] = session;
  by_number_[session->number] = session;
  connected.keep();
  return session;
}

SharedSession SessionTable::on(rpc::ConnectionId connection) const {
  const auto found = by_connection_.find(connection);
  return found == by_connection_.end() ? nullptr : found->second;
}

SharedSession SessionTable::numbered(std::uint32_t number) const {
  const auto found = by_number_.find(number);
  return found == by_number_.end() ? nullptr : found->second;
}

std::vector<SharedSession> SessionTable::of(const JobInstance& instance) const {
  std::vector<SharedSession> some;
  for (const auto& [number, session] : by_number_) {
    if (session->instance == &instance && !session->ending) some.push_back(session);
  }
  return some;
}

std::uint32_t SessionTable::free_number() const {
  std::uint32_t number = 0;
  for (const auto& [used, session] : by_number_) {
    if (used != number) break;
    ++number;
  }
  return number;
}

}  // namespace tally::control
