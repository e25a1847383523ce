// The memory of one device, and registered memory of the host.
#pragma once

#include <map>

#include "tests/support/cuda/operation.h"

namespace tally::test::cuda {

// Device addresses are a range that faults when the CPU touches it. The bytes are pages of a memfd,
// which is mapped a second time for the copies. Guarded by Machine::mutex, except view().
class DeviceMemory {
 public:
  struct Allocation {
    Pointer begin;
    std::size_t bytes;
    std::uint64_t id;  // never used again
  };

  // limit: in bytes.
  DeviceMemory(std::size_t limit, bool reuses_addresses);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // 0: there is not so much left.
  Pointer allocate(std::size_t bytes, std::uint64_t id);
  // False: no allocation begins there.
  bool free(Pointer pointer);
  void free_all();
  // The allocation that has the pointer; null: none.
  const Allocation* find(Pointer pointer) const;
  // All of the bytes are in one allocation.
  bool contains(Pointer pointer, std::size_t bytes) const;
  // An address of this device, allocated or not.
  bool owns(Pointer pointer) const;
  std::byte* view(Pointer pointer) const { return pages_ + (pointer - base_); }

  // A descriptor for the range, as Settings explains; -1: a page of it belongs to no allocation.
  int export_range(Pointer pointer, std::size_t bytes);
  // The range of a descriptor of this device; begin is 0 for others.
  DmaBuf exported(int fd) const;

  const std::map<Pointer, Allocation>& allocations() const { return allocations_; }
  std::size_t used() const { return used_; }

 private:
  std::size_t limit_;
  bool reuses_;
  int fd_ = -1;
  Pointer base_ = 0;
  Pointer next_ = 0;  // where to look for free addresses
  std::byte* pages_ = nullptr;
  std::size_t used_ = 0;
  std::map<Pointer, Allocation> allocations_;
  std::map<Pointer, std::size_t> exported_;  // bytes of the last export, by its begin
};

// Ranges of the host's memory that cuMemHostRegister has registered, for all devices. Guarded by
// Machine::mutex.
class HostMemory {
 public:
  // False: a part is registered already.
  bool add(Pointer begin, std::size_t bytes, Context context);
  struct Range {
    Pointer begin;
    std::size_t bytes;
    Context context;
  };
  // Null: no range begins there.
  const Range* at(Pointer begin) const;
  void remove(Pointer begin) { ranges_.erase(begin); }
  void remove_all_of(Context context) {
    std::erase_if(ranges_, [&](const auto& one) { return one.second.context == context; });
  }
  // The range that has the pointer; null: none.
  const Range* find(Pointer pointer) const;
  bool contains(Pointer pointer, std::size_t bytes) const;
  // Any of the bytes is registered.
  bool touches(Pointer pointer, std::size_t bytes) const;
  std::size_t count() const { return ranges_.size(); }
  void clear() { ranges_.clear(); }

 private:
  std::map<Pointer, Range> ranges_;
};

// Every page of the range is mapped.
bool is_mapped(const void* data, std::size_t bytes);

}  // namespace tally::test::cuda
