#include "control/node/reports/post_mortem.h"

#include <algorithm>

#include "control/node/reports/job_json.h"
#include "control/node/reports/stuck.h"

namespace tally::control {
namespace {

using nlohmann::json;
using State = protocol::OperationRecord::State;

// Outstanding operations of a shard in a report. With the latest ones they bound its size.
constexpr std::size_t kMostOutstanding = 64;
constexpr std::size_t kMostMissing = 64;  // ranks in each list

std::string_view name_of(State state) {
  switch (state) {
    case State::kGathering:
      return "waiting for ranks";
    case State::kActive:
      return "moving bytes";
    case State::kReported:
    case State::kDraining:
      return "failing";
    case State::kFree:
    case State::kFailed:
      break;
  }
  return "ended";
}

json rank_or_null(std::uint16_t rank) {
  return rank == wire::kNoRank ? json() : json(rank);
}

json first_of(const std::vector<std::uint16_t>& ranks) {
  const auto end =
      ranks.begin() + static_cast<std::ptrdiff_t>(std::min(ranks.size(), kMostMissing));
  return std::vector<std::uint16_t>(ranks.begin(), end);
}

json ended_json(const protocol::TraceRecord& record) {
  json entry = record_json(record);
  entry["first_rank"] = rank_or_null(record.first_rank);
  entry["last_rank"] = rank_or_null(record.last_rank);
  entry["last_notice_ns"] = record.last_notice;
  entry["culprit"] = rank_or_null(record.verdict.culprit);
  return entry;
}

json outstanding_json(const protocol::Outstanding& one) {
  return {{"tag", one.key.tag},
          {"round", one.key.round},
          {"part", one.part},
          {"kind", wire::name(one.kind)},
          {"type", name(one.type)},
          {"count", one.count},
          {"state", name_of(one.state)},
          {"first_rank", rank_or_null(one.first_rank)},
          {"last_rank", rank_or_null(one.last_rank)},
          {"notice_ns", one.notice},
          {"last_notice_ns", one.last_notice},
          {"tiles", one.tiles_in_flight},
          {"missing", first_of(one.missing)},
          {"missing_below", first_of(one.missing_below)}};
}

json shard_json(const ShardPostMortem& shard, std::size_t index) {
  json latest = json::array(), outstanding = json::array();
  for (const auto& record : shard.latest) latest.push_back(ended_json(record));
  for (const auto& one : shard.outstanding) outstanding.push_back(outstanding_json(one));
  return {{"index", index},
          {"latest", std::move(latest)},
          {"parts_outstanding", shard.operations},
          {"outstanding", std::move(outstanding)}};
}

// The rank's state over all shards: its latest announcement at any of them.
json rank_json(const PostMortem& report, std::size_t rank) {
  protocol::RankState all;
  std::uint32_t outstanding = 0;
  for (const ShardPostMortem& shard : report.shards) {
    if (rank >= shard.ranks.size()) continue;
    const protocol::RankState& one = shard.ranks[rank];
    const bool has_joined = all.has_joined || one.has_joined;
    const bool is_gone = all.is_gone || one.is_gone;
    outstanding += one.outstanding;
    if (one.has_last && one.last_notice >= all.last_notice) all = one;
    all.has_joined = has_joined;
    all.is_gone = is_gone;
  }
  json entry = {{"rank", rank},
                {"state", all.is_gone      ? "gone"
                          : all.has_joined ? "joined"
                                           : "not joined"},
                {"parts_outstanding", outstanding}};
  if (all.has_last) {
    entry["last"] = {
        {"tag", all.last_tag}, {"round", all.last_round}, {"notice_ns", all.last_notice}};
  }
  return entry;
}

}  // namespace

PostMortem begin_post_mortem(const JobInstance& instance, std::uint32_t shards, Nanos now) {
  return {.name = instance.name,
          .epoch = instance.epoch,
          .nodes = node_names(instance),
          .taken = now,
          .shards = std::vector<ShardPostMortem>(shards)};
}

ShardPostMortem post_mortem_of(const engine::Shard& shard, protocol::JobId job_id, Nanos now) {
  const protocol::JobInspector& inspect = shard.protocol().inspect();
  return {.latest = inspect.latest(job_id),
          .operations = inspect.operations(job_id),
          .outstanding = inspect.outstanding(job_id, kMostOutstanding),
          .ranks = inspect.rank_states(job_id),
          .health = shard.health(job_id, now)};
}

json post_mortem_json(const PostMortem& report) {
  json shards = json::array(), ranks = json::array();
  std::vector<protocol::Health> health;
  std::size_t most_ranks = 0;
  for (std::size_t i = 0; i < report.shards.size(); ++i) {
    shards.push_back(shard_json(report.shards[i], i));
    health.push_back(report.shards[i].health);
    most_ranks = std::max(most_ranks, report.shards[i].ranks.size());
  }
  for (std::size_t rank = 0; rank < most_ranks; ++rank) ranks.push_back(rank_json(report, rank));
  return {{"name", report.name},       {"epoch", report.epoch},
          {"taken_ns", report.taken},  {"stuck", stuck_json(health, report.nodes, report.taken)},
          {"ranks", std::move(ranks)}, {"shards", std::move(shards)}};
}

}  // namespace tally::control
