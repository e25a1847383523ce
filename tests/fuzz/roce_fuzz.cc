// RoCEv2: frames, and answers and requests that a hostile peer sends to a queue pair. What was read
// is written the same; work is answered once; payloads land inside of what the work or the memory
// has; each payload that is kept is delivered once.
#include <array>
#include <map>
#include <set>
#include <vector>

#include "dataplane/transport/roce/pair/requester.h"
#include "dataplane/transport/roce/pair/responder.h"
#include "dataplane/transport/roce/wire/packet.h"
#include "tests/fuzz/input.h"

namespace {

using namespace tally::transport::roce;
using tally::fuzz::Input;
using tally::fuzz::require;

void read_frame(const std::uint8_t* data, std::size_t bytes) {
  const std::span frame(reinterpret_cast<const std::byte*>(data), bytes);
  Packet packet;
  if (read_packet(frame.first(std::min(bytes, kBytesToRead)), bytes, packet) != Unreadable::kNo) {
    return;
  }
  require(packet.icrc_at() + kIcrcBytes <= bytes, "a packet lies inside of its frame");
  Packet again = packet;
  std::array<std::byte, kBytesToRead> headers{};
  write_headers(again, headers);
  require(again.icrc_at() == packet.icrc_at() || packet.route.vlan == 0,
          "what was read has the same length when it is written");
  Packet third;
  std::vector<std::byte> whole(again.icrc_at() + kIcrcBytes);
  std::copy(headers.begin(), headers.begin() + std::min<std::size_t>(again.headers, whole.size()),
            whole.begin());
  require(read_packet(std::span(whole).first(std::min(whole.size(), kBytesToRead)), whole.size(),
                      third) == Unreadable::kNo,
          "what was written can be read");
  require(third.route == packet.route && third.psn == packet.psn && third.reth == packet.reth &&
              third.aeth == packet.aeth && third.payload == packet.payload,
          "and is the same");
}

class Region : public ReachableMemory {
 public:
  static constexpr std::uint64_t kBytes = 1 << 14;
  std::byte* find(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                  Right right) const override {
    const bool is_inside = address <= kBytes && bytes <= kBytes - address;
    return is_inside && key == (right == Right::kRead ? 1U : 2U) ? memory.data() + address
                                                                 : nullptr;
  }
  mutable std::vector<std::byte> memory = std::vector<std::byte>(kBytes);
};

PairOptions options(Input& input) {
  PairOptions options;
  options.first_sent = options.first_expected = Psn(Psn::kCount - 5);
  options.mtu = 256U << input.pick(3);
  options.reads_out = options.reads_in = 1 + input.pick(4);
  options.ack_timeout = 1'000;
  options.reorder_wait = 100;
  return options;
}

Packet hostile(Input& input, bool is_answer, std::uint32_t mtu) {
  constexpr std::array kAnswers = {Opcode::kReadFirst, Opcode::kReadMiddle, Opcode::kReadLast,
                                   Opcode::kReadOnly, Opcode::kAcknowledge};
  Packet packet;
  packet.opcode =
      is_answer ? kAnswers[input.pick(kAnswers.size())] : static_cast<Opcode>(input.pick(0x0d));
  packet.psn = Psn(Psn::kCount - 5 + input.take<std::uint8_t>());
  packet.asks_for_ack = input.pick(2) == 0;
  packet.aeth = {input.take<std::uint8_t>(), input.take<std::uint8_t>()};
  packet.reth = {input.take<std::uint16_t>(), input.pick(3), input.take<std::uint16_t>()};
  const std::uint32_t lengths[] = {0, mtu, input.take<std::uint16_t>(), packet.reth.bytes};
  packet.payload = std::min(lengths[input.pick(4)], 4096U);
  return packet;
}

void fuzz_requester(Input& input) {
  const PairOptions chosen = options(input);
  Requester requester(chosen);
  std::map<std::uint64_t, std::uint64_t> open;  // bytes by id
  std::vector<std::byte> source(1 << 16);
  tally::Nanos now = 1;
  for (std::uint64_t id = 1; !input.empty(); now += input.pick(100), ++id) {
    const Work work{.kind = static_cast<WorkKind>(input.pick(3)),
                    .id = id,
                    .source = source.data(),
                    .bytes = input.take<std::uint16_t>()};
    if (requester.failure() == Failure::kNone && requester.room_for(work) <= requester.room()) {
      requester.post(work);
      open[id] = work.bytes;
    }
    Outgoing sent;
    for (int i = 0; i < 64 && requester.next(sent, now); ++i) {
      require(sent.bytes <= chosen.mtu, "packets fit the MTU");
    }
    const Packet packet = hostile(input, true, chosen.mtu);
    if (const auto arrived = requester.receive(packet, now)) {
      require(open.contains(arrived->id), "what arrives belongs to work that is open");
      require(arrived->offset + packet.payload <= open[arrived->id], "and lies inside of it");
    }
    requester.tick(now);
    for (Done done; requester.next_done(done);) {
      require(open.erase(done.id) == 1, "work is done once");
    }
  }
  require(requester.failure() == Failure::kNone || open.empty(), "a failure ends all work");
}

void fuzz_responder(Input& input) {
  const PairOptions chosen = options(input);
  const Region region;
  Responder responder(chosen, region);
  std::set<std::uint64_t> kept;
  tally::Nanos now = 1;
  for (std::uint64_t handle = 1; !input.empty(); now += input.pick(100), ++handle) {
    responder.post_receives(input.pick(3));
    const Packet packet = hostile(input, false, chosen.mtu);
    if (responder.receive(packet, handle, now)) kept.insert(handle);
    for (Delivery one; responder.next_delivery(one);) {
      require(kept.erase(one.handle) == 1, "a payload is delivered once");
      if (one.target == nullptr) continue;
      const auto at = static_cast<std::uint64_t>(one.target - region.memory.data());
      require(at <= Region::kBytes && one.bytes <= Region::kBytes - at, "WRITEs stay inside");
    }
    responder.tick(now);
    Outgoing sent;
    for (int i = 0; i < 16 && responder.next(sent); ++i) {
      require(sent.bytes <= chosen.mtu, "packets fit the MTU");
    }
  }
  std::set<std::uint64_t> rest;
  responder.for_each_kept([&](std::uint64_t handle) { rest.insert(handle); });
  require(rest == kept, "what is kept is known");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  if (bytes == 0) return 0;
  Input input(data + 1, bytes - 1);
  switch (data[0] % 3) {
    case 0:
      read_frame(data + 1, bytes - 1);
      break;
    case 1:
      fuzz_requester(input);
      break;
    default:
      fuzz_responder(input);
  }
  return 0;
}
