#include "dataplane/transport/roce/pair/requester.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "dataplane/transport/roce/pair/request_packets.h"

namespace tally::transport::roce {
namespace {

// Long messages ask for an acknowledgement after so many packets, so that the window opens in time.
constexpr std::uint32_t kAskEach = 32;

}  // namespace

Requester::Requester(const PairOptions& options)
    : options_(options),
      requests_(options.first_sent),
      sent_end_(options.first_sent),
      acknowledged_end_(options.first_sent),
      seen_end_(options.first_sent),
      asked_end_(options.first_sent),
      clock_(options.ack_timeout) {}

// -- posting -------------------------------------------------------------------------------------

std::size_t Requester::room_for(const Work& work) const {
  if (work.kind != WorkKind::kRead) return 1;
  const std::uint32_t packets = packets_of(work.bytes, options_.mtu);
  return (packets + kReadPackets - 1) / kReadPackets;
}

void Requester::post(const Work& work) {
  const std::uint64_t serial = first_serial_ + works_.size();
  const auto count = static_cast<std::uint32_t>(room_for(work));
  works_.push_back({work, count});
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t offset = std::uint64_t{i} * kReadPackets * options_.mtu;
    if (is_long_read(work, options_.mtu)) {
      long_reads_.push_back({serial, offset});
    } else {
      requests_.push(request_of(work, serial, offset, options_.mtu));
    }
  }
}

// -- sending -------------------------------------------------------------------------------------

// The first PSN of which this end still waits for something.
Psn Requester::lowest() const {
  if (requests_.numbered() == 0) return sent_end_;
  const Request& front = requests_[0];
  if (front.is_read()) return front.first_missing();
  return acknowledged_end_.after(front.first) > 0 ? acknowledged_end_ : front.first;
}

bool Requester::may_send(const Request& request) const {
  const bool is_numbered = requests_.is_numbered();
  // It was sent before.
  if (is_numbered && sent_end_.after(request.first + requests_.part()) > 0) return true;
  const std::uint32_t way = on_the_way();
  if (way == 0) return true;
  if (request.is_read())
    return requests_.reads() < options_.reads_out &&
           way + std::min(request.packets, most_read()) <= windows_.reads;
  // One message beyond the credits finds out whether there are new ones.
  if (request.kind == WorkKind::kSend && !is_numbered && requests_.messages() >= message_limit_) {
    return false;
  }
  // The window may have shrunk while packets that do not ask for an answer were on their way. Then
  // one more packet asks.
  return way < windows_.all || asked_end_.after(lowest()) <= 0;
}

// The packets of a READ's answer come as fast as the other end can send. So a READ asks for half of
// the window at most, and another one is on its way while this one is answered. Connections that
// share a shard's window with many others ask for more at a time, because requests cost too.
std::uint32_t Requester::most_read() const {
  return std::max(windows_.reads / 2, std::clamp(windows_.reads, 1U, kFewPackets));
}

// READs may overtake each other, and other work may overtake READs.
void Requester::begin_long_read() {
  const auto [serial, offset] = long_reads_.front();
  const Work& work = works_[serial - first_serial_].work;
  requests_.push(request_of(work, serial, offset, options_.mtu));
  long_reads_.pop_front();
  ++long_reads_outstanding_;
}

// Makes two of a READ without PSNs: its first packets, which are next, and the others. A repair may
// not want all packets, but it wants the last one.
void Requester::cut(Request& read) {
  Request first = read;
  first.packets = most_read();
  first.wanted = first.missing = read.wanted & first.all_packets();
  const auto unwanted = static_cast<std::uint32_t>(std::countr_zero(read.wanted >> first.packets));
  const std::uint32_t skipped = first.packets + unwanted;
  const std::uint64_t bytes = std::uint64_t{skipped} * options_.mtu;
  first.bytes = std::uint64_t{first.packets} * options_.mtu;
  read.offset += bytes;
  read.bytes -= bytes;
  read.packets -= skipped;
  read.wanted = read.missing = read.wanted >> skipped;
  ++posted(read).open;
  if (read.is_long) ++long_reads_outstanding_;
  requests_.push_next(first);
}

