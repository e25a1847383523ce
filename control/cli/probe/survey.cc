#include "control/cli/probe/survey.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "control/cli/common/members.h"
#include "control/cli/common/tables.h"
#include "control/cli/probe/findings.h"
#include "control/plan/racks/rack_search.h"
#include "control/probe/stream.h"
#include "control/threads/parallel_for.h"
#include "net/address.h"
#include "net/tcp.h"

namespace tally::control::probe {
namespace {

using nlohmann::json;
using rpc::RpcChannel;

constexpr std::size_t kMostThreads = 64;
constexpr std::size_t kStreams = 4;     // at least, of a measurement; a node has as many shards
constexpr Nanos kSlack = 25 * kSecond;  // for streams to begin and to report, beyond the span
constexpr Nanos kBusy = 15 * kSecond;   // for another measurement to end
constexpr Nanos kBusyPause = 50 * kMillisecond;

struct Node {
  plan::Machine machine;
  std::string control;  // the address for requests
  std::string host;     // the host for other nodes, as in net/tcp.h; empty: unknown
  std::string machine_host;
  bool takes_part = true;               // until the node refuses or does not answer
  std::shared_ptr<RpcChannel> channel;  // set with the first request
};

struct Flow {
  std::size_t from = 0;
  std::size_t to = 0;
  std::size_t streams = 1;
  double speed = 0;  // measured; 0: not measured
};

std::string host_in(const std::string& tcp) {
  const auto where = net::parse_host_port("address", tcp);
  return where ? where->host : "";
}

// Members on this machine are reached by their Unix sockets, which need no token.
Node node_of(const json& member) {
  Node node;
  node.machine.name = text_at(member, "name");
  node.machine.role =
      text_at(member, "role") == "worker" ? plan::Role::kWorker : plan::Role::kHelper;
  node.machine.address = text_at(member, "tcp");
  node.machine_host = text_at(member, "host");
  node.host = host_in(node.machine.address);
  const std::string local = text_at(member, "unix");
  const bool is_here = node.machine_host == net::host_name() && !local.empty();
  node.control = is_here || node.machine.address.empty() ? local : node.machine.address;
  return node;
}

Node stranger(const std::string& address) {
  Node node;
  node.machine.name = node.machine.address = node.control = address;
  node.machine.role = plan::Role::kHelper;
  node.host = host_in(address);
  return node;
}

class Surveyor {
 public:
  Surveyor(const SurveyOptions& options, const std::function<void(const std::string&)>& progress)
      : options_(options), progress_(progress) {}

  Result<Survey> run() {
    if (auto found = find_nodes(); !found) return found.error();
    measure_machines();
    if (nodes_.size() > 1) {
      if (options_.pairs || is_star()) measure_pairs();
      for (std::size_t i = 0; i < (is_star() ? 1 : nodes_.size()); ++i) measure_at_once(i);
    }
    for (const Node& node : nodes_) survey_.file.machines.push_back(node.machine);
    fill_in(survey_.file);
    if (options_.racks) find_racks();
    note_shared_machines();
    return std::move(survey_);
  }

 private:
  // True: only the first node is measured with each other node.
  bool is_star() const { return !options_.to.empty(); }

  Result<json> call(Node& node, const char* method, json params, Nanos timeout) const;
  Result<json> call_when_free(Node& node, const char* method, const json& params,
                              Nanos timeout) const;
  Outcome find_nodes();
  Outcome choose(const std::vector<Node>& members, bool by_name);
  void measure_machines();
  void measure_pairs();
  void measure_at_once(std::size_t index);
  bool measure_round(std::vector<plan::racks::Flow>& asked);
  void find_racks();
  void transfer(std::vector<Flow>& flows);
  json offers(const std::vector<Flow>& flows);
  void leave_out(std::size_t node, const Error& error);
  void note_shared_machines();

