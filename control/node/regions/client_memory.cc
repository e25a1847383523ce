#include "control/node/regions/client_memory.h"

#include <algorithm>
#include <utility>

namespace tally::control {
namespace {

// A slice takes some milliseconds, with pages of 4 KiB.
constexpr std::size_t kSliceBytes = 32 << 20;

std::span<std::byte> slice_at(const Mapping& mapping, std::size_t offset) {
  const std::span<std::byte> all(mapping.data(), mapping.size());
  return all.subspan(offset, std::min(kSliceBytes, all.size() - offset));
}

}  // namespace

void ClientMemory::map(Owner owner, const std::shared_ptr<Request>& request, WorkDone then) {
  const auto slice = [this, request, offset = std::size_t{0}]() mutable {
    Request& wanted = *request;
    if (!wanted.memory.mapping) {
      auto mapping = calls_.map(wanted.fd.get(), wanted.bytes);
      wanted.fd.reset();
      if (!mapping) {
        wanted.outcome = mapping.error();
        return false;
      }
      wanted.memory = PeerMemory(std::move(mapping).value(), *wanted.faulted);
    }
    const auto part = slice_at(wanted.memory.mapping, offset);
    if (part.empty() || wanted.given_up.load(std::memory_order_relaxed)) return false;
    calls_.populate(part);
    offset += part.size();
    return offset < wanted.memory.mapping.size();
  };
  mapper_.run(owner, slice, std::move(then));
}

void ClientMemory::after_mapping(Owner owner, std::function<void()> then) {
  mapper_.run(
      owner, [] { return false; }, [then = std::move(then)](const Outcome&) { then(); });
}

void ClientMemory::unmap(Owner owner, std::vector<PeerMemory> memory, std::function<void()> then) {
  std::size_t bytes = 0;
  for (const PeerMemory& one : memory) bytes += one.mapping.size();
  const auto left = std::make_shared<std::vector<PeerMemory>>(std::move(memory));
  const auto slice = [this, left, offset = std::size_t{0}]() mutable {
    if (left->empty()) return false;
    const auto part = slice_at(left->back().mapping, offset);
    if (!part.empty()) calls_.depopulate(part);
    offset += part.size();
    if (offset < left->back().mapping.size()) return true;
    left->pop_back();
    offset = 0;
    return !left->empty();
  };
  FairThread& thread = bytes <= kSliceBytes ? mapper_ : unmapper_;
  thread.run(owner, slice, [then = std::move(then)](const Outcome&) { then(); });
}

}  // namespace tally::control
