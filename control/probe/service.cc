#include "control/probe/service.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/log/log.h"
#include "control/probe/nic.h"
#include "control/probe/stream.h"
#include "control/probe/sum.h"

namespace tally::control::probe {
namespace {

using nlohmann::json;

constexpr unsigned kThreads = 3;  // one for each kind of measurement
constexpr std::size_t kMostText = 256;
constexpr std::uint64_t kMostMeasureMs = 10'000;
constexpr std::uint64_t kMostWarmUpMs = 2'000;
constexpr std::uint64_t kMostInputs = 64;

Pace pace_of(rpc::Params& params) {
  Pace pace;
  pace.warm_up =
      static_cast<Nanos>(params.number_or("warm_up_ms", 0, kMostWarmUpMs, 500)) * kMillisecond;
  pace.measure =
      static_cast<Nanos>(params.number_or("measure_ms", 10, kMostMeasureMs, 1000)) * kMillisecond;
  pace.max_bytes = params.number_or("max_bytes", 1, pace.max_bytes, pace.max_bytes);
  return pace;
}

// The list `to` of {host, port, key}. None when the list has another form.
std::optional<std::vector<Target>> targets_of(const json& list) {
  std::vector<Target> targets;
  if (!list.is_array() || list.empty() || list.size() > kMostStreams) return std::nullopt;
  for (const json& entry : list) {
    if (!entry.is_object()) return std::nullopt;
    rpc::Params params(entry);
    Target target;
    target.where.host = params.text("host", kMostText);
    target.where.port = static_cast<std::uint16_t>(params.number("port", 1, UINT16_MAX));
    target.key = params.text("key", kKeyBytes);
    if (params.finish() || target.key.size() != kKeyBytes) return std::nullopt;
    targets.push_back(std::move(target));
  }
  return targets;
}

json streams_json(const std::vector<Result<Carried>>& carried) {
  json list = json::array();
  for (const Result<Carried>& one : carried) {
    if (one) {
      list.push_back({{"bytes", one->bytes}, {"ns", one->time}});
    } else {
      list.push_back({{"error", one.error().message}});
    }
  }
  return list;
}

void refuse_busy(rpc::Reply& reply, std::string_view what) {
  reply.error(Status::kAgain,
              fmt::format("this node is {} for another probe: try again when it is over", what));
}

}  // namespace

ProbeService::ProbeService(ProbeOptions options, asio::io_context& io)
    : options_(std::move(options)), io_(io) {}

ProbeService::~ProbeService() {
  stop_ = true;
}

void ProbeService::handle(const rpc::Request& request, rpc::Reply reply) {
  const std::string& method = request.method;
  if (method == "probe.machine") return machine(request, std::move(reply));
  if (method == "probe.serve") return serve(request, std::move(reply));
  if (method == "probe.run") return run(request, std::move(reply));
  reply.unknown_method(method);
}

void ProbeService::begin(bool& busy, std::function<void()> task, std::function<void()> then) {
  if (threads_ == nullptr) threads_ = std::make_unique<ThreadPool>(io_, kThreads);
  busy = true;
  threads_->run(std::move(task), [&busy, then = std::move(then)](const Outcome& done) {
    busy = false;
    if (done) then();  // else the dropped reply answers
  });
}

void ProbeService::machine(const rpc::Request& request, rpc::Reply reply) {
  rpc::Params params(request.params);
  const std::string host =
      params.text_or("host", kMostText, options_.host == "*" ? "" : options_.host);
  SumQuestion question{.threads = options_.shards, .window = options_.window};
  question.inputs = params.number_or("inputs", 1, kMostInputs, question.inputs);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  if (measuring_) return refuse_busy(reply, "measured");
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  auto result =
      std::make_shared<json>(json{{"shards", options_.shards}, {"inputs", question.inputs}});
  begin(
      measuring_,
      [this, host, question, result] {
        if (!host.empty()) {
          const auto nic = nic_with(host);
          (*result)["interface"] = nic ? nic->interface : "";
          (*result)["nic"] = nic ? nic->speed : 0.0;
          if (!nic) (*result)["nic_error"] = nic.error().message;
        }
        (*result)["sum"] = sum_speed(*options_.kernels, question, stop_);
      },
      [answer, result] { answer->result(std::move(*result)); });
}

void ProbeService::serve(const rpc::Request& request, rpc::Reply reply) {
  rpc::Params params(request.params);
  const auto streams = params.number("streams", 1, kMostStreams);
  const Pace pace = pace_of(params);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  if (options_.host.empty()) {
    return reply.error(Status::kUnsupported,
                       "this node listens on no network (listen_tcp): there is no link to measure");
  }
  if (serving_) return refuse_busy(reply, "receiving");
  auto receiver = Receiver::listen(options_.host, streams);
  if (!receiver) return reply.error(receiver.error());
  reply.result({{"port", receiver->port()}, {"key", receiver->key()}});
  auto mine = std::make_shared<Receiver>(std::move(receiver).value());
  begin(
      serving_,
      [this, mine, pace] {
        const auto carried = mine->run(pace, stop_);
        if (!carried) log::info("probe-not-received", {{"error", carried.error().message}});
      },
      [] {});
}

void ProbeService::run(const rpc::Request& request, rpc::Reply reply) {
  json rest = request.params;
  const auto targets = targets_of(rest.value("to", json()));
  rest.erase("to");
  rpc::Params params(rest);
  const Pace pace = pace_of(params);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  if (!targets) {
    return reply.error(Status::kInvalidArgument,
                       fmt::format("\"to\" is a list of 1 to {} {{host, port, key}}, as "
                                   "probe.serve gave them",
                                   kMostStreams));
  }
  if (sending_) return refuse_busy(reply, "sending");
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  auto result = std::make_shared<json>();
  begin(
      sending_,
      [this, list = *targets, pace, result] {
        *result = streams_json(send_streams(list, pace, stop_));
      },
      [answer, result] {
        answer->result({{"streams", std::move(*result)}});
      });
}

}  // namespace tally::control::probe
