// A session while its job's plan changes, where something goes wrong, and without one of the job's
// ranks: with a coordinator whose answers the test gives, and nodes that answer and serve nothing.
#include "client/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "dataplane/transport/shm/segment.h"
#include "tests/support/client/scripted_node.h"

namespace tally::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
namespace shm = transport::shm;

constexpr std::uint32_t kOneAtATime = 1;

std::string socket_path(const char* name) {
  return "/tmp/tally-session-test-" + std::to_string(::getpid()) + "-" + name + ".sock";
}

// Answers the rank's request when the test gives an answer.
class Coordinator {
 public:
  explicit Coordinator(json job)
      : node_(socket_path("c"),
              [this, job = std::move(job)](const std::string& method, const json&) -> json {
                if (method == "job.open") return {{"result", job}};
                return method == "job.next" ? next() : json{{"result", json::object()}};
              }) {}
  ~Coordinator() { end(); }
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  std::string address() const { return node_.address(); }
  void answer_next(json update) {
    const std::lock_guard lock(mutex_);
    updates_.push_back(std::move(update));
    changed_.notify_one();
  }
  // It answers no more requests.
  void end() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_one();
  }

 private:
  json next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_ || !updates_.empty(); });
    if (updates_.empty()) return {};
    json update = std::move(updates_.front());
    updates_.pop_front();
    return {{"result", std::move(update)}};
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<json> updates_;
  bool over_ = false;
  ScriptedNode node_;
};

// The job is at node a, and is to go over to node b.
class SessionPlansTest : public ::testing::Test {
 protected:
  SessionPlansTest() {
    a_.emplace(socket_path("a"), [this](const auto& method, const json& params) {
      return method == "region.register" && a_refuses_ ? no_room() : good(method, params);
    });
    b_.emplace(socket_path("b"), [this](const auto& method, const json& params) {
      return b_script_ ? b_script_(method, params) : good(method, params);
    });
    coordinator_.emplace(placement(3, *a_));
    SessionOptions options;
    options.address = coordinator_->address();
    options.job = "j";
    options.ranks = 2;
    options.checksums = false;
    options.log = [this](int, const std::string& text) { logged_ += text + "\n"; };
    session_ = std::move(Session::open(std::move(options))).value();
    region_ = session_->add_region(Region::allocate(4096).value()).value();
  }
  // The nodes go first: the session does not wait for their completions.
  ~SessionPlansTest() override {
    coordinator_->end();
    a_.reset();
    b_.reset();
    session_.reset();
  }

