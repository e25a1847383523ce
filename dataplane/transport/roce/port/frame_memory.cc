#include "dataplane/transport/roce/port/frame_memory.h"

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <new>
#include <utility>

namespace tally::transport::roce {
namespace {

constexpr std::uint32_t kMostBufferBytes = 60 * 1024;
// Buffers that each thread keeps for itself, in order to touch the pool less often.
constexpr std::uint32_t kCache = 64;
// A lock-free stack: what was given back last is taken first, because it is in the processor's
// caches. DPDK's default, a ring, goes round through all buffers.
constexpr const char* kOrder = "lf_stack";

}  // namespace

Result<FrameMemory> FrameMemory::create(const std::string& name, std::uint32_t buffers,
                                        std::uint32_t buffer_bytes) {
  if (buffers == 0 || buffer_bytes > kMostBufferBytes) {
    return invalid(fmt::format("{} buffers of {} bytes: give at least 1 and at most {} bytes",
                               buffers, buffer_bytes, kMostBufferBytes));
  }
  Frame::set_give_back([](rte_mbuf* chain) { rte_pktmbuf_free(chain); });
  const std::uint32_t room = buffer_bytes == 0 ? 0 : buffer_bytes + RTE_PKTMBUF_HEADROOM;
  // DPDK refuses caches that could take most of a pool. A small pool has none.
  const std::uint32_t cache = buffers >= 4 * kCache ? kCache : 0;
  rte_mempool* const pool = rte_pktmbuf_pool_create_by_ops(
      name.c_str(), buffers, cache, 0, static_cast<std::uint16_t>(room),
      static_cast<int>(rte_socket_id()), kOrder);
  if (pool == nullptr) {
    return Error{Status::kNoMemory,
                 fmt::format("no {} buffers of {} bytes for {} ({}): raise memory.engine_mib, or "
                             "use fewer shards or shorter queues",
                             buffers, buffer_bytes, name, rte_strerror(rte_errno))};
  }
  return FrameMemory(pool);
}

FrameMemory::FrameMemory(FrameMemory&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)) {}

FrameMemory& FrameMemory::operator=(FrameMemory&& other) noexcept {
  if (this != &other) {
    rte_mempool_free(pool_);
    pool_ = std::exchange(other.pool_, nullptr);
  }
  return *this;
}

FrameMemory::~FrameMemory() {
  rte_mempool_free(pool_);
}

std::uint32_t FrameMemory::in_use() const {
  return pool_ == nullptr ? 0 : rte_mempool_in_use_count(pool_);
}

Loan::Loan() {
  static_assert(sizeof(rte_mbuf_ext_shared_info) == kBytes);
  static_assert(alignof(rte_mbuf_ext_shared_info) <= 8);
  auto* const info = new (shared_info_.data()) rte_mbuf_ext_shared_info{};
  // The loan itself holds one reference, so nothing is ever to be freed.
  info->free_cb = [](void*, void*) {};
  rte_mbuf_ext_refcnt_set(info, 1);
}

}  // namespace tally::transport::roce
