// Memory that the node can use: shared from the start, adopted (the caller's pages become a memfd
// at the same address), staged (copied at post and at completion), or as it is, where an adapter
// reaches it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "dataplane/transport/shm/memory.h"

struct ibv_mr;  // of libibverbs; NOLINT(readability-identifier-naming)

namespace tally::client {

inline std::uintptr_t address_of(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

class Region {
 public:
  enum class How { kOwned, kShared, kAdopted, kStaged, kBorrowed, kDevice };

  static Result<std::unique_ptr<Region>> allocate(std::size_t bytes);
  // A memfd of the caller's, mapped by the caller at `data`.
  static Result<std::unique_ptr<Region>> share(void* data, std::size_t bytes, int fd,
                                               std::uint64_t fd_offset);
  static Result<std::unique_ptr<Region>> adopt(void* data, std::size_t bytes);
  static Result<std::unique_ptr<Region>> stage(void* data, std::size_t bytes);
  // As it is, for a transport that needs no memory of a particular kind.
  static std::unique_ptr<Region> borrow(void* data, std::size_t bytes);
  // Registered with an adapter already, by the caller: `registration` stays as long as the region.
  // `address`: by which adapters name the first byte. `data`: null where it is of a device.
  static std::unique_ptr<Region> registered(ibv_mr& registration, void* data, std::size_t bytes,
                                            std::uint64_t address);
  // Of a device, as a dma-buf. The descriptor is duplicated.
  static Result<std::unique_ptr<Region>> dmabuf(int fd, std::uint64_t fd_offset, std::size_t bytes,
                                                std::uint64_t address);
  // Why memory at this place cannot be adopted; empty when it can.
  static std::string why_not_adopt(const void* data, std::size_t bytes);

  // Puts an adopted caller's pages back.
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  How how() const { return how_; }
  // May the CPU read and write it? Memory of a device it may not: there data() is null.
  bool host_accessible() const { return how_ != How::kDevice; }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  // By which adapters name its first byte.
  std::uint64_t address() const { return address_; }
  // The caller's; null where the transport registers the region itself.
  const ibv_mr* registration() const { return registration_; }
  // The memfd to give to the node, or the dma-buf, and where in it the region begins; its length
  // for the node.
  int fd() const { return fd_; }
  std::uint64_t base_offset() const { return base_offset_; }
  std::uint64_t node_bytes() const { return base_offset_ + bytes_; }

  // Copies what does not lie in shared memory: in before the node reads, out after it wrote.
  // Nothing at all for memory that is shared; the ragged edges of what is adopted; all of what is
  // staged. Returns how many bytes that were.
  std::uint64_t copy_in(std::uint64_t offset, std::uint64_t bytes) const;
  std::uint64_t copy_out(std::uint64_t offset, std::uint64_t bytes) const;

  // Puts other memory with the same contents at the same address: whoever has the old memfd mapped
  // keeps the orphan. For a node that cannot be fenced off in time. kUnsupported: an adapter
  // reaches it, by pages.
  Outcome move();

  std::uint32_t id = 0;           // at the node
  std::uint32_t outstanding = 0;  // operations that use it

 private:
  Region(How how, void* data, std::size_t bytes)
      : how_(how),
        data_(static_cast<std::byte*>(data)),
        bytes_(bytes),
        address_(reinterpret_cast<std::uintptr_t>(data)) {}
  Outcome duplicate(int fd, std::uint64_t fd_offset);
  template <typename Copy>
  std::uint64_t each_edge(std::uint64_t offset, std::uint64_t bytes, Copy copy) const;

  How how_;
  std::byte* data_;  // where the caller sees it
  std::size_t bytes_;
  std::uint64_t address_;
  ibv_mr* registration_ = nullptr;
  transport::shm::SharedMemory memory_;  // of kOwned, kAdopted and kStaged
  int fd_ = -1;
  UniqueFd shared_fd_;
  std::uint64_t base_offset_ = 0;
  std::byte* pages_ = nullptr;  // kAdopted: the whole pages in the middle
  std::size_t pages_bytes_ = 0;
};

}  // namespace tally::client
