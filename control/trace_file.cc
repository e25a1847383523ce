#include "control/trace_file.h"

#include <fmt/format.h>

#include "base/clock.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr int kProcess = 1;

double microseconds(std::int64_t ns) {
  return static_cast<double>(ns) / kMicrosecond;
}

std::int64_t stamp(const json& record, const char* key) {
  return record.value(key, std::int64_t{0});
}

}  // namespace

TraceFile::TraceFile(const std::string& job) {
  events_.push_back({{"ph", "M"},
                     {"name", "process_name"},
                     {"pid", kProcess},
                     {"args", {{"name", "tally job " + job}}}});
}

void TraceFile::name_track(std::uint32_t shard) {
  for (; tracks_ <= shard; ++tracks_) {
    events_.push_back({{"ph", "M"},
                       {"name", "thread_name"},
                       {"pid", kProcess},
                       {"tid", tracks_},
                       {"args", {{"name", fmt::format("shard {}", tracks_)}}}});
  }
}

// Asynchronous slices of one category and id nest.
void TraceFile::add_slice(const std::string& name, std::uint32_t shard, std::int64_t begin_ns,
                          std::int64_t end_ns, json arguments) {
  json event = {{"cat", fmt::format("shard {}", shard)},
                {"name", name},
                {"id", operations_},
                {"pid", kProcess},
                {"tid", shard},
                {"ph", "b"},
                {"ts", microseconds(begin_ns)}};
  json end = event;
  event["args"] = std::move(arguments);
  end["ph"] = "e";
  end["ts"] = microseconds(end_ns);
  events_.push_back(std::move(event));
  events_.push_back(std::move(end));
}

void TraceFile::add_record(std::uint32_t shard, const json& record) {
  ++operations_;
  const std::int64_t notice = stamp(record, "notice_ns");
  const std::int64_t ready = stamp(record, "ready_ns");
  const std::int64_t started = stamp(record, "started_ns");
  const std::int64_t completed = stamp(record, "completed_ns");
  add_slice(fmt::format("{} tag {} round {}", record.value("kind", ""), record.value("tag", 0u),
                        record.value("round", 0u)),
            shard, notice, completed, record);
  // A part that failed may have ended in any stage; one without data has no tiles.
  add_slice("waiting", shard, notice, ready != 0 ? ready : completed,
            {{"last_rank", record.value("last_rank", 0)}});
  if (ready == 0) return;
  add_slice("queueing", shard, ready, started != 0 ? started : completed, json::object());
  if (started == 0) return;
  add_slice("tiles", shard, started, completed,
            {{"pulling_us", microseconds(stamp(record, "pulling_ns"))},
             {"summing_us", microseconds(stamp(record, "summing_ns"))},
             {"pushing_us", microseconds(stamp(record, "pushing_ns"))}});
}

void TraceFile::add(std::uint32_t shard, const json& taken) {
  name_track(shard);
  dropped_ += taken.value("dropped", std::uint64_t{0});
  for (const json& record : taken.value("records", json::array())) add_record(shard, record);
}

json TraceFile::document() const {
  return {{"traceEvents", events_}, {"displayTimeUnit", "ns"}, {"dropped", dropped_}};
}

}  // namespace tally::control
