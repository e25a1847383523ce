// Watches one job: every notice that reaches a shard, every completion that leaves one, and every
// operation that ends at a rank. Throws Violation at the first broken invariant.
#pragma once

#include <optional>
#include <vector>

#include "tests/sim/worker.h"

namespace tally::sim {

class Judge {
 public:
  // workers is by rank. expected lends memory, at least one element for each operation.
  Judge(const Schedule& schedule, const JobPlan& job, std::span<Worker> workers,
        std::span<testing::Expected> expected, const Trace& trace);

  // turn is the shard's turn.
  void notice_delivered(std::uint32_t shard, std::uint16_t rank, const wire::Notice& notice,
                        std::uint64_t turn);
  void completion_sent(std::uint32_t shard, std::uint16_t rank, const wire::Completion& completion,
                       std::uint64_t turn);
  void finished(Worker& worker, const client::Finished& finished, Nanos now);

  // Checks, when no event is left, that every operation that had to end has ended.
  void check_end() const;

 private:
  static constexpr std::uint64_t kNever = UINT64_MAX;

  struct PartRecord {
    std::vector<std::uint64_t> delivered;  // by rank: the turn, or kNever
    bool decided = false;                  // a completion was sent
  };
  struct Record {
    bool computed = false;
    bool ok = false;  // at some rank
    std::optional<wire::Completion> failure;
    std::vector<PartRecord> parts;
  };

  bool lawless() const { return job_.has(Trouble::kFlip); }
  Record* find(std::uint32_t tag, std::uint32_t round, std::size_t& op);
  PartRecord& part_of(Record& record, std::uint16_t part) const;
  void check_placed(std::size_t op, std::uint16_t part, const PartRecord& record);
  void check_deadline(std::size_t op, const PartRecord& record, const wire::Completion& completion,
                      std::uint64_t turn) const;
  void check_failure(std::size_t op, const wire::Completion& verdict) const;
  void check_mismatch(std::size_t op, const wire::Completion& verdict) const;
  void check_same(std::size_t op, const wire::Completion& a, const wire::Completion& b) const;
  std::uint64_t field_value(std::size_t op, std::uint16_t rank, wire::Field field) const;
  std::string title(std::size_t op) const;
  void blame(std::size_t op, const wire::Completion& verdict, bool deserved) const;

  const Schedule& schedule_;
  const JobPlan& job_;
  std::span<Worker> workers_;
  std::span<testing::Expected> expected_;
  const Trace& trace_;
  std::vector<Record> records_;  // by operation
};

}  // namespace tally::sim