bool Requester::next(Outgoing& packet, Nanos now) {
  if (failure_ != Failure::kNone || now < wait_until_) return false;
  wait_until_ = 0;
  if (agains_ > 0 && next_again(packet)) return true;
  if (probes_ && next_probe(packet)) return true;
  if (windows_.long_reads && !long_reads_.empty() && requests_.waiting_reads() == 0) {
    begin_long_read();
  }
  Request* current = requests_.current(acknowledged_end_);
  if (current == nullptr || !may_send(*current)) return false;
  if (!requests_.is_numbered()) {
    if (current->is_read() && current->packets > most_read()) {
      cut(*current);
      current = requests_.current(acknowledged_end_);
    }
    requests_.number();
  }
  Request& request = *current;
  if (!is_outstanding()) clock_.start(now);
  Psn end;
  if (request.is_read()) {
    packet = read_request(request, posted(request).work);
    end = request.end();
    request.sent = true;
  } else {
    const std::uint32_t index = requests_.part();
    packet = message_packet(request, posted(request).work, index, options_.mtu);
    end = packet.psn + 1;
    const std::uint32_t each = std::clamp(windows_.all / 2, 1U, kAskEach);
    // A full window opens again only by an answer.
    const bool is_full = end.after(lowest()) >= static_cast<std::int32_t>(windows_.all);
    if (is_full || index % each == each - 1) packet.asks_for_ack = true;
    request.sent = request.sent || index + 1 == request.packets;
  }
  requests_.sent_part();
  if (sent_end_.after(end) >= 0) {
    count_again();
  } else {
    ++counters_.packets;
    sent_end_ = end;
    if (packet.asks_for_ack) clock_.sent(packet.psn + 1, now);
  }
  if (packet.asks_for_ack && end.after(asked_end_) > 0) asked_end_ = end;
  return true;
}

void Requester::count_again() {
  ++counters_.packets;
  ++counters_.again;
  clock_.sent_again();
}

// READs of which nothing has arrived although later packets have.
bool Requester::next_again(Outgoing& packet) {
  for (std::size_t i = 0; i < requests_.numbered(); ++i) {
    Request& request = requests_[i];
    if (!std::exchange(request.again, false)) continue;
    --agains_;
    if (request.done || request.is_touched()) continue;
    packet = read_request(request, posted(request).work);
    count_again();
    return true;
  }
  return false;
}

// The last packet of a SEND or WRITE, once more.
bool Requester::next_probe(Outgoing& packet) {
  probes_ = false;
  const std::size_t last = requests_.last_open();
  if (last == requests_.numbered() || requests_[last].is_read()) return false;
  const Request& request = requests_[last];
  const auto sent = static_cast<std::uint32_t>(sent_end_.after(request.first));
  packet = message_packet(request, posted(request).work, std::min(sent, request.packets) - 1,
                          options_.mtu);
  packet.asks_for_ack = true;
  count_again();
  return true;
}

// -- receiving -----------------------------------------------------------------------------------

std::optional<Arrived> Requester::receive(const Packet& packet, Nanos now) {
  if (failure_ != Failure::kNone) return std::nullopt;
  // What was not sent cannot have an answer. Numbers far behind belong to what is done.
  if (packet.psn.after(sent_end_) >= 0 || packet.psn.after(lowest()) < -(1 << 22)) {
    ++counters_.ignored;
    return std::nullopt;
  }
  const Kind kind = facts_of(packet.opcode).kind;
  std::optional<Arrived> arrived;
  if (kind == Kind::kReadResponse) arrived = on_read_answer(packet, now);
  if (kind == Kind::kAcknowledge) on_acknowledgement(packet, now);
  drop_done();
  return arrived;
}

std::optional<Arrived> Requester::on_read_answer(const Packet& packet, Nanos now) {
  Request* const request = requests_.find(packet.psn);
  const auto ignore = [&]() -> std::optional<Arrived> {
    ++counters_.ignored;
    return std::nullopt;
  };
  if (request == nullptr || !request->is_read() || !request->sent) return ignore();
  if (request->done) return ignore();  // other READs have replaced it, or it has come before
  const auto index = static_cast<std::uint32_t>(packet.psn.after(request->first));
  const Opcode expected = part_of(Opcode::kReadFirst, Opcode::kReadMiddle, Opcode::kReadLast,
                                  Opcode::kReadOnly, index, request->packets);
  const std::uint64_t at = std::uint64_t{index} * options_.mtu;
  const std::uint64_t bytes = std::min<std::uint64_t>(options_.mtu, request->bytes - at);
  if (packet.opcode != expected || packet.payload != bytes) return ignore();
  const std::uint64_t bit = std::uint64_t{1} << index;
  if ((request->missing & bit) == 0) return ignore();
  const bool was_first_missing = std::countr_zero(request->missing) == static_cast<int>(index);
  request->missing &= ~bit;
  if (was_first_missing) request->overtaken_since = 0;
  const Arrived arrived{posted(*request).work.id, request->offset + at};
  if ((packet.psn + 1).after(seen_end_) > 0) seen_end_ = packet.psn + 1;
  // The responder executes requests in order, so it has all before this one, and this one.
  const Psn end = request->end();
  acknowledge_before(request->first, now);
  ++counters_.got_through;
  if (end.after(acknowledged_end_) > 0) acknowledged_end_ = end;
  on_progress(packet.psn + 1, now);
  if (facts_of(packet.opcode).has_aeth) take_credits(packet.aeth);
  if (request->missing == 0) finish(*request);
  return arrived;
}

