#include "control/node/shards/queue_pairs.h"

namespace tally::control {
namespace {

// A client that has disconnected does not occupy the thread any longer.
void make_each(QueuePairs::Attempt& attempt) {
  QueuePairs::Connections some;  // end on this thread when they are not all made
  some.reserve(attempt.transports.size());
  for (std::size_t i = 0; i < attempt.transports.size() && !attempt.given_up; ++i) {
    auto one = attempt.transports[i]->connect(attempt.peer, attempt.clients[i], attempt.credit);
    if (!one) {
      attempt.why_not = one.error();
      break;
    }
    some.emplace_back(std::move(one).value());
  }
  if (some.size() == attempt.transports.size()) attempt.made = std::move(some);
}

}  // namespace

void QueuePairs::make(const std::shared_ptr<Attempt>& attempt, WorkDone then) {
  makers_.run([attempt] { make_each(*attempt); }, std::move(then));
}

void QueuePairs::end(const std::shared_ptr<Connections>& connections, std::function<void()> then) {
  ender_.run([connections] { connections->clear(); },
             [then = std::move(then)](const Outcome&) { then(); });
}

}  // namespace tally::control
