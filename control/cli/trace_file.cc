#include "control/cli/trace_file.h"

#include <fmt/format.h>

#include "base/clock.h"

namespace tally::control {
namespace {

using nlohmann::json;

double microseconds(std::int64_t ns) {
  return static_cast<double>(ns) / kMicrosecond;
}

std::int64_t stamp(const json& record, const char* key) {
  return record.value(key, std::int64_t{0});
}

// Trace viewers reserve process 0 for the kernel.
std::uint32_t process_of(std::uint32_t shard) {
  return shard + 1;
}

// Names come from clients, so they need not be UTF-8.
std::string dump(const json& event) {
  return event.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

TraceFile::TraceFile(std::ostream& out, const std::string& job) : out_(out), job_(job) {
  out_ << R"({"displayTimeUnit":"ns","traceEvents":[)";
}

void TraceFile::name_process(std::uint32_t shard) {
  for (; processes_ <= shard; ++processes_) {
    write({{"ph", "M"},
           {"name", "process_name"},
           {"pid", process_of(processes_)},
           {"args", {{"name", fmt::format("job {}, shard {}", job_, processes_)}}}});
  }
}

// Asynchronous slices of one category and id nest by time, and then by their order in the file.
void TraceFile::write(char phase, const std::string& name, std::uint32_t shard, std::int64_t ns,
                      json arguments) {
  json event = {{"cat", "part"},
                {"name", name},
                {"id", operations_},
                {"pid", process_of(shard)},
                {"ph", std::string(1, phase)},
                {"ts", microseconds(ns)}};
  if (!arguments.is_null()) event["args"] = std::move(arguments);
  write(event);
}

void TraceFile::add_record(std::uint32_t shard, const json& record) {
  ++operations_;
  const std::string name =
      fmt::format("{} tag {}", record.value("kind", ""), record.value("tag", 0u));
  write('b', name, shard, stamp(record, "notice_ns"), record);
  add_stages(shard, record);
  write('e', name, shard, stamp(record, "completed_ns"));
}

// A part that failed may have ended in any stage. A part without data has no tiles.
void TraceFile::add_stages(std::uint32_t shard, const json& record) {
  const std::int64_t ready = stamp(record, "ready_ns");
  const std::int64_t started = stamp(record, "started_ns");
  const std::int64_t completed = stamp(record, "completed_ns");
  write('b', "waiting", shard, stamp(record, "notice_ns"),
        {{"last_rank", record.value("last_rank", 0)}});
  write('e', "waiting", shard, ready != 0 ? ready : completed);
  if (ready == 0) return;
  write('b', "queueing", shard, ready);
  write('e', "queueing", shard, started != 0 ? started : completed);
  if (started == 0) return;
  write('b', "tiles", shard, started,
        {{"pulling_us", microseconds(stamp(record, "pulling_ns"))},
         {"summing_us", microseconds(stamp(record, "summing_ns"))},
         {"pushing_us", microseconds(stamp(record, "pushing_ns"))}});
  write('e', "tiles", shard, completed);
}

void TraceFile::add(std::uint32_t shard, const json& taken) {
  name_process(shard);
  dropped_ += taken.value("dropped", std::uint64_t{0});
  for (const json& record : taken.at("records")) add_record(shard, record);
}

void TraceFile::write(const json& event) {
  out_ << (is_first_ ? "\n" : ",\n") << dump(event);
  is_first_ = false;
}

void TraceFile::finish() {
  out_ << "\n],\"dropped\":" << dropped_ << "}\n";
}

}  // namespace tally::control