  const SurveyOptions& options_;
  const std::function<void(const std::string&)>& progress_;
  std::vector<Node> nodes_;
  Survey survey_;
};

Result<json> Surveyor::call(Node& node, const char* method, json params, Nanos timeout) const {
  if (!node.channel) {
    auto channel = RpcChannel::connect(node.control, 0, options_.credentials);
    if (!channel) return channel.error();
    node.channel = std::make_shared<RpcChannel>(std::move(channel).value());
  }
  auto answer = node.channel->query(method, params, monotonic_now() + timeout);
  if (!answer && answer.status() == Status::kNodeLost) node.channel.reset();
  return answer;
}

Result<json> Surveyor::call_when_free(Node& node, const char* method, const json& params,
                                      Nanos timeout) const {
  for (const Nanos end = monotonic_now() + kBusy;;) {
    auto answer = call(node, method, params, timeout);
    if (answer || answer.status() != Status::kAgain || monotonic_now() >= end) return answer;
    const timespec pause{0, kBusyPause};
    ::nanosleep(&pause, nullptr);
  }
}

// -- Nodes to measure ------------------------------------------------------------------------

Outcome Surveyor::find_nodes() {
  auto asked = RpcChannel::connect(options_.address, 0, options_.credentials);
  if (!asked) return asked.error();
  const auto answer = ask_members(*asked, options_.timeout);
  if (!answer && answer.status() != Status::kUnsupported) return answer.error();
  std::vector<Node> members;
  for (const json& member : answer ? *answer : json::array()) members.push_back(node_of(member));
  const bool alone = members.empty();
  if (alone) members.push_back(stranger(options_.address));
  return choose(members, !alone);
}

// With --to, the node at the given address comes first. The nodes that --to names follow.
Outcome Surveyor::choose(const std::vector<Node>& members, bool by_name) {
  const auto find = [&](const std::string& word) {
    return std::find_if(members.begin(), members.end(), [&](const Node& one) {
      return by_name && (one.machine.name == word || one.machine_host == word ||
                         one.machine.address == word || one.control == word || one.host == word);
    });
  };
  if (!is_star()) {
    nodes_ = members;
    return Unit{};
  }
  auto first = find(options_.address);
  if (by_name && first == members.end() && !options_.address.starts_with(net::kTcpScheme)) {
    first = find(net::host_name());
  }
  const Node alone = by_name ? stranger(options_.address) : members[0];
  nodes_.push_back(first != members.end() ? *first : alone);
  for (const std::string& word : options_.to) {
    const auto found = find(word);
    if (found == members.end() && !word.starts_with(net::kTcpScheme)) {
      return Error{Status::kInvalidArgument,
                   fmt::format("--to {}: no member has this name or host (tallyctl nodes lists "
                               "them), and it is no address like tcp:host:port",
                               word)};
    }
    const Node node = found != members.end() ? *found : stranger(word);
    const bool is_twice = std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& other) {
      return other.machine.name == node.machine.name;
    });
    if (is_twice) {
      return Error{Status::kInvalidArgument,
                   fmt::format("--to {}: it is measured already; name it once, and not the node "
                               "that is asked",
                               word)};
    }
    nodes_.push_back(node);
  }
  return Unit{};
}

// -- Measurements ----------------------------------------------------------------------------

void Surveyor::measure_machines() {
  progress_(
      fmt::format("{} machine{}: NIC and sums", nodes_.size(), nodes_.size() == 1 ? "" : "s"));
  std::vector<Result<json>> answers(nodes_.size(), json());
  parallel_for(nodes_.size(), kMostThreads, [&](std::size_t i) {
    json params = json::object();
    if (!nodes_[i].host.empty()) params["host"] = nodes_[i].host;
    answers[i] = call_when_free(nodes_[i], "probe.machine", params, kSlack);
  });
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    plan::Machine& machine = nodes_[i].machine;
    if (!answers[i]) {
      leave_out(i, answers[i].error());
      nodes_[i].takes_part = false;
      continue;
    }
    machine.interface = text_at(*answers[i], "interface");
    machine.nic = number_at(*answers[i], "nic");
    machine.sum = number_at(*answers[i], "sum");
    const std::string error = text_at(*answers[i], "nic_error");
    if (!error.empty()) survey_.notes.push_back(fmt::format("{}: {}", machine.name, error));
  }
}

void Surveyor::measure_pairs() {
  const std::size_t firsts = is_star() ? 1 : nodes_.size();
  for (std::size_t i = 0; i < firsts; ++i) {
    for (std::size_t j = i + 1; j < nodes_.size(); ++j) {
      if (!nodes_[i].takes_part || !nodes_[j].takes_part) continue;
      progress_(fmt::format("{} with {}", nodes_[i].machine.name, nodes_[j].machine.name));
      std::vector<Flow> flows = {{i, j, kStreams}, {j, i, kStreams}};
      transfer(flows);
      for (const Flow& flow : flows) {
        if (flow.speed > 0) survey_.file.pairs.push_back({flow.from, flow.to, flow.speed});
      }
    }
  }
}

