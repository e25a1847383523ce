// The flags of tally-perf and the text of its --help.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "base/text/nearest.h"
#include "base/text/sizes.h"
#include "control/cli/common/explain.h"
#include "net/address.h"
#include "perf/options/network_file.h"
#include "perf/options/options.h"

namespace tally::perf {
namespace {

// Returns "" when it is one, as CLI11 requires. The library checks the device.
std::string is_verbs_with_device(const std::string& text) {
  return text.starts_with("verbs:") ? "" : "not verbs:DEVICE";
}

constexpr const char* kFooter = R"(
A run of several hosts has one that says --serve and others that say --join, as perftest has a server
and a client: give both the same flags, or only what differs. The server's options are sent over and
count; a flag that a joining host names itself and that differs is an error. Every host names with
--rank the workers that it runs. All hosts show the same text ($TALLY_TOKEN); with
TALLY_INSECURE=1 anybody who reaches the port can take part. docs/perf.md has commands to copy.

Columns (docs/metrics.md has the definitions; --report-gbits: Gbit/s where GB/s stands):
  bytes, count     of the whole operation, or of all operations of a step of a model
  p50 p95 p99      time in us from the first post to the last completion of an iteration, of the
                   slowest rank in that iteration, as in nccl-tests; with --inflight N, divided by
                   N; with --stream, of each operation at each rank by itself
  min max          --latency: the fastest and the slowest of these
  algbw            bytes / p50, in GB/s of 1e9 bytes; with --stream, all bytes / all the time
  busbw            algbw times nccl-tests' factor, 2(W-1)/W for allreduce. The factor counts links
                   of peers that reduce among themselves; Tally's node is a third party, so busbw
                   only serves comparisons
  goodput          gradient bits per worker and second, in Gbit/s: 8 algbw
  ceiling, share   --ceiling: algbw of plain threads that move the same bytes in the same memory
                   (transport shm) or of plain sockets between the same processes (transport
                   fabric over TCP), without a message or a sum; algbw / ceiling
  predict, ratio   over many nodes: the time that the plan promises for these speeds of NICs (us);
                   p50 / that. All-reduce alone, from the size on that all trees share
  wait queue pull  --breakdown: shares of an operation's time: the last rank is waited for; ready,
  sum push wake    but others are served; inputs come; the sum; results go; both ends wake up
  cyc/B            time-stamp cycles of the sum per byte of input
  last             who was last to announce most often, how often, by how much on average
  wrong            elements that differ from the exact reference, over all ranks; - : not checked
  hash             XXH64 of the result

tally-perf sim --help: a simulator of plans and of other systems, without a node.

Exit status: 0 all well, 1 something was wrong, 2 usage, 3 an operation, worker or node failed,
124 no progress for --timeout seconds.

Examples:
  tally-perf allreduce --spawn 2 --min-bytes 4K --max-bytes 256M --iters 50 --check --json out.json
  tally-perf allreduce --spawn 4 --model resnet50 --mode tensors,buckets --check --ceiling
  tally-perf allreduce --serve 10.0.0.1:7800 --ranks 2 --rank 0 --transport fabric --check
  tally-perf allreduce --join 10.0.0.1:7800 --rank 1
  tally-perf reduce --address unix:/run/tally/tallyd.sock --job sweep --rank 0 --ranks 2
)";

// CLI11 calls the function with the text of a flag. A ValidationError is the complaint.
CLI::Option* add_size(CLI::App& app, const std::string& flag, std::uint64_t& target,
                      const std::string& help) {
  auto* option = app.add_option_function<std::string>(
      flag,
      [&target, flag](const std::string& text) {
        const auto bytes = parse_size(text);
        if (!bytes.ok()) throw CLI::ValidationError(flag, bytes.error().message);
        target = *bytes;
      },
      fmt::format("{} [{}]", help, short_size_text(target)));
  return option->type_name("SIZE");
}

// Splits a help text: "f32 f64, or all [f32]" -> f32, f64, or, all, f32.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  constexpr std::string_view kBetween = " ,[]";
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(kBetween), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// A comma-separated list of names. `known` lists the valid names, and is the help text too.
template <typename Value, typename Parse>
CLI::Option* add_names(CLI::App& app, const std::string& flag, std::vector<Value>& target,
                       std::vector<Value> all, Parse parse, const std::string& known) {
  return app
      .add_option_function<std::vector<std::string>>(
          flag,
          [&target, all, parse, flag, known](const std::vector<std::string>& names) {
            target.clear();
            for (const std::string& name : names) {
              const auto value = parse(name);
              if (name == "all") {
                target = all;
              } else if (value) {
                target.push_back(*value);
              } else {
                throw CLI::ValidationError(flag,
                                           fmt::format("\"{}\" is none of {}{}", name, known,
                                                       tally::did_you_mean(name, words_of(known))));
              }
            }
          },
          known)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIST");
}

CLI::Option* add_memory(CLI::App& app, Memory& target) {
  auto* option = app.add_option_function<std::string>(
      "--memory",
      [&target](const std::string& text) {
        for (std::size_t i = 0; i < kMemoryNames.size(); ++i) {
          if (text != kMemoryNames[i]) continue;
          target = static_cast<Memory>(i);
          return;
        }
        throw CLI::ValidationError(
            "--memory", fmt::format("\"{}\" is none of {}{}", text, fmt::join(kMemoryNames, ", "),
                                    tally::did_you_mean(text, kMemoryNames)));
      },
      "alloc: the library's own; shared: a memfd; adopt, stage: as from malloc; cuda: of a GPU, "
      "in the order of a stream [alloc]");
  return option->type_name("KIND");
}

void add_work(CLI::App& app, Options& options) {
  const char* group = "What is measured";
  add_size(app, "--min-bytes", options.min_bytes, "smallest size")->group(group);
  add_size(app, "--max-bytes", options.max_bytes, "largest size")->group(group);
  app.add_option("--factor", options.factor, "from one size to the next")
      ->capture_default_str()
      ->group(group);
  app.add_option("--model", options.models,
                 "a step of these models instead: resnet50, vgg16, bert-large, gpt2, gpt2-xl, or "
                 "a file like those in perf/workloads/")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--mode", options.modes,
                 "tensors (an operation each), buckets (packed as DistributedDataParallel does), "
                 "or both [buckets]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
  add_size(app, "--bucket-bytes", options.bucket_bytes, "where a bucket is closed")->group(group);
  std::vector<ElementType> all_types;
  for (const auto& info : kElementTypes) all_types.push_back(info.type);
  const auto type_of = [](const std::string& name) { return parse_element_type(name); };
  const std::string types = "f32 f64 f16 bf16 i8 u8 i32 i64, or all [f32]";
  add_names(app, "--type", options.types, all_types, type_of, types)->group(group);
  const std::vector all_operations = {Operation::kSum, Operation::kAverage, Operation::kMin,
                                      Operation::kMax};
  const auto operation_of = [](const std::string& name) { return parse_operation(name); };
  const std::string operations = "sum avg min max, or all [sum]";
  add_names(app, "--op", options.operations, all_operations, operation_of, operations)
      ->group(group);
  app.add_option("--root", options.root, "of reduce and broadcast")
      ->capture_default_str()
      ->group(group);
  app.add_option("--inflight", options.inflight, "operations of a size at once")
      ->capture_default_str()
      ->group(group);
  app.add_option("--iters", options.iterations, "timed iterations")
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--duration", options.duration_s,
         "time for each row instead: as many iterations as fit, with what is verified between them")
      ->type_name("SECONDS")
      ->group(group);
  app.add_flag("--stream", options.stream,
               "keep --inflight operations outstanding: each is posted again when it completes")
      ->group(group);
  app.add_flag("--latency", options.latency,
               "one operation at a time; the table has the fastest and the slowest too")
      ->group(group);
  app.add_option("--warmup", options.warmup, "untimed iterations before them")
      ->capture_default_str()
      ->group(group);
}

