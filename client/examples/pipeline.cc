// Keeps several buckets in flight and averages them out of place, with an event loop. usage:
// pipeline RANK RANKS
#include <poll.h>
#include <tally/tally.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

constexpr std::uint32_t kBuckets = 8;
constexpr std::uint64_t kCount = 1 << 18;  // elements of each bucket

void check(tally_status status, const tally_session* session) {
  if (status != TALLY_OK) throw std::runtime_error(tally_last_error(session));
}

int main(int argc, char** argv) try {
  if (argc != 3) throw std::runtime_error("usage: pipeline RANK RANKS");
  tally_session_options options{};
  options.size = sizeof options;
  options.job = "example-cc";
  options.rank = static_cast<std::uint32_t>(std::stoul(argv[1]));
  options.ranks = static_cast<std::uint32_t>(std::stoul(argv[2]));
  tally_session* opened = nullptr;
  check(tally_open(&options, &opened), nullptr);
  const std::unique_ptr<tally_session, decltype(&tally_close)> session(opened, tally_close);
  tally_region* region = nullptr;  // the gradients, then the averages
  void* data = nullptr;
  check(tally_region_alloc(opened, 2 * kBuckets * kCount * sizeof(float), &region, &data), opened);
  auto* values = static_cast<float*>(data);
  for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    const auto first = bucket * kCount;
    for (std::uint64_t i = 0; i < kCount; ++i) values[first + i] = float(options.rank + bucket);
    tally_operation operation{sizeof operation, TALLY_ALL_REDUCE, TALLY_F32, TALLY_AVERAGE};
    operation.tag = bucket;
    operation.count = kCount;
    operation.in = {region, first * sizeof(float)};
    operation.out = {region, (kBuckets * kCount + first) * sizeof(float)};
    operation.priority = kBuckets - bucket;  // the next forward pass needs bucket 0 first
    check(tally_post(opened, &operation), opened);
  }
  for (std::uint32_t done = 0; done < kBuckets;) {
    tally_completion completion{};
    completion.size = sizeof completion;
    if (tally_poll(opened, &completion, 1) == 1) {
      if (completion.status != TALLY_OK) throw std::runtime_error(completion.message);
      const float average = values[kBuckets * kCount + completion.tag * kCount];
      std::printf("rank %u: bucket %u averages %g\n", options.rank, completion.tag, average);
      if (average != float(options.ranks - 1) / 2 + float(completion.tag)) return 1;
      ++done;
    } else if (tally_arm(opened) == TALLY_OK) {
      pollfd waiter{tally_fd(opened), POLLIN, 0};  // an event loop polls its other descriptors too
      poll(&waiter, 1, 1000);
    }
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
