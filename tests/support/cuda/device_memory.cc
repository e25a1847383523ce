#include "tests/support/cuda/device_memory.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace tally::test::cuda {
namespace {

constexpr std::size_t kSpan = std::size_t{1} << 34;   // addresses of a device
constexpr std::size_t kBlock = std::size_t{2} << 20;  // real devices map memory in such blocks
constexpr std::size_t kLarge = std::size_t{1} << 20;  // and give a large allocation its own
constexpr std::size_t kSmallAlignment = 512;

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

[[noreturn]] void cannot(const char* what) {
  std::perror(what);
  std::abort();
}

void* map(std::size_t bytes, int protection, int flags, int fd) {
  void* const mapped = ::mmap(nullptr, bytes, protection, flags | MAP_NORESERVE, fd, 0);
  if (mapped == MAP_FAILED) cannot("test CUDA: mmap");
  return mapped;
}

// The entry of a map of ranges, by their begins, that has the pointer.
template <typename Ranges>
auto range_with(const Ranges& ranges, Pointer pointer) {
  auto found = ranges.upper_bound(pointer);
  if (found == ranges.begin()) return ranges.end();
  --found;
  return pointer - found->second.begin < found->second.bytes ? found : ranges.end();
}

}  // namespace

DeviceMemory::DeviceMemory(std::size_t limit, bool reuses_addresses)
    : limit_(limit), reuses_(reuses_addresses) {
  fd_ = ::memfd_create("test CUDA device", MFD_CLOEXEC);
  if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(kSpan)) != 0) cannot("test CUDA: memfd");
  pages_ = static_cast<std::byte*>(map(kSpan, PROT_READ | PROT_WRITE, MAP_SHARED, fd_));
  // One block more, so that the addresses begin with a block.
  void* const reserved = map(kSpan + kBlock, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  ::madvise(pages_, kSpan, MADV_DONTDUMP);
  base_ = round_up(reinterpret_cast<std::uintptr_t>(reserved), kBlock);
  const Pointer end = reinterpret_cast<std::uintptr_t>(reserved) + kSpan + kBlock;
  ::munmap(reserved, base_ - reinterpret_cast<std::uintptr_t>(reserved));
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  ::munmap(reinterpret_cast<void*>(base_ + kSpan), end - (base_ + kSpan));
  next_ = base_;
}

DeviceMemory::~DeviceMemory() {
  ::munmap(pages_, kSpan);
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  ::munmap(reinterpret_cast<void*>(base_), kSpan);
  ::close(fd_);
}

Pointer DeviceMemory::allocate(std::size_t bytes, std::uint64_t id) {
  if (bytes > limit_ || used_ > limit_ - bytes) return 0;
  const std::size_t unit = bytes >= kLarge ? kBlock : kSmallAlignment;
  Pointer at = round_up(reuses_ ? base_ : next_, unit);
  // A large allocation shares no block.
  const std::size_t whole = round_up(bytes, unit);
  for (const auto& [begin, allocation] : allocations_) {
    if (begin + allocation.bytes <= at) continue;
    if (at + whole <= begin) break;
    at = round_up(begin + allocation.bytes, unit);
  }
  if (at + whole > base_ + kSpan) return 0;
  next_ = at + whole;
  allocations_[at] = {at, bytes, id};
  used_ += bytes;
  return at;
}

bool DeviceMemory::free(Pointer pointer) {
  const auto found = allocations_.find(pointer);
  if (found == allocations_.end()) return false;
  used_ -= found->second.bytes;
  // The memory goes back; whole pages read as 0 from now on.
  ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(pointer - base_),
              static_cast<off_t>(found->second.bytes));
  allocations_.erase(found);
  return true;
}

void DeviceMemory::free_all() {
  while (!allocations_.empty()) free(allocations_.begin()->first);
}

const DeviceMemory::Allocation* DeviceMemory::find(Pointer pointer) const {
  const auto found = range_with(allocations_, pointer);
  return found != allocations_.end() ? &found->second : nullptr;
}

bool DeviceMemory::contains(Pointer pointer, std::size_t bytes) const {
  const Allocation* const found = find(pointer);
  return found != nullptr && bytes <= found->bytes - (pointer - found->begin);
}

bool DeviceMemory::owns(Pointer pointer) const {
  return pointer >= base_ && pointer - base_ < kSpan;
}

int DeviceMemory::export_range(Pointer pointer, std::size_t bytes) {
  // The allocation may begin after the range does, because the range is rounded to pages.
  auto found = allocations_.lower_bound(pointer + bytes);
  if (found == allocations_.begin()) return -1;
  --found;
  const Pointer block = found->second.begin / kBlock * kBlock;
  const Pointer end = round_up(found->second.begin + found->second.bytes, kBlock);
  if (pointer < block || pointer + bytes > end) return -1;
  // Not dup(), because descriptors that dup() makes share one position.
  const std::string path = "/proc/self/fd/" + std::to_string(fd_);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return -1;
  ::lseek(fd, static_cast<off_t>(pointer - base_), SEEK_SET);
  exported_[pointer] = bytes;
  return fd;
}

DmaBuf DeviceMemory::exported(int fd) const {
  struct stat mine = {}, its = {};
  if (::fstat(fd_, &mine) != 0 || ::fstat(fd, &its) != 0) return {};
  if (mine.st_dev != its.st_dev || mine.st_ino != its.st_ino) return {};
  const Pointer begin = base_ + static_cast<Pointer>(::lseek(fd, 0, SEEK_CUR));
  const auto found = exported_.find(begin);
  return found != exported_.end() ? DmaBuf{begin, found->second} : DmaBuf{};
}

bool HostMemory::add(Pointer begin, std::size_t bytes, Context context) {
  if (touches(begin, bytes)) return false;
  ranges_[begin] = {begin, bytes, context};
  return true;
}

const HostMemory::Range* HostMemory::at(Pointer begin) const {
  const auto found = ranges_.find(begin);
  return found != ranges_.end() ? &found->second : nullptr;
}

const HostMemory::Range* HostMemory::find(Pointer pointer) const {
  const auto found = range_with(ranges_, pointer);
  return found != ranges_.end() ? &found->second : nullptr;
}

bool HostMemory::contains(Pointer pointer, std::size_t bytes) const {
  const Range* const found = find(pointer);
  return found != nullptr && bytes <= found->bytes - (pointer - found->begin);
}

bool HostMemory::touches(Pointer pointer, std::size_t bytes) const {
  if (find(pointer) != nullptr) return true;
  const auto next = ranges_.lower_bound(pointer);
  return next != ranges_.end() && next->second.begin - pointer < bytes;
}

bool is_mapped(const void* data, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(data) / page * page;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(data) + bytes;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return ::msync(reinterpret_cast<void*>(begin), end - begin, MS_ASYNC) == 0;
}

}  // namespace tally::test::cuda
