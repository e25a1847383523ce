// The node of the measurement: transport roce over a port, driven by a loop or by a shard, and the
// loops without connections over the same port, in turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>

#include "dataplane/engine/shard.h"
#include "dataplane/transport/roce/roce_transport.h"
#include "perf/limits/roce/counted_link.h"
#include "perf/limits/roce/node_loop.h"
#include "perf/limits/roce/stateless.h"
#include "perf/limits/roce/workers.h"
#include "perf/limits/roce/workers_thread.h"

namespace tally::perf {

// A port and its link.
struct End {
  std::shared_ptr<roce::Port> port;
  std::unique_ptr<CountedLink> link;
};

// One thread, except for the constructor and the destructor. Ends the process when something is
// wrong.
class Node {
 public:
  static constexpr std::uint32_t kMostConnections = 64;
  static constexpr std::uint32_t kMostOperations = 128;  // in flight
  static constexpr std::size_t kTileBytes = 32 << 20;    // memory of the shard's tiles
  static constexpr std::size_t kMemory = kOperationBytes + kTileBytes;

  struct Setup {
    roce::IpAddress address{};
    roce::IpAddress worker{};
    std::uint32_t mtu = 4096;
    std::size_t kept_frames = 0;
    std::span<std::byte> memory{};  // kMemory, of the EAL
    std::span<std::byte> target{};  // the workers' region for WRITEs
  };
  Node(End end, Workers& workers, WorkersThread& others, const Setup& setup);

  // Shows that results are right, before anything is measured.
  void check();
  // Measures one round of a variant, and prints it.
  void measure(const std::string& variant);

 private:
  using Mode = WorkersThread::Mode;

  void open_stateless();
  void make_shard();
  void check_loop(NodeLoop::Work work);
  void check_shard(Mode mode, float times);
  void measure_loop(const std::string& variant, NodeLoop::Work work);
  void measure_shard(const std::string& variant, Mode mode);
  void measure_stateless(const std::string& variant, const std::function<Moved()>& loop, Mode mode);
  Moved moved_by(const std::function<bool()>& turn);
  void settle(const std::function<bool()>& poll);
  void settle_shard();
  void run(const std::function<Moved()>& poll);
  std::uint64_t repairs() const;
  void print(const std::string& variant) const;

  Setup setup_;
  WorkersThread& others_;
  std::shared_ptr<roce::Port> port_;
  CountedLink& link_;  // the transport's
  std::unique_ptr<roce::RoceTransport> transport_;
  std::unique_ptr<NodeLoop> loop_;
  std::pmr::monotonic_buffer_resource tiles_;
  std::unique_ptr<engine::Shard> shard_;
  std::unique_ptr<Stateless> stateless_;
  CycleMeter meter_;
  // Of the last round.
  std::uint64_t all_cycles_ = 0;
  std::uint64_t received_ = 0;  // bytes of payload
  std::uint64_t sent_ = 0;
  std::uint64_t repaired_ = 0;
  double seconds_ = 0;
};

}  // namespace tally::perf
