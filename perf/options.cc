#include "perf/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "perf/sizes.h"

namespace tally::perf {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Options, kind, min_bytes, max_bytes, factor, models, modes,
                                   bucket_bytes, types, operations, root, inflight, iterations,
                                   warmup, in_place, memory, misalign, shuffle, shuffle_seed, seed,
                                   check, check_each, stats, nonfinite, rank, ranks, address, job,
                                   token, deadline_ms, breakdown, ceiling, timeout_s)

namespace {

constexpr std::array<std::string_view, 7> kKindNames = {
    "", "allreduce", "reduce", "broadcast", "reducescatter", "allgather", "barrier"};

Error usage(std::string message) {
  return Error{Status::kInvalidArgument, std::move(message)};
}

Outcome check_workers(const Options& options) {
  const bool one_of_many = options.rank != UINT32_MAX;
  if (options.spawn != 0 && (one_of_many || options.ranks != 0)) {
    return usage("--spawn makes the ranks itself: leave out --rank and --ranks");
  }
  if (options.spawn == 0) {
    if (!one_of_many || options.ranks == 0) {
      return usage("say who takes part: --spawn W, or --address A --rank R --ranks W");
    }
    if (options.address.empty()) return usage("--rank needs the --address of a node");
    if (options.ceiling) return usage("--ceiling needs --spawn: it measures while workers stand");
    if (options.rank >= options.ranks) {
      return usage(fmt::format("--rank {} is not below --ranks {}", options.rank, options.ranks));
    }
  }
  const std::uint32_t ranks = std::max(options.spawn, options.ranks);
  if (ranks > kMaxContributors) return usage(fmt::format("at most {} ranks", kMaxContributors));
  if (options.root >= ranks) {
    return usage(fmt::format("--root {} is not one of {} ranks", options.root, ranks));
  }
  const bool node_flags = options.shards != 0 || !options.tallyd.empty() || !options.isa.empty() ||
                          !options.tile_bytes.empty() || !options.poll.empty() ||
                          !options.node_arguments.empty();
  if (node_flags && !options.address.empty()) {
    return usage("flags of the node (--shards, --tile-bytes, ...) have no use with --address");
  }
  return Unit{};
}

Outcome check_work(const Options& options) {
  if (options.min_bytes == 0 || options.max_bytes < options.min_bytes) {
    return usage("--min-bytes must be 1 or more and not above --max-bytes");
  }
  if (options.factor < 2) return usage("--factor must be 2 or more");
  if (options.iterations == 0) return usage("--iters must be 1 or more");
  if (options.inflight == 0) return usage("--inflight must be 1 or more");
  if (options.bucket_bytes == 0) return usage("--bucket-bytes must be 1 or more");
  if (options.breakdown && options.kind == TALLY_BARRIER) {
    return usage("--breakdown is of operations that move data, which a barrier does not");
  }
  for (const std::string& mode : options.modes) {
    if (mode != "tensors" && mode != "buckets") {
      return usage(fmt::format("--mode '{}' is neither tensors nor buckets", mode));
    }
  }
  const bool moves = options.kind == TALLY_BROADCAST || options.kind == TALLY_ALL_GATHER;
  if (options.nonfinite && moves) return usage("--nonfinite is for kinds that compute");
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

Result<std::vector<Row>> make_rows(const Options& options) {
  std::vector<Row> rows;
  if (options.kind == TALLY_BARRIER) {
    rows.push_back(Row{"barrier", "", ElementType::kF32, Operation::kSum, equal_buckets(0, 1)});
    return rows;
  }
  std::vector<Workload> workloads;
  for (const std::string& model : options.models) {
    auto workload = find_workload(model);
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
  for (const Row& row : rows) most = std::max(most, Layout(row, options.misalign).bytes);
  return most;
}

}  // namespace tally::perf
