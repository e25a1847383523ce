#include "tests/roce/pair_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "dataplane/transport/roce/pair/outgoing_packet.h"

namespace tally::transport::roce {
namespace {

constexpr std::uint32_t kKey = 0x5eed;
constexpr std::uint64_t kBase = 0x7f00'0000'0000;
constexpr Nanos kMinute = 60'000'000'000;
constexpr std::size_t kRegion = 1 << 17;  // the first half is read, the second is written

std::byte pattern(int end, std::uint64_t at) {
  return static_cast<std::byte>((at * 131 + at / 251 + static_cast<std::uint64_t>(end) * 77) &
                                0xff);
}

}  // namespace

struct PairWorld::End : ReachableMemory {
  End(int its_side, const PairOptions& options, const Load& load)
      : side(its_side), requester(options), responder(options, *this), region(kRegion) {
    for (std::size_t i = 0; i < kRegion; ++i) region[i] = pattern(side, i);
    responder.post_receives(load.few_receives ? 1 : 1000);
  }

  std::byte* find(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                  Right right) const override {
    const std::uint64_t at = address - kBase;
    const std::uint64_t begin = right == Right::kRead ? 0 : kRegion / 2;
    if (key != kKey || at < begin || at > kRegion || bytes > kRegion - at) return nullptr;
    return region.data() + at;
  }

  int side;
  Requester requester;
  Responder responder;
  mutable std::vector<std::byte> region;
  std::vector<Work> to_post;  // the next one last
  std::map<std::uint64_t, Work> posted{};
  std::map<std::uint64_t, std::vector<std::byte>> sources{};  // of SENDs and WRITEs
  std::map<std::uint64_t, std::vector<std::byte>> read{};
  std::map<std::uint64_t, std::vector<bool>> read_parts{};
  std::size_t done = 0;
  // What the other end gets of it.
  std::vector<std::uint64_t> sends{};  // in the order of their posts
  std::size_t sends_taken = 0;
  std::vector<std::byte> message{};                            // that arrives at this end
  std::uint64_t written = 0;                                   // bytes, at this end
  std::uint64_t to_be_written = 0;                             // at the other end
  std::map<std::uint64_t, std::vector<std::byte>> payloads{};  // by handle
};

PairWorld::PairWorld(std::uint64_t seed, const PairOptions& options, const Faults& faults,
                     const Load& load)
    : random_(seed), options_(options), faults_(faults), load_(load) {
  PairOptions mine = options;
  PairOptions theirs = options;
  // Near the end of the numbers, so that they go around.
  mine.first_sent = theirs.first_expected =
      Psn(Psn::kCount - static_cast<std::uint32_t>(below(200)));
  theirs.first_sent = mine.first_expected = Psn(static_cast<std::uint32_t>(below(Psn::kCount)));
  ends_.push_back(std::make_unique<End>(0, mine, load));
  ends_.push_back(std::make_unique<End>(1, theirs, load));
  for (const auto& end : ends_) {
    plan(*end);
    end->requester.set_window(static_cast<std::uint32_t>(1 + below(below(2) == 0 ? 12 : 200)));
  }
}

PairWorld::~PairWorld() = default;

std::uint64_t PairWorld::timeouts() const {
  return ends_[0]->requester.counters().timeouts + ends_[1]->requester.counters().timeouts;
}

void PairWorld::plan(End& end) {
  std::uint64_t target = kRegion / 2;
  for (int i = 0; i < load_.works; ++i) {
    Work work;
    work.id = static_cast<std::uint64_t>(i) + 1;
    work.kind = static_cast<WorkKind>(below(3));
    const std::uint64_t most = std::uint64_t{load_.most_packets} * options_.mtu;
    work.bytes = chance() < 0.1 ? below(3) : below(most);
    if (work.kind == WorkKind::kRead && chance() < load_.long_reads)
      work.bytes = below(kRegion / 4);
    work.key = kKey;
    if (work.kind == WorkKind::kRead) {
      work.address = kBase + below(kRegion / 2 - work.bytes);
      end.read[work.id].resize(work.bytes);
      end.read_parts[work.id].resize(packets_of(work.bytes, options_.mtu));
    } else {
      auto& source = end.sources[work.id];
      source.resize(work.bytes + 1);
      for (std::size_t at = 0; at < source.size(); ++at) {
        source[at] = static_cast<std::byte>(work.id * 37 + at * 7 + at / 256);
      }
      work.source = source.data();
      if (chance() < 0.2) work.immediate = static_cast<std::uint32_t>(work.id);
    }
    if (work.kind == WorkKind::kWrite) {
      work.bytes = std::min<std::uint64_t>(work.bytes, kRegion - target);
      work.address = kBase + target;
      target += work.bytes;
      end.to_be_written += work.bytes;
    }
    end.to_post.push_back(work);
  }
  std::reverse(end.to_post.begin(), end.to_post.end());
}

void PairWorld::post(End& end) {
  while (!end.to_post.empty() &&
         end.requester.room_for(end.to_post.back()) <= end.requester.room() &&
         end.requester.failure() == Failure::kNone) {
    const Work work = end.to_post.back();
    end.to_post.pop_back();
    end.requester.post(work);
    end.posted[work.id] = work;
    if (work.kind == WorkKind::kSend) end.sends.push_back(work.id);
    if (chance() < 0.3) return;
  }
}

void PairWorld::wrong(std::string what) {
  if (wrong_.empty()) wrong_ = fmt::format("at {} ns: {}", now_, what);
}

void PairWorld::send(int from, const Outgoing& outgoing) {
  ++packets_;
  Flight flight;
  flight.to = 1 - from;
  flight.packet = packet_of(outgoing, {}, 0);
  if (outgoing.bytes > 0)
    flight.payload.assign(outgoing.payload, outgoing.payload + outgoing.bytes);
  if (outgoing.bytes > options_.mtu) wrong("a packet is longer than the MTU");
  const int copies = chance() < faults_.lost ? 0 : chance() < faults_.doubled ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    flight.at = now_ + faults_.delay;
    if (chance() < faults_.reordered) {
      flight.at += static_cast<Nanos>(below(static_cast<std::uint64_t>(faults_.more_delay)));
    }
    flight.number = ++flight_numbers_;
    flights_.push(flight);
  }
}

