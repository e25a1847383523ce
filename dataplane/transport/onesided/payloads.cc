#include "dataplane/transport/onesided/payloads.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dataplane/wire/completion.h"
#include "dataplane/wire/notice.h"

namespace tally::transport::onesided {

std::optional<std::uint32_t> Payloads::keep(Peer peer, std::uint32_t cookie,
                                            std::span<const std::byte> bytes) {
  std::byte* copy = memory_.allocate(bytes.size());
  if (copy == nullptr) return std::nullopt;
  std::memcpy(copy, bytes.data(), bytes.size());
  const auto region = add(peer, cookie, {copy, bytes.size()}, nullptr);
  if (!region) memory_.release(copy);
  return region;
}

std::optional<std::uint32_t> Payloads::lend(Peer peer, std::uint32_t cookie,
                                            std::span<const std::byte> bytes,
                                            std::shared_ptr<const void> owner) {
  return add(peer, cookie, bytes, std::move(owner));
}

std::optional<std::uint32_t> Payloads::add(Peer peer, std::uint32_t cookie,
                                           std::span<const std::byte> bytes,
                                           std::shared_ptr<const void> owner) {
  if (peer >= of_.size()) of_.resize(peer + 1);
  auto& own = of_[peer];
  const bool again = std::any_of(own.begin(), own.end(), [&](std::uint32_t index) {
    return payloads_[index].cookie == cookie;
  });
  if (again || own.size() >= kMostEach) return std::nullopt;
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(payloads_.size()));
    payloads_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  payloads_[index] = Payload{peer, cookie, 1, true, bytes, std::move(owner)};
  own.reserve(kMostEach);
  own.push_back(index);
  return kFirst + index;
}

RingEntry Payloads::store(Peer peer, const RingEntry& entry,
                          std::span<const std::byte> contribution,
                          const std::shared_ptr<const void>& kept) {
  wire::Notice notice;
  std::optional<std::uint32_t> region;
  if (wire::parse(entry, notice) == Status::kOk && notice.kind != wire::Kind::kCancel) {
    region = kept ? lend(peer, notice.cookie, contribution, kept)
                  : keep(peer, notice.cookie, contribution);
  }
  if (!region) return entry;
  notice.in_region = *region;
  notice.in_offset = 0;
  return wire::encode(notice);
}

std::optional<Span> Payloads::find(const Range& range) const {
  const std::uint32_t index = range.region - kFirst;
  if (!is_payload(range.region) || index >= payloads_.size()) return std::nullopt;
  const Payload& payload = payloads_[index];
  if (!payload.live || payload.peer != range.peer) return std::nullopt;
  const std::size_t size = payload.bytes.size();
  if (range.offset > size || range.bytes > size - range.offset) return std::nullopt;
  return Span{payload.bytes.data() + range.offset, range.bytes};
}

void Payloads::hold(std::uint32_t region) {
  ++payloads_[region - kFirst].users;
}

void Payloads::release(std::uint32_t region) {
  let_go(region - kFirst);
}

void Payloads::let_go(std::uint32_t index) {
  Payload& payload = payloads_[index];
  if (--payload.users > 0) return;
  if (payload.owner == nullptr) memory_.release(payload.bytes.data());
  payload = Payload{};
  free_.push_back(index);
}

void Payloads::end(std::uint32_t index) {
  payloads_[index].live = false;
  let_go(index);
}

void Payloads::ended(Peer peer, std::uint32_t cookie) {
  if (peer >= of_.size()) return;
  auto& own = of_[peer];
  const auto found = std::find_if(own.begin(), own.end(), [&](std::uint32_t index) {
    return payloads_[index].cookie == cookie;
  });
  if (found == own.end()) return;
  end(*found);
  own.erase(found);
}

// The second of two equal notices gets status kDuplicate. The operation of the first one goes on
// and needs its payload.
void Payloads::completed(const Message& message) {
  if (size() == 0) return;
  wire::Completion completion;
  const bool readable = wire::parse(message.message, completion) == Status::kOk;
  if (readable && completion.status != Status::kDuplicate) ended(message.peer, completion.cookie);
}

void Payloads::forget(Peer peer) {
  if (peer >= of_.size()) return;
  for (const std::uint32_t index : of_[peer]) end(index);
  of_[peer].clear();
}

}  // namespace tally::transport::onesided
