#include "client/session/job_entry.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/debug_steps.h"
#include "client/connections/make_connection.h"
#include "client/session/join_timeout.h"
#include "client/session/rank_loss_answer.h"
#include "dataplane/transport/shm/segment.h"
#include "net/address.h"
#include "net/rpc/fault_json.h"
#include "net/rpc/follow.h"
#include "net/rpc/partition_json.h"
#include "net/rpc/rpc_channel.h"
#include "net/tls/credentials.h"

namespace tally::client {
namespace {

using nlohmann::json;

// Time for one of several addresses. Then the next address is tried.
constexpr Nanos kConnectSlice = 500 * kMillisecond;
constexpr Nanos kPause = 20 * kMillisecond;  // before the rank asks again

// A node of the job, and the trees that it serves.
struct NodeEntry {
  std::string name;
  std::string address;
  std::vector<std::uint32_t> trees;
  // shard of each tree at the node; empty: trees use shards in turn
  std::vector<std::uint32_t> shards;
};

// The coordinator's answer about a job.
struct Placement {
  std::uint32_t epoch = 0;
  std::vector<NodeEntry> nodes;  // empty: the node that was asked is the only one
  // of all nodes of the job, also those without a session of this rank
  std::vector<std::string> names;
  std::string key;       // what this rank shows to the nodes; empty: the same as to the coordinator
  bool repairs = false;  // the coordinator repairs jobs
  FaultTimeouts timeouts;  // the coordinator's
  RankLossAnswer rank_loss;
};

class Entry {
 public:
  Entry(const SessionOptions& options, const SharedByConnections& shared, Nanos deadline)
      : options_(options), shared_(shared), deadline_(deadline) {}

  Result<JobEntry> run() {
    if (auto prepared = prepare(); !prepared) return prepared.error();
    auto channel = reach();
    if (!channel) return channel.error();
    Outcome entered = enter(*channel);
    // The job instance ended before this rank entered it. The ranks form the next one.
    while (!placement_.nodes.empty() && entered.status() == Status::kStaleEpoch &&
           monotonic_now() + kPause < deadline_) {
      ::usleep(kPause / kMicrosecond);
      nodes_.clear();
      log_lines_.clear();
      auto asked = ask(*channel);
      if (asked.status() == Status::kNodeLost && term_.value() > 0) {
        channel = reach();
        if (!channel) return channel.error();
        asked = Unit{};
      }
      entered = asked ? enter(*channel) : asked;
    }
    if (!entered) return entered.error();
    debug_step(DebugStep::kClientAttached);
    JobEntry made = finish();
    made.coordinator = {std::nullopt, placement_.repairs, term_, made.book.epoch,
                        placement_.timeouts};
    made.first = placement_.rank_loss.first;
    if (!placement_.nodes.empty()) made.coordinator.channel = std::move(*channel);
    return made;
  }

  // Enters a version of the plan that the coordinator has announced.
  Result<JobEntry> run(const json& version) {
    if (auto prepared = prepare(); !prepared) return prepared.error();
    const Error wrong{Status::kProtocol, "the coordinator's new plan cannot be read"};
    try {
      placement_ = read(version);
    } catch (const json::exception&) {
      return wrong;
    }
    if (placement_.nodes.empty()) return wrong;
    auto rank_loss = read_rank_loss(options_, version);
    if (!rank_loss) return rank_loss.error();
    placement_.rank_loss = std::move(*rank_loss);
    for (const NodeEntry& node : placement_.nodes) {
      if (auto entered = enter(node); !entered) return entered.error();
    }
    return finish();
  }

 private:
  Outcome prepare() {
    const auto wish = read_wish(options_.transport, options_.domain);
    if (!wish) return wish.error();
    wish_ = *wish;
    // A job that goes on without a rank does its outstanding rounds again among fewer ranks. An
    // eager result may have reached one rank alone, which would then have another result than the
    // others.
    wish_.eager_results = !options_.finishes();
    auto credentials = net::tls::Credentials::of_user(options_.token);
    if (!credentials) return credentials.error();
    credentials_ = std::move(*credentials);
    return Unit{};
  }

