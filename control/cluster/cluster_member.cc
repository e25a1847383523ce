#include "control/cluster/cluster_member.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/post.hpp>
#include <chrono>
#include <optional>
#include <random>
#include <utility>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/system/blocked_signals.h"
#include "control/cluster/interruptible.h"
#include "net/rpc/fault_json.h"
#include "net/rpc/terms.h"
#include "net/tcp.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr Nanos kFirstPause = 100 * kMillisecond;
constexpr Nanos kAnswer = 5 * kSecond;  // for answers to join and to reports
// For the answer to a request for news where coordinators are elected, because another one acts
// soon.
constexpr Nanos kShortNews = 2500 * kMillisecond;
constexpr std::size_t kMostReports = 32;  // in one request, because a request's size is limited

// Distinguishes this process from all others.
std::string make_instance() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

std::string reachable_tcp(std::string_view listening, std::string_view local_host,
                          std::string_view host_name) {
  for (const std::string_view everywhere : {"tcp:*:", "tcp:0.0.0.0:", "tcp:[::]:"}) {
    if (!listening.starts_with(everywhere)) continue;
    const std::string_view port = listening.substr(everywhere.size());
    const bool loopback = local_host.starts_with("127.") || local_host == "::1";
    const std::string_view host = local_host.empty() || loopback ? host_name : local_host;
    return fmt::format("tcp:{}:{}", net::bracketed(host), port);
  }
  return std::string(listening);
}

ClusterMember::ClusterMember(Options options, asio::io_context& io, Node& node)
    : options_(std::move(options)),
      io_(io),
      node_(node),
      timeouts_(options_.timeouts),
      instance_(make_instance()),
      rails_(options_.rails) {
  node_.on_over([this](std::uint64_t placement) { on_over(placement); });
  const BlockedSignals blocked;
  listener_ = std::thread([this] { listen_for_news(); });
  reporter_ = std::thread([this] { send_reports(); });
}

ClusterMember::~ClusterMember() {
  stop();
}

void ClusterMember::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const UniqueFd& fd : open_) ::shutdown(fd.get(), SHUT_RDWR);
  }
  changed_.notify_all();
  if (listener_.joinable()) listener_.join();
  if (reporter_.joinable()) reporter_.join();
}

bool ClusterMember::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

bool ClusterMember::pause(Nanos span) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::nanoseconds(span), [this] { return stopping_; });
}

CoordinatorStatus ClusterMember::status() const {
  const std::lock_guard lock(mutex_);
  return {instance_, options_.cluster.name, membership_ != 0 ? coordinator_ : "", electing_,
          least_term_ > 0};
}

json ClusterMember::introduction(const rpc::RpcChannel& channel, std::set<std::uint64_t>& had) {
  const ClusterConfig& cluster = options_.cluster;
  json self = {{"version", 1},
               {"name", cluster.name},
               {"host", cluster.host},
               {"role", role_name(cluster.role)},
               {"tcp", reachable_tcp(options_.tcp, channel.local_host(), cluster.host)},
               {"unix", options_.local},
               {"shards", options_.shards},
               {"speed", cluster.speed},
               {"epoch", highest_epoch_}};
  // A coordinator of an earlier release does not know racks.
  if (!cluster.rack.empty()) {
    self["rack"] = cluster.rack;
    self["rack_speed"] = cluster.rack_speed;
  }
  const std::lock_guard lock(mutex_);
  rails_are_news_ = false;
  // A coordinator that does not know rails is not sent an empty list.
  if (!rails_.empty()) self["rails"] = to_json(reachable(rails_));
  for (const auto& [placement, served] : placements_) had.insert(placement);
  if (term_ == 0) return self;
  self["was"] = node_number_;
  self["placements"] = had;
  return self;
}

// Adds to each rail the address at which clients reach it.
std::vector<Rail> ClusterMember::reachable(std::vector<Rail> rails) const {
  for (Rail& rail : rails) {
    const std::string there = reachable_tcp(options_.tcp, rail.address, "");
    if (there.starts_with(fmt::format("tcp:{}:", net::bracketed(rail.address)))) {
      rail.tcp = there;
    }
  }
  return rails;
}

void ClusterMember::set_rails(std::vector<Rail> rails) {
  {
    const std::lock_guard lock(mutex_);
    rails_ = std::move(rails);
    rails_are_news_ = true;
  }
  changed_.notify_all();
}

void ClusterMember::set_term(std::uint64_t term) {
  {
    const std::lock_guard lock(mutex_);
    if (term <= least_term_) return;
    least_term_ = term;
    if (membership_ != 0 && term_ < term) {
      for (const UniqueFd& fd : open_) ::shutdown(fd.get(), SHUT_RDWR);
    }
  }
  changed_.notify_all();
}

std::uint64_t ClusterMember::least_term() const {
  const std::lock_guard lock(mutex_);
  return least_term_;
}

