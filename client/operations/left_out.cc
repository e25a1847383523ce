#include "client/operations/left_out.h"

#include <algorithm>

namespace tally::client {
namespace {

constexpr std::size_t kMostNamed = 2;

std::string text_of(const std::vector<std::uint16_t>& ranks) {
  std::string text = ranks.size() == 1 ? "without rank " : "without ranks ";
  const std::size_t named = std::min(ranks.size(), kMostNamed);
  for (std::size_t i = 0; i < named; ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (ranks.size() > named) text += " and " + std::to_string(ranks.size() - named) + " more";
  return text;
}

}  // namespace

std::shared_ptr<const LeftOut> make_left_out(const std::vector<std::uint16_t>& ranks) {
  if (ranks.empty()) return nullptr;
  return std::make_shared<const LeftOut>(LeftOut{ranks, text_of(ranks)});
}

std::optional<std::uint16_t> needed_rank(const LeftOut& left_out, const protocol::Shape& shape) {
  const auto found = std::find_if(left_out.ranks.begin(), left_out.ranks.end(),
                                  [&](std::uint16_t rank) { return protocol::needs(shape, rank); });
  return found != left_out.ranks.end() ? std::optional(*found) : std::nullopt;
}

}  // namespace tally::client
