// A trace of operations as a file in the trace-event format of Chromium, which ui.perfetto.dev and
// chrome://tracing open. Each shard is a process of its own, in it each tag a track (viewers make
// one of the asynchronous slices of one name; the rounds of a tag never overlap), on it each part a
// slice from its first notice to its completion, with slices for waiting, queueing and tiles below
// it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

namespace tally::control {

class TraceFile {
 public:
  // Written as it comes: a busy job has a hundred thousand operations a second. `out` is borrowed.
  TraceFile(std::ostream& out, const std::string& job);

  // An answer of node.trace_take.
  void add(std::uint32_t shard, const nlohmann::json& taken);

  std::uint64_t operations() const { return operations_; }
  // Parts that ended, but were overwritten before they were taken.
  std::uint64_t dropped() const { return dropped_; }

  // The end of the file.
  void finish();

 private:
  void add_record(std::uint32_t shard, const nlohmann::json& record);
  void add_stages(std::uint32_t shard, const nlohmann::json& record);
  void name_process(std::uint32_t shard);
  // The beginning ('b') or the end ('e') of a slice.
  void write(char phase, const std::string& name, std::uint32_t shard, std::int64_t ns,
             nlohmann::json arguments = nullptr);
  void write(const nlohmann::json& event);

  std::ostream& out_;
  std::string job_;
  std::uint32_t processes_ = 0;
  bool is_first_ = true;  // of the events
  std::uint64_t operations_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace tally::control
