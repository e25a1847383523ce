// What the tests of the double share: a driver, a current context, and memory of the host.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "gpu_bridge/cuda_api/driver.h"
#include "tests/support/cuda/cuda_process.h"

namespace tally::test::cuda {

inline Clock::time_point soon() {
  return Clock::now() + std::chrono::seconds(60);  // enough for sanitizers on a busy machine
}

// Pages of the host, registered or not.
class Pages {
 public:
  static constexpr std::size_t kBytes = 4096;
  Pages()
      : data_(static_cast<std::byte*>(
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { ::munmap(data_, kBytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* data() { return data_; }
  Pointer pointer() const { return reinterpret_cast<std::uintptr_t>(data_); }
  std::atomic<std::uint32_t>& word() {
    return *reinterpret_cast<std::atomic<std::uint32_t>*>(data_);
  }

 private:
  std::byte* data_;
};

// A kernel that runs until the test lets it end.
class Gate {
 public:
  ~Gate() { open(); }
  void open() {
    if (!std::exchange(opened_, true)) promise_.set_value();
  }
  std::function<void()> kernel() {
    return [future = future_] { future.wait(); };
  }

 private:
  bool opened_ = false;
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future().share();
};

class ProcessFixture : public ::testing::Test {
 protected:
  explicit ProcessFixture(const Settings& settings = {}) { restart(settings); }
  ~ProcessFixture() override {
    Context popped = nullptr;
    if (driver_ != nullptr) driver_->ctx_pop_current(&popped);
    EXPECT_THAT(misuses(), ::testing::IsEmpty());
    reset();
  }

  // Begins with new settings and a current context of device 0.
  void restart(const Settings& settings) {
    if (driver_ == nullptr) {
      auto opened = tally::cuda::system_driver();
      ASSERT_TRUE(opened) << opened.error().message;
      driver_ = *opened;
    } else {
      Context popped = nullptr;
      driver_->ctx_pop_current(&popped);
    }
    reset(settings);
    ok(driver_->primary_ctx_retain(&context_, 0));
    ok(driver_->ctx_push_current(context_));
  }

  static void ok(Code code) { EXPECT_EQ(code, Code::kSuccess); }
  const tally::cuda::Driver& cu() const { return *driver_; }

  Stream stream(unsigned flags = tally::cuda::kStreamNonBlocking) {
    Stream made = nullptr;
    ok(cu().stream_create(&made, flags));
    return made;
  }
  Event event(unsigned flags = 0) {
    Event made = nullptr;
    ok(cu().event_create(&made, flags));
    return made;
  }
  Pointer memory(std::size_t bytes = 4096) {
    Pointer made = 0;
    ok(cu().mem_alloc(&made, bytes));
    return made;
  }
  void add(Pages& pages) { ok(cu().mem_host_register(pages.data(), Pages::kBytes, 0)); }
  // The misuse so far, which the test expects.
  static std::vector<std::string> expected_misuses() {
    auto found = misuses();
    forget_misuses();
    return found;
  }

  const tally::cuda::Driver* driver_ = nullptr;
  Context context_ = nullptr;
};

}  // namespace tally::test::cuda
