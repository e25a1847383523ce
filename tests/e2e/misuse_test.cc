// What a program may get wrong with the C interface: the call is refused with words that name the
// mistake, and the session goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/system/fd.h"
#include "tests/e2e/local_node.h"
#include "tests/e2e/ranks.h"

namespace tally::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::uint64_t kCount = 4096;

class MisuseTest : public ::testing::Test {
 protected:
  explicit MisuseTest(const LocalNodeOptions& options = {}) : node_(std::in_place, options) {
    rank_.emplace(node_->address(), 0, 1);
    EXPECT_EQ(rank_->opened(), TALLY_OK) << rank_->open_error();
    data_ = rank_->alloc<float>(kCount, &region_);
  }

  tally_session* session() const { return rank_->session(); }
  std::string error() const { return rank_->error(); }
  tally_operation sum(std::uint32_t tag) const {
    return operation(TALLY_ALL_REDUCE, TALLY_F32, tag, kCount, {region_, 0}, {region_, 0});
  }
  // The session serves as before.
  void expect_sum() {
    data_[7] = 3;
    const auto done = rank_->run(sum(99));
    EXPECT_EQ(done.status, TALLY_OK) << done.message;
    EXPECT_EQ(data_[7], 3);
  }
  tally_status add(void* data, std::size_t bytes, tally_region** region,
                   std::uint32_t flags = 0) const {
    tally_memory memory{};
    memory.size = sizeof memory;
    memory.data = data;
    memory.bytes = bytes;
    memory.flags = flags;
    return tally_region_register(session(), &memory, region);
  }

  std::optional<LocalNode> node_;
  std::optional<Rank> rank_;
  tally_region* region_ = nullptr;
  float* data_ = nullptr;
};

Mapping anonymous(std::size_t bytes, int protection) {
  return {::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
          bytes};
}

// -- memory --------------------------------------------------------------------------------------

// Of what this process has had resident at once, since reset().
struct Peak {
  static std::size_t reset() {
    std::ofstream("/proc/self/clear_refs") << "5";
    return bytes();
  }
  static std::size_t bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      std::size_t kilobytes = 0;
      if (word == "VmHWM:" && status >> kilobytes) return kilobytes << 10;
    }
    return 0;
  }
  std::size_t grown() const { return bytes() - before; }
  const std::size_t before = reset();
};

class QuotaTest : public MisuseTest {
 protected:
  QuotaTest() : MisuseTest(LocalNodeOptions{.limits = {.max_region_bytes = 64 * kMiB}}) {}
};

TEST_F(QuotaTest, RefusesARegionBeyondTheQuotaBeforeItIsPopulated) {
  if (LocalNode::over_network()) GTEST_SKIP() << "memory that the node does not map has no quota";
  const Peak peak;
  const std::string quota = "limits.max_region_bytes 67108864";
  tally_region* region = nullptr;
  void* data = nullptr;
  EXPECT_EQ(tally_region_alloc(session(), 512 * kMiB, &region, &data), TALLY_REFUSED);
  EXPECT_THAT(error(), AllOf(HasSubstr("536870912"), HasSubstr(quota)));
  const Mapping memory = anonymous(512 * kMiB, PROT_READ | PROT_WRITE);
  for (const std::uint32_t flags : {0U, TALLY_REGION_STAGE}) {
    EXPECT_EQ(add(memory.data(), memory.size(), &region, flags), TALLY_REFUSED);
    EXPECT_THAT(error(), HasSubstr(quota));
  }
  EXPECT_LT(peak.grown(), 32 * kMiB);
  EXPECT_EQ(tally_region_alloc(session(), kMiB, &region, &data), TALLY_OK) << error();
  expect_sum();
}

