// The buffers of a session's operations between post and completion. At the post it checks them,
// writes the notice, copies staged memory, and computes checksums. At the completion it copies the
// result, reads the statistics, and releases the regions. In a job that can be repaired it also
// keeps the contributions that may be needed again. The regions belong to the caller. It knows no
// node and no book. One thread at a time uses it, as with the session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/block_stats.h"
#include "base/crc32c.h"
#include "base/result.h"
#include "client/memory/region.h"
#include "client/operations/left_out.h"
#include "client/operations/operation_book.h"
#include "client/operations/post.h"
#include "client/operations/tag_rounds.h"
#include "dataplane/partition/collective.h"
#include "dataplane/wire/notice.h"

namespace tally::client {

struct Completed {
  Status status = Status::kOk;
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  std::uint64_t user = 0;
  std::uint16_t culprit = wire::kNoRank;
  bool inputs_gone = false;
  BlockStats stats;
  std::string message;  // empty on success
  // On success: how many ranks have contributed, and which ranks were left out; null: none.
  std::uint32_t contributors = 0;
  std::shared_ptr<const LeftOut> left_out{};
};

// An operation of which the buffers are valid, before it is posted.
struct PreparedPost {
  Post post;
  Extents extents;
  wire::Notice notice;
  std::uint64_t side_bytes = 0;  // of the region for statistics and checksums
  Region* side = nullptr;
  bool again = false;  // the library does a round again, of which the caller has the completion

  bool needs_side() const { return notice.flags != 0; }
  void use_side(Region& region) {
    side = &region;
    notice.side_region = region.id;
  }
};

class PendingOperations {
 public:
  // `crc32c` is null when this rank gives no checksums.
  PendingOperations(std::uint16_t rank, std::uint16_t ranks, const Crc32c* crc32c)
      : rank_(rank), ranks_(ranks), crc32c_(crc32c) {}

  bool gives_checksums() const { return crc32c_ != nullptr; }
  // Bytes copied between the caller's memory and the node's.
  std::uint64_t copied_bytes() const { return copied_bytes_; }

  // The error of prepare(), without the notice.
  Outcome validate(const Post& post) const {
    const auto prepared = prepare(post, 0);
    return prepared ? Outcome(Unit{}) : prepared.error();
  }
  // Checks the post and writes its notice. The caller provides a side region when the result needs
  // one.
  Result<PreparedPost> prepare(const Post& post, std::uint32_t default_deadline_ms) const;
  // Calls `place` with the number of the operation, which is `user` in its book, and returns its
  // result. When the status of the result is kOk, the operation uses its regions until end().
  template <typename Place>
  auto begin(const PreparedPost& prepared, Place place) {
    auto placed = place(next_index());
    if (placed.status == Status::kOk) use_regions(prepared);
    return placed;
  }
  // All bytes that the rank gives to the operation, when they may travel with the notice. Empty for
  // memory of a device. Empty with checksums too, because a node cannot ask for these bytes again
  // when they are damaged on their way.
  std::span<const std::byte> contribution(std::uint32_t index) const;
  // The operation has ended: fills `completed`, less the message of a failure. False: it was a
  // round that the library did again, and the caller gets no completion.
  bool end(const Finished& finished, Completed& completed);

  // -- Repairs ---------------------------------------------------------------------------------
  // Operations have numbers as in begin(). From now on, small contributions are copied at the post,
  // and others in place when the post asks for that.
  void keep_inputs() { keeps_ = true; }
  // From now on, all contributions in place are copied, because the job goes on without ranks that
  // are lost. No result is eager in such a job: an eager result may have reached one rank alone,
  // and doing the round again among fewer ranks gives another result. So no ended round is kept.
  void keep_inputs_in_place() { keeps_ = keeps_in_place_ = true; }
  // By operations that have no completion yet.
  RegionUse use_of(const Region& region) const;
  // Whether the operation cannot be done again: a loss may have destroyed the contribution, of
  // which there is no copy, or the operation has been interrupted too often.
  bool is_spoiled(std::uint64_t number) const;
  // Writes the contribution where the post had it, so that the operation can be done again.
  void restore(std::uint64_t number);
  // Whether the result stands here when the round has succeeded at another rank. Small results are
  // eager: one rank may have its result while that of another is on its way.
  bool stands_with_others(std::uint64_t number) const;
  // As end() will, for an operation of which the caller has not taken the completion yet.
  void keep_ended(const Finished& finished);
  // Notes the rounds that this rank can do again.
  void mark_kept(RoundsByTag& rounds) const;
  // The memory that again() needs, and the post of the tag's last round with the contribution in
  // that memory. Precondition: the round is marked.
  std::uint64_t bytes_for_again(std::uint32_t tag) const;
  PreparedPost again(std::uint32_t tag, Region& memory, std::uint32_t deadline_ms) const;

  // The tag of the last operation of each entry; 0 for an entry without one. A caller checks which
  // of them are outstanding.
  std::vector<std::uint32_t> tags() const;

 private:
  struct Pending {
    Post post;
    Extents extents;
    Region* side = nullptr;
    bool again = false;
    bool is_copied = false;
    std::uint32_t restores = 0;
    std::vector<std::byte> copy;  // of the contribution
  };
  // The last round of a tag, which was small and ended well.
  struct Kept {
    Post post;
    std::uint32_t round = 0;
    std::vector<std::byte> contribution;
  };

  std::uint32_t next_index();
  void copy_input(Pending& pending) const;
  void use_regions(const PreparedPost& prepared);
  protocol::Shape shape_of(const wire::Notice& notice) const;
  void give_checksums(const PreparedPost& prepared) const;

  std::uint16_t rank_;
  std::uint16_t ranks_;
  const Crc32c* crc32c_;
  std::vector<Pending> pending_;
  std::vector<std::uint32_t> free_;
  std::uint64_t copied_bytes_ = 0;
  bool keeps_ = false;
  bool keeps_in_place_ = false;
  std::unordered_map<std::uint32_t, Kept> kept_;  // by tag
};

}  // namespace tally::client
