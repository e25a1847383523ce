#include "perf/options/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/text/nearest.h"
#include "base/text/sizes.h"

namespace tally::perf {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Options, kind, min_bytes, max_bytes, factor, models, modes,
                                   bucket_bytes, types, operations, root, inflight, iterations,
                                   duration_s, warmup, stream, latency, in_place, memory, misalign,
                                   shuffle, shuffle_seed, seed, check, check_each, stats, nonfinite,
                                   integers, rank, ranks, transport, address, job, token,
                                   conductor_host, deadline_ms, breakdown, ceiling, timeout_s)

namespace {

constexpr std::array<std::string_view, 7> kKindNames = {
    "", "allreduce", "reduce", "broadcast", "reducescatter", "allgather", "barrier"};

constexpr std::uint32_t kMostInflight = 65'536;
constexpr double kMostSeconds = 86'400;
// of an operation (dataplane/wire/notice.h)
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 47;
constexpr std::uint64_t kMostMisaligned = 1 << 20;
// Limits for options from another host: names in a list, and operations in the rows of a size.
constexpr std::size_t kMostNames = 64;
constexpr std::size_t kMostOperations = 1 << 17;

Error usage(std::string message) {
  return Error{Status::kInvalidArgument, std::move(message)};
}

// For messages: "--address unix:/x" or "$TALLY_ADDRESS=unix:/x".
std::string address_text(const Options& options) {
  return fmt::format("{}{}", options.address_is_from_environment ? "$TALLY_ADDRESS=" : "--address ",
                     options.address);
}

Outcome check_node_flags(const Options& options) {
  const bool node_flags = options.shards != 0 || !options.tallyd.empty() || !options.isa.empty() ||
                          !options.tile_bytes.empty() || !options.poll.empty() ||
                          !options.node_arguments.empty();
  if (!node_flags || options.address.empty()) return Unit{};
  return usage(fmt::format(
      "flags of the node (--shards, --tile-bytes, ...) have no use with {}: {}",
      address_text(options), options.address_is_from_environment ? "unset it" : "leave them out"));
}

Outcome check_ranks(const Options& options) {
  const std::uint32_t ranks = std::max(options.spawn, options.ranks);
  if (ranks > kMaxContributors) return usage(fmt::format("at most {} ranks", kMaxContributors));
  if (ranks != 0 && options.root >= ranks) {
    return usage(fmt::format("--root {} is not one of {} ranks", options.root, ranks));
  }
  std::vector<std::uint32_t> here = options.ranks_here;
  std::sort(here.begin(), here.end());
  if (const auto twice = std::adjacent_find(here.begin(), here.end()); twice != here.end()) {
    return usage(fmt::format("--rank names {} twice", *twice));
  }
  // A host that joins need not give the number of ranks.
  const std::uint32_t limit = ranks != 0 ? ranks : kMaxContributors;
  if (!here.empty() && here.back() >= limit) {
    return usage(fmt::format("--rank {} is not below --ranks {}", here.back(), limit));
  }
  return Unit{};
}

// Checks --serve and --join, the flags of a run of several hosts.
Outcome check_hosts(const Options& options) {
  if (!options.serve.empty() && !options.join.empty()) {
    return usage("--serve and --join are two sides of a run: each host is one of them");
  }
  if (options.spawn != 0) {
    return usage("--spawn is for one host: with --serve and --join, --rank names the workers here");
  }
  if (!(options.join_timeout_s > 0)) return usage("--join-timeout must be above 0");
  if (!options.join.empty()) {
    if (options.ranks_here.empty()) return usage("--join needs --rank R[,R...]: which workers");
    return Unit{};
  }
  if (options.ranks == 0) return usage("--serve needs --ranks W: how many workers there are");
  if (!options.address.empty() && !options.address.starts_with("tcp:")) {
    return usage(
        fmt::format("{} cannot be reached from other hosts: with --serve it is tcp:host:port",
                    address_text(options)));
  }
  return Unit{};
}

Outcome check_one_of_many(const Options& options) {
  if (options.ranks_here.empty() || options.ranks == 0) {
    return usage(
        "say who takes part: --spawn W, or --serve HOST:PORT --ranks W, or --join "
        "HOST:PORT --rank R, or --address A --rank R --ranks W");
  }
  if (options.ranks_here.size() != 1) {
    return usage("--rank takes a list with --serve and --join only: start a process for each");
  }
  if (options.ceiling) {
    return usage("--ceiling needs --spawn or --serve: it measures while all workers stand");
  }
  return Unit{};
}

Outcome check_workers(const Options& options) {
  const bool hosts = !options.serve.empty() || !options.join.empty();
  if (!hosts && options.spawn != 0 && (!options.ranks_here.empty() || options.ranks != 0)) {
    return usage("--spawn makes the ranks itself: leave out --rank and --ranks");
  }
  Outcome ranks = Unit{};
  if (hosts) {
    ranks = check_hosts(options);
  } else if (options.spawn == 0) {
    ranks = check_one_of_many(options);
  }
  if (!ranks.ok()) return ranks;
  if (auto outcome = check_ranks(options); !outcome.ok()) return outcome;
  return check_node_flags(options);
}

Outcome check_pace(const Options& options) {
  if (options.iterations == 0) return usage("--iters must be 1 or more");
  if (options.inflight == 0 || options.inflight > kMostInflight) {
    return usage(fmt::format("--inflight must be 1 to {}", kMostInflight));
  }
  if (!(options.duration_s >= 0 && options.duration_s <= kMostSeconds)) {
    return usage(fmt::format("--duration must be 0 to {} s", kMostSeconds));
  }
  if (options.stream && (!options.models.empty() || options.refills())) {
    return usage(
        "--stream repeats operations of a size as they are: leave out --model, --in-place "
        "and --check-each");
  }
  if (options.latency && (options.inflight != 1 || options.stream || !options.models.empty())) {
    return usage(
        "--latency is one operation at a time: leave out --inflight, --stream and --model");
  }
  return Unit{};
}

Outcome check_work(const Options& options) {
  if (options.min_bytes == 0 || options.max_bytes < options.min_bytes) {
    return usage("--min-bytes must be 1 or more and not above --max-bytes");
  }
  if (options.factor < 2) return usage("--factor must be 2 or more");
  if (options.max_bytes > kMostBytes) {
    return usage(fmt::format("--max-bytes must be at most {}", short_size_text(kMostBytes)));
  }
  if (options.misalign > kMostMisaligned) {
    return usage(fmt::format("--misalign must be at most {}", kMostMisaligned));
  }
  if (auto outcome = check_pace(options); !outcome.ok()) return outcome;
  if (options.bucket_bytes == 0) return usage("--bucket-bytes must be 1 or more");
  if (options.breakdown && options.kind == TALLY_BARRIER) {
    return usage("--breakdown is of operations that move data, which a barrier does not");
  }
  for (const std::string& mode : options.modes) {
    if (mode != "tensors" && mode != "buckets") {
      static constexpr std::string_view kModes[] = {"tensors", "buckets"};
      return usage(fmt::format("--mode \"{}\" is neither tensors nor buckets{}", mode,
                               tally::did_you_mean(mode, kModes)));
    }
  }
  const bool moves = options.kind == TALLY_BROADCAST || options.kind == TALLY_ALL_GATHER;
  if (options.nonfinite && moves) return usage("--nonfinite is for kinds that compute");
  if (options.nonfinite && options.integers) {
    return usage("--nonfinite has no place among --gradients integers: leave out one of them");
  }
  if (options.stats && (options.kind == TALLY_REDUCE_SCATTER || moves)) {
    return usage("--stats is for allreduce and reduce");
  }
  for (const ElementType type : options.types) {
    if (options.misalign % element_bytes(type) != 0) {
      return usage(fmt::format("--misalign {} is not a multiple of the size of {}",
                               options.misalign, name(type)));
    }
  }
  return Unit{};
}

}  // namespace

