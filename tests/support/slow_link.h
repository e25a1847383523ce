// A transport whose answers take virtual time, for tests of how many bytes a shard keeps in flight.
// It is a link with a latency and a rate in each direction. No bytes move. All peers share one
// region for inputs and one for results, so a job of a thousand ranks needs no memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <span>
#include <string_view>
#include <vector>

#include "dataplane/transport/transport.h"

namespace tally::testing {

class SlowLink final : public transport::Transport {
 public:
  // Bytes in flight from `begin` to `end`.
  struct Passage {
    Nanos begin = 0;
    Nanos end = 0;
    std::uint64_t bytes = 0;
  };

  // Carries window_bytes in each direction within one latency. `input` is borrowed.
  SlowLink(Nanos latency, std::uint64_t window_bytes, std::span<const std::byte> input)
      : latency_(latency), window_bytes_(window_bytes), input_(input) {}

  void send(transport::Peer peer, const RingEntry& notice) { notices_.push_back({peer, notice}); }
  // Sets the time. Precondition: it does not decrease.
  void reach(Nanos now) { now_ = now; }
  // When the next answer comes; 0 when none is in flight.
  Nanos next() const {
    const Nanos pull = pulls_.empty() ? 0 : pulls_.front().at;
    const Nanos push = pushes_.empty() ? 0 : pushes_.front().at;
    return pull == 0 || (push != 0 && push < pull) ? push : pull;
  }
  const std::vector<Passage>& pulled() const { return pulled_; }
  const std::vector<Passage>& pushed() const { return pushed_; }
  const std::vector<transport::Message>& completions() const { return completions_; }

  // -- Transport ---------------------------------------------------------------------------------
  std::size_t receive(std::span<transport::Received> out) override {
    std::size_t count = 0;
    for (; count < out.size() && !notices_.empty(); ++count) {
      out[count] = notices_.front();
      notices_.pop_front();
    }
    return count;
  }
  std::size_t pulled(std::span<transport::Pulled> out) override { return take(pulls_, out); }
  std::size_t pushed(std::span<transport::Pushed> out) override { return take(pushes_, out); }
  std::size_t lost(std::span<transport::Peer>) override { return 0; }
  bool covers(const transport::Range&) const override { return true; }
  void pull(std::span<const transport::Pull> pulls) override {
    for (const transport::Pull& pull : pulls) {
      const Span& span = spans_.emplace_back(
          Span{input_.data() + pull.source.offset, static_cast<std::size_t>(pull.source.bytes)});
      const Nanos at = arrival(pull_free_, pull.source.bytes, pulled_);
      pulls_.push_back({at, {pull.user, Status::kOk, View(&span, 1), 0}});
    }
  }
  void release(std::uint32_t) override {}
  transport::Peer begin_access(std::span<const transport::Peer>) override {
    return transport::kNoPeer;
  }
  transport::Peer end_access(std::span<const transport::Peer>) override {
    return transport::kNoPeer;
  }
  void locate(std::span<transport::Landing>) override {}
  void push(std::span<const transport::Push> pushes) override {
    for (const transport::Push& push : pushes) {
      const Nanos at = arrival(push_free_, push.landing.target.bytes, pushed_);
      pushes_.push_back({at, {push.user, Status::kOk}});
    }
  }
  void complete(std::span<const transport::Message> messages) override {
    completions_.insert(completions_.end(), messages.begin(), messages.end());
  }
  void disconnect(transport::Peer, std::string_view) override {}
  bool arm() override { return false; }
  void disarm() override {}
  int fd() const override { return -1; }

 private:
  template <typename Answer>
  struct Waiting {
    Nanos at = 0;
    Answer answer;
  };

  Nanos arrival(Nanos& free, std::uint64_t bytes, std::vector<Passage>& passages) const {
    const double share = static_cast<double>(bytes) / static_cast<double>(window_bytes_);
    free =
        std::max(free, now_ + latency_) + static_cast<Nanos>(share * static_cast<double>(latency_));
    passages.push_back({now_, free, bytes});
    return free;
  }

  template <typename Answer>
  std::size_t take(std::deque<Waiting<Answer>>& waiting, std::span<Answer> out) const {
    std::size_t count = 0;
    for (; count < out.size() && !waiting.empty() && waiting.front().at <= now_; ++count) {
      out[count] = waiting.front().answer;
      waiting.pop_front();
    }
    return count;
  }

  Nanos latency_;
  std::uint64_t window_bytes_;
  std::span<const std::byte> input_;
  Nanos now_ = 0;
  Nanos pull_free_ = 0;
  Nanos push_free_ = 0;
  std::deque<Span> spans_;  // the memory that views refer to
  std::deque<transport::Received> notices_;
  std::deque<Waiting<transport::Pulled>> pulls_;
  std::deque<Waiting<transport::Pushed>> pushes_;
  std::vector<Passage> pulled_;
  std::vector<Passage> pushed_;
  std::vector<transport::Message> completions_;
};

}  // namespace tally::testing
