#include "client/memory/region.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dataplane/transport/shm/segment.h"

namespace tally::client {
namespace {

namespace shm = transport::shm;
using shm::kPage;

Error failed(const char* what, std::size_t bytes) {
  return Error{Status::kNoMemory,
               fmt::format("{} {} bytes: {}", what, bytes, std::strerror(errno))};
}

// The whole pages inside [data, data + bytes).
struct Pages {
  std::uintptr_t begin;
  std::uintptr_t end;
};
Pages whole_pages(const void* data, std::size_t bytes) {
  const std::uintptr_t begin = (address_of(data) + kPage - 1) / kPage * kPage;
  const std::uintptr_t end = (address_of(data) + bytes) / kPage * kPage;
  return Pages{begin, std::max(begin, end)};
}

// Maps the file over what is at that address.
Outcome map_shared(void* at, std::size_t bytes, int fd, std::uint64_t offset) {
  if (::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd,
             static_cast<off_t>(offset)) == MAP_FAILED) {
    return failed("mapping", bytes);
  }
  ::madvise(at, bytes, MADV_DONTFORK);  // a child's writes must not reach the node
  return Unit{};
}

}  // namespace

Result<std::unique_ptr<Region>> Region::allocate(std::size_t bytes) {
  auto memory = shm::make_shared("tally-region", bytes);
  if (!memory) return memory.error();
  std::unique_ptr<Region> region(new Region(How::kOwned, memory->mapping.data(), bytes));
  region->memory_ = std::move(memory).value();
  region->fd_ = region->memory_.fd.get();
  return region;
}

Result<std::unique_ptr<Region>> Region::share(void* data, std::size_t bytes, int fd,
                                              std::uint64_t fd_offset) {
  if (address_of(data) % kPage != 0) {
    return Error{Status::kInvalidArgument,
                 fmt::format("shared memory at {}: it must begin at a page", data)};
  }
  if (fd_offset % kPage != 0) {
    return Error{Status::kInvalidArgument,
                 fmt::format("memory fd_offset {}: must be a multiple of {}", fd_offset, kPage)};
  }
  std::unique_ptr<Region> region(new Region(How::kShared, data, bytes));
  if (auto done = region->duplicate(fd, fd_offset); !done) return done.error();
  return region;
}

Outcome Region::duplicate(int fd, std::uint64_t fd_offset) {
  shared_fd_ = UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!shared_fd_) {
    return Error{Status::kInvalidArgument,
                 fmt::format("memory fd {}: {}: give an open descriptor of the memory", fd,
                             std::strerror(errno))};
  }
  fd_ = shared_fd_.get();
  base_offset_ = fd_offset;
  return Unit{};
}

Result<std::unique_ptr<Region>> Region::stage(void* data, std::size_t bytes) {
  auto memory = shm::make_shared("tally-staging", bytes);
  if (!memory) return memory.error();
  std::unique_ptr<Region> region(new Region(How::kStaged, data, bytes));
  region->memory_ = std::move(memory).value();
  region->fd_ = region->memory_.fd.get();
  return region;
}

std::unique_ptr<Region> Region::borrow(void* data, std::size_t bytes) {
  return std::unique_ptr<Region>(new Region(How::kBorrowed, data, bytes));
}

std::unique_ptr<Region> Region::registered(ibv_mr& registration, void* data, std::size_t bytes,
                                           std::uint64_t address) {
  const How how = data != nullptr ? How::kBorrowed : How::kDevice;
  std::unique_ptr<Region> region(new Region(how, data, bytes));
  region->address_ = address;
  region->registration_ = &registration;
  return region;
}

std::unique_ptr<Region> Region::device(std::uint64_t address, std::size_t bytes) {
  std::unique_ptr<Region> region(new Region(How::kDevice, nullptr, bytes));
  region->address_ = address;
  return region;
}

Result<std::unique_ptr<Region>> Region::dmabuf(int fd, std::uint64_t fd_offset, std::size_t bytes,
                                               std::uint64_t address) {
  if (fd_offset % kPage != address % kPage) {
    return Error{
        Status::kInvalidArgument,
        fmt::format("dma-buf: fd_offset {} and address {:#x} must lie at the same place in "
                    "a page ({} bytes)",
                    fd_offset, address, kPage)};
  }
  std::unique_ptr<Region> region(new Region(How::kDevice, nullptr, bytes));
  region->address_ = address;
  if (auto done = region->duplicate(fd, fd_offset); !done) return done.error();
  return region;
}

