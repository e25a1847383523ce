// The table for people and the JSON for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "perf/prediction.h"
#include "perf/rank_row.h"

namespace tally::perf {

// "fabric", or "fabric (rank 1,2) and shm (rank 0)".
std::string transport_words(const std::vector<std::string>& transports);

class Report {
 public:
  // Prints nothing but complaints when not `verbose`.
  Report(const Options& options, bool verbose);

  // What the run was made on; stands in the JSON. Before the first row. The transports by rank, as
  // far as they are known: at least rank 0's.
  void set_session(const std::vector<std::string>& transports, std::uint32_t shards);
  // What the plan of many nodes promises. Before the first row.
  void set_prediction(const Prediction& prediction);
  // What --ceiling measures, or why there is none.
  void set_ceiling(const std::string& words, bool there_is_one);

  void add(const Row& row, const Measurement& measurement);

  // The links of the largest predicted row, the summary line, and the JSON file. False when the
  // file cannot be written.
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
  nlohmann::ordered_json document_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

}  // namespace tally::perf
