#include "control/trace_file.h"

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

// Names come from clients: they need not be UTF-8.
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
           {"pid", processes_},
           {"args", {{"name", fmt::format("job {}, shard {}", job_, processes_)}}}});
  }
}

// Asynchronous slices of one category and id nest.
void TraceFile::add_slice(const std::string& name, std::uint32_t shard, std::int64_t begin_ns,
                          std::int64_t end_ns, json arguments) {
  json event = {{"cat", "part"}, {"name", name}, {"id", operations_},
                {"pid", shard},  {"ph", "b"},    {"ts", microseconds(begin_ns)}};
  json end = event;
  event["args"] = std::move(arguments);
  end["ph"] = "e";
  end["ts"] = microseconds(end_ns);
  write(event);
  write(end);
}

void TraceFile::add_record(std::uint32_t shard, const json& record) {
  ++operations_;
  const std::int64_t notice = stamp(record, "notice_ns");
  const std::int64_t ready = stamp(record, "ready_ns");
  const std::int64_t started = stamp(record, "started_ns");
  const std::int64_t completed = stamp(record, "completed_ns");
  add_slice(fmt::format("{} tag {}", record.value("kind", ""), record.value("tag", 0u)), shard,
            notice, completed, record);
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
  name_process(shard);
  dropped_ += taken.value("dropped", std::uint64_t{0});
  for (const json& record : taken.value("records", json::array())) add_record(shard, record);
}

void TraceFile::write(const json& event) {
  out_ << (is_first_ ? "\n" : ",\n") << dump(event);
  is_first_ = false;
}

void TraceFile::finish() {
  out_ << "\n],\"dropped\":" << dropped_ << "}\n";
}

}  // namespace tally::control