// Measures from all other nodes at the same time, then to all of them.
void Surveyor::measure_at_once(std::size_t index) {
  plan::Machine& machine = nodes_[index].machine;
  std::vector<std::size_t> peers;
  for (std::size_t other = 0; other < nodes_.size(); ++other) {
    if (other != index && nodes_[other].takes_part) peers.push_back(other);
  }
  const std::size_t others = peers.size();
  if (others == 0 || !nodes_[index].takes_part) return;
  const std::size_t streams = (kStreams + others - 1) / others;
  if (others * streams > kMostStreams) {
    survey_.errors.push_back(
        fmt::format("{}: {} others at once: a node takes {} streams; name some "
                    "with --to",
                    machine.name, others, kMostStreams));
    return;
  }
  for (const bool in : {true, false}) {
    progress_(fmt::format("{} {} all others at once", machine.name, in ? "from" : "to"));
    std::vector<Flow> flows;
    for (const std::size_t other : peers) {
      flows.push_back({in ? other : index, in ? index : other, streams});
    }
    transfer(flows);
    double speed = 0;
    bool is_whole = true;
    for (const Flow& flow : flows) {
      speed += flow.speed;
      is_whole = is_whole && flow.speed > 0;
    }
    if (is_whole) (in ? machine.in : machine.out) = speed;
  }
}

// Measures the flows of a round. Where many streams share a link, some may carry nothing for a
// while. The search does without their flows. Returns false when a node is lost, or most flows are
// missing.
bool Surveyor::measure_round(std::vector<plan::racks::Flow>& asked) {
  std::vector<std::string>& errors = survey_.errors;
  const std::size_t before = errors.size();
  std::vector<Flow> flows;
  for (const auto& one : asked) flows.push_back({one.from, one.to, kStreams});
  transfer(flows);
  std::size_t missing = 0;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    asked[i].speed = flows[i].speed;
    if (flows[i].speed <= 0) ++missing;
  }
  const bool has_all_nodes =
      std::all_of(nodes_.begin(), nodes_.end(), [](const Node& node) { return node.takes_part; });
  if (!has_all_nodes || 2 * missing > flows.size()) return false;
  errors.resize(before);
  return true;
}

void Surveyor::find_racks() {
  using plan::racks::RackSearch;
  std::vector<plan::racks::Speeds> speeds;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const plan::Machine& machine = survey_.file.machines[i];
    if (nodes_[i].takes_part && machine.in > 0 && machine.out > 0)
      speeds.push_back({machine.in, machine.out});
  }
  if (speeds.size() != nodes_.size() || speeds.size() < plan::racks::kFewestMachines ||
      speeds.size() > kMostThreads) {
    survey_.errors.push_back(
        fmt::format("--racks: {} of {} nodes were measured: it needs all of them, and {} to {}",
                    speeds.size(), nodes_.size(), plan::racks::kFewestMachines, kMostThreads));
    return;
  }
  RackSearch search(std::move(speeds));
  for (const plan::MachinePair& pair : survey_.file.pairs) {
    search.add_alone({pair.from, pair.to, pair.speed});
  }
  std::size_t round = 0;
  for (auto asked = search.next(); !asked.empty(); asked = search.next()) {
    progress_(fmt::format("racks: round {} of at most {}", ++round,
                          RackSearch::kRounds + 2 * nodes_.size()));
    if (!measure_round(asked)) return;
    search.add(asked);
  }
  add_racks(survey_.file, search.racks());
  if (survey_.file.racks.empty()) {
    survey_.notes.push_back(fmt::format(
        "no racks: in {} rounds of flows at the same time only the NICs limited them", round));
  }
}

// Records the error. A node that is lost takes no further part, so that the rest is measured
// without it.
void Surveyor::leave_out(std::size_t node, const Error& error) {
  survey_.errors.push_back(fmt::format("{}: {}", nodes_[node].machine.name, error.message));
  const bool is_gone = error.status == Status::kNodeLost || error.status == Status::kDeadline ||
                       error.status == Status::kUnavailable;
  if (is_gone) nodes_[node].takes_part = false;
}

