// The table for people and the JSON for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perf/rank_row.h"

namespace tally::perf {

class Report {
 public:
  // Prints nothing but complaints when not `verbose`.
  Report(const Options& options, bool verbose);

  // What the run was made on; stands in the JSON. Before the first row.
  void set_session(const std::string& transport, std::uint32_t shards);

  void add(const Row& row, const Measurement& measurement);

  // The summary line, and the JSON file. False when the file cannot be written.
  bool finish();

  bool good() const { return complaints_ == 0; }

 private:
  const Options& options_;
  bool verbose_;
  std::uint64_t checked_ = 0;
  std::uint64_t wrong_ = 0;
  std::uint64_t stray_ = 0;
  std::size_t complaints_ = 0;
  bool header_printed_ = false;
  nlohmann::ordered_json document_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

}  // namespace tally::perf
