// A connection to one shard of a parent node (in trees). The parent serves this end as it serves a
// worker: it reads and writes memory here, and messages go both ways.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/containers/fifo.h"
#include "base/containers/ring.h"
#include "dataplane/transport/roce/endpoint.h"

namespace tally::transport::roce {

// Memory that a parent reaches, by keys.
class ExposedMemory : public ReachableMemory {
 public:
  void expose(std::span<std::byte> memory, std::uint32_t key) { all_.push_back({memory, key}); }
  std::byte* find(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                  Right right) const override;

 private:
  struct Exposed {
    std::span<std::byte> memory;
    std::uint32_t key = 0;
  };
  std::vector<Exposed> all_;
};

// One thread: the shard's, but for state().
class ParentPair final : private ExposedMemory, public Endpoint {
 public:
  enum class State : std::uint8_t { kNew, kAnswered, kLost };

  // credit: operations that this end has outstanding at the parent at most.
  ParentPair(EndpointContext& context, const PairOptions& options, const Ends& ends,
             std::uint32_t credit);
  ~ParentPair() { end(); }

  // Lets the parent read and write memory, which is borrowed for the life of the connection.
  using ExposedMemory::expose;
  // The first message: finds out whether packets of so many bytes of payload get there and back.
  void probe(std::uint32_t bytes);

  // The message leaves in the shard's next turn.
  void send_up(const RingEntry& message);
  // Copies messages of the parent to the front of `out`. Returns how many.
  std::size_t receive(std::span<RingEntry> out);
  bool has_messages() const { return !messages_.empty(); }

  // Any thread.
  State state() const { return state_.load(std::memory_order_acquire); }
  // Why it is lost. Precondition: state() is kLost.
  const std::string& why_lost() const { return why_; }

 private:
  bool is_broken() const override { return state() == State::kLost; }
  void refuse(std::string reason) override;
  void on_message(const RingEntry& message, std::span<const std::byte> more) override;
  void on_done(const Done& done) override;
  void on_turn() override;

  const std::uint32_t most_messages_;  // that wait
  Fifo<RingEntry> waiting_;            // the queue pair had no room for them
  Fifo<RingEntry> messages_;           // received, and not taken
  std::atomic<State> state_{State::kNew};
  std::string why_;
};

}  // namespace tally::transport::roce
