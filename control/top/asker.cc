#include "control/top/asker.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "client/address.h"
#include "control/at_once.h"
#include "control/members.h"
#include "control/tables.h"

namespace tally::control::top {
namespace {

using client::RpcChannel;
using nlohmann::json;

constexpr std::size_t kMostThreads = 32;

}  // namespace

Asker::Asker(const std::string& addresses, Nanos patience)
    : addresses_(client::split_addresses(addresses)), patience_(patience) {}

// -- Who is there ----------------------------------------------------------------------------

// False when nobody answers there, or others may know of members.
bool Asker::members_at(const std::string& address, Look& look) {
  if (!to_coordinator_ || to_coordinator_->address() != address) {
    auto channel = RpcChannel::connect(address, 0, patience_);
    if (!channel) {
      look.note = channel.error().message;
      return false;
    }
    to_coordinator_ = std::move(channel).value();
  }
  const auto members = ask_members(*to_coordinator_, patience_);
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

// Those of the last look stand when nobody says who the members are.
void Asker::find_members(Look& look) {
  std::vector<std::string> addresses = addresses_;
  if (!coordinator_.empty()) {  // first; it may have been named by a member
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

// -- What they say ---------------------------------------------------------------------------

Outcome Asker::ask_all(Node& node, Nanos deadline) const {
  NodeLook& look = node.last;
  if (!node.channel) {
    auto channel = RpcChannel::connect(look.address, 0, deadline - monotonic_now());
    if (!channel) return channel.error();
    node.channel = std::move(channel).value();
  }
  const auto call = [&](const char* method, json params, json& into) -> Outcome {
    auto answer = node.channel->call(method, std::move(params), {}, deadline);
    if (!answer) return answer.error();
    into = std::move(answer).value();
    return Unit{};
  };
  if (auto said = call("node.status", json::object(), look.status); !said) return said;
  if (auto said = call("node.stats", json::object(), look.stats); !said) return said;
  if (auto said = call("node.jobs", json::object(), look.jobs); !said) return said;
  look.time = monotonic_now();
  look.metrics = json::array();
  std::set<std::string> names;
  for (const json& job : look.jobs.is_array() ? look.jobs : json::array()) {
    names.insert(text_at(job, "name"));
  }
  for (const std::string& name : names) {
    json metrics;
    const auto said = call("node.metrics", {{"job", name}}, metrics);
    if (said) {
      look.metrics.push_back(std::move(metrics));
    } else if (said.status() != Status::kInvalidArgument) {  // that is: it has ended meanwhile
      return said;
    }
  }
  return Unit{};
}

void Asker::ask(Node& node) const {
  const Nanos now = monotonic_now();
  if (now < node.ask_from) return;
  const auto said = ask_all(node, now + patience_);
  node.last.failure = said ? "" : said.error().message;
  if (said) return;
  node.channel.reset();
  node.ask_from = monotonic_now() + kPause;
}

Look Asker::look() {
  Look look;
  find_members(look);
  std::set<std::string> present;
  std::vector<std::string> order;
  for (const NodeLook& one : look.nodes) {
    if (!present.insert(one.name).second) continue;
    order.push_back(one.name);
    Node& node = nodes_[one.name];
    if (node.last.address != one.address) node = {};
    if (node.last.has_left) node.ask_from = 0;  // it is back
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
  at_once(asked.size(), kMostThreads, [&](std::size_t i) { ask(*asked[i]); });
  look.nodes.clear();
  for (const std::string& name : order) look.nodes.push_back(nodes_.at(name).last);
  return look;
}

}  // namespace tally::control::top
