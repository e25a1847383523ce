// Streams over loopback: what is counted, and who is not let in.
#include "control/probe/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

namespace tally::control::probe {
namespace {

using ::testing::HasSubstr;

// Bounded by bytes, which take milliseconds: nothing here is about speed.
constexpr Pace kPace = {.warm_up = 0, .measure = 5 * kSecond, .max_bytes = 8 << 20};

struct Receiving {
  explicit Receiving(std::size_t streams, const Pace& pace = kPace)
      : receiver(Receiver::listen("127.0.0.1", streams).value()) {
    thread = std::jthread([this, pace] { result = receiver.run(pace, stop); });
  }
  Target target() const { return {{"127.0.0.1", receiver.port()}, receiver.key()}; }

  std::atomic<bool> stop{false};
  Receiver receiver;
  Result<std::vector<Carried>> result = std::vector<Carried>();
  std::jthread thread;
};

TEST(ProbeStream, BothEndsReportTheSameBytes) {
  Receiving there(3);
  const std::atomic<bool> stop{false};
  const auto sent = send_streams({there.target(), there.target(), there.target()}, kPace, stop);
  there.thread.join();
  ASSERT_TRUE(there.result.ok()) << there.result.error().message;
  ASSERT_EQ(there.result->size(), 3U);
  std::uint64_t counted = 0, reported = 0;
  for (const Carried& one : *there.result) counted += one.bytes;
  for (const auto& one : sent) {
    ASSERT_TRUE(one.ok()) << one.error().message;
    reported += one->bytes;
    EXPECT_GT(one->per_second(), 0);
    EXPECT_LE(one->time, kPace.measure);
    EXPECT_LE(one->bytes, kPace.max_bytes);
  }
  EXPECT_EQ(counted, reported);
}

TEST(ProbeStream, OneSenderStreamsToSeveralReceivers) {
  Receiving a(1), b(1);
  const std::atomic<bool> stop{false};
  for (const auto& one : send_streams({a.target(), b.target()}, kPace, stop)) {
    EXPECT_TRUE(one.ok()) << one.error().message;
  }
}

TEST(ProbeStream, RefusesASenderWithoutTheKey) {
  Receiving there(1);
  const std::atomic<bool> stop{false};
  Target stranger = there.target();
  stranger.key = std::string(kKeyBytes, '0');
  const auto refused = send_streams({stranger}, kPace, stop);
  ASSERT_FALSE(refused[0].ok());
  EXPECT_THAT(refused[0].error().message, HasSubstr("was not let begin"));
  // Nor does it take anybody's place.
  const auto sent = send_streams({there.target()}, kPace, stop);
  EXPECT_TRUE(sent[0].ok()) << sent[0].error().message;
}

// Whatever else listens at an address is not flooded.
TEST(ProbeStream, SendsOnlyItsHelloToAnotherService) {
  const auto listener = net::listen_tcp({"127.0.0.1", 0}).value();
  std::atomic<bool> stop{false};
  Result<Carried> result = Error{};
  std::jthread sender([&] {
    result = send_streams(
        {{{"127.0.0.1", net::local_port(listener.get())}, std::string(kKeyBytes, '0')}}, kPace,
        stop)[0];
  });
  std::optional<UniqueFd> peer;
  while (!peer) peer = net::accept_tcp(listener.get());
  ASSERT_EQ(::send(peer->get(), "HTTP/1.1", 8, MSG_NOSIGNAL), 8);
  std::size_t received = 0;
  char buffer[256];
  for (ssize_t count = 0; (count = ::recv(peer->get(), buffer, sizeof buffer, 0)) > 0;) {
    received += static_cast<std::size_t>(count);
  }
  EXPECT_EQ(received, 8 + kKeyBytes) << "its hello";
  sender.join();
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("no receiver"));
}

// A receiver that reads nothing while the stream lasts, as at the end of a slow link.
TEST(ProbeStream, LeavesFewBytesBehindAtItsEnd) {
  const auto listener = net::listen_tcp({"127.0.0.1", 0}).value();
  const std::atomic<bool> stop{false};
  std::jthread sender([&] {
    const Target target = {{"127.0.0.1", net::local_port(listener.get())},
                           std::string(kKeyBytes, '0')};
    EXPECT_FALSE(send_streams({target}, {.warm_up = 0, .measure = kMillisecond}, stop)[0].ok());
  });
  std::optional<UniqueFd> peer;
  while (!peer) peer = net::accept_tcp(listener.get());
  ASSERT_EQ(::send(peer->get(), "tallygo!", 8, MSG_NOSIGNAL), 8);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  std::size_t left = 0;
  std::vector<char> buffer(1 << 20);
  for (ssize_t count = 0; (count = ::recv(peer->get(), buffer.data(), buffer.size(), 0)) > 0;) {
    left += static_cast<std::size_t>(count);
  }
  EXPECT_LT(left, 1U << 20);
  peer.reset();
}

// However long somebody goes on: a receiver takes part in one probe at a time.
TEST(ProbeStream, ClosesAStreamThatSendsLongerThanTheProbe) {
  Receiving there(1, {.warm_up = 0, .measure = kMillisecond});
  const std::atomic<bool> stop{false};
  const Nanos began = monotonic_now();
  const auto sent = send_streams({there.target()}, {.warm_up = 0, .measure = 60 * kSecond}, stop);
  EXPECT_FALSE(sent[0].ok());
  EXPECT_LT(monotonic_now() - began, 50 * kSecond);
  there.thread.join();
  ASSERT_FALSE(there.result.ok());
  EXPECT_THAT(there.result.error().message, HasSubstr("sent on after its time"));
}

TEST(ProbeStream, ReportsAReceiverThatCannotBeReached) {
  std::uint16_t port = 0;
  {
    const auto listener = net::listen_tcp({"127.0.0.1", 0}).value();
    port = net::local_port(listener.get());
  }
  Receiving there(1);  // waits for one that does not begin without the other
  const std::atomic<bool> stop{false};
  const auto sent = send_streams(
      {{{"127.0.0.1", port}, std::string(kKeyBytes, '0')}, there.target()}, kPace, stop);
  ASSERT_FALSE(sent[0].ok());
  EXPECT_THAT(sent[0].error().message, HasSubstr("cannot connect to 127.0.0.1"));
  ASSERT_FALSE(sent[1].ok());
  EXPECT_THAT(sent[1].error().message, HasSubstr("others did not begin"));
}

TEST(ProbeStream, EndsWhenStopIsSet) {
  Receiving there(2);
  std::atomic<bool> stop{false};
  std::jthread sender([&] { EXPECT_FALSE(send_streams({there.target()}, kPace, stop)[0].ok()); });
  stop = true;
  there.stop = true;
  sender.join();
  there.thread.join();
  ASSERT_FALSE(there.result.ok());
  EXPECT_THAT(there.result.error().message, HasSubstr("of 2 streams came"));
}

}  // namespace
}  // namespace tally::control::probe
