// Memory that the node can use. It is shared from the start, or adopted (the caller's pages become
// a memfd at the same address), or staged (copied at post and at completion), or used in place when
// an adapter or a provider reaches it. One thread at a time uses it, as with the session.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "dataplane/transport/shm/memory.h"

struct ibv_mr;  // of libibverbs; NOLINT(readability-identifier-naming)

namespace tally::client {

inline std::uintptr_t address_of(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

// How outstanding operations use a region. kOnlyRead: none has its result there. kPart: there are
// results, and some bytes belong to no operation. kWhole: there are results, and all bytes belong
// to operations.
enum class RegionUse { kOnlyRead, kPart, kWhole };

class Region {
 public:
  enum class How { kOwned, kShared, kAdopted, kStaged, kBorrowed, kDevice };

  static Result<std::unique_ptr<Region>> allocate(std::size_t bytes);
  // A memfd of the caller, which the caller has mapped at `data`. The descriptor is duplicated.
  static Result<std::unique_ptr<Region>> share(void* data, std::size_t bytes, int fd,
                                               std::uint64_t fd_offset);
  // Precondition of adopt(): survey_memory() (memory_survey.h) says that the memory can be adopted.
  static Result<std::unique_ptr<Region>> adopt(void* data, std::size_t bytes);
  static Result<std::unique_ptr<Region>> stage(void* data, std::size_t bytes);
  // The caller's memory in place, for a transport that needs no particular kind of memory.
  static std::unique_ptr<Region> borrow(void* data, std::size_t bytes);
  // Memory that the caller has registered with an adapter. `registration` must outlive the region.
  // `address` is the adapter's address of the first byte. `data` is null for memory of a device.
  static std::unique_ptr<Region> registered(ibv_mr& registration, void* data, std::size_t bytes,
                                            std::uint64_t address);
  // Memory of a device, as a dma-buf. The descriptor is duplicated.
  static Result<std::unique_ptr<Region>> dmabuf(int fd, std::uint64_t fd_offset, std::size_t bytes,
                                                std::uint64_t address);

  // Memory of a device, of which the driver of the adapter knows the address.
  static std::unique_ptr<Region> device(std::uint64_t address, std::size_t bytes);

  // Puts the pages of adopted memory back.
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  How how() const { return how_; }
  // Whether the CPU may read and write the memory. It may not touch memory of a device, where
  // data() is null.
  bool host_accessible() const { return how_ != How::kDevice; }
  // Whether results may go there.
  bool writable() const { return writable_; }
  void make_read_only() { writable_ = false; }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  // The adapter's address of the first byte.
  std::uint64_t address() const { return address_; }
  // The caller's registration; null when the transport registers the region itself.
  const ibv_mr* registration() const { return registration_; }
  // fd() is the memfd or the dma-buf for the node. base_offset() is the offset of the region in it,
  // and node_bytes() is the length for the node; both in bytes.
  int fd() const { return fd_; }
  std::uint64_t base_offset() const { return base_offset_; }
  std::uint64_t node_bytes() const { return base_offset_ + bytes_; }

  // Copy the range between the caller's memory and the shared memory: copy_in() before the node
  // reads, copy_out() after the node wrote. Shared memory is not copied. Of adopted memory the
  // edges outside whole pages are copied, and of staged memory all bytes. Both return the number of
  // copied bytes.
  std::uint64_t copy_in(std::uint64_t offset, std::uint64_t bytes) const;
  std::uint64_t copy_out(std::uint64_t offset, std::uint64_t bytes) const;

  // Maps other memory with the same contents at the same address. A process that has the old memfd
  // mapped keeps the old pages. For a node that cannot be fenced off in time, when the session
  // ends. kUnsupported: an adapter reaches the pages. The second call does nothing. Staged and
  // pinned memory stays: it is a copy that no later session uses.
  Outcome move();
  // The same when the session goes on: fd() is the new memfd, which later nodes get. Staged memory
  // moves too. kUnsupported also for pinned memory, and for a memfd of the caller, because others
  // may use that.
  Outcome replace();
  // A device reaches these pages, so the region keeps them.
  void pin() { pinned_ = true; }
  // Gives the mapping of allocated memory away. It must stay for as long as the region, because
  // data() does not change.
  Mapping take_mapping() { return std::move(memory_.mapping); }

  std::uint32_t id = 0;           // the region's number at the node
  std::uint32_t outstanding = 0;  // how many operations use it

 private:
  Region(How how, void* data, std::size_t bytes)
      : how_(how),
        data_(static_cast<std::byte*>(data)),
        bytes_(bytes),
        address_(reinterpret_cast<std::uintptr_t>(data)) {}
  Outcome duplicate(int fd, std::uint64_t fd_offset);
  Error adapter_reaches() const;
  template <typename Copy>
  std::uint64_t each_edge(std::uint64_t offset, std::uint64_t bytes, Copy copy) const;

  How how_;
  bool writable_ = true;
  std::byte* data_;  // the caller's address
  std::size_t bytes_;
  std::uint64_t address_;
  ibv_mr* registration_ = nullptr;
  transport::shm::SharedMemory memory_;  // of kOwned, kAdopted and kStaged
  int fd_ = -1;
  UniqueFd shared_fd_;
  std::uint64_t base_offset_ = 0;
  std::byte* pages_ = nullptr;  // of kAdopted: the whole pages in the middle
  std::size_t pages_bytes_ = 0;
  bool moved_ = false;
  bool pinned_ = false;
};

}  // namespace tally::client