  static json no_room() { return refusal(Status::kRefused, "no room for it"); }
  json good(const std::string& method, const json& params) {
    if (method == "region.register") {
      return {{"result", {{"region", params.value("region", ++regions_)}}}};
    }
    if (method != "session.open") return {{"result", json::object()}};
    return {{"result",
             {{"epoch", params.at("epoch")},
              {"weights", {65536}},
              {"split_bytes", 4096},
              {"credit", kOneAtATime},
              {"deadline_ms", 100'000}}}};
  }
  static json placement(std::uint32_t epoch, const ScriptedNode& node) {
    const json one = {{"name", "n"},
                      {"host", "elsewhere"},
                      {"tcp", ""},
                      {"unix", node.address()},
                      {"trees", {0}}};
    return {{"epoch", epoch}, {"nodes", {one}}};
  }
  Result<std::uint32_t> post(std::uint32_t tag) {
    Post post;
    post.notice.tag = tag;
    post.notice.count = 16;
    post.in = post.out = region_;
    return session_->post(post);
  }
  template <typename Condition>
  bool polled_until(Condition condition) {
    const Nanos end = monotonic_now() + 20 * kSecond;
    Completed none;
    while (!condition() && monotonic_now() < end) EXPECT_FALSE(session_->poll(none));
    return condition();
  }
  // The rank has sessions and regions at b, and holds its posts.
  bool prepared() {
    json update = placement(4, *b_);
    update["change"] = "prepare";
    coordinator_->answer_next(std::move(update));
    return polled_until([this] { return !b_->requests().empty(); });
  }
  // All know; a still owes what was posted there.
  bool gone_over(const json& first) {
    coordinator_->answer_next({{"change", "decided"}, {"epoch", 4}, {"first", first}});
    coordinator_->answer_next({{"change", "go"}, {"epoch", 4}});
    return polled_until([this] { return logged_.find("uses a new plan") != std::string::npos; });
  }

  std::atomic<bool> a_refuses_ = false;  // regions
  ScriptedNode::Script b_script_;
  std::atomic<std::uint32_t> regions_ = 0;
  std::string logged_;
  std::optional<ScriptedNode> a_, b_;
  std::optional<Coordinator> coordinator_;
  std::unique_ptr<Session> session_;
  Region* region_ = nullptr;
};

// The goodbye is refused and the fence does not close: the rank is lost, its coordinator with it.
TEST_F(SessionPlansTest, ANewNodeThatNeitherTakesARegionNorLetsGoEndsTheSession) {
  const shm::SegmentGeometry geometry{1, kOneAtATime};
  Mapping segment;
  b_script_ = [&](const std::string& method, const json& params) {
    if (method != "region.register" && method != "session.close") return good(method, params);
    segment = shm::map_peer(b_->descriptor(0), geometry.bytes(), "segment").value();
    shm::Segment(segment.data(), geometry).block(0).storing.store(1);
    return no_room();
  };
  ASSERT_TRUE(prepared());
  EXPECT_EQ(post(7).status(), Status::kNodeLost);
  EXPECT_THAT(logged_, HasSubstr("the job's new plan is not taken: no room for it"));
}

// The post needs a region for its statistics. The new node refuses the region, and does not let go
// of the memory that it has.
TEST_F(SessionPlansTest, APostWhoseSideRegionEndsTheSessionIsNotAccepted) {
  const shm::SegmentGeometry geometry{1, kOneAtATime};
  Mapping segment;
  std::atomic<bool> refuses = false;
  b_script_ = [&](const std::string& method, const json& params) {
    if (!refuses || (method != "region.register" && method != "session.close")) {
      return good(method, params);
    }
    segment = shm::map_peer(b_->descriptor(0), geometry.bytes(), "segment").value();
    shm::Segment(segment.data(), geometry).block(0).storing.store(1);
    return no_room();
  };
  ASSERT_TRUE(prepared());
  ASSERT_TRUE(polled_until([this] { return b_->requests().back().first == "region.register"; }));
  refuses = true;
  Post post;
  post.notice.tag = 7;
  post.notice.count = 16;
  post.in = post.out = region_;
  post.stats = true;
  EXPECT_EQ(session_->post(post).status(), Status::kNodeLost);
  EXPECT_EQ(region_->outstanding, 0U);
  Completed none;
  EXPECT_NE(session_->wait(none, monotonic_now() + kSecond).status(), Status::kAgain);
}

// Rounds 0 and 1 of its tag go by the old version, where it finds no credit.
TEST_F(SessionPlansTest, APostThatWaitsKeepsTheRoundThatWasReturned) {
  ASSERT_TRUE(post(9).ok());
  ASSERT_TRUE(prepared());
  const auto round = post(7);
  ASSERT_TRUE(round.ok()) << round.error().message;
  ASSERT_TRUE(gone_over(json::parse("[[7, 2], [9, 1]]")));
  ASSERT_TRUE(session_->cancel(7).ok());
  Completed completed;
  ASSERT_TRUE(session_->poll(completed));
  EXPECT_EQ(completed.status, Status::kCancelled);
  EXPECT_EQ(completed.tag, 7U);
  EXPECT_EQ(completed.round, *round);
}

TEST_F(SessionPlansTest, ARegionThatTheOldNodeRefusesIsTakenBackAtTheNew) {
  ASSERT_TRUE(post(9).ok());
  ASSERT_TRUE(prepared());
  ASSERT_TRUE(gone_over(json::parse("[[9, 1]]")));
  a_refuses_ = true;
  const auto refused = session_->add_region(Region::allocate(4096).value());
  EXPECT_EQ(refused.status(), Status::kRefused);
  const auto requests = b_->requests();
  ASSERT_EQ(requests.back().first, "region.deregister");
  EXPECT_EQ(requests.back().second.at("region"), regions_.load());
  a_refuses_ = false;
  EXPECT_TRUE(session_->add_region(Region::allocate(4096).value()).ok());
}

// A session that waits does nothing until something comes, however many operations are open.
TEST_F(SessionPlansTest, AWaitIsOneSleep) {
  const auto sleeps = [] {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
  };
  ASSERT_TRUE(post(9).ok());
  const auto before = sleeps();
  Completed none;
  const Nanos until = monotonic_now() + 2 * kSecond + 200 * kMillisecond;
  EXPECT_EQ(session_->wait(none, until).status(), Status::kAgain);
  EXPECT_LE(sleeps() - before, 2) << "it looked around in between";
}

// -- a job that goes on without one of its ranks -------------------------------------------------

// Rank 0 of 3, which enters the job at round 4 of tag 7. Rank 1 is left out.
class SessionLeftOutTest : public ::testing::Test {
 protected:
  SessionLeftOutTest() {
    SessionOptions options;
    options.address = coordinator_.address();
    options.job = "j";
    options.ranks = 3;
    options.checksums = false;
    options.on_rank_loss = RankLoss::kFinish;
    session_ = std::move(Session::open(std::move(options))).value();
    region_ = session_->add_region(Region::allocate(4096).value()).value();
  }
  // The node goes first: the session does not wait for its completions.
  ~SessionLeftOutTest() override {
    node_.reset();
    session_.reset();
  }
  Result<std::uint32_t> reduce(std::uint32_t tag, std::uint16_t root) {
    Post post;
    post.notice.kind = wire::Kind::kReduce;
    post.notice.tag = tag;
    post.notice.count = 16;
    post.notice.root = root;
    post.user = tag + 100;
    post.in = post.out = region_;
    return session_->post(post);
  }
  static json answer_of_node(const std::string& method, const json& params) {
    if (method == "region.register") return {{"result", {{"region", params.value("region", 1U)}}}};
    if (method != "session.open") return {{"result", json::object()}};
    return {{"result",
             {{"epoch", 3U},
              {"weights", {65536U}},
              {"split_bytes", 4096U},
              {"credit", 1U},
              {"deadline_ms", 100'000U}}}};
  }
  json answer_of_coordinator(const std::string& method) const {
    if (method == "job.next") return {};
    const json one = {{"name", "n"},
                      {"host", "elsewhere"},
                      {"tcp", ""},
                      {"unix", node_->address()},
                      {"trees", {0U}}};
    return {{"result",
             {{"epoch", 3U},
              {"nodes", {one}},
              {"on_rank_loss", "finish"},
              {"left_out", {1U}},
              {"first", json::array({{7U, 4U}})}}}};
  }

  std::optional<ScriptedNode> node_{std::in_place, socket_path("left-out-n"), answer_of_node};
  ScriptedNode coordinator_{
      socket_path("left-out-c"),
      [this](const std::string& method, const json&) { return answer_of_coordinator(method); }};
  std::unique_ptr<Session> session_;
  Region* region_ = nullptr;
};

TEST_F(SessionLeftOutTest, AnOperationThatNeedsTheRankFailsAtOnce) {
  EXPECT_EQ(session_->book_config().left_out, (std::vector<std::uint16_t>{1}));
  const auto round = reduce(7, 1);
  ASSERT_TRUE(round.ok()) << round.error().message;
  EXPECT_EQ(*round, 4U) << "where the rank enters the job";
  EXPECT_FALSE(session_->arm()) << "there is a completion";
  Completed completed;
  ASSERT_TRUE(session_->wait(completed, 0).ok());
  EXPECT_EQ(completed.status, Status::kPeerLost);
  EXPECT_EQ(completed.culprit, 1);
  EXPECT_EQ(completed.user, 107U);
  EXPECT_EQ(completed.round, 4U);
  EXPECT_EQ(completed.contributors, 0U);
  EXPECT_FALSE(completed.inputs_gone);
  EXPECT_THAT(completed.message, HasSubstr("tag 7 round 4: rank 1 is left out of the job"));
  EXPECT_EQ(region_->outstanding, 0U);
  EXPECT_FALSE(session_->lost());
}

TEST_F(SessionLeftOutTest, OtherOperationsGoToTheNode) {
  ASSERT_TRUE(reduce(7, 1).ok());
  Completed completed;
  ASSERT_TRUE(session_->poll(completed));
  EXPECT_EQ(*reduce(7, 2), 5U);
  EXPECT_EQ(session_->outstanding(), 1U);
  EXPECT_FALSE(session_->poll(completed));
  ASSERT_TRUE(reduce(8, 1).ok()) << "it needs no credit";
  ASSERT_TRUE(session_->wait_for(8, 0, completed).ok());
  EXPECT_EQ(completed.status, Status::kPeerLost);
}

}  // namespace
}  // namespace tally::client
