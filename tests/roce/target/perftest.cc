// The programs of perftest (version 4.5), in one direction: the client sends, writes or reads, and
// the server answers. Sources: src/perftest_communication.c, send_bw.c, write_bw.c, read_bw.c.
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <ctime>
#include <string>

#include "tests/roce/target/run.h"

namespace tally::transport::roce::target {
namespace {

constexpr std::string_view kVersion{"6.06\0\0\0\0\0\0\0\0\0\0\0", 16};
constexpr std::uint32_t kCycle = 4096;
constexpr std::uint32_t kCacheLine = 64;
constexpr std::uint64_t kMostSize = 1ULL << 30;
// How far the clocks of both ends may differ.
constexpr std::time_t kSkew = 3;

template <typename T>
std::string big_endian(T value) {
  std::string text;
  for (int shift = 8 * sizeof(T) - 8; shift >= 0; shift -= 8) {
    text.push_back(static_cast<char>(value >> shift));
  }
  return text;
}

std::uint64_t number_of(std::string_view text) {
  std::uint64_t value = 0;
  for (const char byte : text) value = value << 8 | static_cast<std::uint8_t>(byte);
  return value;
}

class Perftest {
 public:
  Perftest(Target& target, Channel& channel, std::uint64_t size)
      : target_(target),
        channel_(channel),
        layout_{.size = size, .count = target.options().iterations} {}

  Result<Summary> run() {
    if (auto done = agree(); !done) return done.error();
    if (auto done = connect(); !done) return done.error();
    if (auto done = is_client() ? act() : serve(); !done) return done.error();
    if (target_.options().checks) check_contents();
    return Summary{layout_.size, messages(), mtu_, checked_};
  }

 private:
  bool is_client() const { return target_.options().is_client(); }
  bool is(Tool tool) const { return target_.options().tool == tool; }
  std::vector<std::unique_ptr<QueuePair>>& pairs() { return target_.pairs(); }

  // The client writes first.
  Result<std::string> exchange(std::string_view own);
  Outcome agree();
  Outcome shake(QueuePair& pair);
  Outcome shake_all();
  Outcome connect();
  Outcome act();
  Outcome post_all();
  Outcome serve();
  Outcome take_report();
  void count_message(std::size_t index, std::span<const std::byte> message);
  void check_contents();
  std::uint64_t messages() const;

