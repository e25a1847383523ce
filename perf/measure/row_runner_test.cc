// The measuring loop against libtally's stand-in: right results pass, and every kind of wrong one
// is noticed. A checker that was never seen to fail proves nothing.
#include "perf/measure/row_runner.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "tests/support/perf/fake_tally.h"

namespace tally::perf {
namespace {

constexpr std::uint32_t kRanks = 3;

Options basic(tally_kind kind) {
  Options options;
  options.kind = kind;
  options.ranks = kRanks;
  options.spawn = kRanks;
  options.check = true;
  options.iterations = 3;
  options.warmup = 1;
  options.min_bytes = 4096;
  options.max_bytes = 40'000;
  options.factor = 9;
  return options;
}

// Runs all ranks as threads; one Measurement per row, or the words of the first Failure.
std::vector<Measurement> run(const Options& options, std::string* failure = nullptr) {
  const std::vector<Row> rows = make_rows(options).value();
  std::vector<std::vector<RankRow>> results(rows.size(), std::vector<RankRow>(kRanks));
  std::vector<std::string> failures(kRanks);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        Options its = options;
        its.rank = rank;
        try {
          Session session(its, 10, nullptr, nullptr);
          const std::uint64_t bytes = arena_bytes(its, rows);
          const Arena in = session.allocate(its.memory, bytes);
          const Arena out = session.allocate(its.memory, bytes);
          const RowRunner::Hooks hooks{.stepped = [] {}, .pause = {}, .totals = {}};
          for (std::size_t row = 0; row < rows.size(); ++row) {
            results[row][rank] = RowRunner(session, its, rows[row], in, out).run(hooks);
          }
          session.barrier();
        } catch (const Failure& error) {
          failures[rank] = error.what();
        }
      });
    }
  }
  if (failure != nullptr) *failure = failures[0];
  if (!failures[0].empty()) return {};
  std::vector<Measurement> merged;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    merged.push_back(merge(options, rows[row], results[row]));
  }
  return merged;
}

std::uint64_t checked_elements(const Options& options, const Measurement& m) {
  switch (options.kind) {
    case TALLY_REDUCE:
    case TALLY_REDUCE_SCATTER:
      return 2 * m.count;
    default:
      return 2 * m.count * kRanks;
  }
}

constexpr tally_kind kKinds[] = {TALLY_ALL_REDUCE, TALLY_REDUCE, TALLY_BROADCAST,
                                 TALLY_REDUCE_SCATTER, TALLY_ALL_GATHER};

TEST(RowRunner, EveryKindAndTypePasses) {
  for (const tally_kind kind : kKinds) {
    for (const bool in_place : {false, true}) {
      fake::reset();
      Options options = basic(kind);
      options.in_place = in_place;
      options.root = 1;
      options.types.clear();
      for (const auto& info : kElementTypes) options.types.push_back(info.type);
      options.operations = {Operation::kSum, Operation::kAverage, Operation::kMin, Operation::kMax};
      for (const Measurement& m : run(options)) {
        EXPECT_EQ(m.wrong, 0u);
        EXPECT_EQ(m.stray, 0u);
        EXPECT_EQ(m.complaints, std::vector<std::string>{}) << kind_name(kind);
        EXPECT_EQ(m.checked, checked_elements(options, m)) << kind_name(kind);
      }
    }
  }
}

TEST(RowRunner, NonFiniteSumsAndStatisticsPass) {
  fake::reset();
  for (const tally_kind kind : {TALLY_ALL_REDUCE, TALLY_REDUCE}) {
    Options options = basic(kind);
    options.nonfinite = true;
    options.stats = true;
    options.types = {ElementType::kF32, ElementType::kF64, ElementType::kF16, ElementType::kBf16};
    for (const Measurement& m : run(options)) {
      EXPECT_EQ(m.complaints, std::vector<std::string>{});
      EXPECT_GT(m.sum_of_squares, 0);
    }
  }
}

TEST(RowRunner, TensorsAndBucketsHaveTheSameHash) {
  fake::reset();
  const std::string file = ::testing::TempDir() + "few-layers.json";
  std::ofstream(file)
      << R"({"model": "few", "parameters": 1604212, "tensors": [["a", [3, 5]], ["b", [700, 1000]],
                             ["c", [1]], ["d", [9001, 100]], ["e", [4096]]]})";
  Options options = basic(TALLY_ALL_REDUCE);
  options.models = {file};
  options.bucket_bytes = 1 << 20;
  options.modes = {"tensors", "buckets"};
  options.types = {ElementType::kI8};
  options.iterations = 1;
  const auto rows = run(options);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].hash, rows[1].hash);
  EXPECT_EQ(rows[0].complaints, std::vector<std::string>{});
  EXPECT_EQ(rows[0].checked, 2 * 1604212u * kRanks);
}

TEST(RowRunner, ShuffledOrdersWithLittleCreditFinish) {
  fake::reset({.credit = 8});
  Options options = basic(TALLY_ALL_REDUCE);
  options.inflight = 50;
  options.shuffle = true;
  options.shuffle_seed = 3;
  options.max_bytes = 4096;
  for (const Measurement& m : run(options)) EXPECT_EQ(m.complaints, std::vector<std::string>{});
}

