// The bookkeeping of a session's operations between post and completion. The book cuts an operation
// into parts and writes their notices. It counts credit and rounds, merges the completions of the
// parts into one, and cancels the other parts when one fails. It uses no ring, no memory of the
// caller and no clock, so simulations use the same code.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/operations/left_out.h"
#include "client/operations/tag_rounds.h"
#include "dataplane/partition/collective.h"
#include "dataplane/partition/partition.h"
#include "dataplane/wire/completion.h"
#include "dataplane/wire/notice.h"

namespace tally::client {

struct BookConfig {
  protocol::Partition partition;
  // The shard of each tree's notices. Indices number the shards of all nodes from 0. Trees may
  // share a shard. Empty: each tree has its own shard, in order.
  std::vector<std::uint32_t> shards;
  std::uint16_t rank = 0;
  std::uint16_t ranks = 1;
  std::uint32_t epoch = 1;
  std::uint32_t credit = 256;  // per shard
  // Ascending: the ranks of the job that are lost and have no place in this version.
  std::vector<std::uint16_t> left_out;
};

// A notice and the index of the shard that gets it.
struct Outbound {
  std::uint32_t shard = 0;
  wire::Notice notice;
};

// An operation of which all parts have ended.
struct Finished {
  wire::Completion verdict;  // of the part that decides; status kOk when all parts succeeded
  std::uint64_t user = 0;
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  bool started = false;  // failed after result bytes may have landed
  // Of the version that carried the operation; null: it had all ranks, or no version carried it.
  std::shared_ptr<const LeftOut> left_out{};
};

// An operation that its version cannot end, because nodes of it are lost. Another version may carry
// its round.
struct Interrupted {
  wire::Notice notice;  // as posted
  std::uint64_t user = 0;
  std::optional<wire::Completion> verdict;    // by which a node reported the loss
  bool cancelled = false;                     // by the caller
  std::shared_ptr<const LeftOut> left_out{};  // of the version
};

class OperationBook {
 public:
  explicit OperationBook(BookConfig config);

  // Posts an operation. The caller sets in `notice`: kind, type, operation, tag, count, regions,
  // offsets, root, priority, flags and deadline. The book sets epoch, round, part and cookie, and
  // appends a notice for each part to `out`. kDuplicate: the tag is outstanding. kNoCredit: a shard
  // has no credit left. A failure changes nothing. `until` is the time at which the caller gives
  // the node up. An operation that needs a rank that is left out takes its round and ends at once
  // with kPeerLost and that rank as culprit: without notices and credit.
  Status post(wire::Notice notice, std::uint64_t user, Nanos until, std::vector<Outbound>& out);

  // Appends the notices that cancel the operation of this tag. kInvalidArgument: the tag has no
  // outstanding operation.
  Status cancel(std::uint32_t tag, std::vector<Outbound>& out);

  // Takes a completion of this shard. May append cancels for the other parts of the operation.
  // kProtocol: the completion is for no outstanding part, and nothing has changed.
  Status complete(std::uint32_t shard, const wire::Completion& completion,
                  std::vector<Outbound>& out);

  // Takes a completion that reports a lost node or rank, and keeps the operation: interrupt() or
  // abandon() follows. kProtocol as with complete().
  Status note_loss(const wire::Completion& completion);

  // Ends all outstanding operations with this status, because the node is gone or fenced off.
  void abandon(Status status);
  // Removes the outstanding operations and returns them in the order of their tags; their rounds
  // count as not posted. Operations that have failed already end instead. The nodes must be fenced
  // off.
  std::vector<Interrupted> interrupt();

  // Takes the oldest finished operation; false when there is none.
  bool take(Finished& finished);
  bool has_finished() const { return !finished_.empty(); }

  std::uint32_t outstanding() const { return outstanding_; }
  bool outstanding(std::uint32_t tag) const;
  // The round of the tag's next operation. next_rounds() has all tags that have had an operation.
  std::uint32_t next_round(std::uint32_t tag) const;
  std::map<std::uint32_t, std::uint32_t> next_rounds() const;
  // Sets the round of the tag's next operation. Precondition: the tag has no outstanding operation.
  void begin_at(std::uint32_t tag, std::uint32_t round) { begin_at(tag, {round, {}, false}); }
  // The same, with the end of the round before it, which another book has seen.
  void begin_at(std::uint32_t tag, const TagRounds& rounds);
  // As begin_at(), for a rank that returns to its job and knows nothing of the rounds before.
  void return_at(std::uint32_t tag, std::uint32_t round);
  // False: return_at() has set the round, and no round of the tag has ended here since.
  bool knows_rounds(std::uint32_t tag) const;
  // The rounds of each tag. An outstanding round counts as ended.
  RoundsByTag rounds() const;
  // Notes how rounds have ended in the book of the version before this one. For the time when that
  // version goes away, because until then rounds end there.
  void inherit(const OperationBook& before);
  // Returns a time that is not later than any outstanding `until`; kForever when nothing is
  // outstanding. The function searches for the exact minimum only when the stored time has come at
  // `now`.
  Nanos earliest_until(Nanos now) const;
  // The shards that owe a verdict for an operation whose `until` has passed, in ascending order.
  std::vector<std::uint32_t> overdue_shards(Nanos now) const;

 private:
  struct Entry {
    bool live = false;
    bool failed = false;
    bool started = false;
    bool taken_back = false;
    std::uint16_t generation = 0;
    std::uint32_t parts_left = 0;
    std::uint64_t user = 0;
    Nanos until = 0;
    wire::Notice notice;           // as posted, without part
    wire::Completion verdict;      // of the part that decides so far, when a part has failed
    std::vector<bool> part_ended;  // by part
    std::optional<wire::Completion> loss;
  };
  struct Tag {
    std::uint32_t next_round = 0;
    std::uint32_t begin = 0;      // the first round in this book
    bool is_unknown = false;      // since return_at(), no round has ended
    std::uint32_t succeeded = 0;  // one more than the last round that ended well
    Status status = Status::kOk;  // of the last round that ended
    std::uint16_t culprit = wire::kNoRank;
    std::uint32_t entry = UINT32_MAX;  // index of the outstanding entry; UINT32_MAX when there is
                                       // none
  };

  protocol::Operand operand(const wire::Notice& notice) const;
  std::uint32_t shard_of(const wire::Notice& notice, std::size_t part) const;
  std::optional<std::uint16_t> needed_rank(const wire::Notice& notice) const;
  void end_without(std::uint16_t rank, const wire::Notice& notice, std::uint64_t user, Tag& tag);
  bool take_credit(const wire::Notice& notice, std::uint32_t parts);
  Entry* entry_of(const wire::Completion& completion);
  // `culprit` is the rank that caused the cancel.
  void take_back(Entry& entry, std::uint16_t culprit, std::vector<Outbound>& out) const;
  void fail(Entry& entry, const wire::Completion& verdict);
  void give_up(Entry& entry, Status status, std::uint16_t culprit);
  void remove(Entry& entry);
  void finish(Entry& entry);

  BookConfig config_;
  std::shared_ptr<const LeftOut> left_out_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
  mutable Nanos earliest_ =
      kForever;  // not later than any `until`; an operation that ends does not raise it
  std::unordered_map<std::uint32_t, Tag> tags_;
  std::vector<std::uint32_t> used_credit_;  // by shard
  std::deque<Finished> finished_;
  std::uint32_t outstanding_ = 0;
};

}  // namespace tally::client
