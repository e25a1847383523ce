// ibv_rc_pingpong: both ends send messages in turns. The program sends back what it has received,
// so this end checks all bytes of all messages but those that the program sends first.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "tests/roce/target/run.h"

namespace tally::transport::roce::target {
namespace {

constexpr std::size_t kProgramPage = 4096;
constexpr std::byte kFirstByte{0x7b};  // of the messages that the program sends first

// The program's -c expects zeros at the begins of pages.
void fill(std::span<std::byte> message, std::uint64_t number) {
  for (std::size_t i = 0; i < message.size(); ++i) {
    message[i] =
        i % kProgramPage == 0 ? std::byte{} : static_cast<std::byte>(i * 7 + i / 256 + number);
  }
}

std::uint64_t wrong_bytes(std::span<const std::byte> message, std::span<const std::byte> expected) {
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < message.size(); ++i) wrong += message[i] == expected[i] ? 0 : 1;
  return wrong;
}

std::uint64_t wrong_first_bytes(std::span<const std::byte> message) {
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < message.size(); ++i) {
    const bool may_be_zero = i % kProgramPage == 0;  // with -c
    const bool is_right = message[i] == kFirstByte || (may_be_zero && message[i] == std::byte{});
    wrong += is_right ? 0 : 1;
  }
  return wrong;
}

Outcome exchange(Target& target, Channel& channel) {
  QueuePair& pair = *target.pairs().front();
  const auto connect = [&]() -> Outcome {
    const auto text = channel.read(kPingpongBytes);
    if (!text) return text.error();
    const auto peer = parse_pingpong(*text);
    if (!peer) return Error{Status::kProtocol, "the other end sent no address of ibv_rc_pingpong"};
    pair.connect(*peer, target.mtu(), target.options().window);
    return Unit{};
  };
  if (target.options().is_client()) {
    if (auto done = channel.write(pingpong_text(pair.own())); !done) return done;
    if (auto done = connect(); !done) return done;
    return channel.write(kEnd);
  }
  if (auto done = connect(); !done) return done;
  if (auto done = channel.write(pingpong_text(pair.own())); !done) return done;
  const auto end = channel.read(kEnd.size());
  return end ? Outcome(Unit{}) : end.error();
}

// The turns of this end. It takes messages from its construction on, which must come before the
// exchange: the program may send its first message before this end has read the last word of it.
class Turns {
 public:
  Turns(QueuePair& pair, const Options& options, std::uint64_t size)
      : pair_(pair), iterations_(options.iterations), checks_(options.checks) {
    if (options.is_client()) message_ = pair.part().first(size);
    pair.on_message([this](std::span<const std::byte> message) { take(message); });
  }
  ~Turns() { pair_.on_message(nullptr); }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // The client has the first turn.
  void begin(bool is_client) {
    if (is_client) send();
  }

  // Answers a message once the last one of this end is acknowledged, because each of them is sent
  // from the same memory.
  bool step() {
    if (received_ > answered_ && pair_.done() == sent_ && !error_) {
      ++answered_;
      if (sent_ < iterations_) send();
    }
    return error_ || (received_ >= iterations_ && sent_ >= iterations_ && pair_.done() == sent_);
  }
  const std::optional<Error>& error() const { return error_; }
  std::size_t size() const { return message_.size(); }
  std::uint64_t received() const { return received_; }
  Checked checked() const { return checked_; }

 private:
  void take(std::span<const std::byte> message) {
    ++received_;
    if (message_.empty()) {
      if (message.size() > pair_.part().size()) {
        error_ = invalid("the other end's messages are longer than --memory");
        return;
      }
      message_ = pair_.part().first(message.size());
    }
    if (message.size() != message_.size()) {
      error_ = Error{Status::kProtocol, "a message has another size than those before"};
      return;
    }
    if (!checks_) return;
    checked_.bytes += message.size();
    checked_.wrong += sent_ == 0 ? wrong_first_bytes(message) : wrong_bytes(message, message_);
  }

  void send() {
    ++sent_;
    fill(message_, sent_);
    pair_.post({.kind = WorkKind::kSend,
                .id = sent_,
                .source = message_.data(),
                .bytes = message_.size()});
  }

  QueuePair& pair_;
  std::uint64_t iterations_;
  bool checks_;
  std::span<std::byte> message_;  // that this end has sent last
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t answered_ = 0;
  Checked checked_;
  std::optional<Error> error_;
};

}  // namespace

Result<Summary> run_pingpong(Target& target, Channel& channel, std::uint64_t size) {
  QueuePair& pair = *target.pairs().front();
  Turns turns(pair, target.options(), size);
  if (auto done = exchange(target, channel); !done) return done.error();
  turns.begin(target.options().is_client());
  const auto done = run_until(target, "messages in turns", [&] { return turns.step(); });
  if (!done) return done.error();
  if (turns.error()) return *turns.error();
  return Summary{turns.size(), turns.received(), target.mtu(), turns.checked()};
}

}  // namespace tally::transport::roce::target
