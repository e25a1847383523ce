// The versions of the job's plan that a session has at a time. There is one, except during a change
// of the plan: then the next version exists beside it, and afterwards the old version until no
// operation uses it. Functions over all versions do the same at the nodes or in the book of each.
// The session owns it; one thread at a time uses it.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/operations/operation_book.h"
#include "client/operations/post_placement.h"
#include "client/versions/nodes.h"

namespace tally::client {

// One version: the nodes that carry it, and the operations that were posted to it.
struct PlanVersion {
  PlanVersion(BookConfig its_config, Nodes its_nodes, std::vector<std::string> its_names)
      : config(its_config),
        nodes(std::move(its_nodes)),
        names(std::move(its_names)),
        book(std::move(its_config)) {}

  BookConfig config;
  std::uint32_t first_event = 0;  // of its nodes, in the session's epoll
  Nodes nodes;
  std::vector<std::string> names;  // of all nodes of the job, by number
  OperationBook book;
  bool is_lost = false;  // no connection leads to its nodes any more
};

class PlanVersions {
 public:
  // The versions that exist: now, old, next.
  struct All {
    std::array<PlanVersion*, 3> versions{};
    std::size_t count = 0;
    PlanVersion* const* begin() const { return versions.data(); }
    PlanVersion* const* end() const { return versions.data() + count; }
  };

  explicit PlanVersions(std::unique_ptr<PlanVersion> now) : now_(std::move(now)) {}

  PlanVersion& now() const { return *now_; }         // carries new rounds
  PlanVersion* old() const { return old_.get(); }    // not null while tags move to now()
  PlanVersion* next() const { return next_.get(); }  // not null until all ranks know the decision
  All all() const;

  // Precondition: there is no next version.
  PlanVersion& add_next(std::unique_ptr<PlanVersion> next);
  // The next version carries new rounds from now on. The books begin at the rounds of `plans`.
  // Precondition: there is a next version and no old one.
  void go_over(PlanSwitch& plans);
  // After a loss: the book of the version that carries new rounds gets those of the old version
  // that have not ended. The old and the next version go away.
  void keep_rounds(const PlanSwitch& plans);
  void keep_only_now();
  // After a repair: the next version takes the place of the lost one. Precondition: it is the only
  // other version.
  void replace(const RoundDecision& decided);
  // Removes the old or the next version.
  void remove(const PlanVersion& version);

  Books books(PlanSwitch& plans) const;
  std::uint32_t outstanding() const;
  bool outstanding(std::uint32_t tag) const;
  bool has_finished() const;
  // As OperationBook::earliest_until().
  Nanos earliest_until(Nanos now) const;
  // Names the nodes that owe a verdict at `now`, for messages.
  std::string overdue_nodes(Nanos now) const;
  // Ends all operations of all books.
  void abandon(Status status) const;

  // The needs of all nodes.
  MemoryNeeds memory_needs() const;
  // Prepares a sleep at all connections. False when a completion is already there.
  bool arm(Nanos until) const;
  void disarm() const;
  bool fence(Nanos deadline) const;
  void hang_up() const;

 private:
  std::unique_ptr<PlanVersion> now_, old_, next_;
};

}  // namespace tally::client
