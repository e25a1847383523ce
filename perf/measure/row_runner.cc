#include "perf/measure/row_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "perf/measure/pace.h"

namespace tally::perf {
namespace {

constexpr std::uint32_t kTimedRound = 0;
constexpr std::uint32_t kLastRound = 1;
constexpr std::uint32_t kFirstOfEach = 2;  // rounds of --check-each

}  // namespace

RowRunner::RowRunner(Session& session, const Options& options, const Row& row, const Arena& in,
                     const Arena& out)
    : session_(session),
      options_(options),
      row_(row),
      in_(options.in_place ? out : in),
      out_(out),
      layout_(row, options.misalign, options.checks()),
      completions_(row.buckets.size()),
      posted_(row.buckets.size()) {
  const std::size_t count = row.buckets.size();
  const std::size_t window = options.shuffle ? session.info().credit : 1;
  order_ = shuffled_order(count, window, options.shuffle_seed * kMaxContributors + options.rank);
}

std::uint64_t RowRunner::steps(const Options& options) {
  if (options.duration_s > 0) return 0;
  return std::uint64_t{options.iterations} + options.warmup + (options.check ? 2 : 0) +
         (options.ceiling ? std::min(options.iterations, kPauses) : 0);
}

GradientSpec RowRunner::spec(std::uint32_t round) const {
  return GradientSpec{row_.type, options_.specials(), options_.integers, options_.seed, round};
}

RowRunner::Place RowRunner::input(std::size_t bucket) const {
  const Extent extent = contribution(options_.kind, row_.buckets[bucket].count, options_.rank,
                                     options_.ranks, options_.root);
  // In place, a share has the same position as in the whole. Otherwise a buffer holds only the
  // share.
  const std::uint64_t shift = options_.in_place ? extent.first * element_bytes(row_.type) : 0;
  return Place{extent, &in_, layout_.offsets[bucket] + shift};
}

RowRunner::Place RowRunner::output(std::size_t bucket) const {
  const Extent extent = perf::result(options_.kind, row_.buckets[bucket].count, options_.rank,
                                     options_.ranks, options_.root);
  const std::uint64_t shift = options_.in_place ? extent.first * element_bytes(row_.type) : 0;
  return Place{extent, &out_, layout_.offsets[bucket] + shift};
}

void RowRunner::refresh(std::uint32_t round) {
  std::memset(out_.data, static_cast<int>(kPoison), layout_.bytes);
  for (std::size_t b = 0; b < row_.buckets.size(); ++b) {
    const Place place = input(b);
    for_each_piece(row_.buckets[b], place.extent, [&](const Segment& piece, std::uint64_t at) {
      fill_gradient(spec(round), options_.rank, piece.stream, piece.first, piece.count,
                    place.data() + at * element_bytes(row_.type));
    });
  }
  for (const Arena* arena : arenas()) session_.to_device(*arena, layout_.bytes);
}

// With --memory cuda: what a verification or a hash looks at.
void RowRunner::fetch() const {
  for (const Arena* arena : arenas()) session_.from_device(*arena, layout_.bytes);
}

std::vector<const Arena*> RowRunner::arenas() const {
  if (options_.in_place) return {&out_};
  return {&in_, &out_};
}

RankRow RowRunner::run(const Hooks& hooks) {
  result_ = RankRow{};
  samples_ = Samples{};
  refresh(kTimedRound);
  session_.barrier();
  std::uint64_t first_hash = 0;
  if (options_.check) {
    step(hooks);
    verify(kTimedRound);
    first_hash = hash_result();
  }
  warm_up(hooks);
  timed_iterations(hooks);
  result_.times = samples_.take();
  fetch();
  result_.hash = hash_result();
  if (options_.check && !options_.check_each && result_.hash != first_hash) {
    complain(result_, fmt::format("the timed iterations gave {:016x}, the verified one {:016x}",
                                  result_.hash, first_hash));
  }
  if (options_.check) {
    refresh(kLastRound);
    session_.barrier();
    step(hooks);
    verify(kLastRound);
  }
  return std::move(result_);
}

void RowRunner::warm_up(const Hooks& hooks) {
  for (std::uint32_t i = 0; i < options_.warmup; ++i) {
    if (options_.in_place) refresh(kTimedRound);
    step(hooks);
  }
}

void RowRunner::timed_iterations(const Hooks& hooks) {
  const Pace pace(options_);
  // Includes the time to refresh and to verify, because --duration is the time of the whole run.
  Nanos spent = 0;
  for (;;) {
    std::uint64_t count = pace.next(result_.iterations, spent);
    if (options_.duration_s > 0) count = session_.agree(count);
    if (count == 0) return;
    if (hooks.pause) pause(hooks);
    const Nanos begin = monotonic_now();
    if (options_.breakdown) {
      break_down(count, hooks);
    } else {
      batch(count, hooks);
    }
    spent += monotonic_now() - begin;
  }
}

// Runs a batch between two reads of the node's totals. Because of the barrier, no rank has
// announced anything at the first read. The second read needs no barrier, because no operation
// completes without this rank.
void RowRunner::break_down(std::uint64_t count, const Hooks& hooks) {
  NodeTotals before;
  if (hooks.totals) before = hooks.totals();
  session_.barrier();
  recording_ = true;
  batch(count, hooks);
  recording_ = false;
  if (hooks.totals) result_.node += hooks.totals().since(before);
}

void RowRunner::batch(std::uint64_t count, const Hooks& hooks) {
  if (options_.stream) return stream(count, hooks);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto round = options_.check_each
                           ? static_cast<std::uint32_t>(kFirstOfEach + result_.iterations)
                           : kTimedRound;
    if (options_.refills()) {
      refresh(round);
      // Ranks need different times to refresh. The barrier lets them begin the iteration together.
      session_.barrier();
    }
    const Nanos time = step(hooks);
    samples_.add(time);
    result_.elapsed += time;
    ++result_.iterations;
    if (options_.check_each) verify(round);
  }
}

