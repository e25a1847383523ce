// The command line of a run as one struct, with defaults and checks. A spawned worker gets the same
// struct as JSON.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/element.h"
#include "base/result.h"
#include "client/include/tally/tally.h"
#include "perf/gradients/gradient.h"
#include "perf/options/schedule.h"

namespace tally::perf {

enum class Memory : std::uint8_t { kAlloc, kShared, kAdopt, kStage, kCuda };
inline constexpr std::array<std::string_view, 5> kMemoryNames = {"alloc", "shared", "adopt",
                                                                 "stage", "cuda"};

struct Options {
  // What the run measures.
  tally_kind kind = TALLY_ALL_REDUCE;
  std::uint64_t min_bytes = 4096;
  std::uint64_t max_bytes = 64 << 20;
  std::uint64_t factor = 2;
  std::vector<std::string> models;  // empty: a sweep of sizes
  std::vector<std::string> modes = {"buckets"};
  std::uint64_t bucket_bytes = 25 << 20;
  std::vector<ElementType> types = {ElementType::kF32};
  std::vector<Operation> operations = {Operation::kSum};
  std::uint32_t root = 0;
  std::uint32_t inflight = 1;
  std::uint32_t iterations = 20;
  double duration_s = 0;  // seconds; not 0: as many iterations as fit into this time, instead of
                          // `iterations`
  std::uint32_t warmup = 5;
  bool stream = false;   // posts again at once what has completed
  bool latency = false;  // one operation at a time, and the full range of its times

  // How the run measures.
  bool in_place = false;
  Memory memory = Memory::kAlloc;
  std::uint64_t misalign = 0;
  bool shuffle = false;
  std::uint64_t shuffle_seed = 0;
  std::uint64_t seed = 1;

  // What the run verifies.
  bool check = false;
  bool check_each = false;
  bool checks() const { return check || check_each; }
  bool stats = false;
  bool nonfinite = false;
  bool integers = false;  // gradients are small integers, whose sums do not depend on the order

  // The ranks and hosts of the run.
  std::uint32_t spawn = 0;
  std::uint32_t rank = UINT32_MAX;
  std::uint32_t ranks = 0;
  std::vector<std::uint32_t> ranks_here;  // --rank; with --serve and --join there can be several
  std::string serve;                      // "host:port" where other hosts join this run
  std::string join;                       // "host:port" of the run that this host joins
  double join_timeout_s = 60;
  std::string transport = "auto";
  std::string address;
  bool address_is_from_environment = false;  // for messages
  std::string job;
  std::string token;
  std::string
      conductor_host;  // of a worker: where the conductor of its run is; empty: on this host
  std::uint32_t deadline_ms = 0;
  double timeout_s = 300;

  // The node of --spawn without --address.
  std::string tallyd;
  std::uint32_t shards = 0;
  std::string tile_bytes;
  std::string isa;
  std::string poll;
  std::vector<std::string> node_arguments;

  // What the run prints.
  bool breakdown = false;
  bool ceiling = false;
  std::uint32_t ceiling_threads = 0;
  bool gbits = false;   // bandwidths in Gbit/s
  std::string network;  // a file of speeds or links for the prediction; empty: none
  std::string json;
  bool brief = false;
  bool quiet = false;

  Specials specials() const {
    if (nonfinite) return Specials::kAll;
    if (integers) return Specials::kNone;
    return check || check_each ? Specials::kFinite : Specials::kNone;
  }
  bool verifies() const { return check || check_each; }
  // In-place operations overwrite their inputs, and --check-each needs new inputs each time.
  bool refills() const { return in_place || check_each; }
};

inline constexpr int kExitWrong = 1;   // an element, a statistic or a hash was wrong
inline constexpr int kExitUsage = 2;   // the command line is not valid
inline constexpr int kExitFailed = 3;  // an operation, a worker or the node failed
inline constexpr int kExitTimeout = 124;

// Returns the options, or the exit status after the parser has printed its text (--help or an
// error).
std::variant<Options, int> parse_options(int argc, char** argv);

// Parses `words` (without the program) on top of `base` instead of the defaults. Options that no
// word names stay as in `base`. Checks and prints nothing.
Result<Options> parse_onto(Options base, std::vector<std::string> arguments);

// Finds flags that contradict each other and values out of range. parse_options() calls it.
Outcome check_options(const Options& options);

nlohmann::json to_json(const Options& options);
Options options_from_json(const nlohmann::json& json);
// Reads options of another host, which can send anything. Fails unless a command line can express
// them.
Result<Options> options_from_network(const nlohmann::json& json);

std::string_view kind_name(tally_kind kind);

// Makes all rows of the run, in order; the same at every rank. Fails for an unknown model.
Result<std::vector<Row>> make_rows(const Options& options);

// The bytes of one rank's buffers. The parent of spawned workers multiplies them by the number of
// workers.
std::uint64_t arena_bytes(const Options& options, const std::vector<Row>& rows);

}  // namespace tally::perf
