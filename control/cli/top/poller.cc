#include "control/cli/top/poller.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "control/cli/common/members.h"
#include "control/cli/common/tables.h"
#include "control/threads/parallel_for.h"
#include "net/address.h"

namespace tally::control::top {
namespace {

using nlohmann::json;
using rpc::RpcChannel;

constexpr std::size_t kMostThreads = 32;

}  // namespace

Poller::Poller(const std::string& addresses, Nanos timeout)
    : addresses_(net::split_addresses(addresses)), timeout_(timeout) {}

// -- Members ---------------------------------------------------------------------------------

// Returns false when no node answers at the address, or when other addresses may know members.
bool Poller::members_at(const std::string& address, Look& look) {
  if (!to_coordinator_ || to_coordinator_->address() != address) {
    auto channel = RpcChannel::connect_as_user(address, timeout_);
    if (!channel) {
      look.note = channel.error().message;
      return false;
    }
    to_coordinator_ = std::move(channel).value();
  }
  const auto members = ask_members(*to_coordinator_, timeout_);
  const bool is_old = !members && members.status() == Status::kUnsupported;
  if (!members && !is_old) {
    look.note = fmt::format("{}: {}", address, members.error().message);
    to_coordinator_.reset();
    return false;
  }
  look.note.clear();
  if (is_old || members->empty()) {
    NodeLook alone;
    alone.name = alone.address = address;
    look.nodes.push_back(std::move(alone));
    return false;
  }
  look.nodes.clear();
  look.coordinator = to_coordinator_->address();
  for (const json& member : *members) {
    NodeLook node;
    node.name = text_at(member, "name");
    node.address = text_at(member, "tcp");
    if (node.address.empty()) node.address = text_at(member, "unix");
    node.member = member;
    look.nodes.push_back(std::move(node));
  }
  return true;
}

// When no coordinator names the members, those of the last look stay.
void Poller::find_members(Look& look) {
  std::vector<std::string> addresses = addresses_;
  if (!coordinator_.empty()) {  // it comes first; a member may have named it
    std::erase(addresses, coordinator_);
    addresses.insert(addresses.begin(), coordinator_);
  }
  for (const std::string& address : addresses) {
    if (members_at(address, look)) break;
  }
  if (look.coordinator.empty() && look.nodes.size() > 1) look.nodes.resize(1);
  if (!look.coordinator.empty()) {
    coordinator_ = look.coordinator;
  } else if (!coordinator_.empty()) {
    const std::string why = look.note.empty() ? "it has no members" : look.note;
    look.note = fmt::format("no coordinator answers: members are those of before ({})", why);
    look.coordinator = coordinator_;
    look.nodes.clear();
    for (const std::string& name : order_) look.nodes.push_back(nodes_.at(name).last);
  }
}

// -- Answers of the nodes --------------------------------------------------------------------

Outcome Poller::ask_all(Node& node, Nanos deadline) const {
  NodeLook& look = node.last;
  if (!node.channel) {
    auto channel = RpcChannel::connect_as_user(look.address, deadline - monotonic_now());
    if (!channel) return channel.error();
    node.channel = std::move(channel).value();
  }
  const auto call = [&](const char* method, const json& params, json& into) -> Outcome {
    auto answer = node.channel->query(method, params, deadline);
    if (!answer) return answer.error();
    into = std::move(answer).value();
    return Unit{};
  };
  if (auto done = call("node.status", json::object(), look.status); !done) return done;
  if (auto done = call("node.stats", json::object(), look.stats); !done) return done;
  if (auto done = call("node.jobs", json::object(), look.jobs); !done) return done;
  look.time = monotonic_now();
  look.metrics = json::array();
  std::set<std::string> names;
  for (const json& job : look.jobs.is_array() ? look.jobs : json::array()) {
    names.insert(text_at(job, "name"));
  }
  for (const std::string& name : names) {
    json metrics;
    const auto done = call("node.metrics", {{"job", name}}, metrics);
    if (done) {
      look.metrics.push_back(std::move(metrics));
      // kInvalidArgument: the job has ended meanwhile.
    } else if (done.status() != Status::kInvalidArgument) {
      return done;
    }
  }
  return Unit{};
}

void Poller::ask(Node& node) const {
  const Nanos now = monotonic_now();
  if (now < node.ask_from) return;
  const auto done = ask_all(node, now + timeout_);
  node.last.failure = done ? "" : done.error().message;
  if (done) return;
  node.channel.reset();
  node.ask_from = monotonic_now() + kPause;
}

Look Poller::look() {
  Look look;
  find_members(look);
  std::set<std::string> present;
  std::vector<std::string> order;
  for (const NodeLook& one : look.nodes) {
    if (!present.insert(one.name).second) continue;
    order.push_back(one.name);
    Node& node = nodes_[one.name];
    if (node.last.address != one.address) node = {};
    if (node.last.has_left) node.ask_from = 0;  // the node is back
    node.last.name = one.name;
    node.last.address = one.address;
    node.last.member = one.member;
    node.last.has_left = false;
  }
  order_ = order;
  std::vector<Node*> asked;
  for (auto& [name, node] : nodes_) {
    if (present.count(name) == 0) {
      node.last.has_left = true;
      order.push_back(name);
    }
    asked.push_back(&node);
  }
  parallel_for(asked.size(), kMostThreads, [&](std::size_t i) { ask(*asked[i]); });
  look.nodes.clear();
  for (const std::string& name : order) look.nodes.push_back(nodes_.at(name).last);
  return look;
}

}  // namespace tally::control::top
