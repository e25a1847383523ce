#include "client/operations/pending_operations.h"

#include <cstring>

#include "dataplane/partition/granules.h"

namespace tally::client {
namespace {

// Contributions of this size, with those of the other ranks, are probably not in the caches.
constexpr std::uint64_t kBeyondCaches = 4 << 20;

BlockStats sum_of_stats(const Region& side, std::uint64_t elements) {
  BlockStats sum;
  for (std::uint64_t i = 0; i < stats_blocks(elements); ++i) {
    BlockStats block;
    std::memcpy(&block, side.data() + i * sizeof block, sizeof block);
    sum.sum_of_squares += block.sum_of_squares;
    sum.nonfinite += block.nonfinite;
  }
  return sum;
}

}  // namespace

protocol::Shape PendingOperations::shape_of(const wire::Notice& notice) const {
  return {notice.kind, notice.type, notice.operation, notice.root, ranks_, notice.count};
}

Result<PreparedPost> PendingOperations::prepare(const Post& post,
                                                std::uint32_t default_deadline_ms) const {
  const protocol::Shape shape = shape_of(post.notice);
  PreparedPost prepared{post, {}, post.notice};
  Extents& extents = prepared.extents;
  extents.in = protocol::contribution(shape, rank_);
  extents.out = protocol::result(shape, rank_);
  if (auto fine = check(post, extents, gives_checksums()); !fine) return fine.error();

  wire::Notice& notice = prepared.notice;
  if (notice.deadline_ms == 0) notice.deadline_ms = default_deadline_ms;
  // A notice has no region and offset where the rank has no bytes.
  notice.in_offset = notice.out_offset = 0;
  if (extents.in.count > 0) {
    notice.in_region = post.in->id;
    notice.in_offset = post.notice.in_offset;
  }
  if (extents.out.count > 0) {
    notice.out_region = post.out->id;
    notice.out_offset = post.notice.out_offset;
  }
  if (post.stats) notice.flags |= wire::kWantStats;
  prepared.side_bytes = protocol::checksums_offset(shape.count, post.stats);
  if (gives_checksums() && extents.in.count > 0) {
    notice.flags |= wire::kHasChecksums;
    prepared.side_bytes += protocol::checksum_bytes(shape, rank_);
  }
  return prepared;
}

std::uint32_t PendingOperations::next_index() {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(pending_.size()));
    pending_.emplace_back();
  }
  return free_.back();
}

void PendingOperations::use_regions(const PreparedPost& prepared) {
  const std::uint32_t index = next_index();
  free_.pop_back();
  const Post& post = prepared.post;
  for (Region* region : {post.in, post.out, prepared.side}) {
    if (region != nullptr) ++region->outstanding;
  }
  if (post.in != nullptr) {
    copied_bytes_ += post.in->copy_in(post.notice.in_offset,
                                      prepared.extents.in.count * element_bytes(post.notice.type));
  }
  if ((prepared.notice.flags & wire::kHasChecksums) != 0) give_checksums(prepared);
  pending_[index] = {post, prepared.extents, prepared.side};
}

// Computes the checksums of the bytes that the caller sees, so that the node notices every later
// change.
void PendingOperations::give_checksums(const PreparedPost& prepared) const {
  const Post& post = prepared.post;
  const protocol::Shape shape = shape_of(post.notice);
  const std::byte* data = post.in->data() + post.notice.in_offset;
  std::byte* checksums =
      prepared.side->data() + protocol::checksums_offset(shape.count, post.stats);
  const bool streamed = prepared.extents.in.count * element_bytes(shape.type) >= kBeyondCaches;
  protocol::for_each_granule(shape, rank_, [&](auto number, auto at, auto bytes) {
    const std::span granule(data + at, bytes);
    const protocol::Checksum checksum = streamed ? crc32c_->streamed(granule) : (*crc32c_)(granule);
    std::memcpy(checksums + number * sizeof checksum, &checksum, sizeof checksum);
  });
}

std::span<const std::byte> PendingOperations::contribution(std::uint32_t index) const {
  const Pending& pending = pending_[index];
  const Post& post = pending.post;
  const std::uint64_t bytes = pending.extents.in.count * element_bytes(post.notice.type);
  if (bytes == 0 || gives_checksums() || !post.in->host_accessible()) return {};
  return {post.in->data() + post.notice.in_offset, bytes};
}

void PendingOperations::end(const Finished& finished, Completed& completed) {
  const auto index = static_cast<std::uint32_t>(finished.user);
  Pending& pending = pending_[index];
  const Post& post = pending.post;
  completed = Completed{};
  completed.status = finished.verdict.status;
  completed.tag = finished.tag;
  completed.round = finished.round;
  completed.user = post.user;
  completed.culprit = finished.verdict.culprit;
  if (completed.status == Status::kOk) {
    const std::uint64_t elements = pending.extents.out.count;
    if (post.out != nullptr) {
      copied_bytes_ +=
          post.out->copy_out(post.notice.out_offset, elements * element_bytes(post.notice.type));
    }
    if (post.stats) completed.stats = sum_of_stats(*pending.side, elements);
  } else {
    // In place, an input byte is lost when a result byte has landed on it. The caller's copy of
    // staged memory is the exception, because it is written only after success.
    const bool in_place = overlap(post, pending.extents) && post.in->how() != Region::How::kStaged;
    completed.inputs_gone = finished.started && in_place;
  }
  for (Region* region : {post.in, post.out, pending.side}) {
    if (region != nullptr) --region->outstanding;
  }
  free_.push_back(index);
}

std::vector<std::uint32_t> PendingOperations::tags() const {
  std::vector<std::uint32_t> tags;
  for (const Pending& pending : pending_) tags.push_back(pending.post.notice.tag);
  return tags;
}

}  // namespace tally::client
