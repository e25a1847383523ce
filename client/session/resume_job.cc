#include "client/session/resume_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/session/join_timeout.h"
#include "client/session/rank_loss_answer.h"
#include "net/address.h"
#include "net/rpc/fault_json.h"
#include "net/rpc/follow.h"

namespace tally::client {
namespace {

using nlohmann::json;

// The time before the addresses are asked again: it doubles from the first to the second. Many
// ranks search at once.
constexpr Nanos kFirstPause = 50 * kMillisecond, kLongestPause = 400 * kMillisecond;
constexpr Nanos kForNetwork = 500 * kMillisecond;  // for the network to answer a connection
constexpr Nanos kForNode = 2 * kSecond;            // for a node to name its coordinator
constexpr Nanos kForSign = 1 * kSecond;            // for a node to show that it lives
// For a coordinator to answer, which may have to wait for its store.
constexpr Nanos kForCoordinator = 10 * kSecond;
constexpr Nanos kLook = 10 * kMillisecond;  // between two looks whether to stop

class JobResumption {
 public:
  JobResumption(const Resumption& wanted, const std::atomic<bool>& stop)
      : wanted_(wanted), stop_(stop), term_(wanted.term) {
    give_up_.answered(monotonic_now());
    if (term_.value() > 0) give_up_.set_elected();
  }

  Result<ResumedJob> run() {
    Error last{Status::kUnavailable, "there is no address to ask"};
    for (Nanos pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      for (std::size_t i = 0; i < wanted_.addresses.size(); ++i) {
        // Ranks begin at different addresses.
        auto resumed = at(wanted_.addresses[(i + wanted_.rank) % wanted_.addresses.size()]);
        if (stop_) return Error{Status::kCancelled, "the session has ended"};
        if (resumed || is_final(resumed.status())) return resumed;
        last = resumed.error();
        if (pause > kFirstPause && give_up_.is_over(monotonic_now())) return last;
      }
      if (give_up_.is_over(monotonic_now() + pause)) return last;
      for (const Nanos until = monotonic_now() + pause; monotonic_now() < until && !stop_;) look();
    }
  }

 private:
  // Whether no later attempt can succeed.
  static bool is_final(Status status) {
    return status == Status::kStaleEpoch || status == Status::kRefused ||
           status == Status::kInvalidArgument;
  }
  static void look() { ::usleep(kLook / kMicrosecond); }

  // At the node there, or at the coordinator that it names.
  Result<ResumedJob> at(const std::string& address) {
    auto node = rpc::RpcChannel::connect(address, 0, wanted_.credentials, kForNetwork);
    if (!node || stop_) return unavailable(node);
    if (const auto trusted = node->check_owner(); !trusted) return unavailable(trusted);
    auto here = resume(*node);
    // A member answers kUnavailable, one of an older release kUnsupported.
    if (here || stop_ || is_final(here.status())) return here;
    if (here.status() == Status::kDeadline) return unavailable(here);
    bool is_elected = false;
    auto coordinator = rpc::follow(*node, monotonic_now() + kForNode, &is_elected, kForNetwork);
    if (is_elected) give_up_.set_elected();
    if (!coordinator) {
      return Error{Status::kUnavailable,
                   fmt::format("{}; {}", here.error().message, coordinator.error().message)};
    }
    if (const auto trusted = coordinator->check_owner(); !trusted) return unavailable(trusted);
    auto there = resume(*coordinator);
    return there || is_final(there.status()) ? std::move(there) : unavailable(there);
  }

  template <typename T>
  static Error unavailable(const Result<T>& why) {
    return {Status::kUnavailable, why ? "" : why.error().message};
  }

  Result<ResumedJob> resume(rpc::RpcChannel& channel) {
    // A process that stands still takes requests too, and answers none.
    const auto lives =
        channel.call("cluster.coordinator", json::object(), {}, monotonic_now() + kForSign);
    if (lives.status() == Status::kDeadline) return lives.error();
    if (!lives && lives.status() != Status::kUnsupported) return unavailable(lives);
    json params = {{"version", rpc::kProtocolVersion}, {"job", wanted_.job},
                   {"token", channel.token()},         {"rank", wanted_.rank},
                   {"ranks", wanted_.ranks},           {"host", net::host_name()},
                   {"epochs", wanted_.epochs}};
    const auto asked = channel.ask("job.resume", std::move(params), monotonic_now() + kForNode);
    if (!asked) return asked.error();
    const auto answer = wait_for(channel, *asked);
    if (!answer) return answer.error();
    if (const auto acts = term_.accept(*answer); !acts) return acts.error();
    const auto epoch = answer->find("epoch");
    const bool has_place = read_left_out(*answer, wanted_.rank, wanted_.ranks).has_value();
    if (epoch == answer->end() || !epoch->is_number_unsigned() || !has_place) {
      return rpc::unreadable("job.resume", channel);
    }
    return ResumedJob{std::move(channel), epoch->get<std::uint32_t>(), term_,
                      FaultTimeouts{.fault = rpc::fault_of(*answer)}};
  }

  Result<json> wait_for(rpc::RpcChannel& channel, std::uint64_t request) {
    for (const Nanos until = monotonic_now() + kForCoordinator; monotonic_now() < until; look()) {
      if (stop_) break;
      if (auto answer = channel.answer(request)) return std::move(*answer);
    }
    return Error{Status::kUnavailable,
                 fmt::format("the node at {} does not answer", channel.address())};
  }

  const Resumption& wanted_;
  const std::atomic<bool>& stop_;
  rpc::HighestTerm term_;
  JoinTimeout give_up_{kForever};
};

}  // namespace

Result<ResumedJob> resume_job(const Resumption& wanted, const std::atomic<bool>& stop) {
  return JobResumption(wanted, stop).run();
}

PlanChange::Search search_from(const SessionOptions& options, const PlanVersions& versions) {
  return [&](const std::vector<std::uint32_t>& epochs,
             const rpc::HighestTerm& term) -> CoordinatorSearch::Find {
    auto credentials = net::tls::Credentials::of_user(options.token);
    if (!credentials) {
      return [why = credentials.error()](const auto&) -> Result<ResumedJob> { return why; };
    }
    Resumption wanted{net::split_addresses(options.address),
                      options.job,
                      std::move(*credentials),
                      options.rank,
                      options.ranks,
                      epochs,
                      term};
    for (const PlanVersion* version : versions.all()) {
      for (const std::string& address : version->nodes.addresses()) {
        auto& all = wanted.addresses;
        if (std::find(all.begin(), all.end(), address) == all.end()) all.push_back(address);
      }
    }
    return [wanted = std::move(wanted)](const std::atomic<bool>& stop) {
      return resume_job(wanted, stop);
    };
  };
}

}  // namespace tally::client
