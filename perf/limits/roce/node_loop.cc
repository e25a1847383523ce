#include "perf/limits/roce/node_loop.h"

#include <array>
#include <cstring>

#include "base/clock.h"

namespace tally::perf {
namespace {

constexpr Nanos kChoresEvery = 100 * kMicrosecond;  // as a shard

}  // namespace

using transport::Pull;
using transport::Pulled;
using transport::Push;
using transport::Pushed;

void fill(std::span<std::byte> memory, float times) {
  for (std::size_t at = 0; at + sizeof(float) <= memory.size(); at += sizeof(float)) {
    const float value = times * element(at % kOperationBytes / sizeof(float));
    std::memcpy(memory.data() + at, &value, sizeof value);
  }
}

bool is_filled(std::span<const std::byte> memory, float times) {
  std::vector<std::byte> expected(memory.size());
  fill(expected, times);
  return std::memcmp(expected.data(), memory.data(), memory.size()) == 0;
}

void Sum::add(View bytes, std::size_t count, std::size_t offset) {
  auto* const to = reinterpret_cast<std::byte*>(elements_.data()) + offset;
  const Span before{to, count};
  const std::array<View, 2> inputs{View(&before, 1), bytes};
  const std::array<std::byte*, 1> outputs{to};
  summation::Reduction reduction;
  reduction.count = count / sizeof(float);
  reduction.inputs = inputs;
  reduction.outputs = outputs;
  summation::reduce(kernels_, reduction);
}

bool Sum::is(std::uint64_t times, std::size_t first, std::size_t count) const {
  for (std::size_t i = first; i < first + count; ++i) {
    if (elements_[i] != element(i) * static_cast<float>(times)) return false;
  }
  return true;
}

void NodeLoop::begin(Work work, std::uint32_t peers, std::uint32_t depth) {
  work_ = work;
  ends_ = false;
  done_ = failed_ = 0;
  sum_.clear();
  for (std::uint32_t i = 0; i < depth; ++i) {
    for (transport::Peer peer = 0; peer < peers; ++peer) start(peer);
  }
}

void NodeLoop::start(transport::Peer peer) {
  offset_ = (offset_ + kOperationBytes) % kRegionBytes;
  ++in_flight_;
  if (work_ == Work::kReads) {
    const Pull pull{{peer, kSourceRegion, offset_, kOperationBytes}, peer};
    transport_.pull({&pull, 1});
  } else {
    const Push push{{{peer, kTargetRegion, offset_, kOperationBytes}}, result_.data(), peer};
    transport_.push({&push, 1});
  }
}

std::size_t NodeLoop::poll() {
  std::array<transport::Received, 8> notices;
  std::array<Pulled, 16> pulled;
  std::array<Pushed, 16> pushed;
  std::array<transport::Peer, 8> lost;
  transport_.receive(notices);
  std::size_t ended = 0;
  const auto one_ended = [&](Status status, std::uint64_t peer) {
    ++ended;
    --in_flight_;
    ++done_;
    if (status != Status::kOk) ++failed_;
    if (!ends_ && failed_ == 0) start(static_cast<transport::Peer>(peer));
  };
  const std::size_t reads = transport_.pulled(pulled);
  for (const Pulled& one : std::span(pulled).first(reads)) {
    if (one.status == Status::kOk) {
      sum_.add(one.view, kOperationBytes, 0);
      transport_.release(one.handle);
    }
    one_ended(one.status, one.user);
  }
  const std::size_t writes = transport_.pushed(pushed);
  for (const Pushed& one : std::span(pushed).first(writes)) one_ended(one.status, one.user);
  if (const Nanos now = monotonic_now(); now >= next_chores_) {
    next_chores_ = now + kChoresEvery;
    failed_ += transport_.lost(lost);
  }
  return ended;
}

}  // namespace tally::perf
