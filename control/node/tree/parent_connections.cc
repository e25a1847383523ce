#include "control/node/tree/parent_connections.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log/log.h"

namespace tally::control {

ParentConnections::ParentConnections(asio::io_context& io, ShardSet& shards, std::string node,
                                     net::tls::Credentials credentials, bool serves)
    : shards_(shards),
      node_(std::move(node)),
      credentials_(std::move(credentials)),
      tasks_(io, shards),
      makers_(io, serves ? kMakers : 0),
      ender_(io, serves) {
  shards_.on_parent_lost([this](protocol::ParentId parent_id) { lost(parent_id); });
}

// Sends no session.close, because that would take time. The parent nodes detect the end of the
// connections.
ParentConnections::~ParentConnections() {
  tasks_.shards_ended();
  give_up();
  for (const auto& [job_id, bundle] : bundles_) {
    for (const SharedConnection& one : bundle->connections) {
      if (bundle->known) one->parent_connection->disconnect();
    }
  }
}

void ParentConnections::give_up() {
  for (const auto& [job_id, bundle] : bundles_) bundle->give_up();
}

protocol::ParentId ParentConnections::free_parent_id() {
  protocol::ParentId parent_id = 0;
  while (parents_.contains(parent_id)) ++parent_id;
  parents_.insert(parent_id);
  return parent_id;
}

void ParentConnections::add_connections(const JobInstance& instance, std::uint32_t index,
                                        Bundle& bundle) {
  const std::uint32_t shard = instance.shards[index];
  const auto above = instance.above_at(shard);
  const auto first = static_cast<std::ptrdiff_t>(bundle.connections.size());
  for (std::uint32_t number = 0; number < above.size(); ++number) {
    const RemoteShard& parent = instance.above[above[number]];
    const auto& all = bundle.connections;
    auto same = std::find_if(all.begin() + first, all.end(),
                             [&](const auto& one) { return one->node == parent.name; });
    if (same == all.end()) {
      bundle.connections.push_back(std::make_shared<Connection>(bundle.deadline));
      same = all.end() - 1;
      (*same)->shard = shard;
      (*same)->node = parent.name;
    }
    (*same)->parents.push_back({number, parent.shard, free_parent_id()});
  }
}

void ParentConnections::connect(const JobInstance& instance, Nanos deadline,
                                std::function<void(const Outcome&)> then) {
  auto bundle = std::make_shared<Bundle>();
  bundle->deadline = deadline;
  bundle->job_id = instance.job_id;
  bundle->buffers = instance.buffers;
  bundle->then = std::move(then);
  for (std::uint32_t index = 0; index < instance.shards.size(); ++index) {
    add_connections(instance, index, *bundle);
  }
  bundles_[instance.job_id] = bundle;
  bundle->unmade = bundle->connections.size();
  if (bundle->unmade == 0) return hand_over(bundle);
  begin(instance, bundle);
}

void ParentConnections::begin(const JobInstance& instance, const SharedBundle& bundle) {
  for (const SharedConnection& one : bundle->connections) {
    const auto parent =
        std::find_if(instance.above.begin(), instance.above.end(),
                     [&](const RemoteShard& other) { return other.name == one->node; });
    ParentSession::Options options;
    options.address = parent->local.empty() ? parent->tcp : parent->local;
    options.node = node_;
    options.shard_index = instance.shard_index(one->shard);
    options.job = instance.name;
    options.credentials = credentials_;
    if (instance.lock.key) options.token = net::auth::text_of(*instance.lock.key);
    options.epoch = instance.epoch;
    options.ranks = instance.ranks();
    options.buffers = instance.buffers;
    options.roce = shards_.has_roce() ? &tasks_ : nullptr;
    options.shard = one->shard;
    for (const Parent& above : one->parents) options.parent_shards.push_back(above.shard);
    const auto make = [bundle, one, options] {
      auto parent_connection = ParentSession::connect(options, one->cancel);
      if (parent_connection) {
        one->parent_connection = std::move(parent_connection).value();
      } else {
        one->made = parent_connection.error();
        bundle->give_up();  // the others are of no use without it
      }
    };
    makers_.run(make, [this, bundle, name = instance.name, one,
                       address = options.address](const Outcome& done) {
      if (!done) {
        one->made = done;
        bundle->give_up();
      }
      if (one->parent_connection != nullptr) {
        log::info("parent-connected", {{"job", name},
                                       {"node", one->node},
                                       {"address", address},
                                       {"shard", one->shard},
                                       {"transport", one->parent_connection->description()}});
      }
      if (--bundle->unmade == 0) all_made(bundle);
    });
  }
}

void ParentConnections::all_made(const SharedBundle& bundle) {
  if (bundle->removed) return take_back(bundle);
  const Connection* why = nullptr;  // the first connection that failed by itself
  for (const SharedConnection& one : bundle->connections) {
    const bool cause = !one->made && (why == nullptr || why->made.status() == Status::kCancelled);
    if (cause) why = one.get();
  }
  if (why == nullptr) return hand_over(bundle);
  const Error& error = why->made.error();
  std::exchange(bundle->then, nullptr)(
      Error{error.status, fmt::format("the node above it, \"{}\": {}", why->node, error.message)});
}

void ParentConnections::hand_over(const SharedBundle& bundle) {
  bundle->known = true;
  shards_.on_each(
      [bundle](std::uint32_t i, engine::Shard& shard, auto&) {
        for (const SharedConnection& one : bundle->connections) {
          if (one->shard != i) continue;
          for (const Parent& parent : one->parents) {
            shard.add_parent_connection(parent.parent_id, *one->parent_connection, parent.shard,
                                        bundle->buffers);
            shard.protocol().join_parent(bundle->job_id, parent.number, parent.parent_id,
                                         one->parent_connection->region(parent.shard),
                                         monotonic_now());
          }
        }
      },
      [bundle](const Outcome& done) {
        if (bundle->then && !bundle->removed) std::exchange(bundle->then, nullptr)(done);
      });
}

void ParentConnections::report_empty(const JobInstance& instance,
                                     const std::vector<protocol::Vertex>& vertices) {
  const auto found = bundles_.find(instance.job_id);
  if (found == bundles_.end() || !found->second->known) return;
  for (const SharedConnection& one : found->second->connections) {
    std::vector<std::uint32_t> trees;
    for (const protocol::Vertex& vertex : vertices) {
      const bool its = !vertex.is_root() && instance.shard_of(vertex.tree) == one->shard &&
                       instance.above[vertex.parent].name == one->node;
      if (its && one->empty.insert(vertex.tree).second) trees.push_back(vertex.tree);
    }
    if (trees.empty()) continue;
    ender_.run([one, trees = std::move(trees)] { one->parent_connection->report_empty(trees); },
               [](const Outcome&) {});
  }
}

void ParentConnections::remove(const JobInstance& instance, std::function<void()> then) {
  const auto found = bundles_.find(instance.job_id);
  if (found == bundles_.end()) {
    return shards_.on_each(
        [job_id = instance.job_id](auto, engine::Shard& shard, auto&) { shard.remove_job(job_id); },
        std::move(then));
  }
  const SharedBundle bundle = found->second;
  bundle->removed = std::move(then);
  bundle->give_up();
  if (bundle->unmade == 0) take_back(bundle);
}

void ParentConnections::take_back(const SharedBundle& bundle) {
  shards_.on_each(
      [bundle](std::uint32_t i, engine::Shard& shard, auto&) {
        const auto each = [&](auto what) {
          for (const SharedConnection& one : bundle->connections) {
            if (!bundle->known || one->shard != i) continue;
            for (const Parent& parent : one->parents) what(parent.parent_id);
          }
        };
        each([&](protocol::ParentId parent_id) {
          shard.protocol().parent_gone(parent_id, Status::kPeerLeft, monotonic_now());
        });
        shard.remove_job(bundle->job_id);
        each([&](protocol::ParentId parent_id) { shard.remove_parent_connection(parent_id); });
      },
      [this, bundle] {
        for (const SharedConnection& one : bundle->connections) {
          for (const Parent& parent : one->parents) parents_.erase(parent.parent_id);
        }
        const auto removed = std::exchange(bundle->removed, nullptr);
        // Connections never end on this thread, because their end waits for it.
        if (!bundle->connections.empty()) {
          ender_.run([bundle] { bundle->connections.clear(); }, [](const Outcome&) {});
        }
        bundles_.erase(bundle->job_id);
        removed();
      });
}

void ParentConnections::lost(protocol::ParentId parent_id) {
  for (const auto& [job_id, bundle] : bundles_) {
    for (const SharedConnection& one : bundle->connections) {
      const bool its =
          std::any_of(one->parents.begin(), one->parents.end(),
                      [parent_id](const Parent& parent) { return parent.parent_id == parent_id; });
      if (!its) continue;
      one->parent_connection->hang_up();
      return on_lost_(job_id, one->node);
    }
  }
}

}  // namespace tally::control
