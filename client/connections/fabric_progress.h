// Threads that make progress for connections of transport fabric. The software providers of
// libfabric move data only while a thread of this process calls them. A session has at most
// kMostThreads threads. Each thread serves several connections, and sleeps until a descriptor of
// one of them is readable.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/system/fd.h"

namespace tally::client {

// The work of a progress thread for one connection. Only that thread calls these functions.
class FabricWork {
 public:
  virtual ~FabricWork() = default;
  // Sends and receives what is possible without waiting. False when there was nothing to do.
  virtual bool turn() = 0;
  // Whether there is something to send. Reads only memory.
  virtual bool has_work() = 0;
  // Whether the provider refused something for now, so that the thread must try again soon.
  virtual bool is_held_up() const = 0;
  // True when nothing happens before wait_fd() is readable. False when something may be there
  // already.
  virtual bool may_sleep() = 0;
  virtual int wait_fd() const = 0;
};

// One progress thread.
class FabricThread {
 public:
  static Result<std::unique_ptr<FabricThread>> start();
  // Precondition: all work is removed.
  ~FabricThread();

  // Borrows `work` until remove() returns. After that no call to `work` is in progress. Any thread
  // but the progress thread may call these.
  Outcome add(FabricWork& work);
  void remove(FabricWork& work);
  // The caller calls this after it gave something to send to one of the connections. Any thread.
  void wake();

 private:
  struct Entry {
    FabricWork* work = nullptr;  // null: the entry is free
    bool rests = false;          // sleeps until its descriptor is readable or it has work
    Nanos worked_at = 0;
  };
  class Pause;

  FabricThread() = default;
  void run();
  bool turn_all(Nanos now);
  static bool rest(Entry& entry);
  void sleep();
  void wait_for_events(int timeout_ms);

  UniqueFd epoll_;  // watches the descriptors of the entries, by their index, and wake_
  UniqueFd wake_;
  std::mutex mutex_;  // protects the entries; the thread holds it except during a Pause
  std::condition_variable go_on_;
  std::vector<Entry> entries_;
  std::atomic<std::uint32_t> pauses_{0};  // how many other threads want a Pause
  std::atomic<std::uint32_t> sleeps_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// All progress threads of a session or of a node. Any thread may use it.
class FabricProgress {
 public:
  // The first kMostThreads connections have a thread each, because one thread copies only some GB/s
  // to and from its sockets.
  static constexpr std::size_t kMostThreads = 4;

  // Returns the thread with the fewest connections, borrowed for the life of this object. The
  // caller must give it back with leave().
  Result<FabricThread*> join();
  void leave(const FabricThread& thread);

 private:
  struct Member {
    std::unique_ptr<FabricThread> thread;
    std::size_t connections = 0;
  };

  std::mutex mutex_;
  std::vector<Member> members_;
};

}  // namespace tally::client
