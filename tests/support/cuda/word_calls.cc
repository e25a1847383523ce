// The exported functions that wait for words and write them.
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <thread>

#include "tests/support/cuda/enqueue.h"
#include "tests/support/cuda/entry.h"
#include "tests/support/cuda/exports.h"

namespace tally::test::cuda::exported {
namespace {

constexpr std::size_t kBytesOfWord = sizeof(std::uint32_t);
constexpr auto kPollInterval = std::chrono::microseconds(20);

// A word that a wait or a write may use; null, with misuse: it may not.
std::uint32_t* word_at(Machine& machine, const char* function, Pointer word) {
  std::byte* const view = word % kBytesOfWord == 0 ? machine.view(word, kBytesOfWord) : nullptr;
  if (view == nullptr) {
    machine.misuse(std::string(function) + " of the word " + text_of(word) +
                   ", which is not aligned, or neither registered nor allocated");
  }
  return reinterpret_cast<std::uint32_t*>(view);
}

// The value of the word; none when its page is no longer mapped. Real devices keep the page.
std::optional<std::uint32_t> peek(const std::uint32_t* word) {
  std::uint32_t value = 0;
  const iovec into{&value, kBytesOfWord};
  const iovec from{const_cast<std::uint32_t*>(word), kBytesOfWord};
  const ssize_t got = ::process_vm_readv(::getpid(), &into, 1, &from, 1, 0);
  if (got == static_cast<ssize_t>(kBytesOfWord)) return value;
  if (got < 0 && errno == EFAULT) return std::nullopt;
  return __atomic_load_n(word, __ATOMIC_RELAXED);  // the system does not permit that call
}

bool reached(std::uint32_t is, std::uint32_t value, bool equal) {
  return equal ? is == value : static_cast<std::int32_t>(is - value) >= 0;
}

Work wait_work(Machine& machine, const std::uint32_t* word, Pointer pointer, std::uint32_t value,
               bool equal) {
  Work work{"wait for word " + text_of(pointer), {{pointer, kBytesOfWord}}};
  work.memory_operation = true;
  work.run = [=, &machine](const Operation& operation) {
    while (!operation.cancelled) {
      const auto is = peek(word);
      if (!is.has_value()) {
        const std::lock_guard lock(machine.mutex);
        machine.misuse("word " + text_of(pointer) +
                       ", which a stream waits for, is unmapped, but still registered");
        return Code::kIllegalAddress;
      }
      if (reached(*is, value, equal)) {
        // What the program has written before the word is now visible: acquire pairs with the
        // program's release.
        (void)__atomic_load_n(word, __ATOMIC_ACQUIRE);
        break;
      }
      std::this_thread::sleep_for(kPollInterval);
    }
    return Code::kSuccess;
  };
  work.waits_for = [=] {
    const auto is = peek(word);
    return "until word " + text_of(pointer) + (equal ? " is " : " is at least ") +
           std::to_string(value) + " (it is " +
           (is.has_value() ? std::to_string(*is) : std::string("unmapped")) + ")";
  };
  return work;
}

}  // namespace

Code stream_wait_value32(Stream handle, Pointer pointer, std::uint32_t value, unsigned flags) {
  constexpr const char* kName = "cuStreamWaitValue32";
  return stream_call(kName, handle, [&](Machine& all, Machine::Lock&, StreamState& stream) {
    if (!all.settings.stream_memory_operations) return Code::kNotSupported;
    if (flags != tally::cuda::kWaitValueGeq && flags != tally::cuda::kWaitValueEq) {
      return Code::kInvalidValue;
    }
    const std::uint32_t* const word = word_at(all, kName, pointer);
    if (word == nullptr) return Code::kInvalidValue;
    return enqueue(all, stream,
                   wait_work(all, word, pointer, value, flags == tally::cuda::kWaitValueEq));
  });
}

Code stream_write_value32(Stream handle, Pointer pointer, std::uint32_t value, unsigned flags) {
  constexpr const char* kName = "cuStreamWriteValue32";
  return stream_call(kName, handle, [&](Machine& all, Machine::Lock&, StreamState& stream) {
    if (!all.settings.stream_memory_operations) return Code::kNotSupported;
    if (flags != tally::cuda::kWriteValueDefault) return Code::kInvalidValue;
    std::uint32_t* const word = word_at(all, kName, pointer);
    if (word == nullptr) return Code::kInvalidValue;
    Work work{"write of word " + text_of(pointer), {{pointer, kBytesOfWord}}};
    work.memory_operation = true;
    work.run = [=](const Operation&) {
      __atomic_store_n(word, value, __ATOMIC_RELEASE);
      return Code::kSuccess;
    };
    return enqueue(all, stream, std::move(work));
  });
}

}  // namespace tally::test::cuda::exported
