#include "client/session/resume_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/session/join_timeout.h"
#include "net/address.h"
#include "net/rpc/follow.h"
#include "net/tls/credentials.h"

namespace tally::client {
namespace {

using nlohmann::json;

constexpr Nanos kBeforeNextRound = 50 * kMillisecond;  // before the addresses are asked again
constexpr Nanos kForNetwork = 500 * kMillisecond;      // for the network to answer a connection
constexpr Nanos kForAnswer = 2 * kSecond;              // for a coordinator to answer

class JobResumption {
 public:
  JobResumption(Resumption wanted, net::tls::Credentials credentials)
      : wanted_(std::move(wanted)), credentials_(std::move(credentials)) {
    give_up_.answered(monotonic_now());
    if (wanted_.term.value() > 0) give_up_.set_elected();
  }

  Result<ResumedJob> run(const std::atomic<bool>& stop) {
    for (;;) {
      Error last{Status::kUnavailable, "there is no address to ask"};
      for (const std::string& address : wanted_.addresses) {
        if (stop) return Error{Status::kCancelled, "the session has ended"};
        auto resumed = at(address);
        if (resumed || is_final(resumed.status())) return resumed;
        last = resumed.error();
      }
      if (give_up_.is_over(monotonic_now() + kBeforeNextRound)) return last;
      ::usleep(kBeforeNextRound / kMicrosecond);
    }
  }

 private:
  // Whether another coordinator, or a later attempt, would give no other answer.
  static bool is_final(Status status) {
    return status == Status::kStaleEpoch || status == Status::kRefused ||
           status == Status::kUnsupported || status == Status::kInvalidArgument;
  }

  // At the node there, or at the coordinator that it names.
  Result<ResumedJob> at(const std::string& address) {
    auto node = rpc::RpcChannel::connect(address, 0, credentials_, kForNetwork);
    if (!node) return Error{Status::kUnavailable, node.error().message};
    if (const auto trusted = node->check_owner(); !trusted) return trusted.error();
    auto here = resume(*node);
    if (here.status() != Status::kUnavailable) return here;
    bool is_elected = false;
    auto coordinator = rpc::follow(*node, monotonic_now() + kForAnswer, &is_elected);
    if (is_elected) give_up_.set_elected();
    if (!coordinator) return Error{Status::kUnavailable, coordinator.error().message};
    if (const auto trusted = coordinator->check_owner(); !trusted) return trusted.error();
    return resume(*coordinator);
  }

  Result<ResumedJob> resume(rpc::RpcChannel& channel) {
    json params = {{"version", rpc::kProtocolVersion}, {"job", wanted_.job},
                   {"token", channel.token()},         {"rank", wanted_.rank},
                   {"ranks", wanted_.ranks},           {"host", net::host_name()},
                   {"epoch", wanted_.epoch},           {"next", wanted_.next}};
    auto answer = channel.call("job.resume", std::move(params), {}, monotonic_now() + kForAnswer);
    if (!answer) return answer.error();
    if (const auto acts = wanted_.term.accept(*answer); !acts) return acts.error();
    const auto epoch = answer->find("epoch");
    if (epoch == answer->end() || !epoch->is_number_unsigned()) {
      return rpc::unreadable("job.resume", channel);
    }
    return ResumedJob{std::move(channel), epoch->get<std::uint32_t>(), wanted_.term};
  }

  Resumption wanted_;
  net::tls::Credentials credentials_;
  JoinTimeout give_up_{kForever};
};

}  // namespace

Result<ResumedJob> resume_job(Resumption wanted, const std::atomic<bool>& stop) {
  auto credentials = net::tls::Credentials::of_user(wanted.token);
  if (!credentials) return credentials.error();
  return JobResumption(std::move(wanted), std::move(*credentials)).run(stop);
}

PlanChange::Search search_from(const SessionOptions& options, const PlanVersions& versions) {
  return [&](std::uint32_t epoch, std::uint32_t next, const rpc::HighestTerm& term) {
    Resumption wanted{net::split_addresses(options.address),
                      options.job,
                      options.token,
                      options.rank,
                      options.ranks,
                      epoch,
                      next,
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
