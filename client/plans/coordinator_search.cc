#include "client/plans/coordinator_search.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <system_error>
#include <utility>

#include "base/system/blocked_signals.h"

namespace tally::client {

CoordinatorSearch::CoordinatorSearch(Find find) : over_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const BlockedSignals blocked;  // the thread must not take the program's signals
  try {
    thread_ = std::thread([this, find = std::move(find)] { run(find); });
  } catch (const std::system_error& error) {
    found_ = Error{Status::kNoMemory,
                   fmt::format("no thread to look for another one: {}", error.what())};
  }
}

CoordinatorSearch::~CoordinatorSearch() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void CoordinatorSearch::run(const Find& find) {
  auto found = find(stop_);
  {
    const std::lock_guard lock(mutex_);
    found_ = std::move(found);
  }
  ::eventfd_write(over_.get(), 1);
}

std::optional<Result<ResumedJob>> CoordinatorSearch::take() {
  const std::lock_guard lock(mutex_);
  eventfd_t ignored = 0;
  if (found_ && over_) ::eventfd_read(over_.get(), &ignored);  // a forked process may keep it open
  return std::exchange(found_, std::nullopt);
}

}  // namespace tally::client
