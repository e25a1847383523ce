#include "client/job_entry.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/debug_steps.h"
#include "client/address.h"
#include "client/cut_json.h"
#include "client/follow.h"
#include "client/make_link.h"
#include "client/rpc_channel.h"
#include "dataplane/transport/shm/segment.h"

namespace tally::client {
namespace {

using nlohmann::json;

// For one of several addresses, before the next is tried.
constexpr Nanos kConnectSlice = 500 * kMillisecond;
// For nodes to join a coordinator that has just begun.
constexpr Nanos kJoining = 1 * kSecond;
constexpr Nanos kPause = 20 * kMillisecond;  // before the coordinator is asked again

// Where the job has nodes.
struct NodeEntry {
  std::string name;
  std::string address;
  std::vector<std::uint32_t> trees;
  std::vector<std::uint32_t> lanes;  // by tree; empty: one after the other
};

// What a coordinator says of a job.
struct Placement {
  std::uint32_t epoch = 0;
  std::vector<NodeEntry> nodes;    // none: the node that was asked is the only one
  std::vector<std::string> names;  // of all its nodes, also those that the rank does not speak to
};

class Entry {
 public:
  Entry(const SessionOptions& options, Nanos deadline) : options_(options), deadline_(deadline) {}

  Result<JobEntry> run() {
    const auto wish = read_wish(options_.transport, options_.domain);
    if (!wish) return wish.error();
    wish_ = *wish;
    auto channel = reach();
    if (!channel) return channel.error();
    Outcome entered = enter(*channel);
    // The job has ended while its plan was on its way: it forms again.
    while (!placement_.nodes.empty() && entered.status() == Status::kStaleEpoch &&
           monotonic_now() + kPause < deadline_) {
      ::usleep(kPause / kMicrosecond);
      nodes_.clear();
      said_.clear();
      const auto asked = ask(*channel);
      entered = asked ? enter(*channel) : asked;
    }
    if (!entered) return entered.error();
    debug_step(DebugStep::kClientAttached);
    JobEntry made = finish();
    if (!placement_.nodes.empty()) made.coordinator = std::move(*channel);
    return made;
  }

  // What a coordinator has said without being asked.
  Result<JobEntry> run(const json& version) {
    const auto wish = read_wish(options_.transport, options_.domain);
    if (!wish) return wish.error();
    wish_ = *wish;
    const Error wrong{Status::kProtocol, "the coordinator's new plan cannot be read"};
    try {
      placement_ = read(version);
    } catch (const json::exception&) {
      return wrong;
    }
    if (placement_.nodes.empty()) return wrong;
    for (const NodeEntry& node : placement_.nodes) {
      if (auto entered = enter(node); !entered) return entered.error();
    }
    return finish();
  }

 private:
  JobEntry finish() {
    Nodes nodes(std::move(nodes_));
    book_.lanes = nodes.lanes_of_trees();
    return JobEntry{book_,   std::move(nodes), placement_.names, deadline_ms_,
                    crc32c_, std::move(said_), std::nullopt};
  }

  Outcome enter(RpcChannel& channel) {
    if (placement_.nodes.empty()) return open(std::move(channel), {}, {});
    for (const NodeEntry& node : placement_.nodes) {
      if (auto entered = enter(node); !entered) return entered;
    }
    return Unit{};
  }

  Outcome enter(const NodeEntry& node) {
    auto there = RpcChannel::connect(node.address, deadline_);
    if (!there) return at(node, there.error());
    auto opened = open(std::move(there).value(), node.trees, node.lanes);
    if (!opened) return at(node, opened.error());
    return Unit{};
  }

  static Error at(const NodeEntry& node, const Error& why) {
    return {why.status, fmt::format("node {}: {}", node.name, why.message)};
  }

  json hello() const {
    return {{"version", kProtocolVersion},
            {"job", options_.job},
            {"token", options_.token},
            {"rank", options_.rank},
            {"ranks", options_.ranks}};
  }

