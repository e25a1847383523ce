#include "base/log/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "base/text/quoted.h"

namespace tally::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

bool is_plain(char c) {
  return c > ' ' && c < 0x7f && c != '"' && c != '\\' && c != '=';
}

}  // namespace

void start(Level level) {
  auto logger =
      std::make_shared<spdlog::logger>("tallyd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("time=%Y-%m-%dT%H:%M:%S.%e%z level=%l %v");
  logger->set_level(to_spdlog(level));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

void event(Level level, std::string_view name, std::initializer_list<Field> fields) {
  spdlog::logger* logger = spdlog::default_logger_raw();
  if (!logger->should_log(to_spdlog(level))) return;
  std::string line = fmt::format("event={}", name);
  for (const Field& field : fields) line += fmt::format(" {}={}", field.key, quoted(field.value));
  logger->log(to_spdlog(level), spdlog::string_view_t(line));
}

std::string quoted(std::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  return tally::quoted(text, "\\x%02x");
}

}  // namespace tally::log