void Requester::on_acknowledgement(const Packet& packet, Nanos now) {
  const std::uint8_t detail = detail_of(packet.aeth.syndrome);
  switch (answer_of(packet.aeth.syndrome)) {
    case Answer::kAcknowledged:
      if ((packet.psn + 1).after(seen_end_) > 0) seen_end_ = packet.psn + 1;
      acknowledge_before(packet.psn + 1, now);
      take_credits(packet.aeth);
      return;
    case Answer::kNotReady:
      return on_not_ready(packet.psn, detail, now);
    case Answer::kRefused:
      return on_refusal(packet.psn, static_cast<Refusal>(detail), now);
    case Answer::kReserved:
      ++counters_.ignored;
      return;
  }
}

void Requester::on_refusal(Psn psn, Refusal refusal, Nanos now) {
  // A READ can be refused after a part of it has been answered.
  const Psn first = refusal == Refusal::kSequence ? acknowledged_end_ : lowest();
  if (psn.after(first) < 0) {
    ++counters_.ignored;  // of a request that is done: an answer that came late or twice
    return;
  }
  acknowledge_before(psn, now);
  switch (refusal) {
    case Refusal::kSequence:
      // The network may double the answer; the packets that it asks for are on their way then.
      if (now - went_back_ < options_.reorder_wait && went_back_ != 0) return;
      went_back_ = now;
      return requests_.go_back_to(psn);
    case Refusal::kInvalidRequest:
      return fail(Failure::kInvalidRequest);
    case Refusal::kAccess:
      return fail(Failure::kAccess);
    default:
      return fail(Failure::kOperation);
  }
}

void Requester::on_not_ready(Psn psn, std::uint8_t timer, Nanos now) {
  if (psn.after(acknowledged_end_) < 0) {
    ++counters_.ignored;
    return;
  }
  acknowledge_before(psn, now);
  if (++not_ready_in_a_row_ >= options_.tries) return fail(Failure::kNotReady);
  wait_until_ = now + wait_of(timer);
  clock_.start(wait_until_);
  requests_.go_back_to(psn);
}

void Requester::take_credits(const Aeth& aeth) {
  if (answer_of(aeth.syndrome) != Answer::kAcknowledged) return;
  const std::uint8_t code = detail_of(aeth.syndrome);
  if (code == kAnyCredits) {
    message_limit_ = UINT64_MAX;
    return;
  }
  const std::uint64_t open = (requests_.messages() - aeth.messages) & kMessageMask;
  message_limit_ =
      requests_.messages() - std::min<std::uint64_t>(open, requests_.messages()) + kCredits[code];
}

void Requester::acknowledge_before(Psn psn, Nanos now) {
  if (psn.after(acknowledged_end_) <= 0) return;
  counters_.got_through += static_cast<std::uint64_t>(psn.after(acknowledged_end_));
  acknowledged_end_ = psn;
  on_progress(psn, now);
  for (std::size_t i = 0; i < requests_.numbered(); ++i) {
    Request& request = requests_[i];
    if (request.end().after(psn) > 0) return;
    if (!request.is_read() && !request.done) finish(request);
  }
}

void Requester::on_progress(Psn end, Nanos now) {
  clock_.answered(end, now);
  not_ready_in_a_row_ = 0;
}

// -- repairs -------------------------------------------------------------------------------------