TEST_F(MisuseTest, MoreMemoryThanThereIsIsRefusedWithNumbersAndNotTaken) {
  const Peak peak;
  tally_region* region = nullptr;
  void* data = nullptr;
  const tally_status status = tally_region_alloc(session(), std::size_t{1} << 44, &region, &data);
  EXPECT_TRUE(status == TALLY_REFUSED || status == TALLY_NO_MEMORY) << status;
  EXPECT_THAT(error(), HasSubstr("17592186044416"));
  for (const std::size_t bytes : {(std::size_t{1} << 47) + 1, SIZE_MAX, std::size_t{0}}) {
    EXPECT_EQ(tally_region_alloc(session(), bytes, &region, &data), TALLY_INVALID_ARGUMENT);
    EXPECT_THAT(error(), HasSubstr("bytes " + std::to_string(bytes)));
  }
  EXPECT_EQ(add(data_, SIZE_MAX, &region), TALLY_INVALID_ARGUMENT);
  EXPECT_THAT(error(), HasSubstr("bytes " + std::to_string(SIZE_MAX)));
  EXPECT_LT(peak.grown(), 32 * kMiB);
  expect_sum();
}

TEST_F(MisuseTest, ReadOnlyMemoryContributesAndIsRefusedAsOutput) {
  const std::size_t bytes = kCount * sizeof(float);
  const Mapping memory = anonymous(bytes, PROT_READ | PROT_WRITE);
  float value = 2.5F;
  std::memcpy(memory.data() + 28, &value, sizeof value);
  ASSERT_EQ(::mprotect(memory.data(), bytes, PROT_READ), 0);
  for (const std::uint32_t flags : {0U, TALLY_REGION_STAGE}) {
    tally_region* constant = nullptr;
    ASSERT_EQ(add(memory.data(), bytes, &constant, flags), TALLY_OK) << error();
    tally_operation op = sum(1);
    op.in = {constant, 0};
    EXPECT_EQ(rank_->run(op).status, TALLY_OK);
    EXPECT_EQ(data_[7], 2.5F);
    op.out = {constant, 0};
    EXPECT_EQ(tally_post(session(), &op), TALLY_INVALID_ARGUMENT);
    EXPECT_THAT(error(), AllOf(StartsWith("tag 1: the out region"), HasSubstr("read-only")));
    op.in = {region_, 0};
    EXPECT_EQ(tally_post(session(), &op), TALLY_INVALID_ARGUMENT) << "out of place";
    EXPECT_EQ(tally_region_free(session(), constant), TALLY_OK) << error();
  }
  expect_sum();
}

TEST_F(MisuseTest, MemoryThatIsNotThereOrCannotBeReadIsRefusedAtOnce) {
  tally_region* region = nullptr;
  for (const std::uint32_t flags : {0U, TALLY_REGION_STAGE}) {
    EXPECT_EQ(add(reinterpret_cast<void*>(0x10), 8192, &region, flags), TALLY_INVALID_ARGUMENT);
    EXPECT_THAT(error(), AllOf(HasSubstr("8192 bytes at 0x10"), HasSubstr("not mapped")));
    const Mapping closed = anonymous(8192, PROT_NONE);
    EXPECT_EQ(add(closed.data(), 8192, &region, flags), TALLY_INVALID_ARGUMENT);
    EXPECT_THAT(error(), HasSubstr("cannot be read"));
    const Mapping half = anonymous(8192, PROT_READ | PROT_WRITE);
    ASSERT_EQ(::mprotect(half.data() + 4096, 4096, PROT_NONE), 0);
    EXPECT_EQ(add(half.data(), 8192, &region, flags), TALLY_INVALID_ARGUMENT);
  }
  expect_sum();
}

// -- structs -------------------------------------------------------------------------------------

