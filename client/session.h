// A rank's session with a node: the control connection, the link to the shards, the regions and the
// book of operations, driven by the caller's thread. tally.cc gives it the C ABI.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/block_stats.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/idle.h"
#include "base/result.h"
#include "client/job_entry.h"
#include "client/nodes.h"
#include "client/operation_book.h"
#include "client/post.h"
#include "client/region.h"
#include "client/session_options.h"
#include "dataplane/protocol/collective.h"

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
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> open(SessionOptions options);
  // Cancels what is outstanding, says goodbye, frees the regions.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Result<Region*> add_region(std::unique_ptr<Region> region);
  Outcome remove_region(Region* region);
  bool owns(const Region* region) const;

  // The round of the tag that it is.
  Result<std::uint32_t> post(const Post& post);
  Outcome cancel(std::uint32_t tag);
  // Takes a completion without waiting.
  bool poll(Completed& completed);
  // Waits for one until `until`; kAgain: none came. kInvalidArgument: nothing is outstanding.
  Outcome wait(Completed& completed, Nanos until);
  // As wait, for this round of this tag; others are kept for poll and wait.
  Outcome wait_for(std::uint32_t tag, std::uint32_t round, Completed& completed);

  int fd() const { return nodes_.fd(); }
  const Nodes& nodes() const { return nodes_; }
  bool arm();  // false: there are completions already

  const BookConfig& book_config() const { return book_config_; }
  const SessionOptions& options() const { return options_; }
  bool gives_checksums() const { return crc32c_ != nullptr; }
  // Between the caller's memory and the node's.
  std::uint64_t copied_bytes() const { return copied_bytes_; }
  void log(int level, const std::string& text) const;

 private:
  // What is to be done when an operation ends; by the book's `user`.
  struct Pending {
    Post post;
    Extents extents;
    Region* side = nullptr;  // for statistics and checksums
  };

  Session(SessionOptions options, JobEntry entry);

  Outcome take_side_region(const protocol::Shape& shape, Pending& pending, wire::Notice& notice);
  Result<Region*> side_region(std::uint64_t bytes);
  void give_checksums(const protocol::Shape& shape, const Pending& pending) const;
  // `contribution`: goes with the notice.
  void send(std::vector<Outbound>& out, std::span<const std::byte> contribution = {});
  std::span<const std::byte> eager_contribution(const Pending& pending) const;
  // Takes what the shards sent; true when there was something.
  bool pump();
  void look_around(Nanos now);  // the node's death, the end of patience
  void lose(Status status, const std::string& why);
  bool take(Completed& completed);
  void finish(const Finished& finished, Completed& completed);
  void add_stats(const Pending& pending, Completed& completed) const;
  void sleep(Nanos now, Nanos until);
  void drain();

  SessionOptions options_;
  BookConfig book_config_;
  std::vector<std::string> node_names_;  // of the job, by number
  Nodes nodes_;
  const Crc32c* crc32c_ = nullptr;  // null: no checksums are given
  OperationBook book_;
  IdlePolicy idle_;
  std::vector<std::unique_ptr<Region>> regions_;
  std::vector<std::unique_ptr<Region>> side_regions_;  // a pool
  std::vector<Pending> pending_;
  std::vector<std::uint32_t> free_pending_;
  std::vector<Completed> set_aside_;  // by wait_for, oldest first
  std::vector<Outbound> outbound_;
  std::optional<Error> lost_;  // set: the session is over
  Nanos next_look_ = 0;
  std::uint64_t copied_bytes_ = 0;
};

}  // namespace tally::client
