#include "tests/model/traced_connection.h"

#include <algorithm>
#include <cstring>

#include "tests/model/trace.h"

namespace tally::traces {
namespace {

template <typename Regions>
std::byte* region_in(const Regions& regions, std::uint32_t id) {
  const auto found = std::find_if(regions.begin(), regions.end(),
                                  [id](const auto* region) { return region->id == id; });
  return found == regions.end() ? nullptr : (*found)->data();
}

}  // namespace

bool TracedConnection::send(std::uint32_t, const wire::Notice& notice,
                            std::span<const std::byte> contribution) {
  if (!state_->is_open()) throw Disagreement("a notice goes to a node that is fenced off");
  if (notice.kind != wire::Kind::kCancel) state_->sent.push_back(notice);
  shard_.announce(rank_, notice, contribution);
  return true;
}

std::size_t TracedConnection::receive(std::uint32_t, std::span<RingEntry> out) {
  std::size_t count = 0;
  while (count < out.size() && !state_->arrived.empty()) {
    const Delivery delivery = std::move(state_->arrived.front());
    state_->arrived.pop_front();
    if (!delivery.result.empty()) {
      std::byte* memory = region_in(own_, delivery.region);
      if (memory == nullptr) memory = region_in(state_->regions, delivery.region);
      if (memory == nullptr) throw Disagreement("a result goes to an unknown region");
      std::memcpy(memory + delivery.offset, delivery.result.data(), delivery.result.size());
    }
    out[count++] = wire::encode(delivery.completion);
  }
  return count;
}

Result<client::Connection::Offer> TracedConnection::offer(const client::Region& region) {
  state_->regions.push_back(&region);
  return Offer{nlohmann::json::object(), {}};
}

void TracedConnection::withdraw(const client::Region& region) {
  std::erase(state_->regions, &region);
}

bool TracedConnection::fence(Nanos) {
  state_->fenced = true;
  state_->arrived.clear();
  shard_.forget(rank_);
  return true;
}

void TracedConnection::hang_up() {
  state_->hung_up = true;
  state_->arrived.clear();
  shard_.forget(rank_);
}

}  // namespace tally::traces
