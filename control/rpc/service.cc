#include "control/rpc/service.h"

#include <fmt/format.h>

#include "control/log.h"
#include "control/rpc/message.h"

namespace tally::rpc {

Reply& Reply::operator=(Reply&& other) noexcept {
  if (this != &other) {
    drop();
    sink_ = std::move(other.sink_);
    id_ = std::move(other.id_);
    wanted_ = other.wanted_;
  }
  return *this;
}

void Reply::result(nlohmann::json value) {
  give(format_result(id_, std::move(value)));
}

void Reply::error(Status status, std::string_view message) {
  give(format_error(id_, status, message));
}

void Reply::unknown_method(std::string_view method) {
  give(format_fault(
      id_, {Code::kMethodNotFound,
            fmt::format("there is no method \"{}\" (docs/control.md lists them)", method)}));
}

void Reply::give(std::string line) {
  // The first answer is the answer: after it the sink is forgotten.
  const auto sink = std::exchange(sink_, {}).lock();
  if (sink) sink->answer(wanted_ ? std::move(line) : std::string());
}

void Reply::drop() noexcept {
  if (sink_.expired()) return;
  try {
    error(Status::kInternal, "the node dropped the request without an answer");
  } catch (const std::exception& failure) {
    log::error("reply-lost", {{"error", failure.what()}});
  }
}

}  // namespace tally::rpc