// The election may report a higher term than any message has had.
Outcome ClusterMember::check_term(const json& message) {
  const std::uint64_t term = rpc::term_of(message);
  const std::lock_guard lock(mutex_);
  if (term < least_term_) {
    return refused(fmt::format("its term {} has ended: a coordinator with term {} has been elected",
                               term, least_term_));
  }
  least_term_ = term;
  return Unit{};
}

// Joins and stays until the membership ends. Returns true when this node was a member there.
bool ClusterMember::be_member_at(const std::string& address) {
  auto channel = rpc::RpcChannel::connect(address, 0, options_.credentials);
  if (!channel) return complain(address, channel.error()), false;
  const Interruptible interruptible(*this, channel->fd());
  std::set<std::uint64_t> had;
  const auto joined =
      channel->call("cluster.join", introduction(*channel, had), {}, monotonic_now() + kAnswer);
  if (!joined) return complain(address, joined.error()), false;
  const json number = joined->is_object() ? joined->value("node", json()) : json();
  if (!number.is_number_unsigned()) {
    return complain(address, {Status::kProtocol, "it did not say this node's number"}), false;
  }
  if (const auto fine = check_term(*joined); !fine) return complain(address, fine.error()), false;
  const std::uint64_t term = rpc::term_of(*joined);
  const Membership membership = begin_membership(address, number.get<std::uint64_t>(), term, had);
  complaint_.clear();
  log_joined(address, term);
  use_timeouts(rpc::fault_of(*joined));
  // Each request is a heartbeat (control/coordinator/state/members/heartbeats.h).
  const json wish = {{"wait_ms", timeouts_.heartbeat_hold() / kMillisecond}};
  const Nanos limit = term > 0 ? kShortNews : timeouts_.news_answer();
  Result<json> news = json::object();
  while (news) {
    news = channel->call("cluster.next", wish, {}, monotonic_now() + limit);
    if (!news) break;
    if (const auto fine = check_term(*news); !fine) {
      news = fine.error();
    } else {
      take(*news, membership);
    }
  }
  end_membership();
  if (elects()) silent_[address] = monotonic_now();  // it is asked after the others
  if (!stopping()) {
    log::warning("cluster-lost", {{"coordinator", address}, {"error", news.error().message}});
  }
  return true;
}

void ClusterMember::use_timeouts(Nanos fault) {
  timeouts_.fault = fault;
  asio::post(io_, [this, fault] { node_.set_fault(fault); });
}

void ClusterMember::log_joined(const std::string& address, std::uint64_t term) const {
  const log::Field coordinator("coordinator", address), name("name", options_.cluster.name);
  if (term == 0) return log::info("cluster-joined", {coordinator, name});
  log::info("cluster-joined", {coordinator, name, {"term", term}});
}

// had: the placements that this node has reported when it joined.
ClusterMember::Membership ClusterMember::begin_membership(const std::string& address,
                                                          std::uint64_t node, std::uint64_t term,
                                                          const std::set<std::uint64_t>& had) {
  Membership membership = 0;
  {
    const std::lock_guard lock(mutex_);
    membership_ = membership = ++last_membership_;
    node_number_ = node;
    term_ = term;
    coordinator_ = address;
    electing_ = false;
    reports_.clear();
    for (const std::uint64_t placement : had) {
      const auto found = placements_.find(placement);
      const bool over = found == placements_.end();
      if (over || found->second) reports_.push_back({placement, over, ""});
    }
  }
  changed_.notify_all();
  return membership;
}

void ClusterMember::end_membership() {
  bool keeps = false;
  {
    const std::lock_guard lock(mutex_);
    membership_ = 0;
    keeps = term_ > 0;
  }
  changed_.notify_all();
  // The next coordinator gives the numbers of placements again, unless it has been elected.
  if (keeps) return;
  asio::post(io_, [this] {
    applied_ = 0;
    node_.forget_placements();
  });
}

// Logs each error once, until another error occurs or the node joins.
void ClusterMember::complain(const std::string& address, const Error& error) {
  if (stopping() || complaint_ == error.message) return;
  complaint_ = error.message;
  log::warning("cluster-not-joined", {{"coordinator", address}, {"error", error.message}});
}

void ClusterMember::take(const json& news, Membership membership) {
  std::vector<JobAssignment> placements;
  std::vector<std::uint64_t> withdraw;
  if (!news.is_object()) return;
  for (const json& one : news.value("placements", json::array())) {
    auto placement = parse_job_assignment(one);
    if (placement) {
      highest_epoch_ = std::max(highest_epoch_, placement->epoch);
      placements.push_back(std::move(placement).value());
      continue;
    }
    log::error("placement-unreadable", {{"error", placement.error().message}});
    const json id = one.is_object() ? one.value("placement", json()) : json();
    if (id.is_number_unsigned()) {
      report(membership, {id.get<std::uint64_t>(), false, placement.error().message});
    }
  }
  for (const json& one : news.value("withdraw", json::array())) {
    const json id = one.is_object() ? one.value("placement", json()) : json();
    if (id.is_number_unsigned()) withdraw.push_back(id.get<std::uint64_t>());
  }
  if (placements.empty() && withdraw.empty()) return;
  asio::post(io_, [this, membership, placements = std::move(placements),
                   withdraw = std::move(withdraw)] { apply(placements, withdraw, membership); });
}

