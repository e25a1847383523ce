// Regions at the node: when their owner may take them back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "client/connections/shm_connection.h"
#include "client/memory/region.h"
#include "client/operations/operation_book.h"
#include "net/rpc/partition_json.h"
#include "tests/support/control/node_fixture.h"

namespace tally::control {
namespace {

using ::testing::HasSubstr;

// A job of two: rank 0 of this host, on connection 1, and rank 1 of another one, on connection 2.
class NodeRegions : public NodeNetwork {
 protected:
  NodeRegions() {
    near_book_ = enter(1, 0);
    near_ = client::ShmConnection::make({kShards, kCredit}, here_.get()).value();
    EXPECT_EQ(asked(1, "session.attach", json::object(), copies(near_->node_fds()))->error(), "");
    near_->attached();
    add(1, *near_, *near_region_);
    far_book_ = enter(2, 1);
    far_ = link();
    const auto attached = attach(2, *far_);
    EXPECT_TRUE(until([&] { return attached->has_come(); }));
    const json names = attached->result().value("names", json());
    EXPECT_TRUE(far_->attached(names, monotonic_now() + 10 * kSecond).ok());
    add(2, *far_, *far_region_);
  }

  static std::vector<UniqueFd> copies(const std::vector<int>& fds) {
    std::vector<UniqueFd> copied;
    for (const int fd : fds) copied.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    return copied;
  }
  std::unique_ptr<client::OperationBook> enter(rpc::ConnectionId connection, std::uint16_t rank) {
    const auto opened = asked(connection, "session.open",
                              {{"version", 1}, {"job", "two"}, {"ranks", 2}, {"rank", rank}})
                            ->result();
    client::BookConfig config;
    config.partition = rpc::find_partition(opened).value();
    config.rank = rank;
    config.ranks = 2;
    config.epoch = opened.value("epoch", 0U);
    config.credit = kCredit;
    return std::make_unique<client::OperationBook>(std::move(config));
  }
  void add(rpc::ConnectionId connection, client::Connection& link, client::Region& region) {
    auto offer = link.offer(region).value();
    const auto answer = asked(connection, "region.register", offer.params, copies(offer.fds));
    EXPECT_EQ(answer->error(), "");
    region.id = answer->result().value("region", 0U);
  }
  // An all-reduce in place.
  static std::uint32_t post(client::OperationBook& book, client::Connection& link,
                            const client::Region& region) {
    wire::Notice notice;
    notice.tag = 1;
    notice.count = 1000;
    notice.in_region = notice.out_region = region.id;
    notice.deadline_ms = 100'000;
    std::vector<client::Outbound> out;
    EXPECT_EQ(book.post(notice, 0, kForever, out), Status::kOk);
    EXPECT_TRUE(link.send(out.at(0).shard, out[0].notice, {}));
    return out[0].shard;
  }
  // An operation of both; rank 1's contribution stays on its way. Returns the shard that it goes
  // to.
  std::uint32_t start() {
    post(*far_book_, *far_, *far_region_);
    api_.hold();
    const std::uint32_t shard = post(*near_book_, *near_, *near_region_);
    EXPECT_TRUE(until([this] { return api_.held(IBV_WR_RDMA_READ) == 1; }));
    return shard;
  }
  std::shared_ptr<Answer> deregister(rpc::ConnectionId connection, const client::Region& region) {
    return asked(connection, "region.deregister", {{"region", region.id}});
  }
  Status verdict(client::Connection& link, std::uint32_t shard) {
    wire::Completion completion;
    std::array<RingEntry, 1> entry{};
    bool come = false;
    EXPECT_TRUE(until([&] { return come || (come = link.receive(shard, entry) == 1); }));
    return wire::parse(entry[0], completion) == Status::kOk ? completion.status : Status::kInternal;
  }

  std::unique_ptr<client::Region> near_region_ = client::Region::allocate(4096).value();
  std::vector<std::byte> far_memory_ = std::vector<std::byte>(4096);
  std::unique_ptr<client::Region> far_region_ =
      client::Region::borrow(far_memory_.data(), far_memory_.size());
  std::unique_ptr<client::OperationBook> near_book_, far_book_;
  std::unique_ptr<client::ShmConnection> near_;
  std::unique_ptr<client::VerbsConnection> far_;
};

// Rank 0's contribution is looked at when rank 1's has come.
TEST_F(NodeRegions, OneThatAnOperationReadsIsNotTakenFromUnderIt) {
  const std::uint32_t shard = start();
  EXPECT_THAT(deregister(1, *near_region_)->error(), HasSubstr("region 1 is read by an operation"));
  api_.let_go();
  EXPECT_EQ(verdict(*near_, shard), Status::kBadRegion) << "there is no place for the result";
  EXPECT_EQ(verdict(*far_, shard), Status::kBadRegion);
  EXPECT_EQ(deregister(1, *near_region_)->error(), "");
  EXPECT_THAT(deregister(1, *near_region_)->error(), HasSubstr("has no region 1"));
}

// The node reads into memory of its own.
TEST_F(NodeRegions, OneOfAnotherMachineGoesAtOnce) {
  const std::uint32_t shard = start();
  EXPECT_EQ(deregister(2, *far_region_)->error(), "");
  api_.let_go();
  EXPECT_EQ(verdict(*far_, shard), Status::kBadRegion);
  EXPECT_EQ(deregister(1, *near_region_)->error(), "");
}

// Asked for in one go: the second is answered before the first is done, and the number is not
// another region's before the memory of the first is gone.
TEST_F(NodeRegions, ASecondDeregistrationOfANumberTakesNothingFromItsNextOwner) {
  const auto next = client::Region::allocate(4096).value();
  const auto offer = near_->offer(*next).value();
  json params = offer.params;
  params["region"] = near_region_->id;
  const auto first = ask(1, "region.deregister", {{"region", near_region_->id}});
  const auto second = ask(1, "region.deregister", {{"region", near_region_->id}});
  const auto early = ask(1, "region.register", params, copies(offer.fds));
  EXPECT_TRUE(until([&] { return first->has_come() && second->has_come() && early->has_come(); }));
  EXPECT_EQ(first->error(), "");
  EXPECT_THAT(second->error(), HasSubstr("region 1 is being deregistered"));
  EXPECT_THAT(early->error(), HasSubstr("region 1 is being deregistered"));
  EXPECT_EQ(asked(1, "region.register", params, copies(offer.fds))->error(), "");
  EXPECT_TRUE(shards_turn());
  EXPECT_EQ(asked(1, "region.deregister", {{"region", near_region_->id}})->error(), "")
      << "the number is its next owner's still";
}

}  // namespace
}  // namespace tally::control
