// The store in etcd, against a fake one.
#include "control/coordinator/store/etcd_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/text/quoted.h"
#include "tests/support/control/coordinator_fixture.h"
#include "tests/support/control/etcd_fixture.h"

namespace tally::control {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class EtcdStoreTest : public EtcdTest {
 protected:
  // A coordinator's store, as the winner of an election gets it.
  std::unique_ptr<EtcdStore> open(etcd::Client& client) {
    for (const json& write :
         {etcd::delete_operation("t/election"), etcd::put_operation("t/election", "me")}) {
      EXPECT_TRUE(call(client, "kv/txn", {{"success", json::array({write})}}).ok());
    }
    const auto term = static_cast<etcd::Revision>(etcd_state_->values.at("t/election").created);
    std::unique_ptr<EtcdStore> store;
    bool over = false;
    EtcdStore::load(
        client, "t/state/", {"t/election", term}, [this](const Error& why) { lost_ = why.message; },
        [&](Result<std::unique_ptr<EtcdStore>> loaded) {
          over = true;
          if (loaded)
            store = std::move(loaded).value();
          else
            lost_ = loaded.error().message;
        });
    EXPECT_TRUE(run_until([&] { return over; }));
    return store;
  }
  void put(etcd::Client& client, const std::string& key, const std::string& value) {
    const json writes = json::array({etcd::put_operation(key, value)});
    EXPECT_TRUE(call(client, "kv/txn", {{"success", writes}}).ok());
  }
  // "settled", or why the store is lost.
  std::string settles(EtcdStore& store) {
    std::string outcome;
    store.when_settled(
        [&](const Outcome& settled) { outcome = settled ? "settled" : settled.error().message; });
    EXPECT_TRUE(run_until([&] { return !outcome.empty(); }));
    return outcome;
  }

