#include "base/text/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tally {
namespace {

// Returns how many insertions, deletions, replacements and swaps of adjacent characters lead from
// one text to the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  constexpr std::size_t kLongestWord = 64;  // longer words are not compared
  if (word.size() > kLongestWord) return {};
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const auto candidate : known) {
    const std::size_t far = distance(word, candidate);
    if (far < best_distance) {
      best = candidate;
      best_distance = far;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  const auto near = nearest(word, known);
  return near.empty() ? std::string() : fmt::format("; did you mean \"{}\"?", near);
}

}  // namespace tally
