// Jobs that a coordinator places at a node.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/node/jobs/admission.h"
#include "tests/support/control/peers.h"

namespace tally::control {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Nanos kNow = 1000 * kSecond;

// Two of four trees, the middle ones.
JobAssignment placement(std::uint64_t id, std::uint32_t epoch, const char* job = "train") {
  JobAssignment made;
  made.id = id;
  made.job = job;
  made.lock.digest = *digest_of("secret");
  made.epoch = epoch;
  made.ranks = 2;
  made.weight = 3;
  made.plan = protocol::weighted_partition({10000, 20000, 30000, 5536}, 1 << 16);
  made.plan_epoch = 9;
  made.trees = {1, 2};
  for (const std::uint32_t tree : made.trees) made.vertices.push_back(protocol::star(tree, 2));
  made.nodes = 3;
  return made;
}

std::vector<std::uint32_t> trees_at(const JobInstance& instance, std::uint32_t shard) {
  std::vector<std::uint32_t> trees;
  for (const protocol::Vertex& vertex : instance.vertices_at(shard)) trees.push_back(vertex.tree);
  return trees;
}

Admission::Applicant applicant(std::uint32_t rank, std::uint32_t epoch,
                               const char* token = "secret") {
  return {"train", tally::testing::shows(token), rank, 2, epoch};
}

template <typename T>
std::string why_not(const Result<T>& result) {
  return result ? "" : result.error().message;
}

TEST(JobAssignment, RanksJoinItWithItsEpoch) {
  Admission admission({.shards = 4}, {});
  const auto placed = admission.place(placement(7, 5), kNow);
  ASSERT_TRUE(placed.ok()) << placed.error().message;
  const JobInstance& instance = *placed->instance;
  EXPECT_EQ(instance.epoch, 5U);
  EXPECT_EQ(instance.weight, 3U);
  EXPECT_EQ(instance.plan, placement(7, 5).plan);
  EXPECT_EQ(admission.highest_epoch(), 5U);
  EXPECT_EQ(admission.placed(7), &instance);
  EXPECT_EQ(admission.placed(8), nullptr);
  const auto first = admission.admit(applicant(0, 5), 11);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->instance, &instance);
  EXPECT_FALSE(first->is_new) << "the shards know it already";
  EXPECT_THAT(why_not(admission.admit(applicant(0, 5), 12)), HasSubstr("is taken by session 11"));
  EXPECT_THAT(why_not(admission.admit(applicant(1, 5, "guess"), 12)), HasSubstr("wrong token"));
  EXPECT_TRUE(admission.admit(applicant(1, 5), 12).ok());
}

