#include "control/cli/trace_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/cli/plan/plan_files.h"
#include "control/cli/trace_file.h"

namespace tally::control {
namespace {

using nlohmann::json;

// The node keeps some thousand operations. A busy node overwrites them within some 50 ms.
constexpr Nanos kTakeEvery = 20 * kMillisecond;

class Tracer {
 public:
  Tracer(rpc::RpcChannel& channel, const TraceArguments& arguments, TraceFile& file)
      : channel_(channel), arguments_(arguments), file_(file) {}

  Outcome run() {
    const auto on = switch_to(true);
    if (!on) return on.error();
    const auto shards = on->value("shards", 0u);
    const Nanos end = monotonic_now() + static_cast<Nanos>(arguments_.seconds * kSecond);
    Outcome outcome = Unit{};
    do {
      interrupted_ = interrupted_ || pause(std::min(kTakeEvery, end - monotonic_now()));
      for (std::uint32_t shard = 0; outcome.ok() && shard < shards; ++shard) outcome = take(shard);
    } while (outcome.ok() && !interrupted_ && monotonic_now() < end);
    // A job that has ended takes its trace along.
    if (outcome.ok()) static_cast<void>(switch_to(false));
    return outcome.ok() || file_.operations() == 0 ? outcome : Outcome(Unit{});
  }

 private:
  Result<json> call(const char* method, json params) {
    params["job"] = arguments_.job;
    const auto timeout = static_cast<Nanos>(arguments_.timeout * kSecond);
    return channel_.call(method, std::move(params), {}, monotonic_now() + timeout);
  }

  Result<json> switch_to(bool on) { return call("node.trace", {{"on", on}}); }

  Outcome take(std::uint32_t shard) {
    const auto taken = call("node.trace_take", {{"shard", shard}});
    if (!taken) return taken.error();
    file_.add(shard, *taken);
    return Unit{};
  }

  // Returns true when a signal arrived.
  static bool pause(Nanos span) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    span = std::max<Nanos>(span, 0);
    const timespec time{span / kSecond, span % kSecond};
    return ::sigtimedwait(&signals, nullptr, &time) > 0;
  }

  rpc::RpcChannel& channel_;
  const TraceArguments& arguments_;
  TraceFile& file_;
  bool interrupted_ = false;
};

}  // namespace

Result<std::string> run_trace(rpc::RpcChannel& channel, const TraceArguments& arguments) {
  // Blocks the signals before tracing is switched on, so that no signal is lost.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  auto out = create_out(arguments.out);
  if (!out) return out.error();
  TraceFile file(out->stream(), arguments.job);
  if (auto outcome = Tracer(channel, arguments, file).run(); !outcome) return outcome.error();
  if (file.operations() == 0) {
    return Error{
        Status::kUnavailable,
        fmt::format("job \"{}\" ended no operation in {} s, so {} is not written: give more "
                    "--seconds",
                    arguments.job, arguments.seconds, arguments.out)};
  }
  file.finish();
  if (auto written = out->commit(); !written) return written.error();
  return fmt::format("{}: {} operations, {} dropped; open it in ui.perfetto.dev", arguments.out,
                     file.operations(), file.dropped());
}

}  // namespace tally::control
