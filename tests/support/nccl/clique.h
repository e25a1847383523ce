// The state of the double: communicators, and where their ranks meet.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu_bridge/cuda_api/driver.h"
#include "tests/support/nccl/operation.h"

namespace tally::test::nccl {

// The calls of all ranks at one place of a communicator's order.
struct Meeting {
  std::vector<Batch> batches;  // by rank; empty: the rank has not called yet
  int arrived = 0;             // ranks whose streams have reached it
  bool computing = false;
  bool done = false;
  bool mismatched = false;  // it ends without effect
  Clock::time_point begin;
  Clock::time_point end;  // not before this, because bytes take time
};

struct CommState;

// The ranks of one unique id. Its own mutex guards it.
struct Clique {
  explicit Clique(int size) : ranks(size), members(static_cast<std::size_t>(size)) {}

  const int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<CommState*> members;  // by rank; null: not there yet
  int joined = 0;
  bool refused = false;  // two ranks have one device
  std::map<std::uint64_t, std::shared_ptr<Meeting>> meetings;
};

// One rank of a clique. The clique's mutex guards what follows it.
struct CommState {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  tally::cuda::Context context = nullptr;
  tally::cuda::Event event = nullptr;  // the end of the last operation
  tally::cuda::Stream last_stream = nullptr;
  bool used = false;
  std::uint64_t next = 0;  // place of the next operation
  bool gone = false;       // destroyed or aborted
  bool aborted = false;    // its operations end without effect
  int running = 0;         // operations that its streams have reached
  int outstanding = 0;     // operations that have not ended
  Code async_error = Code::kSuccess;
  Counters counters;
  std::vector<Record> records;
};

// What all communicators share.
struct World {
  std::mutex mutex;
  Settings settings;
  std::vector<std::string> misuses;
  std::map<std::string, std::uint64_t> calls;
  std::map<std::string, std::map<std::uint64_t, Code>> faults;
  std::uint64_t next_id = 1;
  std::map<std::uint64_t, std::shared_ptr<Clique>> cliques;  // by unique id, while ranks join
  std::map<Comm, std::shared_ptr<CommState>> comms;          // also those that are gone

  void misuse(std::string text);
  // Counts the call. Another code than kSuccess: the test has ordered it.
  Code count(const char* function);
};

World& world();  // never destroyed
const tally::cuda::Driver& driver();
// The communicator, unless it is gone or never was; null then, with misuse.
std::shared_ptr<CommState> find(const char* function, Comm comm);

// Enqueues the calls as one operation of the communicator.
Code enqueue(const std::shared_ptr<CommState>& comm, Batch batch, tally::cuda::Stream stream);

}  // namespace tally::test::nccl
