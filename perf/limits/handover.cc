// Measures the least time of an operation of three processes on two cores. Two ranks and a node
// pass a counter to each other and do nothing else. The node shares a core with rank 0, so each
// operation takes two switches of that core. Prints medians of N rounds, in microseconds.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "base/clock.h"
#include "base/system/fd.h"
#include "perf/measure/statistics.h"

namespace tally::perf {
namespace {

constexpr std::uint32_t kOperations = 20'000;
constexpr unsigned kLimitSeconds = 60;

struct alignas(64) Word {
  std::atomic<std::uint32_t> value{0};
};
struct Shared {
  Word posted[2];
  Word completed;
};

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

void await(const Word& word, std::uint32_t value) {
  while (word.value.load(std::memory_order_acquire) != value) ::sched_yield();
}

void rank(Shared& shared, int number) {
  for (std::uint32_t i = 1; i <= kOperations; ++i) {
    shared.posted[number].value.store(i, std::memory_order_release);
    await(shared.completed, i);
  }
}

void node(Shared& shared, int ranks) {
  for (std::uint32_t i = 1; i <= kOperations; ++i) {
    for (int r = 0; r < ranks; ++r) await(shared.posted[r], i);
    shared.completed.value.store(i, std::memory_order_release);
  }
}

// Runs `work` in another process on `core`. The process ends with this one, or after the limit.
template <typename Work>
void in_child(int core, Work work) {
  if (::fork() != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(kLimitSeconds);
  pin(core);
  work();
  std::_Exit(0);
}

// The time of one operation.
Nanos operation(Shared& shared, int ranks) {
  for (Word* word : {&shared.posted[0], &shared.posted[1], &shared.completed}) word->value = 0;
  in_child(0, [&] { node(shared, ranks); });
  if (ranks == 2) in_child(1, [&] { rank(shared, 1); });
  pin(0);
  const Nanos begin = monotonic_now();
  rank(shared, 0);
  const Nanos time = monotonic_now() - begin;
  while (::wait(nullptr) > 0) continue;
  return time / kOperations;
}

Nanos yield_alone() {
  const Nanos begin = monotonic_now();
  for (std::uint32_t i = 0; i < kOperations; ++i) ::sched_yield();
  return (monotonic_now() - begin) / kOperations;
}

int run(int rounds) {
  ::alarm(kLimitSeconds);
  Mapping mapping(
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
      sizeof(Shared));
  auto* shared = new (mapping.data()) Shared;
  std::vector<Nanos> alone, pair, three;
  for (int i = 0; i < rounds; ++i) {
    alone.push_back(yield_alone());
    pair.push_back(operation(*shared, 1));
    three.push_back(operation(*shared, 2));
  }
  std::printf("sched_yield with nobody to yield to      %.2f us\n", summarise(alone).p50_us);
  std::printf("a rank and a node on one core            %.2f us an operation\n",
              summarise(pair).p50_us);
  std::printf("two ranks and a node on two cores        %.2f us an operation\n",
              summarise(three).p50_us);
  return 0;
}

}  // namespace
}  // namespace tally::perf

int main(int argc, char** argv) {
  const int rounds = argc == 2 ? std::atoi(argv[1]) : argc == 1 ? 11 : 0;
  if (rounds < 1 || rounds > 100 || ::sysconf(_SC_NPROCESSORS_ONLN) < 2) {
    std::fprintf(stderr, "usage: handover [ROUNDS, 1 to 100; default 11], with two cores\n");
    return 2;
  }
  return tally::perf::run(rounds);
}
