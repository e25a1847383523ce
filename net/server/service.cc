#include "net/server/service.h"

#include <fmt/format.h>

#include "base/log/log.h"
#include "net/rpc/message.h"

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

void Reply::set_grant(Grant grant, bool held) const {
  if (const auto there = sink_.lock()) there->set_grant(grant, held);
}

void Reply::result(nlohmann::json value) {
  give(format_result(id_, std::move(value)));
}

void Reply::result_text(std::string_view json) {
  give(format_result_text(id_, json));
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
  // Only the first answer counts, so it forgets the sink.
  std::weak_ptr<ReplySink> sink = std::exchange(sink_, {});
  if (sink.expired()) return;
  if (!wanted_) line.clear();
  auto send = [sink = std::move(sink), line = std::move(line)]() mutable {
    if (const auto there = sink.lock()) there->answer(std::move(line));
  };
  if (!gate_) return send();
  gate_(std::move(send));
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
