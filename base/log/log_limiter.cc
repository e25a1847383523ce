#include "base/log/log_limiter.h"

#include <utility>

namespace tally::log {

Limiter::Window& Limiter::window_of(std::string_view reason, Nanos now) {
  auto found = windows_.find(reason);
  if (found == windows_.end()) {
    const std::string_view key = windows_.size() < kMostReasons ? reason : "other";
    found = windows_.try_emplace(std::string(key), Window{.began = now}).first;
  }
  return found->second;
}

bool Limiter::allows(std::string_view reason, Nanos now) {
  Window& window = window_of(reason, now);
  if (now - window.began >= span_) {
    window.began = now;
    window.written = 0;
  }
  if (window.written < lines_) {
    ++window.written;
    return true;
  }
  if (window.left_out++ == 0) window.left_out_since = now;
  ++left_out_;
  return false;
}

std::vector<Limiter::LeftOut> Limiter::take_left_out(Nanos now) {
  std::vector<LeftOut> all;
  for (auto& [reason, window] : windows_) {
    if (window.left_out == 0 || now - window.left_out_since < span_) continue;
    all.push_back({reason, std::exchange(window.left_out, 0)});
    left_out_ -= all.back().lines;
  }
  return all;
}

}  // namespace tally::log
