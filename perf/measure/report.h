// The output of a run: a table for people and JSON for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/system/output_file.h"
#include "perf/measure/rank_row.h"
#include "perf/prediction/prediction.h"

namespace tally::perf {

// Returns "fabric", or "fabric (rank 1,2) and shm (rank 0)".
std::string transport_text(const std::vector<std::string>& transports);

class Report {
 public:
  // `options` is borrowed for the life of the report. Without `verbose` it prints only complaints.
  Report(const Options& options, bool verbose);

  // Sets the facts of the session for the JSON. `transports` has the known transports by rank, at
  // least that of rank 0. Precondition: before the first row.
  void set_session(const std::vector<std::string>& transports, std::uint32_t shards);
  // Sets the prediction for the plan of several nodes. Precondition: before the first row.
  void set_prediction(const Prediction& prediction);
  // Sets what --ceiling measures, or why there is no ceiling.
  void set_ceiling(const std::string& text, bool there_is_one);

  // Opens the file of --json, so that a run does not lose its results later. Precondition: before
  // the first row.
  Outcome open_file();

  void add(const Row& row, const Measurement& measurement);

  // Prints the links of the largest predicted row and the summary line, and writes the JSON file.
  // False when the file cannot be written.
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
  std::optional<Prediction> prediction_;
  // Of the largest row that has a predicted time.
  std::uint64_t link_bytes_ = 0;
  double link_seconds_ = 0;
  std::optional<OutputFile> file_;  // of --json
  nlohmann::ordered_json document_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

}  // namespace tally::perf