TEST(JobAssignment, ShardIndicesAndTreesAreNumberedApart) {
  Admission admission({.shards = 3}, {{"heavy", "", 9, 0}});
  ASSERT_TRUE(admission.admit({.job = "heavy", .ranks = 1}, 1).ok());
  const JobInstance& instance = *admission.place(placement(1, 1), kNow)->instance;
  EXPECT_EQ(instance.shards, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(instance.shard_index(0), 0U);
  EXPECT_THAT(trees_at(instance, 0), ElementsAre(1));
  EXPECT_EQ(instance.shard_index(1), 1U);
  EXPECT_THAT(trees_at(instance, 1), ElementsAre(2));
  EXPECT_EQ(instance.shard_index(2), kNoShardIndex);
  EXPECT_TRUE(trees_at(instance, 2).empty());
}

TEST(JobAssignment, ANodeMayHaveMoreTreesThanShards) {
  Admission admission({.shards = 3, .shards_per_job = 2, .credit = 2}, {});
  JobAssignment many = placement(1, 1);
  many.plan = protocol::even_partition(9, 1 << 16);
  many.trees = {0, 3, 4, 8};
  many.vertices.clear();
  for (const std::uint32_t tree : many.trees) many.vertices.push_back(protocol::star(tree, 2));
  const JobInstance& instance = *admission.place(many, kNow)->instance;
  EXPECT_EQ(instance.shards.size(), 2U);
  EXPECT_THAT(instance.trees(), ElementsAre(0, 3, 4, 8));
  EXPECT_THAT(trees_at(instance, instance.shards[0]), ElementsAre(0, 4));
  EXPECT_THAT(trees_at(instance, instance.shards[1]), ElementsAre(3, 8));
  // An operation over all of them could never be announced.
  many.id = 2;
  many.job = "other";
  many.trees.push_back(6);
  many.vertices.push_back(protocol::star(6, 2));
  EXPECT_THAT(why_not(admission.place(many, kNow)),
              HasSubstr("5 trees at 2 shards need a credit of 3 here, and each of its 2 ranks has "
                        "2: raise shards.credit"));
  Admission shared({.shards = 3, .shards_per_job = 2, .job_credit = 2}, {});
  many.trees.resize(100, 3);
  many.vertices.resize(100, protocol::star(3, 2));
  EXPECT_THAT(why_not(shared.place(many, kNow)), HasSubstr("28: raise shards.job_credit"));
}

// Trees 1 and 2: of the first this node is the root, with "b" and rank 0 below it; in the other a
// vertex below "c".
JobAssignment deep_placement() {
  JobAssignment deep = placement(1, 1);
  deep.stands_in_for = {"b", "c"};
  deep.vertices[0].ranks = {0};
  deep.vertices[0].height = 2;
  deep.vertices[0].child_nodes = {{1, {1}}};
  deep.vertices[1].ranks = {1};
  deep.vertices[1].parent = 0;
  deep.below = {{"z", "tcp:z:1", "", 0}, {"b", "tcp:b:1", "", 3}};
  deep.above = {{"c", "", "unix:/c", 2, 7}};
  deep.buffers = {64 << 10, 4, 2, 1};
  return deep;
}

TEST(JobAssignment, RemoteShardsTravelWithIt) {
  const JobAssignment deep = deep_placement();
  const auto there = parse_job_assignment(to_json(deep));
  ASSERT_TRUE(there.ok()) << there.error().message;
  EXPECT_EQ(there->below, deep.below);
  EXPECT_EQ(there->above, deep.above);
  EXPECT_EQ(there->buffers.total_bytes(), deep.buffers.total_bytes());
  EXPECT_EQ(there->vertices[0].child_nodes.at(0).ranks, deep.vertices[0].child_nodes.at(0).ranks);
  const auto refused = [&](auto spoil) {
    json sent = to_json(deep);
    spoil(sent);
    EXPECT_THAT(why_not(parse_job_assignment(sent)), HasSubstr("without valid \"vertices\""));
  };
  refused([](json& sent) { sent["vertices"][0]["child_nodes"][0]["number"] = 2; });
  refused([](json& sent) { sent["below"][0]["tcp"] = ""; });
  refused([](json& sent) { sent.erase("slots"); });
  refused([](json& sent) { sent["slots"]["bytes"] = 4096; });
  refused([](json& sent) { sent["slots"]["up"] = 0; });
  refused([](json& sent) { sent["slots"]["down"] = 100'000; });
  refused([](json& sent) { sent["slots"]["classes"] = 9; });
}

// A root with a tree at each of 4 shards, and 65 nodes below it in each.
TEST(JobAssignment, ManyRemoteShardsTravel) {
  JobAssignment wide = placement(1, 1);
  wide.plan = protocol::even_partition(4, 1 << 16);
  wide.trees = {0, 1, 2, 3};
  wide.ranks = 65;
  wide.vertices.clear();
  for (const std::uint32_t tree : wide.trees) {
    protocol::Vertex& root = wide.vertices.emplace_back();
    root.tree = tree;
    root.height = 2;
    for (std::uint16_t i = 0; i < wide.ranks; ++i) {
      root.child_nodes.push_back({static_cast<std::uint16_t>(wide.below.size()), {i}});
      wide.below.push_back({"n" + std::to_string(i), "tcp:n:1", "", tree, i + 1U});
    }
  }
  wide.buffers = {64 << 10, 4, 2, 1};
  const auto there = parse_job_assignment(to_json(wide));
  ASSERT_TRUE(there.ok()) << there.error().message;
  EXPECT_EQ(there->below, wide.below);
  EXPECT_EQ(there->vertices, wide.vertices);
  wide.below.resize(kMaxBelow + 1, wide.below[0]);
  EXPECT_THAT(why_not(parse_job_assignment(to_json(wide))),
              HasSubstr("without valid \"vertices\""));
}

TEST(JobAssignment, AShardKnowsItsParentsAndChildNodes) {
  Admission admission({.shards = 2}, {});
  const JobInstance& instance = *admission.place(deep_placement(), kNow)->instance;
  const std::uint32_t root = instance.shards[0], inner = instance.shards[1];
  EXPECT_THAT(instance.below_at(root), ElementsAre(1));
  EXPECT_THAT(instance.above_at(root), ElementsAre());
  EXPECT_THAT(instance.below_at(inner), ElementsAre());
  EXPECT_THAT(instance.above_at(inner), ElementsAre(0));
  EXPECT_EQ(instance.vertices_at(root).at(0).child_nodes.at(0).number, 0U) << "its own number";
  EXPECT_EQ(instance.vertices_at(inner).at(0).parent, 0U);
  EXPECT_EQ(instance.ranks(), 2U);
  EXPECT_EQ(instance.member_at(root, 1), 1U);
  EXPECT_EQ(instance.member_at(root, 3), 2U);
  EXPECT_EQ(instance.member_at(root, 2), kNobody);
  EXPECT_EQ(instance.member_at(inner, 3), kNobody);
  EXPECT_EQ(instance.messages_of(3), 256U + 4 + 2 + 16);
}

TEST(JobAssignment, AChildNodeIsOneThatThePlacementNames) {
  Admission admission({.shards = 2}, {});
  JobInstance& instance = *admission.place(deep_placement(), kNow)->instance;
  const auto child_node = [](const char* name, std::uint32_t shard, const char* token = "secret") {
    return Admission::Applicant{"train", tally::testing::shows(token), 0, 2, 1, name, shard};
  };
  EXPECT_THAT(why_not(admission.admit(child_node("b", 2), 5)), HasSubstr("is below none"));
  EXPECT_THAT(why_not(admission.admit(child_node("c", 2), 5)), HasSubstr("shard 2 of node \"c\""));
  EXPECT_THAT(why_not(admission.admit(child_node("b", 3, "guess"), 5)), HasSubstr("wrong token"));
  const auto admitted = admission.admit(child_node("b", 3), 5);
  ASSERT_TRUE(admitted.ok()) << admitted.error().message;
  EXPECT_EQ(admitted->member, 3U);
  EXPECT_TRUE(instance.is_child_node(3));
  EXPECT_THAT(why_not(admission.admit(child_node("b", 3), 6)), HasSubstr("is taken by session 5"));
  EXPECT_EQ(instance.joined_ranks(), 0U);
  ASSERT_TRUE(admission.admit(applicant(1, 1), 7).ok());
  EXPECT_EQ(instance.joined_ranks(), 1U);
  EXPECT_FALSE(admission.leave(instance, 1));
  EXPECT_TRUE(admission.leave(instance, 3));
}

TEST(JobAssignment, TreesThatThereIsNoRoomForAreRefused) {
  Admission admission({.shards = 2}, {});
  JobAssignment high = deep_placement();
  high.vertices[0].height = 3;
  EXPECT_THAT(why_not(admission.place(high, kNow)), HasSubstr("height 3 here"));
  JobAssignment wide = deep_placement();
  wide.buffers.bytes = 16 << 20;
  EXPECT_THAT(why_not(admission.place(wide, kNow)), HasSubstr("buffers of 16777216 bytes"));
  JobAssignment many = deep_placement();
  many.ranks = 600;
  many.vertices[0].ranks = protocol::star(1, 600).ranks;
  many.vertices[0].ranks.resize(400);
  EXPECT_THAT(why_not(admission.place(many, kNow)), HasSubstr("401 children"));
}

// The ranks are 2 everywhere; the child nodes' trees and buffers need tables too.
TEST(JobAssignment, BooksOfTreesAreCounted) {
  const auto table = [](const JobAssignment& placement) {
    Admission admission({.shards = 2}, {});
    return (*admission.place(placement, kNow)).instance->table_bytes;
  };
  const std::uint64_t stars = table(placement(1, 1));
  const std::uint64_t deep = table(deep_placement());
  JobAssignment wide = deep_placement();
  wide.buffers.up = wide.buffers.down = 64;
  EXPECT_GT(deep, stars);
  EXPECT_GT(table(wide), deep);
  Admission admission({.max_table_bytes = stars, .shards = 2}, {});
  const std::string why = why_not(admission.place(deep_placement(), kNow));
  EXPECT_THAT(why, HasSubstr(fmt::format("a credit of 256 take {} bytes", deep)));
  EXPECT_THAT(why, HasSubstr("2 ranks in 2 trees"));
  EXPECT_TRUE(admission.place(placement(1, 1), kNow).ok());
}

// It is this node's memory, whatever the coordinator wants.
TEST(JobAssignment, BuffersAreCountedForEachShardAndNodeAboveIt) {
  JobAssignment deep = deep_placement();
  deep.buffers = {256 << 10, 64, 64, 1};
  const std::uint64_t each = deep.buffers.total_bytes();
  Admission admission({.max_slot_bytes = each, .shards = 2}, {});
  const auto placed = admission.place(deep, kNow);
  ASSERT_TRUE(placed.ok()) << placed.error().message;
  EXPECT_EQ(placed->instance->buffer_bytes, each);
  JobAssignment other = deep;
  other.job = "other";
  EXPECT_THAT(
      why_not(admission.place(other, kNow)),
      HasSubstr(fmt::format("64 buffers of 262144 bytes each way between nodes take {} bytes "
                            "here; {} of limits.max_slot_bytes {} are taken",
                            each, each, each)));
  EXPECT_TRUE(admission.place(placement(2, 2, "stars"), kNow).ok()) << "they need none";
  // Of two trees with one parent at a shard there is one connection.
  Admission single({.max_slot_bytes = each, .shards = 1}, {});
  deep.vertices[0] = deep.vertices[1];
  deep.vertices[0].tree = 1;
  EXPECT_EQ((*single.place(deep, kNow)).instance->buffer_bytes, each);
}

TEST(JobAssignment, WhoDoesNotKnowItMustAskTheCoordinator) {
  Admission admission({.shards = 4}, {});
  const auto early = admission.admit(applicant(0, 5), 1);
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.status(), Status::kStaleEpoch);
  EXPECT_THAT(early.error().message, HasSubstr("no place here in epoch 5"));
  JobInstance& instance = *admission.place(placement(1, 5), kNow)->instance;
  EXPECT_THAT(why_not(admission.admit(applicant(0, 0), 1)), HasSubstr("spread over 3 nodes"));
  EXPECT_EQ(admission.admit(applicant(0, 4), 1).status(), Status::kStaleEpoch);
  ASSERT_TRUE(admission.admit(applicant(0, 5), 1).ok());
  admission.leave(instance, 0);
  EXPECT_EQ(admission.admit(applicant(1, 5), 2).status(), Status::kStaleEpoch) << "it is over";
}

TEST(JobAssignment, IsRefusedWhereTheJobRuns) {
  Admission admission({.max_jobs = 2, .shards = 4}, {});
  ASSERT_TRUE(admission.admit({"train", tally::testing::shows("secret"), 0, 2}, 1).ok());
  EXPECT_THAT(why_not(admission.place(placement(1, 9), kNow)),
              HasSubstr("runs here already, in epoch 1 with 1 of 2 ranks"));
  EXPECT_TRUE(admission.place(placement(2, 9, "other"), kNow).ok());
  EXPECT_THAT(why_not(admission.place(placement(3, 9, "third"), kNow)), HasSubstr("max_jobs is 2"));
  Admission small({.max_ranks = 1}, {});
  EXPECT_THAT(why_not(small.place(placement(1, 1), kNow)), HasSubstr("max_ranks is 1"));
}

TEST(JobAssignment, ALaterEpochTakesThePlaceOfOneThatNobodyJoined) {
  Admission admission({.max_jobs = 1, .shards = 4}, {});
  JobInstance& old = *admission.place(placement(1, 5), kNow)->instance;
  EXPECT_THAT(why_not(admission.place(placement(2, 5), kNow)), HasSubstr("epoch 5 is over here"));
  EXPECT_FALSE(old.over);
  const auto later = admission.place(placement(2, 6), kNow);
  ASSERT_TRUE(later.ok()) << later.error().message;
  EXPECT_EQ(later->replaced, &old);
  EXPECT_TRUE(old.over);
  admission.release(old);
  EXPECT_TRUE(admission.admit(applicant(0, 6), 1).ok());
}

TEST(JobAssignment, AfterAnOverOneTheNextMayCome) {
  Admission admission({.shards = 4}, {});
  JobInstance& old = *admission.place(placement(1, 5), kNow)->instance;
  ASSERT_TRUE(admission.admit(applicant(0, 5), 1).ok());
  ASSERT_TRUE(admission.admit(applicant(1, 5), 2).ok());
  EXPECT_FALSE(admission.leave(old, 1));
  const auto next = admission.place(placement(2, 6), kNow);
  ASSERT_TRUE(next.ok()) << next.error().message;
  EXPECT_EQ(next->replaced, nullptr);
  EXPECT_NE(next->instance->job_id, old.job_id);
}

TEST(JobAssignment, NobodyWaitsForEverForItsRanks) {
  Admission admission({.shards = 4}, {});
  JobInstance& first = *admission.place(placement(1, 1), kNow)->instance;
  admission.place(placement(2, 1, "other"), kNow + kSecond).value();
  ASSERT_TRUE(admission.admit(applicant(0, 1), 1).ok());
  EXPECT_TRUE(admission.unclaimed(kNow + kPlacementTimeout).empty()) << "the first is claimed";
  EXPECT_EQ(admission.unclaimed(kNow + kSecond + kPlacementTimeout).size(), 1U);
  EXPECT_TRUE(admission.leave(first, 0));
  EXPECT_EQ(admission.unclaimed(kNow + kSecond + kPlacementTimeout).size(), 1U);
}

TEST(JobAssignment, TravelsAndIsCheckedOnArrival) {
  const auto there = parse_job_assignment(to_json(placement(7, 5)));
  ASSERT_TRUE(there.ok()) << there.error().message;
  EXPECT_EQ(to_json(*there), to_json(placement(7, 5)));
  EXPECT_EQ(there->plan_epoch, 9U);
  EXPECT_EQ(there->vertices.size(), 2U) << "stars that nobody spoke of";
  const auto wrong = [](const char* key, const json& value) {
    json sent = to_json(placement(7, 5));
    sent[key] = value;
    return why_not(parse_job_assignment(sent));
  };
  EXPECT_THAT(wrong("epoch", 0), HasSubstr("\"epoch\" is 0"));
  EXPECT_THAT(wrong("ranks", 2000), HasSubstr("\"ranks\" is 2000"));
  EXPECT_THAT(wrong("job", 7), HasSubstr("\"job\" must be a string"));
  for (const json& plan : {json(), json::array(), json{{"trees", 4}},
                           json{{"trees", 4}, {"classes", json::array()}}}) {
    EXPECT_THAT(wrong("plan", plan), HasSubstr("without a valid \"plan\"")) << plan;
  }
  json before = to_json(placement(7, 5));
  before.erase("plan");
  EXPECT_EQ(parse_job_assignment(before)->plan, placement(7, 5).plan)
      << "as the previous version sends it";
  before.erase("weights");
  EXPECT_FALSE(parse_job_assignment(before).ok());
  for (const json& trees :
       {json(), json::array(), json::array({4}), json::array({1, 1}), json::array({2, 1}),
        json::array({0.5}), json::array({0, 1, 2, 3, 4})}) {
    EXPECT_THAT(wrong("trees", trees), HasSubstr("not trees of its plan")) << trees;
  }
  for (const json& rails : {json(), json::array({0, 1, 2, 3, 4}), json::array({16}), json(1)}) {
    EXPECT_THAT(wrong("rails", rails), HasSubstr("not one number for each tree")) << rails;
  }
  JobAssignment with_rails = placement(7, 5);
  with_rails.rails.assign(with_rails.trees.size(), 1);
  EXPECT_EQ(parse_job_assignment(to_json(with_rails))->rails, with_rails.rails);
  EXPECT_FALSE(parse_job_assignment(json::array()).ok());
  EXPECT_EQ(wrong("later", "news"), "") << "a later release may send more";
}

TEST(JobAssignment, MayLeaveRanksOut) {
  JobAssignment sent = placement(7, 5);
  sent.ranks = 3;
  sent.rank_loss = {.finishes = true};
  sent.left_out = {1};
  for (protocol::Vertex& vertex : sent.vertices) vertex.ranks = {0, 2};
  const auto there = parse_job_assignment(to_json(sent));
  ASSERT_TRUE(there.ok()) << there.error().message;
  EXPECT_EQ(there->left_out, sent.left_out);
  EXPECT_EQ(there->rank_loss, sent.rank_loss);
  EXPECT_EQ(there->vertices, sent.vertices);
  json wrong = to_json(sent);
  wrong["left_out"] = {3U};
  EXPECT_THAT(why_not(parse_job_assignment(wrong)), HasSubstr("\"left_out\" are not ranks"));
  wrong.erase("left_out");
  EXPECT_THAT(why_not(parse_job_assignment(wrong)), HasSubstr("without valid \"vertices\""))
      << "as a node of an older release finds it";
  wrong["on_rank_loss"] = "perhaps";
  EXPECT_THAT(why_not(parse_job_assignment(wrong)), HasSubstr("valid \"on_rank_loss\""));
}

TEST(JobAssignment, AJobThatMayGoOnWithoutRanksHasNoEagerResults) {
  for (const bool finishes : {false, true}) {
    Admission admission({.shards = 4}, {});
    JobAssignment assignment = placement(7, 5);
    assignment.rank_loss.finishes = finishes;
    const auto placed = admission.place(assignment, kNow);
    ASSERT_TRUE(placed.ok()) << placed.error().message;
    EXPECT_EQ(placed->instance->spec_at(0).eager_results, !finishes);
  }
}

}  // namespace
}  // namespace tally::control
