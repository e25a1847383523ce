#include "gpu_bridge/group/pipeline.h"

#include <algorithm>
#include <utility>

namespace tally::gpu {

Result<Marks> Marks::make(const cuda::Driver& driver, cuda::Context context) {
  auto begin = make_event(driver, context);
  if (!begin) return begin.error();
  auto end = make_event(driver, context);
  if (!end) return end.error();
  return Marks{std::move(begin).value(), std::move(end).value()};
}

Result<std::unique_ptr<Pipeline>> Pipeline::make(const cuda::Driver& driver, cuda::Context context,
                                                 std::size_t columns, std::uint32_t depth) {
  std::unique_ptr<Pipeline> made(new Pipeline(driver, context));
  made->depth_ = std::max(depth, 1U);
  Outcome all_made = Unit{};
  const auto stream = [&](OwnedStream& into) {
    auto one = make_stream(driver, context);
    if (one) into = std::move(one).value();
    if (!one && all_made) all_made = one.error();
  };
  const auto event = [&](OwnedEvent& into) {
    auto one = make_event(driver, context);
    if (one) into = std::move(one).value();
    if (!one && all_made) all_made = one.error();
  };
  stream(made->reduce_);
  stream(made->gather_);
  made->sum_.resize(made->depth_);
  for (auto& streams : made->sum_) {
    streams.resize(columns);
    for (OwnedStream& one : streams) stream(one);
  }
  made->between_.resize(made->depth_ + 1);
  for (Between& one : made->between_) {
    event(one.reduced);
    one.summed.resize(columns);
    for (OwnedEvent& summed : one.summed) event(summed);
    one.sends.resize(columns);
  }
  if (!all_made) return all_made.error();
  return made;
}

Outcome Pipeline::record(const OwnedEvent& event, cuda::Stream stream) {
  return cuda::outcome(driver_, "cuEventRecord", driver_.event_record(event.get(), stream));
}

Outcome Pipeline::await(cuda::Stream stream, const OwnedEvent& event) {
  return cuda::outcome(driver_, "cuStreamWaitEvent",
                       driver_.stream_wait_event(stream, event.get(), 0));
}

Outcome Pipeline::enqueue(Stages& stages, std::uint32_t chunks, cuda::Stream caller,
                          const Marks& marks) {
  const cuda::CurrentContext current(driver_, context_);
  if (auto done = record(marks.begin, caller); !done) return done;
  if (auto done = await(reduce_.get(), marks.begin); !done) return done;
  for (std::uint32_t step = 0; step < chunks + depth_; ++step) {
    if (step < chunks) {
      if (auto done = begin(step, stages); !done) return done;
    }
    if (step >= depth_) {
      if (auto done = finish(step - depth_, stages); !done) return done;
    }
  }
  if (auto done = record(marks.end, gather_.get()); !done) return done;
  return await(caller, marks.end);
}

Outcome Pipeline::begin(std::uint32_t chunk, Stages& stages) {
  Between& between = between_[chunk % between_.size()];
  const cuda::Stream stream = reduce_.get();
  if (auto done = stages.reduce(chunk, stream); !done) return done;
  if (auto done = record(between.reduced, stream); !done) return done;
  const auto& streams = sum_[chunk % depth_];
  for (std::size_t column = 0; column < streams.size(); ++column) {
    const cuda::Stream of_column = streams[column].get();
    if (auto done = await(of_column, between.reduced); !done) return done;
    const auto sent = stages.sum(chunk, column, of_column);
    if (!sent) return sent.error();
    between.sends[column] = *sent;
    if (!*sent) continue;
    if (auto done = record(between.summed[column], of_column); !done) return done;
  }
  return Unit{};
}

Outcome Pipeline::finish(std::uint32_t chunk, Stages& stages) {
  Between& between = between_[chunk % between_.size()];
  const cuda::Stream stream = gather_.get();
  if (auto done = await(stream, between.reduced); !done) return done;
  for (std::size_t column = 0; column < between.summed.size(); ++column) {
    if (!between.sends[column]) continue;
    if (auto done = await(stream, between.summed[column]); !done) return done;
  }
  return stages.gather(chunk, stream);
}

}  // namespace tally::gpu