  // Connects to a process that may get this rank's token and memory.
  static Result<rpc::RpcChannel> connect(const std::string& address, Nanos until,
                                         const net::tls::Credentials& credentials) {
    auto channel = rpc::RpcChannel::connect(address, until, credentials);
    if (!channel) return channel;
    const auto trusted = channel->check_owner();
    return trusted ? std::move(channel) : Result<rpc::RpcChannel>(trusted.error());
  }

  // What this rank shows to the nodes of the placement.
  Result<net::tls::Credentials> for_nodes() const {
    if (placement_.key.empty()) return credentials_;
    auto key = net::auth::shown(placement_.key);
    if (!key) return key.error();
    return credentials_.with_key(std::move(*key));
  }

  JobEntry finish() {
    Nodes nodes(std::move(nodes_));
    book_.shards = nodes.shards_of_trees();
    return JobEntry{
        book_, std::move(nodes), placement_.names, deadline_ms_, crc32c_, std::move(log_lines_),
        {}};
  }

  Outcome enter(rpc::RpcChannel& channel) {
    if (placement_.nodes.empty()) return open(std::move(channel), {}, {});
    for (const NodeEntry& node : placement_.nodes) {
      if (auto entered = enter(node); !entered) return entered;
    }
    return Unit{};
  }

  Outcome enter(const NodeEntry& node) {
    const auto credentials = for_nodes();
    if (!credentials) return at(node, credentials.error());
    auto there = connect(node.address, deadline_, *credentials);
    // The node knew the key when the coordinator answered. Since then the job has ended there.
    if (there.status() == Status::kRefused && !placement_.key.empty() && !credentials->in_clear()) {
      return at(node, Error{Status::kStaleEpoch, there.error().message});
    }
    if (!there) return at(node, there.error());
    auto opened = open(std::move(there).value(), node.trees, node.shards);
    if (!opened) return at(node, opened.error());
    nodes_.back().name = node.name;
    return Unit{};
  }

  static Error at(const NodeEntry& node, const Error& why) {
    return {why.status, fmt::format("node {}: {}", node.name, why.message)};
  }

  json hello(const rpc::RpcChannel& channel) const {
    return {{"version", rpc::kProtocolVersion},
            {"job", options_.job},
            {"token", channel.token()},
            {"rank", options_.rank},
            {"ranks", options_.ranks}};
  }

  // Returns a channel to the first address in the list that knows the job. An address that is
  // unavailable is skipped. The list is tried again for a time, because nodes may still be joining
  // a coordinator.
  Result<rpc::RpcChannel> reach() {
    const auto addresses = net::split_addresses(options_.address);
    std::string why;
    for (;;) {
      why.clear();
      for (const std::string& address : addresses) {
        const Nanos slice = addresses.size() > 1 ? monotonic_now() + kConnectSlice : kForever;
        auto channel = reach(address, std::min(deadline_, slice));
        if (channel.status() == Status::kNodeLost && elect(addresses)) {
          give_up_.answered(monotonic_now());
          give_up_.set_elected();
        } else if (channel || channel.status() != Status::kUnavailable) {
          return channel;
        }
        why += (why.empty() ? "" : "; ") + channel.error().message;
      }
      if (give_up_.is_over(monotonic_now() + kPause)) {
        return Error{Status::kUnavailable, why};
      }
      ::usleep(kPause / kMicrosecond);
    }
  }

  // Returns a channel to the node at the address, or to the coordinator that this node names.
  // kUnavailable: neither knows the job.
  Result<rpc::RpcChannel> reach(const std::string& address, Nanos until) {
    auto node = connect(address, until, credentials_);
    if (!node) return node;
    debug_step(DebugStep::kClientConnected);
    auto asked = ask(*node);
    if (asked) return node;
    if (asked.status() != Status::kUnavailable) return asked.error();
    give_up_.answered(monotonic_now());
    auto coordinator = rpc::follow(*node, deadline_, &is_elected_);
    if (is_elected_) give_up_.set_elected();
    if (!coordinator) {
      return Error{Status::kUnavailable,
                   fmt::format("{}; {}", asked.error().message, coordinator.error().message)};
    }
    if (const auto trusted = coordinator->check_owner(); !trusted) return trusted.error();
    if (const auto there = ask(*coordinator); !there) return there.error();
    return coordinator;
  }

