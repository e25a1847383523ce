// Threads that make progress for many connections: few, asleep while nothing is to do, and none of
// a connection after it has left.
#include "client/connections/fabric_progress.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <deque>
#include <map>
#include <set>
#include <thread>

namespace tally::client {
namespace {

constexpr Nanos kLong = 10 * kSecond;

// A connection whose provider is an eventfd.
class FakeWork : public FabricWork {
 public:
  bool turn() override {
    ++turns;
    turned_by = std::this_thread::get_id();
    std::uint64_t count = 0;
    const bool came = ::eventfd_read(event.get(), &count) == 0;
    const bool sent = given.exchange(0) > 0;
    done += came || sent ? 1 : 0;
    return came || sent;
  }
  bool has_work() override { return given > 0; }
  bool is_held_up() const override { return held_up; }
  bool may_sleep() override {
    pollfd source{event.get(), POLLIN, 0};
    return ::poll(&source, 1, 0) == 0;
  }
  int wait_fd() const override { return event.get(); }

  void come() const { ::eventfd_write(event.get(), 1); }
  void give(FabricThread& thread) {
    ++given;
    thread.wake();
  }

  UniqueFd event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<int> given = 0;
  std::atomic<bool> held_up = false;
  std::atomic<int> turns = 0;
  std::atomic<int> done = 0;
  std::atomic<std::thread::id> turned_by;
};

template <typename Condition>
bool soon(Condition condition) {
  const Nanos end = monotonic_now() + kLong;
  while (!condition() && monotonic_now() < end) std::this_thread::yield();
  return condition();
}

// Until all have gone to sleep: none is turned for a while.
bool fall_asleep(const std::deque<FakeWork>& all) {
  const auto turns = [&all] {
    int sum = 0;
    for (const FakeWork& work : all) sum += work.turns;
    return sum;
  };
  const Nanos end = monotonic_now() + kLong;
  for (int before = -1, now = turns(); now != before && monotonic_now() < end;) {
    before = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    now = turns();
  }
  const int before = turns();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return turns() == before;
}

TEST(FabricThread, SendsAndReceivesForEachConnection) {
  auto thread = FabricThread::start().value();
  std::deque<FakeWork> all(40);
  for (FakeWork& work : all) ASSERT_TRUE(thread->add(work).ok());
  for (int round = 1; round <= 3; ++round) {
    for (FakeWork& work : all) work.come();
    for (FakeWork& work : all) EXPECT_TRUE(soon([&] { return work.done >= 2 * round - 1; }));
    ASSERT_TRUE(fall_asleep(all));
    for (FakeWork& work : all) work.give(*thread);
    for (FakeWork& work : all) EXPECT_TRUE(soon([&] { return work.done >= 2 * round; }));
    ASSERT_TRUE(fall_asleep(all));
  }
  for (FakeWork& work : all) thread->remove(work);
}

// While one connection is busy, the thread does not call libfabric for idle connections each time.
TEST(FabricThread, AConnectionWithoutEventsIsNotPolledWhileAnotherWorks) {
  auto thread = FabricThread::start().value();
  std::deque<FakeWork> all(8);
  for (FakeWork& work : all) ASSERT_TRUE(thread->add(work).ok());
  ASSERT_TRUE(fall_asleep(all));
  const int before = all[7].turns;
  FakeWork& busy = all[0];
  const int done = busy.done;
  for (int i = 1; i <= 1000; ++i) {
    busy.come();
    ASSERT_TRUE(soon([&] { return busy.done >= done + i; }));
  }
  EXPECT_LT(all[7].turns - before, 100);
  all[7].come();
  EXPECT_TRUE(soon([&] { return all[7].done == 1; })) << "but it is heard";
  for (FakeWork& work : all) thread->remove(work);
}

TEST(FabricThread, RetriesWhatTheProviderRefuses) {
  auto thread = FabricThread::start().value();
  std::deque<FakeWork> all(2);
  for (FakeWork& work : all) ASSERT_TRUE(thread->add(work).ok());
  all[1].held_up = true;
  thread->wake();
  const int before = all[1].turns;
  EXPECT_TRUE(soon([&] { return all[1].turns > before + 20; }));
  all[1].held_up = false;
  EXPECT_TRUE(fall_asleep(all));
  for (FakeWork& work : all) thread->remove(work);
}

TEST(FabricThread, AConnectionThatHasLeftIsNotPolledAnyMore) {
  auto thread = FabricThread::start().value();
  FakeWork stays;
  ASSERT_TRUE(thread->add(stays).ok());
  for (int i = 0; i < 200; ++i) {
    auto goes = std::make_unique<FakeWork>();
    ASSERT_TRUE(thread->add(*goes).ok());
    if (i % 2 == 0) goes->come();
    stays.come();
    thread->remove(*goes);
    goes->come();
    const int turns = goes->turns;
    if (i % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(goes->turns, turns);
  }
  EXPECT_TRUE(soon([&] { return stays.given == 0; }));
  thread->remove(stays);
}

TEST(FabricProgress, AHundredConnectionsShareFourThreads) {
  FabricProgress progress;
  std::deque<FakeWork> all(128);
  std::vector<FabricThread*> threads;
  for (FakeWork& work : all) {
    threads.push_back(progress.join().value());
    ASSERT_TRUE(threads.back()->add(work).ok());
    work.come();
  }
  std::map<std::thread::id, int> connections;
  for (FakeWork& work : all) {
    ASSERT_TRUE(soon([&] { return work.done > 0; }));
    ++connections[work.turned_by];
  }
  ASSERT_EQ(connections.size(), FabricProgress::kMostThreads);
  for (const auto& [thread, count] : connections) EXPECT_EQ(count, 32);
  for (std::size_t i = 0; i < all.size(); ++i) {
    threads[i]->remove(all[i]);
    progress.leave(*threads[i]);
  }
}

TEST(FabricProgress, AFewConnectionsHaveAThreadEach) {
  FabricProgress progress;
  std::set<FabricThread*> threads;
  for (int i = 0; i < 3; ++i) threads.insert(progress.join().value());
  EXPECT_EQ(threads.size(), 3U);
  FabricThread* first = *threads.begin();
  progress.leave(*first);
  EXPECT_EQ(progress.join().value(), first) << "rather than start one more";
}

}  // namespace
}  // namespace tally::client
