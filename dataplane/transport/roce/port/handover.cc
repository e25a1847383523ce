#include "dataplane/transport/roce/port/handover.h"

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

namespace tally::transport::roce {

Result<std::unique_ptr<Handover>> Handover::create(const std::string& name, std::uint32_t queues) {
  std::unique_ptr<Handover> made(new Handover());
  for (std::uint32_t i = 0; i < queues; ++i) {
    rte_ring* const ring =
        rte_ring_create(fmt::format("{}_{}", name, i).c_str(), kEntries,
                        static_cast<int>(rte_socket_id()), RING_F_SC_DEQ | RING_F_EXACT_SZ);
    if (ring == nullptr) {
      return Error{Status::kNoMemory,
                   fmt::format("no ring of {} frames for {} ({}): raise memory.engine_mib, or use "
                               "fewer shards",
                               kEntries, name, rte_strerror(rte_errno))};
    }
    made->rings_.push_back(ring);
  }
  return made;
}

Handover::~Handover() {
  for (rte_ring* const ring : rings_) {
    for (void* frame = nullptr; rte_ring_dequeue(ring, &frame) == 0;) {
      rte_pktmbuf_free(static_cast<rte_mbuf*>(frame));
    }
    rte_ring_free(ring);
  }
}

bool Handover::give(std::uint32_t queue, Frame frame) {
  if (rte_ring_enqueue(rings_[queue], frame.get()) != 0) return false;
  static_cast<void>(frame.release());
  return true;
}

std::size_t Handover::take(std::uint32_t queue, std::span<rte_mbuf*> out) {
  return rte_ring_dequeue_burst(rings_[queue], reinterpret_cast<void**>(out.data()),
                                static_cast<unsigned>(out.size()), nullptr);
}

}  // namespace tally::transport::roce