std::string_view kind_name(tally_kind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

Outcome check_options(const Options& options) {
  if (auto outcome = check_workers(options); !outcome.ok()) return outcome;
  return check_work(options);
}

nlohmann::json to_json(const Options& options) {
  return options;
}
Options options_from_json(const nlohmann::json& json) {
  return json.get<Options>();
}

Result<Options> options_from_network(const nlohmann::json& json) {
  Options options;
  try {
    options = options_from_json(json);
  } catch (const nlohmann::json::exception& wrong) {
    return usage(
        fmt::format("the options cannot be read, is it another version? {}", wrong.what()));
  }
  const auto type_is_known = [](ElementType type) {
    return static_cast<std::size_t>(type) < kElementTypes.size();
  };
  const auto operation_is_known = [](Operation operation) {
    return static_cast<std::size_t>(operation) < kOperationNames.size();
  };
  const bool known = options.kind >= TALLY_ALL_REDUCE && options.kind <= TALLY_BARRIER &&
                     static_cast<std::size_t>(options.memory) < kMemoryNames.size() &&
                     std::ranges::all_of(options.types, type_is_known) &&
                     std::ranges::all_of(options.operations, operation_is_known);
  if (!known)
    return usage("the options have a type, an operation or a kind that is not known here");
  if (std::max({options.types.size(), options.operations.size(), options.models.size(),
                options.modes.size()}) > kMostNames) {
    return usage(fmt::format("the options have a list of more than {} names", kMostNames));
  }
  if (options.types.size() * options.operations.size() * options.inflight > kMostOperations) {
    return usage("the options have more types, operations and operations at once than can be held");
  }
  if (options.ranks == 0 || options.rank >= options.ranks) {
    return usage(fmt::format("rank {} is not one of {} ranks", options.rank, options.ranks));
  }
  if (auto outcome = check_ranks(options); !outcome.ok()) return outcome.error();
  if (auto outcome = check_work(options); !outcome.ok()) return outcome.error();
  return options;
}

Result<std::vector<Row>> make_rows(const Options& options) {
  std::vector<Row> rows;
  if (options.kind == TALLY_BARRIER) {
    rows.push_back(Row{"barrier", "", ElementType::kF32, Operation::kSum, equal_buckets(0, 1)});
    return rows;
  }
  std::vector<Workload> workloads;
  for (const std::string& model : options.models) {
    auto workload = control::find_workload(model);
    if (!workload.ok()) return workload.error();
    workloads.push_back(std::move(workload).value());
  }
  const auto add_rows = [&](ElementType type, Operation operation) {
    for (const Workload& workload : workloads) {
      for (const std::string& mode : options.modes) {
        rows.push_back(Row{workload.model, mode, type, operation,
                           mode == "tensors"
                               ? tensor_buckets(workload)
                               : packed_buckets(workload, type, options.bucket_bytes)});
      }
    }
    if (!workloads.empty()) return;
    for (const auto bytes : size_sweep(options.min_bytes, options.max_bytes, options.factor)) {
      const std::uint64_t count = std::max<std::uint64_t>(1, bytes / element_bytes(type));
      rows.push_back(Row{"sizes", "", type, operation, equal_buckets(count, options.inflight)});
    }
  };
  for (const ElementType type : options.types) {
    for (const Operation operation : options.operations) add_rows(type, operation);
  }
  return rows;
}

std::uint64_t arena_bytes(const Options& options, const std::vector<Row>& rows) {
  std::uint64_t most = 0;
  for (const Row& row : rows) {
    most = std::max(most, Layout(row, options.misalign, options.checks()).bytes);
  }
  return most;
}

}  // namespace tally::perf
