#include "dataplane/transport/shm/memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/system/free_memory.h"
#include "base/system/huge_pages.h"
#include "dataplane/transport/shm/segment.h"

namespace tally::transport::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Error system_error(const char* what, std::size_t bytes) {
  const Status status = errno == ENOMEM || errno == ENOSPC ? Status::kNoMemory : Status::kInternal;
  return Error{status, fmt::format("{} of {} bytes: {}", what, bytes, std::strerror(errno))};
}

// Only a hint: when the kernel does not grant huge pages, shared memory has pages of 4 KiB.
void prefer_huge_pages(const Mapping& mapping) {
  if (mapping.size() >= kHugePage) ::madvise(mapping.data(), mapping.size(), MADV_HUGEPAGE);
}

// More than any machine has. Below it, rounding up to pages does not overflow.
constexpr std::size_t kMostBytes = std::size_t{1} << 47;
// To populate less than this takes less time than to find out what is free.
constexpr std::size_t kWorthAsking = 1 << 20;
constexpr std::size_t kSlice = 256 << 20;

// When memory runs out, the kernel kills a process, which need not be this one. A sixteenth stays
// free for page tables, and for what other processes take meanwhile.
Outcome check_free(std::size_t bytes, std::size_t populated) {
  if (bytes < kWorthAsking) return Unit{};
  const FreeMemory free = free_memory();
  if (bytes <= free.bytes - free.bytes / 16) return Unit{};
  return Error{Status::kNoMemory,
               fmt::format("shared memory of {} bytes: {} has {} bytes free{}: ask for less, or "
                           "free some memory",
                           bytes + populated, free.where, free.bytes,
                           populated == 0 ? "" : fmt::format(" after {} bytes of it", populated))};
}

// In slices, because other processes may take memory at the same time. Precondition: check_free()
// of the whole mapping.
Outcome populate(const Mapping& mapping) {
  for (std::size_t at = 0; at < mapping.size(); at += kSlice) {
    const std::size_t slice = std::min(kSlice, mapping.size() - at);
    if (at > 0) {
      if (auto fine = check_free(mapping.size() - at, at); !fine) return fine;
    }
    if (::madvise(mapping.data() + at, slice, MADV_POPULATE_WRITE) != 0) {
      return system_error("populating shared memory", mapping.size());
    }
  }
  return Unit{};
}

// Returns an error unless the memory is of tmpfs and has no holes. A hole would be filled when the
// node touches it, at the node's cost. With hugetlbfs that may fail with a signal.
Error backing_fault(int fd, const struct stat& status, const char* what) {
  struct statfs file_system {};
  if (::fstatfs(fd, &file_system) != 0 || file_system.f_type != TMPFS_MAGIC) {
    return Error{Status::kUnsupported,
                 fmt::format("{}: a memfd of ordinary pages, not of MFD_HUGETLB", what)};
  }
  const auto there = static_cast<std::uint64_t>(status.st_blocks) * 512;
  if (there < static_cast<std::uint64_t>(status.st_size)) {
    return Error{Status::kInvalidArgument,
                 fmt::format("{}: {} of {} bytes are populated; write to all of it first", what,
                             there, status.st_size)};
  }
  return Error{Status::kOk, ""};
}

}  // namespace

std::size_t round_to_pages(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

Result<SharedMemory> make_shared(const char* name, std::size_t bytes) {
  if (bytes == 0 || bytes > kMostBytes) {
    return Error{Status::kInvalidArgument,
                 fmt::format("shared memory of {} bytes: must be 1 to {}", bytes, kMostBytes)};
  }
  const std::size_t size = round_to_pages(bytes);
  if (auto fine = check_free(size, 0); !fine) return fine.error();
  SharedMemory memory;
  memory.fd = UniqueFd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.fd) return system_error("shared memory", size);
  if (::ftruncate(memory.fd.get(), static_cast<off_t>(size)) != 0) {
    return system_error("shared memory", size);
  }
  memory.mapping = map_aligned(size, MAP_SHARED, memory.fd.get());
  if (!memory.mapping) return system_error("mapping shared memory", size);
  prefer_huge_pages(memory.mapping);
  // A child's writes must not reach the peer. A child must not keep the memory of a parent that has
  // ended.
  ::madvise(memory.mapping.data(), size, MADV_DONTFORK);
  // Populated now, because a node refuses holes, and because a lack of memory should show here.
  if (auto done = populate(memory.mapping); !done) return done.error();
  if (::fcntl(memory.fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return system_error("sealing shared memory", size);
  }
  return memory;
}

Result<Mapping> map_peer(int fd, std::size_t bytes, const char* what) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) {
    return Error{Status::kInvalidArgument,
                 fmt::format("{}: the descriptor is not a memfd; give one of memfd_create", what)};
  }
  if ((seals & F_SEAL_SHRINK) == 0 || (seals & F_SEAL_SEAL) == 0) {
    return Error{Status::kInvalidArgument,
                 fmt::format("{}: the memfd must carry F_SEAL_SHRINK and F_SEAL_SEAL", what)};
  }
  struct stat status {};
  if (::fstat(fd, &status) != 0) return system_error(what, bytes);
  if (status.st_size < 0 || static_cast<std::size_t>(status.st_size) < bytes) {
    return Error{Status::kInvalidArgument, fmt::format("{}: {} bytes announced, the memfd has {}",
                                                       what, bytes, status.st_size)};
  }
  if (const Error wrong = backing_fault(fd, status, what); wrong.status != Status::kOk)
    return wrong;
  Mapping mapping = map_aligned(bytes, MAP_SHARED, fd);
  if (!mapping) return system_error(what, bytes);
  prefer_huge_pages(mapping);
  return mapping;
}

void populate(std::span<std::byte> memory) {
  static_cast<void>(::madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE));
}

// The bytes stay in the memfd, also when they are not mapped.
void depopulate(std::span<std::byte> memory) {
  static_cast<void>(::madvise(memory.data(), memory.size(), MADV_DONTNEED));
}

}  // namespace tally::transport::shm
