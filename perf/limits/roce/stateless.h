// Loops over a port without any state of connections. They cost what the driver, the ICRC and the
// sum cost; what the transport costs beyond that is its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "dataplane/transport/roce/port/port.h"
#include "perf/limits/roce/cost.h"
#include "perf/limits/roce/node_loop.h"

struct rte_mbuf;
struct rte_mbuf_ext_shared_info;

namespace tally::perf {

// One thread. It uses the port's first queue while nothing else does.
class Stateless {
 public:
  // route: to the peer of the port. result: what WRITEs carry, memory of the EAL.
  static Result<std::unique_ptr<Stateless>> open(const transport::roce::Port& port,
                                                 const transport::roce::Route& route,
                                                 std::uint32_t mtu,
                                                 std::span<const std::byte> result);
  ~Stateless();

  // Takes a burst of READ responses and adds their payload to a sum.
  Moved read();
  // Takes a burst and frees it.
  Moved receive();
  // Sends a burst of WRITEs, whose payload is not copied.
  Moved write();
  // Sends a burst of WRITEs that were made before.
  Moved send();
  // Computes the ICRCs of a burst, and nothing else.
  Moved icrc();

  void begin();
  // Whether the sum has each READ response once, at its place.
  bool is_right() const;

 private:
  static constexpr std::size_t kBurst = 32;

  Stateless() = default;
  Outcome make_frames();
  void add_answer(rte_mbuf* frame);
  rte_mbuf* make_write();
  Moved flush();

  std::uint16_t port_ = 0;
  std::uint32_t mtu_ = 0;
  std::span<const std::byte> result_;
  const Crc32* crc_ = nullptr;
  transport::roce::Packet layout_;  // of a WRITE and of a READ response, in the middle of a message
  std::array<std::byte, transport::roce::kMostHeaders> headers_{};
  transport::roce::FrameMemory buffers_;   // of headers and ICRCs
  transport::roce::FrameMemory payloads_;  // refer to the result
  transport::roce::FrameMemory frames_;    // whole ones
  std::unique_ptr<rte_mbuf_ext_shared_info> loan_;
  std::vector<rte_mbuf*> made_;
  std::array<rte_mbuf*, kBurst> pending_{};
  std::size_t pending_count_ = 0;
  std::uint32_t psn_ = 0;
  Sum sum_;
  std::vector<std::uint64_t> added_;  // answers, by their place in an operation
  std::uint64_t wrong_ = 0;
  std::uint32_t icrc_ = 0;  // of the last packet of icrc()
};

}  // namespace tally::perf
