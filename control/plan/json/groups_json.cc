#include "control/plan/json/groups_json.h"

#include <fmt/format.h>

#include <set>

#include "control/plan/json/document.h"

namespace tally::plan {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kLongestWorker = 256;  // bytes of its name

double positive_of(const Value& value, double most, std::string_view must) {
  const double number = value.number(must);
  if (number >= 1e-9 && number <= most) return number;
  value.refuse(must);
  return 1;
}

double speed_per_second(const Value& value) {
  const double speed = positive_of(value, 1e15, "bytes per second, 1 to 1e15");
  if (speed < 1) value.refuse("bytes per second, 1 to 1e15");
  return speed;
}

std::string worker_name(const Value& value, std::set<std::string>& names) {
  std::string name = value.text(kLongestWorker);
  if (name.empty() || !names.insert(name).second) {
    value.refuse("a name that no other machine has, and not empty");
  }
  return name;
}

}  // namespace

Result<StepsFile> read_steps(std::string_view text) {
  const auto document = parse_document(text, kMaxStepsBytes);
  if (!document) return document.error();
  Mistake mistake;
  const Value file(*document, mistake);
  file.expect_format(kStepsFormat);
  file.expect_object({"fmt", "bytes", "batch", "nic", "server", "workers"});
  if (mistake.any()) return invalid(mistake.text());
  StepsFile read;
  read.problem.bytes = positive_of(file.member("bytes"), 1e15, "bytes, above 0, up to 1e15");
  if (file.has("batch")) {
    read.problem.batch = positive_of(file.member("batch"), 1e9, "samples, above 0, up to 1e9");
  }
  read.problem.nic = speed_per_second(file.member("nic"));
  std::set<std::string> names;
  const Value server = file.member("server");
  server.expect_object({"name", "speed"});
  read.server = worker_name(server.member("name"), names);
  read.problem.server = speed_per_second(server.member("speed"));
  const Value workers = file.member("workers");
  const std::size_t count = workers.size(groups::kMaxWorkers);
  if (count == 0) workers.refuse("a list of at least one worker");
  for (std::size_t i = 0; i < count && !mistake.any(); ++i) {
    const Value entry = workers.entry(i);
    entry.expect_object({"name", "step"});
    groups::Worker worker;
    worker.name = worker_name(entry.member("name"), names);
    worker.step = positive_of(entry.member("step"), 1e9, "seconds, above 0, up to 1e9");
    read.problem.workers.push_back(std::move(worker));
  }
  if (mistake.any()) return invalid(mistake.text());
  return read;
}

std::string write_steps(const StepsFile& file) {
  const auto dump = [](const ordered_json& value) {
    return value.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
  };
  const groups::Problem& problem = file.problem;
  std::string text = fmt::format(
      "{{\"fmt\":\"{}\",\"bytes\":{},\"batch\":{},\"nic\":{},\n \"server\":{},\n \"workers\":[",
      kStepsFormat, dump(problem.bytes), dump(problem.batch), dump(problem.nic),
      dump({{"name", file.server}, {"speed", problem.server}}));
  for (std::size_t i = 0; i < problem.workers.size(); ++i) {
    const groups::Worker& worker = problem.workers[i];
    text += (i == 0 ? "\n  " : ",\n  ") + dump({{"name", worker.name}, {"step", worker.step}});
  }
  return text + "]}\n";
}

}  // namespace tally::plan
