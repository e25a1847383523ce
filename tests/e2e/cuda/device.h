// A rank's view of a device: streams, memory and gates. Each call that fails is a test failure.
#pragma once

#include <gtest/gtest.h>
#include <tally/tally.h>

#include <csignal>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "gpu_bridge/cuda_api/driver.h"
#include "gpu_bridge/stream/words.h"

namespace tally::testing {

// Whether the thread of this name blocks SIGUSR1; none: no thread has the name yet.
inline std::optional<bool> thread_blocks_signals(const std::string& name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    std::string line;
    bool has_name = false;
    while (std::getline(status, line)) {
      has_name |= line == "Name:\t" + name;
      if (!has_name || !line.starts_with("SigBlk:")) continue;
      return ((std::stoull(line.substr(7), nullptr, 16) >> (SIGUSR1 - 1)) & 1) != 0;
    }
  }
  return std::nullopt;
}

// Whether a thread of this name blocks SIGUSR1. Waits for the thread, because a thread names itself
// some time after its start.
inline bool blocks_signals(const std::string& name) {
  const Nanos until = monotonic_now() + 20 * kSecond;
  do {
    if (const auto blocks = thread_blocks_signals(name)) return *blocks;
    std::this_thread::yield();
  } while (monotonic_now() < until);
  return false;
}

// The primary context of a device is the thread's current one, for the life of the object.
class DeviceThread {
 public:
  DeviceThread(const cuda::Driver& driver, int ordinal) : driver_(driver) {
    check(driver.device_get(&device_, ordinal));
    check(driver.primary_ctx_retain(&context_, device_));
    check(driver.ctx_push_current(context_));
  }
  ~DeviceThread() {
    cuda::Context popped = nullptr;
    check(driver_.ctx_pop_current(&popped));
    check(driver_.primary_ctx_release(device_));
  }
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  const cuda::Driver& driver() const { return driver_; }
  cuda::Context context() const { return context_; }
  // The device is broken from now on.
  void expect_failures() const { broken_ = true; }
  void check(cuda::Code code) const {
    if (broken_) return;
    EXPECT_EQ(code, cuda::Code::kSuccess) << cuda::failure(driver_, "a call", code).message;
  }

 private:
  const cuda::Driver& driver_;
  cuda::Device device_ = 0;
  cuda::Context context_ = nullptr;
  mutable bool broken_ = false;
};

class DeviceStream {
 public:
  explicit DeviceStream(const DeviceThread& thread) : thread_(thread) {
    thread.check(thread.driver().stream_create(&stream_, cuda::kStreamNonBlocking));
  }
  ~DeviceStream() { thread_.check(thread_.driver().stream_destroy(stream_)); }
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  cuda::Stream get() const { return stream_; }
  // Waits on the host, which only tests do.
  void finish() const { thread_.check(thread_.driver().stream_synchronize(stream_)); }
  bool is_idle() const { return thread_.driver().stream_query(stream_) == cuda::Code::kSuccess; }

 private:
  const DeviceThread& thread_;
  cuda::Stream stream_ = nullptr;
};

template <typename T>
class DeviceArray {
 public:
  DeviceArray(const DeviceThread& thread, std::size_t count) : thread_(thread), count_(count) {
    thread.check(thread.driver().mem_alloc(&data_, count * sizeof(T)));
  }
  ~DeviceArray() { thread_.check(thread_.driver().mem_free(data_)); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  cuda::Pointer data() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  void fill(std::span<const T> values, const DeviceStream& stream) const {
    thread_.check(thread_.driver().memcpy_htod_async(data_, values.data(), values.size_bytes(),
                                                     stream.get()));
    stream.finish();
  }
  std::vector<T> read(std::size_t first, std::size_t count, const DeviceStream& stream) const {
    std::vector<T> values(count);
    thread_.check(thread_.driver().memcpy_dtoh_async(values.data(), data_ + first * sizeof(T),
                                                     count * sizeof(T), stream.get()));
    stream.finish();
    return values;
  }
  tally_region* register_with(tally_session* session) const {
    tally_memory memory{};
    memory.size = sizeof memory;
    memory.kind = TALLY_MEMORY_CUDA;
    memory.data = reinterpret_cast<void*>(data_);
    memory.bytes = bytes();
    tally_region* region = nullptr;
    EXPECT_EQ(tally_region_register(session, &memory, &region), TALLY_OK)
        << tally_last_error(session);
    return region;
  }

 private:
  const DeviceThread& thread_;
  std::size_t count_;
  cuda::Pointer data_ = 0;
};

// Holds a stream up until open(), in place of a kernel that takes long.
class Gate {
 public:
  explicit Gate(const DeviceThread& thread)
      : thread_(thread), words_(gpu::WordPool::make(thread.driver(), thread.context(), 1)) {
    EXPECT_TRUE(words_);
  }
  void close(const DeviceStream& stream) {
    const cuda::Driver& driver = thread_.driver();
    const cuda::Code code = driver.stream_wait_value32(
        stream.get(), (*words_)->device_address(word()), 1, cuda::kWaitValueGeq);
    if (code != cuda::Code::kNotSupported) return thread_.check(code);
    has_function_ = true;
    thread_.check(driver.launch_host_func(stream.get(), wait, &word()));
  }
  void open() { gpu::store(word(), 1); }
  // A host function that still runs must not lose its word.
  ~Gate() {
    open();
    const Nanos until = monotonic_now() + kSecond;
    while (has_function_ && gpu::load(word()) != kPassed && monotonic_now() < until) {
      std::this_thread::yield();
    }
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

 private:
  std::uint32_t& word() { return (**words_)[0].up; }
  static constexpr std::uint32_t kPassed = 2;
  static void wait(void* word) {
    while (gpu::load(*static_cast<std::uint32_t*>(word)) == 0) std::this_thread::yield();
    gpu::store(*static_cast<std::uint32_t*>(word), kPassed);
  }

  const DeviceThread& thread_;
  Result<std::unique_ptr<gpu::WordPool>> words_;
  bool has_function_ = false;
};

}  // namespace tally::testing
