// In which order waiting operations and completions go to a network that takes only some.
#include "dataplane/transport/onesided/outgoing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tally::transport::onesided {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Records what it takes. `room` limits how much more it takes.
class RecordingNetwork final : public Network {
 public:
  bool start(Session&, Operation& operation) override {
    if (!takes_operations || room == 0) return false;
    --room;
    taken.push_back(operation.kind == Context::Kind::kPull ? "read" : "write");
    return true;
  }
  bool send(Session&, const RingEntry&) override {
    if (room == 0) return false;
    --room;
    taken.push_back("completion");
    return true;
  }
  void flush(Session&) override { taken.push_back("flush"); }

  std::size_t room = SIZE_MAX;
  bool takes_operations = true;
  std::vector<std::string> taken;
};

class OutgoingTest : public ::testing::Test {
 protected:
  static constexpr Peer kOne = 1;
  static constexpr Peer kTwo = 2;

  OutgoingTest() {
    for (const Peer peer : {kOne, kTwo}) sessions_.add(peer, std::make_unique<Session>());
  }
  Session& session(Peer peer) { return *sessions_.attached(peer); }
  void read(Peer peer = kOne) {
    outgoing_.read(session(peer), operations_.take(Context::Kind::kPull, peer, 8, 0));
  }
  void write(bool eager = false) {
    Operation& operation = operations_.take(Context::Kind::kPush, kOne, 8, 0);
    operation.eager = eager;
    outgoing_.write(session(kOne), operation);
  }

  Payloads payloads_{LandingMemory::kAlignment};
  OperationPool operations_{payloads_};
  Sessions sessions_;
  RecordingNetwork network_;
  Outgoing outgoing_{network_, operations_};
};

TEST_F(OutgoingTest, SendsCompletionsThenWritesThenReads) {
  read();
  write();
  outgoing_.complete(session(kOne), {});
  EXPECT_THAT(network_.taken, IsEmpty()) << "until the burst ends";
  outgoing_.send();
  EXPECT_THAT(network_.taken, ElementsAre("completion", "write", "read", "flush"));
}

TEST_F(OutgoingTest, SendsBurstToEachPeerInOnePiece) {
  read(kOne);
  read(kTwo);
  read(kOne);
  outgoing_.send();
  EXPECT_THAT(network_.taken, ElementsAre("read", "read", "flush", "read", "flush"));
}

TEST_F(OutgoingTest, CompletionWaitsForEagerWrites) {
  network_.takes_operations = false;
  write(true);
  outgoing_.complete(session(kOne), {});
  outgoing_.send();
  EXPECT_THAT(network_.taken, ElementsAre("flush"));
  network_.takes_operations = true;
  network_.taken.clear();
  outgoing_.send_again(sessions_);
  EXPECT_THAT(network_.taken, ElementsAre("write", "completion", "flush", "flush"));
}

TEST_F(OutgoingTest, TriesAgainOnlyWhatWasNotTaken) {
  network_.room = 1;
  write();
  write();
  outgoing_.send();
  network_.room = SIZE_MAX;
  network_.taken.clear();
  outgoing_.send_again(sessions_);
  EXPECT_THAT(network_.taken, ElementsAre("write", "flush", "flush"));
  network_.taken.clear();
  outgoing_.send_again(sessions_);
  EXPECT_THAT(network_.taken, IsEmpty());
}

TEST_F(OutgoingTest, StartsNothingForBrokenSession) {
  read();
  session(kOne).refuse("test");
  outgoing_.send();
  EXPECT_THAT(network_.taken, IsEmpty());
}

TEST_F(OutgoingTest, RefusesPeerThatTakesNoCompletions) {
  network_.room = 0;
  for (int i = 0; i < 8192; ++i) outgoing_.complete(session(kOne), {});
  EXPECT_FALSE(session(kOne).broken);
  outgoing_.complete(session(kOne), {});
  EXPECT_TRUE(session(kOne).broken);
}

}  // namespace
}  // namespace tally::transport::onesided