  // Whether these nodes elect their coordinator. When it ends while the rank waits for its answer,
  // the next one may know the job.
  bool elect(const std::vector<std::string>& addresses) {
    for (const std::string& address : addresses) {
      if (is_elected_ || term_.value() > 0) return true;
      const Nanos until = std::min(deadline_, monotonic_now() + kConnectSlice);
      auto node = connect(address, until, credentials_);
      if (!node) continue;
      const auto answer = node->call("cluster.coordinator", json::object(), {}, until);
      is_elected_ = answer && rpc::is_elected(*answer);
    }
    return is_elected_ || term_.value() > 0;
  }

  // Asks again while the job instance is ending and the next one has not begun.
  Outcome ask(rpc::RpcChannel& channel) {
    for (;;) {
      auto asked = ask_once(channel);
      const bool again = asked.status() == Status::kStaleEpoch;
      if (!again || monotonic_now() + kPause >= deadline_) return asked;
      ::usleep(kPause / kMicrosecond);
    }
  }

  Outcome ask_once(rpc::RpcChannel& channel) {
    json params = hello(channel);
    params["host"] = net::host_name();
    ask_for_policy(options_, params);
    auto reply = channel.identify("job.open", params, deadline_);
    const bool is_older = !reply && reply.status() == Status::kUnsupported;
    if (!reply && !is_older) return refusal_of(options_, reply.error());
    auto rank_loss = read_rank_loss(options_, is_older ? json::object() : *reply);
    if (!rank_loss) return rank_loss.error();
    if (is_older) {
      placement_ = {};
      return Unit{};
    }
    if (auto acts = term_.accept(*reply); !acts) return acts;
    try {
      placement_ = read(*reply);
    } catch (const json::exception&) {
      return rpc::unreadable("job.open", channel);
    }
    placement_.rank_loss = std::move(*rank_loss);
    if (placement_.nodes.size() > protocol::kMaxTrees) return rpc::unreadable("job.open", channel);
    return Unit{};
  }

  // The rank reaches a node of its own host by the Unix socket, and therefore through shared
  // memory.
  static Placement read(const json& reply) {
    Placement placement;
    for (const json& one : reply.at("nodes")) {
      NodeEntry node{one.at("name"), one.at("tcp"), one.at("trees"), {}};
      if (const auto shards = one.find("lanes"); shards != one.end()) shards->get_to(node.shards);
      const std::string local = one.at("unix");
      const bool here = !local.empty() && one.at("host") == net::host_name();
      if (here || node.address.empty()) node.address = local;
      placement.nodes.push_back(std::move(node));
    }
    if (!placement.nodes.empty()) placement.epoch = reply.at("epoch");
    placement.key = reply.value("key", "");
    placement.repairs = reply.value("repairs", false);
    placement.timeouts.fault = rpc::fault_of(reply);
    if (const auto names = reply.find("names"); names != reply.end()) {
      names->get_to(placement.names);
    }
    return placement;
  }

  Outcome open(rpc::RpcChannel channel, std::vector<std::uint32_t> trees,
               std::vector<std::uint32_t> shards) {
    json params = hello(channel);
    if (placement_.epoch != 0) params["epoch"] = placement_.epoch;
    auto opened = channel.identify("session.open", params, deadline_);
    if (!opened) return opened.error();
    const auto credit = read_partition(*opened, channel);
    if (!credit) return credit.error();
    if (auto read = open_checksums(*opened, channel); !read) return read;
    for (std::uint32_t i = 0; i < book_.partition.trees && placement_.nodes.empty(); ++i) {
      trees.push_back(i);
    }
    const ConnectionSize size{shard_count(*opened, trees.size()), *credit};
    const transport::shm::SegmentGeometry geometry{size.shards, size.credit};
    const bool fine = geometry.valid() && place_trees(shards, trees.size(), size.shards);
    if (!fine) return rpc::unreadable("session.open", channel);
    auto made = make_connection(channel, *opened, wish_, size, shared_, deadline_);
    if (!made) return made.error();
    log_lines_.push_back(
        {made->second_best,
         fmt::format("rank {} of {}: transport {}; {} (the node at {}), {} shards, "
                     "credit {}{}",
                     book_.rank, book_.ranks, made->connection->description(), made->why,
                     channel.address(), made->connection->shards(), size.credit,
                     crc32c_ != nullptr ? ", with checksums" : "")});
    nodes_.push_back(
        {std::move(channel), std::move(made->connection), std::move(trees), std::move(shards)});
    return Unit{};
  }

