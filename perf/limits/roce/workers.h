// The workers of the measurement: many connections over one port, on one thread. Each has both
// halves of a queue pair, as an RDMA adapter has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "dataplane/transport/onesided/sessions.h"
#include "dataplane/transport/roce/pair/requester.h"
#include "dataplane/transport/roce/pair/responder.h"
#include "dataplane/transport/verbs/queue_pair.h"
#include "perf/limits/roce/announcements.h"
#include "perf/limits/roce/cost.h"
#include "perf/limits/roce/counted_link.h"

namespace tally::perf {

namespace roce = transport::roce;

// One thread.
class Workers : public roce::ReachableMemory {
 public:
  // source, target: kRegionBytes each, which all workers share. The source is memory of the EAL.
  struct Setup {
    roce::IpAddress address{};
    roce::IpAddress node{};
    std::uint32_t mtu = 4096;
    std::span<std::byte> source{};
    std::span<std::byte> target{};
  };
  // Borrows the link.
  Workers(CountedLink& link, const Setup& setup) : link_(link), setup_(setup) {}

  transport::verbs::Address address(std::uint32_t worker) const;
  // Adds a worker; node: the answer to its address().
  void connect(const transport::verbs::Address& node);
  transport::onesided::Region source_region() const;
  transport::onesided::Region target_region() const;
  // Whether WRITEs change the target. No processor has to do that for an adapter.
  void set_copies(bool copies) { copies_ = copies; }

  // The first kRanks workers announce operations until end().
  void announce(wire::Kind kind);
  void end() { announcements_.end(); }
  std::uint32_t announced() const { return announced_; }  // operations that have not ended
  std::uint64_t failed() const { return failed_; }        // operations

  std::uint64_t received_bytes() const { return link_.received_bytes(); }  // of right packets

  // Takes what has come, and answers it.
  Moved poll();
  // Sends READ responses without requests, as fast as the port takes them.
  Moved flood();

  std::byte* find(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                  roce::Right right) const override;

 private:
  struct Worker {
    Worker(const roce::PairOptions& options, const ReachableMemory& memory)
        : requester(options), responder(options, memory) {}

    roce::Requester requester;
    roce::Responder responder;
    std::uint32_t peer_number = 0;
    std::uint16_t source_port = 0;
    std::optional<roce::Outgoing> unsent{};
    std::array<RingEntry, Announcements::kTags> notices{};  // stay, because they may be sent again
  };
  static constexpr std::size_t kBurst = 32;

  bool find_route(Nanos now);
  void take(const roce::Arrival& arrival, Nanos now);
  void take_part(std::uint32_t index, const roce::Delivery& part, const roce::Arrival& arrival);
  void announce_next(std::uint32_t index, std::uint32_t tag_index);
  void pump(Worker& worker, Nanos now);
  bool emit(const Worker& worker, const roce::Outgoing& outgoing);

  CountedLink& link_;
  Setup setup_;
  bool copies_ = false;
  std::optional<roce::Route> route_;
  std::deque<Worker> workers_;
  Announcements announcements_;
  std::uint32_t announced_ = 0;
  std::uint64_t failed_ = 0;
  std::array<roce::Arrival, kBurst> burst_;
  std::uint32_t flooded_ = 0;
};

}  // namespace tally::perf
