// What a session knows of its operations: pure bookkeeping between post and completion. It cuts an
// operation into parts and writes their notices, counts credit and rounds, gathers the parts'
// completions into one, and takes the other parts back when one fails. It knows no ring, no memory
// and no clock: simulations use it as the session does.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "dataplane/protocol/cut.h"
#include "dataplane/wire/completion.h"
#include "dataplane/wire/notice.h"

namespace tally::client {

struct BookConfig {
  protocol::Plan plan;
  // By tree: where its notices go. Lanes are numbered from 0, over all nodes; trees may share one.
  // Empty: a lane for each tree, in order.
  std::vector<std::uint32_t> lanes;
  std::uint16_t rank = 0;
  std::uint16_t ranks = 1;
  std::uint32_t epoch = 1;
  std::uint32_t credit = 256;  // per lane
};

// A notice and the lane it goes by.
struct Outbound {
  std::uint32_t lane = 0;
  wire::Notice notice;
};

// An operation that ended: all its parts have.
struct Finished {
  wire::Completion verdict;  // of the part that decided; status kOk when all went well
  std::uint64_t user = 0;
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  bool started = false;  // failed after result bytes may have landed
};

class OperationBook {
 public:
  explicit OperationBook(BookConfig config);

  // Completes `notice` (kind, type, operation, tag, count, regions, offsets, root, priority, flags
  // and deadline are the caller's; epoch, round, part and cookie the book's) and appends a notice
  // for each part. kDuplicate: the tag is outstanding; kNoCredit: a lane has no credit left. On
  // failure nothing has changed. `until`: when the caller's patience with the node itself ends.
  Status post(wire::Notice notice, std::uint64_t user, Nanos until, std::vector<Outbound>& out);

  // Appends the notices that take the operation of this tag back; kInvalidArgument: none
  // outstanding.
  Status cancel(std::uint32_t tag, std::vector<Outbound>& out);

  // A completion that came by this lane; may append cancels for the operation's other parts.
  // kProtocol: it answers nothing that was asked, and nothing has changed.
  Status complete(std::uint32_t lane, const wire::Completion& completion,
                  std::vector<Outbound>& out);

  // Ends everything outstanding with this status: the node is gone or fenced off.
  void abandon(Status status);

  // The oldest operation that ended and was not taken; false when there is none.
  bool take(Finished& finished);
  bool has_finished() const { return !finished_.empty(); }

  std::uint32_t outstanding() const { return outstanding_; }
  bool outstanding(std::uint32_t tag) const;
  // The round of the tag's next operation; of all tags that have had one.
  std::uint32_t next_round(std::uint32_t tag) const;
  std::map<std::uint32_t, std::uint32_t> next_rounds() const;
  // The tag's next operation has this round. Precondition: none is outstanding.
  void begin_at(std::uint32_t tag, std::uint32_t round) { tags_[tag].next_round = round; }
  // The earliest `until` of what is outstanding; kForever when nothing is.
  Nanos earliest_until() const;
  // Lanes that owe a verdict of something whose `until` has passed, rising.
  std::vector<std::uint32_t> overdue_lanes(Nanos now) const;

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
    wire::Completion verdict;      // of the first part that failed
    std::vector<bool> part_ended;  // by part
  };
  struct Tag {
    std::uint32_t next_round = 0;
    std::uint32_t entry = UINT32_MAX;  // outstanding, or none
  };

  protocol::Operand operand(const wire::Notice& notice) const;
  std::uint32_t lane_of(const wire::Notice& notice, std::size_t part) const;
  bool take_credit(const wire::Notice& notice, std::uint32_t parts);
  Entry* entry_of(const wire::Completion& completion);
  // `culprit`: on whose account.
  void take_back(Entry& entry, std::uint16_t culprit, std::vector<Outbound>& out) const;
  void fail(Entry& entry, const wire::Completion& verdict);
  void finish(Entry& entry);

  BookConfig config_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
  std::unordered_map<std::uint32_t, Tag> tags_;
  std::vector<std::uint32_t> used_credit_;  // by lane
  std::deque<Finished> finished_;
  std::uint32_t outstanding_ = 0;
};

}  // namespace tally::client