// A READ is overtaken when something later has arrived than the first that is missing of it. In
// networks with one path that means loss; with several paths, wait a little.
void Requester::look_for_overtaken(Nanos now) {
  for (std::size_t i = 0; i < requests_.numbered(); ++i) {
    Request& request = requests_[i];
    if (!request.is_read() || request.done || !request.sent) continue;
    if (seen_end_.after(request.first_missing()) <= 0) return;  // nor are later ones
    if (request.overtaken_since == 0) request.overtaken_since = now;
    if (now - request.overtaken_since < options_.reorder_wait) continue;
    request.overtaken_since = 0;
    repair(i);
  }
}

void Requester::repair(std::size_t index) {
  Request& lost = requests_[index];
  if (!lost.is_touched()) {
    if (!std::exchange(lost.again, true)) ++agains_;
    return;
  }
  // Each run of missing packets becomes a READ, or all from the first to the last one if there is
  // no room for many.
  const bool one_only = requests_.size() >= 2 * kMostRequests;
  const Request old = lost;
  for (std::uint64_t left = old.missing; left != 0;) {
    const auto begin = static_cast<std::uint32_t>(std::countr_zero(left));
    const auto run = static_cast<std::uint32_t>(
        one_only ? std::bit_width(left) - static_cast<int>(begin) : std::countr_one(left >> begin));
    Request fresh;
    fresh.kind = WorkKind::kRead;
    fresh.serial = old.serial;
    fresh.offset = old.offset + std::uint64_t{begin} * options_.mtu;
    fresh.bytes =
        std::min(std::uint64_t{run} * options_.mtu, old.offset + old.bytes - fresh.offset);
    fresh.packets = run;
    fresh.wanted = fresh.missing = (left >> begin) & fresh.all_packets();
    left &= ~(fresh.all_packets() << begin);
    fresh.is_long = old.is_long;
    if (fresh.is_long) ++long_reads_outstanding_;
    requests_.push_next(fresh);
    ++posted(old).open;
    ++counters_.reads_repaired;
  }
  finish(requests_[index]);
}

// The answer to the last packet tells what is missing of all before it, too.
void Requester::probe() {
  const std::size_t last = requests_.last_open();
  if (last == requests_.numbered()) return;
  if (requests_[last].is_read()) return repair(last);
  probes_ = true;
}

void Requester::on_timeout() {
  ++counters_.timeouts;
  if (clock_.timeouts() > options_.tries) return fail(Failure::kNoAnswer);
  for (std::size_t i = 0, count = requests_.numbered(); i < count; ++i) {
    const Request& request = requests_[i];
    if (request.is_read() && request.sent && !request.done && request.is_touched()) repair(i);
  }
  requests_.go_back_to_first();
}

void Requester::tick(Nanos now) {
  if (failure_ != Failure::kNone) return;
  look_for_overtaken(now);
  drop_done();
  if (!is_outstanding()) return;
  const AnswerClock::Due due = clock_.due(now);
  if (due == AnswerClock::Due::kProbe) probe();
  if (due == AnswerClock::Due::kTimeout) on_timeout();
  drop_done();
}

Nanos Requester::timer() const {
  if (failure_ != Failure::kNone) return kNever;
  Nanos first = is_outstanding() ? clock_.timer() : kNever;
  if (wait_until_ != 0) first = std::min(first, wait_until_);
  for (std::size_t i = 0; i < requests_.numbered(); ++i) {
    const Nanos since = requests_[i].overtaken_since;
    if (since != 0 && !requests_[i].done) first = std::min(first, since + options_.reorder_wait);
  }
  return first;
}

// -- ends ----------------------------------------------------------------------------------------

void Requester::finish(Request& request) {
  request.done = true;
  if (std::exchange(request.again, false)) --agains_;
  if (request.is_long) --long_reads_outstanding_;
  Posted& its = posted(request);
  if (--its.open == 0) dones_.push_back({its.work.id, true});
}

void Requester::drop_done() {
  requests_.drop_done();
  while (!works_.empty() && works_.front().open == 0) {
    works_.pop_front();
    ++first_serial_;
  }
}

bool Requester::next_done(Done& done) {
  if (dones_.empty()) return false;
  done = dones_.front();
  dones_.pop_front();
  return true;
}

void Requester::fail(Failure failure) {
  failure_ = failure;
  for (std::size_t i = 0; i < works_.size(); ++i) {
    const Posted& its = works_[i];
    if (its.open > 0) dones_.push_back({its.work.id, false});
  }
  works_.clear();
  requests_.clear();
  long_reads_.clear();
  long_reads_outstanding_ = 0;
  agains_ = 0;
}

}  // namespace tally::transport::roce
