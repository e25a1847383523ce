// What a run was asked to do: the command line as one struct, defaulted and checked. A spawned
// worker gets the same struct as JSON.
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
#include "perf/gradient.h"
#include "perf/plan.h"

namespace tally::perf {

enum class Memory : std::uint8_t { kAlloc, kShared, kAdopt, kStage };
inline constexpr std::array<std::string_view, 4> kMemoryNames = {"alloc", "shared", "adopt",
                                                                 "stage"};

struct Options {
  // What is measured.
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
  double duration_s = 0;  // not 0: as many iterations as fit into this time, instead
  std::uint32_t warmup = 5;
  bool stream = false;   // what has completed is posted again at once
  bool latency = false;  // one operation at a time, and the whole range of its times

  // How.
  bool in_place = false;
  Memory memory = Memory::kAlloc;
  std::uint64_t misalign = 0;
  bool shuffle = false;
  std::uint64_t shuffle_seed = 0;
  std::uint64_t seed = 1;

  // What is verified.
  bool check = false;
  bool check_each = false;
  bool stats = false;
  bool nonfinite = false;
  bool integers = false;  // gradients are small integers, whose sums do not depend on the order

  // Who takes part.
  std::uint32_t spawn = 0;
  std::uint32_t rank = UINT32_MAX;
  std::uint32_t ranks = 0;
  std::vector<std::uint32_t> ranks_here;  // --rank; with --serve and --join there may be many
  std::string serve;                      // "host:port" where other hosts join this run
  std::string join;                       // "host:port" of the run to bring workers to
  double join_timeout_s = 60;
  std::string transport = "auto";
  std::string address;
  std::string job;
  std::string token;
  std::uint32_t deadline_ms = 0;
  double timeout_s = 300;

  // The node of --spawn without --address.
  std::string tallyd;
  std::uint32_t shards = 0;
  std::string tile_bytes;
  std::string isa;
  std::string poll;
  std::vector<std::string> node_arguments;

  // What is told.
  bool breakdown = false;
  bool ceiling = false;
  std::uint32_t ceiling_threads = 0;
  bool gbits = false;   // bandwidths in Gbit/s
  std::string network;  // a file of speeds or links, for what the plan promises; empty: none
  std::string json;
  bool brief = false;
  bool quiet = false;

  Specials specials() const {
    if (nonfinite) return Specials::kAll;
    if (integers) return Specials::kNone;
    return check || check_each ? Specials::kFinite : Specials::kNone;
  }
  bool verifies() const { return check || check_each; }
  // In-place operations consume their inputs, and --check-each wants new ones each time.
  bool refills() const { return in_place || check_each; }
};

inline constexpr int kExitWrong = 1;   // an element, a statistic or a hash was wrong
inline constexpr int kExitUsage = 2;   // the command line makes no sense
inline constexpr int kExitFailed = 3;  // an operation, a worker or the node failed
inline constexpr int kExitTimeout = 124;

// The options, or the exit status after the parser has said all there is to say (--help, or an
// error).
std::variant<Options, int> parse_options(int argc, char** argv);

// The same words on top of other options than the defaults, which stay where no word says anything
// else; nothing is checked or printed. The words do not begin with the program.
Result<Options> parse_onto(Options base, std::vector<std::string> words);

// Flags that contradict each other, values out of range. (parse_options calls it.)
Outcome check_options(const Options& options);

nlohmann::json to_json(const Options& options);
Options options_from_json(const nlohmann::json& json);
// From another host, who may send anything: fails unless a command line could have said the same.
Result<Options> options_from_network(const nlohmann::json& json);

std::string_view kind_name(tally_kind kind);

// Everything that is measured, in order; the same at every rank. Fails for an unknown model.
Result<std::vector<Row>> make_rows(const Options& options);

// What a rank needs for its buffers; the parent of spawned workers multiplies.
std::uint64_t arena_bytes(const Options& options, const std::vector<Row>& rows);

}  // namespace tally::perf
