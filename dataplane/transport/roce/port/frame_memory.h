// Owners of DPDK's buffers: a pool of them, a frame in a chain of them, and the count of the bytes
// that frames borrow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

struct rte_mbuf;
struct rte_mempool;

namespace tally::transport::roce {

// Owns a pool of buffers (rte_mempool). All buffers must be back before it is destroyed: first
// close the device that fills or sends them, and destroy all Frames. Any thread may take and return
// buffers.
class FrameMemory {
 public:
  // name: unique in the process, at most 25 characters. buffers: at least 1. buffer_bytes: room for
  // a frame or a part of one, at most 60 KiB; 0 for buffers that only refer to others' bytes.
  static Result<FrameMemory> create(const std::string& name, std::uint32_t buffers,
                                    std::uint32_t buffer_bytes);

  FrameMemory() = default;
  FrameMemory(FrameMemory&& other) noexcept;
  FrameMemory& operator=(FrameMemory&& other) noexcept;
  ~FrameMemory();

  rte_mempool* pool() const { return pool_; }
  // Buffers that are not in the pool. Slow: not for the hot path.
  std::uint32_t in_use() const;

 private:
  explicit FrameMemory(rte_mempool* pool) : pool_(pool) {}

  rte_mempool* pool_ = nullptr;
};

// Owns a chain of buffers (rte_mbuf) and returns it to its pools in the destructor.
class Frame {
 public:
  Frame() = default;
  explicit Frame(rte_mbuf* chain) : chain_(chain) {}
  Frame(Frame&& other) noexcept : chain_(other.release()) {}
  Frame& operator=(Frame&& other) noexcept {
    if (this != &other) {
      free_chain();
      chain_ = other.release();
    }
    return *this;
  }
  ~Frame() { free_chain(); }

  explicit operator bool() const { return chain_ != nullptr; }
  rte_mbuf* get() const { return chain_; }
  // How chains are given back. FrameMemory sets it; so does a test whose chains are not DPDK's.
  static void set_give_back(void (*function)(rte_mbuf* chain)) { give_back = function; }
  // The caller owns the chain from now on.
  rte_mbuf* release() {
    rte_mbuf* const chain = chain_;
    chain_ = nullptr;
    return chain;
  }

 private:
  void free_chain() {
    if (chain_ != nullptr) give_back(release());
  }

  // A pointer, so that code that only passes frames on needs no DPDK.
  inline static void (*give_back)(rte_mbuf* chain) = nullptr;

  rte_mbuf* chain_ = nullptr;
};

// Counts the pieces of memory that a device has borrowed for frames that it has not sent yet. It
// must outlive the borrowing.
class Loan {
 public:
  Loan();
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  ~Loan() = default;

 private:
  friend class PortQueue;
  static constexpr std::size_t kBytes = 24;

  alignas(8) std::array<std::byte, kBytes> shared_info_;  // rte_mbuf_ext_shared_info
};

}  // namespace tally::transport::roce
