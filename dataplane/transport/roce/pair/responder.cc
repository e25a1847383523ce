#include "dataplane/transport/roce/pair/responder.h"

#include <algorithm>

namespace tally::transport::roce {
namespace {

constexpr std::uint8_t kNotReadyTimer = 12;  // 640 us
// So many later packets show that a packet is lost.
constexpr std::size_t kAskAfter = 16;

}  // namespace

Responder::Responder(const PairOptions& options, const ReachableMemory& memory)
    : options_(options), memory_(memory), expected_(options.first_expected) {}

bool Responder::receive(const Packet& packet, std::uint64_t handle, Nanos now) {
  const std::int32_t ahead = packet.psn.after(expected_);
  if (failed_ || ahead < -kDuplicates) {
    ++counters_.ignored;
    return false;
  }
  if (ahead < 0) {
    receive_again(packet);
    return false;
  }
  if (ahead > 0) return receive_early(packet, handle, ahead, now);
  const bool kept = execute(packet, handle);
  take_early(now);
  return kept;
}

// -- out of order --------------------------------------------------------------------------------

bool Responder::receive_early(const Packet& packet, std::uint64_t handle, std::int32_t ahead,
                              Nanos now) {
  if (was_not_ready_) return false;  // the requester sends them all again
  if (ahead > kDuplicates) {
    ++counters_.ignored;
    return false;
  }
  if (gap_since_ == 0) gap_since_ = now;
  if (has_early(packet.psn)) {
    ++counters_.duplicates;
    return false;
  }
  ++counters_.early;
  if (ahead > kMostEarly) {
    ask_again();
    return false;
  }
  const bool has_payload = facts_of(packet.opcode).kind != Kind::kReadRequest;
  early_.push_back({packet, handle, has_payload});
  if (early_.size() >= kAskAfter) ask_again();
  return has_payload;
}

bool Responder::has_early(Psn psn) const {
  for (std::size_t i = 0; i < early_.size(); ++i) {
    if (early_[i].psn() == psn) return true;
  }
  return false;
}

// Executes what came early and is now due.
void Responder::take_early(Nanos now) {
  for (bool found = true; found && !failed_ && !was_not_ready_;) {
    found = false;
    for (std::size_t i = 0; i < early_.size(); ++i) {
      if (early_[i].psn() != expected_) continue;
      const Early one = early_[i];
      early_[i] = early_.back();
      early_.pop_back();
      const bool kept = execute(one.packet, one.handle);
      if (one.has_handle && !kept) deliveries_.push_back({.handle = one.handle});
      found = true;
      break;
    }
  }
  if (early_.empty()) {
    gap_since_ = 0;
  } else if (!asked_) {
    gap_since_ = now;  // another packet is missing now
  }
}

void Responder::receive_again(const Packet& packet) {
  ++counters_.duplicates;
  if (facts_of(packet.opcode).kind != Kind::kReadRequest) {
    return acknowledge(expected_ - 1);
  }
  if (!was_read(packet) || reading_again_ >= options_.reads_in) return;
  ++reading_again_;
  const std::uint32_t packets = packets_of(packet.reth.bytes, options_.mtu);
  replies_.push_back(
      {.read = Read{packet.psn, packets, packet.reth, 0, true}, .messages = messages_});
}

// Whether the request is one of the last READs, or the rest of one.
bool Responder::was_read(const Packet& packet) const {
  for (std::size_t i = 0; i < history_.size(); ++i) {
    const Read& read = history_[i];
    const std::int32_t at = packet.psn.after(read.first);
    const std::uint64_t offset = static_cast<std::uint64_t>(at) * options_.mtu;
    if (at >= 0 && static_cast<std::uint32_t>(at) < read.packets &&
        packet.reth.key == read.source.key && packet.reth.address == read.source.address + offset &&
        packet.reth.bytes <= read.source.bytes - offset) {
      return true;
    }
  }
  return false;
}

// -- in order ------------------------------------------------------------------------------------

bool Responder::execute(const Packet& packet, std::uint64_t handle) {
  const OpcodeFacts facts = facts_of(packet.opcode);
  if (!fits(packet, facts)) {
    refuse(packet.psn, Refusal::kInvalidRequest);
    return false;
  }
  switch (facts.kind) {
    case Kind::kSend:
      return execute_send(packet, handle, facts);
    case Kind::kWrite:
      return execute_write(packet, handle, facts);
    case Kind::kReadRequest:
      execute_read(packet);
      return false;
    default:
      ++counters_.ignored;
      return false;
  }
}

// Whether the packet has its place in the message, and the size that this place asks for.
bool Responder::fits(const Packet& packet, const OpcodeFacts& facts) const {
  Current needed = Current::kNothing;
  if (!facts.starts) needed = facts.kind == Kind::kSend ? Current::kSend : Current::kWrite;
  if (current_ != needed || packet.payload > options_.mtu) return false;
  if (!facts.ends && packet.payload != options_.mtu) return false;
  if (!facts.starts && packet.payload == 0) return false;
  if (facts.kind != Kind::kWrite) return true;
  const std::uint32_t left = facts.starts ? packet.reth.bytes : target_.bytes;
  return facts.ends ? packet.payload == left : packet.payload < left;
}

bool Responder::not_ready(const Packet& packet) {
  ++counters_.not_ready;
  was_not_ready_ = true;
  answer(packet.psn, not_ready_for(kNotReadyTimer));
  return false;
}

bool Responder::execute_send(const Packet& packet, std::uint64_t handle, const OpcodeFacts& facts) {
  if (facts.starts && receives_ == 0) return not_ready(packet);
  if (facts.starts) --receives_;
  current_ = facts.ends ? Current::kNothing : Current::kSend;
  Delivery delivery{.handle = handle,
                    .is_message = true,
                    .bytes = packet.payload,
                    .begins = facts.starts,
                    .ends = facts.ends};
  if (facts.has_immediate) delivery.immediate = packet.immediate;
  deliveries_.push_back(delivery);
  executed(packet, facts.ends);
  return true;
}

bool Responder::execute_write(const Packet& packet, std::uint64_t handle,
                              const OpcodeFacts& facts) {
  if (facts.has_immediate && receives_ == 0) return not_ready(packet);
  if (facts.starts) target_ = packet.reth;
  std::byte* const target =
      memory_.find(target_.key, target_.address, target_.bytes, Right::kWrite);
  if (target == nullptr && target_.bytes > 0) {
    refuse(packet.psn, Refusal::kAccess);
    return false;
  }
  if (facts.has_immediate) --receives_;
  target_.address += packet.payload;
  target_.bytes -= packet.payload;
  current_ = facts.ends ? Current::kNothing : Current::kWrite;
  Delivery delivery{
      .handle = handle, .target = target, .bytes = packet.payload, .ends = facts.ends};
  if (facts.has_immediate) delivery.immediate = packet.immediate;
  deliveries_.push_back(delivery);
  executed(packet, facts.ends);
  return true;
}

void Responder::execute_read(const Packet& packet) {
  const Reth& source = packet.reth;
  const bool is_open = source.bytes == 0 || memory_.find(source.key, source.address, source.bytes,
                                                         Right::kRead) != nullptr;
  if (!is_open) return refuse(packet.psn, Refusal::kAccess);
  if (reading_ >= options_.reads_in) return refuse(packet.psn, Refusal::kInvalidRequest);
  const Read read{packet.psn, packets_of(source.bytes, options_.mtu), source};
  ++reading_;
  replies_.push_back({.read = read});
  if (history_.size() == options_.reads_in) history_.pop_front();
  history_.push_back(read);
  was_not_ready_ = asked_ = false;
  ++counters_.packets;
  expected_ = expected_ + read.packets;
  messages_ = (messages_ + 1) & kMessageMask;
  replies_.back().messages = messages_;
}

void Responder::executed(const Packet& packet, bool ends) {
  was_not_ready_ = asked_ = false;
  ++counters_.packets;
  expected_ = expected_ + 1;
  if (ends) messages_ = (messages_ + 1) & kMessageMask;
  if (packet.asks_for_ack) acknowledge(packet.psn);
}

// -- answers -------------------------------------------------------------------------------------

// Each answer acknowledges all requests before its PSN. So the last one is enough of those that
// are not sent yet, and a peer cannot make them many.
void Responder::answer(Psn psn, std::uint8_t syndrome) {
  const Reply reply{.psn = psn, .syndrome = syndrome, .messages = messages_};
  if (replies_.empty() || replies_.back().read) return replies_.push_back(reply);
  if (psn.after(replies_.back().psn) >= 0) replies_.back() = reply;
}

void Responder::refuse(Psn psn, Refusal refusal) {
  failed_ = true;
  answer(psn, refused_with(refusal));
}

void Responder::ask_again() {
  if (asked_ || failed_) return;
  asked_ = true;
  ++counters_.asked_again;
  answer(expected_, refused_with(Refusal::kSequence));
}

bool Responder::next_delivery(Delivery& delivery) {
  if (deliveries_.empty()) return false;
  delivery = deliveries_.front();
  deliveries_.pop_front();
  return true;
}

bool Responder::next(Outgoing& packet) {
  while (!replies_.empty()) {
    Reply& reply = replies_.front();
    if (reply.read) {
      if (next_of_read(reply, packet)) return true;
      continue;
    }
    packet = {
        .opcode = Opcode::kAcknowledge, .psn = reply.psn, .aeth = {reply.syndrome, reply.messages}};
    replies_.pop_front();
    return true;
  }
  return false;
}

// False: the memory is gone, and a refusal stands in place of the READ.
bool Responder::next_of_read(Reply& reply, Outgoing& packet) {
  Read& read = *reply.read;
  const std::uint64_t at = std::uint64_t{read.next} * options_.mtu;
  const auto bytes =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(options_.mtu, read.source.bytes - at));
  const std::byte* const source =
      memory_.find(read.source.key, read.source.address + at, bytes, Right::kRead);
  if (source == nullptr && bytes > 0) {
    end_read(read);
    failed_ = true;
    reply = {.psn = read.first + read.next,
             .syndrome = refused_with(Refusal::kAccess),
             .messages = reply.messages};
    return false;
  }
  packet = {.opcode = part_of(Opcode::kReadFirst, Opcode::kReadMiddle, Opcode::kReadLast,
                              Opcode::kReadOnly, read.next, read.packets),
            .psn = read.first + read.next,
            .aeth = {credit_code(receives_), reply.messages},
            .payload = source,
            .bytes = bytes};
  if (++read.next == read.packets) {
    end_read(read);
    replies_.pop_front();
  }
  return true;
}

void Responder::end_read(const Read& read) {
  --(read.is_again ? reading_again_ : reading_);
}

void Responder::tick(Nanos now) {
  if (gap_since_ != 0 && now - gap_since_ >= options_.reorder_wait) ask_again();
}

Nanos Responder::timer() const {
  return gap_since_ == 0 || asked_ || failed_ ? INT64_MAX : gap_since_ + options_.reorder_wait;
}

}  // namespace tally::transport::roce
