// Measures every kernel, and the read ceiling of the same bytes beside it (Google Benchmark).
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/crc32c.h"
#include "perf/kernels/workload.h"

namespace tally::perf {
namespace {

using summation::ElementType;
using summation::Isa;
using summation::Operation;

constexpr std::size_t kTile = 65536;
constexpr std::size_t kLarge = std::size_t{64} << 20U;

void set_rate(benchmark::State& state, const Workload& work) {
  state.SetBytesProcessed(static_cast<std::int64_t>(work.input_bytes()) * state.iterations());
}

void add(const std::string& name, const Shape& shape) {
  for (std::size_t i = 0; i < summation::kIsaNames.size(); ++i) {
    const summation::Kernels* kernels = summation::kernels(static_cast<Isa>(i));
    if (kernels == nullptr) continue;
    const std::string full = name + "/" + std::string(summation::kIsaNames[i]);
    benchmark::RegisterBenchmark(full.c_str(), [shape, kernels](benchmark::State& state) {
      Workload work(shape);
      for (auto _ : state) work.reduce(*kernels);
      set_rate(state, work);
    });
  }
  benchmark::RegisterBenchmark((name + "/read_ceiling").c_str(), [shape](benchmark::State& state) {
    const Workload work(shape);
    for (auto _ : state) work.read_ceiling();
    set_rate(state, work);
  });
}

void add_byteps(const std::string& name, const Shape& shape) {
  benchmark::RegisterBenchmark((name + "/byteps_style").c_str(), [shape](benchmark::State& state) {
    const Workload work(shape);
    for (auto _ : state) work.byteps();
    set_rate(state, work);
  });
}

// The checksums that a shard and a rank compute: one for each 4 KiB.
void add_checksums(std::size_t bytes, bool streamed) {
  const auto crc32c = Crc32c::open();
  if (!crc32c) return;
  const std::string name = (streamed ? "crc32c_streamed/" : "crc32c/") + std::to_string(bytes);
  benchmark::RegisterBenchmark(name.c_str(), [=, &sum = **crc32c](benchmark::State& state) {
    const std::vector<std::byte> memory(bytes, std::byte{1});
    for (auto _ : state) {
      for (std::size_t at = 0; at < bytes; at += 4096) {
        const std::span granule(memory.data() + at, 4096);
        benchmark::DoNotOptimize(streamed ? sum.streamed(granule) : sum(granule));
      }
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
  });
}

void add_all() {
  for (const std::size_t bytes : {kTile, kLarge}) {
    add_checksums(bytes, false);
    add_checksums(bytes, true);
  }
  for (const auto& info : summation::kElementTypes) {
    for (std::size_t o = 0; o < summation::kOperationNames.size(); ++o) {
      add(std::string(info.name) + "_" + std::string(summation::kOperationNames[o]) + "/W8",
          {.type = info.type, .operation = static_cast<Operation>(o), .bytes = kTile});
    }
    add(std::string(info.name) + "_sum_stats/W8",
        {.type = info.type, .bytes = kTile, .stats = true});
  }
  for (const ElementType type : {ElementType::kF16, ElementType::kBf16}) {
    const std::string prefix = std::string(summation::name(type)) + "_sum_partial/";
    for (const std::size_t width : {2, 8, 16}) {
      const std::string name = prefix + "W" + std::to_string(width);
      Shape shape = {.type = type, .width = width, .bytes = kTile * 8 / width};
      add(name + "/neither", shape);
      shape.partial_result = true;
      add(name + "/result", shape);
      shape.partial_result = false;
      shape.partials = 1;
      add(name + "/input", shape);
    }
    add(prefix + "W0/two_inputs", {.type = type, .width = 0, .bytes = kTile, .partials = 2});
  }
  for (const std::size_t width : {1, 2, 3, 4, 6, 12, 16, 17, 32, 64, 256}) {
    add("f32_sum/W" + std::to_string(width),
        {.width = width, .bytes = std::max<std::size_t>(4096, kTile * 8 / width / 4096 * 4096)});
  }
  for (const std::size_t bytes : {256, 1024, 4096, 16384, 131072}) {
    add("f32_sum_tile/" + std::to_string(bytes), {.bytes = bytes});
  }
  for (const std::size_t outputs : {2, 4, 8}) {
    add("f32_sum_outputs/" + std::to_string(outputs), {.bytes = kTile / 2, .outputs = outputs});
    add("f32_sum_dram_outputs_stored/" + std::to_string(outputs),
        {.bytes = kLarge, .outputs = outputs, .tile = kTile});
    add("f32_sum_dram_outputs_streamed/" + std::to_string(outputs),
        {.bytes = kLarge, .outputs = outputs, .tile = kTile, .stream = true});
  }
  for (const std::size_t width : {2, 4, 8, 16}) {
    for (const std::size_t destinations : {0, 1, 2, 4}) {
      const std::string name = std::to_string(width) + "/" + std::to_string(destinations);
      Shape shape{.width = width,
                  .bytes = kLarge / 2,
                  .outputs = width,
                  .destinations = destinations,
                  .tile = kTile / width * 2,
                  .stream = true};
      add("f32_destinations_streamed/W" + name, shape);
      shape.stream = false;
      shape.bytes = std::size_t{4} << 20U;
      add("f32_destinations_stored/W" + name, shape);
    }
  }
  add("f32_sum_dram_buffer/W8", {.bytes = kLarge, .tile = kTile, .reuse_output = true});
  add("f32_sum_dram_stored/W8", {.bytes = kLarge, .tile = kTile});
  add("f32_sum_dram_streamed/W8", {.bytes = kLarge, .tile = kTile, .stream = true});
  add_byteps("f32_sum/W8", {.bytes = kTile});
  add_byteps("f16_sum/W8", {.type = ElementType::kF16, .bytes = kTile});
  add_byteps("f32_sum_dram/W8", {.bytes = kLarge});
}

}  // namespace
}  // namespace tally::perf

int main(int argc, char** argv) {
  tally::perf::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
