// Reading a request's parameters: typed, bounded, without exceptions. The first thing that is wrong
// is remembered and names the parameter, what it was and what it may be:
//   Params params(request.params);
//   const auto job = params.text("job", 128);
//   const auto rank = params.number("rank", 0, 1023);
//   if (auto error = params.finish()) return reply.error(*error);
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tally::rpc {

class Params {
 public:
  // Borrows `params` (an object).
  explicit Params(const nlohmann::json& params) : params_(params) {}

  // A required integer in [min, max]; min when it is wrong.
  std::uint64_t number(std::string_view key, std::uint64_t min, std::uint64_t max);
  // `otherwise` when it is missing (a value that is present and wrong is an error all the same).
  std::uint64_t number_or(std::string_view key, std::uint64_t min, std::uint64_t max,
                          std::uint64_t otherwise);
  // A required text of at most `max_bytes`.
  std::string text(std::string_view key, std::size_t max_bytes);
  std::string text_or(std::string_view key, std::size_t max_bytes, std::string_view otherwise);
  // A required array of `count` texts; texts that are empty when it is wrong.
  std::vector<std::string> texts(std::string_view key, std::size_t count, std::size_t max_bytes);
  bool flag_or(std::string_view key, bool otherwise);

  // What was wrong, if anything was; parameters that nobody asked for are wrong too.
  std::optional<Error> finish();

 private:
  const nlohmann::json* find(std::string_view key);
  void wrong(std::string message);

  const nlohmann::json& params_;
  std::vector<std::string_view> asked_;
  std::optional<Error> error_;
};

}  // namespace tally::rpc
