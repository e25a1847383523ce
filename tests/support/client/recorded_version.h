// For tests: a version of a plan at one scripted node, with a connection that records.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/versions/plan_versions.h"
#include "tests/support/client/recording_connection.h"
#include "tests/support/client/scripted_node.h"

namespace tally::client {

struct RecordedVersion {
  std::unique_ptr<PlanVersion> version;
  RecordingConnection* connection = nullptr;  // of the version

  // Rank 0 of 2, with one tree at each of two shards.
  explicit RecordedVersion(const ScriptedNode& node, std::uint32_t epoch = 1) {
    auto made = std::make_unique<RecordingConnection>(false);
    connection = made.get();
    std::vector<SessionNode> nodes;
    nodes.push_back(
        {rpc::RpcChannel::connect(node.address(), monotonic_now() + 5 * kSecond).value(),
         std::move(made),
         {0, 1},
         {0, 1}});
    BookConfig config;
    config.partition = protocol::even_partition(2, 1 << 20);
    config.ranks = 2;
    config.epoch = epoch;
    config.credit = 2;
    version =
        std::make_unique<PlanVersion>(config, Nodes(std::move(nodes)), std::vector<std::string>{});
  }
  // Posts an operation to the book of the version, and sends nothing.
  static std::uint32_t post(PlanVersion& version, std::uint32_t tag, Nanos until = kForever) {
    std::vector<Outbound> out;
    wire::Notice notice;
    notice.tag = tag;
    notice.count = 16;
    return version.book.post(notice, tag, until, out) == Status::kOk ? out[0].notice.round
                                                                     : UINT32_MAX;
  }
};

}  // namespace tally::client
