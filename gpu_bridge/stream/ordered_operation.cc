#include "gpu_bridge/stream/ordered_operation.h"

#include <chrono>
#include <thread>

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
                                                                 std::uint32_t index,
                                                                 bool device_writes) {
  std::unique_ptr<OrderedOperation> operation(
      new OrderedOperation(driver, context, pool, index, device_writes));
  for (OwnedEvent* event : {&operation->begin_, &operation->down_, &operation->end_}) {
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
  if (auto done = copy_both(streams, parts); !done) return done;
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
  // The copies to the host do not wait for the call, because it has the other stream.
  auto done = outcome(driver_, "cuLaunchHostFunc",
                      driver_.launch_host_func(up, begun.function, begun.user));
  if (!done) return done;
  done = await(down, words_.landed, 0, cuda::kWaitValueEq);
  if (!done) return done;
  // From here on `down` counts this round, also for the stream up.
  done = follow(up, down);
  if (!done) return done;
  done = copy_both(streams, parts);
  if (!done) return done;
  // A capture ends with all its streams joined to the caller's.
  done = follow(up, down);
  if (!done) return done;
  return land(up, caller);
}

Outcome OrderedOperation::begin(const CopyStreams& streams, cuda::Stream caller) {
  used_steps_ = 0;
  auto done = outcome(driver_, "cuEventRecord", driver_.event_record(begin_.get(), caller));
  for (const cuda::Stream stream : {streams.down.get(), streams.up.get()}) {
    if (!done) return done;
    done =
        outcome(driver_, "cuStreamWaitEvent", driver_.stream_wait_event(stream, begin_.get(), 0));
  }
  return done;
}

Outcome OrderedOperation::copy_both(const CopyStreams& streams, std::span<const PartCopies> parts) {
  const cuda::Stream down = streams.down.get();
  const cuda::Stream up = streams.up.get();
  for (std::uint32_t i = 0; i < parts.size(); ++i) {
    if (auto done = copy_down(down, parts[i], i + 1); !done) return done;
    if (device_writes_) continue;
    if (auto done = follow(up, down); !done) return done;
    if (auto done = copy_up(up, parts[i], i + 1, i + 1 == parts.size()); !done) return done;
  }
  if (!device_writes_) return Unit{};
  for (std::uint32_t i = 0; i < parts.size(); ++i) {
    if (auto done = copy_up(up, parts[i], i + 1, i + 1 == parts.size()); !done) return done;
  }
  return Unit{};
}

Outcome OrderedOperation::copy_down(cuda::Stream stream, const PartCopies& part,
                                    std::uint32_t count) {
  if (part.in_bytes > 0) {
    auto done = outcome(driver_, "cuMemcpyDtoHAsync",
                        driver_.memcpy_dtoh_async(part.in_host, part.in, part.in_bytes, stream));
    if (!done) return done;
  }
  return write(stream, words_.down, count);
}

// A wait for a part covers all before it, so parts without a result have none, but for the last.
// The host releases `up` of an operation that it gives up, so the stream awaits the input by
// itself: the copy of the result may read the same host memory, and the caller may then free the
// memory of the device. Without a failure, this wait ends long before the result is there.
Outcome OrderedOperation::copy_up(cuda::Stream stream, const PartCopies& part, std::uint32_t count,
                                  bool last) {
  if (part.out_bytes == 0 && !last) return Unit{};
  if (device_writes_) {  // otherwise the stream follows the copy already
    auto done = await(stream, words_.down, count, cuda::kWaitValueGeq);
    if (!done) return done;
  }
  if (auto done = await(stream, words_.up, count, cuda::kWaitValueGeq); !done) return done;
  if (part.out_bytes == 0) return Unit{};
  return outcome(driver_, "cuMemcpyHtoDAsync",
                 driver_.memcpy_htod_async(part.out, part.out_host, part.out_bytes, stream));
}

// What is enqueued to `up` from now on follows what has been enqueued to `down`.
Outcome OrderedOperation::follow(cuda::Stream up, cuda::Stream down) {
  auto done = outcome(driver_, "cuEventRecord", driver_.event_record(down_.get(), down));
  if (!done) return done;
  return outcome(driver_, "cuStreamWaitEvent", driver_.stream_wait_event(up, down_.get(), 0));
}

Outcome OrderedOperation::land(cuda::Stream up, cuda::Stream caller) {
  if (auto done = write(up, words_.up, 0); !done) return done;
  if (auto done = write(up, words_.landed, 1); !done) return done;
  auto done = outcome(driver_, "cuEventRecord", driver_.event_record(end_.get(), up));
  if (!done) return done;
  return outcome(driver_, "cuStreamWaitEvent", driver_.stream_wait_event(caller, end_.get(), 0));
}

Outcome OrderedOperation::write(cuda::Stream stream, std::uint32_t& word, std::uint32_t value) {
  if (!device_writes_) return call(stream, HostStep::write, {&word, value});
  return outcome(driver_, "cuStreamWriteValue32",
                 driver_.stream_write_value32(stream, pool_.device_address(word), value,
                                              cuda::kWriteValueDefault));
}

Outcome OrderedOperation::await(cuda::Stream stream, std::uint32_t& word, std::uint32_t value,
                                unsigned how) {
  if (!device_writes_) {
    return call(stream, HostStep::await, {&word, value, how == cuda::kWaitValueEq});
  }
  return outcome(driver_, "cuStreamWaitValue32",
                 driver_.stream_wait_value32(stream, pool_.device_address(word), value, how));
}

// -- host functions ------------------------------------------------------------------------------

Outcome OrderedOperation::call(cuda::Stream stream, cuda::HostFunction function,
                               const HostStep& step) {
  if (used_steps_ == steps_.size()) steps_.emplace_back();
  HostStep& kept = steps_[used_steps_++];
  kept = step;
  return outcome(driver_, "cuLaunchHostFunc", driver_.launch_host_func(stream, function, &kept));
}

void OrderedOperation::HostStep::write(void* step) {
  const auto& self = *static_cast<const HostStep*>(step);
  store(*self.word, self.value);
}

// The library ends the wait at the latest when the operation fails, by its deadline.
void OrderedOperation::HostStep::await(void* step) {
  const auto& self = *static_cast<const HostStep*>(step);
  constexpr auto kPause = std::chrono::microseconds(20);
  for (;;) {
    const std::uint32_t value = load(*self.word);
    const bool reached = self.exactly ? value == self.value : value >= self.value;
    if (reached) return;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace tally::gpu
