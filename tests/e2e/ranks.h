// The ranks of a job as threads of the test, each with its own session.
#pragma once

#include <gtest/gtest.h>
#include <tally/tally.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/tier.h"

namespace tally::testing {

// On a busy machine with 2 cores, programs with a sanitizer took longer than 5 s to connect.
inline int connect_ms() {
  return is_sanitized() ? 20'000 : 5'000;
}
inline int completion_ms() {
  return is_sanitized() ? 60'000 : 20'000;
}

// One rank's session through the C interface. A failed call is a test failure with the library's
// message.
class Rank {
 public:
  Rank(const std::string& address, std::uint32_t rank, std::uint32_t ranks,
       const char* job = "test", const char* token = "",
       tally_checksums checksums = TALLY_CHECKSUMS_DEFAULT) {
    tally_session_options options{};
    options.size = sizeof options;
    options.address = address.c_str();
    options.job = job;
    options.token = token;
    options.rank = rank;
    options.ranks = ranks;
    options.connect_timeout_ms = static_cast<std::uint32_t>(connect_ms());
    options.checksums = checksums;
    options.log = [](void*, int, const char*) {};
    status_ = tally_open(&options, &session_);
    if (status_ != TALLY_OK) error_ = tally_last_error(nullptr);
  }
  ~Rank() { close(); }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void close() {
    tally_close(session_);
    session_ = nullptr;
  }
  tally_status opened() const { return status_; }
  const std::string& open_error() const { return error_; }
  tally_session* session() const { return session_; }
  const char* error() const { return tally_last_error(session_); }

  // Shared memory for `count` values of T.
  template <typename T>
  T* alloc(std::size_t count, tally_region** region) {
    void* data = nullptr;
    EXPECT_EQ(tally_region_alloc(session_, count * sizeof(T), region, &data), TALLY_OK) << error();
    return static_cast<T*>(data);
  }

  tally_completion run(const tally_operation& operation) {
    tally_completion completion{};
    completion.size = sizeof completion;
    EXPECT_EQ(tally_run(session_, &operation, &completion), TALLY_OK) << error();
    return completion;
  }
  tally_completion wait(int timeout_ms = completion_ms()) {
    tally_completion completion{};
    completion.size = sizeof completion;
    EXPECT_EQ(tally_wait(session_, &completion, timeout_ms), TALLY_OK) << error();
    return completion;
  }

 private:
  tally_session* session_ = nullptr;
  tally_status status_ = TALLY_OK;
  std::string error_;
};

inline tally_operation operation(tally_kind kind, tally_type type, std::uint32_t tag,
                                 std::uint64_t count, tally_buffer in, tally_buffer out) {
  tally_operation operation{};
  operation.size = sizeof operation;
  operation.kind = kind;
  operation.type = type;
  operation.tag = tag;
  operation.count = count;
  operation.in = in;
  operation.out = out;
  return operation;
}

// Runs `body(rank)` for every rank, each on a thread, and waits for all of them.
inline void on_each_rank(std::uint32_t ranks, const std::function<void(std::uint32_t)>& body) {
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tally::testing