void PairWorld::arrive(Flight flight) {
  End& end = *ends_[static_cast<std::size_t>(flight.to)];
  const Kind kind = facts_of(flight.packet.opcode).kind;
  if (kind == Kind::kAcknowledge || kind == Kind::kReadResponse) {
    const auto arrived = end.requester.receive(flight.packet, now_);
    if (!arrived) return;
    auto& whole = end.read[arrived->id];
    if (arrived->offset + flight.payload.size() > whole.size()) {
      return wrong("a READ arrives outside of its memory");
    }
    auto& parts = end.read_parts[arrived->id];
    const std::size_t part = arrived->offset / options_.mtu;
    if (parts.at(part)) return wrong("a part of a READ arrives twice");
    parts[part] = true;
    std::copy(flight.payload.begin(), flight.payload.end(),
              whole.begin() + static_cast<std::ptrdiff_t>(arrived->offset));
    return;
  }
  const std::uint64_t handle = flight.number;
  if (end.responder.receive(flight.packet, handle, now_)) {
    end.payloads[handle] = std::move(flight.payload);
  }
  deliver(end);
}

void PairWorld::deliver(End& end) {
  End& sender = *ends_[static_cast<std::size_t>(1 - end.side)];
  for (Delivery delivery; end.responder.next_delivery(delivery);) {
    const auto kept = end.payloads.extract(delivery.handle);
    if (kept.empty()) return wrong("a delivery has no payload");
    const auto& payload = kept.mapped();
    if (!delivery.is_message && delivery.target == nullptr) {  // nothing to do
      if (delivery.immediate) end.responder.post_receives(1);
      continue;
    }
    if (payload.size() != delivery.bytes) return wrong("a delivery has another length");
    if (!delivery.is_message) {
      if (delivery.bytes > 0) std::memcpy(delivery.target, payload.data(), payload.size());
      end.written += delivery.bytes;
      if (delivery.immediate) end.responder.post_receives(1);
      continue;
    }
    if (delivery.begins) end.message.clear();
    end.message.insert(end.message.end(), payload.begin(), payload.end());
    if (!delivery.ends) continue;
    if (sender.sends_taken == sender.sends.size()) return wrong("a message that nobody sent");
    const Work& work = sender.posted.at(sender.sends[sender.sends_taken++]);
    const bool same = end.message.size() == work.bytes &&
                      std::equal(end.message.begin(), end.message.end(), work.source);
    if (!same) return wrong(fmt::format("message {} is not what was sent", work.id));
    if (delivery.immediate != work.immediate) return wrong("immediate data differ");
    end.message.clear();
    end.responder.post_receives(1);
  }
}

