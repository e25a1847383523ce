#include "client/device/device_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace tally::client {

DeviceOperation::DeviceOperation(const Post& post, const protocol::Shape& shape, std::uint16_t rank,
                                 const DeviceBuffers& buffers)
    : post_(post),
      shape_(shape),
      rank_(rank),
      buffers_(buffers),
      chunks_(shape, post.notice.tag),
      extents_{protocol::contribution(shape, rank), protocol::result(shape, rank)},
      ended_(chunks_.size()) {}

std::uint64_t DeviceOperation::offset_of(std::uint64_t buffer_offset, const protocol::Extent& whole,
                                         const protocol::Extent& part, const Chunk& chunk) const {
  if (part.count == 0) return buffer_offset;
  return buffer_offset + (chunk.first + part.first - whole.first) * element_bytes(shape_.type);
}

Post DeviceOperation::post_of(std::uint32_t index) const {
  const Chunk chunk = chunks_[index];
  Post post = post_;
  wire::Notice& notice = post.notice;
  notice.kind = chunk.shape.kind;
  notice.root = chunk.shape.root;
  notice.tag = chunk.tag;
  notice.count = chunk.shape.count;
  notice.in_offset =
      offset_of(notice.in_offset, extents_.in, protocol::contribution(chunk.shape, rank_), chunk);
  notice.out_offset =
      offset_of(notice.out_offset, extents_.out, protocol::result(chunk.shape, rank_), chunk);
  post.user = index;
  return post;
}

gpu::PartCopies DeviceOperation::copies_of(std::uint32_t index) const {
  const Chunk chunk = chunks_[index];
  const Post post = post_of(index);
  const std::uint64_t element = element_bytes(shape_.type);
  gpu::PartCopies copies;
  if (buffers_.in != nullptr && buffers_.in->staged) {
    copies.in = buffers_.in->memory.data + post.notice.in_offset;
    copies.in_host = post_.in->data() + post.notice.in_offset;
    copies.in_bytes = protocol::contribution(chunk.shape, rank_).count * element;
  }
  if (buffers_.out != nullptr && buffers_.out->staged) {
    copies.out = buffers_.out->memory.data + post.notice.out_offset;
    copies.out_host = post_.out->data() + post.notice.out_offset;
    copies.out_bytes = protocol::result(chunk.shape, rank_).count * element;
  }
  return copies;
}

void DeviceOperation::end(std::uint32_t index, Completed&& completed) {
  ended_[index] = true;
  ++ended_count_;
  while (up_ < size() && ended_[up_]) ++up_;
  // Of chunk 0: the round of the operation's own tag.
  if (index == 0) completion_.round = completed.round;
  if (completed.status == Status::kOk) {
    // A rank may be lost between two chunks: the result has what all chunks have.
    if (ended_count_ == 1 || completed.contributors < completion_.contributors) {
      completion_.contributors = completed.contributors;
      completion_.left_out = completed.left_out;
    }
    completion_.stats.sum_of_squares += completed.stats.sum_of_squares;
    completion_.stats.nonfinite += completed.stats.nonfinite;
    return;
  }
  given_up_ = true;
  completed.message = with_own_tag(std::move(completed.message), index);
  fail(std::move(completed));
}

// The caller does not know the tags of chunks.
std::string DeviceOperation::with_own_tag(std::string message, std::uint32_t index) const {
  const std::string chunk_tag = "tag " + std::to_string(chunks_[index].tag) + " ";
  if (index == 0 || !message.starts_with(chunk_tag)) return message;
  return fmt::format("tag {}, chunk {} of {}, {}", tag(), index + 1, size(),
                     message.substr(chunk_tag.size()));
}

void DeviceOperation::fail(Completed&& completed) {
  completion_.inputs_gone |= completed.inputs_gone;
  if (completion_.status != Status::kOk) return;
  completion_.status = completed.status;
  completion_.culprit = completed.culprit;
  completion_.message = std::move(completed.message);
}

void DeviceOperation::publish() {
  published_ = up_;
  if (!device_lost_) ordered_->set_up(up_);  // otherwise the streams are released, or will be
}

void DeviceOperation::lose_device(const Error& why) {
  if (device_lost_) return;
  device_lost_ = given_up_ = true;
  for (; posted_ < size(); ++posted_) {
    ended_[posted_] = true;
    ++ended_count_;
  }
  Completed completed;
  completed.status = why.status;
  completed.message = why.message;
  fail(std::move(completed));
}

Completed DeviceOperation::take_completion() {
  Completed completed = std::exchange(completion_, Completed{});
  completed.tag = tag();
  completed.user = post_.user;
  // In place, copies of the result may have overwritten the input.
  if (completed.status != Status::kOk && overlap(post_, extents_)) completed.inputs_gone = true;
  if (completed.status != Status::kOk) completed.contributors = 0;
  if (completed.status != Status::kOk) completed.left_out = nullptr;
  posted_ = ended_count_ = up_ = published_ = 0;
  given_up_ = false;
  std::fill(ended_.begin(), ended_.end(), false);
  return completed;
}

}  // namespace tally::client