void add_how(CLI::App& app, Options& options) {
  const char* group = "How";
  app.add_flag("--in-place", options.in_place, "results over inputs (made anew, untimed)")
      ->group(group);
  add_memory(app, options.memory)->group(group);
  app.add_option("--misalign", options.misalign, "bytes that buffers begin off alignment")
      ->group(group);
  app.add_option_function<std::uint64_t>(
         "--shuffle",
         [&options](const std::uint64_t& seed) {
           options.shuffle = true;
           options.shuffle_seed = seed;
         },
         "each rank posts in an order of its own, from this seed")
      ->type_name("SEED")
      ->group(group);
  app.add_option("--seed", options.seed, "of the gradients")->capture_default_str()->group(group);
  app.add_flag("--check", options.check,
               "verify every element of a first and a last iteration, bit for bit")
      ->group(group);
  app.add_flag("--check-each", options.check_each,
               "new gradients for every iteration, all verified")
      ->group(group);
  app.add_flag("--stats", options.stats, "ask for statistics of the result, and check them")
      ->group(group);
  app.add_option_function<std::string>(
         "--gradients",
         [&options](const std::string& kind) { options.integers = kind == "integers"; },
         "random, or integers: small ones, of which sums of up to 8 ranks are exact in every type, "
         "so that --check holds whatever the order in which trees add [random]")
      ->check(CLI::IsMember({"random", "integers"}))
      ->type_name("KIND")
      ->group(group);
  app.add_flag("--nonfinite", options.nonfinite, "infinities and NaNs among the gradients")
      ->group(group);
}

