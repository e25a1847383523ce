#include "control/plan/json/sections_json.h"

#include <fmt/format.h>

#include "control/plan/model/plan.h"

namespace tally::plan {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestDomain = 256;  // bytes of its name
constexpr double kLongestMicrobatch = 1e9;   // seconds

std::vector<std::uint32_t> read_numbers(const Value& list, std::size_t most_entries,
                                        std::int64_t least, std::int64_t most) {
  std::vector<std::uint32_t> numbers;
  const std::size_t size = list.size(most_entries);
  for (std::size_t i = 0; i < size; ++i) {
    numbers.push_back(static_cast<std::uint32_t>(list.entry(i).integer(least, most)));
  }
  return numbers;
}

StageSection read_stage(const Value& entry) {
  entry.expect_object({"blocks", "ranks", "recompute", "inflight", "domain"});
  StageSection stage;
  const Value blocks = entry.member("blocks");
  const auto ends = read_numbers(blocks, 2, 0, kMaxModelBlocks);
  if (ends.size() == 2) {
    stage.first_block = ends[0];
    stage.end_block = ends[1];
  } else {
    blocks.refuse("[first block, end]");
  }
  stage.ranks = read_numbers(entry.member("ranks"), kMaxRanks, 0, kMaxRanks - 1);
  if (entry.has("recompute")) {
    stage.recompute = read_numbers(entry.member("recompute"), kMaxRanks, 0, kMaxModelBlocks);
  }
  stage.in_flight = static_cast<std::uint32_t>(entry.member("inflight").integer(1, kMaxRanks));
  stage.domain = entry.member("domain").text(kLongestDomain);
  return stage;
}

std::string dump_line(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

PipelineSection read_pipeline_section(const Value& section) {
  section.expect_object({"order", "stages", "t_bottleneck"});
  PipelineSection read;
  read.order = read_numbers(section.member("order"), kMaxRanks, 0, kMaxRanks - 1);
  const Value stages = section.member("stages");
  const std::size_t count = stages.size(kMaxStages);
  for (std::size_t i = 0; i < count; ++i) read.stages.push_back(read_stage(stages.entry(i)));
  const Value bottleneck = section.member("t_bottleneck");
  read.bottleneck = bottleneck.number();
  if (!(read.bottleneck >= 0 && read.bottleneck <= kLongestMicrobatch)) {
    bottleneck.refuse("seconds, 0 to 1e9");
    read.bottleneck = 0;
  }
  return read;
}

AsyncSection read_async_section(const Value& section) {
  section.expect_object({"root", "groups", "max_staleness", "local_steps"});
  AsyncSection read;
  read.root = static_cast<std::uint32_t>(
      section.member("root").integer(0, static_cast<std::int64_t>(kMaxVertices) - 1));
  const Value groups = section.member("groups");
  const std::size_t count = groups.size(kMaxDomains);
  for (std::size_t i = 0; i < count; ++i) {
    read.groups.push_back(groups.entry(i).text(kLongestDomain));
  }
  const Value staleness = section.member("max_staleness");
  if (!staleness.is_null()) {
    read.max_staleness = static_cast<std::uint32_t>(staleness.integer(0, UINT32_MAX));
  }
  read.local_steps = read_numbers(section.member("local_steps"), kMaxDomains, 1, UINT32_MAX);
  return read;
}

std::string write_section(const PipelineSection& section) {
  std::string text = fmt::format("{{\"order\":{},\n  \"stages\":[", dump_line(section.order));
  for (std::size_t i = 0; i < section.stages.size(); ++i) {
    const StageSection& stage = section.stages[i];
    text += fmt::format(
        "{}\n   {{\"blocks\":[{},{}],\"ranks\":{},\"recompute\":{},\"inflight\":{},\"domain\":{}}}",
        i == 0 ? "" : ",", stage.first_block, stage.end_block, dump_line(stage.ranks),
        dump_line(stage.recompute), stage.in_flight, dump_line(stage.domain));
  }
  return text + fmt::format("],\n  \"t_bottleneck\":{}}}", dump_line(section.bottleneck));
}

std::string write_section(const AsyncSection& section) {
  const json staleness = section.max_staleness ? json(*section.max_staleness) : json();
  return fmt::format("{{\"root\":{},\"groups\":{},\"max_staleness\":{},\"local_steps\":{}}}",
                     section.root, dump_line(section.groups), dump_line(staleness),
                     dump_line(section.local_steps));
}

}  // namespace tally::plan
