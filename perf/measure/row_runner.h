// One rank's part of a row: makes gradients, posts, waits and verifies. One thread at a time uses
// it.
#pragma once

#include <functional>

#include "perf/measure/rank_row.h"
#include "perf/measure/session.h"
#include "perf/measure/statistics.h"

namespace tally::perf {

class RowRunner {
 public:
  // `in` and `out` must hold the layout of the row. In place only `out` is used. All arguments are
  // borrowed for the life of the runner.
  RowRunner(Session& session, const Options& options, const Row& row, const Arena& in,
            const Arena& out);

  struct Hooks {
    std::function<void()> stepped;       // called after each iteration, timed or not
    std::function<void()> pause;         // called where every rank pauses; empty: no pauses
    std::function<NodeTotals()> totals;  // queries the node for --breakdown; only at one rank
  };

  // Throws Failure when an operation fails. Wrong results are reported in the returned row.
  RankRow run(const Hooks& hooks);

  // Returns how often `stepped` is called at most; 0 when not known in advance.
  static std::uint64_t steps(const Options& options);

 private:
  // The content of outputs before an iteration that is verified.
  static constexpr std::byte kPoison{0xA5};

  // The rank's piece of a bucket. count 0 means that the rank has none.
  struct Place {
    Extent extent;
    const Arena* arena = nullptr;
    std::uint64_t offset = 0;  // bytes

    std::byte* data() const { return arena->data + offset; }
  };
  Place input(std::size_t bucket) const;
  Place output(std::size_t bucket) const;

  void refresh(std::uint32_t round);  // new inputs, poisoned outputs
  void fetch() const;
  std::vector<const Arena*> arenas() const;  // that the row uses
  Nanos step(const Hooks& hooks);
  void warm_up(const Hooks& hooks);
  void timed_iterations(const Hooks& hooks);
  void batch(std::uint64_t count, const Hooks& hooks);
  void break_down(std::uint64_t count, const Hooks& hooks);
  void stream(std::uint64_t count, const Hooks& hooks);
  void pause(const Hooks& hooks);
  bool post(std::size_t bucket);
  std::size_t take_completion();  // returns the bucket

  void verify(std::uint32_t round);
  void verify_result(std::size_t bucket, const GradientSpec& spec);
  void verify_range(std::size_t bucket, const Place& place, Extent extent, const GradientSpec& spec,
                    const Expectation& expectation, const char* what);
  void verify_surroundings(std::size_t bucket);
  void verify_stats(std::size_t bucket);
  std::uint64_t hash_result() const;

  GradientSpec spec(std::uint32_t round) const;

  Session& session_;
  const Options& options_;
  const Row& row_;
  const Arena& in_;
  const Arena& out_;
  Layout layout_;
  std::vector<std::size_t> order_;             // in which this rank posts
  std::vector<tally_completion> completions_;  // the last completion of each bucket
  std::vector<Nanos> posted_;                  // times of the last posts, by bucket
  bool recording_ = false;                     // whether to record the times of single operations
  Samples samples_;
  RankRow result_;
};

}  // namespace tally::perf
