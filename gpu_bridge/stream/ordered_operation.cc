#include "gpu_bridge/stream/ordered_operation.h"

namespace tally::gpu {

using cuda::outcome;

Result<CopyStreams> CopyStreams::make(const cuda::Driver& driver, cuda::Context context) {
  auto down = make_stream(driver, context);
  if (!down) return down.error();
  auto up = make_stream(driver, context);
  if (!up) return up.error();
  return CopyStreams{std::move(down).value(), std::move(up).value()};
}

Result<std::unique_ptr<OrderedOperation>> OrderedOperation::make(const cuda::Driver& driver,
                                                                 cuda::Context context,
                                                                 WordPool& pool,
                                                                 std::uint32_t index) {
  std::unique_ptr<OrderedOperation> operation(new OrderedOperation(driver, context, pool, index));
  for (OwnedEvent* event : {&operation->begin_, &operation->down_end_, &operation->end_}) {
    auto made = make_event(driver, context);
    if (!made) return made.error();
    *event = std::move(made).value();
  }
  return operation;
}

Outcome OrderedOperation::enqueue(const CopyStreams& streams, cuda::Stream caller,
                                  std::span<const PartCopies> parts) {
  const cuda::CurrentContext current(driver_, context_);
  if (auto done = begin(streams, caller); !done) return done;
  if (auto done = copy_down(streams.down.get(), parts); !done) return done;
  if (auto done = copy_up(streams.up.get(), parts); !done) return done;
  return land(streams.up.get(), caller);
}

// A graph is made once and launched often, so its values are the same in each round. The host ends
// a round by next_round(), and only then may the device write `down` again.
Outcome OrderedOperation::capture(const CopyStreams& streams, cuda::Stream caller,
                                  std::span<const PartCopies> parts, HostCall begun) {
  const cuda::CurrentContext current(driver_, context_);
  const cuda::Stream down = streams.down.get();
  const cuda::Stream up = streams.up.get();
  if (auto done = begin(streams, caller); !done) return done;
  if (auto done = await(down, words_.landed, 0, cuda::kWaitValueEq); !done) return done;
  if (auto done = copy_down(down, parts); !done) return done;
  auto done = outcome(driver_, "cuEventRecord", driver_.event_record(down_end_.get(), down));
  if (!done) return done;
  // The copies to the host do not wait for the call, because it has the other stream.
  done = outcome(driver_, "cuLaunchHostFunc",
                 driver_.launch_host_func(up, begun.function, begun.user));
  if (!done) return done;
  if (auto copied = copy_up(up, parts); !copied) return copied;
  // A capture ends with all its streams joined to the caller's.
  done = outcome(driver_, "cuStreamWaitEvent", driver_.stream_wait_event(up, down_end_.get(), 0));
  if (!done) return done;
  return land(up, caller);
}

Outcome OrderedOperation::begin(const CopyStreams& streams, cuda::Stream caller) {
  auto done = outcome(driver_, "cuEventRecord", driver_.event_record(begin_.get(), caller));
  for (const cuda::Stream stream : {streams.down.get(), streams.up.get()}) {
    if (!done) return done;
    done =
        outcome(driver_, "cuStreamWaitEvent", driver_.stream_wait_event(stream, begin_.get(), 0));
  }
  return done;
}

Outcome OrderedOperation::copy_down(cuda::Stream stream, std::span<const PartCopies> parts) {
  std::uint32_t count = 0;
  for (const PartCopies& part : parts) {
    if (part.in_bytes > 0) {
      auto done = outcome(driver_, "cuMemcpyDtoHAsync",
                          driver_.memcpy_dtoh_async(part.in_host, part.in, part.in_bytes, stream));
      if (!done) return done;
    }
    if (auto done = write(stream, words_.down, ++count); !done) return done;
  }
  return Unit{};
}

Outcome OrderedOperation::copy_up(cuda::Stream stream, std::span<const PartCopies> parts) {
  std::uint32_t count = 0;
  for (const PartCopies& part : parts) {
    ++count;
    // A wait for the last part covers all before it.
    const bool last = count == parts.size();
    if (part.out_bytes == 0 && !last) continue;
    if (auto done = await(stream, words_.up, count, cuda::kWaitValueGeq); !done) return done;
    if (part.out_bytes == 0) continue;
    auto done = outcome(driver_, "cuMemcpyHtoDAsync",
                        driver_.memcpy_htod_async(part.out, part.out_host, part.out_bytes, stream));
    if (!done) return done;
  }
  return Unit{};
}

Outcome OrderedOperation::land(cuda::Stream up, cuda::Stream caller) {
  if (auto done = write(up, words_.up, 0); !done) return done;
  if (auto done = write(up, words_.landed, 1); !done) return done;
  auto done = outcome(driver_, "cuEventRecord", driver_.event_record(end_.get(), up));
  if (!done) return done;
  return outcome(driver_, "cuStreamWaitEvent", driver_.stream_wait_event(caller, end_.get(), 0));
}

Outcome OrderedOperation::write(cuda::Stream stream, const std::uint32_t& word,
                                std::uint32_t value) {
  return outcome(driver_, "cuStreamWriteValue32",
                 driver_.stream_write_value32(stream, pool_.device_address(word), value,
                                              cuda::kWriteValueDefault));
}

Outcome OrderedOperation::await(cuda::Stream stream, const std::uint32_t& word, std::uint32_t value,
                                unsigned how) {
  return outcome(driver_, "cuStreamWaitValue32",
                 driver_.stream_wait_value32(stream, pool_.device_address(word), value, how));
}

}  // namespace tally::gpu