void PairWorld::take_done(End& end) {
  const End& other = *ends_[static_cast<std::size_t>(1 - end.side)];
  for (Done done; end.requester.next_done(done);) {
    ++end.done;
    const Work& work = end.posted.at(done.id);
    if (!done.fine) {
      return wrong(fmt::format("work {} failed: {}", done.id, to_text(end.requester.failure())));
    }
    const std::uint64_t at = work.address - kBase;
    if (work.kind == WorkKind::kWrite &&
        !std::equal(work.source, work.source + work.bytes,
                    other.region.begin() + static_cast<std::ptrdiff_t>(at))) {
      wrong(fmt::format("WRITE {} is done and its bytes are not in place", work.id));
    }
    if (work.kind != WorkKind::kRead) continue;
    const auto& read = end.read[work.id];
    for (std::size_t i = 0; i < read.size(); ++i) {
      if (read[i] != pattern(other.side, at + i)) {
        return wrong(
            fmt::format("READ {} is done, and byte {} of {} is wrong", work.id, i, read.size()));
      }
    }
  }
}

bool PairWorld::is_done() const {
  return std::all_of(ends_.begin(), ends_.end(), [&](const auto& end) {
    return end->done == static_cast<std::size_t>(load_.works);
  });
}

std::string PairWorld::run() {
  while (wrong_.empty() && !is_done()) {
    for (const auto& end : ends_) {
      post(*end);
      if (load_.changes_windows && chance() < 0.05) {
        end->requester.set_windows({.all = static_cast<std::uint32_t>(4 + below(252)),
                                    .reads = static_cast<std::uint32_t>(4 + below(252)),
                                    .long_reads = chance() < 0.5});
      }
      end->requester.tick(now_);
      end->responder.tick(now_);
      Outgoing packet;
      for (int burst = 0; burst < 16 && end->responder.next(packet); ++burst)
        send(end->side, packet);
      packet = {};
      for (int burst = 0; burst < 16 && end->requester.next(packet, now_); ++burst) {
        send(end->side, packet);
        packet = {};
      }
      take_done(*end);
    }
    Nanos next = now_ + 1'000;
    if (flights_.empty()) {
      for (const auto& end : ends_) {
        next = std::max(
            next, std::min({end->requester.timer(), end->responder.timer(), now_ + kMinute / 600}));
      }
    }
    if (!flights_.empty() && flights_.top().at > now_) next = std::min(next, flights_.top().at);
    now_ = next;
    while (!flights_.empty() && flights_.top().at <= now_) {
      Flight flight = flights_.top();
      flights_.pop();
      arrive(std::move(flight));
    }
    if (now_ > kMinute) wrong("no end within a minute");
  }
  for (const auto& end : ends_) {
    const End& other = *ends_[static_cast<std::size_t>(1 - end->side)];
    if (wrong_.empty() && end->written != other.to_be_written) {
      wrong(fmt::format("{} bytes were written of {}", end->written, other.to_be_written));
    }
    if (wrong_.empty() && end->sends_taken != end->sends.size()) wrong("a message is missing");
  }
  return wrong_;
}

}  // namespace tally::transport::roce
