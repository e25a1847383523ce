// The findings of a check, as text for people, and the reports made of them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tally::control::doctor {

// kNote: it works, and the note has a fact or a possible gain. kWarning: it works badly or not
// always. kProblem: something that is set up for RDMA or for Tally does not work.
enum class Level : std::uint8_t { kOk, kNote, kWarning, kProblem };

std::string_view level_name(Level level);

struct Finding {
  Level level = Level::kOk;
  std::string what;
  std::string value;
  std::string remedy;  // the command or the file to change; empty only with kOk
};
using Findings = std::vector<Finding>;

Finding ok(std::string what, std::string value);
Finding note(std::string what, std::string value, std::string remedy);
Finding warning(std::string what, std::string value, std::string remedy);
Finding problem(std::string what, std::string value, std::string remedy);
// Reports an object that this process could not read. It is a note, because the object may still
// work.
Finding unknown(std::string what, const Error& error);

// The findings of one check.
struct Examined {
  std::string_view check;
  Findings findings;
};

std::size_t count(std::span<const Examined> report, Level level);
std::string render(std::span<const Examined> report);
nlohmann::json to_json(std::span<const Examined> report);

}  // namespace tally::control::doctor
