// A trace of operations as a file in the trace-event format of Chromium, which ui.perfetto.dev and
// chrome://tracing open: a process for the job, a track for each shard, on it each part as an
// asynchronous slice from its first notice to its completion, with slices for waiting, queueing and
// tiles below it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tally::control {

class TraceFile {
 public:
  explicit TraceFile(const std::string& job);

  // An answer of node.trace_take.
  void add(std::uint32_t shard, const nlohmann::json& taken);

  std::uint64_t operations() const { return operations_; }
  // Parts that ended, but were overwritten before they were taken.
  std::uint64_t dropped() const { return dropped_; }

  // The whole file.
  nlohmann::json document() const;

 private:
  void add_record(std::uint32_t shard, const nlohmann::json& record);
  void add_slice(const std::string& name, std::uint32_t shard, std::int64_t begin_ns,
                 std::int64_t end_ns, nlohmann::json arguments);
  void name_track(std::uint32_t shard);

  nlohmann::json events_ = nlohmann::json::array();
  std::uint32_t tracks_ = 0;
  std::uint64_t operations_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace tally::control
