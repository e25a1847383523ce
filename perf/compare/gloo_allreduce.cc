// As mpi_allreduce.c, with Gloo over its TCP transport on one network interface. The ranks find
// each other in a directory.
//
// usage: gloo_allreduce DIRECTORY RANK RANKS BYTES ITERATIONS WARMUP INTERFACE
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "reference.h"

namespace {

using Clock = std::chrono::steady_clock;

template <typename Number>
void all_reduce(const std::shared_ptr<gloo::Context>& context, Number* in, Number* out,
                std::size_t count, gloo::AllreduceOptions::Func reduce) {
  gloo::AllreduceOptions options(context);
  options.setInput(in, count);
  options.setOutput(out, count);
  options.setReduceFunction(std::move(reduce));
  gloo::allreduce(options);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr,
                 "usage: gloo_allreduce DIRECTORY RANK RANKS BYTES ITERATIONS WARMUP INTERFACE\n");
    return 2;
  }
  const int rank = std::atoi(argv[2]), ranks = std::atoi(argv[3]);
  const std::size_t count = std::strtoull(argv[4], nullptr, 10) / sizeof(float);
  const int iterations = std::atoi(argv[5]), warmup = std::atoi(argv[6]);
  gloo::transport::tcp::attr attributes;
  attributes.iface = argv[7];
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  auto store = gloo::rendezvous::FileStore(argv[1]);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);

  std::vector<float> in(count), out(count);
  for (std::size_t i = 0; i < count; ++i) in[i] = gradient(rank, i);
  const auto sum =
      static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>);
  std::vector<double> times;
  for (int i = -warmup; i < iterations; ++i) {
    gloo::BarrierOptions barrier(context);
    gloo::barrier(barrier);
    const auto start = Clock::now();
    all_reduce(std::shared_ptr<gloo::Context>(context), in.data(), out.data(), count, sum);
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    if (i >= 0) times.push_back(took.count());
  }
  std::vector<double> slowest(times.size());
  const auto max =
      static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::max<double>);
  all_reduce(std::shared_ptr<gloo::Context>(context), times.data(), slowest.data(), times.size(),
             max);
  const long long wrong = count_wrong(out.data(), count, ranks);
  if (rank == 0) report(wrong, slowest.data(), iterations);
  return wrong != 0;
}