// Withdrawn assignments go first, because they make room.
void ClusterMember::apply(const std::vector<JobAssignment>& placements,
                          const std::vector<std::uint64_t>& withdraw, Membership membership) {
  {
    const std::lock_guard lock(mutex_);
    // An elected coordinator that the node has joined meanwhile has not been told of these. It
    // sends again what it still wants.
    if (least_term_ > 0 && membership != membership_) return;
  }
  applied_ = membership;
  for (const std::uint64_t placement : withdraw) node_.withdraw(placement);
  {
    const std::lock_guard lock(mutex_);
    for (const JobAssignment& placement : placements) {
      if (term_ > 0) placements_.emplace(placement.id, false);
    }
  }
  for (const JobAssignment& placement : placements) {
    node_.place(placement, [this, membership, id = placement.id](const Outcome& outcome) {
      on_placed(membership, id, outcome);
    });
  }
}

// A placement of an elected coordinator is known to the next one too. So the report goes to the
// present coordinator, or waits until the node joins the next one.
void ClusterMember::on_placed(Membership membership, std::uint64_t placement,
                              const Outcome& outcome) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = placements_.find(placement); found != placements_.end()) {
      membership = membership_;
      found->second = true;
      if (!outcome) placements_.erase(found);
    }
  }
  report(membership, {placement, false, outcome ? "" : outcome.error().message});
}

void ClusterMember::on_over(std::uint64_t placement) {
  Membership membership = applied_;
  {
    const std::lock_guard lock(mutex_);
    if (placements_.erase(placement) > 0) membership = membership_;
  }
  report(membership, {placement, true, ""});
}

// -- Reports ---------------------------------------------------------------------------------

// The answer on the other connection may be held, so reports have a connection of their own.
void ClusterMember::send_reports() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] {
      return stopping_ || (membership_ != 0 && (!reports_.empty() || rails_are_news_));
    });
    if (stopping_) return;
    const Membership membership = membership_;
    const std::uint64_t node = node_number_;
    const std::string address = coordinator_;
    lock.unlock();
    auto channel = rpc::RpcChannel::connect(address, 0, options_.credentials);
    std::optional<Interruptible> interruptible;
    if (channel) interruptible.emplace(*this, channel->fd());
    lock.lock();
    while (channel && !stopping_ && membership_ == membership) {
      const auto count = std::min(reports_.size(), kMostReports);
      const std::vector<Report> batch(reports_.begin(),
                                      reports_.begin() + static_cast<std::ptrdiff_t>(count));
      const bool rails_too = std::exchange(rails_are_news_, false);
      if (batch.empty() && !rails_too) {
        changed_.wait(lock);
        continue;
      }
      const std::vector<Rail> rails = reachable(rails_);
      lock.unlock();
      const auto sent = send(*channel, node, batch, rails_too ? &rails : nullptr);
      lock.lock();
      // Reports that the coordinator refuses are not sent again.
      if (!sent && (sent.status() == Status::kNodeLost || sent.status() == Status::kDeadline)) {
        rails_are_news_ |= rails_too;
        break;
      }
      if (membership_ == membership) {
        reports_.erase(reports_.begin(), reports_.begin() + static_cast<std::ptrdiff_t>(count));
      }
    }
    lock.unlock();
    interruptible.reset();
    if (!pause(kFirstPause)) return;
    lock.lock();
  }
}

Outcome ClusterMember::send(rpc::RpcChannel& channel, std::uint64_t node,
                            const std::vector<Report>& batch, const std::vector<Rail>* rails) {
  json done = json::array(), over = json::array();
  for (const Report& one : batch) {
    json entry = {{"placement", one.placement}};
    if (!one.error.empty()) entry["error"] = one.error.substr(0, 512);
    (one.over ? over : done).push_back(std::move(entry));
  }
  json params = {{"node", node}, {"done", std::move(done)}, {"over", std::move(over)}};
  if (rails != nullptr) params["rails"] = to_json(*rails);
  const auto sent =
      channel.call("cluster.report", std::move(params), {}, monotonic_now() + kAnswer);
  if (sent) return Unit{};
  log::warning("cluster-report-failed", {{"error", sent.error().message}});
  return sent.error();
}

void ClusterMember::report(Membership membership, Report report) {
  {
    const std::lock_guard lock(mutex_);
    if (membership == 0 || membership != membership_) return;
    reports_.push_back(std::move(report));
  }
  changed_.notify_all();
}

}  // namespace tally::control
