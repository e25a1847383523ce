// This node's connections with the nodes above it in trees: made and ended on helper threads, known
// to the shards in between. Of the control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/admission.h"
#include "control/helper_threads.h"
#include "control/link_uplink.h"
#include "control/shard_set.h"

namespace tally::control {

class Uplinks {
 public:
  // `node`: this one's name. `serves`: placements come here at all; else there are no threads.
  // Borrows the loop and the shards.
  Uplinks(asio::io_context& io, ShardSet& shards, std::string node, bool serves);
  // No shard runs any more.
  ~Uplinks();
  Uplinks(const Uplinks&) = delete;
  Uplinks& operator=(const Uplinks&) = delete;

  // One for each shard of the forming and each node that is above it there. The shards know the
  // job. `then` hears when they know all uplinks, or why one cannot be had by `deadline`; not when
  // remove() comes in between. The forming stays until remove().
  void connect(const Forming& forming, Nanos deadline, std::function<void(const Outcome&)> then);
  // The shards forget the job and its uplinks, whether they stand or not; then `then`. Nobody is a
  // member of the forming any more.
  void remove(const Forming& forming, std::function<void()> then);
  // Tells the nodes above that no rank is left below these vertices; each once.
  void tell_empty(const Forming& forming, const std::vector<protocol::Vertex>& vertices);
  // The slot of the forming one of whose uplinks is lost, and the node above.
  void on_lost(std::function<void(std::uint32_t slot, const std::string& node)> callback) {
    on_lost_ = std::move(callback);
  }
  // Nobody waits for any of them any more.
  void give_up();

 private:
  // A parent of the shard's vertices: by which number it knows it, and which of the node's lanes
  // it is.
  struct Parent {
    std::uint32_t number = 0;
    std::uint32_t lane = 0;
    protocol::Link link = 0;
  };
  // A shard's with a node above.
  struct Connection {
    explicit Connection(Nanos deadline) : patience(deadline) {}
    Patience patience;  // with its making
    std::uint32_t shard = 0;
    std::string node;
    std::vector<Parent> parents;
    std::set<std::uint32_t> empty;  // trees that it has been told of
    std::unique_ptr<LinkUplink> uplink;
    Outcome made = Unit{};
  };
  using SharedConnection = std::shared_ptr<Connection>;
  // Of a forming.
  struct Bundle {
    std::uint32_t slot = 0;
    protocol::SlotLayout slots;
    Nanos deadline = 0;
    std::vector<SharedConnection> connections;
    std::size_t unmade = 0;
    bool known = false;  // to the shards
    std::function<void(const Outcome&)> then;
    std::function<void()> removed;  // set: as soon as nothing is being made

    // What is being made is not wanted any more.
    void give_up() const {
      for (const auto& one : connections) one->patience.end();
    }
  };
  using SharedBundle = std::shared_ptr<Bundle>;

  void add_connections(const Forming& forming, std::uint32_t lane, Bundle& bundle);
  protocol::Link free_link();
  void begin(const Forming& forming, const SharedBundle& bundle);
  void all_made(const SharedBundle& bundle);
  void hand_over(const SharedBundle& bundle);
  void take_back(const SharedBundle& bundle);
  void lost(protocol::Link link);

  ShardSet& shards_;
  const std::string node_;
  std::map<std::uint32_t, SharedBundle> bundles_;  // by the forming's slot
  std::set<protocol::Link> links_;                 // in use, at any shard
  std::function<void(std::uint32_t, const std::string&)> on_lost_;
  HelperThreads makers_;
  HelperThreads ender_;  // what has to be ended does not wait for what is being made
};

}  // namespace tally::control
