// A trace of operations as a file in Chromium's trace-event format, which ui.perfetto.dev and
// chrome://tracing open. Each shard is a process. Each tag is a track of its shard: viewers make
// one track of the asynchronous slices of one name, and the rounds of a tag never overlap. Each
// part is a slice from its first notice to its completion. Below it are slices for waiting,
// queueing and tiles.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

namespace tally::control {

class TraceFile {
 public:
  // Writes each record at once, because a busy job has a hundred thousand operations per second.
  // `out` is borrowed.
  TraceFile(std::ostream& out, const std::string& job);

  // Adds an answer of node.trace_take.
  void add(std::uint32_t shard, const nlohmann::json& taken);

  std::uint64_t operations() const { return operations_; }
  // Parts that ended but were overwritten before they were taken.
  std::uint64_t dropped() const { return dropped_; }

  // Writes the end of the file.
  void finish();

 private:
  void add_record(std::uint32_t shard, const nlohmann::json& record);
  void add_stages(std::uint32_t shard, const nlohmann::json& record);
  void name_process(std::uint32_t shard);
  // Writes the beginning ('b') or the end ('e') of a slice.
  void write(char phase, const std::string& name, std::uint32_t shard, std::int64_t ns,
             nlohmann::json arguments = nullptr);
  void write(const nlohmann::json& event);

  std::ostream& out_;
  std::string job_;
  std::uint32_t processes_ = 0;
  bool is_first_ = true;  // no event is written yet
  std::uint64_t operations_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace tally::control
