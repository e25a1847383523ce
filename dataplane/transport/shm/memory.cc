#include "dataplane/transport/shm/memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <cerrno>
#include <cstring>

#include "base/huge_pages.h"
#include "dataplane/transport/shm/segment.h"

namespace tally::transport::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Error system_error(const char* what, std::size_t bytes) {
  const Status status = errno == ENOMEM || errno == ENOSPC ? Status::kNoMemory : Status::kInternal;
  return Error{status, fmt::format("{} of {} bytes: {}", what, bytes, std::strerror(errno))};
}

// Only a hint: shared memory comes in 4 KiB pages where the kernel does not grant it.
void prefer_huge_pages(const Mapping& mapping) {
  if (mapping.size() >= kHugePage) ::madvise(mapping.data(), mapping.size(), MADV_HUGEPAGE);
}

// Memory of tmpfs, all of it there: a hole would be filled when it is touched, at the node's cost,
// and hugetlbfs may fail then with a signal.
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
  const std::size_t size = round_to_pages(bytes);
  SharedMemory memory;
  memory.fd = UniqueFd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.fd) return system_error("shared memory", size);
  if (::ftruncate(memory.fd.get(), static_cast<off_t>(size)) != 0) {
    return system_error("shared memory", size);
  }
  memory.mapping = map_aligned(size, MAP_SHARED, memory.fd.get());
  if (!memory.mapping) return system_error("mapping shared memory", size);
  prefer_huge_pages(memory.mapping);
  // A child's writes must not reach the peer, nor a child keep the memory of a dead parent.
  ::madvise(memory.mapping.data(), size, MADV_DONTFORK);
  // Populated now: a node refuses holes, and memory that runs out should do so here.
  if (::madvise(memory.mapping.data(), size, MADV_POPULATE_WRITE) != 0) {
    return system_error("populating shared memory", size);
  }
  if (::fcntl(memory.fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return system_error("sealing shared memory", size);
  }
  return memory;
}

Result<Mapping> map_peer(int fd, std::size_t bytes, const char* what) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return Error{Status::kInvalidArgument, fmt::format("{}: not a memfd", what)};
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
  // Page tables now, not at the first tile; the memory is there already.
  static_cast<void>(::madvise(mapping.data(), bytes, MADV_POPULATE_WRITE));
  return mapping;
}

}  // namespace tally::transport::shm
