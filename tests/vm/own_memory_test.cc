// A program that uses libibverbs itself, and gives Tally its protection domain and the memory that
// it has registered in it. In a guest with the devices rxe1 (the node's) to rxe3 (the ranks').
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <numeric>

#include "base/system/fd.h"
#include "tests/e2e/local_node.h"
#include "tests/e2e/ranks.h"

namespace tally::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kRanks = 2;
constexpr std::size_t kCount = 300'001;
constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

// What such a program has before it knows of Tally. Nothing of Tally's may be left in it at its
// end.
class Program {
 public:
  explicit Program(const std::string& name) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    for (int i = 0; i < count; ++i) {
      if (name == ibv_get_device_name(list[i])) context_ = ibv_open_device(list[i]);
    }
    ibv_free_device_list(list);
    if (context_ == nullptr) throw std::runtime_error("there is no " + name);
    domain_ = ibv_alloc_pd(context_);
  }
  ~Program() {
    for (ibv_mr* region : regions_) EXPECT_EQ(ibv_dereg_mr(region), 0);
    EXPECT_EQ(ibv_dealloc_pd(domain_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  ibv_pd* domain() const { return domain_; }
  ibv_mr* keep(ibv_mr* region) {
    if (region == nullptr) throw std::runtime_error("memory cannot be registered");
    return regions_.emplace_back(region);
  }
  template <typename T>
  ibv_mr* add(std::vector<T>& memory, int access = kAll) {
    return keep(ibv_reg_mr(domain_, memory.data(), memory.size() * sizeof(T), access));
  }

 private:
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  std::vector<ibv_mr*> regions_;
};

std::string device_of(std::uint32_t rank) {
  return "rxe" + std::to_string(rank + 2);
}

class Session {
 public:
  Session(const LocalNode& node, std::uint32_t rank, std::uint32_t ranks, ibv_pd* domain,
          const char* transport = nullptr, tally_checksums checksums = TALLY_CHECKSUMS_OFF) {
    tally_session_options options{};
    options.size = sizeof options;
    options.address = node.address().c_str();
    options.rank = rank;
    options.ranks = ranks;
    options.ibv_pd = domain;
    options.transport = transport;
    options.checksums = checksums;
    options.log_context = &message;
    options.log = [](void* context, int, const char* text) {
      static_cast<std::string*>(context)->append(text).append("\n");
    };
    status = tally_open(&options, &session);
    if (status != TALLY_OK) message = tally_last_error(nullptr);
  }
  ~Session() { tally_close(session); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  static tally_memory of(ibv_mr* registration) {
    tally_memory memory{};
    memory.size = sizeof memory;
    memory.ibv_mr = registration;
    return memory;
  }
  tally_region* add(const tally_memory& memory) {
    tally_region* region = nullptr;
    EXPECT_EQ(tally_region_register(session, &memory, &region), TALLY_OK) << words();
    return region;
  }
  tally_completion run(const tally_operation& operation) {
    tally_completion completion{};
    completion.size = sizeof completion;
    EXPECT_EQ(tally_run(session, &operation, &completion), TALLY_OK) << words();
    return completion;
  }
  std::string words() const { return tally_last_error(session); }

  tally_session* session = nullptr;
  tally_status status = TALLY_OK;
  std::string message;
};

void expect_sums(const std::int32_t* values, std::size_t count) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i)
    wrong += values[i] != static_cast<std::int32_t>(2 * i + 1);
  EXPECT_EQ(wrong, 0U);
}

TEST(OwnMemory, RanksReduceInWhatTheyHaveRegistered) {
  LocalNode node;
  on_each_rank(kRanks, [&](std::uint32_t rank) {
    Program program(device_of(rank));
    std::vector<std::int32_t> values(kCount), sums(kCount);
    std::iota(values.begin(), values.end(), static_cast<std::int32_t>(rank));
    ibv_mr* whole = program.add(values);
    // Under another address, and a piece of it.
    const std::uint64_t another =
        (std::uint64_t{1} << 40) + reinterpret_cast<std::uintptr_t>(sums.data()) % 4096;
    ibv_mr* elsewhere =
        program.keep(ibv_reg_mr_iova(program.domain(), sums.data(), kCount * 4, another, kAll));
    Session session(node, rank, kRanks, program.domain());
    ASSERT_EQ(session.status, TALLY_OK) << session.message;
    EXPECT_THAT(session.message, HasSubstr("transport verbs (" + device_of(rank) + " port 1"));
    EXPECT_THAT(session.message, HasSubstr("in the caller's ibv_pd"));
    tally_region* in = session.add(Session::of(whole));
    tally_memory piece = Session::of(elsewhere);
    piece.iova = another;
    piece.data = sums.data() + 1;
    tally_region* out = session.add(piece);
    auto done =
        session.run(operation(TALLY_ALL_REDUCE, TALLY_I32, 1, kCount - 1, {in, 0}, {out, 0}));
    ASSERT_EQ(done.status, TALLY_OK) << done.message;
    expect_sums(sums.data() + 1, kCount - 1);
    EXPECT_EQ(sums[0], 0);
    done = session.run(operation(TALLY_ALL_REDUCE, TALLY_I32, 2, kCount, {in, 0}, {in, 0}));
    ASSERT_EQ(done.status, TALLY_OK) << done.message;
    expect_sums(values.data(), kCount);
    EXPECT_EQ(tally_region_free(session.session, in), TALLY_OK) << session.words();
  });
}

// Here it is memory of the host; the library is told otherwise, and does not look.
TEST(OwnMemory, MemoryOfADeviceIsReduced) {
  LocalNode node;
  on_each_rank(kRanks, [&](std::uint32_t rank) {
    Program program(device_of(rank));
    std::vector<std::int32_t> values(kCount);
    std::iota(values.begin(), values.end(), static_cast<std::int32_t>(rank));
    tally_memory memory = Session::of(program.add(values));
    memory.kind = TALLY_MEMORY_CUDA;
    Session session(node, rank, kRanks, program.domain());
    ASSERT_EQ(session.status, TALLY_OK) << session.message;
    tally_region* region = session.add(memory);
    auto op = operation(TALLY_ALL_REDUCE, TALLY_I32, 1, kCount, {region, 0}, {region, 0});
    op.flags = TALLY_WANT_STATS;
    const auto done = session.run(op);
    ASSERT_EQ(done.status, TALLY_OK) << done.message;
    expect_sums(values.data(), kCount);
  });
}

TEST(OwnMemory, MemoryOfADeviceHasNoChecksums) {
  LocalNode node;
  Program program("rxe2");
  std::vector<std::int32_t> values(kCount);
  tally_memory memory = Session::of(program.add(values));
  memory.kind = TALLY_MEMORY_CUDA;
  Session session(node, 0, 1, program.domain(), nullptr, TALLY_CHECKSUMS_ON);
  ASSERT_EQ(session.status, TALLY_OK) << session.message;
  tally_region* region = session.add(memory);
  const auto op = operation(TALLY_ALL_REDUCE, TALLY_I32, 1, kCount, {region, 0}, {region, 0});
  EXPECT_EQ(tally_post(session.session, &op), TALLY_UNSUPPORTED);
  EXPECT_THAT(session.words(), HasSubstr("memory of a device"));
}

TEST(OwnMemory, RightsThatAreMissingAreHintedAt) {
  LocalNode node;
  Program program("rxe2");
  std::vector<std::int32_t> values(kCount);
  ibv_mr* registration = program.add(values, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  Session session(node, 0, 1, program.domain());
  ASSERT_EQ(session.status, TALLY_OK) << session.message;
  tally_region* region = session.add(Session::of(registration));
  const auto done =
      session.run(operation(TALLY_ALL_REDUCE, TALLY_I32, 1, kCount, {region, 0}, {region, 0}));
  EXPECT_EQ(done.status, TALLY_NODE_LOST) << done.message;
  EXPECT_THAT(session.message, HasSubstr("IBV_ACCESS_REMOTE_WRITE?"));
}

TEST(OwnMemory, WhatCannotBeUsedIsRefused) {
  LocalNode node;
  Program program("rxe2"), other("rxe3");
  std::vector<std::int32_t> values(kCount);
  const Session shm(node, 0, 1, program.domain(), "shm");
  EXPECT_EQ(shm.status, TALLY_INVALID_ARGUMENT);
  EXPECT_THAT(shm.message, HasSubstr("ibv_pd works only with transport verbs"));
  const Session elsewhere(node, 0, 1, program.domain(), "verbs:rxe1");
  EXPECT_EQ(elsewhere.status, TALLY_INVALID_ARGUMENT);
  EXPECT_THAT(elsewhere.message, HasSubstr("the ibv_pd is of device rxe2"));
  Session session(node, 0, 1, program.domain());
  ASSERT_EQ(session.status, TALLY_OK) << session.message;
  tally_region* region = nullptr;
  tally_memory memory = Session::of(other.add(values));
  EXPECT_EQ(tally_region_register(session.session, &memory, &region), TALLY_INVALID_ARGUMENT);
  EXPECT_THAT(session.words(), HasSubstr("another protection domain"));
  // Soft-RoCE imports no dma-bufs.
  const UniqueFd pages(::memfd_create("pages", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  memory = Session::of(nullptr);
  memory.kind = TALLY_MEMORY_DMABUF;
  memory.fd = pages.get();
  memory.bytes = 4096;
  EXPECT_EQ(tally_region_register(session.session, &memory, &region), TALLY_UNSUPPORTED);
  EXPECT_THAT(session.words(), HasSubstr("rxe2 does not import dma-bufs"));
  EXPECT_EQ(region, nullptr);
}

}  // namespace
}  // namespace tally::testing
