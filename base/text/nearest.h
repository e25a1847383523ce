// The word that a user may have meant when a word has a typing error.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tally {

// The word of `known` that is nearest, when it is near enough to be a typing error; else "".
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

// "; did you mean \"status\"?", or "" when no word is near enough.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

}  // namespace tally
