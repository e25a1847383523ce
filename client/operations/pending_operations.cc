#include "client/operations/pending_operations.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dataplane/partition/granules.h"

namespace tally::client {
namespace {

// Contributions of this size, with those of the other ranks, are probably not in the caches.
constexpr std::uint64_t kBeyondCaches = 4 << 20;
// Tags of which the last round is kept, so at most 32 MiB of contributions.
constexpr std::size_t kMostKept = 4096;
// An operation that is interrupted more often may be what its nodes die of.
constexpr std::uint32_t kMostRestores = 8;
constexpr std::uint64_t kAlignment = 64;  // of the result in the memory of again()

std::uint64_t bytes_of(const wire::Notice& notice) {
  return notice.count * element_bytes(notice.type);
}

bool is_small(const wire::Notice& notice) {
  return bytes_of(notice) <= wire::kMostEagerBytes;
}

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
  Pending& pending = pending_[index];
  pending.post = post;
  pending.extents = prepared.extents;
  pending.side = prepared.side;
  pending.again = prepared.again;
  pending.is_copied = false;
  pending.restores = 0;
  if (keeps_) copy_input(pending);
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

bool PendingOperations::end(const Finished& finished, Completed& completed) {
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
    completed.left_out = finished.left_out;
    const std::size_t absent = finished.left_out ? finished.left_out->ranks.size() : 0;
    completed.contributors = ranks_ - static_cast<std::uint32_t>(absent);
    keep_ended(finished);
  } else {
    // In place, an input byte is lost when a result byte has landed on it. The caller's copy of
    // staged memory is the exception, because it is written only after success.
    const bool in_place = overlap(post, pending.extents) && post.out->how() != Region::How::kStaged;
    completed.inputs_gone = finished.started && in_place && !pending.is_copied;
    if (finished.started && in_place && pending.is_copied) restore(index);
  }
  for (Region* region : {post.in, post.out, pending.side}) {
    if (region != nullptr) --region->outstanding;
  }
  free_.push_back(index);
  return !pending.again;
}

// -- repairs -------------------------------------------------------------------------------------

// The copy's memory stays with the entry, so that steady use allocates nothing.
void PendingOperations::copy_input(Pending& pending) const {
  const Post& post = pending.post;
  const std::uint64_t bytes = pending.extents.in.count * element_bytes(post.notice.type);
  const bool wanted = (is_small(post.notice) && !keeps_in_place_) ||
                      ((post.preserve || keeps_in_place_) && overlap(post, pending.extents));
  if (!wanted || (bytes > 0 && !post.in->host_accessible())) return;
  const std::byte* data = bytes > 0 ? post.in->data() + post.notice.in_offset : nullptr;
  pending.copy.assign(data, data + bytes);
  pending.is_copied = true;
}

// The copy stays with the entry, because the memory of a large one would stay with the tag.
void PendingOperations::keep_ended(const Finished& finished) {
  const Pending& pending = pending_[finished.user];
  const bool ended_well = finished.verdict.status == Status::kOk;
  if (keeps_in_place_ || !ended_well || !pending.is_copied || !is_small(pending.post.notice))
    return;
  const auto found = kept_.find(finished.tag);
  if (found == kept_.end() && kept_.size() >= kMostKept) kept_.erase(kept_.begin());
  Kept& kept = found != kept_.end() ? found->second : kept_[finished.tag];
  if (kept.round > finished.round) return;  // the caller takes this completion late
  kept.post = pending.post;
  kept.round = finished.round;
  kept.contribution = pending.copy;
}

RegionUse PendingOperations::use_of(const Region& region) const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> used;  // [begin, end)
  bool has_results = false;
  for (std::uint32_t i = 0; i < pending_.size(); ++i) {
    if (std::find(free_.begin(), free_.end(), i) != free_.end()) continue;
    const Post& post = pending_[i].post;
    const Extents& extents = pending_[i].extents;
    const std::uint64_t size = element_bytes(post.notice.type);
    const std::uint64_t in = post.notice.in_offset, out = post.notice.out_offset;
    if (post.in == &region) used.emplace_back(in, in + extents.in.count * size);
    if (post.out == &region) used.emplace_back(out, out + extents.out.count * size);
    has_results = has_results || (post.out == &region && extents.out.count > 0);
  }
  if (!has_results) return RegionUse::kOnlyRead;
  std::sort(used.begin(), used.end());
  std::uint64_t covered = 0;
  for (const auto& [begin, end] : used) {
    if (begin > covered) return RegionUse::kPart;
    covered = std::max(covered, end);
  }
  return covered >= region.bytes() ? RegionUse::kWhole : RegionUse::kPart;
}

bool PendingOperations::is_spoiled(std::uint64_t number) const {
  const Pending& pending = pending_[number];
  const Post& post = pending.post;
  if (pending.restores >= kMostRestores) return true;
  return !pending.is_copied && overlap(post, pending.extents) &&
         post.out->how() != Region::How::kStaged;
}

void PendingOperations::restore(std::uint64_t number) {
  Pending& pending = pending_[number];
  const Post& post = pending.post;
  ++pending.restores;
  const std::uint64_t bytes = pending.extents.in.count * element_bytes(post.notice.type);
  if (bytes == 0) return;
  if (pending.is_copied) {
    std::memcpy(post.in->data() + post.notice.in_offset, pending.copy.data(), bytes);
  }
  copied_bytes_ += post.in->copy_in(post.notice.in_offset, bytes);
}

bool PendingOperations::stands_with_others(std::uint64_t number) const {
  const wire::Notice& notice = pending_[number].post.notice;
  return keeps_in_place_ || !is_small(notice) || bytes_of(notice) == 0;
}

void PendingOperations::mark_kept(RoundsByTag& rounds) const {
  for (const auto& [tag, kept] : kept_) {
    const auto found = rounds.find(tag);
    if (found == rounds.end()) continue;
    found->second.kept = !found->second.failure && kept.round + 1 == found->second.next;
  }
}

std::uint64_t PendingOperations::bytes_for_again(std::uint32_t tag) const {
  const Kept& kept = kept_.at(tag);
  return bytes_of(kept.post.notice) + kept.contribution.size() + kAlignment;
}

PreparedPost PendingOperations::again(std::uint32_t tag, Region& memory,
                                      std::uint32_t deadline_ms) const {
  const Kept& kept = kept_.at(tag);
  std::memcpy(memory.data(), kept.contribution.data(), kept.contribution.size());
  Post post = kept.post;
  post.in = post.out = &memory;
  post.stats = post.preserve = false;
  post.notice.flags = 0;
  post.notice.in_offset = 0;
  post.notice.out_offset = (kept.contribution.size() + kAlignment - 1) / kAlignment * kAlignment;
  auto prepared = prepare(post, deadline_ms).value();
  prepared.notice.flags = 0;  // without checksums
  prepared.notice.round = kept.round;
  prepared.side_bytes = 0;
  prepared.again = true;
  return prepared;
}

std::vector<std::uint32_t> PendingOperations::tags() const {
  std::vector<std::uint32_t> tags;
  for (const Pending& pending : pending_) tags.push_back(pending.post.notice.tag);
  return tags;
}

}  // namespace tally::client
