#include "net/rpc/terms.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tally::rpc {

using nlohmann::json;

std::uint64_t term_of(const json& message) {
  const json term = message.is_object() ? message.value("term", json()) : json();
  return term.is_number_unsigned() ? term.get<std::uint64_t>() : 0;
}

Outcome HighestTerm::accept(const json& message) {
  const std::uint64_t term = term_of(message);
  if (term < value_) {
    return Error{
        Status::kUnavailable,
        fmt::format("the coordinator's term {} has ended: one with term {} acts", term, value_)};
  }
  value_ = term;
  return Unit{};
}

}  // namespace tally::rpc