// Runs every bucket `count` times. There is credit for all buckets, so no bucket waits for another.
// Ranks that complete buckets in different orders therefore cannot block one another.
void RowRunner::stream(std::uint64_t count, const Hooks& hooks) {
  const std::size_t buckets = row_.buckets.size();
  if (buckets > session_.info().credit) {
    throw Failure(TALLY_NO_CREDIT, fmt::format("--stream with --inflight {}: the node gives credit "
                                               "for {} operations",
                                               buckets, session_.info().credit));
  }
  std::vector<std::uint64_t> left(buckets, count);
  const auto post_next = [&](std::size_t bucket) {
    --left[bucket];
    if (!post(bucket)) throw Failure(TALLY_NO_CREDIT, "no credit within the credit");
  };
  const Nanos begin = monotonic_now();
  for (const std::size_t bucket : order_) post_next(bucket);
  for (std::uint64_t open = count * buckets; open > 0; --open) {
    const std::size_t bucket = take_completion();
    samples_.add(monotonic_now() - posted_[bucket]);
    if (left[bucket] > 0) post_next(bucket);
    if (bucket == 0) hooks.stepped();
  }
  result_.elapsed += monotonic_now() - begin;
  result_.iterations += count;
}

void RowRunner::pause(const Hooks& hooks) {
  session_.barrier();
  hooks.pause();
  // The caches hold the data of the pause. An iteration that does not count brings this row's data
  // back.
  if (options_.in_place) refresh(kTimedRound);
  session_.barrier();
  step(hooks);
}

Nanos RowRunner::step(const Hooks& hooks) {
  const Nanos begin = monotonic_now();
  std::size_t outstanding = 0;
  for (const std::size_t bucket : order_) {
    while (!post(bucket)) {
      if (outstanding == 0) throw Failure(TALLY_NO_CREDIT, "no credit, but nothing outstanding");
      take_completion();
      --outstanding;
    }
    ++outstanding;
  }
  for (; outstanding > 0; --outstanding) take_completion();
  const Nanos time = monotonic_now() - begin;
  hooks.stepped();
  return time;
}

bool RowRunner::post(std::size_t bucket) {
  tally_operation operation{};
  operation.size = sizeof operation;
  operation.kind = options_.kind;
  operation.type = static_cast<tally_type>(row_.type);
  operation.op = static_cast<tally_op>(row_.operation);
  operation.tag = row_.buckets[bucket].tag;
  operation.count = row_.buckets[bucket].count;
  operation.root = options_.root;
  operation.flags = options_.stats ? TALLY_WANT_STATS : 0;
  operation.user = bucket;
  if (const Place place = input(bucket); place.extent.count != 0) {
    operation.in = tally_buffer{place.arena->region, place.offset};
  }
  if (const Place place = output(bucket); place.extent.count != 0) {
    operation.out = tally_buffer{place.arena->region, place.offset};
  }
  if (operation.in.region != nullptr || operation.out.region != nullptr) {
    operation.stream = session_.stream();
  }
  if (recording_ || options_.stream) posted_[bucket] = monotonic_now();
  return session_.post(operation);
}

std::size_t RowRunner::take_completion() {
  const tally_completion completion = session_.wait();
  if (completion.user >= completions_.size()) {
    throw Failure(TALLY_PROTOCOL, "a completion of an operation that was not posted");
  }
  completions_[completion.user] = completion;
  if (recording_) {
    ++result_.operations;
    result_.operation_time += monotonic_now() - posted_[completion.user];
  }
  return completion.user;
}

}  // namespace tally::perf