  // The first that knows of the job, of those in the list: the others are not there, or no
  // coordinators. One whose nodes are still joining is asked again.
  Result<RpcChannel> reach() {
    const auto addresses = split_addresses(options_.address);
    std::string why;
    for (;;) {
      why.clear();
      for (const std::string& address : addresses) {
        const Nanos slice = addresses.size() > 1 ? monotonic_now() + kConnectSlice : kForever;
        auto channel = reach(address, std::min(deadline_, slice));
        if (channel || channel.status() != Status::kUnavailable) return channel;
        why += (why.empty() ? "" : "; ") + channel.error().message;
      }
      if (monotonic_now() + kPause >= std::min(enough_, deadline_)) {
        return Error{Status::kUnavailable, why};
      }
      ::usleep(kPause / kMicrosecond);
    }
  }

  // The node there, or the coordinator that it names. kUnavailable: neither knows of the job.
  Result<RpcChannel> reach(const std::string& address, Nanos until) {
    auto node = RpcChannel::connect(address, until);
    if (!node) return node;
    debug_step(DebugStep::kClientConnected);
    const auto asked = ask(*node);
    if (asked) return node;
    if (asked.status() != Status::kUnavailable) return asked.error();
    enough_ = std::min(enough_, monotonic_now() + kJoining);
    auto coordinator = follow(*node, deadline_);
    if (!coordinator) {
      return Error{Status::kUnavailable,
                   fmt::format("{}; {}", asked.error().message, coordinator.error().message)};
    }
    if (const auto there = ask(*coordinator); !there) return there.error();
    return coordinator;
  }

  // Again, where the job is about to end and forms anew afterwards.
  Outcome ask(RpcChannel& channel) {
    for (;;) {
      auto asked = ask_once(channel);
      const bool again = asked.status() == Status::kStaleEpoch;
      if (!again || monotonic_now() + kPause >= deadline_) return asked;
      ::usleep(kPause / kMicrosecond);
    }
  }

  Outcome ask_once(RpcChannel& channel) {
    json params = hello();
    params["host"] = host_name();
    auto reply = channel.call("job.open", std::move(params), {}, deadline_);
    if (!reply && reply.status() == Status::kUnsupported) {  // older ones
      placement_ = {};
      return Unit{};
    }
    if (!reply) return reply.error();
    try {
      placement_ = read(*reply);
    } catch (const json::exception&) {
      return unreadable("job.open", channel);
    }
    if (placement_.nodes.size() > protocol::kMaxTrees) return unreadable("job.open", channel);
    return Unit{};
  }

  // A node of this host is reached by its Unix socket, and so through shared memory.
  static Placement read(const json& reply) {
    Placement placement;
    for (const json& one : reply.at("nodes")) {
      NodeEntry node{one.at("name"), one.at("tcp"), one.at("trees"), {}};
      if (const auto lanes = one.find("lanes"); lanes != one.end()) lanes->get_to(node.lanes);
      const std::string local = one.at("unix");
      const bool here = !local.empty() && one.at("host") == host_name();
      if (here || node.address.empty()) node.address = local;
      placement.nodes.push_back(std::move(node));
    }
    if (!placement.nodes.empty()) placement.epoch = reply.at("epoch");
    if (const auto names = reply.find("names"); names != reply.end()) {
      names->get_to(placement.names);
    }
    return placement;
  }

  Outcome open(RpcChannel channel, std::vector<std::uint32_t> trees,
               std::vector<std::uint32_t> lanes) {
    json params = hello();
    if (placement_.epoch != 0) params["epoch"] = placement_.epoch;
    auto opened = channel.call("session.open", std::move(params), {}, deadline_);
    if (!opened) return opened.error();
    const auto credit = read_plan(*opened, channel);
    if (!credit) return credit.error();
    if (auto read = open_checksums(*opened, channel); !read) return read;
    for (std::uint32_t i = 0; i < book_.plan.trees && placement_.nodes.empty(); ++i) {
      trees.push_back(i);
    }
    const LinkSize size{lanes_of(*opened, trees.size()), *credit};
    const transport::shm::SegmentGeometry geometry{size.shards, size.credit};
    const bool fine = geometry.valid() && place_trees(lanes, trees.size(), size.shards);
    if (!fine) return unreadable("session.open", channel);
    auto made = make_link(channel, *opened, wish_, size, deadline_);
    if (!made) return made.error();
    said_.push_back({made->second_best,
                     fmt::format("rank {} of {}: transport {}; {} (the node at {}), {} shards, "
                                 "credit {}{}",
                                 book_.rank, book_.ranks, made->link->description(), made->why,
                                 channel.address(), made->link->shards(), size.credit,
                                 crc32c_ != nullptr ? ", with checksums" : "")});
    nodes_.push_back(
        {std::move(channel), std::move(made->link), std::move(trees), std::move(lanes)});
    return Unit{};
  }

