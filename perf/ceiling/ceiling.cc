#include "perf/ceiling/ceiling.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <new>
#include <thread>

#include "perf/ceiling/ceiling_kernels.h"
#include "perf/measure/statistics.h"

namespace tally::perf {
namespace {

// Below this much traffic, a second thread costs more than it gains.
constexpr std::uint64_t kBytesPerThread = 1 << 20;
// A sample moves about this many bytes, so that its start does not count.
constexpr std::uint64_t kSampleBytes = 32 << 20;

std::uint32_t processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::uint32_t>(std::max(1, CPU_COUNT(&set)));
}

Mapping make_buffer(std::uint64_t bytes) {
  UniqueFd file(memfd_create("tally-perf-ceiling", MFD_CLOEXEC));
  if (!file || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) throw std::bad_alloc();
  Mapping mapping = Mapping::shared(file.get(), bytes, true);
  if (!mapping) throw std::bad_alloc();
  // To populate a mapping need not allocate its pages: a store does.
  std::memset(mapping.data(), 1, bytes);
  return mapping;
}

std::uint64_t round_up(std::uint64_t bytes) {
  return (bytes + kStreamStep - 1) / kStreamStep * kStreamStep;
}

}  // namespace

StreamKernel stream_kernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return avx512::stream;
  if (__builtin_cpu_supports("avx2")) return avx2::stream;
#endif
  return baseline::stream;
}

Traffic minimal_traffic(tally_kind kind, std::uint32_t ranks) {
  switch (kind) {
    case TALLY_ALL_REDUCE:
      return {ranks, ranks};
    case TALLY_REDUCE:
    case TALLY_REDUCE_SCATTER:  // the shares of all ranks together are one buffer
      return {ranks, 1};
    case TALLY_BROADCAST:
    case TALLY_ALL_GATHER:
      return {1, ranks};
    case TALLY_BARRIER:
      break;
  }
  return {0, 0};
}

Ceiling::Ceiling(Traffic traffic, std::uint64_t max_bytes, bool in_place, std::uint32_t threads)
    : traffic_(traffic), threads_(threads != 0 ? threads : processors()) {
  const std::uint64_t bytes = round_up(max_bytes);
  const std::uint32_t shared = in_place ? std::min(traffic.inputs, traffic.outputs) : 0;
  for (std::uint32_t i = 0; i < traffic.inputs + traffic.outputs - shared; ++i) {
    memory_.push_back(make_buffer(bytes));
  }
  for (std::uint32_t i = 0; i < traffic.inputs; ++i) inputs_.push_back(memory_[i].data());
  for (std::uint32_t i = 0; i < traffic.outputs; ++i) {
    const std::uint32_t index = i < shared ? i : traffic.inputs + i - shared;
    outputs_.push_back(memory_[index].data());
  }
}

void Ceiling::begin(std::uint64_t bytes) {
  bytes_ = bytes;
  ordinary_.clear();
  past_caches_.clear();
}

void Ceiling::sample() {
  if (memory_.empty() || bytes_ == 0) return;
  ordinary_.push_back(run(false));
  past_caches_.push_back(run(true));
}

// Time of one pass over the buffers.
Nanos Ceiling::run(bool past_caches) const {
  const std::uint64_t bytes = round_up(bytes_);
  const std::uint64_t traffic = bytes * (traffic_.inputs + traffic_.outputs);
  const auto threads =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(traffic / kBytesPerThread, 1, threads_));
  const std::uint64_t passes = std::max<std::uint64_t>(1, kSampleBytes / traffic);
  const StreamKernel kernel = stream_kernel();
  std::barrier gate(static_cast<std::ptrdiff_t>(threads));
  std::atomic<Nanos> begin = kForever;
  std::atomic<Nanos> end = 0;
  const auto work = [&](std::uint32_t thread) {
    const std::uint64_t steps = bytes / kStreamStep;
    const StreamJob job{.inputs = inputs_.data(),
                        .input_count = inputs_.size(),
                        .outputs = outputs_.data(),
                        .output_count = outputs_.size(),
                        .begin = steps * thread / threads * kStreamStep,
                        .end = steps * (thread + 1) / threads * kStreamStep,
                        .past_caches = past_caches};
    gate.arrive_and_wait();
    if (thread == 0) begin = monotonic_now();
    for (std::uint64_t pass = 0; pass < passes; ++pass) kernel(job);
    gate.arrive_and_wait();
    if (thread == 0) end = monotonic_now();
  };
  std::vector<std::jthread> others;
  for (std::uint32_t thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
  work(0);
  return (end - begin) / static_cast<Nanos>(passes);
}

double Ceiling::gigabytes_per_second() const {
  if (ordinary_.empty()) return 0;
  const double best = std::min(summarise(ordinary_).p50_us, summarise(past_caches_).p50_us);
  return perf::gigabytes_per_second(bytes_, best);
}

}  // namespace tally::perf