void add_ranks(CLI::App& app, Options& options) {
  const char* group = "Who takes part";
  app.add_option("--spawn", options.spawn,
                 "this many workers on this host, and a node if no --address and no $TALLY_ADDRESS")
      ->type_name("W")
      ->group(group);
  app.add_option("--serve", options.serve,
                 "conduct a run of several hosts: workers --join here, and a node that this host "
                 "starts if no --address listens at the port above; * is every address")
      ->type_name("HOST:PORT")
      ->group(group);
  app.add_option("--join", options.join,
                 "bring the workers --rank to the run that is served there, with its options; "
                 "what is named here too must be the same")
      ->type_name("HOST:PORT")
      ->group(group);
  app.add_option("--join-timeout", options.join_timeout_s,
                 "how long --serve waits for all ranks, and --join for --serve")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->group(group);
  app.add_option("--address", options.address,
                 "of a running node, unix:/path or tcp:host:port ($TALLY_ADDRESS)")
      ->group(group);
  app.add_option("--transport", options.transport,
                 "of every worker's session; auto: $TALLY_TRANSPORT, else the best that works")
      ->check(CLI::IsMember({"auto", "shm", "verbs", "fabric"}) |
              CLI::Validator(is_verbs_with_device, "verbs:DEVICE"))
      ->capture_default_str()
      ->group(group);
  app.add_option("--rank", options.ranks_here,
                 "with --serve and --join: the workers on this host; else be this one of --ranks "
                 "workers, of which rank 0 reports")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("R[,R...]")
      ->group(group);
  app.add_option("--ranks", options.ranks, "how many there are on all hosts")->group(group);
  app.add_option("--job", options.job, "name of the job; the same at every rank")->group(group);
  app.add_option(
         "--token", options.token,
         "a token for the job, or the cluster's secret; @FILE: the first line of FILE; the same at "
         "every host ($TALLY_TOKEN)")
      ->group(group);
  app.add_option("--deadline-ms", options.deadline_ms, "of operations; 0: the library's")
      ->group(group);
  app.add_option("--timeout", options.timeout_s,
                 "seconds without progress to give up after, whatever is waited for; 0: never")
      ->capture_default_str()
      ->group(group);
  const char* node = "The node that --spawn and --serve start";
  app.add_option("--tallyd", options.tallyd, "the program; else beside tally-perf or on PATH")
      ->group(node);
  app.add_option("--shards", options.shards, "0: its own choice")->group(node);
  app.add_option("--tile-bytes", options.tile_bytes, "passed on")->group(node);
  app.add_option("--isa", options.isa, "passed on: scalar, avx2, avx512")->group(node);
  app.add_option("--poll", options.poll, "passed on: adaptive, busy")->group(node);
  app.add_option("--node-arg", options.node_arguments, "passed on as it is; repeatable")
      ->allow_extra_args(false)
      ->group(node);
}

