#include "net/rpc/params.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::rpc {
namespace {

// The value as the peer wrote it, shortened so that it cannot fill a message.
std::string shown(const nlohmann::json& value) {
  constexpr std::size_t kMaxShown = 60;
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text;
}

}  // namespace

const nlohmann::json* Params::find(std::string_view key) {
  asked_.push_back(key);
  const auto at = params_.find(key);
  return at == params_.end() ? nullptr : &*at;
}

void Params::wrong(std::string message) {
  if (!error_) error_ = Error{Status::kInvalidArgument, std::move(message)};
}

std::uint64_t Params::number(std::string_view key, std::uint64_t min, std::uint64_t max) {
  if (!params_.contains(key)) wrong(fmt::format("parameter \"{}\" is missing", key));
  return number_or(key, min, max, min);
}

std::uint64_t Params::number_or(std::string_view key, std::uint64_t min, std::uint64_t max,
                                std::uint64_t otherwise) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  // A number that was parsed from text is unsigned where possible. A number that code made need not
  // be.
  if (value->is_number_unsigned() ||
      (value->is_number_integer() && value->get<std::int64_t>() >= 0)) {
    const auto number = value->get<std::uint64_t>();
    if (number >= min && number <= max) return number;
  }
  wrong(fmt::format("parameter \"{}\" is {}: must be an integer from {} to {}", key, shown(*value),
                    min, max));
  return otherwise;
}

std::string Params::text(std::string_view key, std::size_t max_bytes) {
  if (!params_.contains(key)) wrong(fmt::format("parameter \"{}\" is missing", key));
  return text_or(key, max_bytes, "");
}

std::string Params::text_or(std::string_view key, std::size_t max_bytes,
                            std::string_view otherwise) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::string(otherwise);
  if (const auto* text = value->get_ptr<const std::string*>();
      text != nullptr && text->size() <= max_bytes) {
    return *text;
  }
  // The value is not shown: it may be a token.
  wrong(fmt::format("parameter \"{}\" must be a string of at most {} bytes", key, max_bytes));
  return std::string(otherwise);
}

std::vector<std::string> Params::texts(std::string_view key, std::size_t count,
                                       std::size_t max_bytes) {
  std::vector<std::string> texts;
  const nlohmann::json* value = find(key);
  for (std::size_t i = 0; value != nullptr && value->is_array() && i < value->size(); ++i) {
    const auto* text = (*value)[i].get_ptr<const std::string*>();
    if (text != nullptr && text->size() <= max_bytes && i < count) texts.push_back(*text);
  }
  if (value == nullptr || texts.size() != count || value->size() != count) {
    wrong(fmt::format("parameter \"{}\" must be an array of {} strings of at most {} bytes", key,
                      count, max_bytes));
  }
  texts.resize(count);
  return texts;
}

bool Params::flag_or(std::string_view key, bool otherwise) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  wrong(fmt::format("parameter \"{}\" is {}: must be true or false", key, shown(*value)));
  return otherwise;
}

std::optional<Error> Params::finish() {
  std::string known;
  for (const auto key : asked_) known.append(known.empty() ? "" : ", ").append(key);
  for (const auto& item : params_.items()) {
    if (std::find(asked_.begin(), asked_.end(), item.key()) != asked_.end()) continue;
    wrong(fmt::format("parameter \"{}\" is unknown: this method takes {}", item.key().substr(0, 60),
                      known.empty() ? "none" : known));
  }
  return error_;
}

}  // namespace tally::rpc