TEST(RowRunner, AStreamVerifiesAndCountsAllItsOperations) {
  for (const tally_kind kind : kKinds) {
    fake::reset();
    Options options = basic(kind);
    options.stream = true;
    options.inflight = 5;
    options.root = 1;
    for (const Measurement& m : run(options)) {
      EXPECT_EQ(m.complaints, std::vector<std::string>{}) << kind_name(kind);
      EXPECT_EQ(m.iterations, 3u);
      EXPECT_GT(m.algbw, 0);
    }
  }
}

TEST(RowRunner, AStreamBeyondTheCreditIsRefused) {
  fake::reset({.credit = 8});
  Options options = basic(TALLY_ALL_REDUCE);
  options.stream = true;
  options.inflight = 9;
  std::string failure;
  run(options, &failure);
  EXPECT_NE(failure.find("--inflight 9: the node gives credit for 8"), std::string::npos);
}

TEST(RowRunner, RanksAgreeOnATime) {
  for (const bool stream : {false, true}) {
    fake::reset();
    Options options = basic(TALLY_ALL_REDUCE);
    options.duration_s = 0.02;
    options.max_bytes = 4096;
    options.stream = stream;
    const auto rows = run(options);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_GT(rows[0].iterations, 1u);
    EXPECT_EQ(rows[0].complaints, std::vector<std::string>{});
  }
}

TEST(RowRunner, CheckEachVerifiesEveryIteration) {
  fake::reset();
  Options options = basic(TALLY_ALL_REDUCE);
  options.check = false;
  options.check_each = true;
  const auto rows = run(options);
  for (const Measurement& m : rows) EXPECT_EQ(m.checked, 3 * m.count * kRanks);
}

TEST(RowRunner, AWrongBitIsFoundWhereverItComes) {
  // Operations of a row: 1 verified, 1 of warm-up, 3 timed, 1 verified.
  for (const std::uint64_t after : {0, 1, 4, 5}) {
    for (const tally_kind kind : kKinds) {
      fake::reset({.rank = 1, .flip_after = after});
      Options options = basic(kind);
      options.root = 1;
      options.max_bytes = 4096;
      const auto rows = run(options);
      ASSERT_EQ(rows.size(), 1u);
      EXPECT_GT(rows[0].wrong, 0u);
      // A fault that begins with the timed iterations shows in their hash first.
      ASSERT_FALSE(rows[0].complaints.empty());
      const bool timed = after == 1 || after == 4;
      EXPECT_NE(rows[0].complaints[0].find(timed ? "rank 1: the timed" : "rank 1: tag 0: 1 of"),
                std::string::npos)
          << rows[0].complaints[0];
    }
  }
}

TEST(RowRunner, RanksThatDisagreeAreFound) {
  RankRow row{.times = {1}, .iterations = 1, .hash = 5};
  RankRow other{.times = {1}, .iterations = 1, .hash = 6};
  const Options options = basic(TALLY_ALL_REDUCE);
  const auto rows = make_rows(options).value();
  const RankRow ranks[] = {row, other};
  const Measurement merged = merge(options, rows[0], ranks);
  ASSERT_EQ(merged.complaints.size(), 1u);
  EXPECT_NE(merged.complaints[0].find("rank 1 has another result"), std::string::npos);
}

TEST(RowRunner, StoresOutsideOfResultsAreFound) {
  for (const tally_kind kind : kKinds) {
    fake::reset({.rank = 1, .stray_after = 0});
    Options options = basic(kind);
    options.root = 1;
    for (const Measurement& m : run(options)) {
      EXPECT_EQ(m.wrong, 0u);
      EXPECT_EQ(m.stray, 2u) << kind_name(kind);
      EXPECT_FALSE(m.complaints.empty());
    }
  }
}

TEST(RowRunner, ChangedInputsAreFound) {
  fake::reset({.rank = 2, .input_after = 0});
  Options options = basic(TALLY_ALL_REDUCE);
  options.max_bytes = 4096;
  const auto rows = run(options);
  ASSERT_FALSE(rows[0].complaints.empty());
  EXPECT_NE(rows[0].complaints[0].find("of the input are wrong"), std::string::npos);
}

TEST(RowRunner, WrongStatisticsAreFound) {
  fake::reset({.wrong_stats = true});
  Options options = basic(TALLY_ALL_REDUCE);
  options.stats = true;
  const auto rows = run(options);
  ASSERT_FALSE(rows[0].complaints.empty());
  EXPECT_NE(rows[0].complaints[0].find("statistics"), std::string::npos);
}

TEST(RowRunner, AFailedOperationNamesTheCulprit) {
  fake::reset({.rank = 2, .fail_after = 2});
  std::string failure;
  run(basic(TALLY_ALL_REDUCE), &failure);
  EXPECT_EQ(failure, "peer lost: on request (rank 2 is to blame)");
}

}  // namespace
}  // namespace tally::perf
