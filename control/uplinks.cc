#include "control/uplinks.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/log.h"

namespace tally::control {

Uplinks::Uplinks(asio::io_context& io, ShardSet& shards, std::string node, bool serves)
    : shards_(shards),
      node_(std::move(node)),
      makers_(io, serves ? kMakers : 0),
      ender_(io, serves) {
  shards_.on_uplink_lost([this](protocol::Link link) { lost(link); });
}

// Without a goodbye, which would take time: those above see the end of the connections.
Uplinks::~Uplinks() {
  give_up();
  for (const auto& [slot, bundle] : bundles_) {
    for (const SharedConnection& one : bundle->connections) {
      if (bundle->known) one->uplink->disconnect();
    }
  }
}

void Uplinks::give_up() {
  for (const auto& [slot, bundle] : bundles_) bundle->give_up();
}

protocol::Link Uplinks::free_link() {
  protocol::Link link = 0;
  while (links_.contains(link)) ++link;
  links_.insert(link);
  return link;
}

void Uplinks::add_connections(const Forming& forming, std::uint32_t lane, Bundle& bundle) {
  const std::uint32_t shard = forming.shards[lane];
  const auto above = forming.above_at(shard);
  const auto first = static_cast<std::ptrdiff_t>(bundle.connections.size());
  for (std::uint32_t number = 0; number < above.size(); ++number) {
    const Neighbour& parent = forming.above[above[number]];
    const auto& all = bundle.connections;
    auto same = std::find_if(all.begin() + first, all.end(),
                             [&](const auto& one) { return one->node == parent.name; });
    if (same == all.end()) {
      bundle.connections.push_back(std::make_shared<Connection>(bundle.deadline));
      same = all.end() - 1;
      (*same)->shard = shard;
      (*same)->node = parent.name;
    }
    (*same)->parents.push_back({number, parent.lane, free_link()});
  }
}

void Uplinks::connect(const Forming& forming, Nanos deadline,
                      std::function<void(const Outcome&)> then) {
  auto bundle = std::make_shared<Bundle>();
  bundle->deadline = deadline;
  bundle->slot = forming.slot;
  bundle->slots = forming.slots;
  bundle->then = std::move(then);
  for (std::uint32_t lane = 0; lane < forming.shards.size(); ++lane) {
    add_connections(forming, lane, *bundle);
  }
  bundles_[forming.slot] = bundle;
  bundle->unmade = bundle->connections.size();
  if (bundle->unmade == 0) return hand_over(bundle);
  begin(forming, bundle);
}

void Uplinks::begin(const Forming& forming, const SharedBundle& bundle) {
  for (const SharedConnection& one : bundle->connections) {
    const auto parent =
        std::find_if(forming.above.begin(), forming.above.end(),
                     [&](const Neighbour& other) { return other.name == one->node; });
    LinkUplink::Options options;
    options.address = parent->local.empty() ? parent->tcp : parent->local;
    options.node = node_;
    options.lane = forming.lane_of(one->shard);
    options.job = forming.name;
    options.token = forming.token;
    options.epoch = forming.epoch;
    options.ranks = forming.ranks();
    options.slots = forming.slots;
    for (const Parent& above : one->parents) options.lanes.push_back(above.lane);
    const auto make = [bundle, one, options] {
      auto uplink = LinkUplink::connect(options, one->patience);
      if (uplink) {
        one->uplink = std::move(uplink).value();
      } else {
        one->made = uplink.error();
        bundle->give_up();  // the others are of no use without it
      }
    };
    makers_.run(make, [this, bundle, name = forming.name, one, address = options.address] {
      if (one->uplink != nullptr) {
        log::info("uplink", {{"job", name},
                             {"node", one->node},
                             {"address", address},
                             {"shard", one->shard},
                             {"transport", one->uplink->description()}});
      }
      if (--bundle->unmade == 0) all_made(bundle);
    });
  }
}

void Uplinks::all_made(const SharedBundle& bundle) {
  if (bundle->removed) return take_back(bundle);
  const Connection* why = nullptr;  // the first that failed by itself
  for (const SharedConnection& one : bundle->connections) {
    const bool cause = !one->made && (why == nullptr || why->made.status() == Status::kCancelled);
    if (cause) why = one.get();
  }
  if (why == nullptr) return hand_over(bundle);
  const Error& error = why->made.error();
  std::exchange(bundle->then, nullptr)(
      Error{error.status, fmt::format("the node above it, \"{}\": {}", why->node, error.message)});
}

void Uplinks::hand_over(const SharedBundle& bundle) {
  bundle->known = true;
  shards_.on_each(
      [bundle](std::uint32_t i, engine::Shard& shard, auto&) {
        for (const SharedConnection& one : bundle->connections) {
          if (one->shard != i) continue;
          for (const Parent& parent : one->parents) {
            shard.add_uplink(parent.link, *one->uplink, parent.lane, bundle->slots);
            shard.protocol().join_parent(bundle->slot, parent.number, parent.link,
                                         one->uplink->region(parent.lane), monotonic_now());
          }
        }
      },
      [bundle] {
        if (bundle->then && !bundle->removed) std::exchange(bundle->then, nullptr)(Unit{});
      });
}

void Uplinks::tell_empty(const Forming& forming, const std::vector<protocol::Vertex>& vertices) {
  const auto found = bundles_.find(forming.slot);
  if (found == bundles_.end() || !found->second->known) return;
  for (const SharedConnection& one : found->second->connections) {
    std::vector<std::uint32_t> trees;
    for (const protocol::Vertex& vertex : vertices) {
      const bool its = !vertex.is_root() && forming.shard_of(vertex.tree) == one->shard &&
                       forming.above[vertex.parent].name == one->node;
      if (its && one->empty.insert(vertex.tree).second) trees.push_back(vertex.tree);
    }
    if (trees.empty()) continue;
    ender_.run([one, trees = std::move(trees)] { one->uplink->say_empty(trees); }, [] {});
  }
}

void Uplinks::remove(const Forming& forming, std::function<void()> then) {
  const auto found = bundles_.find(forming.slot);
  if (found == bundles_.end()) {
    return shards_.on_each(
        [slot = forming.slot](auto, engine::Shard& shard, auto&) { shard.remove_job(slot); },
        std::move(then));
  }
  const SharedBundle bundle = found->second;
  bundle->removed = std::move(then);
  bundle->give_up();
  if (bundle->unmade == 0) take_back(bundle);
}

void Uplinks::take_back(const SharedBundle& bundle) {
  shards_.on_each(
      [bundle](std::uint32_t i, engine::Shard& shard, auto&) {
        const auto each = [&](auto what) {
          for (const SharedConnection& one : bundle->connections) {
            if (!bundle->known || one->shard != i) continue;
            for (const Parent& parent : one->parents) what(parent.link);
          }
        };
        each([&](protocol::Link link) {
          shard.protocol().parent_gone(link, Status::kPeerLeft, monotonic_now());
        });
        shard.remove_job(bundle->slot);
        each([&](protocol::Link link) { shard.remove_uplink(link); });
      },
      [this, bundle] {
        for (const SharedConnection& one : bundle->connections) {
          for (const Parent& parent : one->parents) links_.erase(parent.link);
        }
        bundles_.erase(bundle->slot);
        const auto removed = std::exchange(bundle->removed, nullptr);
        if (!bundle->connections.empty()) {
          ender_.run([bundle] { bundle->connections.clear(); }, [] {});
        }
        removed();
      });
}

void Uplinks::lost(protocol::Link link) {
  for (const auto& [slot, bundle] : bundles_) {
    for (const SharedConnection& one : bundle->connections) {
      const bool its = std::any_of(one->parents.begin(), one->parents.end(),
                                   [link](const Parent& parent) { return parent.link == link; });
      if (!its) continue;
      one->uplink->hang_up();
      return on_lost_(slot, one->node);
    }
  }
}

}  // namespace tally::control