  std::string lost_;
};

TEST_F(EtcdStoreTest, TheNextCoordinatorFindsWhatHasSettled) {
  const auto there = client();
  const auto store = open(*there);
  ASSERT_NE(store, nullptr) << lost_;
  const NodeId node = store->next_node();
  store->put(node, member("a"));
  store->put_departed(7, member("gone"));
  store->put_speeds({{"a", {300, 200}}});
  EXPECT_EQ(store->next_epoch(), 1U);
  store->observe_epoch(41);
  EXPECT_EQ(store->next_placement(), 1U);
  for (NodeId other = 100; other < 300; ++other) store->put(other, member("other"));
  store->erase(299);
  EXPECT_EQ(settles(*store), "settled");
  const auto next = open(*there);
  ASSERT_NE(next, nullptr) << lost_;
  EXPECT_EQ(next->members().size(), 200U) << "of several pages and transactions";
  EXPECT_EQ(next->members().at(node).name, "a");
  EXPECT_EQ(next->departed().at(7).name, "gone");
  EXPECT_EQ(next->speeds().at("a").speed, 300U);
  EXPECT_EQ(next->next_epoch(), 42U);
  EXPECT_EQ(next->next_node(), 2U);
  EXPECT_EQ(next->next_placement(), 2U);
}

TEST_F(EtcdStoreTest, CallbacksComeInOrderAndAfterTheirWrites) {
  const auto there = client();
  const auto store = open(*there);
  ASSERT_NE(store, nullptr) << lost_;
  std::string order;
  for (NodeId node = 1; node <= 9; ++node) {
    store->put(node, member("a"));
    store->when_settled([&, node](const Outcome& settled) {
      EXPECT_TRUE(settled.ok());
      EXPECT_TRUE(etcd_.value("t/state/member/" + std::to_string(node)).has_value());
      order += std::to_string(node);
    });
  }
  EXPECT_EQ(order, "") << "etcd has yet to answer";
  EXPECT_TRUE(run_until([&] { return order.size() == 9; }));
  EXPECT_EQ(order, "123456789");
}

TEST_F(EtcdStoreTest, ACoordinatorThatWasStoppedWritesNothingMore) {
  const auto there = client();
  const auto old = open(*there);
  ASSERT_NE(old, nullptr) << lost_;
  old->put(1, member("a"));
  EXPECT_EQ(settles(*old), "settled");
  const auto next = open(*there);  // while the old one stands still
  ASSERT_NE(next, nullptr);
  old->put(1, member("wrong"));
  EXPECT_THAT(settles(*old), HasSubstr("not the coordinator any more"));
  EXPECT_THAT(lost_, HasSubstr("not the coordinator any more"));
  EXPECT_THAT(*etcd_.value("t/state/member/1"), HasSubstr("\"a\""));
  next->put(1, member("b"));
  EXPECT_EQ(settles(*next), "settled");
}

TEST_F(EtcdStoreTest, ACoordinatorThatWasStoppedAnswersNothingMore) {
  const auto there = client();
  const auto old = open(*there);
  ASSERT_NE(old, nullptr) << lost_;
  EXPECT_EQ(settles(*old), "settled") << "etcd proves that its term lasts";
  const auto next = open(*there);
  EXPECT_THAT(settles(*old), HasSubstr("not the coordinator any more"));
}

// A process that stood still finds the answer to its write and a new request at the same time.
TEST_F(EtcdStoreTest, AnAnswerNeedsAProofThatIsNewerThanItsRequest) {
  const auto there = client();
  const auto store = open(*there);
  ASSERT_NE(store, nullptr) << lost_;
  store->put(1, member("a"));
  io_.restart();
  io_.poll_one();  // sends it, and stops before the answer
  const Nanos end = monotonic_now() + kDeadline;
  while (!etcd_.value("t/state/member/1") && monotonic_now() < end) std::this_thread::yield();
  ASSERT_TRUE(etcd_.value("t/state/member/1").has_value());
  {
    const std::lock_guard lock(etcd_state_->mutex);
    etcd_state_->values.erase("t/election");
  }
  EXPECT_THAT(settles(*store), HasSubstr("not the coordinator any more"));
}

// A member of etcd may hold a request back for long, while another member does its repetition.
TEST_F(EtcdStoreTest, AWriteThatArrivesAgainLaterChangesNothing) {
  const auto there = client();
  const auto store = open(*there);
  ASSERT_NE(store, nullptr) << lost_;
  json held;
  etcd_.set_faults(
      [&](const std::string& name, const json& body) -> std::optional<FakeEtcd::Fault> {
        if (name != "kv/txn" || !held.is_null()) return std::nullopt;
        held = body;
        return FakeEtcd::Fault{{.silent = true}};
      });
  store->put(1, member("early"));
  EXPECT_EQ(settles(*store), "settled");
  store->put(1, member("late"));
  EXPECT_EQ(settles(*store), "settled");
  etcd_.set_faults({});
  EXPECT_TRUE(call(*there, "kv/txn", held).ok());
  EXPECT_THAT(*etcd_.value("t/state/member/1"), HasSubstr("late"));
}

TEST_F(EtcdStoreTest, ALostAnswerToAWriteIsNoLoss) {
  const auto there = client();
  const auto store = open(*there);
  ASSERT_NE(store, nullptr) << lost_;
  fail("kv/txn", 2, {{.silent = true}, true});
  store->put(1, member("a"));
  EXPECT_EQ(settles(*store), "settled");
}

TEST_F(EtcdStoreTest, ARefusedWriteLosesTheStore) {
  const auto there = client();
  const auto store = open(*there);
  ASSERT_NE(store, nullptr) << lost_;
  fail("kv/txn", -1, answers(403, 7, "etcdserver: permission denied"));
  store->put(1, member("a"));
  EXPECT_THAT(settles(*store), HasSubstr("permission denied"));
  EXPECT_THAT(settles(*store), HasSubstr("permission denied")) << "for ever";
}

TEST_F(EtcdStoreTest, UnreadableRecordsAreLeftOut) {
  const auto there = client();
  json writes = json::array();
  for (const char* key : {"member/1", "member/x", "departed/2", "job/1", "plan/p", "speeds"}) {
    writes.push_back(etcd::put_operation(std::string("t/state/") + key, "v{\"name\": 3}"));
  }
  ASSERT_TRUE(call(*there, "kv/txn", {{"success", writes}}).ok());
  const auto store = open(*there);
  ASSERT_NE(store, nullptr) << lost_;
  EXPECT_TRUE(store->members().empty() && store->departed().empty() && store->jobs().empty());
  EXPECT_TRUE(store->plans().empty() && store->speeds().empty());
}

// A coordinator that counted from 0 would give numbers again that nodes and ranks still use.
TEST_F(EtcdStoreTest, AnUnreadableNumberIsAnError) {
  const auto there = client();
  for (const char* key : {"last/epoch", "last/node", "last/placement"}) {
    const std::string whole = std::string("t/state/") + key;
    for (const std::string value :
         {"v", "v{\"name\": 3}", "7", "v-7", "v99999999999999999999", "p[\"part/1/1/0\"]", ""}) {
      put(*there, whole, value);
      lost_.clear();
      EXPECT_EQ(open(*there), nullptr) << key << " " << value;
      EXPECT_THAT(lost_, HasSubstr(whole));
      EXPECT_THAT(lost_, HasSubstr(quoted(value, "")));
      EXPECT_THAT(lost_, HasSubstr("write the value that a backup"));
    }
    put(*there, whole, "v7");
    EXPECT_NE(open(*there), nullptr) << lost_;
  }
  put(*there, "t/state/last/epoch", "v4294967296");
  EXPECT_EQ(open(*there), nullptr) << "an epoch has 32 bits";
  put(*there, "t/state/last/epoch", "v" + std::string(100'000, 'x'));
  EXPECT_EQ(open(*there), nullptr);
  EXPECT_LT(lost_.size(), 500U);
}

}  // namespace
}  // namespace tally::control
