// Owners of kernel resources: descriptors and mappings. They are move-only, and closing never
// throws.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

namespace tally {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// Makes a descriptor non-blocking: a read without data returns at once.
inline void set_nonblocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// Owns a range of mapped memory and unmaps it in the destructor.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* address, std::size_t bytes)
      : address_(static_cast<std::byte*>(address)), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      reset();
      address_ = std::exchange(other.address_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }
  ~Mapping() { reset(); }

  std::byte* data() const { return address_; }
  std::size_t size() const { return bytes_; }
  explicit operator bool() const { return address_ != nullptr; }
  void reset() {
    if (address_ != nullptr) ::munmap(address_, bytes_);
    address_ = nullptr;
    bytes_ = 0;
  }

  // Maps `fd` shared, readable and writable. With `populate`, the kernel faults in all pages at
  // once. Returns an empty Mapping and sets errno on failure.
  static Mapping shared(int fd, std::size_t bytes, bool populate) {
    const int flags = MAP_SHARED | (populate ? MAP_POPULATE : 0);
    void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    return address == MAP_FAILED ? Mapping() : Mapping(address, bytes);
  }

 private:
  std::byte* address_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tally
