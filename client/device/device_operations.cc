#include "client/device/device_operations.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "client/device/keep_until_exit.h"
#include "client/device/unlocked.h"
#include "gpu_bridge/stream/progress_thread.h"
#include "gpu_bridge/stream/stream_state.h"

namespace tally::client {
namespace {

Error of_tag(std::uint32_t tag, const Error& error) {
  return Error{error.status, fmt::format("tag {}: {}", tag, error.message)};
}

}  // namespace

DeviceOperations::~DeviceOperations() {
  bool in_use = false;
  for (Live& live : operations_) {
    live.operation->ordered().release_streams();
    if (!live.under_way()) continue;
    in_use = true;
    live.context->retire(live.operation->take_ordered());
    if (live.captured != nullptr) keep_until_exit(std::move(live.captured));
  }
  for (const auto& [handle, context] : contexts_) in_use |= context->has_retired();
  if (!in_use) return;
  regions_.keep_pinned();
  for (auto& [handle, context] : contexts_) keep_until_exit(std::move(context));
}

// -- regions -------------------------------------------------------------------------------------

Result<Region*> DeviceOperations::add_region(Lock& lock, cuda::Pointer data, std::size_t bytes) {
  const auto memory = gpu::describe(driver_, data, bytes);
  if (!memory) return memory.error();
  if (auto has_context = add_context(lock, memory->context); !has_context) {
    return has_context.error();
  }
  const auto added = regions_.add(lock, *memory);
  if (!added) return added.error();
  return (*added)->region;
}

Outcome DeviceOperations::add_context(Lock& lock, cuda::Context handle) {
  if (contexts_.contains(handle)) return Unit{};
  auto made = [&] {
    const Unlocked unlocked(lock);
    return DeviceContext::make(driver_, handle);
  }();
  if (!made) return made.error();
  contexts_.emplace(handle, std::move(made).value());
  return Unit{};
}

Outcome DeviceOperations::remove_region(Lock& lock, Region* region) {
  const DeviceRegion* const removed = regions_.find(region);
  for (const Live& live : operations_) {
    const DeviceBuffers& buffers = live.operation->buffers();
    if (buffers.in != removed && buffers.out != removed) continue;
    const char* const why = live.captured != nullptr
                                ? "belongs to a CUDA graph, and the region stays until tally_close"
                                : "is outstanding";
    return Error{Status::kAgain, fmt::format("the operation of tag {} on the region {}",
                                             live.operation->tag(), why)};
  }
  // The copies of operations that have failed may still be enqueued.
  const bool in_use = contexts_.at(removed->memory.context)->has_retired();
  return regions_.remove(lock, region, in_use);
}

// -- posting -------------------------------------------------------------------------------------

Outcome DeviceOperations::check(const Post& post, const DeviceBuffers& buffers) const {
  const std::uint32_t tag = post.notice.tag;
  for (const DeviceRegion* const region : {buffers.in, buffers.out}) {
    if (region == nullptr || !region->removing) continue;
    return Error{Status::kBadRegion,
                 fmt::format("tag {}: tally_region_free has failed for this region: use another "
                             "one, or close the session",
                             tag)};
  }
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

Outcome DeviceOperations::post(Lock& lock, const Post& post, cuda::Stream stream) {
  const DeviceBuffers buffers{regions_.find(post.in), regions_.find(post.out)};
  if (auto fine = check(post, buffers); !fine) return fine;
  const auto& config = session_.book_config();
  const wire::Notice& notice = post.notice;
  const protocol::Shape shape{notice.kind, notice.type,  notice.operation,
                              notice.root, config.ranks, notice.count};
  Live made;
  made.operation = std::make_unique<DeviceOperation>(post, shape, config.rank, buffers);
  if (auto fine = made.operation->check(); !fine) return fine;
  made.context = contexts_.at(buffers.any().memory.context).get();
  if (auto prepared = prepare(made, stream); !prepared) return prepared;
  Live& live = add(std::move(made));
  // A queue of the device may be full, and becomes empty only as operations go on: also this one,
  // because its own calls may be more than fit.
  live.enqueuing = true;
  const auto enqueued = [&]() -> Outcome {
    const Unlocked unlocked(lock);
    try {
      return enqueue(live, stream);
    } catch (const std::bad_alloc&) {
      return of_tag(notice.tag, {Status::kNoMemory, "no memory is left to enqueue the operation"});
    }
  }();
  live.enqueuing = false;
  return enqueued ? enqueued : stop_enqueuing(live, enqueued.error());
}

Outcome DeviceOperations::prepare(Live& live, cuda::Stream stream) {
  DeviceOperation& operation = *live.operation;
  const auto capturing = gpu::is_capturing(driver_, live.context->handle(), stream);
  if (!capturing) return of_tag(operation.tag(), capturing.error());
  if (*capturing) {
    auto streams = gpu::CopyStreams::make(driver_, live.context->handle());
    if (!streams) return streams.error();
    live.captured = std::make_unique<Captured>();
    live.captured->streams = std::move(streams).value();
    live.captured->wake_fd = UniqueFd(::fcntl(wake_fd_, F_DUPFD_CLOEXEC, 0));
    if (!live.captured->wake_fd) {
      return of_tag(operation.tag(), {Status::kNoMemory, std::strerror(errno)});
    }
  }
  auto ordered = live.context->take();
  if (!ordered) return ordered.error();
  operation.follow(std::move(ordered).value());
  copies_.clear();
  for (std::uint32_t i = 0; i < operation.size(); ++i) {
    copies_.push_back(operation.copies_of(i));
    live.copied_bytes += copies_.back().in_bytes + copies_.back().out_bytes;
  }
  return Unit{};
}

DeviceOperations::Live& DeviceOperations::add(Live live) {
  if (live.captured == nullptr) ++outstanding_;
  operations_.push_back(std::move(live));
  Live& added = operations_.back();
  by_tag_.emplace(added.operation->tag(), std::prev(operations_.end()));
  return added;
}

void DeviceOperations::remove(Live& live) {
  if (live.captured == nullptr) --outstanding_;
  const auto found = by_tag_.find(live.operation->tag());
  operations_.erase(found->second);
  by_tag_.erase(found);
}

Outcome DeviceOperations::enqueue(Live& live, cuda::Stream stream) {
  gpu::OrderedOperation& ordered = live.operation->ordered();
  if (live.captured == nullptr) return ordered.enqueue(live.context->streams(), stream, copies_);
  return ordered.capture(live.captured->streams, stream, copies_,
                         {Captured::begin_round, live.captured.get()});
}

Outcome DeviceOperations::stop_enqueuing(Live& live, const Error& error) {
  DeviceOperation& operation = *live.operation;
  operation.ordered().release_streams();
  if (operation.has_posted()) {
    operation.lose_device(error);
    end_chunks(operation);
    return Unit{};
  }
  live.context->retire(operation.take_ordered());
  remove(live);
  return error;
}

Result<bool> DeviceOperations::is_capturing(const Post& post, cuda::Stream stream) const {
  const DeviceBuffers buffers{regions_.find(post.in), regions_.find(post.out)};
  if (buffers.in == nullptr && buffers.out == nullptr) return false;
  return gpu::is_capturing(driver_, buffers.any().memory.context, stream);
}

bool DeviceOperations::cancel(std::uint32_t tag) {
  const auto found = by_tag_.find(tag);
  if (found == by_tag_.end() || !found->second->under_way()) return false;
  end_chunks(*found->second->operation);
  return true;
}

void DeviceOperations::cancel_all() {
  for (Live& live : operations_) {
    if (live.under_way()) end_chunks(*live.operation);
  }
}

void DeviceOperations::Captured::begin_round(void* captured) {
  auto& self = *static_cast<Captured*>(captured);
  self.rounds.fetch_add(1, std::memory_order_release);
  gpu::make_readable(self.wake_fd.get());
}

// -- progress ------------------------------------------------------------------------------------

bool DeviceOperations::take(Completed& completed) {
  const Chunks::ChunkId chunk = Chunks::chunk_id_of(completed.tag);
  const auto found = by_tag_.find(chunk.tag);
  if (found == by_tag_.end()) return false;
  DeviceOperation& operation = *found->second->operation;
  // An operation on host memory from before the first region of a device may have any tag.
  if (chunk.index >= operation.size() || !operation.outstanding(chunk.index)) return false;
  const bool had_failed = operation.given_up();
  operation.end(chunk.index, std::move(completed));
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

bool DeviceOperations::post_chunks(DeviceOperation& operation, bool& any) {
  while (operation.has_next()) {
    const std::uint32_t index = operation.next();
    const auto posted = session_.post(operation.post_of(index));
    if (posted.status() == Status::kNoCredit) return false;
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
  return true;
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
  bool has_credit = true;
  for (auto at = operations_.begin(); at != operations_.end();) {
    Live& live = *at++;
    if (has_credit) has_credit = post_chunks(*live.operation, any);
    any |= publish(live);
    if (live.enqueuing || !live.operation->has_ended()) continue;
    any = true;
    finish(live);
  }
  return any;
}

void DeviceOperations::finish(Live& live) {
  DeviceOperation& operation = *live.operation;
  gpu::OrderedOperation& ordered = operation.ordered();
  const bool reusable = ordered.landed() && !operation.device_lost();
  if (reusable) {
    ordered.next_round();
  } else {
    ordered.release_streams();
  }
  Completed completed = operation.take_completion();
  copied_bytes_ += live.copied_bytes;
  const bool failed = completed.status != Status::kOk;
  // A round of a graph has a completion only when it fails, because the caller may not wait for
  // rounds.
  if (live.captured == nullptr || failed) finished_.push_back(std::move(completed));
  if (live.captured != nullptr) {
    live.captured->rounds.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  if (reusable) {
    live.context->give_back(operation.take_ordered());
  } else {
    live.context->retire(operation.take_ordered());
  }
  remove(live);
}

void DeviceOperations::look_for_failures() {
  for (const auto& [handle, known] : contexts_) {
    const DeviceContext* const context = known.get();
    // A call that waits for room in a queue may hold a lock of the driver, and returns an error
    // when the device fails.
    const bool is_enqueuing =
        std::any_of(operations_.begin(), operations_.end(),
                    [&](const Live& live) { return live.enqueuing && live.context == context; });
    if (is_enqueuing) continue;
    const auto alive = context->alive();
    if (alive) continue;
    for (Live& live : operations_) {
      if (live.context != context || !live.under_way()) continue;
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

bool DeviceOperations::is_idle() const {
  return std::none_of(operations_.begin(), operations_.end(),
                      [](const Live& live) { return live.under_way(); });
}

bool DeviceOperations::waits_for_device() const {
  return std::any_of(operations_.begin(), operations_.end(), [](const Live& live) {
    return live.under_way() && live.operation->waits_for_device();
  });
}

}  // namespace tally::client
