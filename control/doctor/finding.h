// What a check found, in the words that people read, and the reports made of it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tally::control::doctor {

// kNote: works, and there is something to know or to gain. kWarning: works, and badly or not
// always. kProblem: something that was set up here for RDMA or for Tally does not work.
enum class Level : std::uint8_t { kOk, kNote, kWarning, kProblem };

std::string_view level_name(Level level);

struct Finding {
  Level level = Level::kOk;
  std::string what;
  std::string value;
  std::string remedy;  // the command or the file to change; empty only where all is well
};
using Findings = std::vector<Finding>;

Finding ok(std::string what, std::string value);
Finding note(std::string what, std::string value, std::string remedy);
Finding warning(std::string what, std::string value, std::string remedy);
Finding problem(std::string what, std::string value, std::string remedy);
// What could not be read. A note: that this process may not see something does not break it.
Finding unknown(std::string what, const Error& error);

// What one check found.
struct Examined {
  std::string_view check;
  Findings findings;
};

std::size_t count(std::span<const Examined> report, Level level);
std::string render(std::span<const Examined> report);
nlohmann::json to_json(std::span<const Examined> report);

}  // namespace tally::control::doctor