TEST_F(MisuseTest, AWaitIntoAStructOfNoReleaseTakesNothing) {
  const tally_operation op = sum(1);
  ASSERT_EQ(tally_post(session(), &op), TALLY_OK) << error();
  tally_completion completion{};
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{8}, std::size_t{264}, sizeof completion + 1, SIZE_MAX}) {
    completion.size = size;
    EXPECT_EQ(tally_wait(session(), &completion, 20'000), TALLY_INVALID_ARGUMENT);
    EXPECT_THAT(error(), AllOf(HasSubstr("tally_completion.size " + std::to_string(size)),
                               HasSubstr("sizeof(tally_completion)")));
    EXPECT_EQ(tally_poll(session(), &completion, 1), -TALLY_INVALID_ARGUMENT);
    EXPECT_EQ(tally_run(session(), &op, &completion), TALLY_INVALID_ARGUMENT);
  }
  EXPECT_EQ(tally_wait(session(), nullptr, 0), TALLY_INVALID_ARGUMENT);
  EXPECT_THAT(error(), HasSubstr("completion is NULL"));
  EXPECT_EQ(rank_->wait().tag, 1U) << "it is still there";
}

TEST_F(MisuseTest, AStructThatIsTooSmallIsNamedByItsSize) {
  tally_operation op = sum(1);
  op.size = 8;
  EXPECT_EQ(tally_post(session(), &op), TALLY_INVALID_ARGUMENT);
  EXPECT_THAT(error(), HasSubstr("tally_operation.size 8"));
  tally_memory memory{};
  memory.size = 16;
  tally_region* region = nullptr;
  EXPECT_EQ(tally_region_register(session(), &memory, &region), TALLY_INVALID_ARGUMENT);
  EXPECT_THAT(error(), HasSubstr("tally_memory.size 16"));
  tally_session_info info{};
  EXPECT_EQ(tally_get_info(session(), &info), TALLY_INVALID_ARGUMENT);
  EXPECT_THAT(error(), HasSubstr("tally_session_info.size 0"));
  tally_session_options options{};
  options.size = 4;
  tally_session* none = nullptr;
  EXPECT_EQ(tally_open(&options, &none), TALLY_INVALID_ARGUMENT);
  EXPECT_THAT(tally_last_error(nullptr), HasSubstr("tally_session_options.size 4"));
  EXPECT_EQ(tally_open(nullptr, &none), TALLY_INVALID_ARGUMENT);
  EXPECT_THAT(tally_last_error(nullptr), HasSubstr("tally_session_options is NULL"));
}

// What a newer header has appended is zero, or this library cannot do it.
TEST_F(MisuseTest, AFieldThatThisLibraryDoesNotKnowMustBeZero) {
  struct Newer {
    tally_operation known;
    std::uint64_t appended;
  } newer{sum(1), 0};
  newer.known.size = sizeof newer;
  EXPECT_EQ(tally_post(session(), &newer.known), TALLY_OK) << error();
  EXPECT_EQ(rank_->wait().status, TALLY_OK);
  newer.appended = 1;
  EXPECT_EQ(tally_post(session(), &newer.known), TALLY_INVALID_ARGUMENT);
  EXPECT_THAT(error(), AllOf(HasSubstr("byte " + std::to_string(sizeof(tally_operation))),
                             HasSubstr("zero")));
}

// -- words ---------------------------------------------------------------------------------------

TEST_F(MisuseTest, ACallThatSucceedsLeavesNoWordsOfAnEarlierFailure) {
  tally_operation op = sum(1);
  op.count = 1'000'000'000;
  EXPECT_EQ(tally_post(session(), &op), TALLY_BAD_REGION);
  EXPECT_NE(error(), "");
  tally_session_info info{};
  info.size = sizeof info;
  EXPECT_EQ(tally_get_info(session(), &info), TALLY_OK);
  EXPECT_EQ(error(), "");
  EXPECT_EQ(tally_cancel(session(), 5), TALLY_INVALID_ARGUMENT);
  EXPECT_NE(error(), "");
  expect_sum();
  EXPECT_EQ(error(), "");

  tally_session* none = nullptr;
  EXPECT_NE(tally_open(nullptr, &none), TALLY_OK);
  EXPECT_STRNE(tally_last_error(nullptr), "");
  const Rank another(node_->address(), 0, 1, "another");
  EXPECT_STREQ(tally_last_error(nullptr), "");
}

TEST_F(MisuseTest, PollRefusesWrongArguments) {
  std::array<tally_completion, 2> completions{};
  completions[0].size = sizeof completions[0];
  EXPECT_EQ(tally_poll(session(), completions.data(), 2), 0);
  EXPECT_EQ(tally_poll(session(), completions.data(), 0), 0);
  EXPECT_EQ(tally_poll(session(), completions.data(), -1), -TALLY_INVALID_ARGUMENT);
  EXPECT_THAT(error(), HasSubstr("max -1"));
  EXPECT_EQ(tally_poll(session(), nullptr, 2), -TALLY_INVALID_ARGUMENT);
  EXPECT_THAT(error(), HasSubstr("tally_completion is NULL"));
  EXPECT_EQ(tally_poll(nullptr, completions.data(), 2), -TALLY_INVALID_ARGUMENT);
  EXPECT_THAT(tally_last_error(nullptr), HasSubstr("tally_poll: session is NULL"));
  EXPECT_EQ(tally_fd(nullptr), -1);
  EXPECT_THAT(tally_last_error(nullptr), HasSubstr("tally_fd: session is NULL"));
  EXPECT_EQ(tally_arm(session()), TALLY_OK);
}

TEST_F(MisuseTest, EveryMistypedFieldIsNamedWithWhatItMayBe) {
  const auto refused = [&](auto change, tally_status status, const char* field, const char* may) {
    tally_operation op = sum(1);
    change(op);
    EXPECT_EQ(tally_post(session(), &op), status) << field;
    EXPECT_THAT(error(), AllOf(HasSubstr(field), HasSubstr(may)));
  };
  refused([](auto& op) { op.kind = static_cast<tally_kind>(0); }, TALLY_INVALID_ARGUMENT, "kind 0",
          "TALLY_ALL_REDUCE");
  refused([](auto& op) { op.type = static_cast<tally_type>(9); }, TALLY_INVALID_ARGUMENT, "type 9",
          "TALLY_I64");
  refused([](auto& op) { op.op = static_cast<tally_op>(4); }, TALLY_INVALID_ARGUMENT, "op 4",
          "TALLY_MAX");
  refused([](auto& op) { op.priority = 256; }, TALLY_INVALID_ARGUMENT, "priority 256", "255");
  refused([](auto& op) { op.flags = 12; }, TALLY_INVALID_ARGUMENT, "flags 0xc", "TALLY_WANT_STATS");
  refused(
      [](auto& op) {
        op.kind = TALLY_REDUCE;
        op.root = 1;
      },
      TALLY_INVALID_ARGUMENT, "root 1", "0 to 0");
  refused([](auto& op) { op.count = UINT64_MAX; }, TALLY_INVALID_ARGUMENT,
          "count 18446744073709551615", "at most");
  refused([](auto& op) { op.in.region = nullptr; }, TALLY_INVALID_ARGUMENT, "in.region", "NULL");
  refused([](auto& op) { op.out.region = reinterpret_cast<tally_region*>(8); }, TALLY_BAD_REGION,
          "out.region", "tally_region_register");
  refused([](auto& op) { op.in.offset = 4; }, TALLY_INVALID_ARGUMENT, "in and out", "apart");
  refused([](auto& op) { op.in.offset = op.out.offset = 4; }, TALLY_BAD_REGION, "at offset 4",
          "16384 bytes");
  refused([](auto& op) { op.stream = &op; }, TALLY_INVALID_ARGUMENT, "stream", "NULL");
  expect_sum();
}

TEST_F(MisuseTest, ALostNodeIsNamedByTheCompletionAndByLaterCalls) {
  const std::string address = node_->address();
  Rank first(address, 0, 2, "pair");
  const tally_operation barrier = operation(TALLY_BARRIER, TALLY_F32, 3, 0, {}, {});
  ASSERT_EQ(tally_post(first.session(), &barrier), TALLY_OK) << first.error();
  node_.reset();
  const tally_completion lost = first.wait();
  EXPECT_EQ(lost.status, TALLY_NODE_LOST);
  EXPECT_THAT(std::string(lost.message),
              AllOf(StartsWith("tag 3 round 0: the node at "), HasSubstr(address)));
  EXPECT_EQ(tally_post(first.session(), &barrier), TALLY_NODE_LOST);
  EXPECT_THAT(first.error(),
              AllOf(HasSubstr("the node at " + address), HasSubstr("open a new session")));
}

}  // namespace
}  // namespace tally::testing
