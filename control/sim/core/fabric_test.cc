#include "control/sim/core/fabric.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/support/control/test_plans.h"

namespace tally::simulator {
namespace {

using plan::Passage;

struct Recorder final : Receiver {
  explicit Recorder(Fabric& fabric_of) : fabric(fabric_of) {}
  void delivered(const Message& message) override { came.emplace_back(message.what, fabric.now()); }
  void timer(std::uint32_t number) override { timers.emplace_back(number, fabric.now()); }

  Fabric& fabric;
  std::vector<std::pair<std::uint32_t, double>> came;
  std::vector<std::pair<std::uint32_t, double>> timers;
};

using Came = std::vector<std::pair<std::uint32_t, double>>;

// Machines with NICs of these speeds, in bytes per second, at one switch.
plan::Network star(const std::vector<double>& speeds) {
  std::vector<plan::Vertex> machines;
  for (const double speed : speeds) {
    machines.push_back(plan::machine(plan::Role::kWorker, speed));
  }
  return plan::star_network(machines);
}

Came run(const plan::Network& network, const FabricOptions& options,
         const std::vector<Message>& messages) {
  Passages passages(network);
  Fabric fabric(passages, options);
  Recorder recorder(fabric);
  for (Message message : messages) {
    // The way is given as 10 x from + to.
    message.way = passages.way(message.way / 10, message.way % 10, false);
    fabric.send(message);
  }
  fabric.run(recorder);
  return recorder.came;
}

TEST(Fabric, StoreAndForwardTakesTheTimeOfEachPassage) {
  const FabricOptions options{Order::kFifo, Forwarding::kStore, 0.5};
  EXPECT_EQ(run(star({10, 5}), options, {{1, 10, 0, 7, 0}}), (Came{{7, 1 + 2 + 0.5}}));
}

TEST(Fabric, CutThroughTakesTheTimeOfTheSlowestPassage) {
  const FabricOptions options{Order::kFifo, Forwarding::kCut, 0};
  EXPECT_EQ(run(star({10, 5}), options, {{1, 10, 0, 7, 0}}), (Came{{7, 2}}));
  EXPECT_EQ(run(star({5, 10}), options, {{1, 10, 0, 7, 0}}), (Came{{7, 2}}));
}

TEST(Fabric, AFastPassageIsBusyForNoLongerThanItsBytesTake) {
  const FabricOptions options{Order::kFifo, Forwarding::kCut, 0};
  // Two senders of 5 fill a receiver of 10: both chunks arrive after 2 s and 3 s, and not 4 s.
  EXPECT_EQ(run(star({5, 5, 10}), options, {{2, 10, 0, 1, 0}, {12, 10, 0, 2, 0}}),
            (Came{{1, 2}, {2, 3}}));
}

TEST(Fabric, ChunksOfOnePassageGoOneAfterTheOther) {
  const FabricOptions options{Order::kFifo, Forwarding::kCut, 0};
  EXPECT_EQ(run(star({10, 10}), options, {{1, 10, 2, 1, 0}, {1, 10, 1, 2, 0}, {1, 10, 0, 3, 0}}),
            (Came{{1, 1}, {2, 2}, {3, 3}}));
}

TEST(Fabric, TheOldestGoesFirst) {
  const FabricOptions options{Order::kOldest, Forwarding::kCut, 0};
  EXPECT_EQ(run(star({10, 10}), options, {{1, 10, 2, 1, 0}, {1, 10, 1, 2, 0}, {1, 10, 0, 3, 0}}),
            (Came{{1, 1}, {3, 2}, {2, 3}}));
}

TEST(Fabric, AMachineSumsAChunkWhenAllOfItHasCome) {
  plan::Network network = star({10, 10});
  network.vertices[1].sum = 20;
  Passages passages(network);
  Fabric fabric(passages, {Order::kFifo, Forwarding::kCut, 0});
  Recorder recorder(fabric);
  fabric.send({passages.way(0, 1, true), 10, 0, 1, 0});
  fabric.run(recorder);
  EXPECT_EQ(recorder.came, (Came{{1, 1.5}}));
  const std::vector<double> bytes = fabric.bytes();
  for (std::size_t i = 0; i < passages.size(); ++i) {
    const bool used = passages[i].passage == Passage::kSum ||
                      (passages[i].passage == Passage::kOut && passages[i].from == 0) ||
                      (passages[i].passage == Passage::kIn && passages[i].from == 1) || i == 0 ||
                      i == 3;
    EXPECT_EQ(bytes[i], used ? 10 : 0) << plan::describe(passages[i], network);
  }
}

TEST(Fabric, ANicWithSeveralLinksIsAPassageOfItsOwn) {
  plan::Network network;
  network.vertices = plan::equal_machines(3, 0, 10);
  for (plan::VertexId to = 1; to < 3; ++to) network.links.push_back({0, to, 10});
  Passages passages(network);
  EXPECT_EQ(passages.of(passages.way(0, 1, false)).size(), 2);  // out of 0, and the link
  EXPECT_EQ(passages.way(1, 0, false), kNone);
}

TEST(Fabric, FlowsTakeTurns) {
  const plan::Network network = star({10, 10, 10});
  Passages passages(network);
  EXPECT_EQ(passages.flow(passages.way(0, 1, true)), passages.way(0, 1, false));
  Fabric fabric(passages, {Order::kFair, Forwarding::kStore, 0});
  Recorder recorder(fabric);
  for (std::uint32_t what = 1; what <= 4; ++what) {
    fabric.send({passages.way(0, 1, false), 10, 0, what, 0});
  }
  fabric.send({passages.way(0, 2, false), 10, 0, 5, 0, false});
  fabric.run(recorder);
  std::vector<std::uint32_t> order;
  for (const auto& [what, time] : recorder.came) order.push_back(what);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 2, 5, 3, 4}));
  EXPECT_EQ(fabric.bytes()[0], 40);  // the last one does not count
}

TEST(Fabric, TimersAndPausesKeepTheOrderOfTime) {
  const plan::Network network = star({10, 10});
  Passages passages(network);
  Fabric fabric(passages, {Order::kFifo, Forwarding::kStore, 0});
  Recorder recorder(fabric);
  fabric.send({passages.way(0, 1, false), 10, 0, 1, 0});
  fabric.at(1.5, 3);
  fabric.at(3, 4);
  fabric.run(recorder, 2);
  EXPECT_EQ(recorder.timers, (Came{{3, 1.5}}));
  EXPECT_EQ(recorder.came, (Came{{1, 2}}));
  fabric.run(recorder);
  EXPECT_EQ(recorder.timers.back(), (std::pair<std::uint32_t, double>{4, 3}));
}

}  // namespace
}  // namespace tally::simulator
