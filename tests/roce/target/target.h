// The port, the memory and the queue pairs of roce-target. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "dataplane/engine/eal.h"
#include "dataplane/transport/roce/link.h"
#include "dataplane/transport/roce/port/port.h"
#include "tests/roce/target/memory_window.h"
#include "tests/roce/target/options.h"
#include "tests/roce/target/queue_pair.h"

namespace tally::transport::roce::target {

class Target {
 public:
  // Starts the EAL, and opens the port.
  static Result<std::unique_ptr<Target>> open(const Options& options);
  ~Target();

  const Options& options() const { return options_; }
  // The most bytes of payload in a packet.
  std::uint32_t mtu() const { return mtu_; }
  std::string driver() const { return port_->facts().driver; }
  std::uint32_t port_mtu() const { return port_->facts().mtu; }
  PortCounters port_counters() const { return link_->counters(); }

  // Makes new queue pairs, in place of those of the connection before, and fills their memory.
  void make_pairs();
  std::vector<std::unique_ptr<QueuePair>>& pairs() { return pairs_; }

  // Receives and sends what there is. True: there was something.
  bool progress();
  // Empty: all connections stand.
  std::string failure() const;

 private:
  explicit Target(const Options& options) : options_(options) {}
  Outcome start();

  static constexpr std::size_t kBurst = 32;

  // In this order, because each needs what is before it.
  Options options_;
  std::unique_ptr<engine::Eal> eal_;
  engine::EalMemory memory_;
  std::optional<MemoryWindow> window_;
  std::shared_ptr<Port> port_;
  std::unique_ptr<Link> link_;
  std::vector<std::unique_ptr<QueuePair>> pairs_;
  std::array<Arrival, kBurst> burst_;
  std::uint32_t mtu_ = 0;
};

}  // namespace tally::transport::roce::target
