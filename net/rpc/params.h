// Reads a request's parameters: typed, bounded, without exceptions. The reader remembers the first
// wrong parameter. The error names the parameter, its value and the permitted values:
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

  // Returns a required integer in [min, max]. Returns min when it is wrong.
  std::uint64_t number(std::string_view key, std::uint64_t min, std::uint64_t max);
  // Returns `otherwise` when the parameter is missing. A present but wrong value is still an error.
  std::uint64_t number_or(std::string_view key, std::uint64_t min, std::uint64_t max,
                          std::uint64_t otherwise);
  // Returns a required text of at most `max_bytes`.
  std::string text(std::string_view key, std::size_t max_bytes);
  std::string text_or(std::string_view key, std::size_t max_bytes, std::string_view otherwise);
  // Returns a required array of `count` texts. Always returns `count` texts: missing or wrong ones
  // are empty.
  std::vector<std::string> texts(std::string_view key, std::size_t count, std::size_t max_bytes);
  bool flag_or(std::string_view key, bool otherwise);

  // Returns the first error, if any. A parameter that the caller has not read is an error too.
  std::optional<Error> finish();

 private:
  const nlohmann::json* find(std::string_view key);
  void wrong(std::string message);

  const nlohmann::json& params_;
  std::vector<std::string_view> asked_;
  std::optional<Error> error_;
};

}  // namespace tally::rpc