// The memfd covers the memory from the begin of its first page to its last byte. Its inner pages
// replace the caller's pages. The pages at the edges also hold other memory of the caller, which
// must not move. So copy_in() and copy_out() copy the bytes at the edges.
Result<std::unique_ptr<Region>> Region::adopt(void* data, std::size_t bytes) {
  const std::uintptr_t floor = address_of(data) / kPage * kPage;
  const Pages pages = whole_pages(data, bytes);
  auto memory = shm::make_shared("tally-adopted", address_of(data) + bytes - floor);
  if (!memory) return memory.error();
  std::unique_ptr<Region> region(new Region(How::kAdopted, data, bytes));
  region->memory_ = std::move(memory).value();
  region->fd_ = region->memory_.fd.get();
  region->base_offset_ = address_of(data) - floor;
  auto* inner = static_cast<std::byte*>(data) + (pages.begin - address_of(data));
  const std::size_t inner_bytes = pages.end - pages.begin;
  std::memcpy(region->memory_.mapping.data() + (pages.begin - floor), inner, inner_bytes);
  const auto mapped = map_shared(inner, inner_bytes, region->fd_, pages.begin - floor);
  if (!mapped) return mapped.error();
  region->pages_ = inner;
  region->pages_bytes_ = inner_bytes;
  return region;
}

Region::~Region() {
  if (pages_ == nullptr) return;
  // Makes the caller's memory private again, with its present content.
  void* copy =
      ::mmap(nullptr, pages_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return;  // out of memory: it stays shared, with its content
  std::memcpy(copy, pages_, pages_bytes_);
  if (::mremap(copy, pages_bytes_, pages_bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, pages_) ==
      MAP_FAILED) {
    ::munmap(copy, pages_bytes_);
  }
}

template <typename Copy>
std::uint64_t Region::each_edge(std::uint64_t offset, std::uint64_t bytes, Copy copy) const {
  const bool copies = how_ == How::kAdopted || how_ == How::kStaged;
  if (!copies || bytes == 0) return 0;
  const auto edge = [&](std::uint64_t begin, std::uint64_t end) {  // within the region
    const std::uint64_t from = std::max(begin, offset);
    const std::uint64_t to = std::min(end, offset + bytes);
    if (from >= to) return std::uint64_t{0};
    copy(data_ + from, memory_.mapping.data() + base_offset_ + from, to - from);
    return to - from;
  };
  if (how_ == How::kStaged) return edge(0, bytes_);
  const auto inner = static_cast<std::uint64_t>(pages_ - data_);
  return edge(0, inner) + edge(inner + pages_bytes_, bytes_);
}

std::uint64_t Region::copy_in(std::uint64_t offset, std::uint64_t bytes) const {
  return each_edge(offset, bytes, [](std::byte* caller, std::byte* shared, std::uint64_t n) {
    std::memcpy(shared, caller, n);
  });
}

std::uint64_t Region::copy_out(std::uint64_t offset, std::uint64_t bytes) const {
  return each_edge(offset, bytes, [](std::byte* caller, std::byte* shared, std::uint64_t n) {
    std::memcpy(caller, shared, n);
  });
}

Error Region::adapter_reaches() const {
  return {
      Status::kUnsupported,
      fmt::format("memory at {} that a network adapter reaches cannot be moved: waiting for the "
                  "adapter to end its connections",
                  static_cast<void*>(data_))};
}

Outcome Region::move() {
  // The node does not reach the caller's memory.
  if (how_ == How::kStaged || pinned_ || moved_) return Unit{};
  if (how_ != How::kShared) {
    const Outcome replaced = replace();
    moved_ = replaced.ok();
    return replaced;
  }
  const std::size_t bytes = shm::round_to_pages(bytes_);
  auto fresh = shm::make_shared("tally-moved", bytes);
  if (!fresh) return fresh.error();
  std::memcpy(fresh->mapping.data(), data_, bytes);
  const Outcome mapped = map_shared(data_, bytes, fresh->fd.get(), 0);
  moved_ = mapped.ok();
  return mapped;
}

Outcome Region::replace() {
  if (how_ == How::kBorrowed || how_ == How::kDevice || pinned_) return adapter_reaches();
  if (how_ == How::kShared) {
    return Error{Status::kUnsupported,
                 fmt::format("the caller's memfd at {} cannot be replaced, because other processes "
                             "may use it",
                             static_cast<void*>(data_))};
  }
  const std::size_t bytes = how_ == How::kOwned ? shm::round_to_pages(bytes_) : node_bytes();
  const std::byte* from = how_ == How::kOwned ? data_ : memory_.mapping.data();
  auto fresh = shm::make_shared("tally-moved", bytes);
  if (!fresh) return fresh.error();
  std::memcpy(fresh->mapping.data(), from, bytes);
  Outcome mapped = Unit{};
  if (how_ == How::kOwned) {
    mapped = map_shared(data_, bytes, fresh->fd.get(), 0);
  } else if (how_ == How::kAdopted) {
    const auto offset = static_cast<std::uint64_t>(pages_ - data_) + base_offset_;
    mapped = map_shared(pages_, pages_bytes_, fresh->fd.get(), offset);
  }
  if (!mapped) return mapped;
  // The first mapping of allocated memory covers the new pages, which lie at the same address.
  if (how_ != How::kOwned) memory_.mapping = std::move(fresh->mapping);
  memory_.fd = std::move(fresh->fd);
  fd_ = memory_.fd.get();
  return Unit{};
}

}  // namespace tally::client
