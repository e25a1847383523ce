#include "client/device/device_operations.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "gpu_bridge/stream/stream_state.h"

namespace tally::client {
namespace {

Error of_tag(std::uint32_t tag, const Error& error) {
  return Error{error.status, fmt::format("tag {}: {}", tag, error.message)};
}

}  // namespace

DeviceOperations::~DeviceOperations() {
  bool in_use = false;
  for (auto& [tag, live] : operations_) {
    live.operation->ordered().let_go();
    if (!live.under_way()) continue;
    in_use = true;
    live.context->retire(live.operation->give_back());
    static_cast<void>(live.captured.release());
  }
  for (const auto& [handle, context] : contexts_) in_use |= context->has_retired();
  if (!in_use) return;
  regions_.abandon();
  for (const auto& [handle, context] : contexts_) context->abandon();
}

// -- regions -------------------------------------------------------------------------------------

Result<Region*> DeviceOperations::add_region(cuda::Pointer data, std::size_t bytes) {
  const auto memory = gpu::describe(driver_, data, bytes);
  if (!memory) return memory.error();
  if (const auto context = context_of(memory->context); !context) return context.error();
  const auto added = regions_.add(*memory);
  if (!added) return added.error();
  return (*added)->region;
}

Outcome DeviceOperations::remove_region(Region* region) {
  const DeviceRegion* const removed = regions_.find(region);
  for (const auto& [tag, live] : operations_) {
    const DeviceBuffers& buffers = live.operation->buffers();
    if (buffers.in != removed && buffers.out != removed) continue;
    const char* const why = live.captured != nullptr
                                ? "belongs to a CUDA graph, and the region stays until tally_close"
                                : "is outstanding";
    return Error{Status::kAgain, fmt::format("the operation of tag {} on the region {}", tag, why)};
  }
  return regions_.remove(region);
}

// -- posting -------------------------------------------------------------------------------------

Result<DeviceContext*> DeviceOperations::context_of(cuda::Context handle) {
  const auto known = contexts_.find(handle);
  if (known != contexts_.end()) return known->second.get();
  auto made = DeviceContext::make(driver_, handle);
  if (!made) return made.error();
  return contexts_.emplace(handle, std::move(made).value()).first->second.get();
}

Outcome DeviceOperations::check(const Post& post, const DeviceBuffers& buffers) const {
  const std::uint32_t tag = post.notice.tag;
  if (has(tag) || session_.outstanding(tag)) {
    return refusal(Status::kDuplicate, tag, session_.book_config().credit);
  }
  if (buffers.in != nullptr && buffers.out != nullptr &&
      buffers.in->memory.context != buffers.out->memory.context) {
    return invalid(fmt::format(
        "tag {}: in and out are memory of different devices: use regions of one device", tag));
  }
  return session_.check(post);
}

Outcome DeviceOperations::post(const Post& post, cuda::Stream stream) {
  const DeviceBuffers buffers{regions_.find(post.in), regions_.find(post.out)};
  if (auto fine = check(post, buffers); !fine) return fine;
  const auto& config = session_.book_config();
  const wire::Notice& notice = post.notice;
  const protocol::Shape shape{notice.kind, notice.type,  notice.operation,
                              notice.root, config.ranks, notice.count};
  Live live;
  live.operation = std::make_unique<DeviceOperation>(post, shape, config.rank, buffers);
  if (auto fine = live.operation->check(); !fine) return fine;
  const auto context = context_of(buffers.any().memory.context);
  if (!context) return context.error();
  live.context = *context;
  if (auto enqueued = enqueue(live, stream); !enqueued) return enqueued;
  if (live.captured == nullptr) ++outstanding_;
  operations_.emplace(notice.tag, std::move(live));
  return Unit{};
}

Outcome DeviceOperations::enqueue(Live& live, cuda::Stream stream) {
  const auto capturing = gpu::is_capturing(driver_, live.context->handle(), stream);
  if (!capturing) return of_tag(live.operation->tag(), capturing.error());
  if (*capturing) {
    auto streams = gpu::CopyStreams::make(driver_, live.context->handle());
    if (!streams) return streams.error();
    live.captured = std::make_unique<Captured>();
    live.captured->streams = std::move(streams).value();
    live.captured->wake_fd = wake_fd_;
  }
  auto taken = live.context->take();
  if (!taken) return taken.error();
  auto ordered = std::move(taken).value();
  const DeviceOperation& operation = *live.operation;
  copies_.clear();
  for (std::uint32_t i = 0; i < operation.size(); ++i) {
    copies_.push_back(operation.copies_of(i));
    live.copied_bytes += copies_.back().in_bytes + copies_.back().out_bytes;
  }
  auto enqueued = live.captured == nullptr
                      ? ordered->enqueue(live.context->streams(), stream, copies_)
                      : ordered->capture(live.captured->streams, stream, copies_,
                                         {Captured::begin_round, live.captured.get()});
  if (!enqueued) {
    ordered->let_go();
    live.context->retire(std::move(ordered));
    return enqueued;
  }
  live.operation->follow(std::move(ordered));
  return Unit{};
}

Result<bool> DeviceOperations::is_capturing(const Post& post, cuda::Stream stream) const {
  const DeviceBuffers buffers{regions_.find(post.in), regions_.find(post.out)};
  if (buffers.in == nullptr && buffers.out == nullptr) return false;
  return gpu::is_capturing(driver_, buffers.any().memory.context, stream);
}

bool DeviceOperations::cancel(std::uint32_t tag) {
  const auto found = operations_.find(tag);
  if (found == operations_.end()) return false;
  if (!found->second.under_way()) return false;
  end_chunks(*found->second.operation);
  return true;
}

void DeviceOperations::cancel_all() {
  for (auto& [tag, live] : operations_) {
    if (live.under_way()) end_chunks(*live.operation);
  }
}

void DeviceOperations::Captured::begin_round(void* captured) {
  auto& self = *static_cast<Captured*>(captured);
  self.rounds.fetch_add(1, std::memory_order_release);
  const std::uint64_t one = 1;
  static_cast<void>(::write(self.wake_fd, &one, sizeof one));
}

// -- progress ------------------------------------------------------------------------------------

bool DeviceOperations::take(Completed& completed) {
  const Chunks::Place place = Chunks::place_of(completed.tag);
  const auto found = operations_.find(place.tag);
  if (found == operations_.end()) return false;
  DeviceOperation& operation = *found->second.operation;
  // An operation on host memory from before the first region of a device may have any tag.
  if (place.index >= operation.size() || !operation.outstanding(place.index)) return false;
  const bool had_failed = operation.given_up();
  operation.end(place.index, std::move(completed));
  if (operation.given_up() && !had_failed) end_chunks(operation);
  return true;
}

// All ranks get the status of a chunk that fails or is cancelled, so all of them end the others.
void DeviceOperations::end_chunks(DeviceOperation& operation) {
  operation.give_up();
  for (std::uint32_t i = 0; i < operation.size(); ++i) {
    if (operation.outstanding(i)) static_cast<void>(session_.cancel(operation.chunk(i).tag));
  }
}

bool DeviceOperations::post_chunks(DeviceOperation& operation) {
  bool any = false;
  while (operation.has_next()) {
    const std::uint32_t index = operation.next();
    const auto posted = session_.post(operation.post_of(index));
    if (posted.status() == Status::kNoCredit) return any;
    any = true;
    operation.posted();
    if (!posted) {
      Completed completed;
      completed.status = posted.error().status;
      completed.message = posted.error().message;
      operation.end(index, std::move(completed));
      end_chunks(operation);
    } else if (operation.given_up()) {
      static_cast<void>(session_.cancel(operation.chunk(index).tag));
    }
  }
  return any;
}

bool DeviceOperations::publish(const Live& live) {
  DeviceOperation& operation = *live.operation;
  if (!operation.has_results()) return false;
  const DeviceRegion* const out = operation.buffers().out;
  if (out != nullptr && out->needs_flush && !out->staged) {
    const auto flushed = gpu::flush_adapter_writes(driver_, live.context->handle());
    if (!flushed) operation.lose_device(flushed.error());
  }
  operation.publish();
  return true;
}

bool DeviceOperations::progress() {
  bool any = false;
  for (auto at = operations_.begin(); at != operations_.end();) {
    Live& live = at->second;
    any |= post_chunks(*live.operation);
    any |= publish(live);
    if (!live.operation->has_ended()) {
      ++at;
      continue;
    }
    any = true;
    finish(live);
    at = live.captured == nullptr ? operations_.erase(at) : std::next(at);
  }
  return any;
}

void DeviceOperations::finish(Live& live) {
  DeviceOperation& operation = *live.operation;
  const bool reusable = operation.ordered().landed();
  Completed completed = operation.take_verdict();
  copied_bytes_ += live.copied_bytes;
  if (reusable) operation.ordered().next_round();
  const bool failed = completed.status != Status::kOk;
  // A round of a graph has a completion only when it fails, because the caller may not wait for
  // rounds.
  if (live.captured == nullptr || failed) finished_.push_back(std::move(completed));
  if (live.captured != nullptr) {
    live.captured->rounds.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  --outstanding_;
  if (reusable) {
    live.context->give_back(operation.give_back());
  } else {
    operation.ordered().let_go();
    live.context->retire(operation.give_back());
  }
}

void DeviceOperations::look_for_failures() {
  for (const auto& [handle, context] : contexts_) {
    const auto alive = context->alive();
    if (alive) continue;
    for (auto& [tag, live] : operations_) {
      if (live.context != context.get() || !live.under_way()) continue;
      live.operation->lose_device(alive.error());
      end_chunks(*live.operation);
    }
  }
}

bool DeviceOperations::take_finished(Completed& completed) {
  if (finished_.empty()) return false;
  completed = std::move(finished_.front());
  finished_.pop_front();
  return true;
}

bool DeviceOperations::waits_for_device() const {
  for (const auto& [tag, live] : operations_) {
    if (live.under_way() && live.operation->waits_for_device()) return true;
  }
  return false;
}

}  // namespace tally::client
