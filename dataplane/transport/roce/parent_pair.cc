#include "dataplane/transport/roce/parent_pair.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tally::transport::roce {
namespace {

constexpr std::uint64_t kProbe = 1;  // the id of its work
constexpr std::array<std::byte, 4096> kProbeContent{};
// The parent sends a completion for each operation, and few other messages.
constexpr std::uint32_t kOtherMessages = 8;

}  // namespace

std::byte* ExposedMemory::find(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                               Right) const {
  for (const Exposed& one : all_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(one.memory.data());
    const bool is_inside = address >= begin && address - begin <= one.memory.size() &&
                           bytes <= one.memory.size() - (address - begin);
    if (one.key == key && is_inside) return one.memory.data() + (address - begin);
  }
  return nullptr;
}

ParentPair::ParentPair(EndpointContext& context, const PairOptions& options, const Ends& ends,
                       std::uint32_t credit)
    : Endpoint(context, options, ends, *this, sizeof(RingEntry)),
      most_messages_(2 * credit + kOtherMessages) {
  post_receives(most_messages_);
}

void ParentPair::probe(std::uint32_t bytes) {
  Work work{.kind = WorkKind::kSend, .id = kProbe, .source = kProbeContent.data()};
  work.bytes = std::min({bytes, mtu(), static_cast<std::uint32_t>(kProbeContent.size())});
  if (work.bytes > 0) work.immediate = 0;
  post(work);
}

void ParentPair::send_up(const RingEntry& message) {
  if (is_broken()) return;
  if (!waiting_.empty() || !send(message)) waiting_.push_back(message);
  mark_busy();
}

void ParentPair::on_turn() {
  while (!waiting_.empty() && send(waiting_.front())) waiting_.pop_front();
}

std::size_t ParentPair::receive(std::span<RingEntry> out) {
  std::size_t count = 0;
  for (; count < out.size() && !messages_.empty(); ++count) {
    out[count] = messages_.front();
    messages_.pop_front();
  }
  return count;
}

void ParentPair::refuse(std::string reason) {
  if (is_broken()) return;
  why_ = std::move(reason);
  state_.store(State::kLost, std::memory_order_release);
}

void ParentPair::on_message(const RingEntry& message, std::span<const std::byte> more) {
  if (!more.empty()) return refuse("it sent a message that is too long");
  if (messages_.size() >= most_messages_) return refuse("it sends more than its credit");
  messages_.push_back(message);
}

void ParentPair::on_done(const Done& done) {
  if (done.fine && state() == State::kNew) {
    state_.store(State::kAnswered, std::memory_order_release);
  }
}

}  // namespace tally::transport::roce
