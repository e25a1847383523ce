// Checks the kernels against their bars: how much of the read ceiling of the same bytes they reach,
// and how much faster they are than a pairwise reducer. The two sides run alternately, many times.
// The figure is the median of the ratios, because absolute times on a shared machine mean nothing.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "perf/kernels/workload.h"

namespace tally::perf {
namespace {

using summation::ElementType;
using summation::Isa;

constexpr std::size_t kTile = 65536;
constexpr std::size_t kLarge = std::size_t{64} << 20U;

enum class Against { kCeiling, kByteps };

struct Bar {
  std::string_view name;
  Shape shape;
  Isa isa;
  Against against;
  double at_least;  // 0: no bar, the figure is information
};

struct Options {
  bool json = false;
  bool check = false;
  int repetitions = 1001;
  std::string filter;
};

std::vector<Bar> bars() {
  const auto l2 = [](ElementType type, std::size_t width) {
    return Shape{.type = type, .width = width, .bytes = kTile};
  };
  const auto partial = [](ElementType type, bool result) {
    const std::size_t inputs = result ? 0 : 1;
    return Shape{.type = type, .bytes = kTile, .partials = inputs, .partial_result = result};
  };
  const Shape reused = {.bytes = kLarge, .tile = kTile, .reuse_output = true};
  const Shape streamed = {.bytes = kLarge, .tile = kTile, .stream = true};
  const Shape stored = {.bytes = kLarge, .tile = kTile};
  constexpr auto kWide = Isa::kAvx512;
  constexpr auto kCeiling = Against::kCeiling;
  constexpr auto kByteps = Against::kByteps;
  return {
      {"f32 W=8, 64 KiB tiles in L2", l2(ElementType::kF32, 8), kWide, kCeiling, 0.85},
      {"f32 W=4, 64 KiB tiles in L2", l2(ElementType::kF32, 4), kWide, kCeiling, 0.75},
      {"f16 W=8, 64 KiB tiles in L2", l2(ElementType::kF16, 8), kWide, kCeiling, 0.33},
      {"bf16 W=8, 64 KiB tiles in L2", l2(ElementType::kBf16, 8), kWide, kCeiling, 0.40},
      {"f32 W=8, 64 KiB tiles in L2, AVX2", l2(ElementType::kF32, 8), Isa::kAvx2, kCeiling, 0.65},
      {"f16 W=8, 64 KiB tiles in L2, AVX2", l2(ElementType::kF16, 8), Isa::kAvx2, kCeiling, 0},
      {"bf16 W=8, 64 KiB tiles in L2, AVX2", l2(ElementType::kBf16, 8), Isa::kAvx2, kCeiling, 0},
      {"f16 W=8 and a partial, L2", partial(ElementType::kF16, false), kWide, kCeiling, 0},
      {"bf16 W=8 and a partial, L2", partial(ElementType::kBf16, false), kWide, kCeiling, 0},
      {"f16 W=8 to a partial, L2", partial(ElementType::kF16, true), kWide, kCeiling, 0},
      {"bf16 W=8 to a partial, L2", partial(ElementType::kBf16, true), kWide, kCeiling, 0},
      {"f32 W=2, 64 KiB tiles in L2", l2(ElementType::kF32, 2), kWide, kCeiling, 0},
      {"f32 W=16, 32 KiB tiles in L2", {.width = 16, .bytes = kTile / 2}, kWide, kCeiling, 0},
      {"f32 W=64, 8 KiB tiles in L2", {.width = 64, .bytes = kTile / 8}, kWide, kCeiling, 0},
      {"f32 W=8, 4 KiB tiles in L1", {.bytes = 4096}, kWide, kCeiling, 0},
      {"f32 W=8 with statistics, L2", {.bytes = kTile, .stats = true}, kWide, kCeiling, 0},
      {"f32 W=8, 8 outputs of 32 KiB, L2", {.bytes = kTile / 2, .outputs = 8}, kWide, kCeiling, 0},
      {"f32 W=8 from DRAM into a buffer in cache", reused, kWide, kCeiling, 0.95},
      {"f32 W=8 from DRAM to DRAM, streamed", streamed, kWide, kCeiling, 0},
      {"f32 W=8 from DRAM to DRAM, stored", stored, kWide, kCeiling, 0},
      {"f32 W=8 in L2, over BytePS-style", l2(ElementType::kF32, 8), kWide, kByteps, 3},
      {"f32 W=8 DRAM, streamed, over BytePS-style", streamed, kWide, kByteps, 1.7},
      {"f32 W=8 DRAM, stored, over BytePS-style", stored, kWide, kByteps, 0},
      {"f16 W=8 in L2, over BytePS-style", l2(ElementType::kF16, 8), kWide, kByteps, 2.3},
  };
}

template <class Work>
double seconds(int times, const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Figure {
  double ratio;
  double quarter, three_quarters;  // of the ratios: how noisy the run was
  double gigabytes_per_second;     // input bytes by the kernel, median
};

Figure measure(const Bar& bar, const summation::Kernels& kernels, int repetitions) {
  Workload work(bar.shape);
  const auto ours = [&] { work.reduce(kernels); };
  const auto theirs = [&] {
    bar.against == Against::kCeiling ? work.read_ceiling() : work.byteps();
  };
  double once = seconds(1, theirs);
  once = seconds(1, theirs);  // now with the data in the caches
  // A run takes about 20 us, so that a disturbance of the machine affects both sides. Large shapes
  // are repeated less.
  const int times = std::max(1, static_cast<int>(20e-6 / std::max(once, 1e-7)));
  if (once > 1e-3) repetitions = std::max(15, repetitions / 60);
  std::vector<double> ratios;
  std::vector<double> rates;
  for (int r = 0; r < repetitions; ++r) {
    theirs();  // brings the caches into the state of this side
    const double their_time = seconds(times, theirs);
    ours();
    const double our_time = seconds(times, ours);
    ratios.push_back(their_time / our_time);
    rates.push_back(static_cast<double>(work.input_bytes()) * times / our_time * 1e-9);
  }
  std::sort(ratios.begin(), ratios.end());
  const std::size_t n = ratios.size();
  return {ratios[n / 2], ratios[n / 4], ratios[n - 1 - n / 4], median(rates)};
}

std::string verdict(const Bar& bar, double ratio) {
  if (bar.at_least == 0) return "";
  return ratio >= bar.at_least ? "pass" : "FAIL";
}

int run(const Options& options) {
  bool all = true;
  bool first = true;
  if (options.json) fmt::print("[");
  if (!options.json) {
    fmt::print("{:<44}{:>8}{:>16}{:>7}  {:<5}{:>8}\n", "kernel", "median", "quartiles", "bar", "",
               "GB/s");
  }
  for (const Bar& bar : bars()) {
    if (bar.name.find(options.filter) == std::string_view::npos) continue;
    const summation::Kernels* kernels = summation::kernels(bar.isa);
    if (kernels == nullptr) {
      fmt::print(stderr, "skipped, this processor lacks it: {}\n", bar.name);
      continue;
    }
    const Figure f = measure(bar, *kernels, options.repetitions);
    all = all && (bar.at_least == 0 || f.ratio >= bar.at_least);
    if (options.json) {
      fmt::print(
          "{}\n  {{\"name\": \"{}\", \"against\": \"{}\", \"ratio\": {:.4f}, "
          "\"quarter\": {:.4f}, \"three_quarters\": {:.4f}, \"bar\": {}, "
          "\"result\": \"{}\", \"gigabytes_per_second\": {:.2f}}}",
          first ? "" : ",", bar.name,
          bar.against == Against::kCeiling ? "read ceiling" : "byteps style", f.ratio, f.quarter,
          f.three_quarters, bar.at_least, verdict(bar, f.ratio), f.gigabytes_per_second);
      first = false;
    } else {
      const std::string at_least = bar.at_least == 0 ? "" : fmt::format("{:.2f}", bar.at_least);
      fmt::print("{:<44}{:>8.3f}{:>9.3f}-{:.3f}{:>8}  {:<5}{:>8.1f}\n", bar.name, f.ratio,
                 f.quarter, f.three_quarters, at_least, verdict(bar, f.ratio),
                 f.gigabytes_per_second);
      std::fflush(stdout);
    }
  }
  if (options.json) fmt::print("\n]\n");
  return options.check && !all ? 1 : 0;
}

}  // namespace
}  // namespace tally::perf

int main(int argc, char** argv) {
  tally::perf::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      options.json = true;
    } else if (argument == "--check") {
      options.check = true;
    } else if (argument == "--repetitions" && i + 1 < argc) {
      options.repetitions = std::max(1, std::atoi(argv[++i]));
    } else if (argument == "--filter" && i + 1 < argc) {
      options.filter = argv[++i];
    } else {
      fmt::print(stderr,
                 "usage: kernel-bars [--json] [--check] [--repetitions N] [--filter TEXT]\n"
                 "  --check  exit with 1 if a bar is missed\n");
      return 2;
    }
  }
  return tally::perf::run(options);
}