void add_report(CLI::App& app, Options& options) {
  const char* group = "What is told";
  app.add_flag("--breakdown", options.breakdown, "where the time of an operation goes")
      ->group(group);
  app.add_flag("--ceiling", options.ceiling,
               "measure between iterations what memory allows (shm) or plain sockets do (fabric "
               "over TCP)")
      ->group(group);
  app.add_option("--ceiling-threads", options.ceiling_threads, "0: as many as processors")
      ->group(group);
  app.add_option(
         "--network", options.network,
         "for what the plan of many nodes promises: speeds of NICs as tallyctl probe --out wrote "
         "them, or a file with links between switches (docs/planning.md), a network's or a plan's; "
         "else the file that the job runs by, else what members declare (cluster.speed)")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--report-gbits", options.gbits,
               "bandwidths in Gbit/s instead of GB/s, in the JSON too")
      ->group(group);
  app.add_option("--json", options.json, "write the rows here too; - is stdout")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--brief", options.brief, "a table of fewer columns")->group(group);
  app.add_flag("--quiet", options.quiet, "no table and no progress")->group(group);
}

// Adds all flags of all collectives. They write into `options`, which must stay in place while
// `app` lives.
void add_all(CLI::App& app, Options& options) {
  app.require_subcommand(1);
  app.footer(kFooter);
  app.get_formatter()->column_width(30);
  const std::pair<tally_kind, const char*> kinds[] = {
      {TALLY_ALL_REDUCE, "the sum of all at all"},
      {TALLY_REDUCE, "the sum of all at --root"},
      {TALLY_BROADCAST, "from --root to all"},
      {TALLY_REDUCE_SCATTER, "the sum of all, a share at each"},
      {TALLY_ALL_GATHER, "a share from each to all"},
      {TALLY_BARRIER, "nothing but waiting for each other"},
  };
  for (const auto& [kind, help] : kinds) {
    CLI::App* sub = app.add_subcommand(std::string(kind_name(kind)), help);
    sub->callback([&options, chosen = kind] { options.kind = chosen; });
    sub->footer(kFooter);
    sub->get_formatter()->column_width(30);
    add_work(*sub, options);
    add_how(*sub, options);
    add_ranks(*sub, options);
    add_report(*sub, options);
  }
}

}  // namespace

namespace {

// Uses $TALLY_ADDRESS as other clients do. A run that would start a node uses the node there
// instead, when the variable is set. A host that joins receives the address from the host that
// serves.
void take_address_of_environment(Options& options) {
  if (!options.address.empty() || !options.join.empty()) return;
  const char* address = ::secure_getenv("TALLY_ADDRESS");
  const bool is_set = address != nullptr && *address != '\0';
  const bool starts_node = options.spawn != 0 || !options.serve.empty();
  if (starts_node && !is_set) return;
  options.address = net::default_connect_address();
  options.address_is_from_environment = is_set;
}

}  // namespace

std::variant<Options, int> parse_options(int argc, char** argv) {
  Options options;
  CLI::App app{
      "Measures a Tally node with collectives of many sizes or with the gradients of a model."};
  add_all(app, options);
  // For --help and for suggestions: main() has called the simulator before.
  app.add_subcommand("sim", "simulates plans and other systems, without a node");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return control::print_help_or_explain(app, error, "tally-perf") ? 0 : kExitUsage;
  }
  take_address_of_environment(options);
  if (const auto outcome = check_options(options); !outcome.ok()) {
    std::cerr << "tally-perf: " << outcome.error().message << '\n';
    return kExitUsage;
  }
  if (const auto network = read_network(options.network); !network.ok()) {
    std::cerr << "tally-perf: " << network.error().message << '\n';
    return kExitUsage;
  }
  if (options.ranks_here.size() == 1) options.rank = options.ranks_here[0];
  return options;
}

Result<Options> parse_onto(Options base, std::vector<std::string> arguments) {
  CLI::App app;
  add_all(app, base);
  std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 requires
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return Error{Status::kInvalidArgument, error.what()};
  }
  return base;
}

}  // namespace tally::perf