  // All nodes have the same plan, or it is none. The credit at this one.
  Result<std::uint32_t> read_plan(const json& reply, const RpcChannel& channel) {
    BookConfig book;
    try {
      book.epoch = reply.at("epoch").get<std::uint32_t>();
      book.credit = reply.at("credit").get<std::uint32_t>();
      deadline_ms_ = reply.at("deadline_ms");
    } catch (const json::exception&) {
      return unreadable("session.open", channel);
    }
    book.rank = options_.rank;
    book.ranks = options_.ranks;
    auto plan = find_plan(reply);
    if (!plan || !places_all(plan->trees)) return unreadable("session.open", channel);
    book.plan = std::move(*plan);
    if (nodes_.empty()) book_ = book;
    if (book.plan != book_.plan || book.epoch != book_.epoch) {
      return Error{Status::kProtocol,
                   fmt::format("the node at {} has another plan of job \"{}\" than the one at {}: "
                               "has the job formed again? Open the session again",
                               channel.address(), options_.job, nodes_.front().channel.address())};
    }
    book_.credit = std::min(book_.credit, book.credit);  // the book knows one for all
    return book.credit;
  }

  // Shards of the node that serve the job; nodes of the version before have one for each tree.
  static std::uint32_t lanes_of(const json& reply, std::size_t trees) {
    const auto lanes = reply.find("lanes");
    const bool said = lanes != reply.end() && lanes->is_number_unsigned();
    const std::uint64_t most = transport::shm::kMaxShards;
    return static_cast<std::uint32_t>(
        std::min(said ? lanes->get<std::uint64_t>() : trees, most + 1));
  }

  // Where nothing was said of lanes, trees are at one after the other, and again.
  static bool place_trees(std::vector<std::uint32_t>& lanes, std::size_t trees,
                          std::uint32_t count) {
    const bool said = !lanes.empty();
    for (std::size_t i = 0; i < trees && !said; ++i) {
      lanes.push_back(static_cast<std::uint32_t>(i % count));
    }
    return lanes.size() == trees && std::all_of(lanes.begin(), lanes.end(),
                                                [&](std::uint32_t lane) { return lane < count; });
  }

  // Each tree is at one node.
  bool places_all(std::size_t trees) const {
    if (placement_.nodes.empty()) return true;
    std::vector<bool> placed(trees);
    for (const NodeEntry& node : placement_.nodes) {
      for (const std::uint32_t tree : node.trees) {
        if (tree >= trees || placed[tree]) return false;
        placed[tree] = true;
      }
    }
    return std::find(placed.begin(), placed.end(), false) == placed.end();
  }

  // Both ends must know how: the node says that it does.
  Outcome open_checksums(const json& reply, const RpcChannel& channel) {
    if (!*options_.checksums) return Unit{};
    const auto offered = reply.find("checksums");
    if (offered == reply.end() || *offered != "crc32c") {
      return Error{
          Status::kUnsupported,
          fmt::format("the node at {} does not check checksums: it is of an older version, or "
                      "has no ISA-L (libisal2); or open the session without them",
                      channel.address())};
    }
    auto opened = Crc32c::open();
    if (!opened) return opened.error();
    crc32c_ = *opened;
    return Unit{};
  }

  const SessionOptions& options_;
  const Nanos deadline_;
  LinkWish wish_;
  Nanos enough_ = kForever;  // since the first answer: a coordinator that starts has time to
  Placement placement_;
  BookConfig book_;
  std::uint32_t deadline_ms_ = 0;
  const Crc32c* crc32c_ = nullptr;
  std::vector<SessionNode> nodes_;
  std::vector<JobEntry::Line> said_;
};

}  // namespace

Result<JobEntry> enter_job(const SessionOptions& options) {
  return Entry(options, monotonic_now() + options.connect_timeout).run();
}

Result<JobEntry> enter_version(const SessionOptions& options, const json& version, Nanos deadline) {
  return Entry(options, deadline).run(version);
}

}  // namespace tally::client
