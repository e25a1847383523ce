#include "control/probe/sum.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace tally::control::probe {
namespace {

constexpr std::size_t kTile = 64 << 10;
constexpr std::uint64_t kMostWindow = 64 << 20;

// The speed of one thread, which sums rounds over its window until the time is over.
double speed_of_one(const summation::Kernels& kernels, const SumQuestion& question,
                    const std::atomic<bool>& stop) {
  const std::size_t sets =
      std::max<std::size_t>(1, std::min(question.window, kMostWindow) / (question.inputs * kTile));
  const std::vector<float> memory(sets * question.inputs * kTile / sizeof(float), 0.5F);
  std::vector<float> result(kTile / sizeof(float));
  std::byte* const output = reinterpret_cast<std::byte*>(result.data());
  const auto* data = reinterpret_cast<const std::byte*>(memory.data());
  std::vector<Span> spans(question.inputs);
  std::vector<View> inputs;
  for (const Span& span : spans) inputs.emplace_back(&span, 1);
  summation::Reduction reduction;
  reduction.count = kTile / sizeof(float);
  reduction.inputs = inputs;
  reduction.outputs = {&output, 1};
  std::uint64_t tiles = 0;
  const Nanos begin = monotonic_now();
  Nanos now = begin;
  for (; now < begin + question.span && !stop; now = monotonic_now()) {
    const std::byte* set = data + (tiles % sets) * question.inputs * kTile;
    for (std::size_t i = 0; i < question.inputs; ++i) spans[i] = {set + i * kTile, kTile};
    summation::reduce(kernels, reduction);
    ++tiles;
  }
  const double bytes = static_cast<double>(tiles * question.inputs * kTile);
  return bytes * kSecond / static_cast<double>(std::max<Nanos>(now - begin, 1));
}

}  // namespace

double sum_speed(const summation::Kernels& kernels, const SumQuestion& question,
                 const std::atomic<bool>& stop) {
  std::vector<double> speeds(question.threads);
  {
    std::vector<std::jthread> threads;
    for (double& speed : speeds) {
      threads.emplace_back([&] { speed = speed_of_one(kernels, question, stop); });
    }
  }
  double sum = 0;
  for (const double speed : speeds) sum += speed;
  return sum;
}

}  // namespace tally::control::probe