  Target& target_;
  Channel& channel_;
  Layout layout_;
  std::uint32_t mtu_ = 0;
  std::time_t began_ = 0;  // the other end has filled its buffers between these times
  std::time_t filled_ = 0;
  // Of a server of SENDs: how many of this size each pair has received.
  std::vector<std::uint64_t> arrived_;
  bool is_new_run_ = true;
  std::optional<Error> error_;
  Checked checked_;
};

Result<std::string> Perftest::exchange(std::string_view own) {
  if (!is_client()) {
    auto other = channel_.read(own.size());
    if (!other) return other;
    if (auto done = channel_.write(own); !done) return done.error();
    return other;
  }
  if (auto done = channel_.write(own); !done) return done.error();
  return channel_.read(own.size());
}

// Versions, the layout of short messages, and the MTU.
Outcome Perftest::agree() {
  began_ = std::time(nullptr);
  const auto version = exchange(kVersion);
  if (!version) return version.error();
  if (!version->starts_with("6.") && !version->starts_with("5.")) {
    return Error{Status::kProtocol, "the other end is no program of perftest 4.5"};
  }
  const auto cycle = exchange(big_endian(kCycle));
  if (!cycle) return cycle.error();
  const auto line = exchange(big_endian(kCacheLine));
  if (!line) return line.error();
  layout_.cycle = std::max<std::size_t>(kCycle, number_of(*cycle));
  layout_.cache_line = std::max<std::size_t>(kCacheLine, number_of(*line));
  const std::string code = std::to_string(mtu_code(target_.mtu())) + '\0';
  const auto mtu = exchange(code);
  if (!mtu) return mtu.error();
  const char other = mtu->front();
  if (other < '1' || other > '5' || layout_.cycle % layout_.cache_line != 0) {
    return Error{Status::kProtocol, "the other end has no valid MTU or layout"};
  }
  mtu_ = std::min(target_.mtu(), 256U << (other - '1'));
  return Unit{};
}

// Both ends send the address of a queue pair, also when the other end knows it already: so each
// waits for the other.
Outcome Perftest::shake(QueuePair& pair) {
  const auto text = exchange(perftest_text(pair.own()));
  if (!text) return text.error();
  const auto peer = parse_perftest(*text);
  if (!peer) return Error{Status::kProtocol, "the other end sent no address of perftest"};
  if (filled_ == 0) filled_ = std::time(nullptr);
  if (pair.peer().number == 0) pair.connect(*peer, mtu_, target_.options().window);
  return Unit{};
}

Outcome Perftest::shake_all() {
  for (const auto& pair : pairs()) {
    if (auto done = shake(*pair); !done) return done;
  }
  return Unit{};
}

Outcome Perftest::connect() {
  if (auto done = shake_all(); !done) return done;
  if (is(Tool::kSend)) {
    if (auto done = shake(*pairs().front()); !done) return done;
    return shake_all();
  }
  if (auto done = shake_all(); !done) return done;
  return shake(*pairs().front());
}

// -- the client ----------------------------------------------------------------------------------

Outcome Perftest::act() {
  const bool sends = is(Tool::kSend);
  QueuePair& first = *pairs().front();
  if (sends) {
    if (auto done = shake(first); !done) return done;
  }
  if (auto done = post_all(); !done) return done;
  if (!sends) {
    if (auto done = shake(first); !done) return done;
    if (auto done = take_report(); !done) return done;
  }
  if (auto done = shake(first); !done) return done;
  return channel_.write(kEnd);
}

Outcome Perftest::post_all() {
  const std::uint64_t iterations = target_.options().iterations;
  const WorkKind kind = is(Tool::kSend)    ? WorkKind::kSend
                        : is(Tool::kWrite) ? WorkKind::kWrite
                                           : WorkKind::kRead;
  return run_until(target_, name_of(target_.options().tool), [&] {
    bool is_done = true;
    for (const auto& pair : pairs()) {
      for (;;) {
        const std::size_t at = layout_.offset(pair->posted());
        std::byte* const local = pair->part().data() + at;
        const Work work{.kind = kind,
                        .id = pair->posted(),
                        .source = local,
                        .bytes = layout_.size,
                        .address = pair->peer().address + at,
                        .key = pair->peer().key};
        if (pair->posted() == iterations || !pair->has_room(work)) break;
        pair->post(work, kind == WorkKind::kRead ? local : nullptr);
      }
      is_done = is_done && pair->done() == iterations;
    }
    return is_done;
  });
}

// -- the server ----------------------------------------------------------------------------------

Outcome Perftest::serve() {
  QueuePair& first = *pairs().front();
  arrived_.assign(pairs().size(), 0);
  for (std::size_t i = 0; i < pairs().size(); ++i) {
    pairs()[i]->on_message(
        [this, i](std::span<const std::byte> message) { count_message(i, message); });
  }
  if (!is(Tool::kSend)) {
    if (auto done = shake(first); !done) return done;
    if (auto done = take_report(); !done) return done;
  }
  // A client that sends waits for its server before and after each size.
  for (;;) {
    const auto next = channel_.peek(kEnd.size());
    if (error_) return *error_;
    if (!next) return next.error();
    if (*next == kEnd) return channel_.write(kEnd);
    if (auto done = shake(first); !done) return done;
    is_new_run_ = true;
  }
}

// The client's size and number of messages, and its bandwidth.
Outcome Perftest::take_report() {
  const auto size = exchange(big_endian(static_cast<std::uint64_t>(layout_.size)));
  if (!size) return size.error();
  const auto count = exchange(big_endian(static_cast<std::uint64_t>(layout_.count)));
  if (!count) return count.error();
  for (int number = 0; number < 3; ++number) {
    if (const auto rate = exchange(big_endian(std::uint64_t{0})); !rate) return rate.error();
  }
  if (is_client()) return Unit{};
  layout_.size = number_of(*size);
  layout_.count = number_of(*count);
  const bool is_valid = layout_.size > 0 && layout_.size <= kMostSize;
  return is_valid ? Outcome(Unit{}) : Error{Status::kProtocol, "the report has no valid size"};
}

// Keeps messages where a WRITE would put them.
void Perftest::count_message(std::size_t index, std::span<const std::byte> message) {
  if (is_new_run_) {
    is_new_run_ = false;
    layout_.size = message.size();
    arrived_.assign(arrived_.size(), 0);
  }
  const std::span<std::byte> part = pairs()[index]->part();
  const std::size_t at = layout_.offset(arrived_[index]++);
  if (message.size() != layout_.size || at + message.size() > part.size()) {
    error_ = Error{Status::kProtocol,
                   fmt::format("a message has {} bytes: those before had {}, and --memory has {} "
                               "for a queue pair",
                               message.size(), layout_.size, part.size())};
    return;
  }
  std::memcpy(part.data() + at, message.data(), message.size());
}

// -- contents ------------------------------------------------------------------------------------

// Bytes arrive here when this end reads, or serves another that sends or writes.
void Perftest::check_contents() {
  if (is_client() != is(Tool::kRead)) return;
  for (std::size_t i = 0; i < pairs().size(); ++i) {
    Layout layout = layout_;
    if (is(Tool::kSend)) layout.count = arrived_[i];
    const std::size_t buffer = is(Tool::kRead) ? pairs().size() + i : i;
    const Checked one = check(pairs()[i]->part(), layout, buffer * layout.buffer_bytes(),
                              began_ - kSkew, filled_ + kSkew);
    checked_.bytes += one.bytes;
    checked_.wrong += one.wrong;
  }
}

std::uint64_t Perftest::messages() const {
  std::uint64_t count = 0;
  for (const auto& pair : target_.pairs()) {
    count += is_client() ? pair->done() : pair->counters().messages;
  }
  return count;
}

}  // namespace

Result<Summary> run_perftest(Target& target, Channel& channel, std::uint64_t size) {
  return Perftest(target, channel, size).run();
}

}  // namespace tally::transport::roce::target