  // Checks that all nodes report the same epoch and partition. Returns the credit at this node.
  Result<std::uint32_t> read_partition(const json& reply, const rpc::RpcChannel& channel) {
    BookConfig book;
    try {
      book.epoch = reply.at("epoch").get<std::uint32_t>();
      book.credit = reply.at("credit").get<std::uint32_t>();
      deadline_ms_ = reply.at("deadline_ms");
    } catch (const json::exception&) {
      return rpc::unreadable("session.open", channel);
    }
    book.rank = options_.rank;
    book.ranks = options_.ranks;
    book.left_out = placement_.rank_loss.left_out;
    auto partition = rpc::find_partition(reply);
    if (!partition || !places_all(partition->trees))
      return rpc::unreadable("session.open", channel);
    book.partition = std::move(*partition);
    if (nodes_.empty()) book_ = book;
    if (book.partition != book_.partition || book.epoch != book_.epoch) {
      return Error{Status::kProtocol,
                   fmt::format("the node at {} has another plan of job \"{}\" than the one at {}: "
                               "has the job formed again? Open the session again",
                               channel.address(), options_.job, nodes_.front().channel.address())};
    }
    book_.credit = std::min(book_.credit, book.credit);  // the book has one credit for all nodes
    return book.credit;
  }

  // The number of shards of the node that serve the job. Nodes of older versions do not report it;
  // they have one shard for each tree.
  static std::uint32_t shard_count(const json& reply, std::size_t trees) {
    const auto shards = reply.find("lanes");
    const bool reported = shards != reply.end() && shards->is_number_unsigned();
    const std::uint64_t most = transport::shm::kMaxShards;
    return static_cast<std::uint32_t>(
        std::min(reported ? shards->get<std::uint64_t>() : trees, most + 1));
  }

  // When no shards were reported, the trees use the shards in turn.
  static bool place_trees(std::vector<std::uint32_t>& shards, std::size_t trees,
                          std::uint32_t count) {
    const bool reported = !shards.empty();
    for (std::size_t i = 0; i < trees && !reported; ++i) {
      shards.push_back(static_cast<std::uint32_t>(i % count));
    }
    return shards.size() == trees &&
           std::all_of(shards.begin(), shards.end(),
                       [&](std::uint32_t shard) { return shard < count; });
  }

  // True when each tree is at exactly one node.
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

  // Both ends must support checksums; the node reports whether it does.
  Outcome open_checksums(const json& reply, const rpc::RpcChannel& channel) {
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
  const SharedByConnections& shared_;
  const Nanos deadline_;
  ConnectionWish wish_;
  net::tls::Credentials credentials_;
  JoinTimeout give_up_{deadline_};
  Placement placement_;
  rpc::HighestTerm term_;    // of coordinators whose answers this rank uses
  bool is_elected_ = false;  // a node has said that it elects its coordinator
  BookConfig book_;
  std::uint32_t deadline_ms_ = 0;
  const Crc32c* crc32c_ = nullptr;
  std::vector<SessionNode> nodes_;
  std::vector<JobEntry::Line> log_lines_;
};

}  // namespace

std::unique_ptr<PlanVersion> version_of(JobEntry& entry) {
  auto version = std::make_unique<PlanVersion>(std::move(entry.book), std::move(entry.nodes),
                                               std::move(entry.names));
  for (const auto& [tag, round] : entry.first) version->book.return_at(tag, round);
  return version;
}

Result<JobEntry> enter_job(const SessionOptions& options, const SharedByConnections& shared) {
  return Entry(options, shared, monotonic_now() + options.connect_timeout).run();
}

Result<JobEntry> enter_version(const SessionOptions& options, const SharedByConnections& shared,
                               const json& version, Nanos deadline) {
  return Entry(options, shared, deadline).run(version);
}

}  // namespace tally::client