// Makes the receivers listen. Returns {host, port, key} for the senders, by the receiver's index.
json Surveyor::offers(const std::vector<Flow>& flows) {
  std::map<std::size_t, std::size_t> expected;  // streams, by receiver
  for (const Flow& flow : flows) expected[flow.to] += flow.streams;
  const std::vector<std::pair<std::size_t, std::size_t>> receivers(expected.begin(),
                                                                   expected.end());
  std::vector<Result<json>> answers(receivers.size(), json());
  parallel_for(receivers.size(), kMostThreads, [&](std::size_t i) {
    const auto& [node, streams] = receivers[i];
    const auto measure = static_cast<std::uint64_t>(options_.seconds * 1000);
    answers[i] = call_when_free(nodes_[node], "probe.serve",
                                {{"streams", streams}, {"measure_ms", measure}}, options_.timeout);
  });
  json by_node = json::object();
  for (std::size_t i = 0; i < receivers.size(); ++i) {
    const Node& node = nodes_[receivers[i].first];
    if (!answers[i]) {
      leave_out(receivers[i].first, answers[i].error());
    } else if (node.host.empty()) {
      survey_.errors.push_back(
          fmt::format("{}: it has no address on a network that others could reach "
                      "(listen_tcp); give it by --address tcp:host:port",
                      node.machine.name));
    } else {
      by_node[std::to_string(receivers[i].first)] = {{"host", node.host},
                                                     {"port", number_at(*answers[i], "port")},
                                                     {"key", text_at(*answers[i], "key")}};
    }
  }
  return by_node;
}

// Runs all flows at the same time.
void Surveyor::transfer(std::vector<Flow>& flows) {
  std::vector<std::string>& errors = survey_.errors;
  const std::size_t before = errors.size();
  const json by_node = offers(flows);
  if (errors.size() != before) return;
  std::map<std::size_t, std::vector<std::size_t>> by_sender;  // flows, by sender
  for (std::size_t i = 0; i < flows.size(); ++i) by_sender[flows[i].from].push_back(i);
  const std::vector<std::pair<std::size_t, std::vector<std::size_t>>> senders(by_sender.begin(),
                                                                              by_sender.end());
  std::vector<Result<json>> answers(senders.size(), json());
  const auto span = static_cast<Nanos>(options_.seconds * kSecond);
  parallel_for(senders.size(), kMostThreads, [&](std::size_t i) {
    json to = json::array();
    for (const std::size_t flow : senders[i].second) {
      json target = by_node[std::to_string(flows[flow].to)];
      target["port"] = static_cast<std::uint64_t>(number_at(target, "port"));
      for (std::size_t n = 0; n < flows[flow].streams; ++n) to.push_back(target);
    }
    answers[i] =
        call_when_free(nodes_[senders[i].first], "probe.run",
                       {{"to", std::move(to)}, {"measure_ms", span / kMillisecond}}, span + kSlack);
  });
  for (std::size_t i = 0; i < senders.size(); ++i) {
    const std::string& sender = nodes_[senders[i].first].machine.name;
    if (!answers[i]) {
      leave_out(senders[i].first, answers[i].error());
      continue;
    }
    const json streams = list_at(*answers[i], "streams");
    std::size_t at = 0;
    for (const std::size_t index : senders[i].second) {
      Flow& flow = flows[index];
      std::string error;
      double speed = 0;
      for (std::size_t n = 0; n < flow.streams; ++n, ++at) {
        const json stream = at < streams.size() ? streams[at] : json();
        if (number_at(stream, "ns") > 0) {
          speed += number_at(stream, "bytes") * kSecond / number_at(stream, "ns");
        } else {
          error = text_at(stream, "error");
        }
      }
      if (error.empty()) flow.speed = speed;
      if (!error.empty()) {
        errors.push_back(fmt::format("{} -> {}: {}", sender, nodes_[flow.to].machine.name, error));
      }
    }
  }
}

// -- Results ---------------------------------------------------------------------------------

void Surveyor::note_shared_machines() {
  std::map<std::string, std::size_t> by_host;
  for (const Node& node : nodes_) {
    if (!node.machine_host.empty()) ++by_host[node.machine_host];
  }
  for (const auto& [host, nodes] : by_host) {
    if (nodes < 2) continue;
    survey_.notes.push_back(
        fmt::format("{} nodes are on {}: what they share is counted for each, "
                    "and what is between them is no NIC",
                    nodes, host));
  }
}

}  // namespace

Result<Survey> survey(const SurveyOptions& options,
                      const std::function<void(const std::string&)>& progress) {
  return Surveyor(options, progress).run();
}

}  // namespace tally::control::probe
