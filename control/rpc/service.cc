#include "control/rpc/service.h"

#include <fmt/format.h>

#include "control/log.h"
#include "control/rpc/message.h"

namespace tally::rpc {

Reply& Reply::operator=(Reply&& other) noexcept {
  if (this != &other) {
    drop();
    sink_ = std::move(other.sink_);
    gate_ = std::move(other.gate_);
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
  std::weak_ptr<ReplySink> sink = std::exchange(sink_, {});
  if (sink.expired()) return;
  if (!wanted_) line.clear();
  auto say = [sink = std::move(sink), line = std::move(line)]() mutable {
    if (const auto there = sink.lock()) there->answer(std::move(line));
  };
  if (!gate_) return say();
  gate_(std::move(say));
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
