#include "control/probe/stream.h"

#include <endian.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <thread>

#include "net/rpc/rpc_channel.h"

namespace tally::control::probe {
namespace {

constexpr std::size_t kChunk = 256 << 10;
constexpr int kUnsent = 128 << 10;             // of a stream; see limit_queue()
constexpr Nanos kArrival = 10 * kSecond;       // for all streams to arrive
constexpr Nanos kHello = 2 * kSecond;          // for an arrived stream to send its key
constexpr Nanos kTail = 300 * kMillisecond;    // beyond the span, while other streams end theirs
constexpr Nanos kLastWords = 5 * kSecond;      // for the receiver's figures
constexpr Nanos kStill = 5 * kSecond;          // without a byte: the stream is broken
constexpr Nanos kGlance = 100 * kMillisecond;  // interval of reads of `stop`
constexpr Nanos kMoment = 10 * kMillisecond;
constexpr std::size_t kStrangers = 16;  // without a key, which may hold a connection
constexpr std::string_view kHelloWord = "tallyprb";
constexpr std::string_view kGoWord = "tallygo!";

Error broken(std::string what) {
  return {Status::kUnavailable, std::move(what)};
}

// True when the descriptor is ready for `events` before the deadline and before `stop`.
bool wait_for(int fd, short events, Nanos deadline, const std::atomic<bool>& stop) {
  while (!stop) {
    const Nanos left = std::min(deadline - monotonic_now(), kGlance);
    if (left <= 0) return false;
    pollfd entry{fd, events, 0};
    if (::poll(&entry, 1, static_cast<int>(left / kMillisecond) + 1) > 0) return true;
  }
  return false;
}

// Moves all bytes. False when the deadline, `stop` or an error comes first.
template <typename Byte, typename Move>
bool move_all(int fd, short events, std::span<Byte> bytes, Nanos deadline,
              const std::atomic<bool>& stop, Move move) {
  while (!bytes.empty()) {
    if (!wait_for(fd, events, deadline, stop)) return false;
    const ssize_t count = move(fd, bytes.data(), bytes.size());
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

bool send_all(int fd, std::string_view text, Nanos deadline, const std::atomic<bool>& stop) {
  return move_all(fd, POLLOUT, std::span(text.data(), text.size()), deadline, stop,
                  [](int socket, const char* data, std::size_t size) {
                    return ::send(socket, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
                  });
}

bool receive_all(int fd, std::span<char> text, Nanos deadline, const std::atomic<bool>& stop) {
  return move_all(fd, POLLIN, text, deadline, stop, [](int socket, char* data, std::size_t size) {
    return ::recv(socket, data, size, MSG_DONTWAIT);
  });
}

// Makes all streams begin together, or none.
class StartingLine {
 public:
  explicit StartingLine(std::size_t expected) : missing_(expected) {}

  // Waits for the other streams. Returns the time of the start. None when not all arrived, or when
  // this one is one too many.
  std::optional<Nanos> arrive(Nanos deadline, const std::atomic<bool>& stop) {
    std::unique_lock lock(mutex_);
    if (missing_ == 0) return std::nullopt;
    if (--missing_ == 0) {
      off_ = monotonic_now();
      changed_.notify_all();
    }
    while (!off_ && !given_up_ && !stop && monotonic_now() < deadline) {
      changed_.wait_for(lock, std::chrono::nanoseconds(kGlance));
    }
    return off_;
  }
  // One stream will not arrive.
  void give_up() {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    changed_.notify_all();
  }
  bool is_complete() {
    const std::lock_guard lock(mutex_);
    return missing_ == 0;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t missing_;
  bool given_up_ = false;
  std::optional<Nanos> off_;
};

// Counts the bytes from off + warm_up on, and discards the others.
Result<Carried> receive_stream(int fd, Nanos off, const Pace& pace, const std::atomic<bool>& stop) {
  std::vector<char> buffer(kChunk);
  const Nanos from = off + pace.warm_up, to = from + pace.measure;
  Carried carried;
  Nanos last = 0;  // time of the last bytes within the span
  for (;;) {
    const ssize_t count = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count == 0) break;
    if (count < 0) {
      if (errno != EAGAIN && errno != EINTR) return broken(std::strerror(errno));
      if (!wait_for(fd, POLLIN, monotonic_now() + kStill, stop)) return broken("it stood still");
      continue;
    }
    const Nanos now = monotonic_now();
    if (stop || now >= to + kTail + kStill) return broken("it sent on after its time");
    if (now < from || now >= to) continue;
    carried.bytes += static_cast<std::uint64_t>(count);
    last = now;
  }
  // A stream that ends early, at its most bytes, counts until its end.
  carried.time = monotonic_now() >= to ? pace.measure : last - from;
  if (carried.bytes == 0 || carried.time <= 0)
    return broken("nothing came in the span that counts");
  return carried;
}

using Figures = std::array<std::uint64_t, 2>;

bool send_figures(int fd, const Carried& carried, const std::atomic<bool>& stop) {
  const Figures figures = {htole64(carried.bytes),
                           htole64(static_cast<std::uint64_t>(carried.time))};
  const std::string_view text(reinterpret_cast<const char*>(figures.data()), sizeof figures);
  return send_all(fd, text, monotonic_now() + kLastWords, stop);
}

// The other end may send anything, so the figures are checked.
Result<Carried> receive_figures(int fd, const Pace& pace, std::uint64_t sent,
                                const std::atomic<bool>& stop) {
  Figures figures{};
  const std::span<char> text(reinterpret_cast<char*>(figures.data()), sizeof figures);
  if (!receive_all(fd, text, monotonic_now() + kLastWords, stop)) {
    return broken("the receiver did not say what came");
  }
  const std::uint64_t bytes = le64toh(figures[0]), time = le64toh(figures[1]);
  if (bytes == 0 || bytes > sent || time == 0 || time > static_cast<std::uint64_t>(pace.measure)) {
    return broken("the receiver gave figures that cannot be");
  }
  return Carried{bytes, static_cast<Nanos>(time)};
}

std::string make_key() {
  std::random_device random;
  std::string key;
  while (key.size() < kKeyBytes) key += fmt::format("{:08x}", random());
  return key;
}

// Sends until the time or the most bytes are reached. Returns the bytes sent.
Result<std::uint64_t> stream(int fd, Nanos until, std::uint64_t max_bytes,
                             const std::atomic<bool>& stop) {
  const std::vector<char> buffer(kChunk);
  std::uint64_t sent = 0;
  while (monotonic_now() < until && sent < max_bytes && !stop) {
    const std::size_t most = std::min<std::uint64_t>(kChunk, max_bytes - sent);
    const ssize_t count = ::send(fd, buffer.data(), most, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += static_cast<std::uint64_t>(count);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return broken(std::strerror(errno));
    if (!wait_for(fd, POLLOUT, monotonic_now() + kStill, stop)) return broken("it stood still");
  }
  return sent;
}

// Bytes that wait in the socket at the end of the time are on their way longer than the receiver
// listens, where many streams share a slow link. The kernel would let megabytes wait.
void limit_queue(int fd) {
  ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsent, sizeof kUnsent);
}

Result<Carried> send_one(const Target& target, const Pace& pace, StartingLine& line,
                         const std::atomic<bool>& stop) {
  const Nanos deadline = monotonic_now() + kArrival;
  const auto socket = net::connect_tcp(target.where, 0);
  if (!socket) return socket.error();
  const int fd = socket->get();
  limit_queue(fd);
  std::array<char, kGoWord.size()> word{};
  const bool let_go = send_all(fd, std::string(kHelloWord) + target.key, deadline, stop) &&
                      receive_all(fd, word, deadline, stop) &&
                      std::string_view(word.data(), word.size()) == kGoWord;
  if (!let_go) return broken("it was not let begin: not all streams came, or it is no receiver");
  const auto off = line.arrive(deadline, stop);
  if (!off) return broken("the streams to others did not begin");
  const auto sent = stream(fd, *off + pace.warm_up + pace.measure + kTail, pace.max_bytes, stop);
  if (!sent) return sent.error();
  ::shutdown(fd, SHUT_WR);
  return receive_figures(fd, pace, *sent, stop);
}

}  // namespace

Result<Receiver> Receiver::listen(const std::string& host, std::size_t streams) {
  auto listener = net::listen_tcp({host, 0});
  if (!listener) return listener.error();
  Receiver receiver;
  receiver.listener_ = std::move(listener).value();
  receiver.key_ = make_key();
  receiver.streams_ = streams;
  return receiver;
}

std::uint16_t Receiver::port() const {
  return net::local_port(listener_.get());
}

Result<std::vector<Carried>> Receiver::run(const Pace& pace, const std::atomic<bool>& stop) const {
  const Nanos deadline = monotonic_now() + kArrival;
  StartingLine line(streams_);
  std::mutex mutex;  // guards `carried` and `failure`
  std::vector<Carried> carried;
  std::optional<Error> failure;
  const auto serve = [&](const UniqueFd& socket) {
    const int fd = socket.get();
    std::array<char, kHelloWord.size() + kKeyBytes> hello{};
    const Nanos timeout = std::min(deadline, monotonic_now() + kHello);
    if (!receive_all(fd, hello, timeout, stop)) return;
    if (std::string_view(hello.data(), hello.size()) != std::string(kHelloWord) + key_) return;
    const auto off = line.arrive(deadline, stop);
    if (!off || !send_all(fd, kGoWord, deadline, stop)) return;
    auto one = receive_stream(fd, *off, pace, stop);
    if (one) send_figures(fd, *one, stop);
    const std::lock_guard lock(mutex);
    if (one) carried.push_back(*one);
    if (!one && !failure) failure = one.error();
  };
  {
    std::vector<std::jthread> threads;
    while (!line.is_complete() && !stop && monotonic_now() < deadline) {
      // Waits a moment at a time, because the last stream's key may be on its way.
      const Nanos moment = monotonic_now() + kMoment;
      if (!wait_for(listener_.get(), POLLIN, moment, stop)) continue;
      auto socket = net::accept_tcp(listener_.get());
      if (!socket || threads.size() >= streams_ + kStrangers) continue;
      threads.emplace_back([&serve, mine = std::move(*socket)] { serve(mine); });
    }
  }
  if (failure) return *failure;
  if (carried.size() == streams_) return carried;
  return broken(fmt::format("{} of {} streams came within {} s", carried.size(), streams_,
                            kArrival / kSecond));
}

std::vector<Result<Carried>> send_streams(const std::vector<Target>& targets, const Pace& pace,
                                          const std::atomic<bool>& stop) {
  std::vector<Result<Carried>> results(targets.size(), broken("not tried"));
  StartingLine line(targets.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    threads.emplace_back([&, i] {
      results[i] = send_one(targets[i], pace, line, stop);
      if (!results[i]) line.give_up();
    });
  }
  threads.clear();  // the threads end first, because they write the results
  return results;
}

}  // namespace tally::control::probe
